//! Workers on another machine, under that machine's coordd, which its user has allowed (`host` of the tool `Agent`).
//!
//! ```text
//!   the lead's machine                                        the other machine
//!   a worker whose runtime is `Bridged`   ── Work, Stop ──▶   a guest: a worker like any other, in a session made for it
//!   its lead is notified                  ◀── read, Ended ──  nobody there is notified
//! ```
//!
//! Both sides are durable, and each keeps what it has to say in its outbox until the other one has it on disk. So it does not
//! matter which daemon, process or link dies in between. What the worker may do is decided where it runs, by the rules and the
//! user of that machine. This file is the lead's side; `guest.rs` is the other one.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::rules::outbox::{moved, say_far};
use crate::rules::turn::Turn;
use crate::rules::{mailbox, runs};
use crate::state::agent::{Agent, Class, Outcome, Status};
use crate::state::bridge::{Brought, Decision, Fate, Remote};
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::far::Far;
use crate::state::id::{AgentId, MessageId, SessionId};
use crate::state::message::{self, Sender, State};
use crate::state::outgoing::{Kind, Outgoing, Verdict};
use crate::state::record::Keyed;
use crate::state::session::Session;
use crate::state::text::shortened;
use crate::state::{Durable, Live, Record, limits};

/// The machine and the session there that are meant. A machine that has one session for workers needs no more than its name; of
/// several that one is taken which works in a folder of the same name.
pub(crate) fn find(live: &Live, session: &Session, given: &str) -> Result<Far, Denial> {
    let (peer, wanted) = given.split_once('/').map_or((given, None), |(a, b)| (a, Some(b)));
    let peers = &live.bridge.report.peers;
    let found = peers.iter().find(|it| it.name == peer || it.fingerprint == peer);
    let open: Vec<&Remote> =
        found.iter().flat_map(|it| &it.sessions).filter(|it| it.hosts).collect();
    let fits = |it: &&&Remote| match wanted {
        Some(wanted) => it.name == wanted || it.session == wanted,
        None => open.len() == 1 || folder(&it.cwd) == folder(&session.cwd),
    };
    let mut fitting = open.iter().filter(fits);
    let (Some(peer), Some(it), None) = (found, fitting.next(), fitting.next()) else {
        return Err(Denial::NoSuchHost { given: given.to_owned(), known: known(live) });
    };
    let peer = peer.fingerprint.clone();
    if !session.may_write_to(&peer) {
        return Err(Denial::NotBridged { session: session.name.to_string(), peer });
    }
    Ok(Far { peer, session: it.session.clone(), agent: String::new() })
}

fn folder(path: &str) -> Option<&str> {
    path.trim_end_matches('/').rsplit('/').next()
}

/// What `host` may say, as far as machines have told.
fn known(live: &Live) -> Vec<String> {
    let all = live.bridge.report.peers.iter().flat_map(|peer| {
        peer.sessions
            .iter()
            .filter(|it| it.hosts)
            .map(move |it| format!("{}/{}", peer.name, it.name))
    });
    all.take(limits::BRIDGED_MAX).collect()
}

/// Asks a worker's machine to stop it. How its run ended comes back, as with any other end; returns whether there was anything
/// to ask for.
pub(crate) fn stop(turn: &mut Turn<'_>, agent: &Agent, by: &str) -> bool {
    let Some(far) = agent.far.as_ref().filter(|_| agent.is_hosted() && agent.is_active()) else {
        return false;
    };
    // A stop older than the newest message does not cover the run that message starts.
    let is_same = |it: &Outgoing| {
        matches!(&it.kind, Kind::Stop { agent: of } if *of == agent.id)
            && agent.mailbox.back().is_none_or(|last| *last < it.id)
    };
    if !turn.durable.outbox.carried().any(is_same) {
        let kind = Kind::Stop { agent: agent.id.clone() };
        say_far(turn, agent, Sender::System, far, kind, by.to_owned());
    }
    true
}

