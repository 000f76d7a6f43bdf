//! `coordctl doctor`: checks the installation. It starts nothing and changes nothing.

mod replaced;
mod sandbox;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use proto::agent::Runtime;
use proto::bridge::BridgeView;
use proto::request::Request;
use proto::response::Response;
use serde::Serialize;

use super::daemon::Unreached;
use crate::config::Config;
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::terminal::{Paint, line};
use crate::{format, model, output, paths, start};

/// Less free space than this is worth a warning, 256 MiB.
const FREE_LOW: u64 = 256 << 20;
/// Less free space than this, 16 MiB, is a failure: the store could not even record it.
const FREE_NONE: u64 = 16 << 20;
/// Files of the state that are looked at, and how deep: `sessions/<id>/agents/<id>/<file>`.
const SET_ASIDE_LOOKED_AT_MAX: u32 = 100_000;
const SET_ASIDE_DEPTH_MAX: u32 = 4;
/// The file system type of memory.
const TMPFS: i64 = 0x0102_1994;

/// Check the installation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 no check failed, 1 one did.\n\nExample: coordctl doctor")]
pub(crate) struct Args {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    what: &'static str,
    level: Level,
    text: String,
}

fn ok(what: &'static str, text: impl Into<String>) -> Check {
    Check { what, level: Level::Ok, text: text.into() }
}

fn warn(what: &'static str, text: impl Into<String>) -> Check {
    Check { what, level: Level::Warn, text: text.into() }
}

fn fail(what: &'static str, text: impl Into<String>) -> Check {
    Check { what, level: Level::Fail, text: text.into() }
}

pub(crate) fn run(context: &mut Context) -> anyhow::Result<Exit> {
    let mut checks = daemon(context);
    let own = coordd_common::processes::euid();
    let socket = context.paths.socket.clone();
    checks.push(ok("socket", format!("{} ({} bytes)", socket.display(), socket.as_os_str().len())));
    checks.extend(passed_over(&context.vars, own));
    if let Some(folder) = socket.parent() {
        checks.push(private_folder("runtime folder", folder, own));
    }
    checks.extend(state_folder(&context.paths.state_dir, own));
    checks.extend(set_aside(&context.paths.state_dir));
    checks.extend(scratch_root(context, own));
    checks.extend(programs(context));
    checks.push(sandbox::check(context));
    checks.extend(bridge(context));
    checks.push(configured_model(context));
    checks.extend(systemd(context));
    if context.json {
        output::json(&serde_json::json!({ "checks": checks }))?;
    } else {
        for check in &checks {
            output::print(&text(context, check))?;
        }
    }
    let failed = checks.iter().any(|check| check.level == Level::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn text(context: &Context, it: &Check) -> String {
    let (word, paint) = match it.level {
        Level::Ok => ("ok  ", Paint::Good),
        Level::Warn => ("warn", Paint::Warn),
        Level::Fail => ("FAIL", Paint::Bad),
    };
    format!("{}  {}: {}\n", context.style.paint(paint, word), it.what, line(&it.text))
}

fn daemon(context: &mut Context) -> Vec<Check> {
    let response = match super::daemon::running(context) {
        Ok(response) => response,
        Err(Unreached::Absent(_)) => {
            return vec![ok("coordd", "does not run; the first command that needs it starts it")];
        }
        Err(why @ (Unreached::Unheard(..) | Unreached::Failed(_))) => {
            let failure = Failure::from(why);
            return vec![fail("coordd", format!("{failure}; {}", failure.hint))];
        }
    };
    let Response::Daemon { daemon } = response else {
        return vec![fail("coordd", "gave an unexpected answer")];
    };
    let own = env!("CARGO_PKG_VERSION");
    let mut checks = vec![ok("coordd", format!("runs (pid {})", daemon.pid))];
    let theirs = context.daemon_version().unwrap_or(&daemon.version).to_owned();
    checks.push(if theirs == own {
        ok("version", own)
    } else {
        warn(
            "version",
            format!("coordd is {theirs} and coordctl {own}: install the same version of both, then run `coordctl daemon restart`"),
        )
    });
    checks.extend(daemon.degraded.into_iter().map(|it| fail("coordd", it)));
    checks.extend(replaced::checks(context, daemon.pid));
    checks
}

/// coordd and coordctl then use another folder, and every other program that wants the socket must,
/// too.
fn passed_over(vars: &paths::Vars, own: u32) -> Option<Check> {
    let named = paths::unusable_runtime_folder(vars, own)?;
    let text = format!(
        "XDG_RUNTIME_DIR is {named}, which is not a folder with mode 0700 that you own, so it is not used: log in again, \
         or unset it"
    );
    Some(warn("runtime folder", text))
}

/// A folder that must be ours and closed to others; coordd creates a missing one.
fn private_folder(what: &'static str, path: &Path, own: u32) -> Check {
    let at = path.display();
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            ok(what, format!("{at} will be created"))
        }
        Err(error) => fail(what, format!("{at}: {error}")),
        Ok(it) if !it.is_dir() => fail(what, format!("{at} is not a folder: remove it")),
        Ok(it) if it.uid() != own => fail(
            what,
            format!(
                "{at} belongs to user {}, not to you ({own}): ask its owner to remove it",
                it.uid()
            ),
        ),
        Ok(it) if it.permissions().mode() & 0o077 != 0 => {
            let mode = it.permissions().mode() & 0o777;
            fail(what, format!("{at} is open to others ({mode:o}): chmod 700 {at}"))
        }
        Ok(_) => ok(what, at.to_string()),
    }
}

