//! D-1, D-6, D-9: coordd under a real `systemd --user`, with the units that `coordctl daemon
//! install` writes.
//!
//! Each test has a user manager of its own (`tests/systemd/user-manager`), for an ordinary user in
//! namespaces of its own. The programs are the ones that `cargo build --workspace` made.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PROGRAMS: [&str; 3] = ["coordctl", "coordd", "coordd-worker"];

/// For one command. The longest is a `stop`, for which the unit has 20 seconds.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// For a condition that is to come about by itself.
const CONDITION_LIMIT: Duration = Duration::from_secs(10);

/// Lines that a command may print before anybody reads them.
const LINES_MAX: usize = 10_000;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests has a parent")
}

/// `target/debug`, where this test was built, too.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    test.parent().and_then(Path::parent).expect("target/debug/deps").to_owned()
}

/// A folder that every user can read: the programs' own may be in somebody's home.
fn shared_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("sd.").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

/// A user's shell under a user manager of its own. Ends, with all that was started in it, when
/// dropped.
struct User {
    process: Child,
    shell: Option<ChildStdin>,
    lines: Receiver<String>,
    programs: TempDir,
}

impl User {
    /// A user who has done `coordctl daemon install`, and nothing else.
    fn with_units_installed() -> Self {
        let user = Self::log_in();
        user.run("coordctl daemon install");
        // Only so that a failed test can show what the daemon said: there is no journal in here.
        user.run(
            "mkdir -p ~/.config/systemd/user/coordd.service.d && printf '[Service]\\nStandardError=append:%%h/log\\n' \
             > ~/.config/systemd/user/coordd.service.d/log.conf && systemctl --user daemon-reload",
        );
        user
    }

