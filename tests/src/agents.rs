//! Stand-ins for agent processes: coordd starts a program that keeps what it was told and waits;
//! the test speaks for it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use proto::agent::{Bootstrap, Order, RunOutcome};
use proto::entry::Origin;
use proto::error::ErrorBody;
use proto::hello::Credentials;
use proto::notification::{RunStatus, Usage};
use proto::request::{NewAgent, NewSession, Request};
use proto::response::Response;
use serde_json::json;

use crate::client::{Client, Codec};
use crate::daemon::Daemon;
use crate::processes::Process;
use crate::rehearsal;
use crate::sandbox::Sandbox;
use crate::wait;

/// Keeps its bootstrap in a file named after its process, whole or not at all, and waits to be
/// ended. Where `TERMINAL` is a program, that is what a terminal's process is.
const PROGRAM: &str = "#!/bin/sh
PATH=/usr/bin:/bin
folder=${0%/*}
cat >\"$folder/$$.part\"
[ -n \"TERMINAL\" ] && grep -q '\"runtime\":\"terminal\"' \"$folder/$$.part\" && exec \"TERMINAL\" <\"$folder/$$.part\"
mv \"$folder/$$.part\" \"$folder/$$.boot\"
exec sleep 1000000 </dev/null
";

/// The agent processes of a sandbox whose daemon starts the stand-in.
#[derive(Debug)]
pub struct Agents {
    folder: PathBuf,
    taken: BTreeSet<PathBuf>,
}

impl Agents {
    /// From now on, a daemon started in this sandbox starts stand-ins.
    pub fn set_up(sandbox: &mut Sandbox) -> Self {
        Self::with_terminals(sandbox, "")
    }

    /// The same, but for terminals that coordd runs: those are real.
    pub fn beside_real_terminals(sandbox: &mut Sandbox) -> Self {
        let real = crate::sandbox::program("coordd-worker");
        Self::with_terminals(sandbox, real.to_str().unwrap())
    }

    fn with_terminals(sandbox: &mut Sandbox, terminal: &str) -> Self {
        let program = sandbox.write_program("agents/agent", &PROGRAM.replace("TERMINAL", terminal));
        sandbox.set("COORDD_WORKER", program.to_str().unwrap());
        Self { folder: sandbox.at("agents"), taken: BTreeSet::new() }
    }

    /// A daemon that starts stand-ins.
    pub fn start() -> (Daemon, Self) {
        let mut sandbox = Sandbox::new();
        let agents = Self::set_up(&mut sandbox);
        (Daemon::start_in(sandbox), agents)
    }

    /// The next process that was started, before it says hello.
    pub fn next_started(&mut self) -> Started {
        wait::until("an agent process is started", || self.look())
    }

    /// The next process that was started, connected.
    pub fn next(&mut self, daemon: &Daemon) -> FakeAgent {
        self.next_started().connect(daemon).expect("a welcome")
    }

    /// The lead of a new session, in its first run.
    pub fn lead(&mut self, daemon: &Daemon, mode: &str) -> FakeAgent {
        let mut new =
            daemon.rehearsal(mode, &rehearsal::script(&json!([rehearsal::lead(&json!([]))])));
        "go".clone_into(&mut new.prompt);
        self.lead_of(daemon, new)
    }

    /// The lead of this session, which has a prompt.
    pub fn lead_of(&mut self, daemon: &Daemon, new: NewSession) -> FakeAgent {
        daemon.client().new_session(new);
        let mut lead = self.next(daemon);
        let prompt = lead.deliver();
        lead.acknowledge(&[&prompt.message], 1);
        lead
    }

    /// A new worker of this lead, in its first run.
    pub fn worker(&mut self, daemon: &Daemon, lead: &mut FakeAgent, name: &str) -> FakeAgent {
        let agent = NewAgent {
            name: name.to_owned(),
            description: name.to_owned(),
            prompt: format!("the task of {name}"),
            ..NewAgent::default()
        };
        let response = lead.client.ok(Request::AgentSpawn { agent: Box::new(agent) });
        assert!(matches!(response, Response::Spawned { .. }), "{response:?}");
        let mut worker = self.next(daemon);
        assert_eq!(worker.boot.name, name);
        let task = worker.deliver();
        worker.acknowledge(&[&task.message], 1);
        worker
    }

    /// Whether a process was started that nobody has taken yet.
    pub fn look(&mut self) -> Option<Started> {
        let mut files: Vec<_> = std::fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "boot"))
            .filter(|path| !self.taken.contains(path))
            .collect();
        files.sort_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok());
        let path = files.into_iter().next()?;
        let boot = serde_json::from_slice(&std::fs::read(&path).unwrap()).expect("a bootstrap");
        let pid = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        self.taken.insert(path);
        Some(Started { boot, pid })
    }
}

/// An agent process that has not said hello.
#[derive(Debug)]
pub struct Started {
    pub boot: Bootstrap,
    pub pid: u32,
}

impl Started {
    /// Says hello as this process.
    pub fn connect(self, daemon: &Daemon) -> Result<FakeAgent, ErrorBody> {
        let Self { boot, pid } = self;
        let credentials = credentials(&boot, pid);
        let client = Client::connect_as(&daemon.socket(), Codec::Frames, credentials)?;
        Ok(FakeAgent { boot, pid, client })
    }
}

/// What this incarnation proves itself with.
pub fn credentials(boot: &Bootstrap, pid: u32) -> Credentials {
    Credentials {
        agent: boot.agent.clone(),
        incarnation: boot.incarnation,
        token: boot.token.clone(),
        pid,
    }
}

/// A message that was handed over.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    pub message: String,
    pub origin: Origin,
    pub text: String,
    pub shutdown: bool,
}

/// An agent process that the test speaks for.
#[derive(Debug)]
pub struct FakeAgent {
    pub boot: Bootstrap,
    pub pid: u32,
    pub client: Client,
}

impl FakeAgent {
    /// The next message that is handed over.
    pub fn deliver(&mut self) -> Delivered {
        match self.client.order() {
            Order::Deliver { message, origin, text, shutdown } => {
                Delivered { message, origin, text, shutdown }
            }
            other => panic!("not a message: {other:?}"),
        }
    }

    /// That nothing is handed over. It is asked something meanwhile, so that what was on its way
    /// has come.
    pub fn assert_nothing_comes(&mut self) {
        assert_eq!(self.client.ok(Request::Ping {}), Response::Done {});
        assert_eq!(self.client.order_within(Duration::from_millis(1)), None);
    }

    /// These messages are in the conversation.
    pub fn acknowledge(&mut self, messages: &[&str], run: u32) {
        let messages = messages.iter().map(|message| (*message).to_owned()).collect();
        let response = self.client.ok(Request::Acknowledge { messages, run });
        assert_eq!(response, Response::Done {});
    }

    /// Makes a team of its session, as its lead.
    pub fn create_team(&mut self, name: &str) {
        self.client.ok(Request::TeamCreate {
            session: String::new(),
            name: name.to_owned(),
            description: String::new(),
            agent_type: String::new(),
        });
    }

    /// A run has ended well. Whether the process may exit.
    pub fn complete(&mut self, run: u32, result: &str) -> bool {
        self.end_run(run, outcome(RunStatus::Completed, result))
    }

    /// A run has ended. Whether the process may exit.
    pub fn end_run(&mut self, run: u32, outcome: RunOutcome) -> bool {
        match self.client.ok(Request::RunEnded { run, outcome }) {
            Response::RunRecorded { exit } => exit,
            other => panic!("{other:?}"),
        }
    }

    /// The connection is lost.
    pub fn disconnect(&mut self) {
        self.client.hang_up();
    }

    /// The connection is lost, and made again.
    pub fn reconnect(&mut self, daemon: &Daemon) {
        let credentials = credentials(&self.boot, self.pid);
        self.client =
            Client::connect_as(&daemon.socket(), Codec::Frames, credentials).expect("a welcome");
    }

    /// Its process ends by itself.
    pub fn exit(&self) {
        if let Some(process) = Process::open(self.pid) {
            process.kill9();
        }
    }
}

/// How a run ended, with made-up usage.
pub fn outcome(status: RunStatus, result: &str) -> RunOutcome {
    let usage = Usage { input_tokens: 900, output_tokens: 100, tool_uses: 3, ..Usage::default() };
    RunOutcome { status, class: None, reason: String::new(), result: result.to_owned(), usage }
}
