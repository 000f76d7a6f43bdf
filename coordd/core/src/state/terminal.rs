//! What members of a team that run in a terminal leave in the inboxes of others.

use alloc::string::String;

use sha2::Digest as _;

use crate::state::id::{AgentId, MessageId, hex};
use crate::state::name::Name;

/// Something that a member left in an inbox.
#[derive(Clone, PartialEq, Debug)]
pub struct Left {
    /// Its team.
    pub team: Name,
    /// The member.
    pub from: AgentId,
    /// Whose inbox it is in: the name that its file has.
    pub inbox: String,
    /// The agent of that name, where there is one.
    pub to: Option<AgentId>,
    /// What tells it from everything else that was ever left there; see [`key_of`].
    pub key: String,
    /// In a few words.
    pub summary: String,
    /// What it says.
    pub said: Said,
}

/// What a member says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// Plain text.
    Text(String),
    /// It has ended its turn, with these last words.
    Idle {
        /// Empty where its version does not tell.
        result: String,
    },
    /// Whether it ends, as it was asked to.
    ShutdownResponse {
        /// The message that asked.
        request: MessageId,
        /// Whether it does.
        approve: bool,
        /// Why not.
        reason: String,
    },
    /// It wants its plan approved.
    PlanApprovalRequest {
        /// The name that its own program gave to the request.
        given: String,
        /// The plan.
        plan: String,
    },
}

/// A name for what is made of these parts, for [`Left::key`].
pub fn key_of(parts: &[&str]) -> String {
    let mut hash = sha2::Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex(hash.finalize().get(..16).unwrap_or_default())
}

/// Whether two names have the same inbox file: all but letters, digits, `_` and `-` is one there.
pub(crate) fn share_an_inbox(one: &Name, other: &Name) -> bool {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    one.as_str().chars().map(plain).eq(other.as_str().chars().map(plain))
}
