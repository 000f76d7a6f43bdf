//! Agents that belong to two machines, and what the two daemons say about them.

use alloc::boxed::Box;
use alloc::string::String;

pub use proto_words::bridge::Work;
use serde::{Deserialize, Serialize};

use crate::state::agent::Outcome;

/// The other end of an agent that belongs to two machines.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Far {
    /// The other daemon's fingerprint.
    pub peer: String,
    /// Its session there.
    pub session: String,
    /// Its id there. Empty on the lead's machine, whose own id is used by both.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

/// What one daemon says to the other about such an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// Something for it to read. It is made when it is not there yet.
    Work(Box<Work>),
    /// It is to be stopped.
    Stop {
        /// Its id on the lead's machine.
        agent: String,
        /// Who asked.
        by: String,
    },
    /// A run of it has ended.
    Ended {
        /// Its id on the lead's machine.
        agent: String,
        /// How the run ended.
        outcome: Outcome,
        /// Whether no run ended, and this is said since there was nothing to stop.
        had_nothing: bool,
    },
}
