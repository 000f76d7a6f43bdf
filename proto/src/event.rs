//! What subscribed peers are told. Numbered within one boot of the daemon; a gap is always said.

use crate::WallMs;
use crate::agent::{Activity, Mode};
use crate::entry::Entry;
use crate::json::Json;
use crate::message::MessageState;
use crate::notification::Notification;
use crate::screen::Frame;
use crate::view::{
    AgentState, AgentView, PermissionView, SessionState, SessionView, TaskView, TeamView,
};
use serde::{Deserialize, Serialize};

/// An event with its place in the order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbered {
    /// Rising within one boot of the daemon; 0 for those of an agent's stream, which are not kept.
    pub seq: u64,
    /// When.
    pub at_ms: WallMs,
    /// The session that it is about; empty when about none.
    #[serde(default)]
    pub session: String,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A session was made.
    SessionCreated {
        /// It.
        session: SessionView,
    },
    /// A session was stopped or resumed.
    SessionChanged {
        /// Its state now.
        state: SessionState,
    },
    /// A session and all that belongs to it was removed.
    SessionRemoved {},
    /// A session was resumed in its own mode although the environment asked for another (G-4).
    ModeSwitched {
        /// What the environment asked for.
        from: Mode,
        /// The session's own.
        to: Mode,
    },
    /// An agent was made.
    AgentCreated {
        /// It.
        agent: AgentView,
    },
    /// An agent's state changed.
    AgentChanged {
        /// Its id.
        agent: String,
        /// Its name.
        name: String,
        /// Its state now.
        state: AgentState,
        /// Why, where there is something to say.
        #[serde(default)]
        reason: String,
    },
    /// A worker's run ended; its lead is told the same as a `<task-notification>` (N-2).
    RunEnded {
        /// The worker's name.
        name: String,
        /// What the lead is told.
        notification: Notification,
        /// Whether the run used almost nothing (N-6).
        #[serde(default)]
        thin: bool,
    },
    /// A message changed its state.
    MessageChanged {
        /// Its id.
        id: String,
        /// Sender's name.
        from: String,
        /// Receiver's name.
        to: String,
        /// Its state now.
        state: MessageState,
        /// Why, when it bounced.
        #[serde(default)]
        reason: String,
    },
    /// An agent asks the user.
    PermissionAsked {
        /// What.
        permission: PermissionView,
    },
    /// A question was answered.
    PermissionAnswered {
        /// Its id.
        id: String,
        /// The answer.
        allowed: bool,
    },
    /// A team was made or changed.
    TeamChanged {
        /// It.
        team: TeamView,
    },
    /// A team was deleted.
    TeamDeleted {
        /// Its name.
        name: String,
    },
    /// A task was made or changed.
    TaskChanged {
        /// It.
        task: TaskView,
    },
    /// The lead gave the structured result of the job.
    Output {
        /// It.
        output: Json,
    },
    /// Someone lost something, or would have.
    Warning {
        /// What, and what to do.
        text: String,
    },
    /// Events were left out because the peer was slow or the daemon no longer has them.
    Gap {
        /// How many, when known.
        #[serde(default)]
        missed: Option<u64>,
    },
    /// A transcript entry (only to peers attached to the session).
    Entry {
        /// Whose.
        agent: String,
        /// The agent's name.
        name: String,
        /// It.
        entry: Entry,
    },
    /// A piece of the answer that a model is writing (only to peers attached to the session).
    Delta {
        /// Whose.
        agent: String,
        /// The piece.
        text: String,
    },
    /// What an agent is doing (only to peers attached to the session).
    Activity {
        /// Whose.
        agent: String,
        /// The agent's name.
        name: String,
        /// It.
        activity: Activity,
    },
    /// All that was there before has been sent; what follows is live.
    CaughtUp {},
    /// A part of a picture of a screen (only to peers that look at it).
    Screen {
        /// Whose.
        agent: String,
        /// It.
        frame: Frame,
    },
    /// What a session may exchange with other machines, or what becomes of what it is told from outside, was set.
    SettingsChanged {
        /// The session, as it is now.
        session: SessionView,
    },
}
