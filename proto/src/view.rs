//! What things look like from outside: the rows of `ls` and `status`.

pub use proto_words::view::{EndedView, SessionState, TaskStatus};
use serde::{Deserialize, Serialize};

use crate::WallMs;
use crate::agent::{Activity, Mode, Model, Question, Role, Runtime};
use crate::json::Json;
use crate::notification::{FailureClass, RunStatus, Usage};

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its id, a UUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its mode, fixed at creation.
    pub mode: Mode,
    /// Where it works.
    pub cwd: String,
    /// Whether its agents may run.
    pub state: SessionState,
    /// When it was made.
    pub created_ms: WallMs,
    /// The lead's agent id.
    pub lead: String,
    /// The model of its native agents, when it has one.
    #[serde(default)]
    pub model: Option<Model>,
    /// What drives its workers.
    #[serde(default)]
    pub runtime: Runtime,
    /// The scratchpad, when it is on.
    #[serde(default)]
    pub scratchpad: Option<String>,
    /// The team, when there is one.
    #[serde(default)]
    pub team: Option<String>,
    /// Agents by state: running, waiting for a place, and all.
    pub running: u32,
    /// Agents that wait for a place.
    pub waiting: u32,
    /// All agents, the lead included.
    pub agents: u32,
    /// Open questions to the user.
    pub questions: u32,
    /// What all runs used.
    pub usage: Usage,
    /// The structured output, once given.
    #[serde(default)]
    pub output: Option<Json>,
    /// What becomes of messages from outside: `accept`, `hold`, `refuse` or `auto`.
    #[serde(default)]
    pub cross_session_inbound: String,
    /// Messages from outside that wait for the user.
    #[serde(default)]
    pub held: u32,
    /// The machine whose workers it is for, by its name here or its fingerprint; empty for a
    /// session of its own.
    #[serde(default)]
    pub host_for: String,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    /// Its id, `a` and 16 hexadecimal digits.
    pub id: String,
    /// Its name, unique in its session for ever.
    pub name: String,
    /// Its session.
    pub session: String,
    /// Its role.
    pub role: Role,
    /// What drives it.
    #[serde(default)]
    pub runtime: Runtime,
    /// The machine that it runs on, by its name here or its fingerprint; empty for this one.
    #[serde(default)]
    pub host: String,
    /// Its definition.
    pub agent_type: String,
    /// What it was started for.
    pub description: String,
    /// The phase it was started in: research, synthesis, implementation, verification, or empty.
    pub phase: String,
    /// What it is at.
    pub state: AgentState,
    /// How many runs of it have ended.
    pub runs: u32,
    /// Its process, when it has one.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Which run of its process.
    pub incarnation: u32,
    /// When the open run began.
    #[serde(default)]
    pub run_started_ms: Option<WallMs>,
    /// What it is doing now.
    #[serde(default)]
    pub activity: Option<Activity>,
    /// What all its runs used.
    pub usage: Usage,
    /// How its last run ended.
    #[serde(default)]
    pub last: Option<LastRun>,
    /// Undelivered messages.
    pub mail: u32,
    /// The transcript's path.
    pub transcript: String,
    /// Whether coordd runs a terminal for it, whose screen can be shown.
    #[serde(default)]
    pub screen: bool,
    /// How the program in that terminal last ended by itself, until it is started again.
    #[serde(default)]
    pub ended: Option<EndedView>,
}

/// What an agent is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Waits for a place among the running.
    Waiting,
    /// Its process starts, or was lost sight of and is expected back.
    Starting,
    /// Works on a run.
    Running,
    /// Waits for the user's answer.
    NeedsInput,
    /// Its process waits for a prompt.
    Idle,
    /// Is being stopped.
    Stopping,
    /// Has no process; a message resumes it.
    Stopped,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    /// How the run ended.
    pub status: RunStatus,
    /// What to do about a failure.
    #[serde(default)]
    pub class: Option<FailureClass>,
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
    /// What it reported, cut to 1,000 characters here; the transcript has it all.
    #[serde(default)]
    pub result: String,
    /// When it ended.
    pub ended_ms: WallMs,
    /// Whether it used so little that its findings deserve doubt (N-6).
    #[serde(default)]
    pub thin: bool,
}

