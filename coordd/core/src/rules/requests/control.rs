//! The daemon itself, what a lead says at the end, and who listens.

use super::{Call, Said, Verdict, agents};
use crate::rules::{Step, route};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::{Event, Order};
use crate::state::id::SessionId;
use crate::state::{Effect, Live, Record, limits};
use alloc::string::String;

pub(super) fn stop_daemon(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    keep_agents: bool,
) -> Said {
    // Answered first: the connection may not outlive what follows.
    step.effect(super::reply(call.peer, call.id, Ok(Answer::Done)));
    crate::rules::decide::terminate(call.durable, live, step, call.now, keep_agents);
    Said::ByShell
}

pub(super) fn interrupt(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    session: &str,
) -> Verdict {
    let session = route::session(call.durable, session)?;
    if let Some(lead) = call.durable.agents.get(&session.lead).filter(|it| it.is_external()) {
        return Err(Denial::External { path: route::path(call.durable, lead) });
    }
    if let Some(peer) = live.links.get(&session.lead).and_then(|link| link.peer) {
        step.effect(Effect::Order { peer, order: Order::Interrupt });
    }
    Ok(Said::Now(Answer::Done))
}

pub(super) fn output(call: &Call<'_>, step: &mut Step, output: String) -> Verdict {
    let agent = call.durable.agents.get(call.agent()?).ok_or(Denial::BadCredentials)?;
    if output.len() > limits::OUTPUT_LEN_MAX {
        return Err(Denial::TooLarge {
            field: "output",
            len: output.len(),
            max: limits::OUTPUT_LEN_MAX,
        });
    }
    // Case B4: "all done" before the workers are.
    agents::none_works(call, &agent.session)?;
    step.record(Record::OutputGiven { session: agent.session.clone(), output });
    step.effect(Effect::Publish { session: agent.session.clone(), event: Event::Output });
    Ok(Said::Now(Answer::Done))
}

/// The session that is meant, or all for an empty word.
pub(super) fn one_or_all(call: &Call<'_>, session: &str) -> Result<Option<SessionId>, Denial> {
    if session.is_empty() {
        Ok(None)
    } else {
        route::session(call.durable, session).map(|it| Some(it.id.clone()))
    }
}

pub(super) fn subscribe(
    call: &Call<'_>,
    step: &mut Step,
    session: &str,
    after: Option<u64>,
) -> Verdict {
    let session = one_or_all(call, session)?;
    step.effect(Effect::Subscribe { session, after, peer: call.peer, call: call.id });
    Ok(Said::ByShell)
}

pub(super) fn attach(
    call: &Call<'_>,
    step: &mut Step,
    session: &str,
    agent: &str,
    history: Option<u32>,
) -> Verdict {
    let session = route::session(call.durable, session)?;
    let agent = if agent.is_empty() {
        session.lead.clone()
    } else {
        route::agent_in(call.durable, &session.id, agent)?.id.clone()
    };
    let session = session.id.clone();
    step.effect(Effect::Attach { session, agent, history, peer: call.peer, call: call.id });
    Ok(Said::ByShell)
}
