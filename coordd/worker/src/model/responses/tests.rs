//! The request as the Responses API wants it.

use super::*;
use crate::model::{SystemPart, ToolSpec};

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn kept(kept: Kept) -> Block {
    Block::Reasoning { text: String::new(), raw: kept.into_json() }
}

fn request() -> Request {
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
    let bare = json!({"type": "reasoning", "id": "rs_2", "summary": []});
    Request {
        system: vec![SystemPart { text: "Be brief.".into(), cache: true }],
        turns: vec![
            Turn { role: Role::User, blocks: vec![text("Hello")] },
            Turn {
                role: Role::Assistant,
                blocks: vec![
                    kept(Kept::Responses(item)),
                    kept(Kept::Responses(bare)),
                    kept(Kept::ThinkTag("of another dialect".into())),
                    text("I look."),
                    Block::ToolUse { id: "c1".into(), name: "Read".into(), input: json!({"a": 1}) },
                ],
            },
            Turn {
                role: Role::User,
                blocks: vec![
                    text("by the way"),
                    Block::ToolResult { id: "c1".into(), text: "gone".into(), is_error: true },
                ],
            },
        ],
        tools: vec![ToolSpec {
            name: "Read".into(),
            description: "Reads".into(),
            input_schema: json!({"type": "object"}),
        }],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 99,
    }
}

/// fM8: reasoning goes back as it came, and only where it came from.
#[test]
fn fm8_a_request_is_items_in_their_order() {
    let body = encode(&request(), "m", Spelling::new(true)).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "m", "max_output_tokens": 99, "stream": true, "store": false,
            "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "Read", "description": "Reads",
                "parameters": {"type": "object"}, "strict": false}],
            "include": ["reasoning.encrypted_content"],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{\"a\":1}"},
                {"type": "function_call_output", "call_id": "c1", "output": "Error: gone"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "by the way"}]},
            ],
        })
    );
}

#[test]
fn choices_are_spelled_for_the_server() {
    let mut request = request();
    for (choice, official, expected) in [
        (ToolChoice::Any, true, json!("required")),
        (ToolChoice::Tool("Read".into()), true, json!({"type": "function", "name": "Read"})),
        (ToolChoice::Tool("Read".into()), false, json!("required")),
    ] {
        request.tool_choice = choice;
        let body = encode(&request, "m", Spelling::new(official)).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["tool_choice"], expected);
        assert_eq!(body.get("include").is_some(), official);
    }
}
