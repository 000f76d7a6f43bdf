//! The daemon itself, what a lead says at the end, and who listens.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::rules::call::{Call, Said, Verdict, reply};
use crate::rules::turn::Turn;
use crate::rules::{ending, route};
use crate::state::Durable;
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::Order;
use crate::state::id::SessionId;
use crate::state::role::Role;
use crate::state::{Effect, Record, limits};

pub(super) fn stop_daemon(call: &Call, turn: &mut Turn<'_>, keep_agents: bool) -> Said {
    // Answered first: the connection may not outlive what follows.
    turn.effect(reply(call.peer, call.id, Ok(Answer::Done)));
    ending::terminate(turn, keep_agents);
    Said::ByShell
}

pub(super) fn interrupt(turn: &mut Turn<'_>, session: &str) -> Verdict {
    let session = route::session(turn.durable, session)?;
    if let Some(lead) = turn.durable.agents.get(&session.lead).filter(|it| it.is_external()) {
        return Err(Denial::External { path: route::path(turn.durable, lead) });
    }
    if let Some(peer) = turn.live.links.get(&session.lead).and_then(|link| link.peer) {
        turn.effect(Effect::Order { peer, order: Order::Interrupt });
    }
    Ok(Said::Now(Answer::Done))
}

pub(super) fn output(call: &Call, turn: &mut Turn<'_>, output: String) -> Verdict {
    let agent = call.agent(turn.durable)?;
    if output.len() > limits::OUTPUT_LEN_MAX {
        return Err(Denial::TooLarge {
            field: "output",
            len: output.len(),
            max: limits::OUTPUT_LEN_MAX,
        });
    }
    // Case B4: "all done" before the workers are.
    none_works(turn.durable, &agent.session)?;
    turn.record(Record::OutputGiven { session: agent.session.clone(), output });
    Ok(Said::Now(Answer::Done))
}

/// Refuses what is for when no worker of the session is at work, and names those that are.
pub(super) fn none_works(durable: &Durable, session: &SessionId) -> Result<(), Denial> {
    let agents = durable.agents_of(session);
    let works = agents.iter().filter(|it| it.role == Role::Worker && it.has_work());
    let names: Vec<_> = works.map(|it| it.name.to_string()).collect();
    if names.is_empty() { Ok(()) } else { Err(Denial::WorkersRun { names }) }
}

/// The session that is meant, or all for an empty word.
pub(super) fn one_or_all(turn: &Turn<'_>, session: &str) -> Result<Option<SessionId>, Denial> {
    if session.is_empty() {
        Ok(None)
    } else {
        route::session(turn.durable, session).map(|it| Some(it.id.clone()))
    }
}

pub(super) fn subscribe(
    call: &Call,
    turn: &mut Turn<'_>,
    session: &str,
    after: Option<u64>,
) -> Verdict {
    let session = one_or_all(turn, session)?;
    turn.effect(Effect::Subscribe { session, after, peer: call.peer, call: call.id });
    Ok(Said::ByShell)
}

pub(super) fn attach(
    call: &Call,
    turn: &mut Turn<'_>,
    session: &str,
    agent: &str,
    history: Option<u32>,
) -> Verdict {
    let session = route::session(turn.durable, session)?;
    let agent = if agent.is_empty() {
        session.lead.clone()
    } else {
        route::agent_in(turn.durable, &session.id, agent)?.id.clone()
    };
    let session = session.id.clone();
    turn.effect(Effect::Attach { session, agent, history, peer: call.peer, call: call.id });
    Ok(Said::ByShell)
}
