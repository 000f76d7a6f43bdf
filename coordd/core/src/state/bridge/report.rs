//! What the bridge says of itself and of other daemons. It is for people, and for the list of whom one can write to.

use alloc::string::String;
use alloc::vec::Vec;

/// How things stand, as the bridge says.
#[expect(missing_docs, reason = "the fields are those of `proto::bridge`, documented there")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub own: String,
    pub server: String,
    pub connected: bool,
    pub trouble: String,
    pub replicas: u32,
    pub peers: Vec<PeerReport>,
    pub refused: Vec<(String, u64)>,
    /// What came again, or too late to say anything, and how often: no sign that something is wrong.
    pub passed_over: Vec<(String, u64)>,
    pub letters: Vec<Letter>,
}

/// A message of another daemon that was not let in.
#[expect(missing_docs, reason = "the fields are those of `proto::bridge`, documented there")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Letter {
    pub at_ms: u64,
    pub address: String,
    pub message: String,
    pub reason: String,
}

/// How another daemon stands.
#[expect(missing_docs, reason = "the fields are those of `proto::bridge`, documented there")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerReport {
    pub fingerprint: String,
    pub name: String,
    pub machine: String,
    pub heard_ms: u64,
    pub sessions: Vec<Remote>,
}

/// A session there.
#[expect(missing_docs, reason = "the fields are those of `proto::bridge`, documented there")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remote {
    pub session: String,
    pub name: String,
    pub cwd: String,
    pub state: String,
    pub hosts: bool,
}
