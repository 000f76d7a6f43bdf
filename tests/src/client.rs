//! A blocking connection to the daemon, in either codec, as the user's program or as an agent.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub use proto::codec::Codec;
use proto::codec::Decoder;
use proto::error::ErrorBody;
use proto::event::{Event, Numbered};
use proto::frame::{self, PREAMBLE_LEN};
use proto::hello::{Credentials, Hello, PROTOCOL, REVISION, Welcome};
use proto::request::Request;
use proto::response::Response;
use proto::unknown::{Kind, Read};
use proto::{Call, FromDaemon, Outcome, ToDaemon};

use crate::wait::CONDITION_LIMIT;

/// A connection after its hello.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
    next_id: u64,
    welcome: Option<Welcome>,
    replies: BTreeMap<u64, Outcome>,
    events: VecDeque<Numbered>,
    orders: VecDeque<proto::agent::Order>,
    closing: Option<ErrorBody>,
}

impl Client {
    /// As the user's program.
    pub fn connect(socket: &Path, codec: Codec) -> Self {
        let hello = Hello { protocol: PROTOCOL, program: "tests".into(), agent: None };
        Self::greet(socket, codec, hello).expect("a welcome")
    }

    /// As an agent.
    pub fn connect_as(socket: &Path, codec: Codec, agent: Credentials) -> Result<Self, ErrorBody> {
        let hello = Hello { protocol: PROTOCOL, program: "tests".into(), agent: Some(agent) };
        Self::greet(socket, codec, hello)
    }

    /// Says hello. The error is the daemon's reason for closing.
    pub fn greet(socket: &Path, codec: Codec, hello: Hello) -> Result<Self, ErrorBody> {
        let mut client = Self::open(socket, codec);
        client.send(&ToDaemon::Hello(hello));
        client.greeted()
    }

    /// Waits for the welcome, which is the first that comes.
    pub fn greeted(mut self) -> Result<Self, ErrorBody> {
        let deadline = Instant::now() + CONDITION_LIMIT;
        while self.welcome.is_none() {
            if let Some(body) = self.closing.take() {
                return Err(body);
            }
            assert!(self.receive(deadline), "closed before a welcome");
            assert!(
                self.replies.is_empty() && self.events.is_empty(),
                "something came before the welcome"
            );
        }
        Ok(self)
    }

    /// Connects and says nothing yet, except for the preamble of the binary codec.
    pub fn open(socket: &Path, codec: Codec) -> Self {
        let stream = UnixStream::connect(socket).expect("the daemon listens");
        let mut client = Self {
            stream,
            decoder: codec.decoder(),
            next_id: 1,
            welcome: None,
            replies: BTreeMap::new(),
            events: VecDeque::new(),
            orders: VecDeque::new(),
            closing: None,
        };
        if codec == Codec::Frames {
            client.stream.write_all(&frame::preamble(REVISION)).unwrap();
            let mut answer = [0; PREAMBLE_LEN];
            client.stream.set_read_timeout(Some(CONDITION_LIMIT)).unwrap();
            client.stream.read_exact(&mut answer).expect("a preamble");
            assert_eq!(frame::read_preamble(&answer), Some(REVISION));
        }
        client
    }

    /// Who answered.
    pub fn welcome(&self) -> &Welcome {
        self.welcome.as_ref().expect("a hello was said")
    }

    /// Writes one message.
    pub fn send(&mut self, message: &ToDaemon) {
        self.send_raw(&self.decoder.codec().encode(message).unwrap());
    }

