//! Starting an agent process.
//!
//! No code of ours runs between fork and exec: that would turn a spawn that costs nothing into one
//! that copies the daemon's page tables. The process is in a group of its own from its birth, and
//! calls `setsid` itself. What it must know comes on stdin, so that no secret is in its arguments
//! or environment. Its environment is what the caller gives and nothing of ours (rel-37).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{AtFlags, renameat, statat};
use rustix::io::Errno;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::AGENT_ID;
use super::identity::Identity;
use crate::dir::{Dir, FileError};
use crate::paths::Env;

/// How long an agent process may take to read its bootstrap.
const BOOTSTRAP_MS_MAX: u64 = 5_000;

/// Longest log that is added to. A longer one is kept once, under another name.
const LOG_BYTES_MAX: i64 = 8 * 1024 * 1024;

const LOG_NAME: &str = "agent.log";
const OLD_LOG_NAME: &str = "agent.log.1";

/// The program's name, beside the daemon's own.
const PROGRAM_NAME: &str = "coordd-worker";

/// Why no process was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("{} is missing; install coordd-worker beside coordd, or set COORDD_WORKER to its path", program.display())]
    Missing { program: PathBuf },
    #[error("{p} may not be executed; run: chmod +x {p}, and check that its file system is not mounted noexec", p = program.display())]
    NotAllowed { program: PathBuf },
    #[error("{} is not a program for this machine; install the coordd-worker of this build, or set COORDD_WORKER to it", program.display())]
    NotAProgram { program: PathBuf },
    #[error("the system allows no more processes; end some, or raise the limit (ulimit -u)")]
    TooManyProcesses,
    #[error("coordd has too many files open to start another process; raise the limit (ulimit -n)")]
    TooManyFiles,
    #[error("the agent's log cannot be written; fix what is named")]
    Log { source: FileError },
    #[error(
        "the path of coordd itself is unknown, so coordd-worker cannot be found; set COORDD_WORKER to its path"
    )]
    NoOwnPath { source: std::io::Error },
    #[error("{} was started and exited at once; look at its log", program.display())]
    EndedAtOnce { program: PathBuf },
    #[error("{} could not be started; set COORDD_WORKER to a coordd-worker that runs", program.display())]
    Failed { program: PathBuf, source: std::io::Error },
}

impl SpawnError {
    /// Whether trying again later can help (rel-53).
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::TooManyProcesses | Self::TooManyFiles => true,
            Self::Log { source } => matches!(source, FileError::DiskFull { .. }),
            Self::Missing { .. }
            | Self::NotAllowed { .. }
            | Self::NotAProgram { .. }
            | Self::NoOwnPath { .. }
            | Self::EndedAtOnce { .. }
            | Self::Failed { .. } => false,
        }
    }
}

/// What is to be started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Path,
    /// The agent's id. It marks the process, and what the process starts, for
    /// [`super::kill::end_tree`].
    pub(crate) agent: &'a str,
    /// All of its environment but the mark.
    pub(crate) env: &'a BTreeMap<OsString, OsString>,
    /// The agent's state folder, for the log.
    pub(crate) state: &'a Dir,
    /// The bootstrap document.
    pub(crate) bootstrap: Vec<u8>,
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) child: Child,
    pub(crate) identity: Identity,
}

/// Where the program is: `COORDD_WORKER`, else beside the daemon's own.
pub(crate) fn program(env: Env<'_>) -> Result<PathBuf, SpawnError> {
    if let Some(path) = env("COORDD_WORKER").filter(|it| !it.is_empty()) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(|source| SpawnError::NoOwnPath { source })?;
    Ok(own.with_file_name(PROGRAM_NAME))
}

