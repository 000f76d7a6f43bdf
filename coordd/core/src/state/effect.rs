//! What the shell is to do, once the records before it are durable. Effects never fail: how it went comes back as an input.

use alloc::string::String;
use alloc::vec::Vec;

pub use proto_words::view::Size;

use crate::state::agent::{Life, Process};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::id::{AgentId, MessageId, PeerId, PermissionId, SessionId};
use crate::state::message::State;
use crate::state::mode::Mode;
use crate::state::name::Name;
use crate::state::session::SessionState;

/// Something to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Tell a peer that it is let in.
    Welcome {
        /// The connection.
        peer: PeerId,
        /// Who it turned out to be.
        agent: Option<AgentId>,
    },
    /// Tell a peer why, and close the connection.
    Close {
        /// The connection.
        peer: PeerId,
        /// The reason for the refusal.
        denial: Denial,
    },
    /// Answer a call.
    Reply {
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
        /// The answer.
        outcome: Result<Answer, Denial>,
    },
    /// Hand a message to an agent's process, unless it has ended meanwhile: then its text is gone, and nobody misses it.
    Deliver {
        /// The connection.
        peer: PeerId,
        /// The message.
        message: MessageId,
    },
    /// Tell an agent's process something.
    Order {
        /// The connection.
        peer: PeerId,
        /// The order to hand over.
        order: Order,
    },
    /// Start the process of an agent's present incarnation.
    Spawn {
        /// The agent that it is about.
        agent: AgentId,
        /// The incarnation's secret, which is told to the process and kept nowhere.
        token: String,
    },
    /// Find out whether this process still lives, and tell when it ends. Without a process: whatever a file in its folder says.
    Watch {
        /// The agent that it is about.
        agent: AgentId,
        /// The incarnation of the agent's process.
        incarnation: u32,
        /// It, if it was recorded.
        process: Option<Process>,
        /// Whether the processes that it started end with it. A user's own program ends alone: its children are the user's.
        tree: bool,
    },
    /// Kill what is left of an agent's processes.
    Kill {
        /// The agent that it is about.
        agent: AgentId,
        /// The incarnation of the agent's process.
        incarnation: u32,
        /// It, if it was recorded.
        process: Option<Process>,
        /// Whether the processes that it started are killed too.
        tree: bool,
    },
    /// Make sure that a session's scratchpad and state folder are there.
    OpenSession {
        /// The session that it is about.
        session: SessionId,
        /// Whether it is new.
        create: bool,
    },
    /// Remove a session's files, then answer.
    RemoveSession {
        /// The session that it is about.
        session: SessionId,
        /// Its scratchpad.
        scratchpad: Option<String>,
        /// Its team.
        team: Option<Name>,
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// Write a team's file and task files.
    WriteTeam {
        /// The team, by its name.
        team: Name,
    },
    /// Put what waits for a team's members in terminals into their inboxes, and look at what is there.
    ServeInboxes {
        /// The team, by its name.
        team: Name,
    },
    /// Take out of an inbox what was taken over.
    InboxTaken {
        /// Which team's.
        team: Name,
        /// Whose: the name that its file has.
        inbox: String,
        /// What: see [`crate::state::terminal::Left::key`].
        key: String,
    },
    /// Remove a team's files, then answer, and say how it went.
    RemoveTeam {
        /// The team, by its name.
        team: Name,
        /// Its session.
        session: SessionId,
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// Read a page of a transcript, then answer.
    ReadTranscript {
        /// The agent that it is about.
        agent: AgentId,
        /// The first entry wanted, or 0 for the last `limit` ones.
        from: u64,
        /// How many.
        limit: u32,
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// List a scratchpad, or read a file in it, then answer.
    ReadScratchpad {
        /// The session that it is about.
        session: SessionId,
        /// The file.
        path: Option<String>,
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// Say to somebody outside what the outbox has for it, and tell how it went.
    HandOut {
        /// The message to hand out.
        outgoing: MessageId,
    },
    /// What came from outside was dealt with.
    Heard {
        /// The shell's number for it.
        ticket: u64,
        /// Whether it is on disk, or needs not be; else its sender must not believe so.
        taken: bool,
    },
    /// See to it that the bridge process runs, anew if it does already, or does not.
    WantBridge {
        /// Whether it is to run.
        on: bool,
    },
    /// Tell the bridge that everything open follows.
    BeginBridge {
        /// Its connection.
        peer: PeerId,
        /// Within which the numbers of messages count.
        epoch: u64,
    },
    /// Tell the bridge which sessions other daemons may write to.
    Announce {
        /// Its connection.
        peer: PeerId,
    },
    /// Give the bridge a message, unless its text is gone meanwhile.
    Carry {
        /// Its connection.
        peer: PeerId,
        /// The message.
        outgoing: MessageId,
    },
    /// List who can be written to outside of a session, then answer.
    ListPeers {
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// From now on tell this peer of events, after answering.
    Subscribe {
        /// Of one session.
        session: Option<SessionId>,
        /// Kept ones after this number first.
        after: Option<u64>,
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// From now on show this peer the transcripts of a session, after answering.
    Attach {
        /// The session that it is about.
        session: SessionId,
        /// Only this agent's, or the lead's.
        agent: AgentId,
        /// How many entries from before.
        history: Option<u32>,
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// From now on show this peer the screen of an agent and the events of its session, after answering; the whole screen comes next.
    ShowScreen {
        /// The session.
        session: SessionId,
        /// The agent that it is about.
        agent: AgentId,
        /// The connection.
        peer: PeerId,
        /// The call.
        call: u64,
    },
    /// Tell all who subscribed.
    Publish {
        /// Of which session.
        session: SessionId,
        /// The event to publish.
        event: Event,
    },
    /// End the daemon.
    Exit,
}

/// What an agent's process is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// End the turn, the tools and yourself.
    Stop {
        /// Who asked.
        by: String,
        /// Whether the run stays open, to go on where it is when the session does.
        keeps_run: bool,
    },
    /// End the run and wait.
    Interrupt,
    /// A rule holds in its session from now on.
    Learned {
        /// The rule that an *always* added.
        rule: String,
    },
    /// Show the screen, or no more.
    Screen {
        /// Whether somebody looks.
        shown: bool,
    },
    /// Take what is typed.
    ScreenInput {
        /// The size of the viewer that types.
        size: Option<Size>,
        /// The bytes that were typed.
        bytes: Vec<u8>,
    },
}

/// What subscribers are told.
#[expect(missing_docs, reason = "the shapes are those of `proto::event`, documented there")]
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    SessionCreated,
    SessionChanged(SessionState),
    /// What a session may exchange with others, or what becomes of what it is told.
    SettingsChanged,
    SessionRemoved,
    ModeSwitched {
        from: Mode,
        to: Mode,
    },
    AgentCreated(AgentId),
    AgentChanged {
        agent: AgentId,
        life: Life,
        reason: String,
    },
    RunEnded {
        agent: AgentId,
    },
    MessageChanged {
        message: MessageId,
        state: State,
    },
    PermissionAsked(PermissionId),
    PermissionAnswered {
        id: PermissionId,
        allowed: bool,
    },
    TeamChanged(Name),
    TeamDeleted(Name),
    TaskChanged {
        team: Name,
        task: u32,
    },
    /// What others wrote into a task's file is not taken over.
    EditRefused {
        team: Name,
        task: u32,
        why: Denial,
    },
    Output,
    Warning(String),
}
