//! The events of the Messages API, and a message that is not streamed, as our answer.
//!
//! Servers differ in what they leave out and add: a type may stand in the event's name alone, an
//! index may be missing, a block may come without its start. Each field is read by itself.

use serde_json::Value;

use super::super::assembly::{AnswerTooLong, Assembly, CallPiece};
use super::super::decode::{Progress, stop_of};
use super::super::kept::Kept;
use super::super::lenient::{list, number, text, word};
use super::super::{OnDelta, Usage};

/// Takes one event of an answer.
pub(in crate::model) fn take(
    name: &str,
    event: &Value,
    assembly: &mut Assembly,
    on_delta: OnDelta<'_>,
) -> Result<Progress, AnswerTooLong> {
    let kind = kind_of(name, event);
    assembly.understood |= !matches!(kind, "" | "error" | "ping");
    let index = number(event.get("index"));
    match kind {
        "message_start" => {
            let message = event.get("message").unwrap_or(event);
            update(&mut assembly.usage, message.get("usage"));
            // Mostly empty here; a server that sends all at once has it here.
            for (at, block) in (0..).zip(list(message.get("content"))) {
                block_start(at, block, assembly, on_delta)?;
                assembly.close(at);
            }
        }
        "content_block_start" => {
            let at = index.unwrap_or_else(|| assembly.last_slot().map_or(0, |last| last + 1));
            let block = event.get("content_block").unwrap_or(&Value::Null);
            block_start(at, block, assembly, on_delta)?;
        }
        "content_block_delta" => {
            let at = index.or(assembly.last_slot()).unwrap_or(0);
            let delta = event.get("delta").unwrap_or(&Value::Null);
            return block_delta(at, delta, assembly, on_delta);
        }
        "content_block_stop" => {
            if let Some(at) = index.or(assembly.last_slot()) {
                assembly.close(at);
            }
        }
        "message_delta" => {
            update(&mut assembly.usage, event.get("usage"));
            return Ok(stopped(event.get("delta").unwrap_or(event), assembly));
        }
        "message_stop" => return Ok(Progress::Ended),
        "message" => {
            update(&mut assembly.usage, event.get("usage"));
            let content = event.get("content");
            if let Some(text) = content.and_then(Value::as_str) {
                assembly.text(0, text, on_delta)?;
            } else {
                for (at, block) in (0..).zip(list(content)) {
                    block_start(at, block, assembly, on_delta)?;
                    assembly.close(at);
                }
            }
            let progress = stopped(event, assembly);
            let more_to_say = matches!(progress, Progress::More);
            return Ok(if more_to_say { Progress::Ended } else { progress });
        }
        "error" => {
            return Ok(Progress::Failed(event.get("error").unwrap_or(event).clone()));
        }
        _ => {}
    }
    Ok(Progress::More)
}

/// The kind of an event: as it says, as its name says, or by what it holds.
fn kind_of<'a>(name: &'a str, event: &'a Value) -> &'a str {
    if let Some(kind) = word(event.get("type")) {
        return kind;
    }
    if !name.is_empty() {
        return name;
    }
    let has = |name: &str| event.get(name).is_some_and(|it| !it.is_null());
    if has("error") {
        "error"
    } else if has("content_block") {
        "content_block_start"
    } else if event.get("delta").is_some_and(|delta| delta.get("stop_reason").is_some()) {
        "message_delta"
    } else if has("delta") {
        "content_block_delta"
    } else if has("content") {
        "message"
    } else if has("message") && has("code") || has("detail") {
        "error"
    } else if has("message") {
        "message_start"
    } else {
        ""
    }
}

fn stopped(delta: &Value, assembly: &mut Assembly) -> Progress {
    let Some(reason) = word(delta.get("stop_reason")) else { return Progress::More };
    let Some(stop) = stop_of(reason) else {
        return Progress::Garbled(format!("it ended with `{reason}`"));
    };
    let details = delta.get("stop_details").map(|it| text(it.get("explanation")));
    match details.filter(|it| !it.is_empty()) {
        Some(details) => assembly.stops(stop, &format!("{reason}: {details}")),
        None => assembly.stops(stop, reason),
    }
    Progress::More
}

