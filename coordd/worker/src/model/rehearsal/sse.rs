//! An answer as the events that a provider would stream: in pieces, at a readable pace.

use serde_json::{Value, json};

use super::respond::Message;

/// Characters of a piece of text; a long text is cut into more of them at once, see below.
const PIECE_CHARS_MIN: usize = 24;
/// More pieces than this would make a long text slow to come.
const PIECES_MAX: usize = 40;
/// Tool input is not read along: a few pieces show that it can come in pieces.
const JSON_PIECES: usize = 3;
/// A pause is filled with pings, as a provider does.
const PING_EVERY_MS: u64 = 5_000;

/// One event and the wait before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) delay_ms: u64,
    pub(super) text: String,
}

/// The events of an answer.
pub(super) fn frames(message: &Message, pace_ms: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    let usage = message.usage;
    let input = json!({
        "input_tokens": usage.input, "output_tokens": 1,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    });
    frames.push(event(
        0,
        &json!({"type": "message_start", "message": {
            "id": message.id, "type": "message", "role": "assistant", "model": message.model,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": input,
        }}),
    ));
    let mut left_ms = message.pause_ms;
    while left_ms > 0 {
        let delay_ms = left_ms.min(PING_EVERY_MS);
        frames.push(event(delay_ms, &json!({"type": "ping"})));
        left_ms -= delay_ms;
    }
    let mut index = 0;
    if !message.text.is_empty() {
        let start = json!({"type": "text", "text": ""});
        let size = (message.text.chars().count() / PIECES_MAX).max(PIECE_CHARS_MIN);
        let deltas = pieces(&message.text, size)
            .into_iter()
            .map(|text| json!({"type": "text_delta", "text": text}));
        block(&mut frames, index, &start, deltas, pace_ms);
        index += 1;
    }
    for call in &message.calls {
        let start = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        let input = call.input.to_string();
        let size = input.chars().count().div_ceil(JSON_PIECES).max(1);
        let deltas = pieces(&input, size)
            .into_iter()
            .map(|text| json!({"type": "input_json_delta", "partial_json": text}));
        block(&mut frames, index, &start, deltas, pace_ms);
        index += 1;
    }
    frames.push(event(
        0,
        &json!({
            "type": "message_delta",
            "delta": {"stop_reason": message.stop, "stop_sequence": null},
            "usage": {"output_tokens": usage.output},
        }),
    ));
    frames.push(event(0, &json!({"type": "message_stop"})));
    frames
}

fn block(
    frames: &mut Vec<Frame>,
    index: usize,
    start: &Value,
    deltas: impl Iterator<Item = Value>,
    pace_ms: u64,
) {
    frames.push(event(
        0,
        &json!({"type": "content_block_start", "index": index, "content_block": start}),
    ));
    frames.extend(deltas.map(|delta| {
        event(pace_ms, &json!({"type": "content_block_delta", "index": index, "delta": delta}))
    }));
    frames.push(event(0, &json!({"type": "content_block_stop", "index": index})));
}

fn event(delay_ms: u64, data: &Value) -> Frame {
    let kind = data.get("type").and_then(Value::as_str).unwrap_or_default();
    Frame { delay_ms, text: format!("event: {kind}\ndata: {data}\n\n") }
}

/// Cuts a text into pieces of `size` characters.
fn pieces(text: &str, size: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut chars = text.chars().peekable();
    while chars.peek().is_some() {
        pieces.push(chars.by_ref().take(size).collect());
    }
    pieces
}