/// An open or answered question to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionView {
    /// Its id, as in `p3`.
    pub id: String,
    /// The session.
    pub session: String,
    /// Who asks: the agent's name.
    pub agent: String,
    /// Where it works.
    pub cwd: String,
    /// What is asked.
    pub question: Question,
    /// When the agent asked.
    pub asked_ms: WallMs,
    /// The answer, once there is one.
    #[serde(default)]
    pub allowed: Option<bool>,
    /// Ids of other open questions that the rule answers as well, when this one is allowed always.
    #[serde(default)]
    pub covers: Vec<String>,
    /// What the user denied before in this session that was the same or like it: the last three, the latest first.
    #[serde(default)]
    pub denied: Vec<DeniedView>,
}

/// A question that the user denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedView {
    /// Who had asked: the agent's name.
    pub agent: String,
    /// When it was denied.
    pub at_ms: WallMs,
    /// What the agent was told; empty when nothing.
    #[serde(default)]
    pub reason: String,
    /// Whether it was about the same; else about something that one rule would have allowed with it.
    pub same: bool,
}

/// Somebody who can be written to outside of a session (M-9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerView {
    /// Its id: that of the session.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: PeerKind,
    /// What to write to, as `send` takes it.
    pub address: String,
    /// What it says that it is at: idle, busy, stopped, …
    pub state: String,
    /// Where it works; empty when it does not say.
    pub cwd: String,
    /// When it last said something of itself; 0 when it does not say.
    pub heard_ms: WallMs,
}

/// What somebody outside of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerKind {
    /// A session of this coordd.
    Session,
    /// A session of Claude Code.
    Claude,
    /// Something else that lists itself where Claude Code does.
    Other,
    /// A session on another machine, over the bridge.
    Bridge,
    /// A session on another machine that runs workers for this one; its address is for `host` of
    /// the tool `Agent`.
    Host,
}

/// A message from outside that waits for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldView {
    /// Its id, as in `m12`.
    pub id: String,
    /// The session that it is for.
    pub session: String,
    /// The sender's name, as it gives it.
    pub from: String,
    /// Where an answer goes.
    pub address: String,
    /// Whether coordd knows that it is the one at that address.
    pub verified: bool,
    /// When it came.
    pub at_ms: WallMs,
    /// The beginning of the text, at most 2,000 characters.
    pub text: String,
    /// How many characters it has.
    pub characters: u64,
}

/// A team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamView {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The session that leads it.
    pub session: String,
    /// When it was made.
    pub created_ms: WallMs,
    /// Its file.
    pub file: String,
    /// Its members.
    pub members: Vec<MemberView>,
}

/// A member of a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberView {
    /// `name@team`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its definition.
    pub agent_type: String,
    /// What it is at.
    pub state: AgentState,
}

/// A task of a team's list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// Its number.
    pub id: u32,
    /// In a few words.
    pub subject: String,
    /// In full.
    pub description: String,
    /// How far it is.
    pub status: TaskStatus,
    /// Who has it, by name.
    #[serde(default)]
    pub owner: Option<String>,
    /// Unfinished tasks that must be done first.
    #[serde(default)]
    pub blocked_by: Vec<u32>,
}

/// The daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonView {
    /// As in `coordd --version`.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started_ms: WallMs,
    /// Its socket.
    pub socket: String,
    /// Where its state lies.
    pub state_dir: String,
    /// Sessions, live and stopped.
    pub sessions: u32,
    /// Agents with a process.
    pub agents_running: u32,
    /// Open connections.
    pub peers: u32,
    /// What is not as it should be, a sentence each; empty when all is well.
    #[serde(default)]
    pub degraded: Vec<String>,
    /// Whether systemd started it.
    pub under_systemd: bool,
}
