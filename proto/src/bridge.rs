//! What passes between coordd and its bridge process, and what people are told of it (M-7).
//!
//! The bridge gets its [`Bootstrap`] on stdin and ends when stdin does: it holds nothing that is
//! not on a disk, so that one that is started anew loses nothing. It says hello as [`AGENT`] with
//! the token that it was given.

use crate::WallMs;
use crate::agent::{RunOutcome, Runtime};
use serde::{Deserialize, Serialize};

/// The name that the bridge says hello as. No agent's id is like it.
pub const AGENT: &str = "bridge";

/// All that a new bridge process is told: one line of JSON on its stdin. The end of stdin is the
/// end of its daemon.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Which start of the process this is.
    pub incarnation: u32,
    /// The secret of this start.
    pub token: String,
    /// coordd's socket.
    pub socket: String,
    /// The folder with its key, its peers and its settings.
    pub folder: String,
}

impl std::fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bootstrap").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

/// What coordd tells the bridge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Everything that is open follows. Rows' numbers count within this epoch.
    Begin {
        /// The epoch of the sender's numbers; a later one replaces all earlier ones.
        epoch: u64,
    },
    /// A row is to get to another daemon. It may come again; its id tells.
    Carry {
        /// Its number.
        id: u64,
        /// The other daemon's fingerprint.
        peer: String,
        /// When it is of no use any more.
        expires_ms: WallMs,
        /// What is carried.
        row: Box<Row>,
    },
    /// Which sessions each peer may write to, in place of what was said before.
    Announce {
        /// By the peer's fingerprint.
        sessions: Vec<(String, Vec<RemoteView>)>,
    },
}

/// One message between two daemons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    },
    /// Something to read for a worker of the other daemon's, which runs here. It is made when it is
    /// not there yet.
    Work {
        /// The worker's id on its lead's machine.
        agent: String,
        /// Its name there.
        #[serde(default)]
        name: String,
        /// What it is for.
        #[serde(default)]
        description: String,
        /// The phase it was started in, or empty.
        #[serde(default)]
        phase: String,
        /// What is to drive it, where the lead said so.
        #[serde(default)]
        runtime: Option<Runtime>,
        /// Whether this is its task, or words beside it.
        #[serde(default)]
        is_task: bool,
        /// What is said.
        text: String,
        /// In short.
        #[serde(default)]
        summary: String,
    },
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
    },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel90_the_bridge_s_token_is_not_printed() {
        let it = Bootstrap {
            incarnation: 1,
            token: "s3cret".into(),
            socket: String::new(),
            folder: String::new(),
        };
        assert!(!format!("{it:?}").contains("s3cret"));
    }
}
