//! Between requests and answers as they cross the socket and as the core has them (invariant 7).
//! Words are the same in both: they are those of `proto-words`.
//!
//! No decision is made here. A request that cannot even be said to the core, such as one with an
//! address that does not parse, is refused here with the same error type that a denial becomes.

mod bootstrap;
pub(crate) mod bridge;
mod deliver;
mod denial;
mod event;
mod inbox;
mod kept;
mod request;
mod response;
pub(crate) mod view;

use std::collections::BTreeMap;

pub(crate) use bootstrap::{bootstrap, in_terminal, not_begun};
use coordd_core::agent;
pub(crate) use deliver::{deliver, order};
pub(crate) use denial::error_body;
pub(crate) use event::event;
pub(crate) use inbox::{inboxes, key as entry_key, left};
pub(crate) use kept::SCRATCHPAD_LOST;
pub(crate) use request::request;
pub(crate) use response::response;

/// What the views say about the daemon itself and the shell's places.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) pid: u32,
    pub(crate) started_ms: u64,
    pub(crate) socket: String,
    pub(crate) state_dir: String,
    pub(crate) home: String,
    /// Where scratchpads are, unless the client says otherwise.
    pub(crate) tmp: String,
    pub(crate) under_systemd: bool,
    /// What is not as it should be, a sentence each.
    pub(crate) degraded: Vec<String>,
}

impl Facts {
    /// The folder that an agent's process owns.
    pub(crate) fn agent_dir(&self, agent: &agent::Agent) -> String {
        format!("{}/sessions/{}/agents/{}", self.state_dir, agent.session, agent.id)
    }

    /// Where a session's scratchpad is made.
    pub(crate) fn scratchpad(
        &self,
        session: &coordd_core::session::Session,
        env: &BTreeMap<String, String>,
    ) -> String {
        let tmp = crate::environment::tmp(env).unwrap_or(&self.tmp);
        crate::scratchpad::path(&session.id.0, &session.cwd, tmp)
    }

    /// An agent's transcript.
    pub(crate) fn transcript(&self, agent: &agent::Agent) -> String {
        format!("{}/transcript.jsonl", self.agent_dir(agent))
    }
}
