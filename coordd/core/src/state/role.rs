//! Who asks (C-1). The connection decides who someone is; a field in a request never does.

pub use proto_words::agent::Role;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// The user, through any program of theirs.
    User,
    /// An agent in this role.
    Agent(Role),
    /// A program that an agent started, as from its `Bash`.
    Program,
    /// The process that carries messages between machines.
    Bridge,
}

impl Asker {
    /// Every asker there is, for tests that leave none out.
    pub const ALL: [Self; 7] = [
        Self::User,
        Self::Agent(Role::Coordinator),
        Self::Agent(Role::Lead),
        Self::Agent(Role::Worker),
        Self::Agent(Role::Peer),
        Self::Program,
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
            Self::Program => "a program of an agent",
            Self::Bridge => "the bridge",
        }
    }
}
