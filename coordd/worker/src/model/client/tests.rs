//! The client against a server that misbehaves in every way that a provider does.

use serde_json::json;

use super::*;
use crate::model::test_server::{Act, TestServer, cut, plain, stream};
use crate::model::{
    Block, FailureClass, Role, Stop, SystemPart, ToolChoice, ToolSpec, Turn, Usage,
};

const KEY: &str = "sk-test-123456789";

/// With an unknown event, a ping, two bytes to a letter, and a tool call without `input`.
const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":11,"cache_read_input_tokens":7,"cache_creation_input_tokens":null,"output_tokens":1}}}

: a comment
event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße, "}}

event: brand_new_event
data: {"type":"brand_new_event","what":{"ever":1}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"世界."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"Read"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"/a"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"ö\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":42}}

event: message_stop
data: {"type":"message_stop"}

"#;

const OPENAI: &str = r#"data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"choices":[{"index":0,"delta":{"content":"Grüße, "}}]}

data: {"choices":[{"index":0,"delta":{"content":"世界.","reasoning_content":"hm"}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"Read","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"Glob","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"/a"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"arguments":"ö\"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":18,"completion_tokens":42,"prompt_tokens_details":{"cached_tokens":7}}}

data: [DONE]

"#;

fn request() -> Request {
    Request {
        system: vec![SystemPart { text: "Be brief.".into(), cache: true }],
        turns: vec![Turn { role: Role::User, blocks: vec![Block::Text { text: "Hello".into() }] }],
        tools: vec![ToolSpec {
            name: "Read".into(),
            description: "Reads".into(),
            input_schema: json!({"type": "object"}),
        }],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 100,
    }
}

/// A client that does not wait in earnest.
fn client(provider: Provider, base_url: String) -> Client {
    let choice = ModelChoice {
        provider,
        model: "test-model".into(),
        base_url: Some(base_url),
        rehearsal_file: None,
    };
    let mut client =
        Client::new(&choice, &|name| name.ends_with("_API_KEY").then(|| KEY.to_owned()))
            .expect("a client");
    client.policy = Policy { first_ms: 1, cap_ms: 2, tries_max: 3, ..POLICY };
    client
}

/// The answer, what was shown, and how many waits there were.
type Outcome = (Result<Answer, ModelError>, Vec<String>, Vec<u64>);

async fn ask(client: &Client) -> Outcome {
    let (mut shown, mut waits) = (Vec::new(), Vec::new());
    let answer = client
        .answer(&request(), &mut |delta| match delta {
            Delta::Text(text) => shown.push(text.to_owned()),
            Delta::ToolStarted { name } => shown.push(format!("<{name}>")),
            Delta::Waiting { for_ms, .. } => waits.push(for_ms),
        })
        .await;
    (answer, shown, waits)
}

async fn exchange(provider: Provider, exchanges: Vec<Vec<Act>>) -> (Outcome, TestServer) {
    let server = TestServer::start(exchanges).await;
    (ask(&client(provider, server.base_url())).await, server)
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn thought(raw: serde_json::Value) -> Block {
    Block::Reasoning { text: "hm".into(), raw }
}

fn is_text(block: &Block) -> bool {
    matches!(block, Block::Text { .. })
}

fn read_call() -> Block {
    Block::ToolUse { id: "t1".into(), name: "Read".into(), input: json!({"path": "/aö"}) }
}

/// R-1: the Messages API, whatever the network does to the pieces.
#[tokio::test]
async fn anthropic_streams_decode_alike_in_chunks_of_any_size() {
    for size in [1, 2, 3, 7, 64, 1_000, 100_000] {
        let ((answer, shown, waits), server) =
            exchange(Provider::Anthropic, vec![stream(ANTHROPIC, size)]).await;
        let thinking = json!({"messages": {"type": "thinking", "thinking": "hm"}});
        let expected = Answer {
            blocks: vec![text("Grüße, 世界."), thought(thinking), read_call()],
            stop: Stop::ToolUse,
            usage: Usage { input: 11, output: 42, cache_read: 7, cache_write: 0 },
            why: "tool_use".into(),
            cut_call: None,
            limit: 100,
        };
        assert_eq!(answer.expect("an answer"), expected, "{size}");
        assert_eq!(shown, ["Grüße, ", "世界.", "<Read>"], "{size}");
        assert!(waits.is_empty());
        let seen = server.seen();
        assert!(seen[0].head.starts_with("POST /v1/messages HTTP/1.1"), "{}", seen[0].head);
        assert!(seen[0].head.contains(&format!("x-api-key: {KEY}")), "{}", seen[0].head);
        assert!(seen[0].head.contains("anthropic-version: 2023-06-01"), "{}", seen[0].head);
        assert_eq!(seen[0].body["model"], "test-model");
    }
}

/// R-1: Chat Completions.
#[tokio::test]
async fn openai_streams_decode_alike_in_chunks_of_any_size() {
    for size in [1, 2, 3, 7, 64, 1_000, 100_000] {
        let ((answer, shown, _), server) =
            exchange(Provider::OpenAi, vec![stream(OPENAI, size)]).await;
        let glob = Block::ToolUse { id: "t2".into(), name: "Glob".into(), input: json!({}) };
        let hm = thought(json!({"chat": {"reasoning_content": "hm"}}));
        let expected = Answer {
            blocks: vec![text("Grüße, 世界."), hm, read_call(), glob],
            stop: Stop::ToolUse,
            usage: Usage { input: 11, output: 42, cache_read: 7, cache_write: 0 },
            why: "tool_calls".into(),
            cut_call: None,
            limit: 100,
        };
        assert_eq!(answer.expect("an answer"), expected, "{size}");
        assert_eq!(shown, ["Grüße, ", "世界.", "<Read>", "<Glob>"], "{size}");
        let seen = server.seen();
        assert!(seen[0].head.starts_with("POST /chat/completions HTTP/1.1"), "{}", seen[0].head);
        assert!(seen[0].head.contains(&format!("authorization: Bearer {KEY}")));
    }
}

/// W-8: 429, 529 and 5xx are waited for as told.
#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let now = "retry-after: 0\r\n";
    let ((answer, _, waits), server) = exchange(
        Provider::Anthropic,
        vec![
            plain("429 Too Many Requests", now, busy),
            plain("529 Overloaded", "", busy),
            stream(ANTHROPIC, 50),
        ],
    )
    .await;
    assert_eq!(answer.expect("an answer").stop, Stop::ToolUse);
    assert_eq!(waits[0], 0);
    assert_eq!((waits.len(), server.seen().len()), (2, 3));
}

/// W-8: the waiting is bounded, and the last word says what happened.
#[tokio::test]
async fn a_server_that_stays_busy_is_given_up_as_retryable() {
    let fault = plain("500 Internal Server Error", "", "<html>\n oops </html>");
    let ((answer, _, waits), server) =
        exchange(Provider::OpenAi, vec![fault.clone(), fault.clone(), fault]).await;
    let error = answer.expect_err("gave up");
    assert_eq!(error.class(), FailureClass::Retryable);
    let message = error.to_string();
    for part in ["HTTP 500", "oops", "tried 3 times", "try again"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!((waits.len(), server.seen().len()), (2, 3));
}

/// W-8: a wait that is longer than the bound is not begun.
#[tokio::test]
async fn a_wait_of_an_hour_is_said_and_not_waited() {
    let later = plain("429 Too Many Requests", "retry-after: 3600\r\n", "{}");
    let ((answer, _, waits), _server) = exchange(Provider::Anthropic, vec![later]).await;
    let error = answer.expect_err("gave up");
    assert!(
        matches!(error, ModelError::Busy { told_ms: Some(3_600_000), tries: 1, .. }),
        "{error:?}"
    );
    assert!(waits.is_empty());
}

/// W-8, and "wrong key" of the bad input list: each is final, says what to do, and shows no key.
#[tokio::test]
async fn refusals_are_final_and_say_what_to_do() {
    let long = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8"}}"#;
    let llama = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"too big"}}"#;
    let quota = r#"{"error":{"code":"insufficient_quota","message":"You ran out"}}"#;
    for (status, body, class, parts) in [
        (
            "401 Unauthorized",
            r#"{"error":{"message":"bad key sk-test-123456789"}}"#,
            FailureClass::Fatal,
            ["the key was refused", "ANTHROPIC_API_KEY"],
        ),
        ("403 Forbidden", "", FailureClass::Fatal, ["HTTP 403", "ANTHROPIC_API_KEY"]),
        (
            "404 Not Found",
            r#"{"error":{"message":"model: x"}}"#,
            FailureClass::Fatal,
            ["test-model", "ANTHROPIC_BASE_URL"],
        ),
        ("400 Bad Request", long, FailureClass::Adjust, ["too long", "shorten"]),
        ("400 Bad Request", llama, FailureClass::Adjust, ["too long", "too big"]),
        ("413 Payload Too Large", "", FailureClass::Adjust, ["too long", "413"]),
        (
            "400 Bad Request",
            r#"{"error":"odd"}"#,
            FailureClass::Fatal,
            ["refused the request", "odd"],
        ),
        ("429 Too Many Requests", quota, FailureClass::Fatal, ["refused", "ran out"]),
        ("302 Found", "", FailureClass::Fatal, ["points to", "ANTHROPIC_BASE_URL"]),
        (
            "200 OK",
            r#"{"hello":"world"}"#,
            FailureClass::Fatal,
            ["application/json", "ANTHROPIC_BASE_URL"],
        ),
    ] {
        let ((answer, _, waits), _server) =
            exchange(Provider::Anthropic, vec![plain(status, "", body)]).await;
        let error = answer.expect_err("refused");
        let message = coordd_common::chain(&error);
        assert_eq!(error.class(), class, "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{status}: {message}");
        assert!(!message.contains(KEY) && !format!("{error:?}").contains(KEY), "{error:?}");
        assert!(waits.is_empty(), "{message}");
    }
}

