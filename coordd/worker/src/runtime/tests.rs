//! Whole runs, against a daemon that each test plays, with the rehearsal model behind its real HTTP
//! path.

mod crashes;
mod limits;
mod mail;
mod roles;
mod runs;
mod stops;

use proto::agent::{AgentLimits, Mode, Model, Order, Permissions, Role, RunOutcome};
use proto::hello::Credentials;
use proto::request::Request;
use proto::response::Response;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::timeout;

use super::*;
use crate::fake_daemon::{FakeDaemon, PATIENCE, Peer, transcript};
use crate::link::LinkConfig;

/// Longer than any test takes, shorter than the runner's patience.
const TEST_MAX: std::time::Duration = std::time::Duration::from_secs(30);

/// A folder with all that an agent needs, and a daemon.
struct World {
    folder: TempDir,
    daemon: FakeDaemon,
    boot: Bootstrap,
}

/// A process of the agent, as far as it can be had inside of a test.
struct Process {
    ending: JoinHandle<Ending>,
    connection: JoinHandle<()>,
}

/// What a worker is told that has all its files in this folder.
pub(super) fn bootstrap(folder: &Path) -> Bootstrap {
    let path = |name: &str| folder.join(name).display().to_string();
    Bootstrap {
        agent: "a1".to_owned(),
        incarnation: 1,
        token: "t0ken".to_owned(),
        socket: path("s"),
        session: "s1".to_owned(),
        name: "look".to_owned(),
        role: Role::Worker,
        mode: Mode::Normal,
        agent_type: String::new(),
        description: String::new(),
        cwd: path("work"),
        state_dir: path("state"),
        scratchpad: Some(path("scratch")),
        runtime: Runtime::Native,
        model: Some(Model {
            provider: proto::agent::Provider::Rehearsal,
            name: String::new(),
            base_url: None,
            rehearsal_file: Some(path("script.json")),
        }),
        simple_tools: false,
        env: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]),
        limits: AgentLimits::default(),
        permissions: Permissions {
            mode: "bypassPermissions".to_owned(),
            // The program that builds it lies elsewhere than these tests.
            sandbox: proto::agent::SandboxChoice { off: true, ..Default::default() },
            ..Permissions::default()
        },
        runs_before: 0,
        not_begun: Vec::new(),
        terminal: None,
        worker_runtime: Runtime::Native,
        folder_only: false,
    }
}

impl World {
    fn new(role: Role, steps: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["state", "work", "scratch"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let script =
            json!({ "pace_ms": 0, "agents": [{ "steps": steps, "after": "nothing more to say" }] });
        std::fs::write(folder.path().join("script.json"), script.to_string()).unwrap();
        let boot = Bootstrap {
            role,
            mode: if role == Role::Coordinator { Mode::Coordinator } else { Mode::Normal },
            ..bootstrap(folder.path())
        };
        let daemon = FakeDaemon::bind(&folder.path().join("s"));
        Self { folder, daemon, boot }
    }

    /// A worker with these steps.
    fn worker(steps: &Value) -> Self {
        Self::new(Role::Worker, steps)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn transcript(&self) -> Vec<String> {
        transcript(&self.path("state"))
    }

    fn start(&self) -> Process {
        let link = Link::new(LinkConfig {
            socket: self.boot.socket.clone().into(),
            credentials: Some(Credentials {
                agent: self.boot.agent.clone(),
                incarnation: self.boot.incarnation,
                token: self.boot.token.clone(),
                pid: 1,
            }),
            orphan_limit: None,
            state_dir: Some(self.boot.state_dir.clone().into()),
        });
        let agent = Agent::new(self.boot.clone(), link.clone()).unwrap();
        let connection = tokio::task::spawn_local(link.keep());
        Process { ending: tokio::task::spawn_local(agent.live()), connection }
    }

    async fn connect(&self) -> (Process, Peer) {
        let process = self.start();
        let peer = self.daemon.welcome().await;
        (process, peer)
    }

    /// The agent, connected and with its task.
    async fn begin(&self) -> (Process, Peer) {
        let (process, mut peer) = self.connect().await;
        peer.deliver("m1", lead(), "the task").await;
        (process, peer)
    }

    /// Waits for a file that a tool makes.
    async fn until_exists(&self, name: &str) {
        let path = self.path(name);
        timeout(PATIENCE, async {
            while !path.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("the file was not made");
    }
}

impl Process {
    /// Ends it as a crash would: nothing more is written or said.
    async fn crash(self) {
        self.ending.abort();
        self.connection.abort();
        assert!(self.ending.await.unwrap_err().is_cancelled());
        assert!(self.connection.await.unwrap_err().is_cancelled());
    }

    async fn ended(self) -> Ending {
        let ending = timeout(PATIENCE, self.ending).await.expect("the agent does not end").unwrap();
        self.connection.abort();
        ending
    }
}

/// Runs a test where agents can run.
async fn in_world(test: impl Future<Output = ()>) {
    timeout(TEST_MAX, LocalSet::new().run_until(test)).await.expect("the test hangs");
}

fn lead() -> Origin {
    Origin::Agent { name: "lead".to_owned() }
}

fn bash(command: &str) -> Value {
    json!({ "name": "Bash", "input": { "command": command } })
}

/// A command that says that it runs and goes on when it is told so.
fn wait_for_go() -> Value {
    bash("touch ../running; while [ ! -e ../go ]; do sleep 0.02; done; echo went")
}

fn say_go(world: &World) {
    std::fs::write(world.path("go"), "").unwrap();
}

fn starts<'a>(lines: &'a [String], start: &str) -> Vec<&'a str> {
    lines.iter().filter(|line| line.starts_with(start)).map(String::as_str).collect()
}

fn failed_with(outcome: &RunOutcome, class: FailureClass) -> bool {
    outcome.status == RunStatus::Failed && outcome.class == Some(class)
}

fn stop(reason: &str) -> Order {
    Order::Stop { reason: reason.to_owned(), keep_run: false }
}
