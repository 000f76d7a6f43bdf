//! What passes between coordd and the agent processes that it starts.
//!
//! An agent process gets its [`Bootstrap`] on stdin, connects, says hello with its credentials, and
//! then makes calls ([`crate::request::Request`]) that it repeats with the same key until they are
//! answered, whatever happens to the daemon meanwhile. [`Report`]s are the data plane: they may be
//! lost, and never pass the daemon's core.

use std::collections::BTreeMap;

pub use proto_words::agent::{Mode, Role, RunOutcome, Runtime};
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Origin};
use crate::json::Json;
use crate::notification::Usage;
use crate::screen::{Bytes, Frame, Size};

/// All that a new agent process is told, as one JSON document on its stdin, ended by end of file.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// The agent's id.
    pub agent: String,
    /// Which run of its process this is.
    pub incarnation: u32,
    /// The secret of this incarnation.
    pub token: String,
    /// coordd's socket.
    pub socket: String,
    /// The session's id.
    pub session: String,
    /// The agent's name.
    pub name: String,
    /// What it may ask of coordd.
    pub role: Role,
    /// The session's mode.
    pub mode: Mode,
    /// The definition's name, as in `worker`.
    pub agent_type: String,
    /// What it was started for, in a few words.
    pub description: String,
    /// Its working directory.
    pub cwd: String,
    /// The folder that it owns: transcript, outcomes, outbox.
    pub state_dir: String,
    /// The session's scratchpad, when it is on.
    #[serde(default)]
    pub scratchpad: Option<String>,
    /// What drives its turns.
    #[serde(default)]
    pub runtime: Runtime,
    /// The model to use; none where the runtime brings its own.
    #[serde(default)]
    pub model: Option<Model>,
    /// Whether the small set of tools is offered (G-6).
    #[serde(default)]
    pub simple_tools: bool,
    /// The environment for itself and its tools, already reduced to what is allowed.
    pub env: BTreeMap<String, String>,
    /// How long it may go on.
    pub limits: AgentLimits,
    /// What needs no approval, what does, and what is refused.
    pub permissions: Permissions,
    /// How many runs have ended before.
    #[serde(default)]
    pub runs_before: u32,
    /// Calls of the open run that wait for the user's answer, or got it when no process was there
    /// to hear it: whatever became of the last process, they have not begun.
    #[serde(default)]
    pub not_begun: Vec<String>,
    /// Set for a terminal.
    #[serde(default)]
    pub terminal: Option<InTerminal>,
    /// What drives the workers that it starts, where it does not say otherwise.
    #[serde(default)]
    pub worker_runtime: Runtime,
    /// Whether it sees its own folders and the system alone: its work comes from another machine.
    #[serde(default)]
    pub folder_only: bool,
}

/// What the process of a terminal that coordd runs starts in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTerminal {
    /// The arguments that make the program a member of its team, and what else its user wants.
    pub arguments: Vec<String>,
    /// What its environment must have.
    pub env: BTreeMap<String, String>,
}

/// Which model, without its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Who serves it.
    pub provider: Provider,
    /// Its name at that provider.
    #[serde(default)]
    pub name: String,
    /// Where, when not at the provider's usual address.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The script, for the rehearsal model; none means the one that is built in.
    #[serde(default)]
    pub rehearsal_file: Option<String>,
}

/// Who serves a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// The Anthropic Messages API, or a server that speaks it.
    Anthropic,
    /// OpenAI-compatible Chat Completions.
    Openai,
    /// The scripted model that is built in.
    Rehearsal,
    /// OpenAI's Responses API, or a server that speaks it.
    Responses,
}

/// How long an agent may go on (W-7). Zero means without bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// Model calls in one run.
    #[serde(default)]
    pub turns: u32,
    /// Wall time of one run, in milliseconds.
    #[serde(default)]
    pub run_ms: u64,
    /// Tokens of one run.
    #[serde(default)]
    pub tokens: u64,
}

/// Rules in the form `Tool` or `Tool(pattern)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// `default`, `acceptEdits`, `plan`, `dontAsk` or `bypassPermissions`; empty means
    /// `acceptEdits`.
    #[serde(default)]
    pub mode: String,
    /// Needs no approval.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Is asked for.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Is refused.
    #[serde(default)]
    pub deny: Vec<String>,
    /// The box in which commands run.
    #[serde(default)]
    pub sandbox: SandboxChoice,
}

/// What the user chose about the box in which commands run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxChoice {
    /// There is none.
    #[serde(default)]
    pub off: bool,
    /// Hosts that can be reached from it: names, `*.` in front for all below, or presets as in `cargo`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Commands that run outside of it, as patterns of `Bash` rules.
    #[serde(default)]
    pub outside: Vec<String>,
}

