//! `coordctl daemon`: coordd itself.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use coordd_common::files::replace;
use coordd_common::processes;
use proto::error::ErrorCode;
use proto::request::Request;
use proto::response::Response;
use rustix::process::{Pid, Signal};

use crate::client::{self, ClientError};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::paths::Paths;
use crate::terminal::line;
use crate::{expect, output, owner, start};

/// How long a daemon may take to end its agents in order and go.
const END_LIMIT: Duration = Duration::from_mins(1);
/// How long a stuck daemon has after the polite signal.
const TERM_LIMIT: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(10);

const SOCKET_UNIT: &str = include_str!("../../../systemd/coordd.socket");
const SERVICE_UNIT: &str = include_str!("../../../systemd/coordd.service");

/// Start, stop, restart, show or install coordd.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl daemon status --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Start the daemon, if it does not run.
    Start,
    /// Stop the daemon and all agents, in order. Sessions can be resumed later.
    Stop,
    /// Replace the running daemon. Agents run on meanwhile.
    Restart,
    /// Show the daemon's state; exit code 4 when it does not run.
    Status,
    /// Install systemd units for this user.
    Install,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    match args.verb {
        Verb::Start => begin(context),
        Verb::Stop => stop(context),
        Verb::Restart => restart(context),
        Verb::Status => status(context),
        Verb::Install => install(context),
    }
}

fn begin(context: &mut Context) -> anyhow::Result<Exit> {
    let was_running = running(context).is_ok();
    let response = context.call(Request::DaemonStatus {})?;
    let word = if was_running { "already running" } else { "started" };
    said(context, &response, word)
}

fn said(context: &Context, response: &Response, word: &str) -> anyhow::Result<Exit> {
    output::respond(context, response, || {
        expect!(response, Daemon { daemon });
        Ok(output::say(&format!("coordd {} {word} (pid {})", line(&daemon.version), daemon.pid))?)
    })?;
    Ok(Exit::Done)
}

fn status(context: &mut Context) -> anyhow::Result<Exit> {
    let response = running(context).map_err(Failure::from)?;
    output::respond(context, &response, || {
        expect!(&response, Daemon { daemon });
        Ok(output::print(&super::status::daemon_text(daemon, coordd_common::wall_ms()))?)
    })?;
    Ok(Exit::Done)
}

/// Why a daemon was not asked.
pub(crate) enum Unreached {
    /// None runs.
    Absent(Failure),
    /// One holds its locks, and does not listen at the socket.
    Unheard(Pid, Failure),
    /// One is there, or something else, that does not answer as it should.
    Failed(ClientError),
}

impl From<Unreached> for Failure {
    fn from(why: Unreached) -> Self {
        match why {
            Unreached::Absent(failure) | Unreached::Unheard(_, failure) => failure,
            Unreached::Failed(error) => error.into(),
        }
    }
}

