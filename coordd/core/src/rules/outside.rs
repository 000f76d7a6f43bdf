//! What is said from outside of the daemon, and what coordd says back (M-6, M-8, M-10, M-11).
//!
//! Somebody outside informs and never commands: its words enter a conversation as another agent's, and nothing here answers a
//! question, changes a setting or a task. It is not believed about other people's messages either.

use crate::rules::handing::{self, publish};
use crate::rules::mailbox::{self, Draft, Numbers};
use crate::rules::{Step, bridge};
use crate::state::agent::{Agent, Life};
use crate::state::effect::Event;
use crate::state::id::{MessageId, SessionId};
use crate::state::input::Says;
use crate::state::message::{Kind, Message, Outside, Sender, State};
use crate::state::outgoing::{self, Outgoing, Verdict};
use crate::state::role::Role;
use crate::state::session::{Inbound, Session, SessionState};
use crate::state::{Durable, Effect, Live, Moment, Record, limits, text};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// Takes what was said, or does not. What is not taken must look undelivered to its sender.
pub(crate) fn heard(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    to: Option<&SessionId>,
    from: Outside,
    says: Says,
) -> bool {
    if live.is_ending() || live.disk_full {
        return false;
    }
    match says {
        Says::Words { text, summary } => words(durable, live, step, now, to, &from, text, summary),
        Says::NotifyWhenIdle => watch(durable, live, step, now, to, from),
        Says::Status { of, verdict, reason } => {
            handing::status(durable, live, step, now, &from, &of, verdict, &reason);
            true
        }
        Says::Idle { of, detail } => {
            handing::is_idle(durable, live, step, now, from, &of, &detail);
            true
        }
        // Nothing of the kind comes by a socket.
        Says::Host(_) => true,
    }
}

#[expect(clippy::too_many_arguments, reason = "one fact each about one message")]
fn words(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    to: Option<&SessionId>,
    from: &Outside,
    text: String,
    summary: String,
) -> bool {
    // Whoever got no answer says it again.
    let name = (from.address.clone(), from.message.clone());
    if !from.message.is_empty() && durable.heard.contains_key(&name) {
        return true;
    }
    if !live.rates.allows(&from.address, now.mono_ms) {
        return false;
    }
    let Some(session) = to.and_then(|id| durable.sessions.get(id)) else {
        let reason = "nobody reads here; write to a session";
        tell(durable, step, now, None, from, Verdict::Refused, reason);
        return true;
    };
    let words = Words { text, summary };
    if let Err(reason) = arrive(durable, live, step, now, session, from, words) {
        tell(durable, step, now, Some(&session.id), from, Verdict::Refused, &reason);
    }
    true
}

/// What is said to a session from outside of it.
pub(crate) struct Words {
    pub(crate) text: String,
    pub(crate) summary: String,
}

/// What became of them.
pub(crate) enum Arrived {
    /// They are in the lead's mailbox.
    In(MessageId),
    /// They wait for the user.
    Held(MessageId),
}

/// Delivers words from outside of a session to its lead, as its setting says.
pub(crate) fn arrive(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    session: &Session,
    from: &Outside,
    words: Words,
) -> Result<Arrived, String> {
    if session.is_host() {
        return Err(format!("session {} is for workers; nobody reads there", session.name));
    }
    let inbound = session.inbound_from(from);
    if inbound == Inbound::Refuse {
        return Err(format!("session {} takes no messages from outside", session.name));
    }
    if words.text.trim().is_empty() {
        return Err("the message is empty".to_owned());
    }
    let lead = durable.lead_of(&session.id).ok_or_else(|| "the session is gone".to_owned())?;
    if words.text.len() > limits::BODY_LEN_MAX {
        let (len, max) = (words.text.len(), limits::BODY_LEN_MAX);
        return Err(format!("the message has {len} bytes, and at most {max} are allowed"));
    }
    if mailbox::check(lead, &words.text).is_err() {
        return Err(format!("the mailbox of {} is full", session.name));
    }
    let sender = Sender::Outside(Box::new(from.clone()));
    let Words { text, summary } = words;
    let draft = Draft { from: sender, kind: Kind::Text, text, summary };
    let mut numbers = Numbers::after(durable, step);
    if inbound == Inbound::Accept {
        wake(durable, live, step, session);
        return Ok(Arrived::In(mailbox::accept(&mut numbers, live, step, now, lead, draft)));
    }
    if held(durable, &session.id).count() >= limits::HELD_MAX {
        let max = limits::HELD_MAX;
        return Err(format!("{max} messages wait for the user of {} already", session.name));
    }
    let message = mailbox::drafted(numbers.next(), now, lead, draft, State::Held);
    let id = message.id;
    step.record(Record::MessagePut { message: Box::new(message) });
    publish(step, &session.id, id, State::Held);
    let reason = "it waits for the user of the session to let it in";
    tell(durable, step, now, Some(&session.id), from, Verdict::Held, reason);
    Ok(Arrived::Held(id))
}

/// A stopped session goes on when somebody outside speaks to it.
pub(crate) fn wake(durable: &Durable, live: &mut Live, step: &mut Step, session: &Session) {
    live.touch(&session.lead);
    if session.state == SessionState::Live {
        return;
    }
    // Its workers go on too, as with any other resume.
    for agent in durable.agents_of(&session.id) {
        live.touch(&agent.id);
    }
    step.record(Record::SessionState { session: session.id.clone(), state: SessionState::Live });
    let event = Event::SessionChanged(SessionState::Live);
    step.effect(Effect::Publish { session: session.id.clone(), event });
    step.effect(Effect::OpenSession { session: session.id.clone(), create: false });
}

