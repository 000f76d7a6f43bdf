//! One HTTP exchange with a model: sends, judges the status, and gives the events of the answer.
//!
//! Everything that a server sends is bounded in size and in time. It knows both dialects' way to
//! report an error, but not what an event means.

use std::future::ready;
use std::mem;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::{Stream, StreamExt};
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::endpoint::Endpoint;
use super::error::{ModelError, Setback};
use super::retry::retry_after_ms;

/// An error's body is read this far: its first lines say what is wrong.
const ERROR_BODY_LEN_MAX: usize = 64 * 1024;
/// What of it is put into a message.
const SAID_LEN_MAX: usize = 400;
/// All bytes of one answer, framing included: an answer of [`super::assembly`]'s bound in small
/// deltas has several times its size in framing.
const STREAM_LEN_MAX: usize = 128 * 1024 * 1024;
/// One line of the stream: some servers send a tool call's whole input in one event.
const LINE_LEN_MAX: usize = 4 * 1024 * 1024;

/// How long a server may be silent.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "a unit stands last in a name")]
pub(super) struct Patience {
    pub(super) connect_ms: u64,
    /// Until the status line. A local server reads the prompt first, which can take minutes.
    pub(super) first_byte_ms: u64,
    pub(super) first_byte_local_ms: u64,
    /// Between two pieces of the answer. Providers send pings far more often.
    pub(super) idle_ms: u64,
    /// The whole answer.
    pub(super) answer_ms: u64,
}

pub(super) const PATIENCE: Patience = Patience {
    connect_ms: 10_000,
    first_byte_ms: 120_000,
    first_byte_local_ms: 600_000,
    idle_ms: 120_000,
    answer_ms: 3_600_000,
};

/// Makes the client that all answers of an agent share. Plain HTTP loads no certificates.
pub(super) fn client(
    endpoint: &Endpoint,
    patience: Patience,
) -> Result<reqwest::Client, ModelError> {
    // Fails only where it was installed before, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_millis(patience.connect_ms))
        .pool_max_idle_per_host(1)
        .tcp_nodelay(true)
        // A key must not follow a redirect to somewhere else.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("coordd/", env!("CARGO_PKG_VERSION")));
    if endpoint.loopback {
        builder = builder.no_proxy();
    }
    if endpoint.url.scheme() == "http" {
        builder = builder.tls_certs_only(std::iter::empty());
    }
    builder.build().map_err(|source| ModelError::HttpClient { source: source.without_url() })
}

/// Sends the request and waits for the head of an answer that is an event stream.
pub(super) async fn send(
    client: &reqwest::Client,
    endpoint: &Endpoint,
    body: Bytes,
    model: &str,
    patience: Patience,
) -> Result<Events, Setback> {
    let first_byte_ms =
        if endpoint.loopback { patience.first_byte_local_ms } else { patience.first_byte_ms };
    let sending = client
        .post(endpoint.url.clone())
        .headers(endpoint.headers.clone())
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .send();
    let response = match timeout(Duration::from_millis(first_byte_ms), sending).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(not_sent(endpoint, error)),
        Err(_) => {
            let problem = format!("no answer within {} s", first_byte_ms / 1_000);
            return Err(broken(endpoint, problem));
        }
    };
    let status = response.status().as_u16();
    if status != 200 {
        let headers = response.headers().clone();
        let said = Said::read(endpoint, response, patience).await;
        return Err(judge(endpoint, model, status, told_ms(&headers), &said, &headers));
    }
    let kind = header(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        let said = Said::read(endpoint, response, patience).await;
        let problem = format!("it sent `{}`{}", clean(&kind, 60), said.suffix());
        return Err(Setback::Final(not_a_model(endpoint, problem)));
    }
    Ok(Events::new(response, patience))
}

