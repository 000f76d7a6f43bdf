//! What one participant says to another (M-2, M-11).

use crate::WallMs;
use serde::{Deserialize, Serialize};

/// The longest text of a message in bytes.
pub const BODY_LEN_MAX: usize = 256 * 1024;
/// The longest summary in characters.
pub const SUMMARY_LEN_MAX: usize = 200;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Free text.
    Text {
        /// The text, at most [`BODY_LEN_MAX`] bytes.
        text: String,
    },
    /// Asks a teammate to finish what it is doing and end.
    ShutdownRequest {
        /// The reason, for the agent that is asked; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Answers a shutdown request.
    ShutdownResponse {
        /// The open request that is answered.
        request_id: String,
        /// Whether the sender will end.
        approve: bool,
        /// Why not.
        #[serde(default)]
        reason: String,
    },
    /// Answers a teammate's plan.
    PlanApprovalResponse {
        /// The open request that is answered.
        request_id: String,
        /// Whether the plan may be carried out.
        approve: bool,
        /// What to change.
        #[serde(default)]
        feedback: String,
    },
}

impl Body {
    /// Free text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// Where a message stands (M-11). The order is that of a message's life; the last three end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// On disk; nobody has it yet.
    Accepted,
    /// Kept back until the receiver's user lets it in.
    Held,
    /// Handed to the receiver's process; not yet in its conversation.
    Delivered,
    /// In the receiver's conversation.
    Consumed,
    /// Will never be delivered; `reason` says why.
    Bounced,
    /// Was not delivered in time.
    Expired,
}

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
