//! What a model answers, written in Anthropic's or in Gemini's format.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// One answer.
#[derive(Debug)]
pub(super) enum Reply {
    Say(String),
    /// Its text, and the gate before its end.
    Begin(String, String),
    CutOff(String),
    Call(Vec<(String, Value)>),
    Fail(u16, String),
}

/// How it is to be written: as a stream of events, or as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Anthropic,
    AnthropicWhole,
    Gemini,
    GeminiWhole,
}

/// Events with their names.
type Events = Vec<(String, Value)>;

impl Reply {
    pub(super) fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Say(text) | Self::Begin(text, _) | Self::CutOff(text) => Some(text),
            Self::Call(_) | Self::Fail(..) => None,
        }
    }

    fn calls(&self) -> &[(String, Value)] {
        match self {
            Self::Call(calls) => calls,
            _ => &[],
        }
    }
}

impl Format {
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::AnthropicWhole | Self::GeminiWhole)
    }

    /// The body of an error.
    pub(super) fn error(self, status: u16, message: &str) -> Value {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        match self {
            Self::Anthropic | Self::AnthropicWhole => {
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            Self::Gemini | Self::GeminiWhole => {
                json!({ "error": { "code": status, "message": message, "status": kind.to_uppercase() } })
            }
        }
    }

    /// What is sent at once, and what is sent at the end.
    pub(super) fn events(self, reply: &Reply) -> (Events, Events) {
        match self {
            Self::Anthropic => anthropic(reply),
            Self::AnthropicWhole => (vec![(String::new(), message(reply))], Vec::new()),
            Self::Gemini | Self::GeminiWhole => (vec![(String::new(), gemini(reply))], Vec::new()),
        }
    }
}

/// Ids are never given twice: CLIs take two things with one id for the same.
fn fresh(prefix: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}_test{:020}", LAST.fetch_add(1, Ordering::Relaxed) + 1)
}

/// A whole message.
fn message(reply: &Reply) -> Value {
    let text = reply.text().map(|it| json!({ "type": "text", "text": it }));
    let calls = reply.calls().iter().map(|(name, input)| {
        json!({ "type": "tool_use", "id": fresh("toolu"), "name": name, "input": input })
    });
    let content: Vec<_> = text.into_iter().chain(calls).collect();
    let stop = match reply {
        Reply::Call(_) => "tool_use",
        Reply::CutOff(_) => "max_tokens",
        _ => "end_turn",
    };
    json!({ "id": fresh("msg"), "type": "message", "role": "assistant", "model": "model-of-the-tests",
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": {
                "input_tokens": 100, "output_tokens": 10,
                "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30 } })
}

fn anthropic(reply: &Reply) -> (Events, Events) {
    let mut whole = message(reply);
    let content = whole["content"].take();
    let stop = whole["stop_reason"].take();
    whole["content"] = json!([]);
    whole["usage"]["output_tokens"] = json!(1);
    let mut events = vec![json!({ "type": "message_start", "message": whole })];
    for (at, block) in content.as_array().into_iter().flatten().enumerate() {
        let (start, deltas) = pieces(block);
        events.push(json!({ "type": "content_block_start", "index": at, "content_block": start }));
        for delta in deltas {
            events.push(json!({ "type": "content_block_delta", "index": at, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": at }));
    }
    events.push(
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
                        "usage": { "output_tokens": 10 } }),
    );
    events.push(json!({ "type": "message_stop" }));
    let is_last = |it: &Value| {
        matches!(reply, Reply::Begin(..))
            && matches!(
                it["type"].as_str(),
                Some("content_block_stop" | "message_delta" | "message_stop")
            )
    };
    let named = |it: Value| (it["type"].as_str().unwrap_or_default().to_owned(), it);
    let (last, first): (Vec<_>, Vec<_>) = events.into_iter().partition(is_last);
    (first.into_iter().map(named).collect(), last.into_iter().map(named).collect())
}

/// The start of a block, and the rest of it in two pieces.
fn pieces(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    if let Some(text) = block["text"].as_str() {
        start["text"] = json!("");
        let pieces = text.split_inclusive(' ');
        let deltas = pieces.map(|it| json!({ "type": "text_delta", "text": it })).collect();
        (start, deltas)
    } else {
        start["input"] = json!({});
        let input = block["input"].to_string();
        let middle = (input.len() / 2..input.len())
            .find(|at| input.is_char_boundary(*at))
            .unwrap_or_default();
        let (one, two) = input.split_at(middle);
        let delta = |it| json!({ "type": "input_json_delta", "partial_json": it });
        (start, vec![delta(one), delta(two)])
    }
}

fn gemini(reply: &Reply) -> Value {
    let text = reply.text().map(|it| json!({ "text": it }));
    let calls = reply
        .calls()
        .iter()
        .map(|(name, input)| json!({ "functionCall": { "name": name, "args": input } }));
    let parts: Vec<_> = text.into_iter().chain(calls).collect();
    let stop = if matches!(reply, Reply::CutOff(_)) { "MAX_TOKENS" } else { "STOP" };
    json!({ "candidates": [{ "index": 0, "finishReason": stop,
                             "content": { "role": "model", "parts": parts } }],
            "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 },
            "modelVersion": "model-of-the-tests" })
}
