//! The durable changes. This is the journal's format: every variant and field stays readable for ever.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::state::agent::{Agent, Outcome, Process, Pty};
use crate::state::answer::SendRow;
use crate::state::id::{AgentId, MessageId, PermissionId, SessionId};
use crate::state::message::{Message, Outside, State};
use crate::state::name::Name;
use crate::state::outgoing::Outgoing;
use crate::state::permission::{Answer, Permission};
use crate::state::session::{Inbound, Session, SessionState};
use crate::state::task::Task;
use crate::state::team::Team;
use crate::state::written;

/// One durable change. `…Put` variants also make up a snapshot.
#[expect(missing_docs, reason = "the fields are those of what they change")]
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The user switched the bridge on or off, or numbers begin anew.
    BridgeSet { on: bool, epoch: u64 },
    /// Numbers that were given out; in a snapshot only.
    Counters { messages: u64, permissions: u64, queued: u64 },

    /// A session as it is.
    SessionPut { session: Box<Session> },
    /// A session stopped or was resumed.
    SessionState { session: SessionId, state: SessionState },
    /// Its scratchpad is there.
    ScratchpadReady { session: SessionId, path: String },
    /// The user allowed something for good.
    RuleLearned { session: SessionId, rule: String },
    /// The lead gave the structured result.
    OutputGiven { session: SessionId, output: String },
    /// What becomes of messages from outside from now on.
    InboundSet { session: SessionId, inbound: Option<Inbound> },
    /// Somebody outside wants to know when the lead has nothing to do.
    WatcherPut { session: SessionId, watcher: Box<Outside> },
    /// All who wanted to know were told.
    WatchersTold { session: SessionId },
    /// What the session may exchange with another daemon; nothing, when both are false.
    BridgeAllowed { session: SessionId, peer: String, inbound: bool, outbound: bool },
    /// A session and all that belongs to it is gone.
    SessionRemoved { session: SessionId },

    /// An agent as it is.
    AgentPut { agent: Box<Agent> },
    /// It wants a process.
    AgentWaiting { agent: AgentId },
    /// It no longer wants one.
    AgentDown { agent: AgentId },
    /// It was stopped or given up: only somebody who speaks to it wakes it.
    AgentParked { agent: AgentId },
    /// A process is about to be started.
    AgentStarted { agent: AgentId, incarnation: u32, token: String },
    /// It runs.
    AgentSpawned { agent: AgentId, incarnation: u32, process: Process },
    /// It is to end.
    AgentStopping { agent: AgentId, by: String, keep_mail: bool },
    /// It ended; `again` when it is wanted again at once, `counted` when that is held against it.
    AgentExited {
        agent: AgentId,
        incarnation: u32,
        again: bool,
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        counted: bool,
    },
    /// The process of a member in a terminal was seen, or is seen no more.
    TerminalSeen { agent: AgentId, process: Option<Process> },
    /// What is to become of a terminal that coordd runs, or how its program ended.
    PtySet { agent: AgentId, pty: Pty },
    /// A run ended.
    RunEnded {
        agent: AgentId,
        run: u32,
        #[serde(serialize_with = "written::outcome")]
        outcome: Outcome,
        at_ms: u64,
        thin: bool,
    },

    /// A message as it is.
    MessagePut { message: Box<Message> },
    /// It was handed over.
    MessageDelivered { message: MessageId, at_ms: u64 },
    /// They are in the conversation, as part of this run.
    MessagesConsumed { agent: AgentId, messages: Vec<MessageId>, run: u32, at_ms: u64 },
    /// It will not be delivered.
    MessageBounced { message: MessageId, reason: String, at_ms: u64 },
    /// It was held for too long.
    MessageExpired { message: MessageId, reason: String, at_ms: u64 },
    /// It was held, and is in its mailbox now, under a new id.
    MessageLetIn { message: MessageId, new: MessageId },
    /// A message to the outside as it is.
    OutgoingPut { outgoing: Box<Outgoing> },
    /// More is known of it.
    OutgoingMoved { outgoing: MessageId, state: State, reason: String, at_ms: u64 },
    /// A request was answered.
    RequestAnswered { message: MessageId },

    /// A question as it is.
    PermissionPut { permission: Box<Permission> },
    /// It was answered.
    PermissionAnswered { id: PermissionId, answer: Answer },

    /// A team as it is.
    TeamPut { team: Box<Team> },
    /// Somebody else changed its file.
    TeamEdited { team: Name, description: String, outside: String },
    /// Its removal has begun.
    TeamDeleting { team: Name },
    /// It is gone.
    TeamDeleted { team: Name },
    /// A task as it is.
    TaskPut { team: Name, task: Task },

    /// A call with an idempotency key was answered.
    Keyed { caller: String, key: String, to: Keyed, at_ms: u64 },
    /// Final messages, answered questions and keys of before are gone.
    Forgotten { before_ms: u64 },
}

/// Of records that are older than the field.
fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// What a call with an idempotency key led to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keyed {
    /// A session.
    Session(SessionId),
    /// An agent.
    Agent(AgentId),
    /// A message to one or more receivers, with each result.
    Sent(Vec<SendRow>),
    /// A message to the outside.
    Outgoing(MessageId),
    /// A question.
    Permission(PermissionId),
    /// A team.
    Team(Name),
    /// A task.
    Task(Name, u32),
    /// Nothing that is answered with: it is known that this was seen.
    Seen,
}
