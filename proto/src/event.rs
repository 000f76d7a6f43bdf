//! What subscribed peers are told. Numbered within one boot of the daemon; a gap is always said.

use serde::{Deserialize, Serialize};

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

/// An event with its place in the order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbered {
    /// Rising within one boot of the daemon; 0 for those of an agent's stream, which are not kept.
    pub seq: u64,
    /// When the event was published.
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
        /// The session as it is now.
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
        /// The agent as it is now.
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
        /// The question that is open.
        permission: PermissionView,
    },
    /// A question was answered.
    PermissionAnswered {
        /// Its id.
        id: String,
        /// The answer.
        allowed: bool,
        /// Who had asked: the agent's name.
        #[serde(default)]
        agent: String,
        /// The rule by which it was allowed, or that holds from now on.
        #[serde(default)]
        rule: String,
        /// The question whose answer answered this one as well.
        #[serde(default)]
        with: String,
        /// What the agent is told besides.
        #[serde(default)]
        note: String,
    },
    /// A team was made or changed.
    TeamChanged {
        /// The team as it is now.
        team: TeamView,
    },
    /// A team was deleted.
    TeamDeleted {
        /// Its name.
        name: String,
    },
    /// A task was made or changed.
    TaskChanged {
        /// The task as it is now.
        task: TaskView,
    },
    /// The lead gave the structured result of the job.
    Output {
        /// The result of the session, as the lead gave it.
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
        /// The id of the agent that it is about.
        agent: String,
        /// The agent's name.
        name: String,
        /// The new entry of the transcript.
        entry: Entry,
    },
    /// A piece of the answer that a model is writing (only to peers attached to the session).
    Delta {
        /// The id of the agent that it is about.
        agent: String,
        /// The piece.
        text: String,
    },
    /// What an agent is doing (only to peers attached to the session).
    Activity {
        /// The id of the agent that it is about.
        agent: String,
        /// The agent's name.
        name: String,
        /// What the agent is doing now.
        activity: Activity,
    },
    /// All that was there before has been sent; what follows is live.
    CaughtUp {},
    /// A part of a picture of a screen (only to peers that look at it).
    Screen {
        /// The id of the agent that it is about.
        agent: String,
        /// The picture, whole or as a change to the one before.
        frame: Frame,
    },
    /// What a session may exchange with other machines, or what becomes of what it is told from outside, was set.
    SettingsChanged {
        /// The session, as it is now.
        session: SessionView,
    },
}