/// Starts a process. It is handed its bootstrap by a task of its own, so that nobody waits for it.
/// Must be called in a tokio runtime.
pub(crate) fn spawn(start: Start<'_>) -> Result<Spawned, SpawnError> {
    let program = start.program;
    let log = open_log(start.state).map_err(|source| SpawnError::Log { source })?;
    let second = log.try_clone().map_err(|source| SpawnError::Log {
        source: FileError::Io { action: "open", path: start.state.path().join(LOG_NAME), source },
    })?;
    let mut child = Command::new(program)
        .env_clear()
        .envs(start.env)
        .env(AGENT_ID, start.agent)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(log)
        .stderr(second)
        .spawn()
        .map_err(|error| failed(program, error))?;
    // Not reaped before it is waited for, so its line in the process table stands even if it ended
    // already.
    let identity = child.id().and_then(Identity::of);
    let identity = identity.ok_or_else(|| SpawnError::EndedAtOnce { program: program.into() })?;
    if let Some(stdin) = child.stdin.take() {
        tokio::spawn(hand_over(stdin, start.bootstrap, identity.pid));
    }
    Ok(Spawned { child, identity })
}

/// Writes the bootstrap and closes stdin, which is its end. A process that does not read it sees
/// the end too early, and ends by itself.
async fn hand_over(mut stdin: ChildStdin, bootstrap: Vec<u8>, pid: u32) {
    let write = async {
        stdin.write_all(&bootstrap).await?;
        stdin.shutdown().await
    };
    match timeout(Duration::from_millis(BOOTSTRAP_MS_MAX), write).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(pid, %error, "an agent process did not take its bootstrap");
        }
        Err(_) => tracing::warn!(pid, "an agent process did not read its bootstrap in time"),
    }
}

fn open_log(state: &Dir) -> Result<File, FileError> {
    if let Ok(stat) = statat(state, LOG_NAME, AtFlags::SYMLINK_NOFOLLOW)
        && stat.st_size > LOG_BYTES_MAX
    {
        renameat(state, LOG_NAME, state, OLD_LOG_NAME)
            .map_err(|error| FileError::io("rotate", &state.path().join(LOG_NAME), error))?;
    }
    state.append(LOG_NAME)
}

