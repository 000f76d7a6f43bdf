//! What a granted request is answered with. Mostly ids: the shell looks up what they name when it writes the reply.

use alloc::string::String;
use alloc::vec::Vec;

use crate::state::agent::Outcome;
use crate::state::bridge::Decision;
use crate::state::id::{AgentId, MessageId, PermissionId, SessionId};
use crate::state::name::Name;

/// An answer; `proto::response::Response` has the same shapes with what the ids name.
#[expect(missing_docs, reason = "the shapes are those of `proto::response`, documented there")]
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Done,
    Daemon,
    Session(SessionId),
    Sessions,
    Detail(SessionId),
    Stopped {
        agents: Vec<String>,
        bounced: u32,
    },
    /// Its machine is to stop it, and has not been told yet.
    StopAsked {
        agent: String,
    },
    Resumed {
        session: SessionId,
        note: String,
        waiting_messages: u32,
        interrupted: Vec<String>,
    },
    Joined {
        agent: AgentId,
        token: String,
    },
    Sent(Vec<SendRow>),
    Receipt(MessageId),
    Spawned {
        agent: AgentId,
        waits_for: Option<String>,
        note: String,
    },
    Ran {
        agent: AgentId,
        outcome: Outcome,
    },
    Agent(AgentId),
    Permitted {
        allow: bool,
        reason: String,
        rule: String,
    },
    Invited(AgentId),
    Permissions(Vec<PermissionId>),
    Team(Name),
    Teams,
    Task {
        team: Name,
        task: u32,
    },
    Tasks(Name),
    Usage(Option<SessionId>),
    /// Messages from outside that wait for the user.
    Inbound(Vec<MessageId>),
    /// How the bridge stands.
    Bridge,
    Brought(Decision),
    RunRecorded {
        exit: bool,
    },
}

/// What came of a send to one receiver.
#[expect(
    missing_docs,
    reason = "the shapes are those of `proto::message::SendResult`, documented there"
)]
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendRow {
    Accepted { to: String, id: MessageId, ahead: u32, note: String, request_id: Option<String> },
    Refused { to: String, reason: String },
}
