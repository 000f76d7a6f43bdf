//! The Responses API of OpenAI, and of servers that speak it: our request as its JSON.
//!
//! Nothing is stored at the provider: each request has the whole conversation, with the reasoning items as
//! they came.

mod decode;

use serde_json::{Map, Value, json};

use super::encode::{Ids, Spelling, ids_of, is_offered};
use super::kept::Kept;
use super::{Block, Request, Role, ToolChoice, Turn};

pub(super) use decode::Decoder;

/// Writes the body of `POST …/responses`.
pub(super) fn encode(
    request: &Request,
    model: &str,
    spelling: Spelling,
) -> Result<Vec<u8>, serde_json::Error> {
    let system: Vec<_> = request.system.iter().map(|part| part.text.as_str()).collect();
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("model", model.into());
    set("max_output_tokens", spelling.limit(request).into());
    set("stream", true.into());
    set("store", false.into());
    set("instructions", system.join("\n\n").into());
    let tools: Vec<Value> = request
        .tools
        .iter()
        .filter(|tool| is_offered(tool, request, spelling))
        .map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.input_schema, "strict": false,
            })
        })
        .collect();
    if !tools.is_empty() {
        set("tools", tools.into());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Tool(name) if spelling.official => {
                Some(json!({ "type": "function", "name": name }))
            }
            ToolChoice::Any | ToolChoice::Tool(_) => Some("required".into()),
        };
        if let Some(choice) = choice.filter(|_| spelling.tool_choice) {
            set("tool_choice", choice);
        }
    }
    if spelling.official {
        // Without storage this is the only form in which reasoning can come back.
        set("include", json!(["reasoning.encrypted_content"]));
    }
    let ids = ids_of(&request.turns);
    let mut input = Vec::new();
    for turn in &request.turns {
        add_turn(turn, &ids, spelling, &mut input);
    }
    set("input", input.into());
    serde_json::to_vec(&body)
}

fn add_turn(turn: &Turn, ids: &Ids<'_>, spelling: Spelling, input: &mut Vec<Value>) {
    let (role, kind) = match turn.role {
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
    };
    let mut texts = Vec::new();
    for block in &turn.blocks {
        match block {
            Block::Text { text } if text.trim().is_empty() => {}
            Block::Text { text } => {
                let part = json!({ "type": kind, "text": text });
                match turn.role {
                    // Results stand right after the calls, before any text of the same turn.
                    Role::User => texts.push(part),
                    Role::Assistant => {
                        input.push(json!({ "type": "message", "role": role, "content": [part] }));
                    }
                }
            }
            Block::ToolUse { id, name, input: given } => input.push(json!({
                "type": "function_call", "call_id": ids.of(id), "name": name,
                "arguments": given.to_string(),
            })),
            Block::ToolResult { id, text, is_error } => {
                let output = if *is_error { format!("Error: {text}") } else { text.clone() };
                input.push(json!({
                    "type": "function_call_output", "call_id": ids.of(id), "output": output,
                }));
            }
            Block::Reasoning { raw, .. } => {
                if let Some(Kept::Responses(item)) = Kept::from_json(raw)
                    && can_go_back(&item)
                    && spelling.reasoning
                {
                    input.push(item);
                }
            }
        }
    }
    if !texts.is_empty() {
        input.push(json!({ "type": "message", "role": role, "content": texts }));
    }
}

/// An item that is nothing but an id is known to nobody: nothing is stored.
fn can_go_back(item: &Value) -> bool {
    ["encrypted_content", "content"].iter().any(|name| match item.get(*name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    })
}

#[cfg(test)]
mod tests;