/// The messages of a session that wait for the user, oldest first.
pub(crate) fn held<'a>(
    durable: &'a Durable,
    session: &'a SessionId,
) -> impl Iterator<Item = &'a Message> {
    durable.messages.values().filter(move |it| it.state == State::Held && it.session == *session)
}

/// What has waited too long comes to its end, and both sides are told (A25).
pub(crate) fn expire(durable: &Durable, step: &mut Step, now: &Moment) {
    let before = now.wall_ms.saturating_sub(limits::HELD_KEPT_MS);
    let is_old = |it: &&Message| it.state == State::Held && it.accepted_ms < before;
    for message in durable.messages.values().filter(is_old) {
        let reason = "nobody let it in within a day".to_owned();
        give_back(durable, step, now, message, Verdict::Expired, &reason);
        let (message, at_ms, session) = (message.id, now.wall_ms, &message.session);
        step.record(Record::MessageExpired { message, reason, at_ms });
        publish(step, session, message, State::Expired);
    }
}

/// Tells whoever sent a message from outside what became of it.
pub(crate) fn give_back(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    message: &Message,
    verdict: Verdict,
    reason: &str,
) {
    if let Sender::Outside(from) = &message.from {
        // What becomes of a guest's mail is part of its run, which the other machine keeps account of.
        let to = durable.agents.get(&message.to);
        let surely = to.is_some_and(|it| it.far_lead().is_some());
        let session = Some(&message.session);
        tell_of(durable, step, now, session, from, (verdict, reason), surely);
    }
}

/// The path in a `uds:` address.
pub(crate) fn path_of(address: &str) -> Option<&str> {
    address.strip_prefix("uds:").filter(|it| it.starts_with('/'))
}

/// Says to somebody outside what became of its message, where it can be told.
fn tell(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    session: Option<&SessionId>,
    to: &Outside,
    verdict: Verdict,
    reason: &str,
) {
    tell_of(durable, step, now, session, to, (verdict, reason), false);
}

fn tell_of(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    session: Option<&SessionId>,
    to: &Outside,
    (verdict, reason): (Verdict, &str),
    surely: bool,
) {
    if !to.message.is_empty() {
        let kind = outgoing::Kind::Status { of: to.message.clone(), verdict };
        say(durable, step, now, session, to, (kind, reason), surely);
    }
}

/// Something that coordd itself says. Unless it must be, it is best effort: with too much on its way it is left out.
fn say(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    session: Option<&SessionId>,
    to: &Outside,
    (kind, text): (outgoing::Kind, &str),
    surely: bool,
) {
    let said_now = step.records.iter().filter(|it| matches!(it, Record::OutgoingPut { .. }));
    let open = durable.outbox.open_len() + said_now.count();
    let is_carried = to.address.starts_with("bridge:");
    let to = if is_carried {
        Some(to.address.as_str()).filter(|_| surely || bridge::has_room_for_status(durable, step))
    } else {
        path_of(&to.address).filter(|_| open < limits::OUTGOING_OPEN_MAX)
    };
    let Some(to) = to else { return };
    let id = Numbers::after(durable, step).next();
    let (session, to, text) = (session.cloned(), to.to_owned(), text.to_owned());
    let it = Outgoing::new(now, id, session, Sender::System, to, kind, text);
    put(step, it);
}

/// Has a message handed out.
pub(crate) fn put(step: &mut Step, it: Outgoing) {
    let (outgoing, is_carried) = (it.id, it.is_carried());
    step.record(Record::OutgoingPut { outgoing: Box::new(it) });
    // What goes over the bridge waits for it, and is handed over by `settle`.
    if !is_carried {
        step.effect(Effect::HandOut { outgoing });
    }
}

fn watch(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    to: Option<&SessionId>,
    from: Outside,
) -> bool {
    if !live.rates.allows(&from.address, now.mono_ms) {
        return false;
    }
    let Some(session) = to.and_then(|id| durable.sessions.get(id)) else { return true };
    let is_known = session.watchers.iter().any(|it| it.message == from.message);
    if is_known || path_of(&from.address).is_none() {
        return true;
    }
    if session.watchers.len() >= limits::WATCHERS_MAX {
        return false;
    }
    let watcher = Box::new(from);
    step.record(Record::WatcherPut { session: session.id.clone(), watcher });
    live.touch(&session.lead);
    true
}

/// Tells those who wanted to know that a lead has nothing to do, when that is so.
pub(crate) fn tell_watchers(durable: &Durable, step: &mut Step, now: &Moment, lead: &Agent) {
    if lead.role == Role::Worker || lead.run_is_open() || !lead.mailbox.is_empty() {
        return;
    }
    let Some(session) = durable.sessions.get(&lead.session) else { return };
    if session.watchers.is_empty() || matches!(lead.life, Life::Waiting) {
        return;
    }
    let last = lead.last.as_ref();
    let words = last.map(|it| shortened(&it.outcome.result)).unwrap_or_default();
    let at_ms = last.map_or(now.wall_ms, |it| it.ended_ms);
    for watcher in &session.watchers {
        let kind = outgoing::Kind::Idle { of: watcher.message.clone(), at_ms };
        say(durable, step, now, Some(&session.id), watcher, (kind, &words), false);
    }
    step.record(Record::WatchersTold { session: session.id.clone() });
}

/// As much of a text as is kept of what others say about themselves.
pub(crate) fn shortened(text: &str) -> String {
    text::head(text, limits::OUTSIDE_FIELD_LEN_MAX).to_owned()
}
