//! An agent, and where it is in its life.
//!
//! ```text
//!             mail                 place free               process ended, nothing to do
//!   Down ───────────▶ Waiting ───────────────▶ Up ─────────────────────────────────────▶ Down
//!    ▲                   │                     │ │ ended in the middle of a run
//!    │                   │                     │ └──────────▶ Waiting (at most CRASHES_MAX times)
//!    └──── stop ─────────┘                     │ stop
//!    ▲                                         ▼
//!    └──────────── process ended ────────── Stopping
//! ```
//!
//! A *run* is inside of that: it opens when the agent acknowledges a message that it did not get in the
//! middle of another run, and ends with an outcome. A worker's process ends with its run; a lead's stays.
//!
//! Who was stopped or given up is *parked*: what coordd itself tells it (how runs ended, what came back) waits in its mailbox
//! without waking it, until a user or an agent speaks to it or its session is resumed.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

pub use proto_words::agent::{
    FailureClass as Class, RunOutcome as Outcome, RunStatus as Status, Runtime, Usage,
};
pub use proto_words::view::EndedView as Ended;
use serde::{Deserialize, Serialize};

use crate::state::far::Far;
use crate::state::id::{AgentId, MessageId, SessionId};
use crate::state::name::Name;
use crate::state::role::Role;
use crate::state::written;

/// An agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its session.
    pub session: SessionId,
    /// Its name, unique in its session for ever.
    pub name: Name,
    /// What it may ask for.
    pub role: Role,
    /// What drives it.
    #[serde(default, skip_serializing_if = "written::is_default")]
    pub runtime: Runtime,
    /// Its definition.
    pub agent_type: String,
    /// What it was started for.
    pub description: String,
    /// The phase it was started in, or empty.
    pub phase: String,
    /// When it was made.
    pub created_ms: u64,
    /// Whether the caller waits for its first run instead of being notified (F-1).
    #[serde(default)]
    pub waited_for: bool,
    /// The run of the lead that waits; once that one has ended nobody does.
    #[serde(default)]
    pub waited_run: u32,
    /// The incarnation of the lead that waits. Claude Code does not repeat a call that its end has cut off; ours does.
    #[serde(default, skip_serializing_if = "written::is_default")]
    pub waited_incarnation: u32,
    /// Where it is.
    pub life: Life,
    /// How often a process was started for it.
    pub incarnation: u32,
    /// What the secret of the present incarnation comes to. The secret itself is in no record.
    pub token: String,
    /// The present incarnation's process, once known.
    #[serde(default)]
    pub process: Option<Process>,
    /// The number of the last run that ended; runs count from 1.
    pub runs: u32,
    /// When the open run began, if one is open.
    #[serde(default)]
    pub run_opened_ms: Option<u64>,
    /// Processes in a row that ended in the middle of things.
    #[serde(default)]
    pub crashes: u32,
    /// Its place in the queue of the waiting; lower comes first.
    #[serde(default)]
    pub queued: u64,
    /// What its ended runs used.
    #[serde(default, serialize_with = "written::usage")]
    pub usage: Usage,
    /// How its last run ended.
    #[serde(default)]
    pub last: Option<LastRun>,
    /// Messages that are not yet in its conversation, in order.
    #[serde(default)]
    pub mailbox: VecDeque<MessageId>,
    /// Bytes in those messages.
    #[serde(default)]
    pub mailbox_bytes: u64,
    /// Its other end, where it belongs to two machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<Far>,
    /// What is to drive it there, where the call that made it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_runtime: Option<Runtime>,
    /// Set where coordd runs its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    /// Whether it was stopped or given up, and nobody has spoken to it since: what coordd itself put into its mailbox stays there,
    /// and wakes it no more.
    #[serde(default)]
    pub parked: bool,
}

/// A terminal that coordd runs; see `rules/pty.rs`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pty {
    /// Whether its program is to run while its session is live.
    pub wanted: bool,
    /// What its user wants its program to be started with.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// How its program last ended by itself, until it is started again.
    #[serde(default)]
    pub ended: Option<Ended>,
}

/// Where an agent is in its life.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// No process; mail wakes it.
    Down,
    /// Wants a process and waits for a place.
    Waiting,
    /// Has a process, or one is being started.
    Up,
    /// Its process is being ended.
    Stopping {
        /// Who asked.
        by: String,
        /// Whether mail that it has not read stays for later; otherwise it goes back to its senders.
        keep_mail: bool,
    },
}

