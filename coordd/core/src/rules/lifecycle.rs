//! How processes end, from any cause, and what comes back with them. The edges are those of the diagram in `agent.rs`.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

use crate::rules::turn::Turn;
use crate::rules::{mailbox, pty, runs};
use crate::state::agent::{Agent, Class, Life, Outcome, Status};
use crate::state::denial::Denial;
use crate::state::effect::{Event, Order};
use crate::state::id::AgentId;
use crate::state::live::Seen;
use crate::state::message::{Message, State};
use crate::state::role::Role;
use crate::state::{Durable, Effect, Record, limits};

/// Begins to end an agent. Returns whether it has a process that must be waited for, and how many messages went back.
pub(crate) fn stop(turn: &mut Turn<'_>, agent: &Agent, by: &str, keep_mail: bool) -> (bool, u32) {
    let mut bounced = 0;
    if !keep_mail {
        if !agent.parked {
            turn.record(Record::AgentParked { agent: agent.id.clone() });
        }
        // What its process has may be in its conversation already; that is known when it has ended.
        let is_free = |it: &Message| !agent.has_process() || it.state == State::Accepted;
        bounced = mailbox::bounce(turn, agent, &was_stopped(agent), is_free);
        if !agent.has_process() && agent.owes_outcome() {
            runs::end(turn, agent, agent.runs + 1, runs::killed(by));
        }
    }
    match &agent.life {
        Life::Down => return (false, bounced),
        Life::Waiting => {
            turn.record_because(Record::AgentDown { agent: agent.id.clone() }, by);
            return (false, bounced);
        }
        Life::Up => {
            let (agent, by) = (agent.id.clone(), by.to_owned());
            turn.record(Record::AgentStopping { agent, by, keep_mail });
        }
        // A second request takes back what the first one granted: time, and that mail is kept.
        Life::Stopping { by, keep_mail: true } if !keep_mail => {
            let (agent, by) = (agent.id.clone(), by.clone());
            turn.record(Record::AgentStopping { agent, by, keep_mail });
        }
        Life::Stopping { .. } => {}
    }
    if let Some(link) = turn.live.links.get_mut(&agent.id) {
        // A process that nobody can tell anything is killed at once.
        let grace = if link.peer.is_some() { limits::STOP_GRACE_MS } else { 0 };
        let deadline = turn.now.mono_ms.saturating_add(grace);
        link.deadline_mono_ms = Some(link.deadline_mono_ms.map_or(deadline, |at| at.min(deadline)));
        order_stop(turn, agent, by, waits_for_user(turn.durable, agent, keep_mail));
    }
    turn.live.touch(&agent.id);
    (true, bounced)
}

fn was_stopped(agent: &Agent) -> String {
    format!("{} was stopped", agent.name)
}

/// Tells a connected process to end, once for each connection.
pub(crate) fn order_stop(turn: &mut Turn<'_>, agent: &Agent, by: &str, keeps_run: bool) {
    if let Some(link) = turn.live.links.get_mut(&agent.id)
        && let Some(peer) = link.peer
        && !link.told_to_stop
    {
        link.told_to_stop = true;
        turn.effect(Effect::Order { peer, order: Order::Stop { by: by.to_owned(), keeps_run } });
    }
}

/// Whether a run is left open when its process is to end with its session: the run's question stays, and so does the call that
/// was asked about.
pub(crate) fn waits_for_user(durable: &Durable, agent: &Agent, keep_mail: bool) -> bool {
    keep_mail && agent.run_is_open() && durable.open_questions(&agent.id).next().is_some()
}

/// The end of a process, as the shell saw it.
pub(crate) struct Exit {
    pub(crate) agent: AgentId,
    pub(crate) incarnation: u32,
    pub(crate) how: String,
    /// The outcome of its last run that the process left on disk.
    pub(crate) outcome: Option<(u32, Outcome)>,
}

