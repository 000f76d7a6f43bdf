//! Who asks (C-1). The connection decides who someone is; a field in a request never does.

use serde::{Deserialize, Serialize};

/// What an agent is to coordd.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A lead that plans and delegates.
    Coordinator,
    /// A lead that works itself and may delegate.
    Lead,
    /// Works on one task.
    Worker,
    /// A program beside the session's own agents: it writes to them and is written to.
    Peer,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// The user, through any program of theirs.
    User,
    /// An agent in this role.
    Agent(Role),
    /// The process that carries messages between machines.
    Bridge,
}

impl Asker {
    /// Every asker there is, for tests that leave none out.
    pub const ALL: [Self; 6] = [
        Self::User,
        Self::Agent(Role::Coordinator),
        Self::Agent(Role::Lead),
        Self::Agent(Role::Worker),
        Self::Agent(Role::Peer),
        Self::Bridge,
    ];

    /// For messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "the user",
            Self::Agent(Role::Coordinator) => "a coordinator",
            Self::Agent(Role::Lead) => "a lead",
            Self::Agent(Role::Worker) => "a worker",
            Self::Agent(Role::Peer) => "a peer",
            Self::Bridge => "the bridge",
        }
    }
}
