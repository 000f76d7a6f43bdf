//! Tool calls: in whatever order and pieces they come, and with inputs that are no JSON.

use serde_json::{Value, json};

use super::{Behaviour, Provider, block, chat, messages, sse, streams};

/// One piece of a call.
fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn calls(pieces: &[Value]) -> String {
    let deltas: Vec<Value> = pieces.iter().map(|it| json!({ "tool_calls": [it] })).collect();
    chat(&deltas, "tool_calls")
}

fn read(arguments: Value) -> String {
    calls(&[piece(json!(0), json!("a"), json!("Read"), arguments)])
}

const X: &str = r#"{"x":1}"#;

pub(super) fn rows() -> Vec<Behaviour> {
    let mut rows = streams(Provider::OpenAi, &chat_pieces());
    rows.extend(streams(Provider::OpenAi, &chat_inputs()));
    rows.extend(streams(Provider::Anthropic, &messages_rows()));
    rows.extend(streams(Provider::Responses, &responses_rows()));
    rows
}

fn chat_pieces() -> Vec<(&'static str, String, &'static str)> {
    let nothing = Value::Null;
    let both = r#"Read{"x":1} Glob{}"#;
    vec![
        ("a call in pieces", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("")), piece(json!(0), nothing.clone(), nothing.clone(), json!("{\"x\"")), piece(json!(0), nothing.clone(), nothing.clone(), json!(":1}"))]), r#"Read{"x":1}"#),
        ("the name in the second piece", calls(&[piece(json!(0), json!("a"), json!(""), json!("")), piece(json!(0), nothing.clone(), json!("Read"), json!(X))]), r#"Read{"x":1}"#),
        ("the name in two pieces", calls(&[piece(json!(0), json!("a"), json!("Re"), json!("")), piece(json!(0), nothing.clone(), json!("ad"), json!(X))]), r#"Read{"x":1}"#),
        ("the name in every piece", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("{\"x\"")), piece(json!(0), json!("a"), json!("Read"), json!(":1}"))]), r#"Read{"x":1}"#),
        ("the name as far as it is known", calls(&[piece(json!(0), json!("a"), json!("Re"), json!("")), piece(json!(0), json!("a"), json!("Read"), json!(X))]), r#"Read{"x":1}"#),
        ("the name after the input", calls(&[piece(json!(0), json!("a"), nothing.clone(), json!(X)), piece(json!(0), nothing.clone(), json!("Read"), nothing.clone())]), r#"Read{"x":1}"#),
        ("the id in the second piece", calls(&[piece(json!(0), nothing.clone(), json!("Read"), json!("{\"x\"")), piece(json!(0), json!("a"), nothing.clone(), json!(":1}"))]), r#"Read{"x":1}"#),
        ("the id in every piece", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("{\"x\"")), piece(json!(0), json!("a"), json!(""), json!(":1}"))]), r#"Read{"x":1}"#),
        ("no id", calls(&[piece(json!(0), nothing.clone(), json!("Read"), json!(X))]), r#"Read{"x":1}"#),
        ("the id as a number", calls(&[piece(json!(0), json!(7), json!("Read"), json!(X))]), r#"Read{"x":1}"#),
        ("no index", calls(&[piece(nothing.clone(), json!("a"), json!("Read"), json!("{\"x\"")), piece(nothing.clone(), nothing.clone(), nothing.clone(), json!(":1}"))]), r#"Read{"x":1}"#),
        ("the index as text", calls(&[piece(json!("0"), json!("a"), json!("Read"), json!("{\"x\"")), piece(json!(0), nothing.clone(), nothing.clone(), json!(":1}"))]), r#"Read{"x":1}"#),
        ("two calls", calls(&[piece(json!(0), json!("a"), json!("Read"), json!(X)), piece(json!(1), json!("b"), json!("Glob"), json!("{}"))]), both),
        ("two calls, their pieces mixed", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("{\"x\"")), piece(json!(1), json!("b"), json!("Glob"), json!("{")), piece(json!(0), nothing.clone(), nothing.clone(), json!(":1}")), piece(json!(1), nothing.clone(), nothing.clone(), json!("}"))]), both),
        ("two calls of one index", calls(&[piece(json!(0), json!("a"), json!("Read"), json!(X)), piece(json!(0), json!("b"), json!("Glob"), json!("{}"))]), both),
        ("two calls of one index without ids", calls(&[piece(json!(0), nothing.clone(), json!("Read"), json!(X)), piece(json!(0), nothing.clone(), json!("Glob"), json!("{}"))]), both),
        ("two calls of one tool, one index, no ids", calls(&[piece(json!(0), nothing.clone(), json!("Read"), json!(X)), piece(json!(0), nothing.clone(), json!("Read"), json!("{\"x\":2}"))]), r#"Read{"x":1} Read{"x":2}"#),
        ("two calls without index and ids", calls(&[piece(nothing.clone(), nothing.clone(), json!("Read"), json!(X)), piece(nothing.clone(), nothing.clone(), json!("Glob"), json!("{}"))]), both),
        ("two calls of one id and two indexes", calls(&[piece(json!(0), json!(""), json!("Read"), json!(X)), piece(json!(1), json!(""), json!("Glob"), json!("{}"))]), both),
        ("indexes that begin with one", calls(&[piece(json!(1), json!("a"), json!("Read"), json!(X)), piece(json!(2), json!("b"), json!("Glob"), json!("{}"))]), both),
        ("two calls in one event", chat(&[json!({"tool_calls": [piece(json!(0), json!("a"), json!("Read"), json!(X)), piece(json!(1), json!("b"), json!("Glob"), json!("{}"))]})], "tool_calls"), both),
        ("calls as an object", chat(&[json!({"tool_calls": piece(json!(0), json!("a"), json!("Read"), json!(X))})], "tool_calls"), r#"Read{"x":1}"#),
        ("a call without a function", chat(&[json!({"tool_calls": [{"id": "a", "name": "Read", "arguments": X}]})], "tool_calls"), r#"Read{"x":1}"#),
        ("a call of the old kind", chat(&[json!({"function_call": {"name": "Read", "arguments": "{\"x\""}}), json!({"function_call": {"arguments": ":1}"}})], "function_call"), r#"Read{"x":1}"#),
        ("text, then a call", chat(&[json!({"content": "I look."}), json!({"tool_calls": [piece(json!(0), json!("a"), json!("Read"), json!(X))]})], "tool_calls"), r#"I look. Read{"x":1}"#),
        ("a call that ends with stop", calls(&[piece(json!(0), json!("a"), json!("Read"), json!(X))]).replace("\"tool_calls\"}", "\"stop\"}"), r#"Read{"x":1}"#),
        ("a call in an answer that is not streamed", json!({"choices": [{"message": {"content": null, "tool_calls": [piece(json!(0), json!("a"), json!("Read"), json!(X))]}, "finish_reason": "tool_calls"}]}).to_string(), r#"Read{"x":1}"#),
        ("two such calls without an index", json!({"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "Read", "arguments": X}}, {"id": "b", "function": {"name": "Glob", "arguments": {}}}]}, "finish_reason": "tool_calls"}]}).to_string(), both),
        ("a call again in a whole message", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("{\"x\""))]).replace("data: [DONE]", &format!("data: {}\n\ndata: [DONE]", json!({"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "Read", "arguments": X}}]}}]}))), r#"Read{"x":1}"#),
        ("a call that was announced and never came", chat(&[json!({"content": "I look."})], "tool_calls"), "I look. [CutOff]"),
        ("nothing came where a call was announced", chat(&[json!({"content": ""})], "tool_calls"), "!empty"),
    ]
}

fn chat_inputs() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("the input as an object", read(json!({"x": 1})), r#"Read{"x":1}"#),
        ("the input encoded twice", read(json!("\"{\\\"x\\\":1}\"")), r#"Read{"x":1}"#),
        ("the input encoded thrice", read(json!("\"\\\"{\\\\\\\"x\\\\\\\":1}\\\"\"")), r#"Read{"x":1}"#),
        ("the input empty", read(json!("")), "Read{}"),
        ("the input null", read(Value::Null), "Read{}"),
        ("the input the word null", read(json!("null")), "Read{}"),
        ("an empty object before the input", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("{}")), piece(json!(0), json!("a"), json!("Read"), json!(X))]), r#"Read{"x":1}"#),
        ("a comma too many", read(json!("{\"x\":1,}")), r#"Read{"x":1}"#),
        ("a raw line break in the input", read(json!("{\"x\":\"a\nb\"}")), r#"Read{"x":"a\nb"}"#),
        ("halves of a letter in two pieces", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"Read\",\"arguments\":\"{\\\"x\\\":\\\"\\ud83d\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\ude00\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n".to_owned(), "Read{\"x\":\"\u{1F600}\"}"),
        ("escapes in two pieces", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("{\"x\":\"\\ud83d")), piece(json!(0), Value::Null, Value::Null, json!("\\ude00\"}"))]), "Read{\"x\":\"\u{1F600}\"}"),
        ("an input that is no JSON", read(json!("{\"command\": \"echo hi\" \"x\"}")), "Read!unreadable"),
        ("an input that is a list", read(json!("[1]")), "Read!unreadable"),
        ("an input that is a list of its own", read(json!([1])), "Read!unreadable"),
        ("an input that is cut, and a whole end", read(json!("{\"x\":")), "Read!unreadable"),
        ("a bad call beside a good one", calls(&[piece(json!(0), json!("a"), json!("Read"), json!("{oops")), piece(json!(1), json!("b"), json!("Glob"), json!("{}"))]), "Read!unreadable Glob{}"),
        ("a call that is cut at the limit", read(json!("{\"x\":")).replace("\"tool_calls\"}", "\"length\"}"), "[OutputLimit]"),
        ("a good call and one that is cut at the limit", calls(&[piece(json!(0), json!("a"), json!("Read"), json!(X)), piece(json!(1), json!("b"), json!("Glob"), json!("{\"y"))]).replace("\"tool_calls\"}", "\"length\"}"), "Read{\"x\":1} [OutputLimit]"),
        ("a call without a name", calls(&[piece(json!(0), json!("a"), Value::Null, json!(X))]), r#"{"x":1}"#),
    ]
}

fn messages_rows() -> Vec<(&'static str, String, &'static str)> {
    let tool = |start: Value, deltas: &[Value]| messages(&block(0, start, deltas), "tool_use");
    let json_delta = |piece: Value| json!({ "type": "input_json_delta", "partial_json": piece });
    let start = || json!({ "type": "tool_use", "id": "a", "name": "Read", "input": {} });
    vec![
        ("a call in pieces", tool(start(), &[json_delta(json!("{\"x\"")), json_delta(json!(":1}"))]), r#"Read{"x":1}"#),
        ("no input in the start", tool(json!({"type": "tool_use", "id": "a", "name": "Read"}), &[json_delta(json!(X))]), r#"Read{"x":1}"#),
        ("the whole input in the start", tool(json!({"type": "tool_use", "id": "a", "name": "Read", "input": {"x": 1}}), &[]), r#"Read{"x":1}"#),
        ("the input in the start as text", tool(json!({"type": "tool_use", "id": "a", "name": "Read", "input": X}), &[]), r#"Read{"x":1}"#),
        ("no type in the start", tool(json!({"id": "a", "name": "Read", "input": {}}), &[json_delta(json!(X))]), r#"Read{"x":1}"#),
        ("pieces without a type", tool(start(), &[json!({"partial_json": X})]), r#"Read{"x":1}"#),
        ("the input as an object", tool(start(), &[json_delta(json!({"x": 1}))]), r#"Read{"x":1}"#),
        ("the input encoded twice", tool(start(), &[json_delta(json!("\"{\\\"x\\\":1}\""))]), r#"Read{"x":1}"#),
        ("no input at all", tool(start(), &[]), "Read{}"),
        ("the id null", tool(json!({"type": "tool_use", "id": null, "name": "Read"}), &[json_delta(json!(X))]), r#"Read{"x":1}"#),
        ("an input that is no JSON", tool(start(), &[json_delta(json!("{oops"))]), "Read!unreadable"),
        ("a call that ends with end_turn", tool(start(), &[json_delta(json!(X))]).replace("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"end_turn\""), r#"Read{"x":1}"#),
        ("no stop of the block", tool(start(), &[json_delta(json!(X))]).replace("content_block_stop", "ping"), r#"Read{"x":1}"#),
        ("an input without a call", messages(&[json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": X}})], "tool_use"), "!broken x3"),
        ("a call that is cut at the limit", tool(start(), &[json_delta(json!("{\"x"))]).replace("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"max_tokens\""), "[OutputLimit]"),
        ("a call in a message that is not streamed", json!({"type": "message", "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "Read", "input": {"x": 1}}], "stop_reason": "tool_use"}).to_string(), r#"I look. Read{"x":1}"#),
        ("two calls", messages(&[block(0, start(), &[json_delta(json!(X))]), block(1, json!({"type": "tool_use", "id": "b", "name": "Glob", "input": {}}), &[])].concat(), "tool_use"), r#"Read{"x":1} Glob{}"#),
    ]
}

fn responses_rows() -> Vec<(&'static str, String, &'static str)> {
    let item = json!({ "type": "function_call", "id": "fc_1", "call_id": "a", "name": "Read", "arguments": "" });
    let done = json!({ "type": "function_call", "id": "fc_1", "call_id": "a", "name": "Read", "arguments": X });
    let completed = json!({ "type": "response.completed", "response": { "object": "response", "status": "completed", "output": [done], "usage": { "input_tokens": 3, "output_tokens": 2 } } });
    let added = json!({ "type": "response.output_item.added", "output_index": 0, "item": item });
    let delta = |text: &str| json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": text });
    vec![
        (
            "a call in pieces",
            sse(&[added.clone(), delta("{\"x\""), delta(":1}"), completed.clone()]),
            r#"Read{"x":1}"#,
        ),
        (
            "a call whose pieces are missing",
            sse(&[added.clone(), completed.clone()]),
            r#"Read{"x":1}"#,
        ),
        ("a call in the last event alone", sse(&[completed.clone()]), r#"Read{"x":1}"#),
        (
            "a call without indexes",
            sse(&[added.clone(), delta(X), completed.clone()]).replace("\"output_index\":0,", ""),
            r#"Read{"x":1}"#,
        ),
        (
            "a call that is whole when it is done",
            sse(&[
                added.clone(),
                json!({"type": "response.output_item.done", "output_index": 0, "item": done}),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ]),
            r#"Read{"x":1}"#,
        ),
        ("an input without a call", sse(&[delta(X)]), "!broken x3"),
        (
            "an input that is no JSON",
            sse(&[
                added,
                delta("{oops"),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ]),
            "Read!unreadable",
        ),
        ("a response that is not streamed", completed["response"].to_string(), r#"Read{"x":1}"#),
    ]
}