/// Bad input: the endpoint is down.
#[tokio::test]
async fn an_unreachable_endpoint_says_where_and_what_to_check() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let base_url = format!("http://{}", listener.local_addr().expect("its address"));
    drop(listener);
    let (answer, _, waits) = ask(&client(Provider::OpenAi, base_url.clone())).await;
    let error = answer.expect_err("nobody there");
    assert_eq!(error.class(), FailureClass::Retryable);
    let message = error.to_string();
    for part in [base_url.as_str(), "OPENAI_BASE_URL", "tried"] {
        assert!(message.contains(part), "{message}");
    }
    // Four tries, where a busy server would get more.
    assert_eq!(waits.len(), 3);
}

/// W-9: what has arrived when the stream breaks is kept; a half tool call is not.
#[tokio::test]
async fn a_stream_cut_in_the_middle_gives_partial_work() {
    let in_tool = ANTHROPIC.find("ö\\\"}").expect("the tool's input");
    let in_text = ANTHROPIC.find("世界").expect("the text");
    for (end, expected) in [(in_tool, "Grüße, 世界."), (in_text, "Grüße, ")] {
        for acts in [cut(&ANTHROPIC[..end], 40), stream(&ANTHROPIC[..end], 40)] {
            let ((answer, _, waits), _server) = exchange(Provider::Anthropic, vec![acts]).await;
            let answer = answer.expect("partial work");
            let texts: Vec<_> = answer.blocks.into_iter().filter(is_text).collect();
            assert_eq!((answer.stop, texts), (Stop::CutOff, vec![text(expected)]));
            assert!(waits.is_empty());
        }
    }
}

