//! A command in the agent's box: what starts it, whether it began, and what is said about the box afterwards.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use coordd_sandbox::Hosts;
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::BashError;
use crate::tools::ToolContext;
use crate::tools::walls::proxy::{self, Refused};
use crate::tools::walls::{self, Prepared, Reach, Walls};

/// Longest word of the box about itself.
const STATUS_LEN_MAX: u64 = 4 * 1024;
/// How long that word is waited for once the command has ended: it was written before.
const STATUS_WAIT: Duration = Duration::from_secs(2);

/// What programs print when they find no network.
const NO_NETWORK: [&str; 10] = [
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "getaddrinfo",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ENETUNREACH",
    "dns error",
    "failed to lookup address",
];

/// The box of one command.
pub(super) struct Boxed {
    walls: Arc<Walls>,
    prepared: Prepared,
    status: pipe::Receiver,
    /// The box's end, until it has started.
    to_us: Option<OwnedFd>,
    reach: Reach,
    way_out: Option<WayOut>,
}

/// The proxy of one command.
struct WayOut {
    /// The box's end, until it has started.
    to_us: Option<OwnedFd>,
    serving: JoinHandle<()>,
    refused: Refused,
}

impl Drop for WayOut {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl WayOut {
    fn open(hosts: Hosts) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let refused = Refused::default();
        let serving = tokio::task::spawn_local(proxy::serve(ours, hosts, refused.clone()));
        let theirs = theirs.into_std()?;
        theirs.set_nonblocking(false)?;
        Ok(Self { to_us: Some(theirs.into()), serving, refused })
    }
}

impl Boxed {
    /// The box of a command; none where the agent has none, or where the user let the command out of it.
    pub(super) async fn prepare(context: &ToolContext) -> Result<Option<Self>, BashError> {
        let Some(walls) = context.walls.clone().filter(|_| context.reach != Reach::Outside) else {
            return Ok(None);
        };
        let (for_thread, reach) = (context.clone(), context.reach);
        let preparing = {
            let walls = Arc::clone(&walls);
            tokio::task::spawn_blocking(move || walls.prepare(&for_thread, reach))
        };
        let prepared = match preparing.await {
            Ok(prepared) => prepared.map_err(BashError::NoBox)?,
            Err(_) => {
                return Err(BashError::BoxFailed(
                    "it failed inside, which is a fault of coordd".to_owned(),
                ));
            }
        };
        let (reader, writer) = io::pipe().map_err(BashError::Spawn)?;
        let status =
            pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(BashError::Spawn)?;
        let way_out = walls.hosts().map(WayOut::open).transpose().map_err(BashError::Spawn)?;
        Ok(Some(Self { walls, prepared, status, to_us: Some(writer.into()), reach, way_out }))
    }

    /// The program that builds the box and then becomes the shell.
    pub(super) fn command(&self, shell: &std::path::Path) -> Command {
        let policy = self.prepared.policy.as_raw_fd();
        let status = self.to_us.as_ref().map_or(-1, OwnedFd::as_raw_fd);
        let mut command = Command::new(self.walls.program());
        command.arg("--policy").arg(policy.to_string()).arg("--status").arg(status.to_string());
        if let Some(socket) = self.way_out.as_ref().and_then(|it| it.to_us.as_ref()) {
            command.arg("--proxy").arg(socket.as_raw_fd().to_string());
        }
        command.arg("--").arg(shell);
        command
    }

    /// Lets the program have its descriptors, and changes its environment. It goes after what clears both.
    pub(super) fn equip(&self, command: &mut Command, context: &ToolContext) {
        for (name, value) in walls::environment(&self.walls, context.environment()) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let socket = self.way_out.as_ref().and_then(|it| it.to_us.as_ref());
        let own = [Some(&self.prepared.policy), self.to_us.as_ref(), socket];
        let numbers: Vec<RawFd> =
            own.into_iter().flatten().map(|it| it.as_fd().as_raw_fd()).collect();
        // SAFETY: it only makes system calls that are async-signal-safe, on descriptors that stay open until the program runs.
        unsafe {
            command.pre_exec(move || {
                for number in &numbers {
                    let descriptor = std::os::fd::BorrowedFd::borrow_raw(*number);
                    fcntl_setfd(descriptor, FdFlags::empty())?;
                }
                Ok(())
            });
        }
    }

    /// The program has its descriptors: ours would keep the word from ending.
    pub(super) fn started(&mut self) {
        self.to_us = None;
        if let Some(way_out) = &mut self.way_out {
            way_out.to_us = None;
        }
    }

    /// Whether the command began. The error is why it did not.
    pub(super) async fn began(&mut self) -> Result<(), BashError> {
        let mut said = Vec::new();
        let mut reader = (&mut self.status).take(STATUS_LEN_MAX);
        let read = timeout(STATUS_WAIT, reader.read_to_end(&mut said)).await;
        let silent: &[u8] = b"it ended without a word";
        let why = if said.is_empty() { silent } else { said.as_slice() };
        let said = said.strip_prefix(coordd_sandbox::READY).unwrap_or(why);
        match (said, read) {
            ([], Ok(Ok(_))) => Ok(()),
            ([], _) => {
                Err(BashError::BoxFailed("it did not say whether the command began".to_owned()))
            }
            (why, _) => {
                self.walls.doubt();
                Err(BashError::BoxFailed(String::from_utf8_lossy(why).into_owned()))
            }
        }
    }

    /// What the model has to know about the box: what was set aside, and why something may have failed.
    pub(super) async fn remarks(
        self,
        context: &ToolContext,
        failed: bool,
        text: &str,
    ) -> Vec<String> {
        let mut remarks = Vec::new();
        if failed && self.reach == Reach::ReadOnly && text.contains("Read-only file system") {
            remarks.push(
                "[The workspace is read-only for commands in this mode. If the command has to write there, call it again with \
                 `needs` set to `write`, which asks the user.]"
                    .to_owned(),
            );
        }
        let refused = self.way_out.as_ref().map(|it| it.refused.hosts()).unwrap_or_default();
        if !refused.is_empty() {
            remarks.push(format!(
                "[No network in the sandbox; host {} was asked for. The user can allow it: `--host` of coordctl, or `hosts` under \
                 [sandbox] in the configuration. If the command has to run now, call it again with `needs` set to `outside`.]",
                refused.join(", ")
            ));
        } else if failed && NO_NETWORK.iter().any(|it| text.contains(it)) {
            remarks.push(
                "[There is no network in the sandbox. If the command has to have one, call it again with `needs` set to `outside`, \
                 which asks the user.]"
                    .to_owned(),
            );
        }
        if self.reach == Reach::ReadOnly {
            return remarks;
        }
        let context = context.clone();
        let looked =
            tokio::task::spawn_blocking(move || self.walls.look_after(&context, &self.prepared));
        remarks.extend(looked.await.unwrap_or_default());
        remarks
    }
}
