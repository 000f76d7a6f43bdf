//! Sessions, tasks and terminals, as they look from outside.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// The largest size that a terminal is given: more than a screen full of small letters has. A
/// picture is bounded by it.
pub const SIZE_MAX: Size = Size { rows: 200, columns: 500 };
/// The smallest: programs for terminals divide by it.
pub const SIZE_MIN: Size = Size { rows: 2, columns: 10 };
/// The size of a terminal that nobody has looked at yet: the usual one.
pub const SIZE_FIRST: Size = Size { rows: 24, columns: 80 };

/// Whether a session's agents may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// They may; a message wakes them.
    Live,
    /// They may not until it is resumed.
    Stopped,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// The task is finished.
    Completed,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedView {
    /// As a shell tells it: its exit status, or 128 and the number of the signal.
    pub status: u8,
    /// The last that it said, where it did not end well.
    #[serde(default)]
    pub said: String,
}

/// How large a terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines of the screen, from 1.
    pub rows: u16,
    /// Cells in each.
    pub columns: u16,
}

impl Size {
    /// The nearest size that a terminal can have.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self {
            rows: self.rows.clamp(SIZE_MIN.rows, SIZE_MAX.rows),
            columns: self.columns.clamp(SIZE_MIN.columns, SIZE_MAX.columns),
        }
    }
}