/// The daemon if it runs. With its socket held by systemd, connecting alone would start it.
pub(crate) fn running(context: &mut Context) -> Result<Response, Unreached> {
    if start::is_under_systemd(&context.paths, &context.vars) && !unit_is_active() {
        let path = context.paths.socket.clone();
        return Err(Unreached::Absent(ClientError::NoDaemon { path }.into()));
    }
    let error = match context.call_running(Request::DaemonStatus {}) {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    let is_absent = matches!(error, ClientError::NoDaemon { .. });
    match owner::of(&context.paths) {
        Some(owner) if is_absent || matches!(error, ClientError::Foreign { .. }) => {
            Err(Unreached::Unheard(owner, unheard(&context.paths, owner)))
        }
        Some(_) | None if is_absent => Err(Unreached::Absent(error.into())),
        Some(_) | None => Err(Unreached::Failed(error)),
    }
}

/// What is said of a daemon that holds its locks and does not listen at the socket.
pub(crate) fn unheard(paths: &Paths, owner: Pid) -> Failure {
    let socket = paths.socket.display();
    let message = format!("coordd runs (pid {owner}), but does not listen at {socket}");
    Failure::new(Exit::NoDaemon, message).hint(format!(
        "`coordctl daemon restart` replaces it, and agents go on meanwhile; its log is {}",
        paths.daemon_log().display()
    ))
}

fn unit_is_active() -> bool {
    start::systemctl(&["is-active", "--quiet", "coordd.service"]).is_ok()
}

fn stop(context: &mut Context) -> anyhow::Result<Exit> {
    let response = match running(context) {
        Ok(response) => response,
        Err(Unreached::Absent(_)) => {
            output::note("coordd is not running");
            return Ok(Exit::Done);
        }
        Err(Unreached::Unheard(owner, _)) => {
            end_by_lock(context, owner, &[(Signal::TERM, END_LIMIT)])?;
            return stopped(context);
        }
        Err(Unreached::Failed(error)) => return Err(Failure::from(error).into()),
    };
    expect!(&response, Daemon { daemon });
    end(context, daemon.pid, daemon.under_systemd, false)?;
    stopped(context)
}

fn stopped(context: &Context) -> anyhow::Result<Exit> {
    if context.json {
        output::json(&Response::Done {})?;
    } else {
        output::say("coordd has stopped; sessions can be resumed")?;
    }
    Ok(Exit::Done)
}

/// Ends the daemon and waits until its process is gone.
fn end(
    context: &mut Context,
    pid: u32,
    under_systemd: bool,
    keep_agents: bool,
) -> Result<(), Failure> {
    if under_systemd {
        start::systemctl(&["stop", "coordd.service"])?;
    } else {
        match context.call_running(Request::DaemonStop { keep_agents }) {
            Ok(_) | Err(ClientError::Lost | ClientError::NoDaemon { .. }) => {}
            Err(ClientError::Denied(body)) if body.code == ErrorCode::ShuttingDown => {}
            Err(error) => return Err(error.into()),
        }
    }
    if is_gone_within(pid, END_LIMIT) {
        return Ok(());
    }
    let seconds = END_LIMIT.as_secs();
    Err(Failure::failed(format!("coordd (pid {pid}) has not exited within {seconds} s"))
        .hint(format!("its log is {}", context.paths.daemon_log().display())))
}

fn is_gone_within(pid: u32, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    // One that has ended but was not reaped by its parent is as good as gone.
    while processes::is_alive(pid) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

fn restart(context: &mut Context) -> anyhow::Result<Exit> {
    match running(context) {
        Ok(response) => {
            expect!(&response, Daemon { daemon });
            if daemon.under_systemd {
                start::systemctl(&["restart", "coordd.service"])?;
            } else {
                end(context, daemon.pid, false, true)?;
            }
        }
        Err(Unreached::Failed(error)) => {
            // A daemon of another build, whose answer says nothing here, is replaced as well: that
            // is the way out.
            let is_of_another_build =
                matches!(error, ClientError::Unreadable { .. } | ClientError::NotKnown { .. });
            let failure = Failure::from(error);
            if !is_of_another_build && failure.exit != Exit::NoDaemon {
                return Err(failure.into());
            }
            end_stuck(context)?;
        }
        Err(Unreached::Absent(_) | Unreached::Unheard(..)) => end_stuck(context)?,
    }
    let response = context.call(Request::DaemonStatus {})?;
    said(context, &response, "restarted")
}

/// Ends a daemon that does not answer, whether it listens or not. Its agents run on, as after a
/// crash.
fn end_stuck(context: &Context) -> Result<(), Failure> {
    let signals = [(Signal::USR1, TERM_LIMIT), (Signal::KILL, END_LIMIT)];
    let is_under_systemd = start::is_under_systemd(&context.paths, &context.vars);
    if let Some(owner) = owner::of(&context.paths)
        && !(is_under_systemd && unit_is_active())
    {
        return end_by_lock(context, owner, &signals);
    }
    let Some(pid) = client::listener(&context.paths.socket)? else { return Ok(()) };
    // Systemd holds the socket: the daemon behind it is its business.
    if is_under_systemd {
        return start::systemctl(&["restart", "coordd.service"]);
    }
    let socket = context.paths.socket.display();
    Err(Failure::failed(format!("{socket} is served by another program (pid {pid})"))
        .hint("end it yourself, or set COORDD_SOCKET to another path"))
}

/// Ends the daemon that holds the lock, by one signal after the other.
fn end_by_lock(
    context: &Context,
    owner: Pid,
    signals: &[(Signal, Duration)],
) -> Result<(), Failure> {
    output::note(&format!("coordd (pid {owner}) does not answer; ending it"));
    let pid = owner.as_raw_nonzero().get().unsigned_abs();
    for (signal, limit) in signals {
        owner::signal(&context.paths, owner, *signal)?;
        if is_gone_within(pid, *limit) {
            return Ok(());
        }
    }
    Err(Failure::failed(format!("coordd (pid {owner}) cannot be ended"))
        .hint(format!("its log is {}", context.paths.daemon_log().display())))
}

fn install(context: &mut Context) -> anyhow::Result<Exit> {
    let folder = context.paths.unit_dir.clone();
    let bin = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.to_path_buf()))
        .ok_or_else(|| Failure::failed("cannot find the folder in which coordctl lies"))?;
    if !bin.join("coordd").exists() {
        let failure = Failure::failed(format!("there is no coordd in {}", bin.display()));
        return Err(failure
            .hint("install coordd, coordd-worker, coordd-sandbox and coordctl into one folder")
            .into());
    }
    let service = SERVICE_UNIT.replace("@bindir@", &escape(&bin.to_string_lossy()));
    write_unit(&folder, "coordd.socket", SOCKET_UNIT)?;
    write_unit(&folder, "coordd.service", &service)?;
    let mut lines =
        vec![format!("wrote coordd.socket and coordd.service into {}", folder.display())];
    if start::user_manager_runs(&context.vars) {
        start::systemctl(&["daemon-reload"])?;
        start::systemctl(&["enable", "coordd.socket"])?;
        if running_outside(context) {
            lines.push(
                "coordd already runs, outside of systemd; `coordctl daemon stop`, then".to_owned(),
            );
            lines.push("`systemctl --user start coordd.socket`, hands it over".to_owned());
        } else {
            start::systemctl(&["start", "coordd.socket"])?;
            lines.push(
                "enabled and started coordd.socket: the first connection starts coordd".to_owned(),
            );
        }
    } else {
        lines.push("no systemd user manager answers here; in a login session run".to_owned());
        lines.push(
            "  systemctl --user daemon-reload && systemctl --user enable --now coordd.socket"
                .to_owned(),
        );
    }
    if is_build_folder(&bin) {
        lines.push(format!(
            "NOTE: {} is a build folder, and a clean build takes the programs away. Copy coordctl, coordd, coordd-worker, \
             coordd-sandbox and coordd-bridge into a folder such as ~/.local/bin, and run `coordctl daemon install` there",
            bin.display()
        ));
    }
    lines.push("`loginctl enable-linger` keeps it running after the last logout".to_owned());
    if context.json {
        output::json(&serde_json::json!({ "units": folder, "notes": lines }))?;
    } else {
        output::say(&lines.join("\n"))?;
    }
    Ok(Exit::Done)
}