/// How a run ended, as the agent process writes it into `outcome-<run>.json` of its folder before
/// anybody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenOutcome {
    /// Which run it was.
    pub run: u32,
    /// How the run ended.
    pub outcome: RunOutcome,
}

/// What coordd tells an agent process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Put this into the conversation at the next tool round, or start a run with it, write it to
    /// disk, then acknowledge. It may come again; its id tells.
    Deliver {
        /// The message's id.
        message: String,
        /// Who it is from.
        #[serde(deserialize_with = "crate::entry::origin")]
        origin: Origin,
        /// The text as the model is to read it.
        text: String,
        /// Set on a request to finish and end: the run ends after the current turn.
        shutdown: bool,
    },
    /// End the turn and all processes of its tools, report the run as killed, and exit.
    Stop {
        /// Who asked, for the transcript.
        reason: String,
        /// Leave the run open instead: its session was stopped while it waits for the user. It goes
        /// on where it is when the session does.
        #[serde(default)]
        keep_run: bool,
    },
    /// End the current run only and wait for the next prompt. For leads.
    Interrupt {},
    /// The user has added this rule to the session by *always*: calls that it covers run from now on. It may come again.
    Learned {
        /// The rule, as in `allow`.
        rule: String,
    },
    /// Report the screen: now as a whole, and each change of it from now on; or no more. For
    /// terminals.
    Screen {
        /// Whether somebody looks.
        shown: bool,
    },
    /// Somebody types, or has another size. For terminals.
    ScreenInput {
        /// The size of the viewer that types.
        #[serde(default)]
        size: Option<Size>,
        /// What is typed.
        #[serde(default)]
        bytes: Bytes,
    },
}

/// Data plane: what an agent process tells about its work. Best effort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// A transcript entry, already on disk.
    Entry {
        /// The entry.
        entry: Entry,
    },
    /// A piece of text of the answer that the model is writing.
    Delta {
        /// The piece.
        text: String,
    },
    /// What it is doing now.
    Activity {
        /// Its current activity.
        activity: Activity,
    },
    /// A part of a picture of its screen.
    Screen {
        /// The picture, whole or as a change to the one before.
        frame: Frame,
    },
}

/// What an agent is doing, for status views.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// `thinking`, `running Bash`, `waiting for approval`, `waiting 30 s: rate limited`, `idle`.
    pub doing: String,
    /// Model calls in this run.
    #[serde(default)]
    pub turns: u32,
    /// What the run has used so far.
    #[serde(default)]
    pub usage: Usage,
    /// Whether its commands run in a box: `boxed`, `partly boxed: why`, `not boxed: why`; empty where coordd cannot tell.
    #[serde(default)]
    pub sandbox: String,
}

/// The input of a tool that an approval is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The tool.
    pub tool: String,
    /// Its whole input.
    pub input: Json,
    /// Why it is asked.
    #[serde(default)]
    pub reason: String,
    /// A rule that would allow it, as in `Bash(cargo test *)`; empty where no rule can.
    #[serde(default)]
    pub rule: String,
    /// What calls have in common that are about the same: the command, the path, the address. Empty where only all of the input tells.
    #[serde(default)]
    pub about: String,
    /// What a person is shown besides.
    #[serde(default)]
    pub shown: Shown,
}

/// What a person is shown of a question besides its call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// What would hold the call.
    #[serde(default)]
    pub place: Place,
    /// What would change in a file, for calls that write one.
    #[serde(default)]
    pub change: Option<Change>,
}

/// What holds a call while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Not said.
    #[default]
    Unsaid,
    /// The sandbox.
    Boxed,
    /// Nothing: there is no sandbox on this machine, or it is off.
    Unboxed,
    /// Nothing, and that is what is asked: the call is to run outside the sandbox.
    Leaves,
}

/// What a call would change in a file, as it was when it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Lines that are added, of the whole change.
    pub added: u32,
    /// Lines that go.
    pub removed: u32,
    /// Hunks of a unified diff, without the names of files: lines that begin with `@`, `+`, `-` or a blank. At most 32 KiB.
    pub diff: String,
    /// Lines of the diff that are left out, since it is longer.
    #[serde(default)]
    pub left_out: u32,
    /// Whether there is no such file yet.
    #[serde(default)]
    pub is_new: bool,
    /// What else is to be known, as that the call will fail since the text is not there.
    #[serde(default)]
    pub note: String,
}

impl std::fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bootstrap")
            .field("agent", &self.agent)
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}
