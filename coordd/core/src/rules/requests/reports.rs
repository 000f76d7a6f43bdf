//! What agent processes say about their messages and runs.

use alloc::string::ToString as _;
use alloc::vec::Vec;

use crate::rules::call::{Call, Said, Verdict};
use crate::rules::turn::Turn;
use crate::rules::{outbox, runs};
use crate::state::Record;
use crate::state::agent::{Agent, Outcome};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::id::MessageId;
use crate::state::message::Sender;
use crate::state::outgoing;
use crate::state::role::Role;

pub(super) fn acknowledge(
    call: &Call,
    turn: &mut Turn<'_>,
    messages: &[MessageId],
    run: u32,
) -> Verdict {
    let agent = call.agent(turn.durable)?;
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
    if let Some(link) = turn.live.links.get_mut(&agent.id) {
        for id in &own {
            link.handed.remove(id);
        }
    }
    if !own.is_empty() {
        for id in &own {
            tell_far(turn, agent, *id, run);
        }
        let at_ms = turn.now.wall_ms;
        turn.record(Record::MessagesConsumed {
            agent: agent.id.clone(),
            messages: own,
            run,
            at_ms,
        });
    }
    Ok(Said::Now(Answer::Done))
}

/// The sender on another machine learns that the message was read (M-11).
fn tell_far(turn: &mut Turn<'_>, agent: &Agent, id: MessageId, run: u32) {
    let Some(message) = turn.durable.messages.get(&id) else { return };
    if let Sender::Outside(from) = &message.from
        && from.address.peer().is_some()
    {
        let is_late = agent.far_lead().is_some() && run <= agent.runs;
        let verdict =
            if is_late { outgoing::Verdict::ReadBefore } else { outgoing::Verdict::Consumed };
        outbox::give_back(turn, message, verdict, "");
    }
}

fn counts_from_1() -> Denial {
    Denial::Invalid { field: "run", why: "counts from 1".to_string() }
}

pub(super) fn run_ended(call: &Call, turn: &mut Turn<'_>, run: u32, outcome: Outcome) -> Verdict {
    let agent = call.agent(turn.durable)?;
    if agent.is_external() {
        let why = "has no runs: its process is a program of the user's".to_string();
        return Err(Denial::Invalid { field: "run", why });
    }
    if run == 0 {
        return Err(counts_from_1());
    }
    // The end of a run that is recorded already is only confirmed again (N-4).
    runs::end(turn, agent, run, outcome);
    let stopping = matches!(agent.life, crate::state::agent::Life::Stopping { .. });
    Ok(Said::Now(Answer::RunRecorded { exit: agent.role == Role::Worker || stopping }))
}
