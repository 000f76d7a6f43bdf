//! What can happen to the core.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::state::agent::{Outcome, Process};
use crate::state::far::Told;
use crate::state::id::{AgentId, MessageId, PeerId, SessionId};
use crate::state::message::Outside;
use crate::state::name::Name;
use crate::state::outgoing::Verdict;
use crate::state::request::Request;
use crate::state::task::Edit;
use crate::state::terminal::Left;

/// Where a program comes from, by the kernel's word: an agent's programs are not the user, whatever they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The program's process, those that it descends from, and the leaders of their sessions; the nearest first.
    pub processes: Vec<Process>,
    /// The agents whose mark is in the environment of one of them. Another daemon's agents may be among them.
    pub marks: Vec<AgentId>,
}

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// The daemon started, and the durable state is as it was left.
    Started,
    /// It comes after `Started` when the store was damaged, so that records may be missing.
    Damaged,
    /// A peer of this user said hello.
    Connected {
        /// The connection.
        peer: PeerId,
        /// Set when an agent process speaks.
        credentials: Option<Credentials>,
        /// Where the program comes from, for one that gives no credentials.
        lineage: Lineage,
    },
    /// A connection ended.
    Disconnected {
        /// The connection.
        peer: PeerId,
    },
    /// A peer asks for something.
    Request {
        /// The connection.
        peer: PeerId,
        /// The call's id on it.
        call: u64,
        /// Its idempotency key.
        key: Option<String>,
        /// What is asked for.
        request: Request,
    },
    /// A process was started.
    Spawned {
        /// The agent that the process belongs to.
        agent: AgentId,
        /// The incarnation of the agent's process.
        incarnation: u32,
        /// The process as the kernel knows it.
        process: Process,
    },
    /// A process could not be started, and trying again would not help.
    SpawnFailed {
        /// The agent that the process belongs to.
        agent: AgentId,
        /// The incarnation of the agent's process.
        incarnation: u32,
        /// What to tell.
        why: String,
    },
    /// A process ended, or turned out to be gone.
    Exited {
        /// The agent that the process belongs to.
        agent: AgentId,
        /// The incarnation of the agent's process.
        incarnation: u32,
        /// How, for people: `signal 9`, `status 1`, `was gone`.
        how: String,
        /// What the process left on disk about its last run.
        outcome: Option<(u32, Outcome)>,
    },
    /// A session has another environment from now on: keys, paths.
    EnvironmentChanged {
        /// The session that it is about.
        session: SessionId,
    },
    /// The scratchpad is where it was asked for.
    ScratchpadReady {
        /// The session whose scratchpad it is.
        session: SessionId,
        /// The path of the folder.
        path: String,
    },
    /// What was in the scratchpad is gone; an empty one is there.
    ScratchpadLost {
        /// Whose.
        session: SessionId,
        /// Where.
        path: String,
    },
    /// The team file was changed by someone else in a way that makes sense.
    TeamEdited {
        /// The team, by its name.
        team: Name,
        /// Its new description.
        description: String,
        /// All that this build does not know, as JSON text.
        outside: String,
    },
    /// A task's file was changed, or made, by someone else in a way that makes sense.
    TaskEdited {
        /// Of which team.
        team: Name,
        /// Its number.
        task: u32,
        /// What is different now.
        edit: Box<Edit>,
    },
    /// The files of a team that is being deleted were dealt with.
    TeamRemoved {
        /// The team, by its name.
        team: Name,
        /// Whether nothing is left of them.
        all: bool,
    },
    /// Somebody outside said something to a session, or, without one, to the user. What becomes of it is told by `Effect::Heard`.
    Outside {
        /// The shell's number for it.
        ticket: u64,
        /// Who is spoken to.
        session: Option<SessionId>,
        /// Who speaks.
        from: Outside,
        /// What is said.
        says: Says,
    },
    /// The bridge process has ended, or cannot be started.
    BridgeEnded {
        /// Why, and when it is tried again, in words for people.
        why: String,
    },
    /// The bridge process is about to be started.
    BridgeStarting {
        /// Which start.
        incarnation: u32,
        /// Its secret.
        token: String,
    },
    /// A message was handed to somebody outside, or could not be.
    Handed {
        /// The message that was handed out.
        outgoing: MessageId,
        /// Why not, and what to do.
        failed: Option<String>,
    },
    /// Messages for a member in a terminal stand in its inbox.
    InboxWritten {
        /// The member.
        agent: AgentId,
        /// The messages, by their ids.
        messages: Vec<MessageId>,
    },
    /// A member in a terminal has read messages.
    InboxRead {
        /// The member.
        agent: AgentId,
        /// The messages, by their ids.
        messages: Vec<MessageId>,
    },
    /// A member in a terminal left something in an inbox.
    InboxLeft(Box<Left>),
    /// The process of a member in a terminal was seen, or is seen no more.
    TerminalSeen {
        /// The member.
        agent: AgentId,
        /// The process as the kernel knows it.
        process: Option<Process>,
    },
    /// The shell was told to end: agents stop in order, or go on without it.
    Terminate {
        /// Whether agents go on.
        keep_agents: bool,
    },
    /// A deadline passed.
    Tick,
}

/// What is said from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Says {
    /// Words for the conversation.
    Words {
        /// The text of the message.
        text: String,
        /// In short.
        summary: String,
    },
    /// It wants to be told once when the lead has nothing to do.
    NotifyWhenIdle,
    /// What became of one of our messages.
    Status {
        /// Its id outside.
        of: String,
        /// What became of the message.
        verdict: Verdict,
        /// In the words of the reporter.
        reason: String,
    },
    /// Whom we asked about has nothing to do.
    Idle {
        /// The id outside of what asked.
        of: String,
        /// Its last words.
        detail: String,
    },
    /// About a worker that belongs to two machines; it comes over the bridge alone.
    Host(Told),
}

/// What an agent process says to prove who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The agent.
    pub agent: AgentId,
    /// Which run of its process.
    pub incarnation: u32,
    /// The secret.
    pub token: String,
}

impl core::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Credentials({}, {})", self.agent, self.incarnation)
    }
}
