//! What daemons on several machines say to each other, and what people are told of it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::WallMs;
use crate::agent::{RunOutcome, Runtime};

/// One message between two daemons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The session that it is for.
    pub to: String,
    /// The session that speaks; empty when its user does.
    #[serde(default)]
    pub from: String,
    /// Its name, for people.
    #[serde(default)]
    pub name: String,
    /// Whether that session's permissions are bypassed.
    #[serde(default)]
    pub bypasses: bool,
    /// The message's own id.
    pub message: String,
    /// What is said.
    pub says: Says,
}

/// What is said from one daemon to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// Words for a session.
    Words {
        /// The text of the message.
        text: String,
        /// In short.
        #[serde(default)]
        summary: String,
    },
    /// What became of one of the other's messages.
    Status {
        /// Its own id.
        of: String,
        /// What became of the message.
        verdict: Verdict,
        /// The reason, where the verdict has one; else empty.
        #[serde(default)]
        reason: String,
        /// Whether the message was read in a run that had ended already: its process died before it could say so.
        #[serde(default)]
        late: bool,
    },
    /// Something to read for a worker of the other daemon's, which runs here. It is made when it is
    /// not there yet.
    Work(Box<Work>),
    /// Such a worker is to be stopped.
    Stop {
        /// Its id on its lead's machine.
        agent: String,
        /// Who asked.
        #[serde(default)]
        by: String,
    },
    /// A run of such a worker has ended.
    Ended {
        /// Its id on its lead's machine.
        agent: String,
        /// How the run ended.
        outcome: RunOutcome,
        /// Whether no run ended, and this is said since there was nothing to stop.
        #[serde(default)]
        had_nothing: bool,
    },
}

/// Something for a worker to read, with what the worker is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The worker's id on its lead's machine.
    pub agent: String,
    /// Its name there.
    #[serde(default)]
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The phase it was started in, or empty.
    #[serde(default)]
    pub phase: String,
    /// What is to drive it, where the lead said so.
    #[serde(default)]
    pub runtime: Option<Runtime>,
    /// Whether this is its task, or words beside it.
    #[serde(default)]
    pub is_task: bool,
    /// What is said.
    pub text: String,
    /// In short.
    #[serde(default)]
    pub summary: String,
}

/// What became of a message after its receiver's daemon had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It waits for the user there.
    Held,
    /// It is in the conversation.
    Consumed,
    /// It waited for too long.
    Expired,
    /// It is not taken.
    Refused,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is durable at the other daemon.
    Taken,
    /// The other daemon does not take it.
    Refused,
    /// Nobody took it in time.
    Expired,
}

/// What coordd makes of a row from another daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is durable.
    Taken,
    /// It will never be taken.
    Refused,
    /// Not now.
    Later,
}

/// How the bridge stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeView {
    /// Whether one is set up.
    pub on: bool,
    /// Whether its process runs and is connected to coordd.
    pub running: bool,
    /// This daemon's fingerprint.
    pub own: String,
    /// The server's address.
    pub server: String,
    /// Whether the server is connected.
    pub connected: bool,
    /// What is wrong, and what to do about it; empty when all is well.
    pub trouble: String,
    /// How many servers keep what is on its way.
    pub replicas: u32,
    /// Messages that are on their way to other daemons.
    pub rows: u32,
    /// Daemons that are trusted.
    pub peers: Vec<BridgePeerView>,
    /// What was refused, and how often.
    pub refused: Vec<(String, u64)>,
    /// What came a second time, or so late that it says nothing any more, and how often: servers do that to what is good.
    #[serde(default)]
    pub passed_over: Vec<(String, u64)>,
    /// The latest messages that were not let in, here or there.
    #[serde(default)]
    pub letters: Vec<LetterView>,
}

/// A dead letter: a message between machines that will not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterView {
    /// Whether it was sent here; else it came from there.
    pub is_ours: bool,
    /// When it ended.
    pub at_ms: WallMs,
    /// The session at the other end.
    pub address: String,
    /// Its id: for `receipt` if it was sent here.
    pub message: String,
    /// The reason, where the verdict has one; else empty.
    pub reason: String,
}

/// How one trusted daemon stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgePeerView {
    /// Its fingerprint.
    pub fingerprint: String,
    /// What its user here calls it.
    pub name: String,
    /// Its machine's own name.
    pub machine: String,
    /// When it was last heard of; 0 for never since the bridge was started.
    pub heard_ms: WallMs,
    /// Messages on their way to it.
    pub rows: u32,
    /// Its sessions that may be written to.
    pub sessions: Vec<RemoteView>,
}

/// A session on another machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteView {
    /// Its id there.
    pub session: String,
    /// Its name there.
    #[serde(default)]
    pub name: String,
    /// Where it works there.
    #[serde(default)]
    pub cwd: String,
    /// What it is at.
    #[serde(default)]
    pub state: String,
    /// Whether it is for workers of the daemon that is told of it: `host` of the tool `Agent`.
    #[serde(default)]
    pub hosts: bool,
}
