//! Messages.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Free text.
    Text {
        /// The text, at most `BODY_LEN_MAX` of `proto` bytes.
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

impl MessageState {
    /// Whether nothing can follow.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Consumed | Self::Bounced | Self::Expired)
    }
}
