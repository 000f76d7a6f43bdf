//! Prompts, messages and receipts (section 6 of SPEC).

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::rules::call::{Call, Said, Verdict};
use crate::rules::mailbox::{self, Draft};
use crate::rules::turn::Turn;
use crate::rules::{outbox, route};
use crate::state::agent::{Agent, Life};
use crate::state::answer::{Answer, SendRow};
use crate::state::denial::Denial;
use crate::state::id::{MessageId, SessionId};
use crate::state::live::Caller;
use crate::state::message::{Kind, Sender};
use crate::state::record::Keyed;
use crate::state::request::{Address, Body};
use crate::state::session::SessionState;
use crate::state::{Record, limits};

/// The task of an agent that this very step makes.
pub(super) fn first_prompt(
    call: &Call,
    turn: &mut Turn<'_>,
    to: &Agent,
    text: String,
) -> Result<(), Denial> {
    mailbox::check(to, &text)?;
    outbox::check(turn, to, &text)?;
    let draft =
        Draft { from: sender(call), kind: Kind::Prompt, text, summary: to.description.clone() };
    mailbox::accept(turn, to, draft);
    Ok(())
}

pub(super) fn sender(call: &Call) -> Sender {
    match &call.caller {
        Caller::User => Sender::User,
        Caller::Bridge | Caller::ProgramOf(_) => Sender::System,
        Caller::Agent(id) => Sender::Agent(id.clone()),
    }
}

pub(super) fn prompt(
    call: &Call,
    turn: &mut Turn<'_>,
    session: &str,
    agent: Option<&str>,
    text: String,
) -> Verdict {
    let session = route::session(turn.durable, session)?;
    if session.state == SessionState::Stopped {
        return Err(Denial::SessionStopped { name: session.name.to_string() });
    }
    if text.trim().is_empty() {
        return Err(Denial::Invalid { field: "text", why: "is empty".to_owned() });
    }
    let to = route::agent_in(turn.durable, &session.id, agent.unwrap_or("lead"))?;
    can_read(turn, to)?;
    mailbox::check(to, &text)?;
    outbox::check(turn, to, &text)?;
    let draft = Draft { from: Sender::User, kind: Kind::Prompt, text, summary: String::new() };
    let id = mailbox::accept(turn, to, draft);
    let rows = [row(to, id, None)].to_vec();
    call.remember(turn, Keyed::Sent(rows.clone()));
    Ok(Said::Now(Answer::Sent(rows)))
}

pub(super) fn send(
    call: &Call,
    turn: &mut Turn<'_>,
    session: &str,
    to: &Address,
    body: &Body,
    summary: &str,
) -> Verdict {
    let session = own_session(call, turn, session)?;
    let state = turn.durable.sessions.get(&session).map(|it| (it.state, it.name.to_string()));
    if let Some((SessionState::Stopped, name)) = state {
        return Err(Denial::SessionStopped { name });
    }
    let everyone = *to == Address::Everyone;
    if everyone && !matches!(body, Body::Text { .. }) {
        return Err(Denial::StructuredToMany);
    }
    let receivers = receivers(call, turn, &session, to)?;
    let first = receivers.first().ok_or(Denial::Nobody)?;
    can_read(turn, first)?;
    let (kind, text, answered) = meaning(call, turn, &session, first, body)?;
    // There is no way to answer one from another machine; `TaskStop` ends what runs there.
    if !matches!(kind, Kind::Text) && first.is_hosted() {
        return Err(Denial::StructuredToMany);
    }
    let mut rows = Vec::new();
    for receiver in receivers {
        // M-5: one bad receiver does not stop the others, but a single one is told as the call's own failure.
        let fits =
            mailbox::check(receiver, &text).and_then(|()| outbox::check(turn, receiver, &text));
        if let Err(denial) = fits {
            // Too long is too long for each of them.
            if !everyone || matches!(denial, Denial::TooLarge { .. }) {
                return Err(denial);
            }
            let reason = if matches!(denial, Denial::MailboxFull { .. }) {
                "its mailbox is full"
            } else {
                "it is on another machine, which cannot be reached at the moment"
            };
            let (to, reason) = (receiver.name.to_string(), reason.to_owned());
            rows.push(SendRow::Refused { to, reason });
            continue;
        }
        let draft = Draft {
            from: sender(call),
            kind: kind.clone(),
            text: text.clone(),
            summary: summary.to_owned(),
        };
        let id = mailbox::accept(turn, receiver, draft);
        let request_id =
            matches!(kind, Kind::ShutdownRequest { .. }).then(|| format!("shutdown-{id}"));
        rows.push(row(receiver, id, request_id));
    }
    if let Some(message) = answered {
        turn.record(Record::RequestAnswered { message });
    }
    call.remember(turn, Keyed::Sent(rows.clone()));
    Ok(Said::Now(Answer::Sent(rows)))
}

/// An agent on another machine has no conversation here and reads nothing.
fn can_read(turn: &Turn<'_>, to: &Agent) -> Result<(), Denial> {
    let session = turn.durable.sessions.get(&to.session);
    match session.filter(|it| it.is_host() && it.lead == to.id) {
        Some(session) => Err(Denial::IsHost { session: session.name.to_string() }),
        None => Ok(()),
    }
}

/// An agent speaks in its own session only; a user says in which.
pub(super) fn own_session(call: &Call, turn: &Turn<'_>, given: &str) -> Result<SessionId, Denial> {
    match &call.caller {
        Caller::Agent(id) => {
            turn.durable.agents.get(id).map(|it| it.session.clone()).ok_or(Denial::BadCredentials)
        }
        Caller::User | Caller::Bridge | Caller::ProgramOf(_) => {
            route::session(turn.durable, given).map(|it| it.id.clone())
        }
    }
}