    /// Writes bytes; a connection that is gone is noticed when reading.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _closed = self.stream.write_all(bytes);
    }

    /// Closes the sending side.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Closes both sides.
    pub fn hang_up(&mut self) {
        let _closed = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Asks, and does not wait. Returns the call's number.
    pub fn start_call(&mut self, request: Request, key: Option<&str>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&ToDaemon::Call(Call { id, key: key.map(str::to_owned), request }));
        id
    }

    /// The answer to a call that was started, if it comes in time.
    pub fn reply_within(&mut self, id: u64, limit: Duration) -> Option<Outcome> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(outcome) = self.replies.remove(&id) {
                return Some(outcome);
            }
            if !self.receive(deadline) {
                return None;
            }
        }
    }

    /// The answer to a call that was started.
    pub fn reply(&mut self, id: u64) -> Outcome {
        self.reply_within(id, CONDITION_LIMIT)
            .unwrap_or_else(|| panic!("no reply to call {id}; closing: {:?}", self.closing))
    }

    /// Asks and waits.
    pub fn call(&mut self, request: Request) -> Outcome {
        self.call_keyed(request, None)
    }

    /// The same with an idempotency key.
    pub fn call_keyed(&mut self, request: Request, key: Option<&str>) -> Outcome {
        let id = self.start_call(request, key);
        self.reply(id)
    }

    /// Asks for what must be granted.
    pub fn ok(&mut self, request: Request) -> Response {
        let asked = format!("{request:?}");
        match self.call(request) {
            Outcome::Ok(response) => *response,
            Outcome::Error(error) => panic!("{asked}: {error:?}"),
        }
    }

    /// Asks for what must be refused.
    pub fn denied(&mut self, request: Request) -> ErrorBody {
        let asked = format!("{request:?}");
        match self.call(request) {
            Outcome::Ok(response) => panic!("{asked} was granted: {response:?}"),
            Outcome::Error(error) => error,
        }
    }

    /// From now on this connection is told of events.
    pub fn subscribe(&mut self, session: &str) {
        let response = self.ok(Request::Subscribe { session: session.into(), after: None });
        assert!(matches!(response, Response::Subscribed { .. }), "{response:?}");
    }

    /// The first event, of those not seen yet, of which `pick` makes something. Earlier ones are
    /// passed over.
    pub fn event<T>(&mut self, what: &str, pick: impl FnMut(&Event) -> Option<T>) -> T {
        self.event_within(CONDITION_LIMIT, what, pick)
    }

    /// The same with another limit.
    pub fn event_within<T>(
        &mut self,
        limit: Duration,
        what: &str,
        mut pick: impl FnMut(&Event) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + limit;
        let mut passed = Vec::new();
        loop {
            while let Some(numbered) = self.events.pop_front() {
                if let Some(found) = pick(&numbered.event) {
                    return found;
                }
                passed.push(numbered.event);
            }
            assert!(
                self.receive(deadline),
                "not within {limit:?}: {what}; closing: {:?}; events: {passed:#?}",
                self.closing
            );
        }
    }

    /// All events that came and were not looked at.
    pub fn take_events(&mut self) -> Vec<Numbered> {
        self.events.drain(..).collect()
    }

    /// The next order, for agents.
    pub fn order(&mut self) -> proto::agent::Order {
        self.order_within(CONDITION_LIMIT).expect("an order")
    }

    /// The next order, if one comes in time.
    pub fn order_within(&mut self, limit: Duration) -> Option<proto::agent::Order> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(order) = self.orders.pop_front() {
                return Some(order);
            }
            if !self.receive(deadline) {
                return None;
            }
        }
    }

    /// Reads to the end of the connection. Returns the daemon's reason, if it gave one.
    pub fn closed_within(&mut self, limit: Duration) -> Option<ErrorBody> {
        let deadline = Instant::now() + limit;
        while self.receive(deadline) {}
        assert!(Instant::now() < deadline, "the connection is still open after {limit:?}");
        self.closing.take()
    }

    /// Takes in what comes next. False when the time is over or the connection is.
    fn receive(&mut self, deadline: Instant) -> bool {
        loop {
            if let Some(message) = self.decoded() {
                self.sort(message);
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut buf = vec![0; 64 * 1024];
            match self.stream.read(&mut buf) {
                Ok(0) => return false,
                Ok(n) => self.decoder.feed(&buf[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// The next whole message. What a later build adds, which tests ask for, is passed over.
    fn decoded(&mut self) -> Option<FromDaemon> {
        loop {
            match self.decoder.next_message().unwrap()? {
                Read::Message(message) => return Some(message),
                Read::Unknown(unknown) => {
                    assert!(
                        matches!(unknown.kind, Kind::Event { .. } | Kind::Order),
                        "{unknown:?}"
                    );
                    assert!(
                        unknown.reason.contains("weather_changed")
                            || unknown.reason.contains("dance"),
                        "{unknown:?}"
                    );
                }
            }
        }
    }

    fn sort(&mut self, message: FromDaemon) {
        match message {
            FromDaemon::Welcome(welcome) => self.welcome = Some(welcome),
            FromDaemon::Reply(reply) => {
                let again = self.replies.insert(reply.id, reply.outcome);
                assert!(again.is_none(), "two replies to call {}", reply.id);
            }
            FromDaemon::Event(event) => self.events.push_back(*event),
            FromDaemon::Order(order) => self.orders.push_back(order),
            FromDaemon::Bridge(order) => panic!("only the bridge is told so: {order:?}"),
            FromDaemon::Closing(body) => self.closing = Some(body),
        }
    }
}

/// What tells a refusal from a wait.
impl Client {
    /// The answer to a call that may wait for somebody: what has come of it when a later question
    /// is answered.
    pub fn answer_by_now(&mut self, id: u64) -> Option<Outcome> {
        assert_eq!(self.ok(Request::Ping {}), Response::Done {});
        self.replies.remove(&id)
    }
}
