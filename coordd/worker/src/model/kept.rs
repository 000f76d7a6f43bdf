//! What a provider wants back as it came: reasoning, and what it attaches to a call. It means nothing to
//! anybody else, and goes only where it came from: a model of another dialect never sees it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Block;

/// What is kept, by where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    /// Fields of an assistant's message of Chat Completions.
    Chat(Map<String, Value>),
    /// Parts of such a message's content, which go before its text.
    ChatParts(Vec<Value>),
    /// Reasoning that stood in the text, between `<think>` and `</think>`.
    ThinkTag(String),
    /// A content block of the Messages API.
    Messages(Value),
    /// An item of the Responses API.
    Responses(Value),
    /// Belongs to the call before it.
    Call(KeptCall),
}

/// What belongs to a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptCall {
    /// The id that the provider gave it, where it is not the one that it has here.
    pub(super) id: String,
    /// Other fields of the call.
    pub(super) fields: Map<String, Value>,
    /// Other fields of its function.
    pub(super) function: Map<String, Value>,
}

impl Kept {
    pub(super) fn into_json(self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn into_block(self) -> Block {
        Block::Reasoning { text: String::new(), raw: self.into_json() }
    }

    /// What stands in a transcript; none where it is not understood, for example since a later
    /// build has written it.
    pub(super) fn from_json(raw: &Value) -> Option<Self> {
        Self::deserialize(raw).ok()
    }

    /// Whether a block is about the call before it.
    pub(super) fn of_call(raw: &Value) -> Option<KeptCall> {
        match Self::from_json(raw)? {
            Self::Call(kept) => Some(kept),
            Self::Chat(_)
            | Self::ChatParts(_)
            | Self::ThinkTag(_)
            | Self::Messages(_)
            | Self::Responses(_) => None,
        }
    }
}

/// What to keep of a call that has another id here than its provider gave it.
pub(crate) fn under_its_own_id(raw: Option<&Value>, id: &str) -> Value {
    let mut kept = raw.and_then(Kept::of_call).unwrap_or_default();
    id.clone_into(&mut kept.id);
    Kept::Call(kept).into_json()
}

/// Whether this belongs to the call before it.
pub(crate) fn belongs_to_call(raw: &Value) -> bool {
    Kept::of_call(raw).is_some()
}
