//! The other side of `host.rs`: workers whose lead is on another machine. They are made and stopped by its word, in a session that the user
//! made for that machine, and how their runs end is told there.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use crate::rules::mailbox::{self, Draft};
use crate::rules::turn::Turn;
use crate::rules::{host, lifecycle, making, outbox};
use crate::state::agent::{Agent, Outcome, Status};
use crate::state::bridge::{Brought, Decision};
use crate::state::far::{Far, Told, Work};
use crate::state::id::SessionId;
use crate::state::message::{Kind, Outside, Sender};
use crate::state::mode::Mode;
use crate::state::name::Name;
use crate::state::role::Role;
use crate::state::session::{Session, SessionState};
use crate::state::text::shortened;
use crate::state::{Durable, Moment, Record, limits};

/// Why nothing is done for who asks. Whether there is such a session is not told to who may not use it.
const NOT_OPEN: &str = "no session with that id takes workers from this machine; its user creates one with \
                        `coordctl new --host-for`";

fn addressed<'a>(durable: &'a Durable, it: &Brought) -> Option<&'a Session> {
    durable.sessions.get(&SessionId(it.to.clone()))
}

/// The session that was made for this machine, while its user allows it.
fn open<'a>(durable: &'a Durable, it: &Brought) -> Option<&'a Session> {
    let session = addressed(durable, it)?;
    let is_open = session.host_for.as_deref() == Some(it.peer.as_str());
    (is_open && session.hears(&it.peer)).then_some(session)
}

fn guest<'a>(
    durable: &'a Durable,
    session: &'a Session,
    it: &Brought,
    id: &str,
) -> Option<&'a Agent> {
    let far = Far { peer: it.peer.clone(), session: it.from.clone(), agent: id.to_owned() };
    durable.agents_of(&session.id).into_iter().find(|agent| agent.far_lead() == Some(&far))
}

/// Does what the lead's machine says.
pub(crate) fn bring(turn: &mut Turn<'_>, it: &Brought, from: Outside, told: Told) -> Decision {
    match told {
        Told::Work(work) => take(turn, it, from, *work),
        Told::Stop { agent, by } => {
            let session = addressed(turn.durable, it);
            let agent = session.and_then(|session| guest(turn.durable, session, it, &agent));
            let Some(agent) = agent else {
                return Decision::Refused("there is no such worker".to_owned());
            };
            let by = shortened(&format!("{by} on {}", it.peer_name));
            let owes = agent.owes_outcome() || agent.has_process();
            lifecycle::stop(turn, agent, &by, false);
            // The asker may have missed an end; it is told that there is nothing more to wait for.
            if let Some(far) = agent.far_lead().filter(|_| !owes) {
                let reason = "it had nothing to do when it was to be stopped".to_owned();
                let killed = Outcome::silent(Status::Killed, None, reason);
                outbox::tell_nothing(turn, agent, far, killed);
            }
            Decision::Taken
        }
        Told::Ended { agent, outcome, had_nothing } => {
            host::ended(turn, it, &agent, outcome, had_nothing)
        }
    }
}

fn take(turn: &mut Turn<'_>, it: &Brought, from: Outside, work: Work) -> Decision {
    // The bridge, or this daemon, died before the other one was told.
    if turn.durable.heard.contains_key(&(from.address.clone(), from.message.clone())) {
        return Decision::Taken;
    }
    // As for words: what becomes of each must be told.
    if turn.durable.outbox.statuses_len_to(&it.peer) >= limits::BRIDGE_STATUSES_OF_ONE_MAX {
        return Decision::Later;
    }
    let Some(session) = open(turn.durable, it) else {
        return Decision::Refused(NOT_OPEN.to_owned());
    };
    if work.text.trim().is_empty() || work.text.len() > limits::BODY_LEN_MAX {
        return Decision::Refused("its task is empty or too long".to_owned());
    }
    // Words wake a session; work does not: its user has said that nothing is to run here.
    if session.state == SessionState::Stopped {
        let name = &session.name;
        return Decision::Refused(format!("{name} is stopped there; its user can resume it"));
    }
    let known = guest(turn.durable, session, it, &work.agent);
    let agent = match known
        .map_or_else(|| made(turn.durable, turn.now, session, it, &work), |it| Ok(it.clone()))
    {
        Ok(agent) => agent,
        Err(why) => return Decision::Refused(why),
    };
    if mailbox::check(&agent, &work.text).is_err() {
        return Decision::Refused(format!("the mailbox of {} is full", agent.name));
    }
    if known.is_none() {
        turn.record(Record::AgentPut { agent: Box::new(agent.clone()) });
    }
    let kind = if work.is_task { Kind::Prompt } else { Kind::Text };
    let (text, summary) = (work.text, work.summary);
    let draft = Draft { from: Sender::Outside(Box::new(from)), kind, text, summary };
    mailbox::accept(turn, &agent, draft);
    Decision::Taken
}

/// A worker, as its lead describes it. What drives it, and whether that can be here, is for this session to say.
fn made(
    durable: &Durable,
    now: &Moment,
    session: &Session,
    it: &Brought,
    work: &Work,
) -> Result<Agent, String> {
    let agents = durable.agents_of(&session.id);
    if agents.len() >= limits::AGENTS_PER_SESSION_MAX {
        return Err(format!("session {} there has the most agents that it may have", session.name));
    }
    let runtime = session.runtime;
    if work.runtime.is_some_and(|asked| asked != runtime) {
        let own = runtime.as_str();
        return Err(format!("session {} there runs {own} workers alone", session.name));
    }
    if making::check_runtime("runtime", runtime, !session.model.is_none()).is_err() {
        return Err(format!("session {} there cannot run a worker of that runtime", session.name));
    }
    if work.agent.is_empty() || work.agent.len() > limits::KEY_LEN_MAX {
        return Err("the worker's id is not valid".to_owned());
    }
    let taken = |name: &Name| agents.iter().any(|it| it.name.is(name.as_str()));
    let stem = Name::for_agent(&work.name).unwrap_or_else(|_| Name::from_words("", "guest"));
    let mut agent = making::fresh(now, &session.id, making::free(&stem, taken), Role::Worker);
    agent.runtime = runtime;
    if session.mode != Mode::Coordinator {
        "general-purpose".clone_into(&mut agent.agent_type);
    }
    agent.description = shortened(&work.description);
    agent.phase = shortened(&work.phase);
    agent.far =
        Some(Far { peer: it.peer.clone(), session: it.from.clone(), agent: work.agent.clone() });
    Ok(agent)
}
