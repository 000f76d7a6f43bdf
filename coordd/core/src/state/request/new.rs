//! What sessions, workers and members are made of.

use alloc::string::String;
use alloc::vec::Vec;

pub use proto_words::request::{Invite, NewAgent};

use crate::state::agent::{Process, Runtime};
use crate::state::role::Role;
use crate::state::session::Inbound;
use crate::state::settings::{Model, Permissions};

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
    pub model: Option<Model>,
    pub runtime: Runtime,
    pub lead_runtime: Runtime,
    pub permissions: Permissions,
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

/// How a program of the user's joins a session.
#[derive(Clone, PartialEq, Debug)]
pub struct Join {
    /// Which session.
    pub session: String,
    /// As what.
    pub role: Role,
    /// A peer's name; empty for one that is free.
    pub name: String,
    /// The program, as the kernel knows it by its connection; none where it is out of sight.
    pub process: Option<Process>,
}
