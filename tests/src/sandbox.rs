//! A place of its own for one test: folders, an environment, programs run in it. What was started
//! there ends with it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{self, Process};

/// For one program that ends by itself. The longest is `coordctl demo`.
const PROGRAM_LIMIT: Duration = Duration::from_mins(2);
/// How much of each log a failed test shows.
const LOG_LINES_MAX: usize = 60;

/// The folder's parts: runtime, home, state, configuration, temporary files of sessions and of
/// programs, workspace.
const FOLDERS: [&str; 7] = ["r", "h", "s", "c", "t", "tmp", "w"];

/// A folder with an environment.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    vars: BTreeMap<String, String>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// A new one. Its path is short, since a socket's path must stay under 100 bytes.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("ct.").tempdir_in("/tmp").unwrap();
        let root = folder.path().to_owned();
        for name in FOLDERS {
            fs::DirBuilder::new().mode(0o700).create(root.join(name)).unwrap();
        }
        let mut vars = BTreeMap::new();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        for (name, folder) in [
            ("XDG_RUNTIME_DIR", "r"),
            ("HOME", "h"),
            ("XDG_STATE_HOME", "s"),
            ("XDG_CONFIG_HOME", "c"),
            ("CLAUDE_CODE_TMPDIR", "t"),
            ("TMPDIR", "tmp"),
        ] {
            vars.insert(name.to_owned(), at(folder));
        }
        for (name, value) in [
            ("LANG", "C.UTF-8"),
            ("RUST_LOG", "info"),
            ("NO_PROXY", "127.0.0.1,localhost"),
            ("no_proxy", "127.0.0.1,localhost"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            // Should the test be killed, its agents end by themselves.
            ("COORDD_ORPHAN_LIMIT_S", "120"),
        ] {
            vars.insert(name.to_owned(), value.to_owned());
        }
        vars.insert("PATH".to_owned(), std::env::var("PATH").unwrap());
        // The toolchain stays where it is, although HOME does not.
        if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
            for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
                let given = std::env::var_os(name).map_or_else(|| home.join(folder), PathBuf::from);
                if given.is_dir() {
                    vars.insert(name.to_owned(), given.to_str().unwrap().to_owned());
                }
            }
        }
        Self { folder, vars }
    }

    /// The whole of it.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A path in it.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// The folder in which sessions work.
    pub fn work(&self) -> PathBuf {
        self.at("w")
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> PathBuf {
        self.at("r/coordd/coordd.sock")
    }

    /// Where the daemon keeps its state.
    pub fn state(&self) -> PathBuf {
        self.at("s/coordd")
    }

    /// Where the daemon's output goes.
    pub fn log(&self) -> PathBuf {
        self.at("coordd.log")
    }

    /// All of the log so far.
    pub fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// The environment of everything that is started here from now on.
    pub fn vars(&self) -> &BTreeMap<String, String> {
        &self.vars
    }

    /// Sets a variable of it.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.vars.insert(name.to_owned(), value.into());
    }

    /// Removes a variable of it.
    pub fn unset(&mut self, name: &str) {
        self.vars.remove(name);
    }

    /// Writes a file in it. Returns its path.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a program in it.
    pub fn write_program(&self, path: &str, text: &str) -> PathBuf {
        let path = self.write(path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    /// Makes the workspace a git repository with one commit.
    pub fn git_repo(&self) -> PathBuf {
        self.write("w/README", "A repository.\n");
        let ran = self.shell(
            "git init -q -b main . && git add . && \
             git -c user.name=t -c user.email=t@localhost commit -q -m first",
        );
        assert_eq!(ran.code, 0, "{ran:?}");
        self.work()
    }

    /// A program to be started in the workspace, with this environment alone.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().envs(&self.vars).current_dir(self.work()).stdin(Stdio::null());
        command
    }

    /// Runs a shell script in the workspace.
    pub fn shell(&self, script: &str) -> Ran {
        let mut command = self.command("/bin/sh");
        command.args(["-c", script]);
        Ran::of(command, "")
    }

    /// Runs coordctl to its end.
    pub fn coordctl(&self, arguments: &[&str]) -> Ran {
        self.coordctl_with(arguments, &[], "")
    }

    /// The same with further variables and with something to read.
    pub fn coordctl_with(&self, arguments: &[&str], vars: &[(&str, &str)], stdin: &str) -> Ran {
        let mut command = self.command(program("coordctl"));
        command.args(arguments).envs(vars.iter().copied());
        Ran::of(command, stdin)
    }

    /// The same for what must succeed with one JSON document.
    pub fn coordctl_json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let ran = self.coordctl(&arguments);
        assert_eq!(ran.code, 0, "coordctl {arguments:?}: {ran:?}");
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("coordctl {arguments:?}: {error}: {ran:?}"))
    }

    /// What runs here.
    pub fn processes(&self) -> Vec<Process> {
        processes::of(self.root())
    }

    /// Fails when something runs here, after giving it the time to end.
    pub fn assert_nothing_runs(&self) {
        let deadline = Instant::now() + crate::wait::CONDITION_LIMIT;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still there: {left:#?}");
            std::thread::yield_now();
        }
    }

    fn show_logs(&self) {
        let mut logs = vec![self.log(), self.state().join("coordd.log")];
        find(&self.state().join("sessions"), &mut logs);
        for log in logs {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            if !lines.is_empty() {
                let shown = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
                eprintln!("--- the end of {}\n{}", log.display(), shown.join("\n"));
            }
        }
    }
}

/// Files below a folder that are logs.
fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, found);
        } else if path.to_string_lossy().contains("log") {
            found.push(path);
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
            // A second panic would hide the first.
            for process in self.processes() {
                process.kill9();
            }
        } else {
            processes::end_all(self.root());
        }
    }
}

/// A program of this workspace, as built beside this test.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.parent().and_then(Path::parent).expect("target/debug/deps");
    let path = folder.join(name);
    assert!(path.exists(), "{} is not built; cargo build --workspace", path.display());
    path
}

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; 128 and more for a signal.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Runs it to its end.
    pub fn of(mut command: Command, stdin: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self::finish(child, stdin, &format!("{command:?}"))
    }

    /// Waits for the end of a program whose three streams are pipes.
    pub fn finish(mut child: Child, stdin: &str, what: &str) -> Self {
        let mut input = child.stdin.take().expect("a pipe");
        let text = stdin.to_owned();
        let writer = std::thread::spawn(move || {
            let _closed = input.write_all(text.as_bytes());
        });
        let stdout = drained(child.stdout.take().expect("a pipe"));
        let stderr = drained(child.stderr.take().expect("a pipe"));
        let deadline = Instant::now() + PROGRAM_LIMIT;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                let _gone = child.kill();
                let _reaped = child.wait();
                panic!(
                    "{what} has not ended within {PROGRAM_LIMIT:?}; so far:\n{}",
                    stdout.join().unwrap()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        writer.join().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default();
        Self {
            code: status.code().unwrap_or(128 + signal),
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }

    /// Both streams, for looking at what a person would see.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The lines of stdout, each a JSON document.
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{self:?}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

fn drained(mut stream: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _broken = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
