//! What can be asked for.

mod kind;
mod new;

use alloc::string::String;
use alloc::vec::Vec;

pub use kind::Kind;
pub use new::{Invite, Join, NewAgent, NewSession};
pub use proto_words::address::Address;
pub use proto_words::message::Body;
use proto_words::view::Size;

use crate::state::agent::{Ended, Outcome};
use crate::state::bridge::{Brought, Fate, Report};
use crate::state::id::MessageId;
use crate::state::permission::Question;
use crate::state::session::Inbound;
use crate::state::task::TaskStatus;

/// A request. `proto` has the same with its documentation; this is what the core understands of it.
#[expect(missing_docs, reason = "the fields are those of `proto::request`, documented there")]
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    Ping,
    DaemonStatus,
    DaemonStop {
        keep_agents: bool,
    },
    SessionNew(NewSession),
    SessionList,
    SessionShow {
        session: String,
    },
    SessionStop {
        session: String,
    },
    SessionResume {
        session: String,
        mode_variable: Option<String>,
    },
    SessionRemove {
        session: String,
        force: bool,
    },
    Join(Join),
    Prompt {
        session: String,
        agent: Option<String>,
        text: String,
    },
    Interrupt {
        session: String,
    },
    Send {
        session: String,
        to: Address,
        body: Body,
        summary: String,
        notify_when_idle: bool,
    },
    PeerList,
    InboundList {
        session: String,
    },
    InboundAnswer {
        message: String,
        accept: bool,
        reason: String,
    },
    InboundSet {
        session: String,
        inbound: Option<Inbound>,
    },
    Receipt {
        message: String,
    },
    AgentSpawn(NewAgent),
    AgentStop {
        agent: String,
    },
    AgentShow {
        agent: String,
    },
    Transcript {
        agent: String,
        from: u64,
        limit: u32,
    },
    PermissionAsk(Question),
    PermissionList {
        session: String,
    },
    PermissionAnswer {
        id: String,
        allow: bool,
        always: bool,
        reason: String,
    },
    StructuredOutput {
        output: String,
    },
    TeamCreate {
        session: String,
        name: String,
        description: String,
        agent_type: String,
    },
    TeamDelete {
        session: String,
    },
    TeamList,
    TeamShow {
        team: String,
    },
    TeamInvite(Invite),
    TaskCreate {
        team: String,
        subject: String,
        description: String,
        blocked_by: Vec<u32>,
    },
    TaskList {
        team: String,
    },
    TaskGet {
        team: String,
        task: u32,
    },
    TaskUpdate {
        team: String,
        task: u32,
        status: Option<TaskStatus>,
        owner: Option<String>,
        blocked_by: Option<Vec<u32>>,
    },
    ScratchpadList {
        session: String,
    },
    ScratchpadShow {
        session: String,
        path: String,
    },
    Usage {
        session: String,
    },
    Subscribe {
        session: String,
        after: Option<u64>,
    },
    Attach {
        session: String,
        agent: String,
        history: Option<u32>,
    },
    Screen {
        agent: String,
        size: Option<Size>,
    },
    ScreenInput {
        agent: String,
        size: Option<Size>,
        bytes: Vec<u8>,
    },
    TerminalEnded(Ended),
    Acknowledge {
        messages: Vec<MessageId>,
        run: u32,
    },
    RunEnded {
        run: u32,
        outcome: Outcome,
    },
    BridgeSet {
        on: bool,
    },
    BridgeAllow {
        session: String,
        peer: String,
        inbound: bool,
        outbound: bool,
    },
    BridgeStatus,
    BridgeTold {
        id: MessageId,
        fate: Fate,
    },
    BridgeBring(Brought),
    BridgeReport(Report),
}

impl Request {
    /// Whether its answer may come later.
    pub(crate) fn may_wait(&self) -> bool {
        if let Self::AgentSpawn(new) = self {
            return new.wait;
        }
        if let Self::Send { to, .. } = self {
            return matches!(to, Address::Uds(_));
        }
        let kinds = [Kind::SessionStop, Kind::SessionRemove, Kind::AgentStop, Kind::PermissionAsk];
        kinds.contains(&self.kind())
    }
}
