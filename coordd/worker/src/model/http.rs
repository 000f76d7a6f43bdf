//! One HTTP exchange with a model: sends, judges the status, and gives the events of the answer.
//!
//! Everything that a server sends is bounded in size and in time. It knows how errors are reported, but not
//! what an event means. What an answer is shows in its body: servers name other types than they send.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::endpoint::Endpoint;
use super::error::{ModelError, Setback};
use super::framing::{Event, Framing, TooLarge};
use super::lenient::{list, word};
use super::network::Network;
use super::said::{Said, clean};
use super::verdict::{Asked, judge, not_a_model};

/// An error's body is read this far: its first lines say what is wrong.
const ERROR_BODY_LEN_MAX: usize = 64 * 1024;
/// A list of models is read this far. The longest that is known has some hundred kilobytes.
const MODELS_LEN_MAX: usize = 1024 * 1024;
/// Models that are named where one is unknown: what a person can choose from.
const MODELS_SHOWN: usize = 20;

/// How long a server may be silent.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "a unit stands last in a name")]
pub(super) struct Patience {
    pub(super) connect_ms: u64,
    /// Until the status line. A local server reads the prompt first, which can take minutes.
    pub(super) first_byte_local_ms: u64,
    /// Between two bytes of the answer, and before the first one.
    pub(super) silence_ms: u64,
    /// After the answer has said that it is complete: what may follow is the usage.
    pub(super) rest_ms: u64,
    /// The whole answer.
    pub(super) answer_ms: u64,
}

pub(super) const PATIENCE: Patience = Patience {
    connect_ms: 10_000,
    first_byte_local_ms: 600_000,
    silence_ms: 300_000,
    rest_ms: 5_000,
    answer_ms: 3_600_000,
};

/// Makes the client that all answers of an agent share. Plain HTTP loads no certificates.
pub(super) fn client(
    endpoint: &Endpoint,
    network: &Network,
    patience: Patience,
) -> Result<reqwest::Client, ModelError> {
    // Fails only where it was installed before, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_millis(patience.connect_ms))
        .pool_max_idle_per_host(1)
        .tcp_nodelay(true)
        // A key must not follow a redirect to somewhere else.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("coordd/", env!("CARGO_PKG_VERSION")));
    let builder = network.apply(builder, endpoint)?;
    builder.build().map_err(|source| ModelError::HttpClient { source: source.without_url() })
}

/// Sends the request and waits for the head of the answer.
pub(super) async fn send(
    client: &reqwest::Client,
    asked: Asked<'_>,
    body: Bytes,
    patience: Patience,
) -> Result<Events, Setback> {
    let endpoint = asked.endpoint;
    let silence_ms = patience.silence_ms;
    let first_byte_ms =
        if endpoint.loopback { silence_ms.max(patience.first_byte_local_ms) } else { silence_ms };
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
    let status = response.status();
    if !status.is_success() {
        let headers = response.headers().clone();
        let within = Duration::from_millis(patience.connect_ms);
        let body = read(response, ERROR_BODY_LEN_MAX, within).await;
        let said = Said::from_body(endpoint, &body);
        return Err(judge(asked, status.as_u16(), &said, &headers));
    }
    Ok(Events::new(response, patience))
}

/// The models that the key offers, as a sentence; empty where the server does not say.
pub(super) async fn offered(
    client: &reqwest::Client,
    endpoint: &Endpoint,
    patience: Patience,
) -> String {
    let within = Duration::from_millis(patience.connect_ms);
    let asking = client.get(endpoint.models_url.clone()).headers(endpoint.headers.clone()).send();
    let Ok(Ok(response)) = timeout(within, asking).await else { return String::new() };
    if !response.status().is_success() {
        return String::new();
    }
    let body = read(response, MODELS_LEN_MAX, within).await;
    let Ok(value) = serde_json::from_slice::<Value>(&body) else { return String::new() };
    let models = list(value.get("data").or(value.get("models")).or(Some(&value)));
    let id = |model: &Value| word(model.get("id").or(model.get("name"))).map(str::to_owned);
    let mut names: Vec<String> = models.iter().filter_map(id).collect();
    names.sort();
    let more = names.len().saturating_sub(MODELS_SHOWN);
    names.truncate(MODELS_SHOWN);
    if names.is_empty() {
        return String::new();
    }
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    clean(&endpoint.redact(&format!(". It offers {}{more}", names.join(", "))), 1_000)
}

