//! What real servers, gateways and local servers send, as a table: the bytes, and what must come out. A
//! server has one behaviour for each path; the client asks it as it asks any other.

mod calls;
mod errors;
mod framed;
mod fuzzed;
mod reasoning;
mod stops;
mod types;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::retry::{POLICY, Policy};
use super::{
    Answer, Block, Client, Delta, ModelChoice, ModelError, Provider, Request, Role, Stop,
    SystemPart, ToolChoice, ToolSpec, Turn,
};

/// One behaviour. A request after the last reply gets the last reply again.
struct Behaviour {
    name: String,
    provider: Provider,
    /// Whole replies with their heads.
    replies: Vec<Vec<u8>>,
    expected: String,
}

/// The shape of a stream's reply.
const STREAM: &str = "200 OK\r\ncontent-type: text/event-stream";

fn behaviour(provider: Provider, name: &str, replies: Vec<Vec<u8>>, expected: &str) -> Behaviour {
    let (name, expected) = (name.to_owned(), expected.to_owned());
    Behaviour { name, provider, replies, expected }
}

/// Rows of one dialect, each a stream.
fn streams(provider: Provider, rows: &[(&str, String, &str)]) -> Vec<Behaviour> {
    let row = |(name, body, expected): &(&str, String, &str)| {
        behaviour(provider, name, vec![reply(STREAM, body.as_bytes())], expected)
    };
    rows.iter().map(row).collect()
}

fn reply(head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Chunks of Chat Completions: deltas, then the end.
fn chat(deltas: &[Value], finish: &str) -> String {
    let chunk = |delta: &Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    let mut events: Vec<Value> = deltas.iter().map(chunk).collect();
    events.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] }));
    sse(&events) + "data: [DONE]\n\n"
}

/// Events of the Messages API: what stands between the start and the end.
fn messages(events: &[Value], stop: &str) -> String {
    let mut all =
        vec![json!({ "type": "message_start", "message": { "usage": { "input_tokens": 1 } } })];
    all.extend_from_slice(events);
    all.push(json!({ "type": "message_delta", "delta": { "stop_reason": stop } }));
    all.push(json!({ "type": "message_stop" }));
    sse(&all)
}

fn block(index: u64, start: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({ "type": "content_block_start", "index": index, "content_block": start })];
    let delta =
        |delta: &Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    events.extend(deltas.iter().map(delta));
    events.push(json!({ "type": "content_block_stop", "index": index }));
    events
}

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// Serves all behaviours, each under its number.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<BTreeMap<usize, Vec<Value>>>>,
}

impl Server {
    async fn start(behaviours: &[Behaviour]) -> Self {
        let replies: Vec<_> = behaviours.iter().map(|it| it.replies.clone()).collect();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(BTreeMap::<usize, Vec<Value>>::new()));
        let log = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, replies.clone(), Arc::clone(&log)));
            }
        });
        Self { address, requests }
    }

    fn client(&self, at: usize, provider: Provider) -> Client {
        let choice = ModelChoice {
            provider,
            model: "m".into(),
            base_url: Some(format!("http://{}/{at}/v1", self.address)),
            rehearsal_file: None,
        };
        let mut client = Client::new(&choice, &|_| None).unwrap();
        client.policy = Policy { first_ms: 1, cap_ms: 2, tries_max: 3, ..POLICY };
        client.patience.silence_ms = 2_000;
        client.patience.rest_ms = 100;
        client.patience.first_byte_local_ms = 2_000;
        client
    }

    fn asked(&self, at: usize) -> Vec<Value> {
        self.requests.lock().unwrap().get(&at).cloned().unwrap_or_default()
    }
}

async fn serve(
    mut stream: TcpStream,
    replies: Vec<Vec<Vec<u8>>>,
    log: Arc<Mutex<BTreeMap<usize, Vec<Value>>>>,
) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
            });
            if body.len() >= length.unwrap_or(0) {
                break (head.to_owned(), body.to_owned());
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let at: usize = head.split('/').nth(1).and_then(|it| it.parse().ok()).unwrap();
    if head.starts_with("GET") {
        let list = json!({ "data": [{ "id": "m-2" }, { "id": "m-1" }] }).to_string();
        stream.write_all(&reply("200 OK", list.as_bytes())).await.ok();
        return;
    }
    let nth = {
        let mut log = log.lock().unwrap();
        let requests = log.entry(at).or_default();
        requests.push(serde_json::from_str(&body).unwrap_or_default());
        requests.len() - 1
    };
    let replies = &replies[at];
    let reply = replies.get(nth).or(replies.last()).unwrap();
    stream.write_all(reply).await.ok();
    stream.shutdown().await.ok();
}

