//! What sessions and workers are made of.

use crate::agent::Runtime;
use crate::session::Inbound;
use alloc::string::String;
use alloc::vec::Vec;

/// How a session is made.
#[expect(
    missing_docs,
    reason = "the fields are those of `proto::request::NewSession`, documented there"
)]
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NewSession {
    pub name: String,
    pub cwd: String,
    pub mode: Option<String>,
    pub mode_variable: Option<String>,
    pub simple_variable: Option<String>,
    pub model: String,
    pub runtime: Runtime,
    pub lead_runtime: Runtime,
    pub permissions: String,
    pub scratchpad: bool,
    pub definitions: Vec<String>,
    pub worker_turns: u32,
    pub worker_run_ms: u64,
    pub workers: u32,
    pub prompt: String,
    pub bypasses: bool,
    pub host_for: String,
    pub inbound: Option<Inbound>,
}

/// How a worker is started.
#[expect(
    missing_docs,
    reason = "the fields are those of `proto::request::NewAgent`, documented there"
)]
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NewAgent {
    pub description: String,
    pub prompt: String,
    pub subagent_type: String,
    pub name: String,
    pub runtime: Option<Runtime>,
    pub model: String,
    pub phase: String,
    pub host: String,
    pub wait: bool,
}
