//! L-1, L-2: every verb as a program uses it, `attach` without and with a terminal, and nothing
//! that an agent writes reaches the terminal as more than text.

use std::process::Stdio;
use std::time::Duration;

use proto::request::Request;
use serde_json::{Value, json};
use tests::processes::Process;
use tests::rehearsal::{bash, call, lead, say, script, start, worker};
use tests::sandbox::program;
use tests::wait::{until, until_true};
use tests::{Daemon, Ran, Sandbox};

/// A scripted session named `dates` that rests after its first answer.
fn dates(daemon: &Daemon, steps: &Value) -> String {
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(steps)])));
    new.name = "dates".into();
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let mut client = daemon.client();
    client.new_session(new);
    client.agent_until("dates/lead", "rests", |agent| agent.runs == 1);
    "dates".into()
}

/// The verbs, as the help lists them.
fn verbs(sandbox: &Sandbox) -> Vec<String> {
    let help = sandbox.coordctl(&["--help"]).stdout;
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .filter(|it| it != "help")
        .collect()
}

#[test]
fn l1_every_verb_has_help_with_an_example() {
    let sandbox = Sandbox::new();
    let verbs = verbs(&sandbox);
    for wanted in
        "demo run new attach ls status send wait stop resume rm logs events permit usage team task \
                   scratchpad daemon doctor completions"
            .split_whitespace()
    {
        assert!(verbs.iter().any(|verb| verb == wanted), "no `{wanted}` in {verbs:?}");
    }
    for verb in &verbs {
        let help = sandbox.coordctl(&[verb, "--help"]);
        assert_eq!(help.code, 0, "{help:?}");
        assert!(help.stdout.contains("Example"), "{verb}: {}", help.stdout);
        assert!(help.stdout.contains(&format!("coordctl {verb}")), "{verb}: {}", help.stdout);
        assert!(help.stdout.contains("--json"), "{verb}: {}", help.stdout);
    }
    assert!(sandbox.coordctl(&["--help"]).stdout.contains("Exit codes: 0 done"));
    sandbox.assert_nothing_runs();
}

#[test]
fn l1_every_verb_prints_json() {
    let daemon = Daemon::start();
    let session = dates(&daemon, &json!([say("Hello."), say("Again."), say("More.")]));
    let s = session.as_str();
    let says = script(&json!([lead(&json!([say("Hello.")]))])).to_string();
    let scripted = format!("rehearsal:{}", daemon.write("says.json", says).display());
    for arguments in [
        ["ls"].as_slice(),
        &["status"],
        &["status", s],
        &["send", s, "and now?"],
        &["send", s, "a note", "--summary", "a note"],
        &["wait", s, "--timeout", "20"],
        &["logs", s],
        &["logs", s, "-n", "2"],
        &["usage"],
        &["usage", s],
        &["permit"],
        &["permit", "ls", s],
        &["team", "create", s, "alpha"],
        &["team", "ls"],
        &["team", "show", "alpha"],
        &["task", "add", "alpha", "first"],
        &["task", "ls", "alpha"],
        &["task", "show", "alpha", "1"],
        &["task", "claim", "alpha", "1", "--as", "lead"],
        &["task", "done", "alpha", "1"],
        &["team", "delete", "alpha"],
        &["scratchpad", "ls", s],
        &["scratchpad", "path", s],
        &["daemon", "status"],
        &["daemon", "start"],
        &["doctor"],
        &["stop", "dates/lead"],
        &["stop", s],
        &["resume", s],
        &["rm", s, "--force"],
        &["new", "--model", "rehearsal", "--name", "other", "hello"],
        &["run", "--model", &scripted, "hello"],
        &["daemon", "restart"],
        &["ls"],
        &["daemon", "stop"],
    ] {
        let document = daemon.coordctl_json(arguments);
        assert!(document.is_object() || document.is_array(), "{arguments:?}: {document}");
    }
    daemon.assert_nothing_runs();
}

