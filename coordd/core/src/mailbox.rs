//! Into a mailbox: what is checked, and what is recorded. Out of it is `settle.rs`.

use crate::agent::Agent;
use crate::denial::Denial;
use crate::effect::Event;
use crate::id::MessageId;
use crate::message::{Kind, Message, Sender, State};
use crate::{Durable, Effect, Live, Moment, Record, Step, limits};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::{String, ToString as _};

/// What is to be put into a mailbox.
pub(crate) struct Draft {
    pub(crate) from: Sender,
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) summary: String,
}

/// Hands out message numbers within one step, before its records are applied.
pub(crate) struct Numbers {
    last: u64,
}

impl Numbers {
    /// Goes on after what is applied and what this step has given out already.
    pub(crate) fn after(durable: &Durable, step: &Step) -> Self {
        let given = step.records.iter().rev().find_map(|record| {
            if let Record::MessagePut { message } = record { Some(message.id.0) } else { None }
        });
        Self { last: given.unwrap_or(durable.last_message) }
    }

    fn next(&mut self) -> MessageId {
        self.last += 1;
        MessageId(self.last)
    }
}

/// Whether the receiver can take this text now.
pub(crate) fn check(durable: &Durable, to: &Agent, text: &str) -> Result<(), Denial> {
    if text.len() > limits::BODY_LEN_MAX {
        return Err(Denial::TooLarge {
            field: "message",
            len: text.len(),
            max: limits::BODY_LEN_MAX,
        });
    }
    let bytes: usize =
        to.mailbox.iter().filter_map(|id| durable.messages.get(id)).map(Message::len).sum();
    if to.mailbox.len() >= limits::MAILBOX_LEN_MAX || bytes + text.len() > limits::MAILBOX_BYTES_MAX
    {
        return Err(Denial::MailboxFull { name: to.name.to_string(), len: to.mailbox.len() });
    }
    Ok(())
}

/// Accepts a message for an agent. What may be refused has been checked before.
pub(crate) fn accept(
    numbers: &mut Numbers,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    to: &Agent,
    draft: Draft,
) -> MessageId {
    let id = numbers.next();
    let summary = draft.summary.chars().take(limits::SUMMARY_LEN_MAX).collect();
    let message = Message {
        id,
        session: to.session.clone(),
        from: draft.from,
        to: to.id.clone(),
        kind: draft.kind,
        text: draft.text,
        summary,
        state: State::Accepted,
        accepted_ms: now.wall_ms,
        delivered_ms: None,
        ended_ms: None,
        reason: String::new(),
    };
    step.record(Record::MessagePut { message: Box::new(message) });
    let event = Event::MessageChanged { message: id, state: State::Accepted };
    step.effect(Effect::Publish { session: to.session.clone(), event });
    live.touch(&to.id);
    id
}

/// Gives up those undelivered messages of an agent that `which` picks, and says so. Returns how many.
pub(crate) fn bounce(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    reason: &str,
    which: impl Fn(&MessageId) -> bool,
) -> u32 {
    let mut count = 0;
    for id in agent.mailbox.iter().filter(|id| which(id)) {
        let Some(message) = durable.messages.get(id) else { continue };
        step.record(Record::MessageBounced {
            message: *id,
            reason: reason.to_owned(),
            at_ms: now.wall_ms,
        });
        let event = Event::MessageChanged { message: message.id, state: State::Bounced };
        step.effect(Effect::Publish { session: agent.session.clone(), event });
        count += 1;
    }
    count
}
