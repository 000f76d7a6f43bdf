//! What a session is made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::{Model, Permissions, Runtime};

/// How a session is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its name; empty for one made of the folder's name.
    #[serde(default)]
    pub name: String,
    /// Its working directory, absolute.
    pub cwd: String,
    /// `coordinator`, `normal` or `fork`, when the command line said so; wins over the variable.
    #[serde(default)]
    pub mode: Option<String>,
    /// The caller's `CLAUDE_CODE_COORDINATOR_MODE` (G-2).
    #[serde(default)]
    pub mode_variable: Option<String>,
    /// The caller's `CLAUDE_CODE_SIMPLE` (G-6).
    #[serde(default)]
    pub simple_variable: Option<String>,
    /// The environment for agents: what the caller has, reduced to what is allowed.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The model of its agents; may be missing where none of them is native.
    #[serde(default)]
    pub model: Option<Model>,
    /// What drives its workers, where the call that starts one does not say.
    #[serde(default)]
    pub runtime: Runtime,
    /// What drives its lead.
    #[serde(default)]
    pub lead_runtime: Runtime,
    /// Rules about approvals.
    #[serde(default)]
    pub permissions: Permissions,
    /// Whether there is a scratchpad; on when missing.
    #[serde(default = "yes")]
    pub scratchpad: bool,
    /// Model calls in one run of a worker; 0 for the default.
    #[serde(default)]
    pub max_turns: u32,
    /// Seconds of one run of a worker; 0 for the default.
    #[serde(default)]
    pub run_s: u32,
    /// Workers running at once; 0 for the default.
    #[serde(default)]
    pub workers: u32,
    /// The first prompt, if any.
    #[serde(default)]
    pub prompt: String,
    /// What becomes of messages from outside: `accept`, `hold`, `refuse`; empty or `auto` for by
    /// what both sides may do (M-8).
    #[serde(default)]
    pub cross_session_inbound: String,
    /// The other daemon, by its name here or its fingerprint, whose workers the session is for;
    /// empty for a session of its own. It has no conversation then, and starts workers when leads
    /// there ask for them with [`super::NewAgent::host`].
    #[serde(default)]
    pub host_for: String,
}

fn yes() -> bool {
    true
}
