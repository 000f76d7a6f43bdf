//! What workers and members of teams are made of.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::agent::Runtime;

/// How a worker is started (C-7). Unknown fields are refused at the tool, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewAgent {
    /// In a few words, for lists.
    pub description: String,
    /// The task, whole: the worker sees nothing else.
    pub prompt: String,
    /// The definition; empty means the mode's default.
    #[serde(default)]
    pub subagent_type: String,
    /// Its name; empty for one made of the description.
    #[serde(default)]
    pub name: String,
    /// What drives it; none means what the session says.
    #[serde(default)]
    pub runtime: Option<Runtime>,
    /// The machine that it is to run on, as in `desk` or `desk/checkout`: another daemon's name
    /// here, and a session that its user made for workers of this one
    /// (`host_for` of a new session). Empty for here. `runtime` is then that session's where it
    /// is none.
    #[serde(default)]
    pub host: String,
    /// Ignored in coordinator mode, and the answer says so (C-6).
    #[serde(default)]
    pub model: String,
    /// research, synthesis, implementation, verification, or empty.
    #[serde(default)]
    pub phase: String,
    /// Wait for the end of the run and answer with its result (F-1).
    #[serde(default)]
    pub wait: bool,
}

/// Who is invited into a team, and who runs the terminal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Invite {
    /// The team or session.
    pub team: String,
    /// Its name, new in the session.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Whether coordd runs the terminal; otherwise the user starts the program in one of their own.
    #[serde(default)]
    pub start: bool,
    /// More arguments for the program that coordd starts.
    #[serde(default)]
    pub arguments: Vec<String>,
}
