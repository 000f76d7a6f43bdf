//! A model's endpoint on this machine that answers what a test wants, in either wire format, and
//! keeps what it was asked.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// What to answer one request with.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Text, and the end of the turn.
    Say(&'static str),
    /// Tools to call: names and inputs.
    Call(Vec<(&'static str, Value)>),
    /// Text that the limit on output cut off.
    CutOff(&'static str),
    /// An HTTP error: status, further headers, body.
    Fail(u16, &'static str, &'static str),
    /// Half an answer, and the end of the connection.
    Break(&'static str),
}

#[derive(Debug, Default)]
struct Shared {
    answers: VecDeque<Answer>,
    seen: Vec<Seen>,
}

/// A server that ends with the test.
#[derive(Debug)]
pub struct Endpoint {
    port: u16,
    shared: Arc<Mutex<Shared>>,
}

impl Endpoint {
    /// Listens, and answers with these in order, and then with a text without calls.
    pub fn start(answers: Vec<Answer>) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap(), answers)
    }

    /// The same on a port that was free a moment ago.
    pub fn start_at(port: u16, answers: Vec<Answer>) -> Self {
        Self::listen(TcpListener::bind(("127.0.0.1", port)).unwrap(), answers)
    }

    /// A port on which nobody listens.
    pub fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn listen(listener: TcpListener, answers: Vec<Answer>) -> Self {
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Mutex::new(Shared { answers: answers.into(), seen: Vec::new() }));
        let for_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&for_all);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { port, shared }
    }

    /// As `ANTHROPIC_BASE_URL` has it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it was asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().unwrap().seen.clone()
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<Shared>) {
    let Some(seen) = read(&stream) else { return };
    let is_openai = seen.path.ends_with("/chat/completions");
    let answer = {
        let mut shared = shared.lock().unwrap();
        shared.seen.push(seen);
        shared.answers.pop_front().unwrap_or(Answer::Say("Nothing more."))
    };
    let bytes = match &answer {
        Answer::Fail(status, headers, body) => format!(
            "HTTP/1.1 {status} Failed\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ),
        Answer::Say(_) | Answer::Call(_) | Answer::CutOff(_) | Answer::Break(_) => {
            let events = if is_openai { openai(&answer) } else { anthropic(&answer) };
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}"
            )
        }
    };
    let _closed = stream.write_all(bytes.as_bytes());
}

/// Reads a request.
pub(crate) fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let len = headers.get("content-length").map_or(Some(0), |header| header.parse().ok())?;
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Seen { path, headers, body })
}

fn anthropic(answer: &Answer) -> String {
    let usage = json!({ "input_tokens": 40, "output_tokens": 1, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 20 });
    let mut events = vec![json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,
        "usage": usage } })];
    let mut block = |at: usize, start: Value, deltas: Vec<Value>| {
        events.push(json!({ "type": "content_block_start", "index": at, "content_block": start }));
        for delta in deltas {
            events.push(json!({ "type": "content_block_delta", "index": at, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": at }));
    };
    let text = |text: &str| {
        let pieces = text.split_inclusive(' ');
        pieces.map(|it| json!({ "type": "text_delta", "text": it })).collect::<Vec<_>>()
    };
    let stop = match answer {
        Answer::Say(it) | Answer::CutOff(it) | Answer::Break(it) => {
            block(0, json!({ "type": "text", "text": "" }), text(it));
            if matches!(answer, Answer::CutOff(_)) { "max_tokens" } else { "end_turn" }
        }
        Answer::Call(calls) => {
            for (at, (name, input)) in calls.iter().enumerate() {
                let start = json!({ "type": "tool_use", "id": format!("toolu_{at}"), "name": name, "input": {} });
                let (one, two) = halves(&input.to_string());
                let delta = |it| json!({ "type": "input_json_delta", "partial_json": it });
                block(at, start, vec![delta(one), delta(two)]);
            }
            "tool_use"
        }
        Answer::Fail(..) => "end_turn",
    };
    if matches!(answer, Answer::Break(_)) {
        events.pop();
    } else {
        events.push(json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 10 } }));
        events.push(json!({ "type": "message_stop" }));
    }
    let line =
        |it: &Value| format!("event: {}\ndata: {it}\n\n", it["type"].as_str().unwrap_or_default());
    events.iter().map(line).collect()
}

fn openai(answer: &Answer) -> String {
    let chunk = |delta: Value, reason: Value| {
        json!({ "id": "c1", "object": "chat.completion.chunk", "model": "m",
                "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] })
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    let stop = match answer {
        Answer::Say(it) | Answer::CutOff(it) | Answer::Break(it) => {
            let pieces = it.split_inclusive(' ');
            events.extend(pieces.map(|it| chunk(json!({ "content": it }), Value::Null)));
            if matches!(answer, Answer::CutOff(_)) { "length" } else { "stop" }
        }
        Answer::Call(calls) => {
            for (at, (name, input)) in calls.iter().enumerate() {
                let (one, two) = halves(&input.to_string());
                let start = json!({ "index": at, "id": format!("call_{at}"), "type": "function",
                                    "function": { "name": name, "arguments": one } });
                events.push(chunk(json!({ "tool_calls": [start] }), Value::Null));
                let rest = json!({ "index": at, "function": { "arguments": two } });
                events.push(chunk(json!({ "tool_calls": [rest] }), Value::Null));
            }
            "tool_calls"
        }
        Answer::Fail(..) => "stop",
    };
    let mut text = String::new();
    if !matches!(answer, Answer::Break(_)) {
        events.push(chunk(json!({}), json!(stop)));
        events.push(json!({ "id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [],
                            "usage": { "prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60 } }));
    }
    for event in &events {
        let _fits = write!(text, "data: {event}\n\n");
    }
    if !matches!(answer, Answer::Break(_)) {
        text.push_str("data: [DONE]\n\n");
    }
    text
}

fn halves(text: &str) -> (String, String) {
    let middle = text.len() / 2;
    let at = (middle..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    (text[..at].to_owned(), text[at..].to_owned())
}
