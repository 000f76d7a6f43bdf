//! The request as Chat Completions wants it, and the ways in which servers send tool calls.

use serde_json::json;

use super::super::assembly::Ending;
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
    serde_json::from_slice(&encode(request, "m", official).unwrap()).unwrap()
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

fn calls(events: &[Value]) -> Vec<(String, String, String)> {
    let (mut decoder, mut assembly) = (Decoder::default(), Assembly::default());
    for calls in events {
        let event = json!({"choices": [{"delta": {"tool_calls": calls}}]}).to_string();
        decoder.take(&event, &mut assembly, &mut |_| {}).unwrap();
    }
    let answer = assembly.finish(Ending::Whole(Stop::ToolUse));
    let call = |block| match block {
        Block::ToolUse { id, name, input } => (id, name, input.to_string()),
        Block::Text { .. } | Block::ToolResult { .. } => panic!("only calls were sent: {block:?}"),
    };
    answer.blocks.into_iter().map(call).collect()
}

/// Seen with servers that only resemble OpenAI's.
#[test]
fn tool_calls_are_told_apart_however_they_are_numbered() {
    let call = |index: Value, id: &str, name: &str, arguments: Value| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    let expected = [
        ("a".to_owned(), "Read".to_owned(), r#"{"x":1}"#.to_owned()),
        ("b".to_owned(), "Glob".to_owned(), "{}".to_owned()),
    ];
    let same_index = [
        json!([call(json!(0), "a", "Read", json!("{\"x\":1}"))]),
        json!([call(json!(0), "b", "Glob", json!("{}"))]),
    ];
    let no_index = [json!([
        call(Value::Null, "a", "Read", json!("{\"x\":1}")),
        call(Value::Null, "b", "Glob", json!("")),
    ])];
    let id_repeated = [
        json!([call(json!(0), "a", "Read", json!("{\"x\""))]),
        json!([call(json!(0), "a", "", json!(":1}")), call(json!(1), "b", "Glob", Value::Null)]),
    ];
    let as_json = [json!([
        call(json!(0), "a", "Read", json!({"x": 1})),
        call(json!(1), "b", "Glob", json!({})),
    ])];
    assert_eq!(calls(&same_index), expected);
    assert_eq!(calls(&no_index), expected);
    assert_eq!(calls(&id_repeated), expected);
    assert_eq!(calls(&as_json), expected);
}

#[test]
fn odd_events_are_passed_over() {
    let (mut decoder, mut assembly) = (Decoder::default(), Assembly::default());
    for event in ["{}", r#"{"choices":null}"#, r#"{"choices":[{}]}"#, r#"{"choices":"x"}"#, "[1]"] {
        let progress = decoder.take(event, &mut assembly, &mut |_| {}).unwrap();
        assert!(matches!(progress, Progress::More), "{event}: {progress:?}");
    }
    let progress = decoder.take("{", &mut assembly, &mut |_| {}).unwrap();
    assert!(matches!(progress, Progress::Garbled(_)), "{progress:?}");
}

#[test]
fn errors_in_the_stream_have_the_status_they_would_have_had() {
    for (error, expected) in [
        (json!({"code": 503, "message": "x"}), 503),
        (json!({"code": 7, "type": "server_error"}), 500),
        (json!({"code": "rate_limit_exceeded"}), 429),
        (json!({"code": null, "type": "invalid_request_error"}), 400),
        (json!({"code": "model_not_found", "type": "invalid_request_error"}), 404),
        (json!("text"), 500),
    ] {
        assert_eq!(status(&error), expected, "{error}");
    }
}
