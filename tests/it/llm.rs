//! the native runtime's two wire formats, spoken by a real server with a real small model.
//!
//! The model's words are worth nothing. What a test can hold it to is structure: the server turns a
//! demanded tool call into a grammar, and the model cannot leave it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use proto::agent::{Model, Provider};
use proto::entry::What;
use proto::event::Event;
use serde_json::{Value, json};
use tests::llm::Llm;
use tests::{Daemon, story};

/// One answer takes a few seconds; more when the machine builds at the same time.
const ANSWER_LIMIT: Duration = Duration::from_mins(5);

/// The first call of a session, with a long prompt. It takes ten seconds.
const FIRST_CALL_LIMIT: Duration = Duration::from_mins(1);

/// Sends one request on a connection of its own. Returns the status and the body.
fn post(url: &str, path: &str, key: &str, body: &Value) -> (u16, String) {
    let host = url.strip_prefix("http://").expect("an http URL");
    let body = body.to_string();
    let mut stream = TcpStream::connect(host).expect("the server listens");
    stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nx-api-key: {key}\r\n\
         Authorization: Bearer {key}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len(),
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer in time");
    let answer = String::from_utf8(answer).expect("an answer in UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).and_then(|part| part.parse().ok()).expect("a status");
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    (status, if chunked { joined(body) } else { body.to_owned() })
}

/// The body that HTTP chunks make up.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a chunk's length");
        body.push_str(&rest[..length]);
        chunks = rest[length..].trim_start_matches("\r\n");
    }
    body
}

fn object(answer: &(u16, String)) -> Value {
    assert_eq!(answer.0, 200, "{}", answer.1);
    serde_json::from_str(&answer.1).expect("a JSON answer")
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "to": { "type": "string", "enum": ["ada", "grace"] },
            "body": { "type": "string", "maxLength": 40 },
        },
        "required": ["to", "body"],
        "additionalProperties": false,
    })
}

fn assert_follows_schema(input: &Value) {
    let fields = input.as_object().expect("an object");
    assert_eq!(fields.len(), 2, "{input}");
    assert!(["ada", "grace"].contains(&fields["to"].as_str().unwrap()), "{input}");
    assert!(fields["body"].as_str().unwrap().chars().count() <= 40, "{input}");
}

fn anthropic_request() -> Value {
    json!({
        "model": "any", "max_tokens": 200, "temperature": 0,
        "system": "You pass messages on.",
        "messages": [{ "role": "user", "content": "Tell ada that the build is green." }],
        "tools": [{ "name": "send", "description": "Sends a message", "input_schema": schema() }],
        "tool_choice": { "type": "any" },
    })
}

#[test]
fn messages_api_answers_with_the_demanded_tool_call() {
    let llm = Llm::start().unwrap();
    let answer = object(&post(llm.url(), "/v1/messages", "any", &anthropic_request()));
    assert_eq!(answer["stop_reason"], "tool_use", "{answer}");
    let call = answer["content"].as_array().unwrap().last().unwrap();
    assert_eq!((&call["type"], &call["name"]), (&json!("tool_use"), &json!("send")), "{answer}");
    assert_follows_schema(&call["input"]);
    assert!(answer["usage"]["output_tokens"].as_u64().unwrap() > 0, "{answer}");
}

#[test]
fn messages_api_streams_the_demanded_tool_call_in_pieces() {
    let llm = Llm::start().unwrap();
    let mut request = anthropic_request();
    request["stream"] = json!(true);
    let (status, body) = post(llm.url(), "/v1/messages", "any", &request);
    assert_eq!(status, 200, "{body}");
    let events: Vec<Value> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|event| serde_json::from_str(event).expect("an event is JSON"))
        .collect();
    assert_eq!(events.first().unwrap()["type"], "message_start");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    let pieces: Vec<_> =
        events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert!(pieces.len() > 1, "not streamed: {body}");
    assert_follows_schema(&serde_json::from_str(&pieces.concat()).unwrap());
}

#[test]
fn messages_api_takes_a_tool_result() {
    let llm = Llm::start().unwrap();
    let mut request = anthropic_request();
    request["tool_choice"] = json!({ "type": "none" });
    request["max_tokens"] = json!(20);
    let messages = request["messages"].as_array_mut().unwrap();
    let call = json!({ "type": "tool_use", "id": "t1", "name": "send", "input": { "to": "ada", "body": "x" } });
    let result = json!({ "type": "tool_result", "tool_use_id": "t1", "content": "sent" });
    messages.push(json!({ "role": "assistant", "content": [call] }));
    messages.push(json!({ "role": "user", "content": [result] }));
    let answer = object(&post(llm.url(), "/v1/messages", "any", &request));
    assert_eq!(answer["role"], "assistant", "{answer}");
    assert_ne!(answer["stop_reason"], "tool_use", "{answer}");
}

