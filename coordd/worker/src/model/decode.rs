//! One event after the other into an answer: what all dialects have in common.

use serde_json::Value;

use super::assembly::{AnswerTooLong, Assembly};
use super::framing::Event;
use super::{OnDelta, Stop, anthropic, lenient, openai, responses};

/// What one event led to.
#[derive(Debug)]
pub(super) enum Progress {
    More,
    /// The server says that nothing more comes.
    Ended,
    /// The server reports an error.
    Failed(Value),
    /// What came cannot be read: the answer would not be whole.
    Garbled(String),
}

/// How requests and answers are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Messages,
    Chat,
    Responses,
}

/// Reads the events of one answer.
#[derive(Debug)]
pub(super) enum Decoder {
    Messages,
    Chat(openai::Decoder),
    Responses(responses::Decoder),
}

impl Decoder {
    /// `tools` are the names of those on offer.
    pub(super) fn new(dialect: Dialect, tools: Vec<String>) -> Self {
        match dialect {
            Dialect::Messages => Self::Messages,
            Dialect::Chat => Self::Chat(openai::Decoder::new(tools)),
            Dialect::Responses => Self::Responses(responses::Decoder::default()),
        }
    }

    /// Takes the next event.
    pub(super) fn take(
        &mut self,
        event: &Event,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<Progress, AnswerTooLong> {
        let data = event.data.trim();
        if data.eq_ignore_ascii_case("[done]") || data.eq_ignore_ascii_case("done") {
            return Ok(Progress::Ended);
        }
        let value = match lenient::parse(data, &mut assembly.halves) {
            Ok(value) => value,
            Err(_) if data.starts_with(['{', '[']) => {
                return Ok(Progress::Garbled("an event is not JSON".to_owned()));
            }
            Err(_) if event.name == "error" => return Ok(Progress::Failed(data.into())),
            // A sign of life in words of the server's own.
            Err(_) => return Ok(Progress::More),
        };
        for value in lenient::list(Some(&value)) {
            if !value.is_object() {
                continue;
            }
            let progress = match self {
                Self::Messages => anthropic::take(&event.name, value, assembly, on_delta)?,
                Self::Chat(_) if event.name == "error" && value.get("choices").is_none() => {
                    Progress::Failed(value.get("error").unwrap_or(value).clone())
                }
                Self::Chat(decoder) => decoder.take(value, assembly, on_delta)?,
                Self::Responses(decoder) => decoder.take(&event.name, value, assembly, on_delta)?,
            };
            if !matches!(progress, Progress::More) {
                return Ok(progress);
            }
        }
        Ok(Progress::More)
    }

    /// No more events come.
    pub(super) fn end(
        &mut self,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        let ended = match self {
            Self::Chat(decoder) => decoder.end(assembly, on_delta),
            Self::Messages | Self::Responses(_) => Ok(()),
        };
        assembly.settle(on_delta);
        ended
    }
}

/// What a word for the end of an answer means, in every dialect; none where the answer broke off.
/// A word that nobody knows is an end like any other.
pub(super) fn stop_of(reason: &str) -> Option<Stop> {
    Some(match reason.to_ascii_lowercase().as_str() {
        "length" | "max_tokens" | "max_output_tokens" | "max_completion_tokens" => {
            Stop::OutputLimit
        }
        "model_context_window_exceeded" | "model_length" | "context_length_exceeded" => {
            Stop::WindowFull
        }
        "content_filter"
        | "refusal"
        | "safety"
        | "recitation"
        | "blocklist"
        | "sensitive"
        | "prohibited_content"
        | "spii"
        | "content_filtered"
        | "guardrail_intervened" => Stop::Refusal,
        "tool_calls" | "tool_use" | "function_call" | "tool_call" => Stop::ToolUse,
        "pause_turn" => Stop::Pause,
        "error"
        | "abort"
        | "aborted"
        | "cancelled"
        | "network_error"
        | "timeout"
        | "insufficient_system_resource"
        | "malformed_function_call" => return None,
        _ => Stop::EndTurn,
    })
}
