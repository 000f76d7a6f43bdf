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

use crate::rules::bridge;
use crate::rules::mailbox::{self, Numbers};
use crate::rules::{Step, handing, lifecycle, outside};
use crate::state::agent::{Agent, Class, Outcome, Status};
use crate::state::bridge::{Decision, Fate, Remote};
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::far::Far;
use crate::state::id::{AgentId, MessageId, SessionId};
use crate::state::message::{self, Sender, State};
use crate::state::outgoing::{self, Kind, Outgoing, Verdict};
use crate::state::record::Keyed;
use crate::state::session::Session;
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

pub(crate) mod guest;

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

/// Whether one more message may wait for a worker's machine. Others have no such bound.
pub(crate) fn check(durable: &Durable, step: &Step, to: &Agent, text: &str) -> Result<(), Denial> {
    if !to.is_hosted() {
        return Ok(());
    }
    if durable.bridge.is_none_or(|it| !it.on) {
        return Err(Denial::BridgeOff);
    }
    let session = durable.sessions.get(&to.session);
    if let (Some(far), Some(session)) = (&to.far, session)
        && !session.may_write_to(&far.peer)
    {
        let (session, peer) = (session.name.to_string(), far.peer.clone());
        return Err(Denial::NotBridged { session, peer });
    }
    let len = bridge::escaped_len(text);
    if len > limits::BRIDGE_TEXT_LEN_MAX {
        let max = limits::BRIDGE_TEXT_LEN_MAX;
        return Err(Denial::TooLarge { field: "message, escaped", len, max });
    }
    bridge::has_room(durable, step, text.len())
}

/// Has a message of a worker's mailbox carried to its machine.
pub(crate) fn carry(
    numbers: &mut Numbers,
    step: &mut Step,
    now: &Moment,
    to: &Agent,
    message: MessageId,
) {
    let Some(far) = to.far.as_ref().filter(|_| to.is_hosted()) else { return };
    let id = numbers.next();
    let kind = Kind::Work { agent: to.id.clone(), message };
    // Whoever said it is told by the message's own receipt, not by this one's.
    let from = Sender::Agent(to.id.clone());
    outside::put(step, outgoing(now, id, Some(&to.session), from, far, kind, String::new()));
}

fn outgoing(
    now: &Moment,
    id: MessageId,
    session: Option<&SessionId>,
    from: Sender,
    far: &Far,
    kind: Kind,
    text: String,
) -> Outgoing {
    let to = format!("bridge:{}/{}", far.peer, far.session);
    Outgoing::new(now, id, session.cloned(), from, to, kind, text)
}

/// Asks a worker's machine to stop it. How its run ended comes back, as with any other end; returns whether there was anything
/// to ask for.
pub(crate) fn stop(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    by: &str,
) -> bool {
    let Some(far) = agent.far.as_ref().filter(|_| agent.is_hosted() && agent.is_active()) else {
        return false;
    };
    // One that was asked for before its last mail does not count for what that makes it do.
    let is_same = |it: &Outgoing| {
        matches!(&it.kind, Kind::Stop { agent: of } if *of == agent.id)
            && agent.mailbox.back().is_none_or(|last| *last < it.id)
    };
    if !durable.outbox.carried().any(is_same) {
        let id = Numbers::after(durable, step).next();
        let kind = Kind::Stop { agent: agent.id.clone() };
        let session = Some(&agent.session);
        let by = by.to_owned();
        outside::put(step, outgoing(now, id, session, Sender::System, far, kind, by));
    }
    true
}

