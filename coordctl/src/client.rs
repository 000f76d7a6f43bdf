//! One connection to coordd, blocking and without a runtime, so that a one-shot starts at once.
//!
//! Preamble, hello and the first request go out in one write. A daemon of another revision answers
//! with its own preamble and closes; the same request then goes again as JSON Lines. Before a byte
//! is written, the kernel says whose socket and whose process it is: a squatter gets nothing.

mod error;
mod wire;

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use error::ClientError;
use proto::codec::Codec;
use proto::error::ErrorBody;
use proto::event::Numbered;
use proto::hello::Welcome;
use proto::request::Request;
use proto::response::Response;
use proto::{Call, FromDaemon, Outcome, ToDaemon};
pub(crate) use wire::listener;
use wire::{Opened, Wire};

/// How long a daemon may take to say hello, and to answer what only reads (K5).
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long the daemon may take to answer a request that must reach the disk first.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How long the daemon may take to stop agents, each of which gets time to exit by itself.
const STOP_LIMIT: Duration = Duration::from_mins(2);
/// Bytes taken from the socket at once.
const READ_LEN: usize = 64 * 1024;
/// Events that may wait here while a reply is awaited; the daemon's own queue for a peer is
/// shorter.
const EVENTS_LEN_MAX: usize = 10_000;

/// What came without being asked for.
#[derive(Debug)]
pub(crate) enum Pushed {
    Event(Box<Numbered>),
    /// The daemon ends the connection, with a reason.
    Closing(ErrorBody),
    /// Nothing within the time.
    Quiet,
}

/// What [`Client::forward`] hands on.
#[derive(Debug)]
pub(crate) enum Forwarded {
    Event(Box<Numbered>),
    /// The connection ended, with the daemon's reason if it gave one. No event follows.
    Lost(Option<ErrorBody>),
}

/// A connection after its hello.
#[derive(Debug)]
pub(crate) struct Client {
    wire: Wire,
    welcome: Welcome,
    next_id: u64,
    events: VecDeque<Box<Numbered>>,
    closing: Option<ErrorBody>,
}

impl Client {
    /// Connects, and asks the first question in the same write.
    pub(crate) fn open(path: &Path, ask: &Ask) -> Result<(Self, Response), ClientError> {
        let limit = answer_limit(&ask.request);
        let call = ask.call(1);
        let (wire, welcome) = match Wire::open_binary(path, &call)? {
            Opened::Binary(wire, welcome) => (wire, welcome),
            Opened::Lines(age) => Wire::open_lines(path, &call, age)?,
        };
        let mut client = Self { wire, welcome, next_id: 2, events: VecDeque::new(), closing: None };
        let response = client.reply_to(1, limit)?;
        Ok((client, response))
    }

    /// Who answers.
    pub(crate) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Sends one request on the open connection and returns its answer.
    pub(crate) fn call(&mut self, ask: &Ask) -> Result<Response, ClientError> {
        let limit = answer_limit(&ask.request);
        let id = self.next_id;
        self.next_id += 1;
        self.wire.send(&ToDaemon::Call(ask.call(id)))?;
        self.reply_to(id, limit)
    }

    /// A way to send requests while another thread reads this connection.
    pub(crate) fn caller(&self) -> Result<Caller, ClientError> {
        let (stream, codec) = self.wire.writer()?;
        Ok(Caller { stream, codec, next_id: self.next_id + 1_000_000 })
    }

