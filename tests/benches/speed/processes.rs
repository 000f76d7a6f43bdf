//! B-5 to B-7 and B-10: starting agents, what everything holds in memory, a one-shot client, a
//! restart.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proto::event::Event;
use proto::frame::{self, FrameDecoder, PREAMBLE_LEN};
use proto::hello::REVISION;
use proto::request::Request;
use proto::response::Response;
use proto::view::AgentState;
use proto::{Outcome, ToDaemon};
use serde_json::json;
use tests::rehearsal::{self, say};
use tests::sandbox::program;
use tests::{Agents, Client, Daemon, Sandbox};

use crate::messages::Mail;
use crate::table::{Table, in_turns, median, p50_us, us};

const LEADS: usize = 100;
/// For a hundred of them on a busy machine.
const MANY_LIMIT: Duration = Duration::from_mins(1);

/// A daemon without a limit on starts.
fn unlimited() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("c/coordd/config.toml", "[daemon]\nstarts_per_minute = 0\n");
    sandbox
}

/// Waits for a process that says hello, and answers nothing.
fn hello(listener: &UnixListener) -> UnixStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut preamble = [0; PREAMBLE_LEN];
    stream.read_exact(&mut preamble).unwrap();
    stream.write_all(&frame::preamble(REVISION)).unwrap();
    let mut decoder = FrameDecoder::default();
    let mut buf = [0; 4096];
    loop {
        if let Some(body) = decoder.next_frame().unwrap() {
            assert!(matches!(frame::decode(&body).unwrap(), ToDaemon::Hello(_)));
            return stream;
        }
        let len = stream.read(&mut buf).unwrap();
        assert!(len > 0, "closed before a hello");
        decoder.feed(&buf[..len]);
    }
}

fn end(mut child: Child) {
    let _gone = child.kill();
    child.wait().unwrap();
}

/// B-5: from starting an agent to its hello.
pub(crate) fn starts(table: &mut Table) {
    bare_starts(table);
    let daemon = Daemon::start_in(unlimited());
    let mut workers = Workers::new(&daemon, LEADS);
    let socket = daemon.at("floor");
    let listener = UnixListener::bind(&socket).unwrap();
    let floor = |count: usize| {
        let began = Instant::now();
        let children: Vec<_> = (0..count).map(|_| floor_agent(&socket)).collect();
        let streams: Vec<_> = (0..count).map(|_| hello(&listener)).collect();
        let took = us(began.elapsed());
        drop(streams);
        children.into_iter().for_each(end);
        took
    };
    let pair = in_turns(21, || workers.wake(1), || floor(1));
    let what =
        "a message to a stopped agent, until its process is connected; floor: spawn and hello";
    table.pair("B-5", what, pair, "us", "<= 1.3");
    let pair = in_turns(5, || workers.wake(LEADS), || floor(LEADS));
    table.pair("B-5", "the same for 100 at once", pair, "us", "<= 1.3");
}

fn floor_agent(socket: &Path) -> Child {
    let own = std::env::current_exe().unwrap();
    Command::new(own).args(["floor", "agent"]).arg(socket).stdin(Stdio::null()).spawn().unwrap()
}

/// The agent process alone, started by hand with a real bootstrap.
fn bare_starts(table: &mut Table) {
    let (daemon, mut agents) = Agents::start();
    let lead = agents.lead(&daemon, "normal");
    let socket = daemon.at("floor");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut boot = lead.boot.clone();
    socket.to_str().unwrap().clone_into(&mut boot.socket);
    daemon.at("w").to_str().unwrap().clone_into(&mut boot.state_dir);
    let boot = serde_json::to_vec(&boot).unwrap();
    let ours = || {
        let began = Instant::now();
        let mut command = daemon.command(program("coordd-worker"));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&boot).unwrap();
        let stream = hello(&listener);
        let took = us(began.elapsed());
        drop(stream);
        end(child);
        took
    };
    let floor = || {
        let began = Instant::now();
        let child = floor_agent(&socket);
        let stream = hello(&listener);
        let took = us(began.elapsed());
        drop(stream);
        end(child);
        took
    };
    let pair = in_turns(41, ours, floor);
    let what = "coordd-worker by itself, spawn to hello; floor: a process that only says hello";
    table.pair("B-5", what, pair, "us", "");
}

