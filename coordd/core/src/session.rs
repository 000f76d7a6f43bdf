//! A session: one conversation with a lead, in one working directory.
//!
//! ```text
//!   new ──▶ Live ──stop──▶ Stopped ──remove──▶ (gone)
//!             ▲───resume──────┘
//! ```

use crate::agent::Runtime;
use crate::id::{AgentId, SessionId};
use crate::mode::Mode;
use crate::name::Name;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its name, unique among sessions.
    pub name: Name,
    /// Its mode, for ever.
    pub mode: Mode,
    /// Its absolute working directory.
    pub cwd: String,
    /// When it was made.
    pub created_ms: u64,
    /// Whether its agents may run.
    pub state: SessionState,
    /// Its lead.
    pub lead: AgentId,
    /// The model, as JSON text that means nothing here; empty where there is none, and no agent is native.
    pub model: String,
    /// What drives its workers, where the call that starts one does not say.
    #[serde(default, skip_serializing_if = "Runtime::is_native")]
    pub runtime: Runtime,
    /// The rules about approvals, as JSON text that means nothing here.
    pub permissions: String,
    /// Rules that the user allowed for good.
    #[serde(default)]
    pub rules_learned: Vec<String>,
    /// Whether workers get the small set of tools (G-6).
    #[serde(default)]
    pub simple_tools: bool,
    /// Where its scratchpad is, when it has one.
    #[serde(default)]
    pub scratchpad: Option<String>,
    /// Definitions that the user added to the built-in ones (G-5).
    #[serde(default)]
    pub definitions: Vec<String>,
    /// Model calls in one run of a worker.
    pub worker_turns: u32,
    /// Wall time of one run of a worker.
    pub worker_run_ms: u64,
    /// Workers with a process at once.
    pub workers_running_max: u32,
    /// The structured result, as JSON text, once the lead gave one.
    #[serde(default)]
    pub output: Option<String>,
}

/// Whether a session's agents may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// They may.
    Live,
    /// They may not, until it is resumed.
    Stopped,
}
