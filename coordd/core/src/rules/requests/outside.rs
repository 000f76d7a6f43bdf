//! Sending to the outside, and what comes in from there: lists, answers and the setting (M-6 to M-9).

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use proto_words::address::Place;

use super::bridge;
use crate::rules::call::{Call, Said, Verdict};
use crate::rules::mailbox::{self, Draft};
use crate::rules::outside::{self, Arrived, Words};
use crate::rules::turn::Turn;
use crate::rules::{outbox, route};
use crate::state::answer::{Answer, SendRow};
use crate::state::denial::Denial;
use crate::state::id::{MessageId, SessionId};
use crate::state::live::{Caller, Waiter};
use crate::state::message::{Kind, Message, Outside, Sender, State};
use crate::state::outgoing::{self, Outgoing};
use crate::state::record::Keyed;
use crate::state::request::Body;
use crate::state::session::Inbound;
use crate::state::{Durable, Effect, Record, limits};

/// Words to a socket. The answer comes when it is known whether they got there.
pub(super) fn send(
    call: &Call,
    turn: &mut Turn<'_>,
    session: &str,
    path: &str,
    body: &Body,
    summary: &str,
    notify: bool,
) -> Verdict {
    let text = text(body)?;
    let session = match &call.caller {
        Caller::User if session.is_empty() => None,
        Caller::User | Caller::Agent(_) | Caller::ProgramOf(_) | Caller::Bridge => {
            Some(super::sending::own_session(call, turn, session)?)
        }
    };
    if turn.durable.outbox.open_len() >= limits::OUTGOING_OPEN_MAX {
        let max = limits::OUTGOING_OPEN_MAX;
        return Err(Denial::Full { what: "messages in transit to the outside", max });
    }
    let id = turn.number();
    let kind = outgoing::Kind::Words {
        summary: summary.chars().take(limits::SUMMARY_LEN_MAX).collect(),
        notice_id: notify.then(|| outgoing::wire_id(turn.now, id, "notice")),
    };
    let (from, to) = (super::sending::sender(call), Place::Socket(path.to_owned()));
    let it = Outgoing::new(turn.now, id, session, from, to, kind, text.to_owned());
    outbox::put(turn, it);
    call.remember(turn, Keyed::Outgoing(id));
    Ok(Said::Later(Waiter::Handed(id)))
}

pub(super) fn text(body: &Body) -> Result<&str, Denial> {
    let Body::Text { text } = body else { return Err(Denial::StructuredToMany) };
    if text.trim().is_empty() {
        return Err(Denial::Invalid { field: "message", why: "is empty".to_owned() });
    }
    if text.len() > limits::BODY_LEN_MAX {
        let (len, max) = (text.len(), limits::BODY_LEN_MAX);
        return Err(Denial::TooLarge { field: "message", len, max });
    }
    Ok(text)
}

/// What a call is told about a message to the outside, once that is known.
pub(crate) fn told(durable: &Durable, id: MessageId) -> Option<Result<Answer, Denial>> {
    let Some(it) = durable.outbox.get(id) else { return Some(Err(Denial::AskerStopped)) };
    let to = it.to.to_string();
    let note = match it.state {
        State::Accepted => return None,
        State::Delivered => "it has the message, but may not have read it yet",
        State::Held => "it holds the message until its user accepts it",
        State::Consumed => "it has read the message",
        State::Bounced | State::Expired => {
            let refused = SendRow::Refused { to, reason: it.reason.clone() };
            return Some(Ok(Answer::Sent([refused].to_vec())));
        }
    };
    let note = note.to_owned();
    let row = SendRow::Accepted { to, id, ahead: 0, note, request_id: None };
    Some(Ok(Answer::Sent([row].to_vec())))
}