fn block_start(
    at: u64,
    block: &Value,
    assembly: &mut Assembly,
    on_delta: OnDelta<'_>,
) -> Result<(), AnswerTooLong> {
    let kind = word(block.get("type")).unwrap_or_else(|| by_fields(block));
    match kind {
        "text" => assembly.text(at, &text(block.get("text")), on_delta),
        "tool_use" => {
            let piece = CallPiece {
                id: word(block.get("id")).unwrap_or_default().to_owned(),
                name: word(block.get("name")).unwrap_or_default().to_owned(),
                given: block.get("input").filter(|it| says_input(it)).cloned(),
                kept: None,
            };
            assembly.open_tool(at, piece, on_delta)
        }
        "thinking" | "redacted_thinking" => {
            let shown = text(block.get("thinking"));
            assembly.reasoning(at, &shown, |_| Some(Kept::Messages(block.clone())))
        }
        _ => assembly.other(at),
    }
}

fn by_fields(block: &Value) -> &'static str {
    if block.get("name").is_some() {
        "tool_use"
    } else if block.get("thinking").is_some() {
        "thinking"
    } else if block.get("text").is_some() {
        "text"
    } else {
        ""
    }
}

/// The start of a call has an empty object where the input comes in pieces.
fn says_input(input: &Value) -> bool {
    match input {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => true,
    }
}

fn block_delta(
    at: u64,
    delta: &Value,
    assembly: &mut Assembly,
    on_delta: OnDelta<'_>,
) -> Result<Progress, AnswerTooLong> {
    let has = |name: &str| delta.get(name).is_some_and(|it| !it.is_null());
    if has("partial_json") {
        let piece = match delta.get("partial_json") {
            Some(Value::String(piece)) => piece.clone(),
            // Some servers send the input as JSON, not as text that holds JSON.
            Some(other) => other.to_string(),
            None => String::new(),
        };
        if !assembly.tool_json(at, &piece)? && !piece.is_empty() {
            return Ok(Progress::Garbled("the input of a call that never began".to_owned()));
        }
    } else if has("thinking") || has("signature") {
        let thought = text(delta.get("thinking"));
        let signature = word(delta.get("signature"));
        assembly.reasoning(at, &thought, |kept| Some(thinking(kept, &thought, signature)))?;
    } else if has("text") {
        assembly.text(at, &text(delta.get("text")), on_delta)?;
    } else if let Value::String(piece) = delta {
        assembly.text(at, piece, on_delta)?;
    } else if !assembly.has(at) && word(delta.get("type")) == Some("text_delta") {
        assembly.text(at, &text(Some(delta)), on_delta)?;
    }
    Ok(Progress::More)
}

/// The block as it will stand in the next request: its text so far, and its signature.
fn thinking(kept: Option<Kept>, thought: &str, signature: Option<&str>) -> Kept {
    let mut block = match kept {
        Some(Kept::Messages(Value::Object(block))) => block,
        Some(
            Kept::Messages(_)
            | Kept::Chat(_)
            | Kept::ChatParts(_)
            | Kept::ThinkTag(_)
            | Kept::Responses(_)
            | Kept::Call(_),
        )
        | None => serde_json::Map::from_iter([("type".to_owned(), "thinking".into())]),
    };
    let joined = |name: &str, more: &str| {
        let so_far = word(block.get(name)).unwrap_or_default();
        Value::from(format!("{so_far}{more}"))
    };
    let text = joined("thinking", thought);
    let signed = signature.map(|more| joined("signature", more));
    block.insert("thinking".to_owned(), text);
    if let Some(signed) = signed {
        block.insert("signature".to_owned(), signed);
    }
    Kept::Messages(block.into())
}

/// Each report holds totals, and only those that it wants to change.
fn update(usage: &mut Usage, wire: Option<&Value>) {
    let Some(wire) = wire else { return };
    let field = |name: &str, so_far: u64| number(wire.get(name)).unwrap_or(so_far);
    usage.input = field("input_tokens", usage.input);
    usage.output = field("output_tokens", usage.output);
    usage.cache_read = field("cache_read_input_tokens", usage.cache_read);
    usage.cache_write = field("cache_creation_input_tokens", usage.cache_write);
}
