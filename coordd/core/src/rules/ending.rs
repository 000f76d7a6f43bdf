//! How sessions end, and the daemon.

use alloc::string::ToString as _;
use alloc::vec::Vec;

use crate::rules::call::reply;
use crate::rules::turn::Turn;
use crate::rules::{lifecycle, outbox, runs};
use crate::state::agent::Agent;
use crate::state::denial::Denial;
use crate::state::id::{PeerId, SessionId};
use crate::state::live::{Ending, Waiter};
use crate::state::outgoing::Verdict;
use crate::state::session::{Session, SessionState};
use crate::state::{Effect, Record};

/// Stops a session with all its agents; mail is kept. Returns the agents that have a process.
pub(crate) fn stop_all<'a>(turn: &mut Turn<'a>, session: &'a Session, by: &str) -> Vec<&'a Agent> {
    if session.state == SessionState::Live {
        let (session, state) = (session.id.clone(), SessionState::Stopped);
        turn.record(Record::SessionState { session, state });
    }
    let mut waited_for = Vec::new();
    for agent in turn.durable.agents_of(&session.id) {
        let (has_process, _) = lifecycle::stop(turn, agent, by, true);
        if has_process {
            waited_for.push(agent);
        }
    }
    waited_for
}

/// What a call waits for that ended these agents.
pub(crate) fn wait_for(ending: &[&Agent], bounced: u32, then_remove: Option<SessionId>) -> Waiter {
    Waiter::Gone {
        agents: ending.iter().map(|it| (it.id.clone(), it.incarnation)).collect(),
        names: ending.iter().map(|it| it.name.to_string()).collect(),
        bounced,
        then_remove,
    }
}

/// Removes a session whose agents are gone. The removal is durable before it is answered (case C13).
pub(crate) fn remove_now(turn: &mut Turn<'_>, id: &SessionId, (peer, call): (PeerId, u64)) {
    let Some(session) = turn.durable.sessions.get(id) else {
        let given = id.to_string();
        turn.effect(reply(peer, call, Err(Denial::NoSuch { what: "session", given })));
        return;
    };
    let unread =
        turn.durable.messages.values().filter(|it| it.session == *id && !it.state.is_final());
    for message in unread {
        let reason = "the session was removed";
        outbox::give_back(turn, message, Verdict::Refused, reason);
    }
    for guest in turn.durable.agents_of(id).into_iter().filter(|it| it.owes_outcome()) {
        if let Some(far) = guest.far_lead() {
            let killed = runs::killed("the removal of its session");
            outbox::tell_end(turn, guest, far, killed);
        }
    }
    turn.record(Record::SessionRemoved { session: id.clone() });
    turn.effect(Effect::RemoveSession {
        session: id.clone(),
        scratchpad: session.scratchpad.clone(),
        team: turn.durable.team_of(id).map(|it| it.name.clone()),
        peer,
        call,
    });
}

/// The daemon is to end: agents stop in order, or go on without it.
pub(crate) fn terminate(turn: &mut Turn<'_>, keep_agents: bool) {
    if turn.live.ending.is_some_and(|it| !it.keep_agents || keep_agents) {
        return;
    }
    turn.live.ending = Some(Ending { keep_agents, told: false });
    if keep_agents {
        return;
    }
    for session in turn.durable.sessions.values() {
        stop_all(turn, session, "the end of the daemon");
    }
}