/// A process that cannot be taken for another (rel-32).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot that both numbers belong to.
    pub boot_id: String,
}

/// The end of a run, as it is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LastRun {
    /// How it ended; its result is cut to [`crate::state::limits::RESULT_LEN_MAX`].
    #[serde(serialize_with = "written::outcome")]
    pub outcome: Outcome,
    /// When the run ended.
    pub ended_ms: u64,
    /// Whether it used almost nothing (N-6).
    pub thin: bool,
}

impl Agent {
    /// Whether a process exists or is being started.
    pub fn has_process(&self) -> bool {
        match self.life {
            Life::Up | Life::Stopping { .. } => true,
            Life::Down | Life::Waiting => false,
        }
    }

    /// Whether its process is a program of the user's that joined. Such an agent has no runs: nobody knows when it works.
    pub fn is_external(&self) -> bool {
        self.runtime == Runtime::External
    }

    /// Whether it is for coordd to start it. A program of the user's comes when the user starts it, and its mail waits until then.
    pub(crate) fn is_started_here(&self) -> bool {
        match self.runtime {
            Runtime::Native | Runtime::Claude => true,
            Runtime::Terminal => self.has_pty(),
            Runtime::External | Runtime::Bridged => false,
        }
    }

    /// Whether its calls are judged by the rules of its session, in a process of ours.
    pub(crate) fn has_rules(&self) -> bool {
        matches!(self.runtime, Runtime::Native | Runtime::Claude)
    }

    /// Whether its process takes one of the places that a session has for workers. A terminal that waits for work takes none.
    pub fn takes_a_place(&self) -> bool {
        self.role == Role::Worker && (!self.has_pty() || self.has_work())
    }

    /// Whether it is a worker that runs on another machine.
    pub fn is_hosted(&self) -> bool {
        self.runtime == Runtime::Bridged && self.role == Role::Worker
    }

    /// The other end of a worker that runs here for a lead on another machine.
    pub fn far_lead(&self) -> Option<&Far> {
        self.far.as_ref().filter(|_| self.runtime != Runtime::Bridged)
    }

    /// Whether it runs in a terminal, one of the user's or one of coordd's.
    pub(crate) fn is_in_terminal(&self) -> bool {
        self.runtime == Runtime::Terminal
    }

    /// Whether coordd runs a terminal for it.
    pub fn has_pty(&self) -> bool {
        self.pty.is_some()
    }

    /// Whether it works, waits for a place, or is being ended.
    pub fn is_active(&self) -> bool {
        match self.life {
            // Its process is none of ours: it works while a run is open, and on another machine from when it is asked to.
            Life::Down if self.is_hosted() => self.owes_outcome() || !self.mailbox.is_empty(),
            Life::Down => self.runtime == Runtime::Terminal && self.run_is_open(),
            Life::Up if self.is_external() => false,
            // Its program is there between runs too.
            Life::Up if self.has_pty() => self.run_is_open() || !self.mailbox.is_empty(),
            Life::Waiting | Life::Stopping { .. } => true,
            // A worker's process is there for its run; a lead's also waits between runs.
            Life::Up => self.role == Role::Worker || self.run_is_open() || !self.mailbox.is_empty(),
        }
    }

    /// Whether something of its work is still to come: a run that is open, or mail that leads to one. A process that is only
    /// leaving, or mail that wakes nobody, is no work.
    pub fn has_work(&self) -> bool {
        self.is_active() && (self.run_is_open() || !(self.parked || self.mailbox.is_empty()))
    }

    /// Whether it is there to be spoken to without being started.
    pub fn is_there(&self) -> bool {
        let in_terminal = self.runtime == Runtime::Terminal && self.process.is_some();
        self.role != Role::Worker || self.is_active() || in_terminal
    }

    /// Whether it is in the middle of a run.
    pub fn run_is_open(&self) -> bool {
        self.run_opened_ms.is_some()
    }

    /// Whether somebody still has to be told how what it was started for ended.
    pub fn owes_outcome(&self) -> bool {
        // A terminal may be there before anything is asked of it.
        let was_asked = !self.has_pty() || !self.mailbox.is_empty();
        self.run_is_open() || (self.role == Role::Worker && self.runs == 0 && was_asked)
    }

    /// Whether its message is still in the mailbox. Ids rise, so the mailbox is sorted.
    pub fn has_mail(&self, message: MessageId) -> bool {
        self.mailbox.binary_search(&message).is_ok()
    }
}
