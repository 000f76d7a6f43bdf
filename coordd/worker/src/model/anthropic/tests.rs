//! The request as the Messages API wants it.

use serde_json::json;

use super::*;
use crate::model::{SystemPart, ToolSpec};

fn encoded(request: &Request) -> Value {
    serde_json::from_slice(&encode(request, "m", Spelling::new(true)).unwrap()).unwrap()
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("{name}s"),
        input_schema: json!({"type": "object"}),
    }
}

fn user(blocks: Vec<Block>) -> Turn {
    Turn { role: Role::User, blocks }
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn result(id: &str, text: &str, is_error: bool) -> Block {
    Block::ToolResult { id: id.into(), text: text.into(), is_error }
}

fn request() -> Request {
    let call =
        |id: &str| Block::ToolUse { id: id.into(), name: "Read".into(), input: json!({"a": 1}) };
    Request {
        system: vec![
            SystemPart { text: "One".into(), cache: true },
            SystemPart { text: "Two".into(), cache: true },
            SystemPart { text: "Now".into(), cache: false },
            SystemPart { text: " ".into(), cache: false },
        ],
        turns: vec![
            user(vec![text("Hello"), text("")]),
            Turn { role: Role::Assistant, blocks: vec![text(" "), call("t1"), call("t2")] },
            user(vec![text("by the way"), result("t1", "A", false)]),
            user(vec![result("t2", "", true), text("and")]),
            Turn { role: Role::Assistant, blocks: vec![] },
        ],
        tools: vec![tool("Bash"), tool("Read")],
        tool_choice: ToolChoice::Tool("Read".into()),
        max_output_tokens: 99,
    }
}

/// prompt-cache markers; the order that the API asks for; nothing that it refuses.
#[test]
fn a_request_has_its_marks_and_its_order() {
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        encoded(&request()),
        json!({
            "model": "m", "max_tokens": 99, "stream": true,
            "tools": [
                {"name": "Bash", "description": "Bashs", "input_schema": {"type": "object"}},
                {"name": "Read", "description": "Reads", "input_schema": {"type": "object"}, "cache_control": mark},
            ],
            "tool_choice": {"type": "tool", "name": "Read"},
            "system": [
                {"type": "text", "text": "One"},
                {"type": "text", "text": "Two", "cache_control": mark},
                {"type": "text", "text": "Now"},
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": mark}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1}},
                    {"type": "tool_use", "id": "t2", "name": "Read", "input": {"a": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "A"},
                    {"type": "tool_result", "tool_use_id": "t2", "is_error": true},
                    {"type": "text", "text": "by the way"},
                    {"type": "text", "text": "and", "cache_control": mark},
                ]},
            ],
        })
    );
}

/// Other servers take `any` and pass over the name; offered alone, the tool is the one that is
/// called.
#[test]
fn another_server_is_offered_the_demanded_tool_alone() {
    let body: Value =
        serde_json::from_slice(&encode(&request(), "m", Spelling::new(false)).unwrap()).unwrap();
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    let tools = body["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!(
        (&tools[0]["name"], tools[0].get("cache_control").is_some()),
        (&json!("Read"), true)
    );
}

/// The API takes four marks and no more.
#[test]
fn there_are_never_more_than_four_marks() {
    let mut request = request();
    for _ in 0..10 {
        request.turns.push(Turn { role: Role::Assistant, blocks: vec![text("ok")] });
        request.turns.push(user(vec![text("more")]));
    }
    assert_eq!(encoded(&request).to_string().matches("cache_control").count(), 4);
}

#[test]
fn a_bare_request_has_no_empty_fields() {
    let mut request = request();
    request.system.clear();
    request.tools.clear();
    request.turns.truncate(1);
    for (choice, tools, expected) in [
        (ToolChoice::Any, vec![], None),
        (ToolChoice::Any, vec![tool("A")], Some(json!({"type": "any"}))),
        (ToolChoice::Auto, vec![tool("A")], None),
    ] {
        request.tool_choice = choice;
        request.tools = tools;
        let body = encoded(&request);
        assert_eq!(body.get("tool_choice"), expected.as_ref());
        assert_eq!(body.get("tools").is_some(), !request.tools.is_empty());
        assert!(body.get("system").is_none());
    }
}
