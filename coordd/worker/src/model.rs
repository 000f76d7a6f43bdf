//! The model: what an agent asks it and what it answers, the same for every provider.
//!
//! ```text
//!   Request -> Client::answer -> anthropic | openai | responses -> http -> bytes
//!                   ^   |                                                   |
//!                   |   |    framing: bytes to events -> decode: events to pieces -> assembly
//!                   |   |                                                             |
//!                   |   |                            Answer <- whole | cut <--------- ending
//!                   |   +-- retry: wait as told <- verdict: what an error means <------+
//!                   +-- rehearsal: a scripted model behind the same HTTP path
//! ```
//!
//! A request is whole: nothing is remembered between two calls, so a restarted agent goes on from
//! its transcript. This module knows no tool, no transcript and no daemon, and it never shows a
//! key.

mod anthropic;
mod assembly;
#[cfg(test)]
#[expect(
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    clippy::format_collect,
    clippy::cloned_ref_to_slice_refs,
    clippy::wildcard_enum_match_arm,
    reason = "tables, whose rows are written in place"
)]
mod behaviours;
mod call;
mod client;
mod decode;
mod encode;
mod ending;
mod endpoint;
mod error;
mod framing;
mod http;
mod kept;
mod lenient;
mod network;
mod openai;
pub(crate) mod rehearsal;
mod responses;
mod retry;
mod said;
mod secret;
mod settings;
#[cfg(test)]
mod test_server;
mod think;
mod verdict;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use call::problem_of;
pub(crate) use client::Client;
pub(crate) use error::{FailureClass, ModelError};
pub(crate) use kept::{belongs_to_call, under_its_own_id};

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// The Anthropic Messages API, or a server that speaks it.
    Anthropic,
    /// Chat Completions of OpenAI, or a server that speaks it.
    OpenAi,
    /// The Responses API of OpenAI, or a server that speaks it.
    Responses,
    /// The embedded scripted model.
    Rehearsal,
}

/// Which model to talk to. What is `None` comes from the environment or is the provider's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelChoice {
    pub(crate) provider: Provider,
    /// The model's name as its provider spells it; without meaning for the rehearsal model.
    pub(crate) model: String,
    /// Wins over `ANTHROPIC_BASE_URL` and `OPENAI_BASE_URL`.
    pub(crate) base_url: Option<String>,
    /// The script of the rehearsal model; without one it only says what it is.
    pub(crate) rehearsal_file: Option<PathBuf>,
}

/// One call of the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) system: Vec<SystemPart>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) max_output_tokens: u32,
}

/// A piece of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemPart {
    pub(crate) text: String,
    /// Everything up to the last part with this mark stays the same from call to call.
    pub(crate) cache: bool,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) blocks: Vec<Block>,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    User,
    Assistant,
}

/// A part of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    Text {
        text: String,
    },
    /// The model calls a tool. `input` is always a JSON object.
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    /// What the model thought, and what its provider wants back as it came: of the turn, or of the
    /// call before it.
    Reasoning {
        text: String,
        raw: Value,
    },
    /// What the call `id` gave.
    ToolResult {
        id: String,
        text: String,
        is_error: bool,
    },
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolSpec {
    pub(crate) name: String,
    pub(crate) description: String,
    /// JSON Schema of the input.
    pub(crate) input_schema: Value,
}

/// Whether the model must call a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    Auto,
    Any,
    Tool(String),
}

/// What the model said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: Stop,
    pub(crate) usage: Usage,
    /// Why it ended, in the provider's words.
    pub(crate) why: String,
    /// The tool whose call was not complete at the end, and is left out.
    pub(crate) cut_call: Option<String>,
    /// The output limit of the request.
    pub(crate) limit: u32,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stop {
    EndTurn,
    /// At least one [`Block::ToolUse`] waits for its result.
    ToolUse,
    /// The answer is longer than was allowed; a tool call that was not complete is left out.
    OutputLimit,
    /// The conversation and the answer together fill the model's window.
    WindowFull,
    /// The provider wants to be asked again, and goes on then.
    Pause,
    /// The model or its provider declined.
    Refusal,
    /// The stream broke. The blocks are what had arrived; they can hold complete tool calls, but an
    /// incomplete one is left out.
    CutOff,
}

/// Tokens of one answer. `input` counts neither of the two cache columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

/// What can be shown while an answer comes in. After [`Delta::Waiting`] the answer starts over;
/// only what led to no block at all was shown before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delta<'a> {
    Text(&'a str),
    ToolStarted { name: &'a str },
    Waiting { for_ms: u64, why: &'a str },
}

/// Takes the deltas of an answer.
pub(crate) type OnDelta<'a> = &'a mut dyn FnMut(Delta<'_>);
