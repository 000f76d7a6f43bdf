//! Starting coordd when none runs (D-1): by the user's service manager where its unit is installed,
//! else as a process of its own. Of many starts at once the daemon's own lock decides; everybody
//! ends up at the one that serves.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coordd_common::files;
use proto::error::ErrorCode;
use proto::request::Request;

use crate::client::{Ask, Client, ClientError};
use crate::error::{Exit, Failure};
use crate::paths::{self, Paths, Vars};

/// How long a daemon may take from its start to its first hello.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks at whether it answers.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the one that was first may take to answer before another start is tried.
const OTHERS_GRACE: Duration = Duration::from_millis(500);
/// The daemon's log is set aside when it is longer than this, 4 MiB; one older one is kept.
const LOG_LEN_MAX: u64 = 4 << 20;
/// How much of the log's end is shown when the daemon ends at once.
const LOG_TAIL_LEN: u64 = 4096;
const LOG_TAIL_LINES: usize = 8;

/// Whether the user's service manager runs and knows coordd.
pub(crate) fn is_under_systemd(paths: &Paths, vars: &Vars) -> bool {
    !paths.socket_is_chosen && unit_is_installed(paths) && user_manager_runs(vars)
}

pub(crate) fn unit_is_installed(paths: &Paths) -> bool {
    let system = ["/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user"];
    let folders = system.iter().map(Path::new).chain([paths.unit_dir.as_path()]);
    folders.map(|folder| folder.join("coordd.service")).any(|unit| unit.exists())
}

/// The manager's own socket tells, without starting a program.
pub(crate) fn user_manager_runs(vars: &Vars) -> bool {
    paths::absolute(vars, "XDG_RUNTIME_DIR").is_some_and(|run| run.join("systemd/private").exists())
        && paths::in_path(vars, "systemctl").is_some()
}

/// Set where commands of agents run.
const BOXED: &str = "COORDD_BOXED";

/// Starts coordd and waits until it answers. What the one before it has lost is said: whoever starts it may not know.
pub(crate) fn start(paths: &Paths, vars: &Vars) -> Result<(), Failure> {
    let lost = lost(paths);
    start_quietly(paths, vars)?;
    if let Some(text) = lost {
        crate::output::note(&format!("warning: {text}"));
    }
    Ok(())
}

/// What an earlier daemon left beside the socket, for the next one to take.
fn lost(paths: &Paths) -> Option<String> {
    let file = File::open(paths.socket.parent()?.join("state-lost")).ok()?;
    let mut text = String::new();
    file.take(LOG_TAIL_LEN).read_to_string(&mut text).ok()?;
    Some(text)
}

fn start_quietly(paths: &Paths, vars: &Vars) -> Result<(), Failure> {
    // A second daemon in there would be nobody's.
    if vars.contains_key(BOXED) {
        return Err(Failure::new(
            Exit::NoDaemon,
            "this is the sandbox of an agent, from which coordd is not reached",
        )
        .hint("run coordctl in a terminal of yours"));
    }
    let until = Instant::now() + START_LIMIT;
    if is_under_systemd(paths, vars) {
        systemctl(&["start", "coordd.service"])?;
        return match answers_before(paths, until, || Ok(false))? {
            Answer::Yes => Ok(()),
            Answer::No | Answer::Over => Err(did_not_answer(paths)),
        };
    }
    loop {
        let (mut child, said_before) = spawn(paths, vars)?;
        let answer = answers_before(paths, until, || match child.try_wait() {
            Ok(Some(ended)) if ended.success() => Ok(true),
            Ok(Some(ended)) => Err(ended_early(paths, ended, said_before)),
            Ok(None) | Err(_) => Ok(false),
        })?;
        match answer {
            Answer::Yes => {
                // Reaped if it ends before us.
                std::thread::spawn(move || child.wait());
                return Ok(());
            }
            // Another one was first, but has not answered: it may just have been on its way out.
            Answer::Over if Instant::now() < until => {}
            Answer::Over | Answer::No => return Err(did_not_answer(paths)),
        }
    }
}

