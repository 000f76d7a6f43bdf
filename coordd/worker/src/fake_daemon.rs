//! A fake daemon for tests: it speaks the real protocol in both codecs, and each test scripts its
//! answers.
//!
//! Nothing in it waits for longer than [`PATIENCE`], so that a test that goes wrong ends.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use proto::agent::{Order, Report, RunOutcome};
use proto::codec::{Codec, Decoder};
use proto::entry::{Entry, Origin, What};
use proto::error::{ErrorBody, ErrorCode};
use proto::frame;
use proto::hello::{Hello, PROTOCOL, REVISION, Welcome};
use proto::request::Request;
use proto::response::Response;
use proto::unknown::Read;
use proto::{Call, FromDaemon, Outcome, Reply, ToDaemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// Longest wait for anything in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon's socket.
pub(crate) struct FakeDaemon {
    listener: UnixListener,
    revision: u32,
}

impl FakeDaemon {
    /// Listens, in place of an earlier one.
    pub(crate) fn bind(path: &Path) -> Self {
        drop(std::fs::remove_file(path));
        Self { listener: UnixListener::bind(path).unwrap(), revision: REVISION }
    }

    /// One of another revision: agents have to speak JSON Lines with it.
    pub(crate) fn of_another_revision(path: &Path) -> Self {
        Self { revision: REVISION + 1, ..Self::bind(path) }
    }

    /// Takes the next agent up to its hello.
    pub(crate) async fn hello(&self) -> Peer {
        timeout(PATIENCE, async {
            loop {
                let (stream, _) = self.listener.accept().await.unwrap();
                if let Some(peer) = self.greet(stream).await {
                    return peer;
                }
            }
        })
        .await
        .expect("no agent said hello")
    }

    /// Takes the next agent and welcomes it.
    pub(crate) async fn welcome(&self) -> Peer {
        let mut peer = self.hello().await;
        let welcome = Welcome {
            protocol: PROTOCOL,
            version: "0.0.0".to_owned(),
            pid: 1,
            boot: "b".to_owned(),
        };
        peer.send(&FromDaemon::Welcome(welcome)).await;
        peer
    }

    async fn greet(&self, mut stream: UnixStream) -> Option<Peer> {
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.ok()?;
        let mut wire = Codec::Lines.decoder();
        if first == [0] {
            let mut preamble = [0; frame::PREAMBLE_LEN];
            stream.read_exact(&mut preamble[1..]).await.ok()?;
            stream.write_all(&frame::preamble(self.revision)).await.ok()?;
            if frame::read_preamble(&preamble) != Some(self.revision) {
                return None;
            }
            wire = Codec::Frames.decoder();
        } else {
            wire.feed(&first);
        }
        let mut peer = Peer::new(stream, wire);
        let first = peer.next().await?;
        let ToDaemon::Hello(hello) = first else { panic!("no hello but {first:?}") };
        peer.hello = Some(hello);
        Some(peer)
    }
}

/// A connected agent.
pub(crate) struct Peer {
    stream: UnixStream,
    wire: Decoder,
    pub(crate) hello: Option<Hello>,
    /// What it reported so far.
    pub(crate) reports: Vec<Report>,
    /// Messages that it acknowledged, with their run.
    pub(crate) acknowledged: Vec<(String, u32)>,
    calls: VecDeque<Call>,
}

impl Peer {
    fn new(stream: UnixStream, wire: Decoder) -> Self {
        Self {
            stream,
            wire,
            hello: None,
            reports: Vec::new(),
            acknowledged: Vec::new(),
            calls: VecDeque::new(),
        }
    }

    pub(crate) fn speaks_lines(&self) -> bool {
        self.wire.codec() == Codec::Lines
    }

    /// The next message; none when the agent has hung up.
    async fn next(&mut self) -> Option<ToDaemon> {
        let mut buf = vec![0; 64 * 1024];
        loop {
            match self.wire.next_message().unwrap() {
                Some(Read::Message(message)) => return Some(message),
                Some(Read::Unknown(unknown)) => panic!("{unknown:?}"),
                None => {}
            }
            match self.stream.read(&mut buf).await {
                Ok(0) | Err(_) => return None,
                Ok(len) => self.wire.feed(&buf[..len]),
            }
        }
    }

    /// Writes a line that this build has no type for.
    pub(crate) async fn send_line(&mut self, text: &str) {
        assert!(self.speaks_lines());
        self.stream.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &FromDaemon) {
        let bytes = self.wire.codec().encode(message).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// Takes one message in. Acknowledgements are answered.
    async fn take(&mut self) -> bool {
        match timeout(PATIENCE, self.next()).await.expect("the agent said nothing") {
            None => return false,
            Some(ToDaemon::Report(report)) => self.reports.push(report),
            Some(ToDaemon::Call(Call {
                id,
                request: Request::Acknowledge { messages, run },
                ..
            })) => {
                self.acknowledged.extend(messages.into_iter().map(|message| (message, run)));
                self.reply(id, Response::Done {}).await;
            }
            Some(ToDaemon::Call(call)) => self.calls.push_back(call),
            Some(ToDaemon::Hello(hello)) => panic!("a second hello: {hello:?}"),
        }
        true
    }

    /// The next call that is no acknowledgement.
    pub(crate) async fn call(&mut self) -> Call {
        loop {
            if let Some(call) = self.calls.pop_front() {
                return call;
            }
            assert!(self.take().await, "the agent hung up");
        }
    }

    /// The end of a run, not yet answered.
    pub(crate) async fn run_ended(&mut self) -> (Call, u32, RunOutcome) {
        let call = self.call().await;
        let Request::RunEnded { run, outcome } = call.request.clone() else {
            panic!("no end of a run but {call:?}")
        };
        (call, run, outcome)
    }

    /// The end of a run, recorded.
    pub(crate) async fn record_run(&mut self, exit: bool) -> (u32, RunOutcome) {
        let (call, run, outcome) = self.run_ended().await;
        self.reply(call.id, Response::RunRecorded { exit }).await;
        (run, outcome)
    }

    pub(crate) async fn reply(&mut self, id: u64, response: Response) {
        let outcome = Outcome::Ok(Box::new(response));
        self.send(&FromDaemon::Reply(Reply { id, outcome })).await;
    }

    pub(crate) async fn deny(&mut self, id: u64, code: ErrorCode, message: &str) {
        let outcome = Outcome::Error(ErrorBody::new(code, message));
        self.send(&FromDaemon::Reply(Reply { id, outcome })).await;
    }

    pub(crate) async fn order(&mut self, order: Order) {
        self.send(&FromDaemon::Order(order)).await;
    }

    pub(crate) async fn deliver(&mut self, message: &str, origin: Origin, text: &str) {
        let order = Order::Deliver {
            message: message.to_owned(),
            origin,
            text: text.to_owned(),
            shutdown: false,
        };
        self.order(order).await;
    }

    /// Waits until a report is as described.
    pub(crate) async fn until(&mut self, mut found: impl FnMut(&Report) -> bool) {
        let mut seen = 0;
        loop {
            if self.reports.iter().skip(seen).any(&mut found) {
                return;
            }
            seen = self.reports.len();
            assert!(self.take().await, "the agent hung up");
        }
    }

    /// Waits until the agent does this, counted from now on.
    pub(crate) async fn until_doing(&mut self, what: &str) {
        self.until(|it| matches!(it, Report::Activity { activity } if activity.doing == what))
            .await;
    }

    /// Waits until it has acknowledged so many messages.
    pub(crate) async fn until_acknowledged(&mut self, count: usize) {
        while self.acknowledged.len() < count {
            assert!(self.take().await, "the agent hung up");
        }
    }
}

/// The transcript in a folder, an entry a line: `input …`, `text …`, `call TOOL`, `result …`,
/// `error …`, `end STATUS`.
pub(crate) fn transcript(state_dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(state_dir.join("transcript.jsonl")).unwrap_or_default();
    let entries = text.lines().map(|line| serde_json::from_str::<Entry>(line).unwrap());
    entries
        .filter_map(|entry| match entry.what {
            What::Input { text, .. } => Some(format!("input {text}")),
            What::Text { text } => Some(format!("text {text}")),
            What::ToolCall { tool, .. } => Some(format!("call {tool}")),
            What::ToolResult { text, is_error: false, .. } => Some(format!("result {text}")),
            What::ToolResult { text, is_error: true, .. } => Some(format!("error {text}")),
            What::Turn { .. } | What::Reasoning { .. } => None,
            What::RunEnded { status, .. } => Some(format!("end {}", status.as_str())),
        })
        .collect()
}
