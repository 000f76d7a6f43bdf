//! B-1 to B-4: a message on its way, not kept and kept.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use proto::ToDaemon;
use proto::agent::Report;
use proto::event::Event;
use proto::request::Request;
use proto::response::Response;
use tests::{Agents, Client, Codec, Daemon, FakeAgent, Sandbox};

use crate::floor::{self, BODY_LEN};
use crate::table::{Table, at_share, in_turns, median, p50_us, times_us, us};

/// Both ends and all between them on one core: over two it takes three times as long, and says more
/// about the scheduler.
const ON_ONE_CORE: [&str; 3] = ["taskset", "-c", "0"];
/// Messages of one block that are sent one after the other.
const BLOCK: usize = 150;
const SENDERS: usize = 64;
/// Messages of each of the many senders in one block.
const OF_EACH: usize = 10;
/// Messages that one sender has on their way.
const WINDOW: usize = 64;

pub(crate) fn measure(table: &mut Table) {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            let mut pin = std::process::Command::new("taskset");
            pin.args(["-p", "-c", "0"]).arg(own.file_name().unwrap());
            assert!(pin.stdout(std::process::Stdio::null()).status().unwrap().success());
            passing(table);
        });
        pinned.join().unwrap();
    });
    kept(table);
}

/// B-1: what is passed on and not kept.
fn passing(table: &mut Table) {
    let mut sandbox = Sandbox::new();
    let mut agents = Agents::set_up(&mut sandbox);
    let daemon = Daemon::start_through(sandbox, &ON_ONE_CORE);
    let mut agent = agents.lead(&daemon, "normal");
    let session = agent.boot.session.clone();
    let mut viewer = daemon.client();
    // Streamed text goes only to those who are attached.
    viewer.ok(Request::Attach { session, agent: String::new(), history: Some(0) });
    viewer.event("it is caught up", |it| matches!(it, Event::CaughtUp {}).then_some(()));

    let socket = daemon.at("router");
    let _router = floor::start(&ON_ONE_CORE, "router", &socket, &[]);
    let mut ends = [1, 2].map(|number| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        std::io::Write::write_all(&mut stream, &[number]).unwrap();
        stream
    });
    let body = vec![b'x'; BODY_LEN];
    let text = "x".repeat(BODY_LEN);
    let is_delta = |it: &Event| matches!(it, Event::Delta { .. }).then_some(());
    let mut event = || {
        agent.client.send(&ToDaemon::Report(Report::Delta { text: text.clone() }));
        viewer.event("what was sent", is_delta);
    };
    let mut routed = |back: bool| {
        let [a, b] = &mut ends;
        floor::write_to(a, 2, &body);
        floor::read_frame(b).unwrap();
        if back {
            floor::write_to(b, 1, &body);
            floor::read_frame(a).unwrap();
        }
    };
    // Both registered.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let pair = in_turns(21, || p50_us(400, &mut event), || p50_us(400, || routed(false)));
    let what = "an event of 1 KiB from an agent to a viewer, one way; floor: minimal router";
    table.pair("B-1", what, pair, "us", "<= 1.3");
    let mut caller = daemon.client();
    let ping = || assert_eq!(caller.ok(Request::Ping {}), Response::Done {});
    let mut ping = ping;
    let pair = in_turns(21, || p50_us(400, &mut ping), || p50_us(400, || routed(true)));
    let what = "ping, there and back; floor: 1 KiB there and back through the minimal router";
    table.pair("B-1", what, pair, "us", "<= 1.3");
}

/// One receiver in a daemon, and its senders.
pub(crate) struct Mail {
    pub(crate) daemon: Daemon,
    receiver: FakeAgent,
    waiting: usize,
    sent: usize,
}

impl Mail {
    pub(crate) fn new() -> Self {
        let (daemon, mut agents) = Agents::start();
        let receiver = agents.lead(&daemon, "normal");
        Self { daemon, receiver, waiting: 0, sent: 0 }
    }

    fn request(&self) -> Request {
        let session = self.receiver.boot.session.clone();
        Request::Prompt { session, agent: None, text: "x".repeat(BODY_LEN) }
    }

    /// After a restart of the daemon.
    pub(crate) fn reconnect(&mut self) {
        self.receiver.reconnect(&self.daemon);
    }

    /// Sends one and waits until it is kept.
    fn send(&mut self, sender: &mut Client) {
        self.sent += 1;
        self.waiting += 1;
        let request = self.request();
        let key = format!("one-{}", self.sent);
        let answer = sender.call_keyed(request, Some(&key));
        assert!(matches!(answer, proto::Outcome::Ok(_)), "{answer:?}");
    }

    /// Many, of which so many are on their way at once.
    pub(crate) fn pipeline(&mut self, sender: &mut Client, count: usize, window: usize) {
        let mut open = std::collections::VecDeque::new();
        for _ in 0..count {
            if open.len() == window {
                let answer = sender.reply(open.pop_front().unwrap());
                assert!(matches!(answer, proto::Outcome::Ok(_)), "{answer:?}");
            }
            self.sent += 1;
            let key = format!("one-{}", self.sent);
            open.push_back(sender.start_call(self.request(), Some(&key)));
        }
        for call in open {
            sender.reply(call);
        }
        self.waiting += count;
    }

    /// The receiver takes all that waits for it.
    pub(crate) fn drain(&mut self) {
        let ids: Vec<String> = (0..std::mem::take(&mut self.waiting))
            .map(|_| self.receiver.deliver().message)
            .collect();
        for ids in ids.chunks(200) {
            self.receiver.acknowledge(&ids.iter().map(String::as_str).collect::<Vec<_>>(), 1);
        }
    }