fn not_sent(endpoint: &Endpoint, error: reqwest::Error) -> Setback {
    let error = error.without_url();
    if error.is_connect() || error.is_timeout() {
        return Setback::passing(ModelError::Unreachable {
            url: endpoint.shown.clone(),
            base_variable: endpoint.base_variable,
            tries: 1,
            source: error,
        });
    }
    if error.is_builder() {
        return Setback::Final(not_a_model(endpoint, error.to_string()));
    }
    broken(endpoint, "the connection closed before an answer".to_owned())
}

/// The setback of an answer that broke off before it was worth anything.
pub(super) fn broken(endpoint: &Endpoint, problem: String) -> Setback {
    Setback::passing(ModelError::Broken { url: endpoint.shown.clone(), problem, tries: 1 })
}

fn not_a_model(endpoint: &Endpoint, problem: String) -> ModelError {
    ModelError::NotAModel {
        url: endpoint.shown.clone(),
        problem,
        base_variable: endpoint.base_variable,
    }
}

/// Classifies an error by status and text. An error in the middle of a stream comes here too, with
/// the status that it would have had.
pub(super) fn judge(
    endpoint: &Endpoint,
    model: &str,
    status: u16,
    told_ms: Option<u64>,
    said: &Said,
    headers: &HeaderMap,
) -> Setback {
    let url = endpoint.shown.clone();
    if said.too_long() || status == 413 {
        let said =
            if said.message.is_empty() { "HTTP 413".to_owned() } else { said.message.clone() };
        return Setback::Final(ModelError::ContextTooLong { said });
    }
    let suffix = said.suffix();
    // A used-up account answers like a busy server, but no waiting helps.
    if said.kind.contains("insufficient_quota") {
        return Setback::Final(ModelError::Refused { url, status, said: suffix });
    }
    match status {
        401 | 403 => Setback::Final(ModelError::KeyRefused {
            url,
            status,
            said: suffix,
            variables: endpoint.key_variables,
        }),
        404 => Setback::Final(ModelError::ModelUnknown {
            url,
            model: model.to_owned(),
            said: suffix,
            base_variable: endpoint.base_variable,
        }),
        408 | 425 | 429 | 500..=599 => Setback::Passing {
            error: ModelError::Busy { url, status, said: suffix, told_ms, tries: 1 },
            told_ms,
        },
        300..=399 => {
            let to = header(headers, LOCATION.as_str()).unwrap_or_default();
            let problem = format!("HTTP {status}, it points to `{}`", clean(&to, 200));
            Setback::Final(not_a_model(endpoint, problem))
        }
        _ => Setback::Final(ModelError::Refused { url, status, said: suffix }),
    }
}

/// How long the server asks to wait.
fn told_ms(headers: &HeaderMap) -> Option<u64> {
    let in_ms =
        header(headers, "retry-after-ms").and_then(|header| header.trim().parse::<u64>().ok());
    in_ms.or_else(|| retry_after_ms(&header(headers, "retry-after")?, Timestamp::now()))
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// What a server said about an error, cleaned for a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Its type and code, for machines.
    pub(super) kind: String,
    pub(super) message: String,
}

