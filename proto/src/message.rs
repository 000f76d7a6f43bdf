//! What one participant says to another (M-2, M-11).

pub use proto_words::message::{Body, MessageState};
use serde::{Deserialize, Serialize};

use crate::WallMs;

/// The longest text of a message in bytes.
pub const BODY_LEN_MAX: usize = 256 * 1024;
/// The longest summary in characters.
pub const SUMMARY_LEN_MAX: usize = 200;

/// What became of an accepted message. Kept for 7 days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The message's id, as in `m12`.
    pub id: String,
    /// The sender's name, or `user`.
    pub from: String,
    /// The receiver's name.
    pub to: String,
    /// Where it stands.
    pub state: MessageState,
    /// When it was accepted.
    pub accepted_ms: WallMs,
    /// When it was handed to the receiver's process, last.
    #[serde(default)]
    pub delivered_ms: Option<WallMs>,
    /// When it entered the conversation, bounced or expired.
    #[serde(default)]
    pub ended_ms: Option<WallMs>,
    /// How many undelivered messages of that receiver are before it.
    #[serde(default)]
    pub ahead: u32,
    /// Why it bounced.
    #[serde(default)]
    pub reason: String,
}

/// What came of one send to one receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendResult {
    /// On disk.
    Accepted {
        /// The receiver's name.
        to: String,
        /// The message's id.
        id: String,
        /// How many undelivered messages are before it.
        ahead: u32,
        /// What will happen with it: `queued for its next tool round`, `resumes it`, …
        note: String,
        /// For requests that want an answer: the id that the answer must carry.
        #[serde(default)]
        request_id: Option<String>,
    },
    /// Not accepted.
    Refused {
        /// The receiver's name.
        to: String,
        /// The reason, as a sentence for the sender.
        reason: String,
    },
}