#[tokio::test]
async fn a_stream_cut_before_anything_came_is_asked_again() {
    let nothing_yet = ANTHROPIC.find("Grüße").expect("the text");
    for acts in
        [cut(&ANTHROPIC[..nothing_yet], 40), vec![], vec![Act::Send(b"HTTP/1.1 2".to_vec())]]
    {
        let ((answer, _, waits), _server) =
            exchange(Provider::Anthropic, vec![acts, stream(ANTHROPIC, 40)]).await;
        assert_eq!(answer.expect("the second time").stop, Stop::ToolUse);
        assert_eq!(waits.len(), 1);
    }
}

/// An end that was announced but not closed in form is an end.
#[tokio::test]
async fn a_missing_last_event_loses_nothing() {
    for (provider, body, last) in [
        (Provider::Anthropic, ANTHROPIC, "event: message_stop"),
        (Provider::OpenAi, OPENAI, "data: [DONE]"),
    ] {
        let end = body.find(last).expect("the last event");
        let ((answer, _, _), _server) = exchange(provider, vec![stream(&body[..end], 40)]).await;
        assert_eq!(answer.expect("an answer").stop, Stop::ToolUse);
    }
}

/// fM9: `overloaded_error` in the middle of a stream is waited for like one before the first word.
#[tokio::test]
async fn fm9_an_error_in_the_stream_is_waited_for() {
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let end = ANTHROPIC.find("event: brand_new_event").expect("the middle");
    let broken = format!("{}{error}", &ANTHROPIC[..end]);
    let replies = vec![stream(&broken, 40), stream(&broken, 40), stream(ANTHROPIC, 40)];
    let ((answer, shown, waits), _server) = exchange(Provider::Anthropic, replies).await;
    assert_eq!((answer.expect("the third time").stop, waits.len()), (Stop::ToolUse, 2));
    assert_eq!(shown.concat(), "Grüße, Grüße, Grüße, 世界.<Read>");
}

