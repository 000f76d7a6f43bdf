//! What a model thought, in the fields in which servers of Chat Completions send it, kept so that it can go
//! back as it came.

use serde_json::{Map, Value};

use super::super::assembly::{AnswerTooLong, Assembly};
use super::super::kept::Kept;
use super::super::lenient::{Piece, list, pieces, text as text_in, word};

/// The fields in which servers send what a model thought.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];
/// The same as lists of parts that have to come back as they are.
const DETAIL_FIELDS: [&str; 2] = ["reasoning_details", "thinking_blocks"];

/// Takes what a message says in those fields.
pub(super) fn take(
    message: &Value,
    slot: u64,
    assembly: &mut Assembly,
) -> Result<(), AnswerTooLong> {
    let mut said = false;
    for field in REASONING_FIELDS {
        let text: String = pieces(message.get(field))
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) | Piece::Reasoning(text) => text,
            })
            .collect();
        if text.is_empty() {
            continue;
        }
        // The same text often comes under two names.
        let shown = if said { "" } else { text.as_str() };
        said = true;
        assembly.reasoning(slot, shown, |kept| Some(with_text(kept, field, &text)))?;
    }
    for field in DETAIL_FIELDS {
        for detail in list(message.get(field)) {
            let text = if said { String::new() } else { detail_text(detail) };
            assembly.reasoning(slot, &text, |kept| Some(with_detail(kept, field, detail)))?;
        }
    }
    Ok(())
}

fn detail_text(detail: &Value) -> String {
    let fields = ["text", "thinking", "summary"];
    fields.iter().find_map(|name| word(detail.get(*name))).unwrap_or_default().to_owned()
}

fn with_text(kept: Option<Kept>, field: &str, text: &str) -> Kept {
    let mut fields = fields_of(kept);
    let so_far = word(fields.get(field)).unwrap_or_default();
    let text = format!("{so_far}{text}");
    fields.insert(field.to_owned(), text.into());
    Kept::Chat(fields)
}

/// Details come in pieces too: those of one index are one, whose texts are joined.
fn with_detail(kept: Option<Kept>, field: &str, detail: &Value) -> Kept {
    let mut fields = fields_of(kept);
    let details = fields.entry(field).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(details) = details {
        let same = |it: &&mut Value| {
            let both = |name: &str| it.get(name) == detail.get(name);
            it.get("index").is_some() && both("index") && both("type")
        };
        match (details.last_mut().filter(same), detail) {
            (Some(Value::Object(last)), Value::Object(new)) => merge(last, new),
            (_, new) => details.push(new.clone()),
        }
    }
    Kept::Chat(fields)
}

fn merge(into: &mut Map<String, Value>, new: &Map<String, Value>) {
    for (name, value) in new {
        let joins = ["text", "thinking", "summary", "data"].contains(&name.as_str());
        match (into.get_mut(name), value) {
            (Some(Value::String(so_far)), Value::String(more)) if joins => so_far.push_str(more),
            (_, Value::Null) => {}
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

fn fields_of(kept: Option<Kept>) -> Map<String, Value> {
    match kept {
        Some(Kept::Chat(fields)) => fields,
        Some(
            Kept::ChatParts(_)
            | Kept::ThinkTag(_)
            | Kept::Messages(_)
            | Kept::Responses(_)
            | Kept::Call(_),
        )
        | None => Map::new(),
    }
}

/// One part of a content that thinks, whose text grows.
pub(super) fn with_part(kept: Option<Kept>, text: &str) -> Kept {
    let so_far = match kept {
        Some(Kept::ChatParts(parts)) => parts.first().map(|part| {
            let inner = part.get("thinking").map(|it| text_in(Some(it)));
            inner.unwrap_or_default()
        }),
        Some(
            Kept::Chat(_)
            | Kept::ThinkTag(_)
            | Kept::Messages(_)
            | Kept::Responses(_)
            | Kept::Call(_),
        )
        | None => None,
    };
    let text = format!("{}{text}", so_far.unwrap_or_default());
    Kept::ChatParts(vec![serde_json::json!({
        "type": "thinking", "thinking": [{ "type": "text", "text": text }],
    })])
}
