//! What a peer is told when something is not done.

use serde::{Deserialize, Serialize};

/// A stable code, a sentence, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// For programs.
    pub code: ErrorCode,
    /// For people: what is the matter, without a full stop.
    pub message: String,
    /// For people: what to do, empty when nothing can be done.
    #[serde(default)]
    pub hint: String,
}

impl ErrorBody {
    /// An error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: String::new() }
    }

    /// The same error with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// Stable names; `PROTOCOL.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// The bytes are no valid frame, line or message.
    Malformed,
    /// A frame, line, body or field is longer than allowed.
    TooLarge,
    /// The two sides speak no common protocol version.
    Version,
    /// The first message was no hello, or came too late.
    NoHello,
    /// The credentials are wrong or of an earlier incarnation.
    BadCredentials,
    /// The caller's role may not ask for this.
    Forbidden,
    /// A name, id or other field does not have the form it must have.
    Invalid,
    /// Nothing has that id or name.
    NotFound,
    /// More than one thing fits.
    Ambiguous,
    /// The name is taken.
    Exists,
    /// The thing is in a state in which this cannot be done.
    State,
    /// The receiver's mailbox is full.
    MailboxFull,
    /// A bound on the number of things is reached.
    Limit,
    /// The feature is not compiled in, or not there yet.
    Unsupported,
    /// The outside world failed: a folder, a file, a program.
    Failed,
    /// The disk is full; nothing was accepted.
    DiskFull,
    /// The daemon is shutting down.
    ShuttingDown,
    /// A newer daemon's code that this build does not know.
    #[serde(other)]
    Unknown,
}