/// Workers that ran once, and are gone until they get a message.
struct Workers {
    client: Client,
    session: String,
    names: Vec<String>,
}

impl Workers {
    fn new(daemon: &Daemon, count: usize) -> Self {
        let names: Vec<String> = (0..count).map(|it| format!("w{it}")).collect();
        let tools: Vec<_> = names.iter().map(|name| rehearsal::start(name, "say hello")).collect();
        let script = rehearsal::script(&json!([
            rehearsal::lead(&json!([rehearsal::call("all of them", &json!(tools)), say("done")])),
            rehearsal::worker(&json!([say("hello")])),
        ]));
        let mut new = daemon.rehearsal("normal", &script);
        "go".clone_into(&mut new.prompt);
        new.workers = 1_000;
        let mut client = daemon.client();
        let session = client.new_session(new).id;
        let mut workers = Self { client, session, names };
        workers.until_all("have run", |it, _| it == AgentState::Stopped);
        let session = workers.session.clone();
        workers.client.subscribe(&session);
        workers
    }

    fn until_all(&mut self, what: &str, is_so: impl Fn(AgentState, u32) -> bool) {
        let wanted = self.names.len();
        let session = self.session.clone();
        tests::wait::until_within(MANY_LIMIT, what, || {
            let (_, agents) = self.client.show(&session);
            let workers =
                agents.iter().filter(|agent| agent.id != agents[0].id || agent.name != "lead");
            let so = workers
                .filter(|worker| worker.name != "lead" && is_so(worker.state, worker.runs))
                .count();
            (so == wanted).then_some(())
        });
    }

    /// Sends one message to so many, and waits until each is connected. Then waits until all are
    /// gone again.
    fn wake(&mut self, count: usize) -> f64 {
        drop(self.client.take_events());
        let began = Instant::now();
        let calls: Vec<u64> = self.names[..count]
            .iter()
            .map(|name| {
                let (session, agent) = (self.session.clone(), Some(name.clone()));
                let request = Request::Prompt { session, agent, text: "again".into() };
                self.client.start_call(request, None)
            })
            .collect();
        let mut up = std::collections::BTreeSet::new();
        while up.len() < count {
            let name = self.client.event_within(MANY_LIMIT, "it is connected", |it| match it {
                Event::AgentChanged { name, state: AgentState::Running, .. } => Some(name.clone()),
                _ => None,
            });
            up.insert(name);
        }
        let took = us(began.elapsed());
        for call in calls {
            assert!(matches!(self.client.reply(call), Outcome::Ok(_)));
        }
        self.until_all("are gone", |it, _| it == AgentState::Stopped);
        took
    }
}

/// B-6 and B-10: a hundred agents that wait, in memory and over a restart.
pub(crate) fn idle(table: &mut Table) {
    let mut daemon = Daemon::start_in(unlimited());
    let empty = memory(daemon.pid());
    table.figure("B-6", "coordd, nothing to do, RSS (PSS)", mib(empty), "");
    let script = rehearsal::script(&json!([rehearsal::lead(&json!([say("hello")]))]));
    let mut client = daemon.client();
    let began = Instant::now();
    let sessions: Vec<String> = (0..LEADS)
        .map(|_| {
            let mut new = daemon.rehearsal("normal", &script);
            "go".clone_into(&mut new.prompt);
            client.new_session(new).id
        })
        .collect();
    let pids = until_idle(&mut client, &sessions);
    let figure = format!("{:.1} s", began.elapsed().as_secs_f64());
    table.figure(
        "B-5",
        "100 sessions made, each with one run of its lead, until all wait",
        figure,
        "",
    );
    let full = memory(daemon.pid());
    table.figure(
        "B-6",
        "coordd with 100 idle leads connected, RSS (PSS)",
        mib(full),
        "<= 25 MiB at 1,000",
    );
    let figure = format!("{:.0} KiB", (full.0 - empty.0) / LEADS as f64);
    table.figure("B-6", "the difference for each agent", figure, "<= 16 KiB");
    let agents: Vec<_> = pids.iter().map(|pid| memory(*pid)).collect();
    let all = |pick: fn(&(f64, f64)) -> f64| median(agents.iter().map(pick).collect());
    let figure = mib((all(|it| it.0), all(|it| it.1)));
    table.figure("B-6", "an idle agent process, median RSS (PSS)", figure, "PSS <= 2 MiB");
    drop(client);
    let mut times = Vec::new();
    for _ in 0..3 {
        daemon.kill9();
        let began = Instant::now();
        daemon.restart();
        until_idle(&mut daemon.client(), &sessions);
        times.push(began.elapsed().as_secs_f64());
    }
    let figure = format!("{:.2} s", median(times));
    table.figure(
        "B-10",
        "kill -9 of coordd, start, until 100 agents are adopted",
        figure,
        "<= 1 s",
    );
    one_shots(table, &daemon);
}