fn state_folder(path: &Path, own: u32) -> Vec<Check> {
    let mut checks = vec![private_folder("state folder", path, own)];
    let Some(existing) = path.ancestors().find(|folder| folder.exists()) else { return checks };
    if rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_err() {
        checks.push(fail("state folder", format!("{} is not writable", existing.display())));
    }
    if let Ok(it) = rustix::fs::statvfs(existing) {
        checks.push(free_space(it.f_bavail.saturating_mul(it.f_frsize)));
    }
    checks
}

/// What coordd and its agents could not read and kept under another name. It fails until somebody
/// has looked.
fn set_aside(state: &Path) -> Vec<Check> {
    let mut found = Vec::new();
    let mut folders = vec![(state.to_path_buf(), 0)];
    let mut left = SET_ASIDE_LOOKED_AT_MAX;
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            left -= 1;
            if left == 0 {
                return found;
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth < SET_ASIDE_DEPTH_MAX {
                folders.push((entry.path(), depth + 1));
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_log = name.ends_with("-wal") || name.ends_with("-shm");
            if !is_folder && name.contains(".corrupt-") && !is_log {
                found.push(fail(
                    "set aside",
                    format!(
                        "{} was damaged and set aside: look at it, then move it away",
                        entry.path().display()
                    ),
                ));
            }
        }
    }
    found
}

fn free_space(bytes: u64) -> Check {
    let text = format!("{} free for coordd's state", format::bytes(bytes));
    match bytes {
        0..FREE_NONE => {
            fail("disk", format!("{text}: free some space, or nothing can be accepted"))
        }
        FREE_NONE..FREE_LOW => warn("disk", format!("{text}: free some space soon")),
        _ => ok("disk", text),
    }
}

fn scratch_root(context: &Context, own: u32) -> Vec<Check> {
    let temp = paths::absolute(&context.vars, "CLAUDE_CODE_TMPDIR")
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let mut checks = vec![private_folder("scratchpads", &temp.join(format!("claude-{own}")), own)];
    let in_memory =
        rustix::fs::statfs(&temp).is_ok_and(|stat| i128::from(stat.f_type) == i128::from(TMPFS));
    if in_memory {
        let text = format!(
            "{} is kept in memory: scratchpads are lost when the machine restarts",
            temp.display()
        );
        checks.push(warn("scratchpads", text));
    }
    checks
}

fn programs(context: &Context) -> Vec<Check> {
    let found = |what: &'static str, path: Option<PathBuf>, missing: &str| match path {
        Some(path) => ok(what, path.display().to_string()),
        None => fail(what, missing),
    };
    vec![
        found(
            "coordd program",
            paths::program(&context.vars, "COORDD_BIN", "coordd"),
            "not found beside coordctl or in PATH: install it there",
        ),
        found(
            "coordd-worker program",
            paths::program(&context.vars, "COORDD_WORKER", "coordd-worker"),
            "not found beside coordctl or in PATH: install it beside coordd",
        ),
        match claude(context) {
            Some(path) => ok("claude program", path),
            None => ok(
                "claude program",
                "not found in PATH: needed only for `--runtime claude` and `--lead claude`",
            ),
        },
        match paths::program(&context.vars, "COORDD_BRIDGE", "coordd-bridge") {
            Some(path) => ok("coordd-bridge program", path.display().to_string()),
            None => warn(
                "coordd-bridge program",
                "not found beside coordctl or in PATH: other machines cannot be reached",
            ),
        },
        match paths::in_path(&context.vars, "git") {
            Some(path) => ok("git", path.display().to_string()),
            None => warn("git", "not found in PATH: agents cannot show or compare changes"),
        },
    ]
}

/// Where agents would find Claude Code.
fn claude(context: &Context) -> Option<String> {
    let config = Config::load(&context.paths.config_file).unwrap_or_default();
    let given = context.vars.get(crate::env::CLAUDE).cloned();
    let given =
        given.or_else(|| config.claude_path.map(|claude_path| claude_path.display().to_string()));
    given.or_else(|| Some(paths::in_path(&context.vars, "claude")?.display().to_string()))
}

