//! Requests to coordd. `PROTOCOL.md` lists which role may send which; the core decides it.
//!
//! Where a field names a session it takes an id, a unique prefix of one, or a name; where it names
//! an agent it takes `name`, an agent id, or `session/name`.

mod new;

use std::collections::BTreeMap;

pub use proto_words::request::{Invite, NewAgent};
use serde::{Deserialize, Serialize};

pub use self::new::NewSession;
use crate::agent::{Question, Role, RunOutcome};
use crate::bridge::{BridgeView, Fate, Row};
use crate::json::Json;
use crate::message::Body;
use crate::screen::{Bytes, Size};
use crate::view::{EndedView, TaskStatus};

/// One request. All are safe to repeat with the same idempotency key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Answers with `done`.
    Ping {},
    /// Answers with `daemon`.
    DaemonStatus {},
    /// Ends the daemon.
    DaemonStop {
        /// Whether agents go on without it (for a restart) or are stopped in order.
        #[serde(default)]
        keep_agents: bool,
    },

    /// Makes a session with its lead. Answers with `session`.
    SessionNew {
        /// The settings of the new session.
        session: Box<NewSession>,
    },
    /// Lists sessions, newest first. Answers with `sessions`.
    SessionList {},
    /// One session with all its agents. Answers with `session_detail`.
    SessionShow {
        /// The session, by id, name or unique prefix of its id.
        session: String,
    },
    /// Stops all agents of a session and keeps its mail. Answers with `stopped` when they are gone.
    SessionStop {
        /// The session, by id, name or unique prefix of its id.
        session: String,
    },
    /// Resumes a stopped session in its own mode. Answers with `resumed`.
    SessionResume {
        /// The session, by id, name or unique prefix of its id.
        session: String,
        /// The environment from now on; empty keeps the old one.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// The caller's `CLAUDE_CODE_COORDINATOR_MODE`, to tell of a mismatch (G-4).
        #[serde(default)]
        mode_variable: Option<String>,
    },
    /// Removes a session, its transcripts, scratchpad and team. Answers with `removed`.
    SessionRemove {
        /// The session, by id, name or unique prefix of its id.
        session: String,
        /// Stop it first if it is live.
        #[serde(default)]
        force: bool,
    },

    /// Makes the calling process an agent of the session. It then says hello on a new connection with
    /// the credentials that it gets. Answers with `joined`.
    Join {
        /// Which session.
        session: String,
        /// `coordinator` for the lead of a session that was made with an external one, or `peer`.
        role: Role,
        /// A peer's name; empty for one that is free.
        #[serde(default)]
        name: String,
    },

    /// The user's words to a session's lead, or to one agent. Answers with `sent`.
    Prompt {
        /// Which session.
        session: String,
        /// Which agent; none means the lead.
        #[serde(default)]
        agent: Option<String>,
        /// The words, at most [`crate::message::BODY_LEN_MAX`] bytes.
        text: String,
    },
    /// Ends the lead's current run; its process stays and waits. Answers with `done`.
    Interrupt {
        /// Which session.
        session: String,
    },
    /// A message to an agent, to everyone, or to another session (M-1). Answers with `sent`.
    Send {
        /// The sender's session; agents leave it empty.
        #[serde(default)]
        session: String,
        /// The address.
        to: String,
        /// What is said.
        body: Body,
        /// In a few words; for lists.
        #[serde(default)]
        summary: String,
        /// For `uds:` addresses: be told once when the receiver has nothing to do.
        #[serde(default)]
        notify_when_idle: bool,
    },
    /// Other sessions that can be messaged, of coordd and others (M-9). Answers with `peers`.
    PeerList {},
    /// Messages from outside that wait for the user (M-8). Answers with `inbound`.
    InboundList {
        /// Of one session, or of all when empty.
        #[serde(default)]
        session: String,
    },
    /// Accepts or refuses a held message. Only users may. Answers with `sent`, or `done` if refused.
    InboundAnswer {
        /// Its id.
        message: String,
        /// Whether it is let in.
        accept: bool,
        /// What the sender is told when not.
        #[serde(default)]
        reason: String,
    },
    /// What becomes of messages from outside from now on. Answers with `session`.
    InboundSet {
        /// Which session.
        session: String,
        /// `accept`, `hold`, `refuse`, or `auto`: held if only the receiver bypasses permissions.
        cross_session_inbound: String,
    },
    /// What became of a message (M-11). Answers with `receipt`.
    Receipt {
        /// Its id.
        message: String,
    },

    /// Starts a worker (C-4). Answers with `spawned`, or with `ran` when `wait` is set.
    AgentSpawn {
        /// The settings of the new agent.
        agent: Box<NewAgent>,
    },
    /// Ends an agent's run and process (W-6). Answers with `stopped` when it is gone.
    AgentStop {
        /// The agent, by id or `session/name`.
        agent: String,
    },
    /// One agent. Answers with `agent`.
    AgentShow {
        /// The agent, by id or `session/name`.
        agent: String,
    },
    /// A page of an agent's transcript. Answers with `transcript`.
    Transcript {
        /// Which agent; a session means its lead.
        agent: String,
        /// The first entry wanted, from 1; 0 means the last `limit` ones.
        #[serde(default)]
        from: u64,
        /// At most so many entries; 0 means 200.
        #[serde(default)]
        limit: u32,
    },

    /// Asks the user whether a tool may run. Answers with `permitted` when the user has answered.
    PermissionAsk {
        /// The question to ask.
        question: Question,
    },
    /// Open questions. Answers with `permissions`.
    PermissionList {
        /// Of one session, or of all when empty.
        #[serde(default)]
        session: String,
    },
    /// Answers a question. Only users may. Answers with `done`.
    PermissionAnswer {
        /// Its id.
        id: String,
        /// The answer.
        allow: bool,
        /// Also allow what the question's rule covers from now on, in this session.
        #[serde(default)]
        always: bool,
        /// What the agent is told besides, whatever the answer is.
        #[serde(default)]
        reason: String,
    },

    /// Gives the result of the whole job; refused while workers run. Answers with `done`.
    StructuredOutput {
        /// Anything, at most 64 KiB.
        output: Json,
    },

    /// Makes the session's team (T-1). Answers with `team`.
    TeamCreate {
        /// The session; agents leave it empty.
        #[serde(default)]
        session: String,
        /// Its name; empty for a made-up one.
        #[serde(default)]
        name: String,
        /// What it is for.
        #[serde(default)]
        description: String,
        /// The lead's type in the team file; empty means the mode's name.
        #[serde(default)]
        agent_type: String,
    },
    /// Deletes the session's team (T-3). Answers with `team_deleted`.
    TeamDelete {
        /// The session or team; agents leave it empty.
        #[serde(default)]
        session: String,
    },
    /// Lists teams. Answers with `teams`.
    TeamList {},
    /// One team. Answers with `team`.
    TeamShow {
        /// Its name, or a session.
        team: String,
    },

    /// Makes or returns a member that is a Claude Code terminal (T-2). Answers with `invited`.
    TeamInvite(Invite),
    /// Adds a task to a team's list (T-4). Answers with `task`.
    TaskCreate {
        /// The team or session.
        team: String,
        /// In a few words.
        subject: String,
        /// In full.
        #[serde(default)]
        description: String,
        /// Tasks that must be done first.
        #[serde(default)]
        blocked_by: Vec<u32>,
    },
    /// Lists a team's tasks. Answers with `tasks`.
    TaskList {
        /// The team or session.
        team: String,
    },
    /// One task. Answers with `task`.
    TaskGet {
        /// The team or session.
        team: String,
        /// The task's number in its team.
        task: u32,
    },
    /// Changes a task. Claiming (an owner on a task that has none) is atomic. Answers with `task`.
    TaskUpdate {
        /// The team or session.
        team: String,
        /// The task's number in its team.
        task: u32,
        /// The new state, if it changes.
        #[serde(default)]
        status: Option<TaskStatus>,
        /// The new owner, if it changes; empty gives it back.
        #[serde(default)]
        owner: Option<String>,
        /// The tasks that must be done first, if they change.
        #[serde(default)]
        blocked_by: Option<Vec<u32>>,
    },

    /// The files in a session's scratchpad. Answers with `files`.
    ScratchpadList {
        /// Which session.
        session: String,
    },
    /// One file of a session's scratchpad, at most 512 KiB of it. Answers with `file`.
    ScratchpadShow {
        /// Which session.
        session: String,
        /// Relative to the scratchpad.
        path: String,
    },

    /// What was used, by session and agent. Answers with `usage`.
    Usage {
        /// Of one session, or of all when empty.
        #[serde(default)]
        session: String,
    },

    /// From now on, this connection is told of events. Answers with `subscribed`.
    Subscribe {
        /// Of one session, or of all when empty.
        #[serde(default)]
        session: String,
        /// Events after this number first, as far as they are kept; none means from now on.
        #[serde(default)]
        after: Option<u64>,
    },
    /// The session's transcript: the past, `caught_up`, then live. Answers with `subscribed`.
    Attach {
        /// Which session.
        session: String,
        /// Of one agent only; empty for the lead with the workers' activity.
        #[serde(default)]
        agent: String,
        /// How many entries from before; none means all that there is, at most 2,000.
        #[serde(default)]
        history: Option<u32>,
    },

    /// Shows this connection a terminal's screen; repeated, all of it. Answers with `subscribed`.
    Screen {
        /// Which agent.
        agent: String,
        /// The size that the terminal is to have; none leaves it as it is.
        #[serde(default)]
        size: Option<Size>,
    },
    /// Types into such a terminal, in the order of the calls. Only users may. Answers with `done`.
    ScreenInput {
        /// Which agent.
        agent: String,
        /// The size of the viewer that types, which the terminal then gets; none keeps the size.
        #[serde(default)]
        size: Option<Size>,
        /// What is typed, at most 64 KiB; nothing to say the size alone.
        #[serde(default)]
        bytes: Bytes,
    },
    /// Terminals only: the program has ended. Answers with `done`; then the process ends.
    TerminalEnded(EndedView),

    /// Agents only: these messages are in the conversation, in this run. Answers with `done`.
    Acknowledge {
        /// Their ids.
        messages: Vec<String>,
        /// The run that they are part of.
        run: u32,
    },
    /// Agents only: a run ended. Answers with `run_recorded`.
    RunEnded {
        /// The number of the agent's run.
        run: u32,
        /// How the run ended.
        outcome: RunOutcome,
    },

    /// Switches the bridge on or off; `on` again restarts it. Answers with `done`.
    BridgeSet {
        /// Whether there is to be one.
        on: bool,
    },
    /// What a session may exchange with a trusted daemon. Answers with `session`.
    BridgeAllow {
        /// The session.
        session: String,
        /// The other daemon, by its name here or its fingerprint.
        peer: String,
        /// Whether its sessions are heard.
        inbound: bool,
        /// Whether the session's agents may write there.
        outbound: bool,
    },
    /// How the bridge stands. Answers with `bridge`.
    BridgeStatus {},
    /// The bridge only: what became of a row. Answers with `done`.
    BridgeTold {
        /// Its number.
        id: u64,
        /// What became of the row.
        fate: Fate,
        /// Why it is refused.
        #[serde(default)]
        reason: String,
    },
    /// The bridge only: a verified row from another daemon. Answers with `brought`.
    BridgeBring {
        /// The daemon's fingerprint.
        peer: String,
        /// What the user here calls it.
        name: String,
        /// The row as it came.
        row: Row,
    },
    /// The bridge only: how things stand. Answers with `done`.
    BridgeReport {
        /// How; `on`, `running` and `rows` are coordd's own to say.
        report: BridgeView,
    },
}