impl Said {
    /// Takes the words out of an error object, in any of the shapes that are in use.
    pub(super) fn from_value(endpoint: &Endpoint, value: &Value) -> Self {
        let error = value.get("error").unwrap_or(value);
        let word = |name: &str| {
            error
                .get(name)
                .map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned))
        };
        let kind = [word("type"), word("code")].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let message = error
            .as_str()
            .map(str::to_owned)
            .or_else(|| word("message"))
            .or_else(|| word("detail"))
            .unwrap_or_else(|| error.to_string());
        Self {
            kind: clean(&kind, SAID_LEN_MAX),
            message: clean(&endpoint.redact(&message), SAID_LEN_MAX),
        }
    }

    async fn read(endpoint: &Endpoint, response: reqwest::Response, patience: Patience) -> Self {
        let mut body = Vec::new();
        let mut pieces = Box::pin(response.bytes_stream());
        let until = Instant::now() + Duration::from_millis(patience.connect_ms);
        while body.len() < ERROR_BODY_LEN_MAX {
            let Ok(Some(Ok(piece))) = tokio::time::timeout_at(until, pieces.next()).await else {
                break;
            };
            let room = ERROR_BODY_LEN_MAX - body.len();
            body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        }
        let text = String::from_utf8_lossy(&body);
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => Self::from_value(endpoint, &value),
            Err(_) => {
                Self { kind: String::new(), message: clean(&endpoint.redact(&text), SAID_LEN_MAX) }
            }
        }
    }

    /// For the middle of a message: nothing, or a colon and the words.
    fn suffix(&self) -> String {
        if self.message.is_empty() { String::new() } else { format!(": {}", self.message) }
    }

    fn too_long(&self) -> bool {
        let kinds = ["context_length_exceeded", "exceed_context_size", "request_too_large"];
        let words = [
            "prompt is too long",
            "context length",
            "context window",
            "exceeds the available context",
            "exceed context limit",
        ];
        let message = self.message.to_lowercase();
        kinds.iter().any(|kind| self.kind.contains(kind))
            || words.iter().any(|word| message.contains(word))
    }
}

/// One line without control characters, not longer than `len_max` characters.
fn clean(text: &str, len_max: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out: String = words.chars().filter(|c| !c.is_control()).take(len_max).collect();
    if out.len() < words.len() && out.chars().count() == len_max {
        out.push('…');
    }
    out
}

/// Why a stream gives no more events.
#[derive(Debug)]
pub(super) struct Fault(pub(super) String);

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// The events of one answer, each as the text of its data.
pub(super) struct Events {
    stream: EventStream<Pieces>,
    idle: Duration,
    until: Instant,
}

impl Events {
    fn new(response: reqwest::Response, patience: Patience) -> Self {
        let mut lines = Lines::default();
        let pieces = response.bytes_stream().filter_map(move |piece| {
            let piece = piece.map_err(|error| Fault(reason(&error)));
            ready(piece.and_then(|piece| lines.take(&piece)).transpose())
        });
        Self {
            stream: EventStream::new(Box::pin(pieces)),
            idle: Duration::from_millis(patience.idle_ms),
            until: Instant::now() + Duration::from_millis(patience.answer_ms),
        }
    }

    /// The next event; `None` where the server has ended the stream.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Fault> {
        let until = self.until.min(Instant::now() + self.idle);
        let Ok(next) = tokio::time::timeout_at(until, self.stream.next()).await else {
            return Err(Fault(format!("silent for {} s", self.idle.as_secs())));
        };
        match next {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event.data)),
            Some(Err(EventStreamError::Transport(fault))) => Err(fault),
            Some(Err(EventStreamError::Utf8(_))) => Err(Fault("not UTF-8".to_owned())),
            Some(Err(EventStreamError::Parser(_))) => Err(Fault("not an event stream".to_owned())),
        }
    }
}

fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() { "timed out".to_owned() } else { "the connection closed".to_owned() }
}

/// Passes on whole lines, and bounds lines and streams. The parser behind it scans an unfinished
/// line again with every piece, which would be slow for a long line.
#[derive(Default)]
struct Lines {
    unfinished: Vec<u8>,
    in_all: usize,
}

impl Lines {
    fn take(&mut self, piece: &[u8]) -> Result<Option<Bytes>, Fault> {
        self.in_all = self.in_all.saturating_add(piece.len());
        let end = piece.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (ended, begun) = piece.split_at(end);
        self.unfinished.extend_from_slice(ended);
        let whole = (end > 0).then(|| Bytes::from(mem::take(&mut self.unfinished)));
        self.unfinished.extend_from_slice(begun);
        if self.in_all > STREAM_LEN_MAX || self.unfinished.len() > LINE_LEN_MAX {
            return Err(Fault("the answer is too large".to_owned()));
        }
        Ok(whole)
    }
}