/// Runs `systemctl --user`, whose own words are the error.
pub(crate) fn systemctl(args: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(args).stdin(Stdio::null());
    let output = crate::signals::unblocked(|| command.output())
        .map_err(|error| Failure::failed(format!("cannot run systemctl: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::new(
        Exit::NoDaemon,
        format!("`systemctl --user {}` failed: {said}", args.join(" ")),
    )
    .hint("`journalctl --user -u coordd` may say why"))
}

/// Starts the program, and says how long its log was before.
fn spawn(paths: &Paths, vars: &Vars) -> Result<(Child, u64), Failure> {
    let no_daemon = |message: String| Failure::new(Exit::NoDaemon, message);
    let program = paths::program(vars, "COORDD_BIN", "coordd").ok_or_else(|| {
        no_daemon("coordd is not running, and its program was not found".to_owned())
            .hint("install coordd beside coordctl or in PATH, or set COORDD_BIN to its path")
    })?;
    let log = open_log(paths)?;
    let said_before = log.metadata().map_or(0, |metadata| metadata.len());
    let log_too =
        log.try_clone().map_err(|error| no_daemon(format!("cannot write its log: {error}")))?;
    let mut command = Command::new(&program);
    command
        .arg("--foreground")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        // Out of the terminal's group: Ctrl-C here is not meant for it.
        .process_group(0);
    for name in vars.keys().filter(|name| crate::env::is_the_callers_own(name)) {
        command.env_remove(name);
    }
    // It may have been found where the environment did not say it.
    if let Some(folder) = vars.get("XDG_RUNTIME_DIR") {
        command.env("XDG_RUNTIME_DIR", folder);
    }
    let child = crate::signals::unblocked(|| command.spawn()).map_err(|error| {
        no_daemon(format!("cannot start {}: {error}", program.display()))
            .hint("install coordd beside coordctl or in PATH, or set COORDD_BIN to its path")
    })?;
    Ok((child, said_before))
}

fn open_log(paths: &Paths) -> Result<File, Failure> {
    let path = paths.daemon_log();
    let failed = |error: std::io::Error| {
        Failure::failed(format!("cannot write coordd's log {}: {error}", path.display()))
            .hint("make its folder writable, or set XDG_STATE_HOME to one that is")
    };
    files::make_closed_folder(&paths.state_dir).map_err(failed)?;
    files::open_log(&path, LOG_LEN_MAX, &path.with_extension("log.old")).map_err(failed)
}

/// What came of waiting for a hello.
enum Answer {
    Yes,
    No,
    /// What was started has ended well, and for a while nobody has answered.
    Over,
}

/// Waits for a hello at the socket. `is_over` says whether what was started has ended well.
fn answers_before(
    paths: &Paths,
    until: Instant,
    mut is_over: impl FnMut() -> Result<bool, Failure>,
) -> Result<Answer, Failure> {
    let ping = Ask::new(Request::Ping {});
    let mut over_since = None;
    loop {
        match Client::open(&paths.socket, &ping) {
            Ok(_) => return Ok(Answer::Yes),
            // It may be between bind and serve, or another one may be shutting down.
            Err(ClientError::NoDaemon { .. } | ClientError::Lost) => {}
            Err(ClientError::Denied(body)) if body.code == ErrorCode::ShuttingDown => {}
            Err(error) => return Err(error.into()),
        }
        if over_since.is_none() && is_over()? {
            over_since = Some(Instant::now());
        }
        if over_since.is_some_and(|since| since.elapsed() >= OTHERS_GRACE) {
            return Ok(Answer::Over);
        }
        if Instant::now() >= until {
            return Ok(Answer::No);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn did_not_answer(paths: &Paths) -> Failure {
    if let Some(owner) = crate::owner::of(paths) {
        return crate::commands::daemon::unheard(paths, owner);
    }
    let limit = START_LIMIT.as_secs();
    let message = format!("coordd was started but has not answered for {limit} s");
    let log = paths.daemon_log();
    Failure::new(Exit::NoDaemon, message).hint(format!("its log is {}", log.display()))
}

fn ended_early(paths: &Paths, ended: std::process::ExitStatus, said_before: u64) -> Failure {
    let log = paths.daemon_log();
    let mut message = format!("coordd did not start ({ended})");
    if let Some(tail) = tail(&log, said_before) {
        message.push_str("; it said:\n");
        message.push_str(&tail);
    }
    Failure::new(Exit::NoDaemon, message).hint(format!("its whole log is {}", log.display()))
}

/// The last lines of a file, of those behind its first `skip` bytes.
fn tail(path: &Path, skip: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_LEN).max(skip))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_LEN).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LOG_TAIL_LINES)..)?;
    Some(last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn paths(folder: &Path) -> Paths {
        Paths {
            socket: folder.join("s"),
            socket_is_chosen: true,
            state_dir: folder.join("state"),
            config_file: folder.join("config.toml"),
            unit_dir: folder.join("units"),
        }
    }

    /// A program that stands in for coordd.
    fn program(folder: &Path, script: &str) -> Vars {
        let path = folder.join("coordd");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Vars::from([("COORDD_BIN".to_owned(), path.to_str().unwrap().to_owned())])
    }

    #[test]
    fn d1_a_daemon_that_ends_at_once_is_reported_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let vars = program(folder.path(), "echo 'the store is damaged' >&2; exit 3");
        let error = start(&paths(folder.path()), &vars).unwrap_err();
        assert_eq!(error.exit, Exit::NoDaemon);
        assert!(error.message.contains("the store is damaged"), "{error}");
        assert!(error.hint.contains("coordd.log"));
    }

    /// D-1: what an earlier daemon wrote into the same log says nothing about this one.
    #[test]
    fn d1_the_words_of_an_earlier_daemon_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(folder.path());
        std::fs::create_dir_all(&paths.state_dir).unwrap();
        std::fs::write(paths.daemon_log(), "coordd listens\nan old error\n").unwrap();
        let vars = program(folder.path(), "echo 'the store is damaged' >&2; exit 3");
        let error = start(&paths, &vars).unwrap_err();
        assert!(error.message.ends_with("it said:\n  the store is damaged"), "{error}");
    }

    #[test]
    fn d1_a_missing_daemon_says_where_it_is_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let vars = Vars::from([("COORDD_BIN".to_owned(), "/nonexistent/coordd".to_owned())]);
        let error = start(&paths(folder.path()), &vars).unwrap_err();
        assert!(error.message.contains("/nonexistent/coordd") && error.hint.contains("COORDD_BIN"));
    }

    #[test]
    fn d1_it_starts_in_the_root_folder_without_the_callers_own_variables() {
        let folder = tempfile::tempdir().unwrap();
        let mut vars = program(folder.path(), "pwd; echo \"token ${COORDD_TOKEN-unset}\"; exit 1");
        vars.insert("COORDD_TOKEN".to_owned(), "secret".to_owned());
        let error = start(&paths(folder.path()), &vars).unwrap_err();
        assert!(error.message.contains("  /\n  token unset"), "{error}");
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text: Vec<String> = (0..1000).map(|n| format!("line {n}")).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
        let shown = tail(&path, 0).unwrap();
        assert_eq!(shown.lines().count(), LOG_TAIL_LINES);
        assert!(shown.starts_with("  line 992") && shown.ends_with("  line 999"));
        assert_eq!(tail(&path, text.join("\n").len() as u64 - 8).as_deref(), Some("  line 999"));
    }
}