fn request() -> Request {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: name.into(),
        input_schema: json!({"type": "object"}),
    };
    Request {
        system: vec![SystemPart { text: "Be brief.".into(), cache: true }],
        turns: vec![Turn { role: Role::User, blocks: vec![Block::Text { text: "Hello".into() }] }],
        tools: vec![tool("Glob"), tool("Read")],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 16_000,
    }
}

async fn ask(client: &Client) -> String {
    let mut shown = String::new();
    let answer = client
        .answer(&request(), &mut |delta| match delta {
            Delta::Text(text) => shown.push_str(text),
            Delta::ToolStarted { .. } => {}
            Delta::Waiting { .. } => shown.clear(),
        })
        .await;
    match answer {
        Ok(answer) => {
            // What is shown while it comes is what is kept.
            let said: String = answer.blocks.iter().map(text_of).collect();
            assert_eq!(shown.trim(), said.trim());
            shape(&answer)
        }
        Err(error) => failed(&error),
    }
}

fn text_of(block: &Block) -> &str {
    match block {
        Block::Text { text } => text,
        Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Reasoning { .. } => "",
    }
}

/// An answer as a row of the table says it: `~` thought, text, `Tool{input}`, the stop where it is not
/// the usual one.
fn shape(answer: &Answer) -> String {
    let block = |block: &Block| match block {
        Block::Text { text } => text.clone(),
        Block::ToolUse { name, input, .. } if super::problem_of(input).is_some() => {
            format!("{name}!unreadable")
        }
        Block::ToolUse { name, input, .. } => format!("{name}{input}"),
        Block::Reasoning { text, .. } => format!("~{text}"),
        Block::ToolResult { .. } => "a result".to_owned(),
    };
    let mut parts: Vec<String> = answer.blocks.iter().map(block).collect();
    match answer.stop {
        Stop::EndTurn | Stop::ToolUse => {}
        stop => parts.push(format!("[{stop:?}]")),
    }
    parts.join(" ")
}

/// An error by its kind, with how often was asked.
fn failed(error: &ModelError) -> String {
    match error {
        ModelError::Busy { status, tries, .. } => format!("!busy {status} x{tries}"),
        ModelError::Broken { tries, .. } => format!("!broken x{tries}"),
        ModelError::Empty { .. } => "!empty".to_owned(),
        ModelError::NotAModel { .. } => "!not understood".to_owned(),
        ModelError::ContextTooLong { .. } => "!too long".to_owned(),
        ModelError::KeyRefused { .. } => "!key".to_owned(),
        ModelError::ModelUnknown { .. } => "!unknown model".to_owned(),
        ModelError::Refused { .. } => "!refused".to_owned(),
        other => format!("!{other}"),
    }
}

fn all() -> Vec<Behaviour> {
    let mut all = framed::rows();
    all.extend(types::rows());
    all.extend(calls::rows());
    all.extend(reasoning::rows());
    all.extend(stops::rows());
    all.extend(errors::rows());
    all
}

/// fM10, fM13: framing, and bodies under another header than their own.
#[tokio::test]
async fn fm10_fm13_framing_of_every_kind_is_read() {
    check(&framed::rows()).await;
}

#[tokio::test]
async fn fm4_a_field_of_another_type_costs_no_more_than_itself() {
    check(&types::rows()).await;
}

/// fM24, fM6: calls in any pieces, with inputs of any kind.
#[tokio::test]
async fn fm24_fm6_calls_are_put_together_however_they_come() {
    check(&calls::rows()).await;
}

#[tokio::test]
async fn fm8_reasoning_is_told_from_the_answer_in_each_form() {
    check(&reasoning::rows()).await;
}

#[tokio::test]
async fn fm5_fm25_why_an_answer_ended_is_told_and_an_empty_one_is_none() {
    check(&stops::rows()).await;
}

/// fM9, fM11, fM13: errors wherever they come.
#[tokio::test]
async fn fm9_fm11_fm13_errors_are_understood_wherever_they_come() {
    check(&errors::rows()).await;
}

/// Each behaviour ends as it must.
async fn check(behaviours: &[Behaviour]) {
    let server = Server::start(behaviours).await;
    let mut wrong = Vec::new();
    for (at, behaviour) in behaviours.iter().enumerate() {
        let client = server.client(at, behaviour.provider);
        let came = ask(&client).await;
        if came != behaviour.expected {
            let asked = server.asked(at).len();
            wrong.push(format!(
                "{} ({:?}, asked {asked} times)\n   came out: {came}\n   must be:  {}",
                behaviour.name, behaviour.provider, behaviour.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Two behaviours of one name could not be told apart in a report.
#[test]
fn the_table_is_long_and_every_behaviour_has_a_name_of_its_own() {
    assert!(all().len() >= 200, "{}", all().len());
    let mut names: Vec<_> =
        all().into_iter().map(|it| (format!("{:?}", it.provider), it.name)).collect();
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
