//! Terminals that coordd runs for members of teams: when one is there, and what becomes of it.
//!
//! | it is | when |
//! |---|---|
//! | wanted | it was invited so, or was started for its mail; until it is stopped or its program ends by itself |
//! | up | it is wanted or has mail, its session is live, its team is there, and it is not parked |
//! | up again | its process was lost: at most [`crate::state::limits::CRASHES_MAX`] times without its reading anything |
//!
//! Its mail goes the way of all members in terminals ([`crate::rules::terminal`]): its process holds the screen and knows nothing of
//! messages.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::rules::runs;
use crate::rules::turn::Turn;
use crate::state::agent::{Agent, Class, Ended, Outcome, Pty, Status};
use crate::state::effect::Order;
use crate::state::id::{AgentId, PeerId};
use crate::state::{Durable, Effect, Live, Record};

/// Whether its program is to run, as far as it itself and its team are concerned.
pub(crate) fn is_wanted(durable: &Durable, agent: &Agent) -> bool {
    let has_team = durable.team_of(&agent.session).is_some_and(|it| !it.deleting);
    let wanted = agent.pty.as_ref().is_some_and(|it| it.wanted);
    has_team && (wanted || (agent.has_pty() && !agent.mailbox.is_empty()))
}

/// Whether its process is to be there again when it is lost; none where coordd runs no terminal for it.
pub(crate) fn comes_back(agent: &Agent) -> Option<bool> {
    agent.pty.as_ref().map(|it| it.wanted)
}

/// Makes a member whose terminal coordd runs, or has one that is down started again.
pub(crate) fn want(turn: &mut Turn<'_>, agent: &Agent, arguments: Vec<String>) {
    let pty = Pty { wanted: true, arguments, ended: None };
    turn.record(Record::PtySet { agent: agent.id.clone(), pty });
}

/// Its program has ended by itself. It stays down until somebody speaks to it, or wants it again.
pub(crate) fn ended(turn: &mut Turn<'_>, agent: &Agent, ended: Ended) {
    let Some(pty) = &agent.pty else { return };
    turn.record(Record::AgentParked { agent: agent.id.clone() });
    let how = in_words(&ended);
    let pty = Pty { wanted: false, ended: Some(ended), ..pty.clone() };
    turn.record(Record::PtySet { agent: agent.id.clone(), pty });
    if agent.run_is_open() {
        let reason = format!("in the middle of its work {how}");
        runs::end(turn, agent, agent.runs + 1, failed(reason));
    }
}

/// How its last process ended, where that is worth a word.
pub(crate) fn last_words(agent: &Agent) -> String {
    agent.pty.as_ref().and_then(|it| it.ended.as_ref()).map(in_words).unwrap_or_default()
}

fn in_words(ended: &Ended) -> String {
    let Ended { status, said } = ended;
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    format!("its program ended with status {status}{said}")
}

/// Its process was lost. Nobody says any more that the run in it is over.
pub(crate) fn lost(turn: &mut Turn<'_>, agent: &Agent, how: &str) {
    if agent.has_pty() && agent.run_is_open() {
        let outcome = failed(format!("its terminal was lost in the middle of its work: {how}"));
        runs::end(turn, agent, agent.runs + 1, outcome);
    }
}

fn failed(reason: String) -> Outcome {
    Outcome::silent(Status::Failed, Some(Class::Adjust), reason)
}

/// Somebody looks at the screen of an agent.
pub(crate) fn look(live: &mut Live, agent: &AgentId, peer: PeerId) {
    live.viewers.entry(agent.clone()).or_default().insert(peer);
}

/// A connection is gone; where it was the last one that looked, nothing is shown any more.
pub(crate) fn look_away(turn: &mut Turn<'_>, peer: PeerId) {
    let mut left: Vec<AgentId> = Vec::new();
    turn.live.viewers.retain(|agent, peers| {
        if peers.remove(&peer) && peers.is_empty() {
            left.push(agent.clone());
        }
        !peers.is_empty()
    });
    for agent in left {
        order(turn, &agent, Order::Screen { shown: false });
    }
}

/// A process is connected: present viewers are shown its screen.
pub(crate) fn connected(turn: &mut Turn<'_>, agent: &AgentId) {
    if turn.live.viewers.contains_key(agent) {
        order(turn, agent, Order::Screen { shown: true });
    }
}

/// Tells the process, where it is connected. Whether it is.
pub(crate) fn order(turn: &mut Turn<'_>, agent: &AgentId, order: Order) -> bool {
    let peer = turn.live.links.get(agent).filter(|it| !it.told_to_stop).and_then(|it| it.peer);
    if let Some(peer) = peer {
        turn.effect(Effect::Order { peer, order });
    }
    peer.is_some()
}

/// Why there is nothing to look at, for a denial.
pub(crate) fn why_down(agent: &Agent) -> String {
    let words = last_words(agent);
    if words.is_empty() { "it is not running".to_owned() } else { words }
}
