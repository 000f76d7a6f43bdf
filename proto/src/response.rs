//! What a granted request is answered with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::{Role, RunOutcome};
use crate::bridge::{BridgeView, Decision};
use crate::entry::Entry;
use crate::hello::Credentials;
use crate::message::{Receipt, SendResult};
use crate::notification::Usage;
use crate::view::{
    AgentView, DaemonView, HeldView, PeerView, PermissionView, SessionView, TaskView, TeamView,
};

/// One response; [`crate::request::Request`] says which comes to what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// Done, and there is nothing more to say.
    Done {},
    /// The daemon.
    Daemon {
        /// The daemon as it is now.
        daemon: DaemonView,
    },
    /// A session.
    Session {
        /// The session as it is now.
        session: SessionView,
    },
    /// The sessions that were asked for.
    Sessions {
        /// Newest first.
        sessions: Vec<SessionView>,
    },
    /// A session with its agents.
    SessionDetail {
        /// The session as it is now.
        session: SessionView,
        /// The lead first, then workers in the order of their making.
        agents: Vec<AgentView>,
    },
    /// Agents were stopped.
    Stopped {
        /// The names of those that had a process, which is gone.
        agents: Vec<String>,
        /// Messages that went back to their senders.
        bounced: u32,
    },
    /// The machine that an agent runs on is to stop it. How its run ended is told as ever.
    StopAsked {
        /// The agent's name.
        agent: String,
    },
    /// A session may run again.
    Resumed {
        /// The session as it is now.
        session: SessionView,
        /// When the mode was switched: one line that says which way (G-4).
        #[serde(default)]
        note: String,
        /// Messages that waited and will now be delivered.
        waiting_messages: u32,
        /// Names of agents that were in the middle of a run when they were stopped.
        interrupted: Vec<String>,
        /// Names of agents that have all that they had; those with an open run or mail go on with
        /// it now.
        #[serde(default)]
        restored: Vec<String>,
        /// Names of agents whose run was ended by the stop; a message makes one go on, with all
        /// that it knows.
        #[serde(default)]
        restartable: Vec<String>,
        /// What is not there any more, in words.
        #[serde(default)]
        lost: Vec<String>,
    },
    /// A session is gone.
    Removed {
        /// What was removed.
        removed: Vec<String>,
        /// What could not be, with the reason.
        kept: Vec<String>,
    },
    /// The program that asked is an agent now.
    Joined {
        /// For its hello as that agent.
        credentials: Credentials,
        /// Its name.
        name: String,
        /// What it may ask for.
        role: Role,
        /// Whether its workers get the small set of tools (G-6).
        simple_tools: bool,
        /// The session.
        session: SessionView,
    },
    /// What came of a send, a row for each receiver.
    Sent {
        /// The rows.
        results: Vec<SendResult>,
    },
    /// What became of a message.
    Receipt {
        /// What is known of the message.
        receipt: Receipt,
    },
    /// Who can be written to outside of a session.
    Peers {
        /// Ours first, then by name.
        peers: Vec<PeerView>,
    },
    /// Messages from outside that wait for the user.
    Inbound {
        /// Oldest first.
        messages: Vec<HeldView>,
    },
    /// A worker was started or waits for a place.
    Spawned {
        /// Its id.
        agent: String,
        /// Its name.
        name: String,
        /// `started`, or what it waits for.
        state: String,
        /// What the caller should know, as that `model` was ignored.
        #[serde(default)]
        note: String,
    },
    /// A worker was started and its run has ended.
    Ran {
        /// Its id.
        agent: String,
        /// Its name.
        name: String,
        /// How it ended.
        outcome: RunOutcome,
    },
    /// An agent.
    Agent {
        /// The agent as it is now.
        agent: AgentView,
    },
    /// A member in a terminal. What follows is for starting it by hand, where coordd does not run
    /// it.
    Invited {
        /// The agent as it is now.
        agent: AgentView,
        /// Its team.
        team: String,
        /// The id of the session that leads the team.
        session: String,
        /// Where it is to work.
        cwd: String,
        /// What its environment must have.
        env: BTreeMap<String, String>,
        /// The program and its arguments; more may follow.
        command: Vec<String>,
    },
    /// A page of a transcript.
    Transcript {
        /// In order.
        entries: Vec<Entry>,
        /// The number of the last entry that there is.
        last: u64,
    },
    /// The user's answer.
    Permitted {
        /// Whether the tool may run.
        allow: bool,
        /// What the agent is told when not.
        #[serde(default)]
        reason: String,
        /// A rule that holds from now on.
        #[serde(default)]
        rule: String,
    },
    /// The open questions.
    Permissions {
        /// Oldest first.
        permissions: Vec<PermissionView>,
    },
    /// A team.
    Team {
        /// The team as it is now.
        team: TeamView,
    },
    /// All teams.
    Teams {
        /// By name.
        teams: Vec<TeamView>,
    },
    /// A team is gone.
    TeamDeleted {
        /// Its name.
        name: String,
        /// What was removed.
        removed: Vec<String>,
        /// What could not be, with the reason.
        kept: Vec<String>,
    },
    /// A task.
    Task {
        /// The task as it is now.
        task: TaskView,
    },
    /// The tasks of a team.
    Tasks {
        /// By number.
        tasks: Vec<TaskView>,
    },
    /// Files of a scratchpad.
    Files {
        /// The scratchpad's path.
        root: String,
        /// By path, at most 1,000.
        files: Vec<FileRow>,
        /// Whether there are more.
        truncated: bool,
    },
    /// A file of a scratchpad.
    File {
        /// Its text; what is not UTF-8 is replaced.
        text: String,
        /// Its size in bytes.
        bytes: u64,
        /// Whether `text` ends early.
        truncated: bool,
    },
    /// What was used.
    Usage {
        /// A row for each agent.
        rows: Vec<UsageRow>,
        /// The sum.
        total: Usage,
    },
    /// Events follow.
    Subscribed {
        /// The number of the last event so far.
        seq: u64,
        /// Changes whenever the daemon starts.
        boot: String,
    },
    /// How the bridge stands.
    Bridge {
        /// The state of the bridge.
        bridge: BridgeView,
    },
    /// What was made of a row from another daemon.
    Brought {
        /// What was decided about the row.
        decision: Decision,
        /// Why it is refused.
        reason: String,
    },
    /// A run's end is on disk.
    RunRecorded {
        /// Whether the agent process may exit.
        exit: bool,
    },
}

/// A file of a scratchpad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Relative to the scratchpad.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last written.
    pub modified_ms: crate::WallMs,
}

/// What an agent used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The session's name.
    pub session: String,
    /// The agent's name.
    pub agent: String,
    /// How many runs of it have ended.
    pub runs: u32,
    /// What they used.
    pub usage: Usage,
    /// Whether that is known: of an external agent nobody tells.
    #[serde(default = "yes")]
    pub known: bool,
}

fn yes() -> bool {
    true
}