    fn log_in() -> Self {
        let programs = shared_folder();
        for name in PROGRAMS {
            let from = built().join(name);
            let to = programs.path().join(name);
            std::fs::copy(&from, &to)
                .unwrap_or_else(|e| panic!("{}: {e}; cargo build --workspace", from.display()));
            std::fs::set_permissions(to, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let mut process = Command::new(repository().join("tests/systemd/user-manager"))
            .args(["RUST_LOG=info", "bash", "--noprofile", "--norc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script starts");
        let (send, lines) = sync_channel(LINES_MAX);
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let shell = process.stdin.take();
        let user = Self { process, shell, lines, programs };
        user.run(&format!("export PATH={}:$PATH", user.programs.path().display()));
        user
    }

    /// Runs shell commands; returns their exit code and all that they printed.
    fn attempt(&self, script: &str) -> (i32, String) {
        const END: &str = "end-of-command ";
        let mut shell = self.shell.as_ref().expect("open until dropped");
        // The marker has a line of its own, whatever the script printed last.
        writeln!(shell, "{{ {script}\n}} 2>&1 </dev/null; printf '\\n{END}%s\\n' $?")
            .expect("a shell");
        let deadline = Instant::now() + COMMAND_LIMIT;
        let mut printed = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|error| {
                panic!("`{script}`: {error:?} after {printed:?}; is the manager's complaint above?")
            });
            if let Some(code) = line.strip_prefix(END) {
                return (code.parse().expect("an exit code"), printed.trim().to_owned());
            }
            printed.push_str(&line);
            printed.push('\n');
        }
    }

    /// The same for commands that must succeed; returns what they printed.
    fn run(&self, script: &str) -> String {
        let (code, printed) = self.attempt(script);
        if code != 0 {
            let (_, log) = self.attempt("systemctl --user status coordd.socket coordd; cat ~/log");
            panic!("`{script}` ended with {code}:\n{printed}\n--- state and log:\n{log}");
        }
        printed
    }

    /// A property of the service, as `systemctl show` has it.
    fn service(&self, property: &str) -> String {
        self.run(&format!("systemctl --user show coordd.service --property {property} --value"))
    }

    fn pid(&self) -> u32 {
        self.service("MainPID").parse().expect("a process id")
    }

    /// Asks again until it is so. Each question is a process, so this needs no pause.
    fn until(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + CONDITION_LIMIT;
        while !so(self) {
            if Instant::now() > deadline {
                let (_, log) =
                    self.attempt("systemctl --user status coordd.socket coordd; cat ~/log");
                panic!("not within {CONDITION_LIMIT:?}: {what}\n{log}");
            }
        }
    }

    /// A client's question is answered.
    fn assert_client_works(&self) {
        // First one that starts the daemon; to ask for its state does not.
        for question in ["coordctl ls --json", "coordctl daemon status --json"] {
            let answer = self.run(question);
            let parsed = serde_json::from_str::<serde_json::Value>(&answer);
            assert!(parsed.is_ok(), "`{question}` is to print JSON: {answer}");
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // The shell ends at the end of its input, then the manager and the namespaces.
        drop(self.shell.take());
        let _ended = self.process.wait();
    }
}

#[test]
fn units_are_well_formed() {
    let folder = shared_folder();
    let coordd = folder.path().join("coordd");
    std::fs::write(&coordd, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&coordd, PermissionsExt::from_mode(0o755)).unwrap();
    let mut units = Vec::new();
    for name in ["coordd.service", "coordd.socket"] {
        let unit = std::fs::read_to_string(repository().join("systemd").join(name)).unwrap();
        let unit = unit.replace("@bindir@", folder.path().to_str().unwrap());
        assert!(!unit.lines().any(|line| !line.starts_with('#') && line.contains('@')), "{unit}");
        units.push(folder.path().join(name));
        std::fs::write(folder.path().join(name), unit).unwrap();
    }
    let verified = Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .args(&units)
        .env("XDG_RUNTIME_DIR", folder.path())
        .output()
        .expect("systemd-analyze runs; tests/run installs systemd");
    // An unknown setting is a warning only, and about units of others we say nothing.
    let said = String::from_utf8_lossy(&verified.stderr);
    let about_ours: Vec<_> = said.lines().filter(|line| line.contains("coordd")).collect();
    assert!(verified.status.success() && about_ours.is_empty(), "{said}");
}

#[test]
fn start_is_done_when_the_daemon_is_ready() {
    let user = User::with_units_installed();
    user.run("systemctl --user start coordd");
    assert_eq!(user.service("ActiveState"), "active");
    assert_ne!(user.service("StatusText"), "", "the daemon says what it is doing");
    assert_eq!(
        user.run("stat -c %a $XDG_RUNTIME_DIR/coordd $XDG_RUNTIME_DIR/coordd/coordd.sock"),
        "700\n600"
    );
    user.assert_client_works();
    // It serves the manager's socket and made none of its own.
    assert_eq!(user.run("systemctl --user is-active coordd.socket"), "active");
    assert_eq!(user.service("NRestarts"), "0");
}

#[test]
fn the_first_client_starts_the_daemon() {
    let user = User::with_units_installed();
    user.run("systemctl --user stop coordd.service && systemctl --user start coordd.socket");
    assert_eq!(user.service("ActiveState"), "inactive");
    user.assert_client_works();
    assert_eq!(user.service("ActiveState"), "active");
    // Once more after a stop: the socket has stayed.
    user.run("systemctl --user stop coordd.service");
    user.assert_client_works();
}

/// rel-61: what the manager holds open is not the daemon's to remove.
#[test]
fn the_socket_outlives_the_daemon() {
    let user = User::with_units_installed();
    let socket = "stat -c %i $XDG_RUNTIME_DIR/coordd/coordd.sock";
    user.run("systemctl --user start coordd");
    let before = user.run(socket);
    user.run("systemctl --user restart coordd");
    user.run("systemctl --user stop coordd.service");
    assert_eq!(user.run(socket), before);
}

/// rel-58
#[test]
fn restart_and_stop_are_orderly() {
    let user = User::with_units_installed();
    user.run("systemctl --user start coordd");
    let before = user.pid();
    user.run("systemctl --user restart coordd");
    assert_eq!(user.service("ActiveState"), "active");
    assert_ne!(user.pid(), before);
    user.assert_client_works();
    user.run("systemctl --user stop coordd.service");
    assert_eq!(user.service("ActiveState"), "inactive");
    assert_eq!(user.service("Result"), "success", "it ended by itself, and well");
    assert_eq!(user.service("NRestarts"), "0");
    assert_eq!(user.attempt("pgrep --exact coordd").0, 1, "nothing of it is left");
}

/// What a person asked for is not undone by `Restart=`.
#[test]
fn the_client_stops_and_starts_it_too() {
    let user = User::with_units_installed();
    user.run("systemctl --user start coordd");
    user.run("coordctl daemon stop");
    user.until("stopped", |user| user.service("ActiveState") == "inactive");
    assert_eq!(user.service("Result"), "success");
    user.run("coordctl daemon start");
    user.assert_client_works();
    let before = user.pid();
    user.run("coordctl daemon restart");
    user.until("a new daemon", |user| {
        user.pid() != before && user.service("ActiveState") == "active"
    });
    user.assert_client_works();
}

#[test]
fn killed_it_is_started_again_and_no_client_is_turned_away() {
    let user = User::with_units_installed();
    user.run("systemctl --user start coordd");
    let before = user.pid();
    user.run("systemctl --user kill --signal KILL coordd.service");
    // At once: the socket takes the call, and the next daemon answers it.
    user.assert_client_works();
    user.until("a new daemon", |user| {
        user.pid() != before && user.service("ActiveState") == "active"
    });
    assert_eq!(user.service("NRestarts"), "1");
    user.assert_client_works();
}

/// The process of a session's lead, if it has one.
fn lead_pid(user: &User, session: &str) -> Option<u64> {
    let answer = user.run(&format!("coordctl status {session} --json"));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["session_detail"]["agents"][0]["pid"].as_u64()
}

/// D-6, rel-24, rel-25, D3: agents outlive a restart and a kill -9 of the unit, and go on talking;
/// a stop ends them in order, and the session can be resumed.
#[test]
fn d6_agents_outlive_the_unit_but_not_its_stop() {
    let user = User::with_units_installed();
    user.run(
        "mkdir -p ~/project && cd ~/project && coordctl new --name keep --model rehearsal hello",
    );
    user.run("coordctl wait keep");
    let lead = lead_pid(&user, "keep").expect("an idle lead has a process");
    user.run("systemctl --user restart coordd");
    user.run("coordctl send keep 'after a restart' --wait && coordctl wait keep");
    assert_eq!(lead_pid(&user, "keep"), Some(lead), "the same process was adopted");
    let before = user.pid();
    // Not `systemctl kill`, which would take the agents too.
    user.run(&format!("kill -KILL {before}"));
    user.run("coordctl send keep 'after a kill' --wait && coordctl wait keep");
    assert_ne!(user.pid(), before);
    assert_eq!(lead_pid(&user, "keep"), Some(lead), "the same process was adopted");
    user.run("systemctl --user stop coordd.service");
    assert_eq!(user.attempt(&format!("test -d /proc/{lead}")).0, 1, "stopped in order");
    assert_eq!(user.service("Result"), "success");
    let listed = user.run("coordctl ls");
    assert!(listed.contains("stopped"), "{listed}");
    user.run("coordctl resume keep && coordctl send keep 'and on' --wait && coordctl wait keep");
    let said = user.run("coordctl logs keep");
    for words in ["hello", "after a restart", "after a kill", "and on"] {
        assert_eq!(said.matches(words).count(), 1, "{said}");
    }
}

/// rel-63: no pings, so the watchdog ends it; stopped is as stuck as a program can be.
#[test]
fn stuck_it_is_started_again() {
    let user = User::with_units_installed();
    user.run(
        "printf '[Service]\\nWatchdogSec=1\\n' > ~/.config/systemd/user/coordd.service.d/watchdog.conf && \
         systemctl --user daemon-reload && systemctl --user start coordd",
    );
    let before = user.pid();
    user.run(&format!("kill -STOP {before}"));
    user.until("a new daemon", |user| {
        user.pid() != before && user.service("ActiveState") == "active"
    });
    user.assert_client_works();
    // One that pings is left alone for longer than the watchdog's time.
    let pid = user.pid();
    let since = Instant::now();
    user.until("three seconds with the same daemon", |user| {
        assert_eq!(user.pid(), pid, "a daemon that is well was killed");
        since.elapsed() > Duration::from_secs(3)
    });
}
