//! What agent processes say about their messages and runs.

use super::{Call, Said, Verdict};
use crate::rules::{Step, host, lifecycle, outside};
use crate::state::agent::{Agent, Outcome};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::id::MessageId;
use crate::state::message::{Sender, State};
use crate::state::outgoing;
use crate::state::role::Role;
use crate::state::{Effect, Live, Record};
use alloc::string::ToString as _;
use alloc::vec::Vec;

pub(super) fn acknowledge(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    messages: &[MessageId],
    run: u32,
) -> Verdict {
    let agent = call.durable.agents.get(call.agent()?).ok_or(Denial::BadCredentials)?;
    let run = match run {
        // Nobody knows when an external one works: it has no runs.
        _ if agent.is_external() => 0,
        0 => return Err(counts_from_1()),
        run => run,
    };
    // Only what is in its own mailbox; repeated acknowledgements find nothing and change nothing.
    let mut own: Vec<_> = messages.iter().filter(|id| agent.has_mail(**id)).copied().collect();
    own.sort_unstable();
    own.dedup();
    if let Some(link) = live.links.get_mut(&agent.id) {
        for id in &own {
            link.handed.remove(id);
        }
    }
    if !own.is_empty() {
        for id in &own {
            let event = Event::MessageChanged { message: *id, state: State::Consumed };
            step.effect(Effect::Publish { session: agent.session.clone(), event });
            tell_far(call, step, agent, *id, run);
        }
        let at_ms = call.now.wall_ms;
        step.record(Record::MessagesConsumed {
            agent: agent.id.clone(),
            messages: own,
            run,
            at_ms,
        });
        live.touch(&agent.id);
    }
    Ok(Said::Now(Answer::Done))
}

/// Whoever wrote from another machine learns that it was read (M-11).
fn tell_far(call: &Call<'_>, step: &mut Step, agent: &Agent, id: MessageId, run: u32) {
    let Some(message) = call.durable.messages.get(&id) else { return };
    if let Sender::Outside(from) = &message.from
        && from.address.starts_with("bridge:")
    {
        let is_late = agent.far_lead().is_some() && run <= agent.runs;
        let reason = if is_late { host::READ_BEFORE } else { "" };
        let verdict = outgoing::Verdict::Consumed;
        outside::give_back(call.durable, step, call.now, message, verdict, reason);
    }
}

fn counts_from_1() -> Denial {
    Denial::Invalid { field: "run", why: "counts from 1".to_string() }
}

pub(super) fn run_ended(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    run: u32,
    outcome: Outcome,
) -> Verdict {
    let agent = call.durable.agents.get(call.agent()?).ok_or(Denial::BadCredentials)?;
    if agent.is_external() {
        let why = "is of an agent without runs: its process is a program of the user's".to_string();
        return Err(Denial::Invalid { field: "run", why });
    }
    if run == 0 {
        return Err(counts_from_1());
    }
    // The end of a run that is recorded already is only confirmed again (N-4).
    lifecycle::end_run(call.durable, live, step, call.now, agent, run, outcome);
    let stopping = matches!(agent.life, crate::state::agent::Life::Stopping { .. });
    Ok(Said::Now(Answer::RunRecorded { exit: agent.role == Role::Worker || stopping }))
}