/// D-8: silence costs a bounded wait, and what had come is kept.
#[tokio::test]
async fn silence_ends_the_attempt() {
    let end = ANTHROPIC.find("event: brand_new_event").expect("the middle");
    let mut silent = cut(&ANTHROPIC[..end], 40);
    silent.push(Act::Stall);
    let server = TestServer::start(vec![silent, vec![Act::Stall], stream(ANTHROPIC, 40)]).await;
    let mut client = client(Provider::Anthropic, server.base_url());
    client.patience.silence_ms = 50;
    client.patience.first_byte_local_ms = 50;
    let (answer, _, _) = ask(&client).await;
    let answer = answer.expect("partial work");
    assert_eq!((answer.stop, answer.blocks), (Stop::CutOff, vec![text("Grüße, ")]));
    client.patience.silence_ms = 200;
    let (answer, _, waits) = ask(&client).await;
    assert_eq!((answer.expect("the second time").stop, waits.len()), (Stop::ToolUse, 1));
}

/// fM3: comments are signs of life; an answer may take many times the silence that is allowed.
#[tokio::test]
async fn fm3_any_byte_counts_as_life() {
    let mut acts = stream("", 1);
    acts.pop();
    let chunk = |text: &str| Act::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes());
    for _ in 0..12 {
        acts.extend([Act::Pause(150), chunk(": keepalive\n\n")]);
    }
    acts.extend([chunk(OPENAI), Act::Send(b"0\r\n\r\n".to_vec())]);
    let server = TestServer::start(vec![acts]).await;
    let mut client = client(Provider::OpenAi, server.base_url());
    client.patience.silence_ms = 1_000;
    client.patience.first_byte_local_ms = 1_000;
    let (answer, _, waits) = ask(&client).await;
    assert_eq!((answer.expect("an answer").stop, waits.len()), (Stop::ToolUse, 0));
}

/// fM3: what a server takes for answers that fail counts like the waits.
#[tokio::test]
async fn fm3_the_bound_of_time_is_true_of_the_whole() {
    let server = TestServer::start(vec![vec![Act::Stall]; 4]).await;
    let mut client = client(Provider::OpenAi, server.base_url());
    client.policy = Policy { first_ms: 1, cap_ms: 1, total_ms: 300, ..POLICY };
    client.patience.silence_ms = 200;
    client.patience.first_byte_local_ms = 200;
    let (answer, _, waits) = ask(&client).await;
    assert!(matches!(answer, Err(ModelError::Broken { tries: 2, .. })), "{answer:?}");
    assert_eq!(waits.len(), 1);
}

/// W-6: a stopped turn does not go on in the background.
#[tokio::test]
async fn a_dropped_question_ends_its_request() {
    let end = ANTHROPIC.find("event: brand_new_event").expect("the middle");
    let mut silent = cut(&ANTHROPIC[..end], 40);
    silent.push(Act::Stall);
    let server = TestServer::start(vec![silent, stream(ANTHROPIC, 40)]).await;
    let client = client(Provider::Anthropic, server.base_url());
    let request = request();
    let mut shown = 0;
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut sender = Some(sender);
        let mut on_delta = |_: Delta<'_>| {
            shown += 1;
            if let Some(sender) = sender.take() {
                sender.send(()).ok();
            }
        };
        let asking = client.answer(&request, &mut on_delta);
        tokio::select! {
            answer = asking => panic!("it cannot end: {answer:?}"),
            started = receiver => started.expect("the first delta"),
        }
    }
    assert!(shown > 0);
    // The server serves one after the other: it answers only because the first request has ended.
    assert_eq!(ask(&client).await.0.expect("an answer").stop, Stop::ToolUse);
}

/// Bad input: no key, no model. Nothing that is printed holds the key.
#[test]
fn a_client_that_cannot_work_is_not_made() {
    let choice = |model: &str| ModelChoice {
        provider: Provider::Anthropic,
        model: model.into(),
        base_url: None,
        rehearsal_file: None,
    };
    let error = Client::new(&choice("m"), &|_| None).expect_err("no key");
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"), "{error}");
    assert_eq!(error.class(), FailureClass::Fatal);
    let with_key = |_: &str| Some(KEY.to_owned());
    let error = Client::new(&choice(" "), &with_key);
    assert!(matches!(error, Err(ModelError::BadBaseUrl { .. } | ModelError::ModelMissing)));
    let error =
        Client::new(&choice(" "), &|name| (name == "ANTHROPIC_API_KEY").then(|| KEY.into()));
    assert!(matches!(error, Err(ModelError::ModelMissing)), "{error:?}");
    let client = client(Provider::Anthropic, "http://127.0.0.1:1".into());
    assert!(!format!("{client:?}").contains(KEY), "{client:?}");
    assert_eq!(client.describe(), "test-model at http://127.0.0.1:1/v1/messages");
}
