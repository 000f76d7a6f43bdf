//! Into a mailbox: what is checked, and what is recorded. Out of it is `settle.rs`.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::rules::outbox;
use crate::rules::turn::Turn;
use crate::state::agent::Agent;
use crate::state::denial::Denial;
use crate::state::id::{AgentId, MessageId};
use crate::state::message::{Kind, Message, Sender, State};
use crate::state::outgoing::Verdict;
use crate::state::{Effect, Record, limits};

/// What is to be put into a mailbox.
pub(crate) struct Draft {
    pub(crate) from: Sender,
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) summary: String,
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
pub(crate) fn accept(turn: &mut Turn<'_>, to: &Agent, draft: Draft) -> MessageId {
    let id = put(turn, to, draft, State::Accepted);
    outbox::carry(turn, to, id);
    id
}

/// Records a message for an agent, in its mailbox or held.
pub(crate) fn put(turn: &mut Turn<'_>, to: &Agent, draft: Draft, state: State) -> MessageId {
    let id = turn.number();
    let message = Message {
        id,
        session: to.session.clone(),
        from: draft.from,
        to: to.id.clone(),
        kind: draft.kind,
        text: draft.text,
        summary: draft.summary.chars().take(limits::SUMMARY_LEN_MAX).collect(),
        state,
        accepted_ms: turn.now.wall_ms,
        delivered_ms: None,
        ended_ms: None,
        reason: String::new(),
    };
    turn.record(Record::MessagePut { message: Box::new(message) });
    id
}

/// Gives up those messages of an agent's mailbox that `which` picks, and says so. Returns how many.
///
/// What coordd itself said is never given up: the end of a run is told once and no more than once (N-4). The reason tells the
/// truth about each message: one that a process got may be in the conversation, since the acknowledgement may have been lost.
pub(crate) fn bounce(
    turn: &mut Turn<'_>,
    agent: &Agent,
    reason: &str,
    which: impl Fn(&Message) -> bool,
) -> u32 {
    let mut senders: BTreeMap<&AgentId, Vec<MessageId>> = BTreeMap::new();
    let mut count = 0;
    let messages = agent.mailbox.iter().filter_map(|id| turn.durable.messages.get(id));
    for message in messages.filter(|it| it.from != Sender::System && which(it)) {
        let reason = match message.state {
            State::Accepted => format!("{reason}; it had not got the message"),
            State::Held | State::Delivered | State::Consumed | State::Bounced | State::Expired => {
                format!("{reason}; it had got the message, and may have read it")
            }
        };
        outbox::give_back(turn, message, Verdict::Refused, &reason);
        turn.record(Record::MessageBounced {
            message: message.id,
            reason,
            at_ms: turn.now.wall_ms,
        });
        count += 1;
        // A worker's task needs no word of its own: how its run ended says it.
        if let (Sender::Agent(from), false) = (&message.from, message.kind == Kind::Prompt) {
            senders.entry(from).or_default().push(message.id);
        }
    }
    // What stands in its inbox is taken out again: its sender was told that it came back.
    if count > 0
        && agent.is_in_terminal()
        && let Some(team) = turn.durable.team_of(&agent.session).filter(|it| !it.deleting)
    {
        turn.effect(Effect::ServeInboxes { team: team.name.clone() });
    }
    for (sender, ids) in senders {
        if let Some(sender) = turn.durable.agents.get(sender) {
            return_to(turn, sender, agent, reason, &ids);
        }
    }
    count
}

/// Tells an agent that its messages came back (M-4).
fn return_to(
    turn: &mut Turn<'_>,
    sender: &Agent,
    receiver: &Agent,
    reason: &str,
    ids: &[MessageId],
) {
    let ids = ids.iter().map(MessageId::to_string).collect::<Vec<_>>().join(", ");
    let text = format!("Undeliverable to {}: {ids}. {reason}.", receiver.name);
    let summary = format!("undeliverable to {}: {ids}", receiver.name);
    let draft = Draft { from: Sender::System, kind: Kind::Text, text, summary };
    accept(turn, sender, draft);
}