fn not_sent(endpoint: &Endpoint, error: reqwest::Error) -> Setback {
    let error = error.without_url();
    if error.is_connect() || error.is_timeout() {
        return Setback::passing(ModelError::Unreachable {
            url: endpoint.shown.clone(),
            base_variable: endpoint.base_variable,
            through: String::new(),
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

/// The beginning of a body. What does not come in time is left out.
async fn read(response: reqwest::Response, len_max: usize, within: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let mut pieces = Box::pin(response.bytes_stream());
    let until = Instant::now() + within;
    while body.len() < len_max {
        let Ok(Some(Ok(piece))) = timeout_at(until, pieces.next()).await else { break };
        let room = len_max - body.len();
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
    }
    body
}

/// Why a stream gives no more events.
#[derive(Debug)]
pub(super) struct Fault(pub(super) String);

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

/// The events of one answer.
pub(super) struct Events {
    pieces: Pieces,
    framing: Framing,
    silence: Duration,
    rest: Duration,
    until: Instant,
    ended: bool,
    kind: String,
}

impl Events {
    fn new(response: reqwest::Response, patience: Patience) -> Self {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let kind = clean(kind.unwrap_or_default(), 60);
        Self {
            pieces: Box::pin(response.bytes_stream()),
            framing: Framing::new(),
            silence: Duration::from_millis(patience.silence_ms),
            rest: Duration::from_millis(patience.rest_ms),
            until: Instant::now() + Duration::from_millis(patience.answer_ms),
            ended: false,
            kind,
        }
    }

    /// The next event; `None` where the server has ended the body. Every byte is a sign of life. `complete`
    /// says that the answer has said its end already.
    pub(super) async fn next(&mut self, complete: bool) -> Result<Option<Event>, Fault> {
        loop {
            if let Some(event) = self.framing.next() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            let silence = if complete { self.rest.min(self.silence) } else { self.silence };
            let until = self.until.min(Instant::now() + silence);
            match timeout_at(until, self.pieces.next()).await {
                Err(_) if until == self.until => {
                    return Err(Fault("it did not end within an hour".to_owned()));
                }
                Err(_) => return Err(Fault(format!("silent for {} s", silence.as_secs()))),
                Ok(Some(Ok(piece))) => {
                    let fed = self.framing.feed(&piece);
                    fed.map_err(|TooLarge| Fault("the answer is too large".to_owned()))?;
                }
                Ok(Some(Err(error))) => {
                    // What came whole before the break is still read.
                    self.ended = true;
                    if error.is_timeout() {
                        return Err(Fault("timed out".to_owned()));
                    }
                    self.framing.end();
                }
                Ok(None) => {
                    self.ended = true;
                    self.framing.end();
                }
            }
        }
    }

    /// Whether the body ended in the middle of an event.
    pub(super) fn is_cut(&self) -> bool {
        self.framing.is_cut()
    }

    /// What came, for a message that it is not understood; none where nothing came.
    pub(super) fn as_it_came(&self) -> Option<String> {
        if self.framing.is_empty() {
            return None;
        }
        let kind = if self.kind.is_empty() { "no content type" } else { &self.kind };
        Some(format!("{kind}: {}", clean(&self.framing.head(), 200)))
    }
}

/// No headers, for errors that came in a body.
pub(super) fn no_headers() -> HeaderMap {
    HeaderMap::new()
}
