//! A program of the user's joins a session: as its lead, when that was made to be one, or as a peer.
//!
//! ```text
//!   join ──▶ Up, a new incarnation ──process ended, or its connection lost for long──▶ Down: its mail waits
//!              ▲                                                                        │
//!              └───────────────────────── join again ───────────────────────────────────┘
//! ```
//!
//! Nothing here starts a process. Who joins is known by the process at the other end of the connection, which the shell says.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::{String, ToString as _};

use crate::rules::call::{Said, Verdict};
use crate::rules::turn::Turn;
use crate::rules::{making, route, starting};
use crate::state::agent::{Agent, Life, Process, Runtime};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::live::{Link, Seen};
use crate::state::name::Name;
use crate::state::request::Join;
use crate::state::role::Role;
use crate::state::secret;
use crate::state::session::{Session, SessionState};
use crate::state::{Effect, Record, limits};

pub(super) fn join(turn: &mut Turn<'_>, join: Join) -> Verdict {
    let session = route::session(turn.durable, &join.session)?;
    if turn.live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    if session.state == SessionState::Stopped {
        return Err(Denial::SessionStopped { name: session.name.to_string() });
    }
    let process = join.process.ok_or(Denial::OutOfSight)?;
    let agent = match join.role {
        Role::Coordinator => lead(turn, session, &process)?,
        Role::Peer => peer(turn, session, &join.name, &process)?,
        Role::Lead | Role::Worker => {
            let why = "must be `coordinator` or `peer`".to_owned();
            return Err(Denial::Invalid { field: "role", why });
        }
    };
    let token = begin(turn, &agent, process);
    Ok(Said::Now(Answer::Joined { agent: agent.id, token }))
}

fn lead(turn: &Turn<'_>, session: &Session, process: &Process) -> Result<Agent, Denial> {
    let lead = turn.durable.agents.get(&session.lead).ok_or(Denial::BadCredentials)?;
    if !lead.is_external() {
        return Err(Denial::NotExternal { path: route::path(turn.durable, lead) });
    }
    check_free(turn, lead, process)?;
    Ok(lead.clone())
}

/// The named peer, or the first that is free, or a new one. Its name is its own for ever, and so is its mail.
fn peer(
    turn: &mut Turn<'_>,
    session: &Session,
    given: &str,
    process: &Process,
) -> Result<Agent, Denial> {
    let agents = turn.durable.agents_of(&session.id);
    let known = if given.is_empty() {
        let is_free = |it: &&&Agent| it.role == Role::Peer && it.life == Life::Down;
        agents.iter().find(is_free)
    } else {
        agents.iter().find(|it| it.name.is(given))
    };
    if let Some(known) = known {
        if known.role != Role::Peer {
            return Err(Denial::NameTaken { what: "agent", name: known.name.to_string() });
        }
        check_free(turn, known, process)?;
        return Ok(Agent::clone(known));
    }
    if agents.len() >= limits::AGENTS_PER_SESSION_MAX {
        let max = limits::AGENTS_PER_SESSION_MAX;
        return Err(Denial::Full { what: "agents in the session", max });
    }
    let taken = |name: &Name| agents.iter().any(|it| it.name.is(name.as_str()));
    let name = if given.is_empty() {
        making::free(&Name::from_words("peer", "peer"), taken)
    } else {
        Name::for_agent(given)
            .map_err(|why| Denial::Invalid { field: "name", why: why.to_owned() })?
    };
    let mut agent = making::fresh(turn.now, &session.id, name, Role::Peer);
    agent.runtime = Runtime::External;
    turn.record(Record::AgentPut { agent: Box::new(agent.clone()) });
    Ok(agent)
}

/// One program is one agent. The same one may come again: it has lost the answer.
fn check_free(turn: &Turn<'_>, agent: &Agent, process: &Process) -> Result<(), Denial> {
    let is_same = agent.life == Life::Up && agent.process.as_ref() == Some(process);
    if agent.life == Life::Down || is_same {
        return Ok(());
    }
    let pid = agent.process.as_ref().map(|it| it.pid);
    Err(Denial::Joined { path: route::path(turn.durable, agent), pid })
}

/// A new incarnation, whose process is there already. Its secret.
fn begin(turn: &mut Turn<'_>, agent: &Agent, process: Process) -> String {
    let incarnation = agent.incarnation + 1;
    let token: String = starting::token_for(turn.now, agent, incarnation);
    let id = agent.id.clone();
    let kept = secret::kept(&token);
    turn.record(Record::AgentStarted { agent: id.clone(), incarnation, token: kept });
    turn.record(Record::AgentSpawned { agent: id.clone(), incarnation, process: process.clone() });
    let mut link = Link::new(incarnation, Seen::Start);
    link.deadline_mono_ms = Some(turn.now.mono_ms.saturating_add(limits::HELLO_MS));
    if let Some(old) = turn.live.links.insert(id.clone(), link).and_then(|it| it.peer) {
        turn.live.forget_peer(old);
        turn.effect(Effect::Close { peer: old, denial: Denial::BadCredentials });
    }
    turn.effect(Effect::Watch { agent: id, incarnation, process: Some(process), tree: false });
    token
}
