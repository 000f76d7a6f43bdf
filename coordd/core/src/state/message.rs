//! A message, from acceptance to its end (M-2, M-3, M-11).
//!
//! ```text
//!   Accepted ──handed over──▶ Delivered ──acknowledged──▶ Consumed
//!     ▲ │                         │  ▲ handed over again after a lost process or connection
//!     │ └──────▶ Bounced ◀────────┘
//!     │ let in      ▲ refused
//!    Held ──────────┴──▶ Expired
//! ```
//!
//! `Held` is only what came from outside of the daemon (M-8); it is in no mailbox, and when it is let in it gets a new id, since
//! ids rise in the order of mailboxes. `Consumed`, `Bounced` and `Expired` are final. The text is dropped then; the receipt
//! stays for 7 days. What goes out of the daemon is in `outgoing.rs`.

use alloc::boxed::Box;
use alloc::string::String;

use proto_words::address::Place;
pub use proto_words::message::MessageState as State;
use serde::{Deserialize, Serialize};

use crate::state::agent::{Outcome, Usage};
use crate::state::id::{AgentId, MessageId, SessionId};
use crate::state::written;

/// A message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// Its id; ids rise in the order of acceptance.
    pub id: MessageId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// Who said it.
    pub from: Sender,
    /// Who is to read it.
    pub to: AgentId,
    /// What kind of thing is said.
    pub kind: Kind,
    /// The text; empty once final.
    pub text: String,
    /// In a few words.
    pub summary: String,
    /// Where it stands.
    pub state: State,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// When it was last handed over.
    #[serde(default)]
    pub delivered_ms: Option<u64>,
    /// When it became final.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Why it bounced.
    #[serde(default)]
    pub reason: String,
}

/// Who said something. Set from the connection, never from a field.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The user.
    User,
    /// An agent.
    Agent(AgentId),
    /// coordd.
    System,
    /// Somebody outside of this daemon, or of this session: no words of theirs carry the user's authority (M-8).
    Outside(Box<Outside>),
}

/// Who speaks from outside, as far as it is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Outside {
    /// Where an answer goes. [`Place::Other`] with no text when it did not say.
    pub address: Place,
    /// The name that it gives itself.
    pub name: String,
    /// Whether it says that its own permissions are bypassed.
    #[serde(default)]
    pub bypasses: bool,
    /// Whether the kernel or a secret vouches for the address.
    #[serde(default)]
    pub verified: bool,
    /// Its own id for the message; empty when it gave none.
    #[serde(default)]
    pub message: String,
}

/// What kind of thing is said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The user's words, or a worker's task: carries the authority of who gave it.
    Prompt,
    /// Plain text.
    Text,
    /// A request to finish and end; its id for the answer is `shutdown-<message id>`.
    ShutdownRequest {
        /// Whether it was answered.
        answered: bool,
    },
    /// The answer to one.
    ShutdownResponse {
        /// Whether it is agreed to.
        approve: bool,
    },
    /// A member's request to approve its plan, which is the text; its id for the answer is `plan-<message id>`.
    PlanApprovalRequest {
        /// What the member's own program calls the request.
        given: String,
        /// Whether it was answered.
        answered: bool,
    },
    /// The answer to one.
    PlanApprovalResponse {
        /// What the member's own program calls the request.
        given: String,
        /// Whether the plan may be carried out.
        approve: bool,
    },
    /// A task of the team's list is the receiver's now; the text is the task in full.
    TaskAssignment {
        /// Its number.
        task: u32,
        /// It in a few words.
        subject: String,
    },
    /// How a worker's run ended.
    Notification {
        /// The worker.
        agent: AgentId,
        /// Its run.
        run: u32,
        /// How it ended; the result is in the message's text.
        #[serde(serialize_with = "written::outcome")]
        outcome: Outcome,
        /// Whether it used almost nothing (N-6).
        #[serde(default)]
        thin: bool,
    },
}

impl Message {
    /// What it counts against its receiver's mailbox.
    pub fn len(&self) -> usize {
        self.text.len() + self.summary.len()
    }

    /// Whether it has no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that an answer to it must carry.
    pub fn request_id(&self) -> Option<String> {
        match self.kind {
            Kind::ShutdownRequest { .. } => Some(alloc::format!("shutdown-{}", self.id)),
            Kind::PlanApprovalRequest { .. } => Some(alloc::format!("plan-{}", self.id)),
            Kind::Prompt
            | Kind::Text
            | Kind::ShutdownResponse { .. }
            | Kind::PlanApprovalResponse { .. }
            | Kind::TaskAssignment { .. }
            | Kind::Notification { .. } => None,
        }
    }
}

/// The same outcome without its text and with what it used, for keeping beside the text.
pub fn without_result(outcome: &Outcome) -> Outcome {
    Outcome {
        status: outcome.status,
        class: outcome.class,
        reason: outcome.reason.clone(),
        result: String::new(),
        usage: Usage { ..outcome.usage },
    }
}
