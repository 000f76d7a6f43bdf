//! The bridge process: started when the user wants one, and restarted when it exits. It decides
//! nothing about messages.
//!
//! The process holds nothing that is not on a disk, so it lives and dies with this daemon: its
//! stdin is a pipe whose other end is here, and it exits when that pipe closes. There is nothing to
//! adopt after a crash, and never more than one.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use coordd_common::files::open_log;
use coordd_core::Input;
use proto::bridge::Bootstrap;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::reactor::Arrival;

/// The program's name, beside the daemon's own.
const PROGRAM_NAME: &str = "coordd-bridge";
/// The back-off between two starts: the first and the longest wait.
const AGAIN_MS: u64 = 200;
const AGAIN_MS_MAX: u64 = 30_000;
/// A process that ran this long resets the back-off.
const SETTLED_MS: u128 = 60_000;
/// How long a process has to end after its stdin did.
const END_TIME_MAX: Duration = Duration::from_secs(2);
/// Longest log that is added to.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The wish: whether the bridge is to run, and with which version of the settings.
pub(crate) type Wanted = (bool, u64);

/// What the supervisor needs.
struct Supervisor {
    wanted: watch::Receiver<Wanted>,
    reactor: mpsc::Sender<Arrival>,
    socket: PathBuf,
    state: PathBuf,
}

/// Starts the supervisor. Nothing is wanted yet.
pub(crate) fn supervise(
    reactor: mpsc::Sender<Arrival>,
    socket: PathBuf,
    state: PathBuf,
) -> (watch::Sender<Wanted>, JoinHandle<()>) {
    let (wants, wanted) = watch::channel((false, 0));
    let supervisor = Supervisor { wanted, reactor, socket, state };
    (wants, tokio::task::spawn(supervisor.run()))
}

/// Waits, for a bounded time, until the process has exited. The reactor asked for that by dropping
/// its handle.
pub(crate) async fn ended(supervised: JoinHandle<()>) {
    if supervised.await.is_err() {
        tracing::error!("the supervisor of the bridge panicked");
    }
}

impl Supervisor {
    /// Runs until the reactor is gone.
    async fn run(mut self) {
        let (mut incarnation, mut wait_ms) = (0, AGAIN_MS);
        loop {
            if !self.wanted.borrow_and_update().0 {
                if self.wanted.changed().await.is_err() {
                    return;
                }
                wait_ms = AGAIN_MS;
                continue;
            }
            incarnation += 1;
            let began = std::time::Instant::now();
            let why = match self.start(incarnation).await {
                Ok((mut child, stdin)) => {
                    let ended = tokio::select! {
                        ended = child.wait() => ended,
                        changed = self.wanted.changed() => {
                            end(child, stdin).await;
                            if changed.is_err() {
                                return;
                            }
                            wait_ms = AGAIN_MS;
                            continue;
                        }
                    };
                    if began.elapsed().as_millis() > SETTLED_MS {
                        wait_ms = AGAIN_MS;
                    }
                    how_it_ended(&ended)
                }
                Err(error) => {
                    let text = format!("the bridge cannot be started: {error:#}");
                    tracing::error!("{text}");
                    format!("it cannot be started: {error:#}")
                }
            };
            tracing::warn!(why, wait_ms, "the bridge exited; its log says more");
            let seconds = wait_ms.div_ceil(1_000);
            let why = format!("{why}; it is restarted within {seconds} s");
            drop(self.reactor.send(Arrival::Input(Input::BridgeEnded { why })).await);
            tokio::select! {
                () = sleep(Duration::from_millis(wait_ms)) => {}
                changed = self.wanted.changed() => if changed.is_err() { return },
            }
            wait_ms = (wait_ms * 2).min(AGAIN_MS_MAX);
        }
    }

    async fn start(&self, incarnation: u32) -> anyhow::Result<(Child, ChildStdin)> {
        let random: [u8; 32] = crate::clock::random().context("drawing random numbers")?;
        let digits = random.iter().flat_map(|it| [it >> 4, it & 15]);
        let token: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        let starting = Input::BridgeStarting { incarnation, token: token.clone() };
        // Before the process can say hello.
        self.reactor.send(Arrival::Input(starting)).await.context("the daemon ends")?;
        let program = program()?;
        let folder = self.state.join("bridge");
        let bootstrap = Bootstrap {
            incarnation,
            token,
            socket: self.socket.display().to_string(),
            folder: folder.display().to_string(),
        };
        let mut line = serde_json::to_vec(&bootstrap).context("writing the bootstrap")?;
        line.push(b'\n');
        let log = open_log(
            &self.state.join("bridge.log"),
            LOG_BYTES_MAX,
            &self.state.join("bridge.log.1"),
        )
        .context("opening the bridge's log")?;
        let second = log.try_clone().context("opening the bridge's log")?;
        let mut command = Command::new(&program);
        command.env_clear().current_dir("/").process_group(0).kill_on_drop(true);
        for name in ["PATH", "HOME", "LANG", "TZ", "RUST_LOG", "RUST_BACKTRACE", "SSL_CERT_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::piped()).stdout(log).stderr(second);
        let mut child = command.spawn().with_context(|| {
            format!("starting {}; install coordd-bridge beside coordd", program.display())
        })?;
        let mut stdin = child.stdin.take().context("the bridge has no stdin")?;
        stdin.write_all(&line).await.context("handing over the bootstrap")?;
        tracing::info!(incarnation, "the bridge was started");
        // The pipe that keeps the process alive. It is taken out of the child, because waiting for
        // a child closes its stdin.
        Ok((child, stdin))
    }
}

fn how_it_ended(ended: &std::io::Result<std::process::ExitStatus>) -> String {
    match ended {
        Ok(status) => format!("it ended ({status})"),
        Err(error) => format!("it cannot be watched ({error})"),
    }
}

/// Stops a process: by closing its stdin, and by force when that is not enough.
async fn end(mut child: Child, stdin: ChildStdin) {
    drop(stdin);
    if timeout(END_TIME_MAX, child.wait()).await.is_err()
        && let Err(error) = child.kill().await
    {
        tracing::warn!(%error, "the bridge cannot be ended");
    }
}

/// Where the program is: `COORDD_BRIDGE`, else beside the daemon's own.
fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("COORDD_BRIDGE").filter(|it| !it.is_empty()) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().context("finding coordd-bridge; set COORDD_BRIDGE")?;
    Ok(own.with_file_name(PROGRAM_NAME))
}
