//! What passes between coordd and its bridge process, and what people are told of it (M-7).
//!
//! The bridge gets its [`Bootstrap`] on stdin and ends when stdin does: it holds nothing that is
//! not on a disk, so that one that is started anew loses nothing. It says hello as [`AGENT`] with
//! the token that it was given.

pub use proto_words::bridge::{
    BridgePeerView, BridgeView, Decision, Fate, LetterView, RemoteView, Row, Says, Verdict, Work,
};
use serde::{Deserialize, Serialize};

use crate::WallMs;

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