/// What is for people is readable without a terminal: no colours, a line a thing, names in it.
#[test]
fn l1_plain_output_is_plain() {
    let daemon = Daemon::start();
    let session =
        dates(&daemon, &json!([call("Looking.", &json!([bash("echo one")])), say("Hello.")]));
    for (arguments, words) in [
        (["ls"].as_slice(), ["NAME", "dates"]),
        (&["status", "dates"], ["lead", "idle"]),
        (&["logs", &session], ["Looking.", "Hello."]),
        (&["usage"], ["dates", "lead"]),
        (&["doctor"], ["ok", "coordd"]),
    ] {
        let ran = daemon.coordctl(arguments);
        for word in words {
            assert!(ran.stdout.contains(word), "{arguments:?}: no {word} in {ran:?}");
        }
        assert!(!ran.stdout.contains('\u{1b}'), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn l1_exit_codes() {
    let mut sandbox = Sandbox::new();
    assert_eq!(sandbox.coordctl(&["daemon", "status"]).code, 4, "no daemon");
    assert_eq!(sandbox.coordctl(&["ls"]).code, 0, "done; it starts the daemon");
    assert_eq!(sandbox.coordctl(&["daemon", "status"]).code, 0);
    assert_eq!(sandbox.coordctl(&["lss"]).code, 2, "wrong usage");
    assert_eq!(sandbox.coordctl(&["ls", "--no-such-flag"]).code, 2);
    assert_eq!(sandbox.coordctl(&["stop", "nobody"]).code, 3, "denied");
    assert_eq!(sandbox.coordctl(&["daemon", "stop"]).code, 0);
    sandbox.set("COORDD_BIN", "/nonexistent");
    assert_eq!(sandbox.coordctl(&["ls"]).code, 4);
}

/// D-1: many commands at once, and no daemon: one is started, and all are answered.
#[test]
fn d1_many_clients_start_one_daemon() {
    let sandbox = Sandbox::new();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = sandbox.command(program("coordctl"));
            command.args(["daemon", "start", "--json"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let pids: std::collections::BTreeSet<_> = children
        .into_iter()
        .map(|child| {
            let ran = Ran::finish(child, "", "coordctl daemon start");
            assert_eq!(ran.code, 0, "{ran:?}");
            ran.json_lines()[0]["daemon"]["daemon"]["pid"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
}

/// D4: under a user manager that ends with the last login, it is said that coordd ends with it, and
/// what keeps it.
#[test]
fn d4_doctor_and_install_tell_what_keeps_it_after_the_last_logout() {
    let mut sandbox = Sandbox::new();
    sandbox.set("USER", "nobody-of-this-name");
    let daemon = Daemon::start_in(sandbox);
    // A manager that can be seen; nobody calls it here.
    let manager = daemon.write("r/systemd/private", "");
    assert!(!daemon.coordctl(&["doctor"]).stdout.contains("enable-linger"), "no unit, no end");
    std::fs::remove_file(&manager).unwrap();
    let installed = daemon.coordctl(&["daemon", "install"]);
    assert!(installed.code == 0 && installed.stdout.contains("enable-linger"), "{installed:?}");
    std::fs::write(&manager, "").unwrap();
    let doctor = daemon.coordctl(&["doctor"]);
    assert!(doctor.stdout.contains("enable-linger"), "{doctor:?}");
}

/// D-6: agents go on while the daemon is replaced.
#[test]
fn d6_daemon_restart_keeps_the_agents() {
    let daemon = Daemon::start();
    dates(&daemon, &json!([say("Hello."), say("Still here.")]));
    let before = daemon.client().agent("dates/lead");
    let ran = daemon.coordctl(&["daemon", "restart"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut client = daemon.client();
    assert_ne!(client.welcome().pid, daemon.pid());
    let after = client.agent_until("dates/lead", "is adopted", |agent| agent.pid.is_some());
    assert_eq!((after.pid, after.incarnation), (before.pid, before.incarnation));
    client.prompt("dates", "are you?");
    client.agent_until("dates/lead", "has answered", |agent| agent.runs == 2);
}

#[test]
fn l1_completions_are_scripts() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = sandbox.coordctl(&["completions", shell]);
        assert!(ran.code == 0 && ran.stdout.contains("scratchpad"), "{shell}: {ran:?}");
    }
    let script = sandbox.coordctl(&["completions", "bash"]).stdout;
    let path = sandbox.write("completions", script);
    let parsed = sandbox.shell(&format!(
        "bash -n '{}' && bash -c '. {} && complete -p coordctl'",
        path.display(),
        path.display()
    ));
    assert_eq!(parsed.code, 0, "{parsed:?}");
}

/// L-2 without a terminal: what is piped in goes to the lead, all of it is shown, and it ends when
/// all is quiet.
#[test]
fn l2_attach_without_a_terminal() {
    let daemon = Daemon::start();
    dates(&daemon, &json!([say("Hello."), say("I heard you: {{re:the word is ([a-z]+)}}.")]));
    let ran = daemon.coordctl_with(&["attach", "dates"], &[], "the word is heron\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("Hello."), "what was before: {ran:?}");
    assert!(ran.stdout.contains("I heard you: heron."), "what came of it: {ran:?}");
    assert!(!ran.stdout.contains('\u{1b}'), "{ran:?}");
    let nothing = daemon.coordctl_with(&["attach", "dates"], &[], "");
    assert!(nothing.code == 0 && nothing.stdout.contains("heron"), "{nothing:?}");
    assert!(daemon.client().agent("dates/lead").pid.is_some(), "leaving stops nothing");
}

/// Events as they happen, a line each, for programs.
#[test]
fn l1_events_are_json_lines() {
    let daemon = Daemon::start();
    dates(&daemon, &json!([say("Hello."), say("Again.")]));
    let mut command = daemon.command(program("coordctl"));
    let output = daemon.at("events");
    command.args(["events", "--json"]).stdout(std::fs::File::create(&output).unwrap());
    let mut child = command.spawn().unwrap();
    let mut n = 0;
    // It may not follow yet when the first prompt is sent.
    let lines = until("events are printed", || {
        n += 1;
        daemon.client().prompt("dates", &format!("prompt {n}"));
        let text = std::fs::read_to_string(&output).unwrap();
        text.contains("message_changed").then_some(text)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let complete = &lines[..=lines.rfind('\n').unwrap()];
    for line in complete.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["event"].is_object() && event["seq"].is_u64(), "{line}");
    }
}

/// rel-85: escapes of every kind, from a model's words, a tool's output and a worker's report.
#[test]
fn rel85_escapes_from_agents_do_not_reach_the_terminal() {
    let nasty = "a\u{1b}[2Jb\u{1b}]0;owned\u{7}c\u{1b}]52;c;ZXZpbA==\u{7}d\u{9b}31me\u{1b}Pq#0\u{1b}\\f\u{202e}g\u{200b}h\u{8}i\rj";
    let daemon = Daemon::start();
    let worker_steps = json!([
        call(nasty, &json!([bash("printf 'x\\033[2J\\033]0;owned\\007y\\rz'")])),
        say(nasty)
    ]);
    let lead_steps = json!([call(nasty, &json!([start("w", nasty)])), say(nasty)]);
    let mut new =
        daemon.rehearsal("normal", &script(&json!([lead(&lead_steps), worker(&worker_steps)])));
    new.name = "dates".into();
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = nasty.into();
    let mut client = daemon.client();
    client.new_session(new);
    client.agent_until("dates/lead", "is done", |agent| agent.runs == 1);
    client.ok(Request::TeamCreate {
        session: "dates".into(),
        name: "alpha".into(),
        description: nasty.into(),
        agent_type: String::new(),
    });
    for arguments in [
        ["logs", "dates"].as_slice(),
        &["logs", "dates/w"],
        &["logs", "dates/w", "--json"],
        &["status", "dates"],
        &["status", "dates", "--json"],
        &["attach", "dates"],
        &["team", "show", "alpha"],
        &["team", "ls"],
        &["ls"],
    ] {
        let ran = daemon.coordctl(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        let bad = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
        let disguise = |c: &char| ['\u{202e}', '\u{200b}'].contains(c);
        let found: Vec<_> = ran.said().chars().filter(|c| bad(c) || disguise(c)).collect();
        assert!(found.is_empty(), "{arguments:?}: {found:?} in {:?}", ran.said());
    }
    let logs = daemon.coordctl(&["logs", "dates"]).stdout;
    assert!(logs.contains("ab") || logs.contains("a["), "the text itself is there: {logs:?}");
}

/// A real terminal, through tmux.
pub(crate) struct Terminal<'a> {
    sandbox: &'a Sandbox,
    socket: String,
}

impl<'a> Terminal<'a> {
    /// Each has a server of its own: one that is ending refuses the next.
    pub(crate) fn open(sandbox: &'a Sandbox, name: &str, script: &str) -> Self {
        let terminal = Self { sandbox, socket: sandbox.at(name).to_str().unwrap().into() };
        let shell = format!("{script}; echo left with $?; exec cat");
        terminal.tmux(&["new-session", "-d", "-x", "120", "-y", "40", &shell]);
        terminal
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.sandbox.command("tmux");
        command.args(["-S", &self.socket, "-f", "/dev/null"]).args(arguments);
        command.env("TERM", "screen-256color");
        let ran = Ran::of(command, "");
        assert_eq!(ran.code, 0, "tmux {arguments:?}: {ran:?}");
        ran.stdout
    }

    /// One whose server runs already.
    pub(crate) fn again(sandbox: &'a Sandbox, socket: String) -> Self {
        Self { sandbox, socket }
    }

    pub(crate) fn socket(&self) -> String {
        self.socket.clone()
    }

    /// The screen at this moment.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    pub(crate) fn type_in(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.tmux(&["send-keys", "Enter"]);
    }

    /// The screen with what has scrolled off it, once it shows this.
    pub(crate) fn shows(&self, text: &str) -> String {
        let mut screen = String::new();
        let limit = Duration::from_secs(15);
        let found = std::time::Instant::now();
        while found.elapsed() < limit {
            screen = self.tmux(&["capture-pane", "-p", "-S", "-200"]);
            if screen.contains(text) {
                return screen;
            }
        }
        panic!("not on the screen: {text}\n{screen}");
    }
}

/// L-2, E8, with a terminal: type a prompt, see the answer, leave with Ctrl-D; everything goes on.
/// rel-85 there too.
#[test]
fn l2_rel85_attach_in_a_terminal() {
    let daemon = Daemon::start();
    let nasty = "Before.\u{1b}[2J\u{1b}[H\u{1b}]0;owned\u{7} After.";
    dates(&daemon, &json!([say(nasty), say("I heard you: {{re:the word is ([a-z]+)}}.")]));
    let attach = format!("'{}' attach dates", program("coordctl").display());
    let terminal = Terminal::open(&daemon, "one", &attach);
    let screen = terminal.shows("After.");
    assert!(screen.contains("Before."), "the screen was not cleared: {screen}");
    assert!(screen.contains("dates"), "{screen}");
    assert_ne!(terminal.tmux(&["display-message", "-p", "#{pane_title}"]).trim(), "owned");
    terminal.type_in("the word is heron");
    terminal.shows("I heard you: heron.");
    terminal.tmux(&["send-keys", "C-d"]);
    let screen = terminal.shows("left with 0");
    assert!(screen.contains("detached"), "{screen}");
    let lead = daemon.client().agent("dates/lead");
    assert!(Process::open(lead.pid.unwrap()).is_some_and(|it| it.runs()), "leaving stops nothing");
    assert_eq!(daemon.client().sessions().len(), 1, "leaving makes no second one");
    // A second time it shows what was said before.
    terminal.tmux(&["kill-server"]);
    let again = Terminal::open(&daemon, "two", &attach);
    again.shows("I heard you: heron.");
    again.tmux(&["kill-server"]);
}

/// L-2: a daemon that goes away and comes back, under an attached terminal.
#[test]
fn l2_attach_survives_a_restart_of_the_daemon() {
    let mut daemon = Daemon::start();
    dates(&daemon, &json!([say("Hello."), say("Back again.")]));
    let mut command = daemon.command(program("coordctl"));
    let output = daemon.at("attached");
    command.args(["attach", "dates"]).stdin(Stdio::piped());
    command.stdout(std::fs::File::create(&output).unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let shown = |text: &str| std::fs::read_to_string(&output).unwrap().contains(text);
    until_true("it shows what was before", || shown("Hello."));
    daemon.kill9();
    let started = daemon.coordctl(&["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"are you back?\n").unwrap();
    until_true("it shows the answer after the restart", || shown("Back again."));
    let text = std::fs::read_to_string(&output).unwrap();
    assert_eq!(text.matches("Hello.").count(), 1, "nothing is shown twice: {text}");
    drop(input);
    assert!(child.wait().unwrap().success());
}
