//! Into a mailbox: what is checked, and what is recorded. Out of it is `settle.rs`.

use crate::rules::{Step, host, outside};
use crate::state::agent::Agent;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::id::{AgentId, MessageId};
use crate::state::message::{Kind, Message, Sender, State};
use crate::state::outgoing::Verdict;
use crate::state::planted::{Bug, is_planted};
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

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
    #[expect(clippy::wildcard_enum_match_arm, reason = "most records give out no number")]
    pub(crate) fn after(durable: &Durable, step: &Step) -> Self {
        let given = step.records.iter().filter_map(|record| match record {
            Record::MessagePut { message } => Some(message.id.0),
            Record::MessageLetIn { new, .. } => Some(new.0),
            Record::OutgoingPut { outgoing } => Some(outgoing.id.0),
            _ => None,
        });
        Self { last: given.max().unwrap_or(durable.last_message) }
    }

    pub(crate) fn next(&mut self) -> MessageId {
        self.last += 1;
        MessageId(self.last)
    }
}

/// Whether the receiver can take this text now.
pub(crate) fn check(to: &Agent, text: &str) -> Result<(), Denial> {
    if text.len() > limits::BODY_LEN_MAX {
        return Err(Denial::TooLarge {
            field: "message",
            len: text.len(),
            max: limits::BODY_LEN_MAX,
        });
    }
    let bytes = to.mailbox_bytes.saturating_add(text.len() as u64);
    if to.mailbox.len() >= limits::MAILBOX_LEN_MAX || bytes > limits::MAILBOX_BYTES_MAX as u64 {
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
    let message = drafted(id, now, to, draft, State::Accepted);
    step.record(Record::MessagePut { message: Box::new(message) });
    let event = Event::MessageChanged { message: id, state: State::Accepted };
    step.effect(Effect::Publish { session: to.session.clone(), event });
    live.touch(&to.id);
    host::carry(numbers, step, now, to, id);
    id
}

/// The message that a draft becomes.
pub(crate) fn drafted(
    id: MessageId,
    now: &Moment,
    to: &Agent,
    draft: Draft,
    state: State,
) -> Message {
    Message {
        id,
        session: to.session.clone(),
        from: draft.from,
        to: to.id.clone(),
        kind: draft.kind,
        text: draft.text,
        summary: draft.summary.chars().take(limits::SUMMARY_LEN_MAX).collect(),
        state,
        accepted_ms: now.wall_ms,
        delivered_ms: None,
        ended_ms: None,
        reason: String::new(),
    }
}

/// Gives up those messages of an agent's mailbox that `which` picks, and says so. Returns how many.
///
/// What coordd itself said is never given up: the end of a run is told once and no more than once (N-4). The reason tells the
/// truth about each message: one that a process got may be in the conversation, since the acknowledgement may have been lost.
pub(crate) fn bounce(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    reason: &str,
    which: impl Fn(&Message) -> bool,
) -> u32 {
    let mut senders: BTreeMap<&AgentId, Vec<MessageId>> = BTreeMap::new();
    let mut count = 0;
    let messages = agent.mailbox.iter().filter_map(|id| durable.messages.get(id));
    for message in messages.filter(|it| it.from != Sender::System && which(it)) {
        let reason = match message.state {
            State::Accepted => format!("{reason}; it had not got the message"),
            State::Held | State::Delivered | State::Consumed | State::Bounced | State::Expired => {
                format!("{reason}; it had got the message, and may have read it")
            }
        };
        outside::give_back(durable, step, now, message, Verdict::Refused, &reason);
        step.record(Record::MessageBounced { message: message.id, reason, at_ms: now.wall_ms });
        let event = Event::MessageChanged { message: message.id, state: State::Bounced };
        step.effect(Effect::Publish { session: agent.session.clone(), event });
        count += 1;
        // A worker's task needs no word of its own: how its run ended says it.
        if let (Sender::Agent(from), false) = (&message.from, message.kind == Kind::Prompt) {
            senders.entry(from).or_default().push(message.id);
        }
    }
    // What stands in its inbox is taken out again: its sender was told that it came back.
    if count > 0
        && agent.is_in_terminal()
        && let Some(team) = durable.team_of(&agent.session).filter(|it| !it.deleting)
    {
        step.effect(Effect::ServeInboxes { team: team.name.clone() });
    }
    if is_planted(Bug::A21) {
        senders.clear();
    }
    for (sender, ids) in senders {
        if let Some(sender) = durable.agents.get(sender) {
            return_to(durable, live, step, now, sender, agent, reason, &ids);
        }
    }
    count
}

/// Tells an agent that its messages came back (M-4).
#[expect(clippy::too_many_arguments, reason = "one fact each about what came back")]
fn return_to(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    sender: &Agent,
    receiver: &Agent,
    reason: &str,
    ids: &[MessageId],
) {
    let ids = ids.iter().map(MessageId::to_string).collect::<Vec<_>>().join(", ");
    let text = format!("Undeliverable to {}: {ids}. {reason}.", receiver.name);
    let summary = format!("undeliverable to {}: {ids}", receiver.name);
    let mut numbers = Numbers::after(durable, step);
    let draft = Draft { from: Sender::System, kind: Kind::Text, text, summary };
    accept(&mut numbers, live, step, now, sender, draft);
}