fn receivers<'a>(
    call: &Call,
    turn: &Turn<'a>,
    session: &'a SessionId,
    to: &Address,
) -> Result<Vec<&'a Agent>, Denial> {
    let is_sender = |agent: &Agent| call.caller == Caller::Agent(agent.id.clone());
    match to {
        Address::Name(name) => {
            let agent = route::agent_in(turn.durable, session, name)?;
            if is_sender(agent) {
                return Err(Denial::ToSelf);
            }
            Ok([agent].to_vec())
        }
        // A broadcast speaks to those who are at work; waking every worker that ever was would be a surprise.
        Address::Everyone => {
            let is_there = |it: &&Agent| !is_sender(it) && it.is_there();
            let found: Vec<_> =
                turn.durable.agents_of(session).into_iter().filter(is_there).collect();
            if found.is_empty() { Err(Denial::Nobody) } else { Ok(found) }
        }
        Address::Uds(_) | Address::Bridge(_) => Err(Denial::Nobody),
    }
}

/// What a body means: its kind, its text, and the request that it answers.
fn meaning(
    call: &Call,
    turn: &Turn<'_>,
    session: &SessionId,
    to: &Agent,
    body: &Body,
) -> Result<(Kind, String, Option<MessageId>), Denial> {
    match body {
        Body::Text { text } if text.trim().is_empty() => {
            Err(Denial::Invalid { field: "message", why: "is empty".to_owned() })
        }
        Body::Text { text } => Ok((Kind::Text, text.clone(), None)),
        Body::ShutdownRequest { reason } => {
            Ok((Kind::ShutdownRequest { answered: false }, reason.clone(), None))
        }
        Body::ShutdownResponse { request_id, approve, reason } => {
            let open = request_id.strip_prefix("shutdown-").and_then(MessageId::parse);
            let open = open.and_then(|id| turn.durable.messages.get(&id)).filter(|it| {
                let to_caller = call.caller == Caller::Agent(it.to.clone());
                it.session == *session
                    && to_caller
                    && it.kind == Kind::ShutdownRequest { answered: false }
            });
            let Some(open) = open else {
                return Err(Denial::NoOpenRequest { given: request_id.clone() });
            };
            Ok((Kind::ShutdownResponse { approve: *approve }, reason.clone(), Some(open.id)))
        }
        // The lead, or the user in its place; what came into the team from elsewhere never approves anything (M-8).
        Body::PlanApprovalResponse { request_id, approve, feedback } => {
            let open = request_id.strip_prefix("plan-").and_then(MessageId::parse);
            let open = open.and_then(|id| turn.durable.messages.get(&id)).filter(|it| {
                let is_asked = match &call.caller {
                    Caller::User => true,
                    Caller::Bridge | Caller::ProgramOf(_) => false,
                    Caller::Agent(id) => *id == it.to,
                };
                it.session == *session && is_asked && it.from == Sender::Agent(to.id.clone())
            });
            match open.map(|it| (it.id, &it.kind)) {
                Some((id, Kind::PlanApprovalRequest { given, answered: false })) => {
                    let (given, approve) = (given.clone(), *approve);
                    let kind = Kind::PlanApprovalResponse { given, approve };
                    Ok((kind, feedback.clone(), Some(id)))
                }
                _ => Err(Denial::NoOpenRequest { given: request_id.clone() }),
            }
        }
    }
}

/// What the sender is told about one accepted message.
pub(super) fn row(to: &Agent, id: MessageId, request_id: Option<String>) -> SendRow {
    let note = match to.life {
        Life::Down | Life::Waiting | Life::Stopping { .. } if to.is_external() => {
            "it is not connected; it reads the message when its program joins again"
        }
        Life::Up if to.is_external() => "it reads the message when it next asks for its messages",
        Life::Up if to.has_pty() => "its terminal finds the message in its inbox",
        Life::Down if to.has_pty() => "its terminal is not running; the message starts it",
        Life::Down if to.is_in_terminal() && to.process.is_none() => {
            "its terminal is not running; it reads the message in its inbox when it is started"
        }
        Life::Down if to.is_in_terminal() => "its terminal finds the message in its inbox",
        Life::Down if to.is_hosted() => "it is in transit to the machine that the agent runs on",
        Life::Down => "it is not running; the message resumes it",
        Life::Waiting => "it waits for a place; it reads the message when it starts",
        Life::Stopping { .. } => "it is being stopped; the message resumes it afterwards",
        Life::Up if to.run_is_open() => "it reads the message at its next tool round",
        Life::Up => "it reads the message now",
    };
    let ahead = u32::try_from(to.mailbox.len()).unwrap_or(u32::MAX);
    SendRow::Accepted { to: to.name.to_string(), id, ahead, note: note.to_owned(), request_id }
}

pub(super) fn receipt(turn: &Turn<'_>, given: &str) -> Verdict {
    let found = MessageId::parse(given).filter(|id| {
        turn.durable.messages.contains_key(id) || turn.durable.outbox.get(*id).is_some()
    });
    let days = limits::RECEIPT_KEPT_MS / (24 * 60 * 60 * 1_000);
    found.map(|id| Said::Now(Answer::Receipt(id))).ok_or_else(|| Denial::NoSuch {
        what: "message",
        given: format!("{given} (receipts are kept for {days} days)"),
    })
}