/// Whether cargo made a folder for what it builds (fA19).
fn is_build_folder(bin: &Path) -> bool {
    bin.ancestors()
        .any(|it| it.join("CACHEDIR.TAG").exists() && it.join(".rustc_info.json").exists())
}

fn running_outside(context: &mut Context) -> bool {
    !unit_is_active() && context.call_running(Request::Ping {}).is_ok()
}

/// Characters that mean something inside a quoted word of a unit file.
fn escape(path: &str) -> String {
    path.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$")
}

fn write_unit(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let failed = |error: std::io::Error| {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
            .hint("make the folder writable, or set XDG_CONFIG_HOME to one that is")
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
    replace(&path, text.as_bytes(), 0o644).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_names_the_programs_folder() {
        let text = SERVICE_UNIT.replace("@bindir@", &escape("/opt/a b%c"));
        assert!(text.contains("ExecStart=\"/opt/a b%%c/coordd\" --foreground"));
        assert!(!text.contains("@bindir@"));
        let folder = tempfile::tempdir().unwrap();
        let units = folder.path().join("systemd/user");
        write_unit(&units, "coordd.service", &text).unwrap();
        assert_eq!(std::fs::read_to_string(units.join("coordd.service")).unwrap(), text);
        assert_eq!(std::fs::read_dir(&units).unwrap().count(), 1);
    }

    #[test]
    fn fa19_a_build_folder_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("target/debug");
        std::fs::create_dir_all(&bin).unwrap();
        assert!(!is_build_folder(&bin));
        for name in ["CACHEDIR.TAG", ".rustc_info.json"] {
            std::fs::write(folder.path().join("target").join(name), "").unwrap();
        }
        assert!(is_build_folder(&bin) && !is_build_folder(folder.path()));
    }

    #[test]
    fn a_process_that_ended_is_gone_even_before_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(processes::is_alive(child.id()));
        child.kill().unwrap();
        assert!(is_gone_within(child.id(), Duration::from_secs(5)));
        child.wait().unwrap();
    }
}
