//! What a tool call may know: where it works, with which environment, and whether it is to stop.
//!
//! The context is cheap to clone; its parts that change (files seen, todo list) are shared. It must
//! hold no model key.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::paths;
use super::seen::SeenFiles;
use super::todo_write::TodoList;
use super::walls::{Reach, Walls};

/// Longest text that a tool hands to the model, unless the caller says otherwise.
pub(crate) const OUTPUT_LEN_MAX: usize = 30_000;

/// Environment variables that no tool sees, whatever the caller passes: keys of the model and our
/// own tokens.
const SECRET_NAMES: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
];

/// Tells whether a path is hidden from `Read`, `Grep` and `Glob`.
pub(crate) type PathFilter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// What a tool call may know.
#[derive(Clone)]
pub(crate) struct ToolContext {
    /// The workspace; relative paths start here.
    pub(crate) cwd: PathBuf,
    pub(crate) scratchpad: Option<PathBuf>,
    /// Other folders in which edits need no approval.
    pub(crate) additional_dirs: Vec<PathBuf>,
    /// Longest text for the model, in bytes.
    pub(crate) output_len_max: usize,
    /// Ends running calls.
    pub(crate) stop: Stop,
    /// Paths that a rule hides; `Grep` and `Glob` leave them out of their results.
    pub(crate) hidden: Option<PathFilter>,
    /// Paths that a search leaves out unless it begins at one of them.
    pub(crate) withheld: Option<PathFilter>,
    pub(crate) seen: Arc<SeenFiles>,
    pub(crate) todos: Arc<TodoList>,
    /// The box in which commands run; none where there is none.
    pub(crate) walls: Option<Arc<Walls>>,
    /// How far a command reaches.
    pub(crate) reach: Reach,
    /// The path of a file tool's call, as it was judged: the tool works there and nowhere else (fP10).
    pub(crate) decided: Option<PathBuf>,
    /// What the first command is to say to the model.
    pub(crate) remark: Arc<Mutex<Option<String>>>,
    environment: Arc<BTreeMap<OsString, OsString>>,
    /// The workspace without symlinks, as the paths of results are.
    real_cwd: PathBuf,
}

impl ToolContext {
    /// A context with the environment that tools pass to their processes. Secrets are taken out of
    /// it.
    pub(crate) fn new(cwd: PathBuf, environment: BTreeMap<OsString, OsString>) -> Self {
        let environment = environment.into_iter().filter(|(name, _)| !is_secret(name)).collect();
        let real_cwd = paths::resolve(&cwd).unwrap_or_else(|_| cwd.clone());
        Self {
            cwd,
            scratchpad: None,
            additional_dirs: Vec::new(),
            output_len_max: OUTPUT_LEN_MAX,
            stop: Stop::never(),
            hidden: None,
            withheld: None,
            seen: Arc::default(),
            todos: Arc::default(),
            walls: None,
            reach: Reach::default(),
            decided: None,
            remark: Arc::default(),
            environment: Arc::new(environment),
            real_cwd,
        }
    }

    /// The same context for another turn, ended by another switch.
    pub(crate) fn with_stop(&self, stop: Stop) -> Self {
        Self { stop, ..self.clone() }
    }

    /// The same context for a call that was judged so.
    pub(crate) fn judged(&self, reach: Reach, decided: Option<PathBuf>) -> Self {
        Self { reach, decided, ..self.clone() }
    }

    /// What is still to be said with the next answer, once.
    pub(crate) fn take_remark(&self) -> Option<String> {
        self.remark.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The environment of a tool's process.
    pub(crate) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    pub(crate) fn real_cwd(&self) -> &Path {
        &self.real_cwd
    }

    pub(crate) fn hides(&self, path: &Path) -> bool {
        self.hidden.as_ref().is_some_and(|hides| hides(path))
    }

    /// The path as a result shows it: relative if it is in the workspace.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> &'a Path {
        match path.strip_prefix(&self.real_cwd) {
            Ok(rest) if !rest.as_os_str().is_empty() => rest,
            Ok(_) | Err(_) => path,
        }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let ours = name.starts_with("COORDD_")
        && ["TOKEN", "SECRET", "KEY"].iter().any(|part| name.contains(part));
    // Other names of the model's keys. What the user names for the tools in `env_allow` is theirs
    // to have.
    let model = ["ANTHROPIC_", "OPENAI_"].iter().any(|it| name.starts_with(it))
        && ["TOKEN", "SECRET", "KEY", "HEADERS"].iter().any(|part| name.contains(part));
    ours || model || name.starts_with("LISTEN_FD") || SECRET_NAMES.contains(&name.as_ref())
}

/// Ends the calls that hold the matching [`Stop`].
#[derive(Debug)]
pub(crate) struct StopSwitch(watch::Sender<bool>);

/// Told when a call is to end.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl StopSwitch {
    pub(crate) fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// One that never comes.
    pub(crate) fn never() -> Self {
        StopSwitch::new().1
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the stop; for ever, if its switch is gone.
    pub(crate) async fn stopped(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|it| *it).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rel-37: no tool sees a key of the model, a token of ours or a socket of the service manager.
    #[test]
    fn secrets_are_taken_out_of_the_environment() {
        let given = [
            ("PATH", "/bin"),
            ("COORDD_SCRATCHPAD", "/s"),
            ("COORDD_TOKEN", "t"),
            ("COORDD_AGENT_TOKEN", "t"),
            ("ANTHROPIC_API_KEY", "k"),
            ("ANTHROPIC_AUTH_TOKEN", "k"),
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_ADMIN_KEY", "k"),
            ("ANTHROPIC_FOUNDRY_API_KEY", "k"),
            ("ANTHROPIC_CUSTOM_HEADERS", "x-api-key: k"),
            ("OPENAI_BASE_URL", "http://x"),
            ("STRIPE_API_KEY", "named in env_allow"),
            ("NOTIFY_SOCKET", "/n"),
            ("LISTEN_FDS", "1"),
            ("LISTEN_FDNAMES", "a"),
        ];
        let environment = given.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let context = ToolContext::new(PathBuf::from("/w"), environment);
        let names: Vec<_> = context.environment().keys().collect();
        assert_eq!(names, ["COORDD_SCRATCHPAD", "OPENAI_BASE_URL", "PATH", "STRIPE_API_KEY"]);
    }

    #[test]
    fn a_result_in_a_workspace_behind_a_symlink_is_shown_relative() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let context = ToolContext::new(dir.path().join("link"), BTreeMap::new());
        assert_eq!(context.shown(&real.join("a")), Path::new("a"));
        assert_eq!(context.shown(Path::new("/x/a")), Path::new("/x/a"));
    }

    #[tokio::test]
    async fn a_stop_reaches_those_that_wait_and_those_that_ask() {
        let (switch, stop) = StopSwitch::new();
        assert!(!stop.is_stopped());
        let waiting = tokio::spawn({
            let stop = stop.clone();
            async move { stop.stopped().await }
        });
        switch.stop();
        waiting.await.unwrap();
        assert!(stop.is_stopped());
    }

    #[tokio::test]
    async fn a_lost_switch_stops_nothing() {
        let stop = Stop::never();
        assert!(!stop.is_stopped());
        tokio::select! {
            biased;
            () = stop.stopped() => panic!("stopped by nobody"),
            () = tokio::task::yield_now() => {}
        }
    }
}