    /// The next event, or nothing within the time. No time means to wait for ever.
    pub(crate) fn next_pushed(&mut self, wait: Option<Duration>) -> Result<Pushed, ClientError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Pushed::Event(event));
        }
        if let Some(body) = self.closing.take() {
            return Ok(Pushed::Closing(body));
        }
        let until = wait.and_then(|wait| Instant::now().checked_add(wait));
        loop {
            match self.wire.receive(until, wait.unwrap_or(ANSWER_LIMIT)) {
                Ok(FromDaemon::Event(event)) => return Ok(Pushed::Event(event)),
                Ok(FromDaemon::Closing(body)) => return Ok(Pushed::Closing(body)),
                Ok(
                    FromDaemon::Welcome(_)
                    | FromDaemon::Reply(_)
                    | FromDaemon::Order(_)
                    | FromDaemon::Bridge(_),
                ) => {}
                Err(ClientError::Silent { .. }) => return Ok(Pushed::Quiet),
                Err(error) => return Err(error),
            }
        }
    }

    /// From now on a thread hands every message to `tell`, until the connection ends or `tell`
    /// returns false.
    pub(crate) fn forward(mut self, tell: impl Fn(Forwarded) -> bool + Send + 'static) {
        std::thread::spawn(move || {
            let mut why = None;
            loop {
                match self.next_pushed(None) {
                    Ok(Pushed::Event(event)) => {
                        if !tell(Forwarded::Event(event)) {
                            return;
                        }
                    }
                    Ok(Pushed::Closing(body)) => why = Some(body),
                    Ok(Pushed::Quiet) => {}
                    Err(_) => break,
                }
            }
            let _nobody_listens = tell(Forwarded::Lost(why));
        });
    }

    fn reply_to(&mut self, id: u64, limit: Duration) -> Result<Response, ClientError> {
        let until = Instant::now().checked_add(limit);
        loop {
            match self.wire.receive_for(Some(id), until, limit)? {
                FromDaemon::Reply(reply) if reply.id == id => {
                    return match reply.outcome {
                        Outcome::Ok(response) => Ok(*response),
                        Outcome::Error(body) => {
                            Err(self.wire.not_known(&body).unwrap_or(ClientError::Denied(body)))
                        }
                    };
                }
                FromDaemon::Closing(body) => return Err(ClientError::Denied(body)),
                FromDaemon::Event(event) if self.events.len() < EVENTS_LEN_MAX => {
                    self.events.push_back(event);
                }
                FromDaemon::Welcome(_)
                | FromDaemon::Event(_)
                | FromDaemon::Reply(_)
                | FromDaemon::Order(_)
                | FromDaemon::Bridge(_) => {}
            }
        }
    }
}

/// Writes calls on a connection that another thread reads. Their answers are ignored.
#[derive(Debug)]
pub(crate) struct Caller {
    stream: UnixStream,
    codec: Codec,
    next_id: u64,
}

impl Caller {
    /// Asks for something. False when the connection is lost, or the daemon does not read.
    pub(crate) fn say(&mut self, request: Request) -> bool {
        let call = ToDaemon::Call(Call { id: self.next_id, key: None, request });
        self.next_id += 1;
        self.codec.encode(&call).is_ok_and(|bytes| self.stream.write_all(&bytes).is_ok())
    }
}

/// A request that can be repeated after a lost connection: one that changes something carries a
/// key.
#[derive(Debug)]
pub(crate) struct Ask {
    request: Request,
    key: Option<String>,
}

impl Ask {
    pub(crate) fn new(request: Request) -> Self {
        let is_change = answer_limit(&request) != ANSWER_LIMIT;
        Self { request, key: is_change.then(crate::random::key) }
    }

    fn call(&self, id: u64) -> Call {
        Call { id, key: self.key.clone(), request: self.request.clone() }
    }
}

/// How long the answer may take once the daemon has said hello.
fn answer_limit(request: &Request) -> Duration {
    match request {
        Request::Ping {}
        | Request::DaemonStatus {}
        | Request::SessionList {}
        | Request::SessionShow { .. }
        | Request::Receipt { .. }
        | Request::AgentShow { .. }
        | Request::Transcript { .. }
        | Request::PermissionList { .. }
        | Request::PeerList {}
        | Request::InboundList { .. }
        | Request::BridgeStatus {}
        | Request::TeamList {}
        | Request::TeamShow { .. }
        | Request::TaskList { .. }
        | Request::TaskGet { .. }
        | Request::ScratchpadList { .. }
        | Request::ScratchpadShow { .. }
        | Request::Usage { .. }
        | Request::Subscribe { .. }
        | Request::Attach { .. }
        | Request::Screen { .. }
        | Request::ScreenInput { .. } => ANSWER_LIMIT,
        Request::SessionNew { .. }
        | Request::SessionResume { .. }
        | Request::Join { .. }
        | Request::Prompt { .. }
        | Request::Interrupt { .. }
        | Request::Send { .. }
        | Request::AgentSpawn { .. }
        | Request::PermissionAsk { .. }
        | Request::PermissionAnswer { .. }
        | Request::InboundAnswer { .. }
        | Request::InboundSet { .. }
        | Request::BridgeSet { .. }
        | Request::BridgeAllow { .. }
        | Request::BridgeTold { .. }
        | Request::BridgeBring { .. }
        | Request::BridgeReport { .. }
        | Request::StructuredOutput { .. }
        | Request::TeamCreate { .. }
        | Request::TeamInvite(_)
        | Request::TaskCreate { .. }
        | Request::TaskUpdate { .. }
        | Request::Acknowledge { .. }
        | Request::TerminalEnded(_)
        | Request::RunEnded { .. } => WRITE_LIMIT,
        Request::DaemonStop { .. }
        | Request::SessionStop { .. }
        | Request::SessionRemove { .. }
        | Request::AgentStop { .. }
        | Request::TeamDelete { .. } => STOP_LIMIT,
    }
}

#[cfg(test)]
mod tests;