#[test]
fn chat_completions_answers_with_the_demanded_tool_call() {
    let llm = Llm::start().unwrap();
    let function =
        json!({ "name": "send", "description": "Sends a message", "parameters": schema() });
    let request = json!({
        "model": "any", "max_tokens": 200, "temperature": 0,
        "messages": [{ "role": "user", "content": "Tell grace that the build is green." }],
        "tools": [{ "type": "function", "function": function }],
        "tool_choice": "required",
    });
    let answer = object(&post(llm.url(), "/v1/chat/completions", "any", &request));
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
    let call = &choice["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "send", "{answer}");
    assert_follows_schema(&serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap());
}

#[test]
fn a_wrong_key_is_refused() {
    let llm = Llm::start_with_key("right").unwrap();
    let (status, body) = post(llm.url(), "/v1/messages", "wrong", &anthropic_request());
    assert_eq!(status, 401, "{body}");
    let answer = object(&post(llm.url(), "/v1/messages", "right", &anthropic_request()));
    assert_eq!(answer["stop_reason"], "tool_use", "{answer}");
}

/// What the harness promises: a server goes with the test that held it.
#[test]
fn the_server_ends_with_its_holder() {
    let llm = Llm::start().unwrap();
    let host = llm.url().strip_prefix("http://").unwrap().to_owned();
    TcpStream::connect(&host).expect("it listens");
    drop(llm);
    TcpStream::connect(&host).expect_err("it is gone");
}

/// By chance the small model begins a pattern that it does not end for minutes. Then it is asked
/// again, in another folder, which changes what it says.
fn session_with_a_forced_tool(provider: Provider, tool: &'static str) {
    let ended = || std::panic::catch_unwind(|| one_session_with_a_forced_tool(provider, tool));
    assert!((0..4).any(|_| ended().is_ok()), "none of four sessions came to an end");
}

/// A whole session with a real model, streaming, whose first answer must be a tool call: it has the
/// tool's schema, and the tool really runs.
fn one_session_with_a_forced_tool(provider: Provider, tool: &str) {
    let llm = Llm::start_with_key("right").unwrap();
    let daemon = Daemon::start();
    for name in ["one.txt", "two.txt"] {
        daemon.write(&format!("w/{name}"), "text\n");
    }
    let script = tests::rehearsal::script(&json!([tests::rehearsal::lead(&json!([]))]));
    let mut new = daemon.rehearsal("normal", &script);
    new.model =
        Some(Model { provider, name: "smollm2".into(), base_url: None, rehearsal_file: None });
    let (url, base, key) = match provider {
        Provider::Anthropic => (llm.url().to_owned(), "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        _ => (format!("{}/v1", llm.url()), "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    };
    for (name, value) in [(base, url.as_str()), (key, "right"), ("COORDD_FIRST_TOOL", tool)] {
        new.env.insert(name.into(), value.into());
    }
    // Where the model calls more than it was made to, nobody is asked.
    new.permissions.mode = "dontAsk".into();
    new.prompt = "List the files here.".into();
    let mut client = daemon.client();
    let session = client.new_session(new).name;
    let attach = proto::request::Request::Attach {
        session: session.clone(),
        agent: String::new(),
        history: None,
    };
    client.ok(attach);
    let called = client.event_within(FIRST_CALL_LIMIT, "a tool answered", |event| match event {
        Event::Entry { entry, .. } => match &entry.what {
            What::ToolResult { text, is_error, .. } => Some((text.clone(), *is_error)),
            _ => None,
        },
        _ => None,
    });
    let lead = format!("{session}/lead");
    let entries = client.transcript(&lead);
    let call = entries.iter().find_map(|entry| match &entry.what {
        What::ToolCall { tool, input, .. } => Some((tool.clone(), input.0.clone())),
        _ => None,
    });
    let (name, input) = call.expect("a call");
    assert_eq!(name, tool);
    assert!(input.is_object(), "{input}");
    // It ran, whatever came of the model's pattern.
    assert!(!called.0.is_empty() && !called.0.contains("ermission denied"), "{called:?}");
    assert_eq!(story::results(&entries)[0], (called.0.as_str(), called.1));
    // What it made of it goes on or ends; the turn that made the call was counted.
    let turn = entries.iter().find_map(|entry| match &entry.what {
        What::Turn { usage } => Some(*usage),
        _ => None,
    });
    let turn = turn.expect("a turn");
    assert!(turn.input_tokens > 0 && turn.output_tokens > 0 && turn.tool_uses >= 1, "{turn:?}");
    client.ok(proto::request::Request::SessionStop { session });
    daemon.stop_and_leave_nothing();
}

#[test]
fn r1_a_session_over_the_messages_api_runs_a_real_tool() {
    session_with_a_forced_tool(Provider::Anthropic, "Glob");
}

#[test]
fn r1_a_session_over_chat_completions_runs_a_real_tool() {
    session_with_a_forced_tool(Provider::Openai, "Glob");
}