/// What became of what was said to the other machine, by that machine's word.
pub(crate) fn told(turn: &mut Turn<'_>, it: &Outgoing, fate: &Fate) {
    let (state, reason) = match fate {
        Fate::Taken => (State::Delivered, String::new()),
        Fate::Refused(why) => {
            (State::Bounced, format!("its machine refused it: {}", shortened(why)))
        }
        Fate::Expired => (State::Expired, "its machine was not reachable for days".to_owned()),
    };
    moved(turn, it, state, &reason);
    match (&it.kind, fate) {
        (Kind::Work { agent, message }, Fate::Taken) => {
            if turn.durable.agents.get(agent).is_some_and(|it| it.has_mail(*message)) {
                turn.record(Record::MessageDelivered {
                    message: *message,
                    at_ms: turn.now.wall_ms,
                });
            }
        }
        (Kind::Work { agent, message }, Fate::Refused(_) | Fate::Expired) => {
            not_read(turn, agent, *message, &reason);
            // It never got there, so nothing will be told of it.
            let agent =
                turn.durable.agents.get(agent).filter(|it| it.runs == 0 && !it.run_is_open());
            if let Some(agent) = agent.filter(|_| is_task(turn.durable, *message)) {
                let failed = Outcome::silent(Status::Failed, Some(Class::Adjust), reason);
                runs::end(turn, agent, 1, failed);
            }
        }
        (Kind::Stop { agent }, Fate::Refused(_) | Fate::Expired) => {
            let Some(agent) = turn.durable.agents.get(agent) else { return };
            // What it has there is read by nobody we know of.
            let is_there = |it: &message::Message| it.state == State::Delivered;
            mailbox::bounce(turn, agent, &reason, is_there);
            if agent.owes_outcome() {
                let reason = format!("by {}; {reason}, so it may still be at work there", it.text);
                let killed = Outcome::silent(Status::Killed, None, reason);
                runs::end(turn, agent, agent.runs + 1, killed);
            }
        }
        (Kind::Ended { .. }, Fate::Refused(_) | Fate::Expired) => {
            let session = it.session.clone().unwrap_or_else(|| SessionId(String::new()));
            let event = Event::Warning(format!(
                "the end of a worker's run could not be reported to its lead: {reason}. Its report is in its transcript"
            ));
            turn.publish(&session, event);
        }
        (
            Kind::Stop { .. }
            | Kind::Ended { .. }
            | Kind::Words { .. }
            | Kind::Status { .. }
            | Kind::Idle { .. },
            _,
        ) => {}
    }
}

/// What the other machine says of a message that it has: whether it was read. That opens a run, unless it is late.
pub(crate) fn status(turn: &mut Turn<'_>, it: &Outgoing, verdict: Verdict, reason: &str) {
    let Kind::Work { agent: id, message } = &it.kind else { return };
    match verdict {
        Verdict::Held => {}
        Verdict::Consumed | Verdict::ReadBefore => {
            moved(turn, it, State::Consumed, "");
            let agent = turn.durable.agents.get(id).filter(|it| it.has_mail(*message));
            if let Some(agent) = agent {
                turn.record(Record::MessagesConsumed {
                    agent: agent.id.clone(),
                    messages: [*message].to_vec(),
                    run: agent.runs + u32::from(verdict == Verdict::Consumed),
                    at_ms: turn.now.wall_ms,
                });
            }
        }
        Verdict::Refused | Verdict::Expired => {
            let reason = format!("it was not read there: {}", shortened(reason));
            moved(turn, it, State::Bounced, &reason);
            not_read(turn, id, *message, &reason);
        }
    }
}

/// A message goes back to who sent it.
fn not_read(turn: &mut Turn<'_>, agent: &AgentId, message: MessageId, reason: &str) {
    let Some(agent) = turn.durable.agents.get(agent).filter(|it| it.has_mail(message)) else {
        return;
    };
    mailbox::bounce(turn, agent, reason, |it| it.id == message);
}

fn is_task(durable: &Durable, message: MessageId) -> bool {
    durable.messages.get(&message).is_some_and(|it| it.kind == message::Kind::Prompt)
}

/// A run of one of our workers has ended on its machine. A second telling of it is known by its id; one that comes after the run
/// was given up here is told to the lead all the same: it is finished work.
pub(crate) fn ended(
    turn: &mut Turn<'_>,
    it: &Brought,
    agent: &str,
    outcome: Outcome,
    had_nothing: bool,
) -> Decision {
    let agent = turn.durable.agents.get(&AgentId(agent.to_owned()));
    let is_its = |agent: &&Agent| {
        agent.is_hosted() && agent.far.as_ref().is_some_and(|far| far.peer == it.peer)
    };
    let Some(agent) = agent.filter(is_its) else { return Decision::Taken };
    if it.message.len() > limits::KEY_LEN_MAX {
        return Decision::Refused("its id is too long".to_owned());
    }
    let (caller, key) = (agent.id.to_string(), it.message.clone());
    if turn.durable.keys.contains_key(&(caller.clone(), key.clone())) {
        return Decision::Taken;
    }
    // Nobody waits for an end here. That a stop found nothing to stop is no news; an end that nobody asked for is taken as far as
    // the lead's mailbox has room.
    if !agent.owes_outcome() {
        if had_nothing {
            return Decision::Taken;
        }
        let lead = turn.durable.lead_of(&agent.session);
        if lead.is_some_and(|it| mailbox::check(it, &outcome.result).is_err()) {
            return Decision::Later;
        }
    }
    runs::end(turn, agent, agent.runs + 1, outcome);
    turn.record(Record::Keyed { caller, key, to: Keyed::Seen, at_ms: turn.now.wall_ms });
    Decision::Taken
}