    /// Many senders at once: messages a second, and each one's time.
    fn crowd(&mut self, senders: &mut [Client]) -> (f64, Vec<f64>) {
        let request = self.request();
        let first = self.sent;
        let began = Instant::now();
        let times = std::thread::scope(|scope| {
            let send = |(number, sender): (usize, &mut Client)| {
                let mut of = first + number * OF_EACH;
                let request = request.clone();
                let send = move || {
                    of += 1;
                    let answer = sender.call_keyed(request.clone(), Some(&format!("many-{of}")));
                    assert!(matches!(answer, proto::Outcome::Ok(_)), "{answer:?}");
                };
                times_us(OF_EACH, send)
            };
            let spawned: Vec<_> =
                senders.iter_mut().enumerate().map(|it| scope.spawn(move || send(it))).collect();
            spawned.into_iter().flat_map(|it| it.join().unwrap()).collect()
        });
        let took = began.elapsed().as_secs_f64();
        self.sent += SENDERS * OF_EACH;
        self.waiting += SENDERS * OF_EACH;
        ((SENDERS * OF_EACH) as f64 / took, times)
    }
}

fn keep(stream: &mut UnixStream, body: &[u8]) {
    floor::write_to(stream, 0, body);
    std::io::Read::read_exact(stream, &mut [0]).unwrap();
}

/// B-2 to B-4: what is on disk before the sender is told.
fn kept(table: &mut Table) {
    let mut mail = Mail::new();
    let socket = mail.daemon.at("store");
    let file: PathBuf = mail.daemon.at("floor.db");
    let _store = floor::start(&[], "store", &socket, &[file]);
    let body = vec![b'x'; BODY_LEN];

    let mut sender = mail.daemon.client();
    let mut stream = UnixStream::connect(&socket).unwrap();
    let mut ours = || {
        let p50 = p50_us(BLOCK, || mail.send(&mut sender));
        mail.drain();
        p50
    };
    let pair = in_turns(15, &mut ours, || p50_us(BLOCK, || keep(&mut stream, &body)));
    table.pair("B-2", "kept, one sender, 1 KiB; floor: socket and commit", pair, "us", "<= 1.25");

    crowd(table, &mut mail, &socket, &body);

    let store = floor::open_store(&mail.daemon.at("raw.db"));
    let group = vec![body; WINDOW];
    let mut sender = mail.daemon.client();
    let mut pipelined = || {
        let began = Instant::now();
        mail.pipeline(&mut sender, 10 * WINDOW, WINDOW);
        let rate = (10 * WINDOW) as f64 / began.elapsed().as_secs_f64();
        mail.drain();
        rate
    };
    let raw = || {
        let began = Instant::now();
        (0..10).for_each(|_| floor::commit(&store, &group));
        (10 * WINDOW) as f64 / began.elapsed().as_secs_f64()
    };
    let pair = in_turns(11, &mut pipelined, raw);
    let what = "kept, one sender with 64 on their way; floor: commits of 64, no socket";
    table.pair("B-3", what, pair, "/s", ">= 0.6");
    depth(table, &mut mail);
}

fn crowd(table: &mut Table, mail: &mut Mail, socket: &std::path::Path, body: &[u8]) {
    let mut senders: Vec<Client> =
        (0..SENDERS).map(|_| Client::connect(&mail.daemon.socket(), Codec::Frames)).collect();
    let mut streams: Vec<UnixStream> =
        (0..SENDERS).map(|_| UnixStream::connect(socket).unwrap()).collect();
    let mut all = Vec::new();
    let ours = || {
        let (rate, times) = mail.crowd(&mut senders);
        all.extend(times);
        mail.drain();
        rate
    };
    let floor = || {
        let began = Instant::now();
        std::thread::scope(|scope| {
            for stream in &mut streams {
                scope.spawn(|| (0..OF_EACH).for_each(|_| keep(stream, body)));
            }
        });
        (SENDERS * OF_EACH) as f64 / began.elapsed().as_secs_f64()
    };
    let pair = in_turns(15, ours, floor);
    table.pair("B-3", "kept, 64 senders at once; floor: socket and commit", pair, "/s", ">= 0.8");
    let (p50, p99) = (median(all.clone()), at_share(all, 0.99));
    let figure = format!("{:.1} / {:.1} ms, {:.1}x", p50 / 1e3, p99 / 1e3, p99 / p50);
    table.figure("B-3", "the same, p50 and p99 of one message", figure, "p99 <= 5x p50");
}

/// B-4: how much waits for a receiver makes no difference.
fn depth(table: &mut Table, mail: &mut Mail) {
    let mut sender = mail.daemon.client();
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let times = times_us(990, || mail.send(&mut sender));
        let (first, last) = (median(times[..100].to_vec()), median(times[890..].to_vec()));
        ratios.push(last / first);
        mail.drain();
    }
    let figure = format!("{:.2}x", median(ratios));
    table.figure("B-4", "message 890 to 990 of a full mailbox to the first 100", figure, "<= 1.1");
    let mut times = Vec::new();
    for _ in 0..300 {
        let began = Instant::now();
        let call = sender.start_call(mail.request(), None);
        let delivered = mail.receiver.deliver();
        times.push(us(began.elapsed()));
        sender.reply(call);
        mail.receiver.acknowledge(&[&delivered.message], 1);
    }
    let figure = format!("{:.2} ms", median(times) / 1e3);
    table.figure("B-4", "from sending to being read by an idle agent, p50", figure, "<= 5 ms");
}