/// A process ended. Late reports about earlier incarnations change nothing (invariant 4).
pub(crate) fn exited(turn: &mut Turn<'_>, exit: Exit) {
    let Some(agent) = turn.durable.agents.get(&exit.agent) else { return };
    let is_earlier = agent.incarnation != exit.incarnation;
    if is_earlier || !agent.has_process() {
        return;
    }
    let on_disk = exit.outcome.filter(|(run, _)| *run > agent.runs);
    let mut run_ended = on_disk.is_some();
    if let Some((run, outcome)) = on_disk {
        runs::end(turn, agent, run, outcome);
    }
    // Not finished is a run in the middle, or mail that it was started for and has not read.
    let was_let_go = turn.live.links.get(&agent.id).is_some_and(|link| link.told_to_stop);
    let unfinished = pty::comes_back(agent).unwrap_or(
        !agent.is_external()
            && !run_ended
            && (agent.run_is_open() || !(agent.mailbox.is_empty() || was_let_go)),
    );
    let (mut again, mut waits) = (false, false);
    match &agent.life {
        Life::Stopping { by, keep_mail } => {
            // A run that waits for the user continues with its session.
            waits = !run_ended && waits_for_user(turn.durable, agent, *keep_mail);
            let mut may_have_begun = false;
            if !keep_mail {
                // What came after the order to stop was never handed over, and wakes the agent again.
                let was_got = |it: &Message| it.state == State::Delivered;
                let reason = was_stopped(agent);
                let count = mailbox::bounce(turn, agent, &reason, was_got);
                turn.live.count_bounced(&agent.id, count);
                may_have_begun = count > 0;
            }
            // An agent that keeps its mail and has not begun begins when the session continues. A run that may have begun unrecorded is killed now, or a later message would resume it.
            let owes = agent.owes_outcome() && !keep_mail;
            may_have_begun &= !agent.is_external();
            if !run_ended && !waits && (agent.run_is_open() || owes || may_have_begun) {
                runs::end(turn, agent, agent.runs + 1, runs::killed(by));
                run_ended = true;
            }
        }
        Life::Up => {
            let too_often = if unfinished { too_often(turn, agent, &exit.how) } else { None };
            if let Some((class, reason)) = too_often {
                give_up(turn, agent, class, reason);
                run_ended = true;
            } else {
                again = unfinished;
                pty::lost(turn, agent, &exit.how);
            }
        }
        Life::Down | Life::Waiting => {}
    }
    if !again && !run_ended && !waits {
        runs::close_questions(turn, agent);
    }
    let reason = if again {
        format!("its process ended with {}; it is restarted", exit.how)
    } else {
        pty::last_words(agent)
    };
    gone(turn, agent, again, &reason);
}

fn seen_of(turn: &Turn<'_>, agent: &Agent) -> Seen {
    turn.live.links.get(&agent.id).map_or(Seen::Nothing, |link| link.seen)
}

/// Why an agent whose process has ended is not started once more, where that has happened too often. Only ends that this daemon
/// saw count: a daemon that dies while it starts a process may have taken the process with it (fR4).
fn too_often(turn: &mut Turn<'_>, agent: &Agent, how: &str) -> Option<(Class, String)> {
    let times = limits::CRASHES_MAX;
    match seen_of(turn, agent) {
        Seen::Nothing => None,
        Seen::Start => {
            let stillborn = turn.live.stillborn.entry(agent.id.clone()).or_default();
            *stillborn += 1;
            let why = || {
                format!("its process ended {times} times before it could begin, last with {how}")
            };
            let is_over = *stillborn >= times;
            if is_over {
                turn.live.stillborn.remove(&agent.id);
            }
            is_over.then(|| (Class::Fatal, why()))
        }
        Seen::Hello => (agent.crashes + 1 >= times).then(|| {
            let why = format!(
                "its process ended {times} times in the middle of its work, last with {how}"
            );
            (Class::Retryable, why)
        }),
    }
}

/// A process could not be started, and trying again would not help (rel-53).
pub(crate) fn spawn_failed(turn: &mut Turn<'_>, exit: Exit) {
    let Some(agent) = turn.durable.agents.get(&exit.agent) else { return };
    if agent.incarnation != exit.incarnation {
        return;
    }
    match agent.life {
        Life::Up => {
            give_up(turn, agent, Class::Fatal, exit.how.clone());
            gone(turn, agent, false, &exit.how);
        }
        // It was to end anyway, and has.
        Life::Stopping { .. } => exited(turn, exit),
        Life::Down | Life::Waiting => {}
    }
}

/// An agent that waits cannot be started, now or later.
pub(crate) fn cannot_start(turn: &mut Turn<'_>, agent: &Agent, why: &str) {
    give_up(turn, agent, Class::Fatal, why.to_owned());
    turn.record_because(Record::AgentDown { agent: agent.id.clone() }, why);
}

/// An agent has no process any more. A connection that still uses its name is not the agent (invariant 4).
pub(crate) fn gone(turn: &mut Turn<'_>, agent: &Agent, again: bool, reason: &str) {
    let counted = seen_of(turn, agent) == Seen::Hello;
    if let Some(peer) = turn.live.links.remove(&agent.id).and_then(|link| link.peer) {
        turn.live.forget_peer(peer);
        turn.effect(Effect::Close { peer, denial: Denial::BadCredentials });
    }
    turn.live.place_freed = true;
    let (agent, incarnation) = (agent.id.clone(), agent.incarnation);
    turn.record_because(Record::AgentExited { agent, incarnation, again, counted }, reason);
}

/// Ends what an agent was to do, since its process cannot do it: one failed run, and its mail goes back.
fn give_up(turn: &mut Turn<'_>, agent: &Agent, class: Class, reason: String) {
    turn.record(Record::AgentParked { agent: agent.id.clone() });
    mailbox::bounce(turn, agent, &reason, |_| true);
    // Nobody is notified of a lead's run: the user is told.
    if agent.role != Role::Worker {
        let text = format!(
            "{} was given up: {reason}. Its mail went back to the senders; a new prompt starts it again.",
            agent.name
        );
        let event = Event::Warning(text);
        turn.publish(&agent.session, event);
    }
    let outcome = Outcome::silent(Status::Failed, Some(class), reason);
    runs::end(turn, agent, agent.runs + 1, outcome);
}
