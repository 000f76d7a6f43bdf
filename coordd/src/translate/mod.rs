//! Between what crosses the socket and what the core thinks in (invariant 7): these files alone
//! know both.
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

pub(crate) use bootstrap::{bootstrap, in_terminal, not_begun};
pub(crate) use deliver::{deliver, order};
pub(crate) use denial::error_body;
pub(crate) use event::event;
pub(crate) use inbox::{inboxes, key as entry_key, left};
pub(crate) use kept::SCRATCHPAD_LOST;
pub(crate) use request::request;
pub(crate) use response::response;

use coordd_core::agent;
use proto::agent::RunOutcome;
use proto::notification::{FailureClass, RunStatus, Usage};
use std::collections::BTreeMap;

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

pub(crate) fn usage(it: &agent::Usage) -> Usage {
    Usage {
        input_tokens: it.input_tokens,
        output_tokens: it.output_tokens,
        cache_read_tokens: it.cache_read_tokens,
        cache_write_tokens: it.cache_write_tokens,
        tool_uses: it.tool_uses,
        duration_ms: it.duration_ms,
        cost_micro_usd: it.cost_micro_usd,
    }
}

pub(crate) fn status(it: agent::Status) -> RunStatus {
    match it {
        agent::Status::Completed => RunStatus::Completed,
        agent::Status::Failed => RunStatus::Failed,
        agent::Status::Killed => RunStatus::Killed,
    }
}

pub(crate) fn class(it: agent::Class) -> FailureClass {
    match it {
        agent::Class::Retryable => FailureClass::Retryable,
        agent::Class::Adjust => FailureClass::Adjust,
        agent::Class::Fatal => FailureClass::Fatal,
    }
}

pub(crate) fn outcome(it: &agent::Outcome) -> RunOutcome {
    RunOutcome {
        status: status(it.status),
        class: it.class.map(class),
        reason: it.reason.clone(),
        result: it.result.clone(),
        usage: usage(&it.usage),
    }
}

/// An agent process's word about its run, as the core takes it.
pub(crate) fn core_outcome(it: RunOutcome) -> agent::Outcome {
    agent::Outcome {
        status: match it.status {
            RunStatus::Completed => agent::Status::Completed,
            RunStatus::Failed => agent::Status::Failed,
            RunStatus::Killed => agent::Status::Killed,
        },
        class: it.class.map(|class| match class {
            FailureClass::Retryable => agent::Class::Retryable,
            FailureClass::Adjust => agent::Class::Adjust,
            FailureClass::Fatal => agent::Class::Fatal,
        }),
        reason: it.reason,
        result: it.result,
        usage: agent::Usage {
            input_tokens: it.usage.input_tokens,
            output_tokens: it.usage.output_tokens,
            cache_read_tokens: it.usage.cache_read_tokens,
            cache_write_tokens: it.usage.cache_write_tokens,
            tool_uses: it.usage.tool_uses,
            duration_ms: it.usage.duration_ms,
            cost_micro_usd: it.usage.cost_micro_usd,
        },
    }
}