fn failed(program: &Path, error: std::io::Error) -> SpawnError {
    let path = program.to_path_buf();
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) => SpawnError::Missing { program: path },
        Some(Errno::ACCESS | Errno::PERM) => SpawnError::NotAllowed { program: path },
        Some(Errno::NOEXEC | Errno::ISDIR | Errno::LIBBAD) => {
            SpawnError::NotAProgram { program: path }
        }
        Some(Errno::AGAIN | Errno::NOMEM) => SpawnError::TooManyProcesses,
        Some(Errno::MFILE | Errno::NFILE) => SpawnError::TooManyFiles,
        _ if error.kind() == ErrorKind::NotFound => SpawnError::Missing { program: path },
        _ => SpawnError::Failed { program: path, source: error },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::dir::Demand;
    use crate::process::watch::{self, Ended};

    struct Fixture {
        folder: tempfile::TempDir,
        state: Dir,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let base = Dir::base(folder.path()).unwrap();
            let (state, _) = base.enter("state", Demand::Strict).unwrap();
            Self { folder, state }
        }

        /// A program that is this shell script.
        fn program(&self, script: &str) -> PathBuf {
            let path = self.folder.path().join("program");
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn spawn(&self, program: &Path, bootstrap: &str) -> Result<Spawned, SpawnError> {
            let env = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
            let bootstrap = bootstrap.as_bytes().to_vec();
            spawn(Start { program, agent: "agent-1", env: &env, state: &self.state, bootstrap })
        }

        fn log(&self) -> String {
            fs::read_to_string(self.folder.path().join("state/agent.log")).unwrap()
        }
    }

    #[tokio::test]
    async fn w1_it_gets_its_bootstrap_on_stdin_and_its_output_goes_to_the_log() {
        let fixture = Fixture::new();
        let program = fixture.program("cat; echo complaint >&2");
        let spawned = fixture.spawn(&program, "{\"agent\":1}\n").unwrap();
        assert_eq!(Some(spawned.identity.pid), spawned.child.id());
        assert_eq!(watch::child(spawned.child).await, Ended::Exited(0));
        assert_eq!(fixture.log(), "{\"agent\":1}\ncomplaint\n");
        let log = fixture.folder.path().join("state/agent.log");
        assert_eq!(fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// rel-35, rel-36, rel-37: three descriptors, its own group, and no environment of ours.
    #[tokio::test]
    async fn rel37_it_inherits_nothing() {
        let fixture = Fixture::new();
        let script = "cat >/dev/null; pwd; tr '\\0' '\\n' </proc/$$/environ; \
                      echo fds: $(ls /proc/$$/fd); echo group: $(cut -d' ' -f5 /proc/$$/stat) $$; \
                      while read -r line; do case $line in SigBlk*|SigIgn*) echo \"$line\";; esac; done \
                      </proc/$$/status";
        // Read by the shell itself: while it waits for a program it blocks signals.
        let program = fixture.program(script);
        assert!(coordd_common::descriptors::keep_from_children());
        let _held: Vec<_> = (0..50).map(|_| File::open("/dev/null").unwrap()).collect();
        let spawned = fixture.spawn(&program, "x").unwrap();
        watch::child(spawned.child).await;
        let log = fixture.log();
        let lines: Vec<_> = log.lines().collect();
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        assert_eq!(lines[0], "/");
        let mut variables = lines[1..3].to_vec();
        variables.sort_unstable();
        assert_eq!(variables, ["COORDD_AGENT_ID=agent-1", &path]);
        // The shell reads its script through one of its own, and what `ls` says through a pipe, whose other end it may not have closed
        // when `ls` looks. Of the fifty that are held here none is there.
        let fds: Vec<_> = lines[3].split(' ').skip(1).collect();
        assert!(fds.len() <= 6 && ["0", "1", "2"].iter().all(|it| fds.contains(it)), "{log}");
        let group: Vec<_> = lines[4].split(' ').collect();
        assert_eq!(group[1], group[2], "{log}");
        assert_eq!(lines[5], "SigBlk:\t0000000000000000");
        let ignored = u64::from_str_radix(lines[6].trim_start_matches("SigIgn:\t"), 16).unwrap();
        let broken_pipe = 1 << (13 - 1);
        assert_eq!(ignored & broken_pipe, 0, "{log}");
    }

    #[tokio::test]
    async fn rel53_what_cannot_be_started_is_told_by_its_cause() {
        let fixture = Fixture::new();
        let missing = fixture.folder.path().join("missing");
        let error = fixture.spawn(&missing, "").unwrap_err();
        assert!(matches!(error, SpawnError::Missing { .. }));
        assert!(error.to_string().contains("COORDD_WORKER") && !error.is_passing());
        let program = fixture.folder.path().join("junk");
        fs::write(&program, [0, 1, 2, 3]).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        let error = fixture.spawn(&program, "").unwrap_err();
        assert!(matches!(error, SpawnError::NotAllowed { .. }), "{error:?}");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let error = fixture.spawn(&program, "").unwrap_err();
        assert!(matches!(error, SpawnError::NotAProgram { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn one_that_does_not_read_its_bootstrap_holds_nobody_up() {
        let fixture = Fixture::new();
        let program = fixture.program("exec <&-; echo closed");
        let big = "x".repeat(1024 * 1024);
        let spawned = fixture.spawn(&program, &big).unwrap();
        assert_eq!(watch::child(spawned.child).await, Ended::Exited(0));
        assert_eq!(fixture.log(), "closed\n");
    }

    #[tokio::test]
    async fn rel90_a_long_log_is_rotated_at_the_start() {
        let fixture = Fixture::new();
        let program = fixture.program("cat");
        let log = fixture.folder.path().join("state/agent.log");
        let bytes = usize::try_from(LOG_BYTES_MAX).unwrap() + 1;
        fs::write(&log, "x".repeat(bytes)).unwrap();
        let spawned = fixture.spawn(&program, "new").unwrap();
        watch::child(spawned.child).await;
        assert_eq!(fixture.log(), "new");
        let old = fixture.folder.path().join("state/agent.log.1");
        assert_eq!(fs::metadata(old).unwrap().len(), bytes as u64);
    }

    #[test]
    fn the_program_is_named_or_beside_the_daemon() {
        let named = program(&|it| (it == "COORDD_WORKER").then(|| "/x/worker".into())).unwrap();
        assert_eq!(named, Path::new("/x/worker"));
        let beside = program(&|_| None).unwrap();
        let own = std::env::current_exe().unwrap();
        assert_eq!(beside, own.parent().unwrap().join("coordd-worker"));
    }
}
