//! A pseudo-terminal and the program in it.
//!
//! The program leads a session of its own, with the terminal as the controlling one (case K1): so
//! it hears of new sizes, Ctrl-C is a signal, and the end of the terminal is one too. It must not
//! know what the bytes mean.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use proto::screen::Size;
use rustix::fs::OFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

use crate::runtime::claude::Invocation;
use crate::tools::{ProcessTree, new_marker};

/// Why nothing runs in it.
#[derive(Debug, thiserror::Error)]
pub(super) enum PtyError {
    #[error("the system gives no terminal: check that /dev/pts is mounted and not full")]
    Open {
        #[source]
        source: io::Error,
    },
    #[error("cannot start {program} in {cwd}: check that it can be run there")]
    Spawn {
        program: String,
        cwd: String,
        #[source]
        source: io::Error,
    },
}

/// Our end of the terminal.
pub(super) struct Pty {
    master: AsyncFd<OwnedFd>,
}

/// The program, and all that it started.
pub(super) struct Program {
    child: Child,
    tree: ProcessTree,
    status: Option<u8>,
}

impl Pty {
    /// Opens a terminal and starts a program in it.
    pub(super) fn start(
        invocation: &Invocation,
        cwd: &str,
        size: Size,
    ) -> Result<(Self, Program), PtyError> {
        let open = |source: io::Error| PtyError::Open { source };
        let (master, slave) = pair(size).map_err(open)?;
        // SAFETY: the descriptor is owned by what is registered, is the same for as long as that
        // lives, and is closed with it.
        let registered = unsafe { AsyncFd::register(master) };
        let pty = Self { master: registered.map_err(|error| open(error.into_parts().1))? };
        let program = invocation.program.display().to_string();
        let fail = |source| PtyError::Spawn { program, cwd: cwd.to_owned(), source };
        let program = Program::start(invocation, cwd, &slave).map_err(fail)?;
        Ok((pty, program))
    }

    /// What the program wrote; none when nobody holds its end any more.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            let mut ready = self.master.readable().await.ok()?;
            match ready.try_io(|it| Ok(rustix::io::read(it.get_ref(), &mut *buffer)?)) {
                Ok(Ok(0)) => return None,
                Ok(Ok(len)) => return Some(len),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // EIO is how the system says so.
                Ok(Err(_)) => return None,
                Err(_would_block) => {}
            }
        }
    }

    /// Types as much as fits. All of it counts as typed where nobody will ever read it.
    pub(super) async fn write(&self, bytes: &[u8]) -> usize {
        loop {
            let Ok(mut ready) = self.master.writable().await else { return bytes.len() };
            match ready.try_io(|it| Ok(rustix::io::write(it.get_ref(), bytes)?)) {
                Ok(Ok(len)) => return len,
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(_)) => return bytes.len(),
                Err(_would_block) => {}
            }
        }
    }

    /// Gives the terminal another size; the system tells the program.
    pub(super) fn resize(&self, size: Size) {
        if let Err(error) = tcsetwinsize(self.master.get_ref(), winsize(size)) {
            tracing::warn!(%error, "the terminal keeps its size");
        }
    }
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Both ends of a terminal. Neither becomes ours to be controlled by.
fn pair(size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    // By descriptor and not by name: nobody can put another one there.
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    tcsetwinsize(&master, winsize(size))?;
    let before = rustix::fs::fcntl_getfl(&master)?;
    rustix::fs::fcntl_setfl(&master, before | OFlags::NONBLOCK)?;
    Ok((master, slave))
}

impl Program {
    fn start(invocation: &Invocation, cwd: &str, slave: &OwnedFd) -> io::Result<Self> {
        let marker = new_marker();
        let end = || slave.try_clone().map(Stdio::from);
        let mut command = invocation.command(cwd, &marker);
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        // SAFETY: both are system calls that are async-signal-safe and take neither a lock nor
        // memory.
        unsafe {
            command.pre_exec(take_terminal);
        }
        let child = command.spawn()?;
        let tree = ProcessTree::new(child.id().unwrap_or(0), &marker.to_string_lossy());
        Ok(Self { child, tree, status: None })
    }

    /// Waits for its end, as a shell tells it. May be given up and asked again.
    pub(super) async fn wait(&mut self) -> u8 {
        if let Some(status) = self.status {
            return status;
        }
        let status = match self.child.wait().await {
            Ok(status) => {
                let signal = || status.signal().and_then(|signal| u8::try_from(signal + 128).ok());
                status.code().and_then(|code| u8::try_from(code).ok()).or_else(signal).unwrap_or(1)
            }
            Err(error) => {
                tracing::warn!(%error, "the program's exit status is unknown");
                1
            }
        };
        self.status = Some(status);
        status
    }

    /// Ends it with all that it started. Returns how many processes could not be ended.
    pub(super) async fn end(&mut self, grace_ms: u64) -> usize {
        let Self { child, tree, status } = self;
        let end = tree.end(grace_ms);
        tokio::pin!(end);
        let mut is_reaped = status.is_some();
        loop {
            tokio::select! {
                left = &mut end => return left,
                // It has to be reaped while we wait, or it would stay in the process table.
                _ = child.wait(), if !is_reaped => is_reaped = true,
            }
        }
    }
}

/// Runs in the child, between fork and exec: a session of its own, controlled by the terminal that
/// is its stdin (case K1).
fn take_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    let stdin = rustix::stdio::stdin();
    rustix::process::ioctl_tiocsctty(stdin.as_fd())?;
    Ok(())
}
