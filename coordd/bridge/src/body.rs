//! What is in an envelope once it is open. JSON, so that daemons of different builds understand each other: unknown
//! fields are left out, missing ones have a default, and an unknown kind is refused with a reason.

pub(crate) use proto::bridge::{RemoteView, Row};
use serde::{Deserialize, Serialize};

use crate::limits;

/// A daemon's decisions about rows. Each is read by itself, so that one that is not understood spoils no other.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Receipts<T = Receipt> {
    pub(crate) rows: Vec<T>,
}

/// What it decided about one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) epoch: u64,
    pub(crate) id: u64,
    pub(crate) verdict: Answer,
}

/// A daemon's decision about a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It is durable there.
    Taken,
    /// It will not be taken, however often it comes.
    Refused { reason: String },
}

/// That a daemon is there.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Presence {
    /// The machine's name, for people.
    #[serde(default)]
    pub(crate) machine: String,
    /// The sessions that the receiver may write to.
    #[serde(default)]
    pub(crate) sessions: Vec<RemoteView>,
    /// Whether there are more than are told.
    #[serde(default)]
    pub(crate) more: bool,
}

/// A text from another daemon, cut to what people are shown.
pub(crate) fn cut(text: &str) -> String {
    proto::text::head(text, limits::FIELD_LEN_MAX).to_owned()
}

impl Presence {
    /// Within its bounds.
    pub(crate) fn cut(mut self) -> Self {
        self.machine = cut(&self.machine);
        self.more |= self.sessions.len() > limits::SESSIONS_TOLD_MAX;
        self.sessions.truncate(limits::SESSIONS_TOLD_MAX);
        for it in &mut self.sessions {
            for field in [&mut it.session, &mut it.name, &mut it.cwd, &mut it.state] {
                *field = cut(field);
            }
        }
        self
    }
}