/// Words to the lead of another session, of this daemon or over the bridge.
pub(super) fn send_over(
    call: &Call,
    turn: &mut Turn<'_>,
    id: &str,
    body: &Body,
    summary: &str,
) -> Verdict {
    let text = text(body)?.to_owned();
    if id.contains('/') {
        return bridge::send(call, turn, id, &text, summary);
    }
    let session = match route::session(turn.durable, id) {
        Err(Denial::NoSuchSession { given, known }) => {
            return Err(Denial::NoBridge { given, known });
        }
        found => found?,
    };
    if turn.live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    let lead = turn.durable.lead_of(&session.id).ok_or(Denial::BadCredentials)?;
    let summary = summary.to_owned();
    let arrived = match &call.caller {
        // The user's own words stay the user's, by whichever address.
        Caller::User => {
            mailbox::check(lead, &text)?;
            outside::wake(turn, session);
            let draft = Draft { from: Sender::User, kind: Kind::Text, text, summary };
            Arrived::In(mailbox::accept(turn, lead, draft))
        }
        Caller::Bridge | Caller::ProgramOf(_) => return Err(Denial::BadCredentials),
        Caller::Agent(agent) => {
            let own = turn.durable.agents.get(agent).ok_or(Denial::BadCredentials)?;
            if own.session == session.id {
                return Err(Denial::ToSelf);
            }
            let from = from_session(turn.durable, &own.session).ok_or(Denial::BadCredentials)?;
            outside::arrive(turn, session, &from, Words { text, summary })
                .map_err(|why| Denial::NotTaken { why })?
        }
    };
    let row = match arrived {
        Arrived::In(id) => super::sending::row(lead, id, None),
        Arrived::Held(id) => SendRow::Accepted {
            to: session.name.to_string(),
            id,
            ahead: 0,
            note: "it is held until the user of that session accepts it".to_owned(),
            request_id: None,
        },
    };
    call.remember(turn, Keyed::Sent([row.clone()].to_vec()));
    Ok(Said::Now(Answer::Sent([row].to_vec())))
}

/// A session of ours, as another one sees it.
fn from_session(durable: &Durable, id: &SessionId) -> Option<Outside> {
    let own = durable.sessions.get(id)?;
    Some(Outside {
        address: Place::Local(id.to_string()),
        name: own.name.to_string(),
        bypasses: own.bypasses,
        verified: true,
        message: String::new(),
    })
}

pub(super) fn list(turn: &Turn<'_>, session: &str) -> Verdict {
    let session = super::control::one_or_all(turn, session)?;
    let is_meant = |it: &&Message| {
        it.state == State::Held && session.as_ref().is_none_or(|id| it.session == *id)
    };
    let found: Vec<_> = turn.durable.messages.values().filter(is_meant).map(|it| it.id).collect();
    Ok(Said::Now(Answer::Inbound(found)))
}

pub(super) fn answer(turn: &mut Turn<'_>, given: &str, accept: bool, reason: &str) -> Verdict {
    let id = MessageId::parse(given);
    let message = id.and_then(|id| turn.durable.messages.get(&id));
    let Some(message) = message.filter(|it| it.state == State::Held) else {
        let given = format!("{given}; `coordctl inbound` lists held messages");
        return Err(Denial::NoSuch { what: "held message", given });
    };
    let session = turn.durable.sessions.get(&message.session).ok_or(Denial::BadCredentials)?;
    let lead = turn.durable.lead_of(&session.id).ok_or(Denial::BadCredentials)?;
    if !accept {
        if reason.len() > limits::REASON_LEN_MAX {
            let (len, max) = (reason.len(), limits::REASON_LEN_MAX);
            return Err(Denial::TooLarge { field: "reason", len, max });
        }
        let reason = if reason.is_empty() { "the user refused it" } else { reason };
        let verdict = outgoing::Verdict::Refused;
        outbox::give_back(turn, message, verdict, reason);
        let (reason, at_ms) = (reason.to_owned(), turn.now.wall_ms);
        turn.record(Record::MessageBounced { message: message.id, reason, at_ms });
        return Ok(Said::Now(Answer::Done));
    }
    if turn.live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    mailbox::check(lead, &message.text)?;
    let new = turn.number();
    turn.record(Record::MessageLetIn { message: message.id, new });
    outside::wake(turn, session);
    Ok(Said::Now(Answer::Sent([super::sending::row(lead, new, None)].to_vec())))
}

pub(super) fn set(turn: &mut Turn<'_>, session: &str, inbound: Option<Inbound>) -> Verdict {
    let session = route::session(turn.durable, session)?;
    if session.inbound != inbound {
        turn.record(Record::InboundSet { session: session.id.clone(), inbound });
    }
    Ok(Said::Now(Answer::Session(session.id.clone())))
}

pub(super) fn peers(call: &Call, turn: &mut Turn<'_>) -> Said {
    turn.effect(Effect::ListPeers { peer: call.peer, call: call.id });
    Said::ByShell
}