/// What became of what was said to the other machine, by that machine's word.
pub(crate) fn told(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    it: &Outgoing,
    fate: &Fate,
) {
    let (state, reason) = match fate {
        Fate::Taken => (State::Delivered, String::new()),
        Fate::Refused(why) => {
            (State::Bounced, format!("its machine refused it: {}", outside::shortened(why)))
        }
        Fate::Expired => (State::Expired, "its machine was not heard of for days".to_owned()),
    };
    handing::moved(step, now, it, state, &reason);
    match (&it.kind, fate) {
        (Kind::Work { agent, message }, Fate::Taken) => {
            if let Some(agent) = durable.agents.get(agent).filter(|it| it.has_mail(*message)) {
                step.record(Record::MessageDelivered { message: *message, at_ms: now.wall_ms });
                handing::publish(step, &agent.session, *message, State::Delivered);
            }
        }
        (Kind::Work { agent, message }, Fate::Refused(_) | Fate::Expired) => {
            not_read(durable, live, step, now, (agent, *message), &reason);
            // It never got there, so nothing will be told of it.
            let agent = durable.agents.get(agent).filter(|it| it.runs == 0 && !it.run_is_open());
            if let Some(agent) = agent.filter(|_| is_task(durable, *message)) {
                let failed = Outcome::silent(Status::Failed, Some(Class::Adjust), reason);
                lifecycle::end_run(durable, live, step, now, agent, 1, failed);
            }
        }
        (Kind::Stop { agent }, Fate::Refused(_) | Fate::Expired) => {
            let Some(agent) = durable.agents.get(agent) else { return };
            // What it has there is read by nobody we know of.
            let is_there = |it: &message::Message| it.state == State::Delivered;
            mailbox::bounce(durable, live, step, now, agent, &reason, is_there);
            if agent.owes_outcome() {
                let reason = format!("by {}; {reason}, so it may still be at work there", it.text);
                let killed = Outcome::silent(Status::Killed, None, reason);
                lifecycle::end_run(durable, live, step, now, agent, agent.runs + 1, killed);
            }
        }
        (Kind::Ended { .. }, Fate::Refused(_) | Fate::Expired) => {
            let session = it.session.clone().unwrap_or_else(|| SessionId(String::new()));
            let event = Event::Warning(format!(
                "how a worker's run ended could not be told to its lead: {reason}. Its report is in its transcript"
            ));
            step.effect(Effect::Publish { session, event });
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

/// The reason that comes with the word that a message was read, when that belongs to a run that has ended already: its process
/// died before it could say so.
pub(crate) const READ_BEFORE: &str = "read in an earlier run";

/// The reason of an end that is told since whoever asked for a stop may have missed one.
pub(crate) const NOTHING_TO_STOP: &str = "it had nothing to do when it was to be stopped";

/// What the other machine says of a message that it has: whether it was read. That opens a run, unless it is late.
pub(crate) fn status(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    it: &Outgoing,
    verdict: Verdict,
    reason: &str,
) {
    let Kind::Work { agent: id, message } = &it.kind else { return };
    match verdict {
        Verdict::Held => {}
        Verdict::Consumed => {
            handing::moved(step, now, it, State::Consumed, "");
            let agent = durable.agents.get(id).filter(|it| it.has_mail(*message));
            if let Some(agent) = agent {
                step.record(Record::MessagesConsumed {
                    agent: agent.id.clone(),
                    messages: [*message].to_vec(),
                    run: agent.runs + u32::from(reason != READ_BEFORE),
                    at_ms: now.wall_ms,
                });
                handing::publish(step, &agent.session, *message, State::Consumed);
                lifecycle::publish_life(step, agent, agent.life.clone(), "");
                live.touch(&agent.id);
            }
        }
        Verdict::Refused | Verdict::Expired => {
            let reason = format!("it was not read there: {}", outside::shortened(reason));
            handing::moved(step, now, it, State::Bounced, &reason);
            not_read(durable, live, step, now, (id, *message), &reason);
        }
    }
}

/// A message goes back to who sent it.
fn not_read(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    (agent, message): (&AgentId, MessageId),
    reason: &str,
) {
    let Some(agent) = durable.agents.get(agent).filter(|it| it.has_mail(message)) else { return };
    mailbox::bounce(durable, live, step, now, agent, reason, |it| it.id == message);
}

fn is_task(durable: &Durable, message: MessageId) -> bool {
    durable.messages.get(&message).is_some_and(|it| it.kind == message::Kind::Prompt)
}

/// A run of one of our workers has ended on its machine. A second telling of it is known by its id; one that comes after the run
/// was given up here is told to the lead all the same: it is finished work.
pub(crate) fn ended(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    (peer, message): (&str, &str),
    agent: &str,
    outcome: Outcome,
) -> Decision {
    let agent = durable.agents.get(&AgentId(agent.to_owned()));
    let is_its = |it: &&Agent| it.is_hosted() && it.far.as_ref().is_some_and(|it| it.peer == peer);
    let Some(agent) = agent.filter(is_its) else { return Decision::Taken };
    if message.len() > limits::KEY_LEN_MAX {
        return Decision::Refused("its id is too long".to_owned());
    }
    let (caller, key) = (agent.id.to_string(), message.to_owned());
    if durable.keys.contains_key(&(caller.clone(), key.clone())) {
        return Decision::Taken;
    }
    // Nobody waits for an end here. That a stop found nothing to stop is no news; an end that nobody asked for is taken as far as
    // the lead's mailbox has room.
    if !agent.owes_outcome() {
        if outcome.reason == NOTHING_TO_STOP {
            return Decision::Taken;
        }
        let lead = durable.lead_of(&agent.session);
        if lead.is_some_and(|it| mailbox::check(it, &outcome.result).is_err()) {
            return Decision::Later;
        }
    }
    lifecycle::end_run(durable, live, step, now, agent, agent.runs + 1, outcome);
    lifecycle::publish_life(step, agent, agent.life.clone(), "");
    step.record(Record::Keyed { caller, key, to: Keyed::Sent(Vec::new()), at_ms: now.wall_ms });
    Decision::Taken
}