/// The state of the bridge, if there is one. A daemon is not started for this check.
fn bridge(context: &mut Context) -> Vec<Check> {
    match context.call_running(Request::BridgeStatus {}) {
        Ok(Response::Bridge { bridge }) if bridge.on => bridge_checks(&bridge),
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn bridge_checks(it: &BridgeView) -> Vec<Check> {
    if !it.running {
        let why = if it.trouble.is_empty() { "it is being started" } else { &it.trouble };
        let text = format!("its process does not run: {why}; see bridge.log in the state folder");
        return vec![fail("bridge", text)];
    }
    if !it.connected || !it.trouble.is_empty() {
        let why = if it.trouble.is_empty() { "the server does not answer" } else { &it.trouble };
        return vec![warn("bridge", format!("{}: {why}; messages wait", it.server))];
    }
    let mut checks = vec![ok("bridge", format!("connected to {}", it.server))];
    if it.replicas <= 1 {
        checks.push(warn(
            "bridge",
            "one server keeps what is on its way. Unless its sync_interval is `always`, which it does not tell, it may lose \
             the last two minutes with its power; coordd sends that again, but not before both machines are there at once",
        ));
    }
    // What was passed over was nobody's fault and is over.
    let refused: u64 = it.refused.iter().map(|(_, count)| count).sum();
    if refused > 0 {
        let text = format!("{refused} messages were refused; `coordctl bridge status` says why");
        checks.push(warn("bridge", text));
    }
    checks
}

fn configured_model(context: &Context) -> Check {
    let config = match Config::load(&context.paths.config_file) {
        Ok(config) => config,
        Err(error) => return fail("configuration", error.to_string()),
    };
    let from = model::Sources { config: &config, vars: &context.vars, cwd: Path::new("/") };
    let runtimes = [config.runtime, config.lead].map(Option::unwrap_or_default);
    match model::resolve(None, from, runtimes.contains(&Runtime::Native)) {
        Ok(None) => ok("model", "not needed: the runtime brings its own"),
        Ok(Some(model)) => {
            let env = crate::env::for_agents(&context.vars, &config);
            match model::check_key(&model, &env) {
                Ok(()) => ok("model", crate::words::model(&model)),
                Err(error) => warn("model", format!("{error}: {}", error.hint)),
            }
        }
        Err(error) => warn(
            "model",
            format!(
                "{error}; `coordctl help models` says how to set one; `coordctl demo` needs none"
            ),
        ),
    }
}

fn systemd(context: &Context) -> Vec<Check> {
    if !start::user_manager_runs(&context.vars) {
        return vec![ok("systemd", "no systemd user manager here; coordctl starts coordd itself")];
    }
    let mut checks = vec![if start::unit_is_installed(&context.paths) {
        ok("systemd", "the unit is installed")
    } else {
        ok("systemd", "the unit is not installed; `coordctl daemon install` installs it")
    }];
    let user = ["USER", "LOGNAME"].iter().find_map(|name| context.vars.get(*name));
    let lingers = user.is_some_and(|user| Path::new("/var/lib/systemd/linger").join(user).exists());
    if !lingers && start::unit_is_installed(&context.paths) {
        checks.push(warn(
            "linger",
            "coordd stops with your last logout; `loginctl enable-linger` keeps it running",
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_folder_that_is_not_there_is_said() {
        let vars =
            |path: &str| paths::Vars::from([("XDG_RUNTIME_DIR".to_owned(), path.to_owned())]);
        let check = passed_over(&vars("/nonexistent/run"), 7).unwrap();
        assert_eq!(check.level, Level::Warn);
        assert!(check.text.contains("/nonexistent/run"), "{}", check.text);
        assert_eq!(passed_over(&paths::Vars::new(), 7), None);
    }

    #[test]
    fn a_folder_that_others_can_enter_fails_with_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        let own = coordd_common::processes::euid();
        let path = folder.path().join("run");
        assert_eq!(private_folder("f", &path, own).level, Level::Ok);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(private_folder("f", &path, own).level, Level::Ok);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let check = private_folder("f", &path, own);
        assert!(check.level == Level::Fail && check.text.contains("chmod 700"), "{check:?}");
        assert_eq!(private_folder("f", &path, own + 1).level, Level::Fail);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(private_folder("f", &link, own).level, Level::Fail);
    }

    #[test]
    fn rel98_the_bridge_and_its_server_are_judged() {
        let good = BridgeView {
            on: true,
            running: true,
            connected: true,
            replicas: 3,
            ..BridgeView::default()
        };
        let levels = |it: BridgeView| -> Vec<Level> {
            bridge_checks(&it).into_iter().map(|check| check.level).collect()
        };
        assert_eq!(levels(good.clone()), [Level::Ok]);
        assert_eq!(levels(BridgeView { running: false, ..good.clone() }), [Level::Fail]);
        assert_eq!(levels(BridgeView { connected: false, ..good.clone() }), [Level::Warn]);
        assert_eq!(levels(BridgeView { replicas: 1, ..good.clone() }), [Level::Ok, Level::Warn]);
        let passed_over = vec![("it came before".to_owned(), 7)];
        assert_eq!(levels(BridgeView { passed_over, ..good.clone() }), [Level::Ok]);
        let refused = vec![("forged".to_owned(), 1)];
        assert_eq!(levels(BridgeView { refused, ..good }), [Level::Ok, Level::Warn]);
    }

    #[test]
    fn free_space_is_judged() {
        assert_eq!(free_space(1 << 20).level, Level::Fail);
        assert_eq!(free_space(100 << 20).level, Level::Warn);
        assert_eq!(free_space(1 << 40).level, Level::Ok);
    }
}