/// Waits until all leads are connected and idle. Returns their processes.
fn until_idle(client: &mut Client, sessions: &[String]) -> Vec<u32> {
    let idle = |session: &String| {
        tests::wait::until_within(MANY_LIMIT, "a lead is idle", || {
            let (_, agents) = client.show(session);
            let lead = agents.iter().find(|agent| agent.name == "lead")?;
            lead.pid.filter(|_| lead.state == AgentState::Idle && lead.runs > 0)
        })
    };
    sessions.iter().map(idle).collect()
}

/// RSS and PSS of a process, in KiB.
fn memory(pid: u32) -> (f64, f64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    (field("Rss:"), field("Pss:"))
}

fn mib((rss, pss): (f64, f64)) -> String {
    format!("{:.1} MiB ({:.1})", rss / 1024.0, pss / 1024.0)
}

/// B-7: a whole `coordctl ls`, from its start to its end.
fn one_shots(table: &mut Table, daemon: &Daemon) {
    let whole = |mut command: Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().unwrap().success());
    };
    let ours = || {
        let mut command = daemon.command(program("coordctl"));
        command.arg("ls");
        whole(command);
    };
    let floor = || {
        let own: PathBuf = std::env::current_exe().unwrap();
        let mut command = daemon.command(own);
        command.args(["floor", "client"]).arg(daemon.socket());
        whole(command);
    };
    let pair = in_turns(21, || p50_us(15, ours), || p50_us(15, floor));
    let what = "`coordctl ls` with 100 sessions; floor: a client that asks and prints as it is";
    table.pair("B-7", what, pair, "us", "<= 1.3");
}

/// B-10: a store with many records is read at the start.
pub(crate) fn replay(table: &mut Table) {
    let mut mail = Mail::new();
    let restart = |daemon: &mut Daemon| {
        daemon.kill9();
        let began = Instant::now();
        daemon.restart();
        began.elapsed().as_secs_f64()
    };
    let empty = restart(&mut mail.daemon);
    mail.reconnect();
    let mut sender = mail.daemon.client();
    let store = mail.daemon.state();
    let count = || records(&store);
    while count() < 100_000 {
        mail.pipeline(&mut sender, 900, 200);
        mail.drain();
    }
    let records = count();
    let full = restart(&mut mail.daemon);
    let figure = format!("{full:.2} s ({empty:.2} s with an empty store)");
    let what = format!("start with {records} records until a client is welcomed");
    table.figure("B-10", &what, figure, "<= 1 s");
    let again = restart(&mut mail.daemon);
    table.figure("B-10", "the start after that", format!("{again:.2} s"), "");
}

fn records(state: &Path) -> i64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let found = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let file = found
        .into_iter()
        .find(|it| it.extension().is_some_and(|extension| extension == "db"))
        .unwrap();
    let store = rusqlite::Connection::open_with_flags(file, flags).unwrap();
    store.query_row("SELECT count(*) FROM record", [], |row| row.get(0)).unwrap()
}

/// The whole demo, with the pauses of its script.
pub(crate) fn demo(table: &mut Table) {
    let daemon = Daemon::start();
    let mut times = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let ran = daemon.coordctl(&["demo"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        times.push(began.elapsed().as_secs_f64());
    }
    let figure = format!("{:.2} s", median(times));
    table.figure("demo", "`coordctl demo`; its script pauses 3.25 s on the way", figure, "");
    assert_eq!(daemon.client().ok(Request::Ping {}), Response::Done {});
}
