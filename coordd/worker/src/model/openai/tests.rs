//! The request as Chat Completions wants it, and the ways in which servers send tool calls.

use serde_json::json;

use super::*;
use crate::model::{SystemPart, ToolSpec};

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("{name}s"),
        input_schema: json!({"type": "object"}),
    }
}

fn request() -> Request {
    let text = |text: &str| Block::Text { text: text.into() };
    Request {
        system: vec![
            SystemPart { text: "One".into(), cache: true },
            SystemPart { text: "Two".into(), cache: false },
        ],
        turns: vec![
            Turn { role: Role::User, blocks: vec![text("Hello"), text(" ")] },
            Turn {
                role: Role::Assistant,
                blocks: vec![Block::ToolUse {
                    id: "t1".into(),
                    name: "Read".into(),
                    input: json!({"a": 1}),
                }],
            },
            Turn {
                role: Role::User,
                blocks: vec![
                    text("by the way"),
                    Block::ToolResult { id: "t1".into(), text: "gone".into(), is_error: true },
                ],
            },
            Turn { role: Role::Assistant, blocks: vec![] },
        ],
        tools: vec![tool("Read"), tool("Other")],
        tool_choice: ToolChoice::Tool("Read".into()),
        max_output_tokens: 99,
    }
}

fn encoded(request: &Request, official: bool) -> Value {
    let body = encode(request, "m", Spelling::new(official)).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// R-1: tool results as role `tool`, right after their call.
#[test]
fn a_request_has_roles_tools_and_results() {
    assert_eq!(
        encoded(&request(), false),
        json!({
            "model": "m", "max_tokens": 99, "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "Read", "description": "Reads", "parameters": {"type": "object"},
            }}],
            "tool_choice": "required",
            "messages": [
                {"role": "system", "content": "One\n\nTwo"},
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": null, "tool_calls": [{
                    "id": "t1", "type": "function",
                    "function": {"name": "Read", "arguments": "{\"a\":1}"},
                }]},
                {"role": "tool", "content": "Error: gone", "tool_call_id": "t1"},
                {"role": "user", "content": "by the way"},
            ],
        })
    );
}

#[test]
fn limits_and_choices_are_spelled_for_the_server() {
    let mut request = request();
    let body = encoded(&request, true);
    assert_eq!(body["max_completion_tokens"], 99);
    assert!(body.get("max_tokens").is_none());
    assert_eq!(body["tool_choice"], json!({"type": "function", "function": {"name": "Read"}}));
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(2));
    for (choice, expected) in [(ToolChoice::Any, Some(json!("required"))), (ToolChoice::Auto, None)]
    {
        request.tool_choice = choice;
        assert_eq!(encoded(&request, false).get("tool_choice"), expected.as_ref());
    }
    request.tool_choice = ToolChoice::Any;
    request.tools.clear();
    assert!(encoded(&request, false).get("tool_choice").is_none());
}

fn kept(kept: Kept) -> Block {
    Block::Reasoning { text: String::new(), raw: kept.into_json() }
}

fn call(id: &str) -> Block {
    Block::ToolUse { id: id.into(), name: "Read".into(), input: json!({}) }
}

/// fM8: what came with a call goes back with it, in each form in which it came; what stood before an
/// answer does not.
#[test]
fn fm8_reasoning_goes_back_with_the_calls_that_it_led_to() {
    let text = |text: &str| Block::Text { text: text.into() };
    let chat = |value: Value| Kept::Chat(value.as_object().cloned().unwrap_or_default());
    let signed = super::super::kept::KeptCall {
        id: "functions.Read:0".into(),
        fields: Map::from_iter([("extra_content".to_owned(), json!({"google": {"s": "x"}}))]),
        function: Map::new(),
    };
    for (blocks, expected) in [
        (
            vec![kept(chat(json!({"reasoning_content": "hm"}))), text("Ok."), call("c1")],
            json!({"role": "assistant", "content": "Ok.", "reasoning_content": "hm", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]}),
        ),
        (
            vec![kept(Kept::ChatParts(vec![json!({"type": "thinking"})])), text("Ok."), call("c1")],
            json!({"role": "assistant", "content": [{"type": "thinking"}, {"type": "text", "text": "Ok."}],
                "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]}),
        ),
        (
            vec![kept(Kept::ThinkTag("hm".into())), call("c1")],
            json!({"role": "assistant", "content": "<think>hm</think>\n\n", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]}),
        ),
        (
            vec![call("c1"), kept(Kept::Call(signed))],
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "functions.Read:0", "type": "function", "extra_content": {"google": {"s": "x"}},
                 "function": {"name": "Read", "arguments": "{}"}}]}),
        ),
        (
            vec![kept(chat(json!({"reasoning_content": "hm"}))), text("Ok.")],
            json!({"role": "assistant", "content": "Ok."}),
        ),
    ] {
        let mut request = request();
        request.system.clear();
        request.turns = vec![
            Turn { role: Role::Assistant, blocks },
            Turn {
                role: Role::User,
                blocks: vec![Block::ToolResult {
                    id: "c1".into(),
                    text: "r".into(),
                    is_error: false,
                }],
            },
        ];
        let body = encoded(&request, false);
        assert_eq!(body["messages"][0], expected);
        let id = expected["tool_calls"][0]["id"].as_str().unwrap_or("c1");
        assert_eq!(body["messages"][1]["tool_call_id"], id);
    }
}
