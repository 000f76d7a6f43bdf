//! What is said from outside of the daemon, and what coordd says back (M-6, M-8, M-10, M-11).
//!
//! Somebody outside informs and never commands: its words enter a conversation as another agent's, and nothing here answers a
//! question, changes a setting or a task. It is not believed about other people's messages either.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use proto_words::address::Place;

use crate::rules::handing;
use crate::rules::mailbox::{self, Draft};
use crate::rules::outbox::{self, Notice, tell};
use crate::rules::turn::Turn;
use crate::state::agent::{Agent, Life};
use crate::state::id::{MessageId, SessionId};
use crate::state::input::Says;
use crate::state::message::{Kind, Message, Outside, Sender, State};
use crate::state::outgoing::{self, Verdict};
use crate::state::role::Role;
use crate::state::session::{Inbound, Session, SessionState};
use crate::state::text::shortened;
use crate::state::{Durable, Effect, Record, limits};

/// Takes what was said, or does not. What is not taken must look undelivered to its sender.
pub(crate) fn heard(
    turn: &mut Turn<'_>,
    to: Option<&SessionId>,
    from: Outside,
    says: Says,
) -> bool {
    if turn.live.is_ending() || turn.live.disk_full {
        return false;
    }
    match says {
        Says::Words { text, summary } => said(turn, to, &from, Words { text, summary }),
        Says::NotifyWhenIdle => watch(turn, to, from),
        Says::Status { of, verdict, reason } => {
            handing::status(turn, &from, &of, verdict, &reason);
            true
        }
        Says::Idle { of, detail } => {
            handing::is_idle(turn, from, &of, &detail);
            true
        }
        // Nothing of the kind comes by a socket.
        Says::Host(_) => true,
    }
}

fn said(turn: &mut Turn<'_>, to: Option<&SessionId>, from: &Outside, words: Words) -> bool {
    // A sender without an answer sends again.
    let name = (from.address.clone(), from.message.clone());
    if !from.message.is_empty() && turn.durable.heard.contains_key(&name) {
        return true;
    }
    if !turn.live.rates.allows(&from.address, turn.now.mono_ms) {
        return false;
    }
    let Some(session) = to.and_then(|id| turn.durable.sessions.get(id)) else {
        let reason = "no agent reads here; write to a session";
        tell(turn, None, from, Verdict::Refused, reason);
        return true;
    };
    if let Err(reason) = arrive(turn, session, from, words) {
        tell(turn, Some(&session.id), from, Verdict::Refused, &reason);
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
    turn: &mut Turn<'_>,
    session: &Session,
    from: &Outside,
    words: Words,
) -> Result<Arrived, String> {
    if session.is_host() {
        return Err(format!(
            "session {} is for workers; it has no lead that reads messages",
            session.name
        ));
    }
    let inbound = session.inbound_from(from);
    if inbound == Inbound::Refuse {
        return Err(format!("session {} takes no messages from outside", session.name));
    }
    if words.text.trim().is_empty() {
        return Err("the message is empty".to_owned());
    }
    let lead = turn.durable.lead_of(&session.id).ok_or_else(|| "the session is gone".to_owned())?;
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
    if inbound == Inbound::Accept {
        wake(turn, session);
        return Ok(Arrived::In(mailbox::accept(turn, lead, draft)));
    }
    if held(turn.durable, &session.id).count() >= limits::HELD_MAX {
        let max = limits::HELD_MAX;
        return Err(format!("{max} messages already wait for the user of {}", session.name));
    }
    let id = mailbox::put(turn, lead, draft, State::Held);
    let reason = "it is held until the user of the session accepts it";
    tell(turn, Some(&session.id), from, Verdict::Held, reason);
    Ok(Arrived::Held(id))
}

/// A stopped session goes on when somebody outside speaks to it.
pub(crate) fn wake(turn: &mut Turn<'_>, session: &Session) {
    turn.live.touch(&session.lead);
    if session.state == SessionState::Live {
        return;
    }
    // Its workers go on too, as with any other resume.
    turn.record(Record::SessionState { session: session.id.clone(), state: SessionState::Live });
    turn.effect(Effect::OpenSession { session: session.id.clone(), create: false });
}

/// The messages of a session that wait for the user, oldest first.
pub(crate) fn held<'a>(
    durable: &'a Durable,
    session: &'a SessionId,
) -> impl Iterator<Item = &'a Message> {
    durable.messages.values().filter(move |it| it.state == State::Held && it.session == *session)
}

/// What has waited too long comes to its end, and both sides are told (A25).
pub(crate) fn expire(turn: &mut Turn<'_>) {
    let before = turn.now.wall_ms.saturating_sub(limits::HELD_KEPT_MS);
    let is_old = |it: &&Message| it.state == State::Held && it.accepted_ms < before;
    for message in turn.durable.messages.values().filter(is_old) {
        let reason = "nobody accepted it within a day".to_owned();
        outbox::give_back(turn, message, Verdict::Expired, &reason);
        let (message, at_ms) = (message.id, turn.now.wall_ms);
        turn.record(Record::MessageExpired { message, reason, at_ms });
    }
}

fn watch(turn: &mut Turn<'_>, to: Option<&SessionId>, from: Outside) -> bool {
    if !turn.live.rates.allows(&from.address, turn.now.mono_ms) {
        return false;
    }
    let Some(session) = to.and_then(|id| turn.durable.sessions.get(id)) else { return true };
    let is_known = session.watchers.iter().any(|it| it.message == from.message);
    if is_known || !matches!(from.address, Place::Socket(_)) {
        return true;
    }
    if session.watchers.len() >= limits::WATCHERS_MAX {
        return false;
    }
    let watcher = Box::new(from);
    turn.record(Record::WatcherPut { session: session.id.clone(), watcher });
    true
}

/// Tells those who wanted to know that a lead has nothing to do, when that is so.
pub(crate) fn tell_watchers(turn: &mut Turn<'_>, lead: &Agent) {
    if lead.role == Role::Worker || lead.run_is_open() || !lead.mailbox.is_empty() {
        return;
    }
    let Some(session) = turn.durable.sessions.get(&lead.session) else { return };
    if session.watchers.is_empty() || matches!(lead.life, Life::Waiting) {
        return;
    }
    let last = lead.last.as_ref();
    let words = last.map(|it| shortened(&it.outcome.result)).unwrap_or_default();
    let at_ms = last.map_or(turn.now.wall_ms, |it| it.ended_ms);
    for watcher in &session.watchers {
        let kind = outgoing::Kind::Idle { of: watcher.message.clone(), at_ms };
        let session = Some(&session.id);
        outbox::say(turn, Notice { session, to: watcher, kind, text: &words, surely: false });
    }
    turn.record(Record::WatchersTold { session: session.id.clone() });
}
