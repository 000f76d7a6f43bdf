//! A client that does not give up: it speaks JSON Lines, and asks again with the same key after
//! every lost connection until it has an answer (M-11).

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proto::error::{ErrorBody, ErrorCode};
use proto::hello::{Hello, PROTOCOL};
use proto::line::{self, LineDecoder};
use proto::request::Request;
use proto::response::Response;
use proto::{Call, FromDaemon, Outcome, Reply, ToDaemon};

/// For one answer, restarts of the daemon included.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// For one answer on one connection, so that a silent daemon is left.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// Between two tries to connect.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// One connection at a time.
#[derive(Debug)]
pub struct Stubborn {
    socket: PathBuf,
    line: Option<Line>,
    last_id: u64,
}

#[derive(Debug)]
struct Line {
    stream: UnixStream,
    decoder: LineDecoder,
}

impl Line {
    fn open(socket: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(SILENCE_LIMIT)).ok()?;
        let mut line = Self { stream, decoder: LineDecoder::default() };
        let hello = Hello { protocol: PROTOCOL, program: "stubborn".into(), agent: None };
        line.say(&ToDaemon::Hello(hello))?;
        match line.next()? {
            FromDaemon::Welcome(_) => Some(line),
            _ => None,
        }
    }

    fn say(&mut self, message: &ToDaemon) -> Option<()> {
        let bytes = line::encode(message).expect("a message");
        self.stream.write_all(&bytes).ok()
    }

    fn next(&mut self) -> Option<FromDaemon> {
        let mut buf = [0; 16 * 1024];
        loop {
            if let Some(line) = self.decoder.next_line().expect("a line") {
                return Some(line::decode(&line).expect("a message"));
            }
            match self.stream.read(&mut buf) {
                Ok(0) | Err(_) => return None,
                Ok(len) => self.decoder.feed(&buf[..len]),
            }
        }
    }
}

impl Stubborn {
    /// Connects when it has something to ask.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), line: None, last_id: 0 }
    }

    /// Asks until there is an answer; with a key nothing is done twice.
    pub fn call(&mut self, request: &Request, key: Option<&str>) -> Result<Response, ErrorBody> {
        let mut answers = self.calls(&[(request.clone(), key.map(str::to_owned))]);
        answers.remove(0)
    }

    /// Asks several things at once, in order.
    pub fn calls(
        &mut self,
        requests: &[(Request, Option<String>)],
    ) -> Vec<Result<Response, ErrorBody>> {
        let mut answers: Vec<Option<Result<Response, ErrorBody>>> = vec![None; requests.len()];
        let deadline = Instant::now() + ANSWER_LIMIT;
        while answers.iter().any(Option::is_none) {
            assert!(Instant::now() < deadline, "no answer: {requests:?}");
            if self.ask_once(requests, &mut answers).is_none() {
                self.line = None;
                std::thread::sleep(TRY_EVERY);
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// What has no answer yet is asked on one connection. None when that is lost.
    fn ask_once(
        &mut self,
        requests: &[(Request, Option<String>)],
        answers: &mut [Option<Result<Response, ErrorBody>>],
    ) -> Option<()> {
        if self.line.is_none() {
            self.line = Some(Line::open(&self.socket)?);
        }
        let line = self.line.as_mut()?;
        let first = self.last_id + 1;
        let mut asked = Vec::new();
        for (at, (request, key)) in requests.iter().enumerate() {
            if answers[at].is_none() {
                self.last_id += 1;
                asked.push(at);
                let call = Call { id: self.last_id, key: key.clone(), request: request.clone() };
                line.say(&ToDaemon::Call(call))?;
            }
        }
        let mut left = asked.len();
        while left > 0 {
            let FromDaemon::Reply(Reply { id, outcome }) = line.next()? else { continue };
            let at = asked[usize::try_from(id.checked_sub(first)?).ok()?];
            answers[at] = Some(match outcome {
                Outcome::Ok(response) => Ok(*response),
                // On its way out, it has decided nothing.
                Outcome::Error(error) if error.code == ErrorCode::ShuttingDown => return None,
                Outcome::Error(error) => Err(error),
            });
            left -= 1;
        }
        Some(())
    }

    /// Asks for what must be granted.
    pub fn ok(&mut self, request: &Request, key: Option<&str>) -> Response {
        self.call(request, key).unwrap_or_else(|error| panic!("{request:?}: {error:?}"))
    }
}
