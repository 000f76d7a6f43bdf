//! What is in an envelope once it is open. JSON, so that daemons of different builds understand each other: unknown
//! fields are left out, missing ones have a default, and an unknown kind is refused with a reason.

use proto::agent::{RunOutcome, Runtime};
use serde::{Deserialize, Serialize};

use crate::limits;

/// One message between sessions, or what one daemon has to say about one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The session that it is for, by its id.
    pub(crate) to: String,
    /// The sending session; empty when the user sends.
    #[serde(default)]
    pub(crate) from: String,
    /// Its name, for people.
    #[serde(default)]
    pub(crate) name: String,
    /// Whether that session's permissions are bypassed.
    #[serde(default)]
    pub(crate) bypasses: bool,
    /// The message's own id, a UUID.
    pub(crate) message: String,
    /// What is said.
    pub(crate) says: Says,
}

/// What one side says to the other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Says {
    /// Words for the session's lead.
    Words {
        text: String,
        #[serde(default)]
        summary: String,
    },
    /// What became of a message of the other side.
    Status {
        of: String,
        verdict: Fate,
        #[serde(default)]
        reason: String,
    },
    /// Something to read for a worker that runs with the receiver.
    Work {
        agent: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        description: String,
        #[serde(default)]
        phase: String,
        #[serde(default)]
        runtime: Option<Runtime>,
        #[serde(default)]
        is_task: bool,
        text: String,
        #[serde(default)]
        summary: String,
    },
    /// Such a worker is to be stopped.
    Stop {
        agent: String,
        #[serde(default)]
        by: String,
    },
    /// A run of such a worker has ended.
    Ended { agent: String, outcome: RunOutcome },
}

/// What became of a message after its daemon had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    Held,
    Consumed,
    Expired,
    Refused,
}

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
    pub(crate) verdict: Verdict,
}

/// A daemon's decision about a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
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
    pub(crate) sessions: Vec<Told>,
    /// Whether there are more than are told.
    #[serde(default)]
    pub(crate) more: bool,
}

/// A session that may be written to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) cwd: String,
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) hosts: bool,
}

/// A text from another daemon, cut to what people are shown.
pub(crate) fn cut(text: &str) -> String {
    let mut end = text.len().min(limits::FIELD_LEN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
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
