//! T-2, L-2: terminals that coordd runs, shown by `coordctl attach`. Here with a stand-in for the
//! program; with the real one in `cli/teammates.rs`.

use std::time::Duration;

use proto::error::ErrorCode;
use proto::event::Event;
use proto::request::Request;
use proto::screen::{Assembly, Bytes, Came, Size};
use proto::view::{AgentState, AgentView};
use serde_json::json;
use tests::processes::Process;
use tests::rehearsal::{lead, say, script};
use tests::teammate::{Teammate, Version};
use tests::wait::{until, until_true};
use tests::{Agents, Client, Daemon, Sandbox};

use crate::coordctl::Terminal;

/// Says back each line, and the size when that changes; `bye` ends it.
const PROGRAM: &str = "#!/bin/bash
trap 'echo \"size $(stty size)\"' WINCH
echo $$ >>pids
echo \"ready $*\"
while :; do
  if read -r word; then
    [ \"$word\" = bye ] && { echo leaving; exit 7; }
    echo \"got <$word>\"
  fi
done
";

/// A session `dates` with a team `alpha`.
fn with_team() -> Daemon {
    let mut sandbox = Sandbox::new();
    let program = sandbox.write_program("bin/claude", PROGRAM);
    let path = format!("{}:{}", program.parent().unwrap().display(), sandbox.vars()["PATH"]);
    sandbox.set("PATH", path);
    let daemon = Daemon::start_in(sandbox);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!([say("Hello.")]))])));
    new.name = "dates".into();
    daemon.client().new_session(new);
    let made = daemon.coordctl(&["team", "create", "dates", "alpha"]);
    assert_eq!(made.code, 0, "{}", made.said());
    daemon
}

/// The same with `m1` in a terminal, up.
fn with_terminal() -> Daemon {
    let daemon = with_team();
    start(&daemon);
    daemon
}

fn start(daemon: &Daemon) {
    let invited = daemon.coordctl(&["team", "invite", "dates", "m1", "--start"]);
    assert_eq!(invited.code, 0, "{}", invited.said());
    assert_eq!(invited.stdout.trim(), "coordctl attach dates/m1");
    wait_for(daemon, AgentState::Idle);
}

fn m1(daemon: &Daemon) -> AgentView {
    daemon.client().agent("dates/m1")
}

fn wait_for(daemon: &Daemon, state: AgentState) {
    until_true(&format!("m1 is {state:?}"), || m1(daemon).state == state);
}

/// The process of the program that was started last.
fn program(daemon: &Daemon) -> Process {
    until("the program runs", || {
        let pids = std::fs::read_to_string(daemon.at("w/pids")).ok()?;
        Process::open(pids.lines().last()?.parse().ok()?).filter(Process::runs)
    })
}

fn attach<'a>(daemon: &'a Daemon, name: &str, arguments: &str) -> Terminal<'a> {
    let coordctl = tests::sandbox::program("coordctl");
    let line = format!("'{}' attach dates/m1 {arguments}", coordctl.display());
    Terminal::open(daemon, name, &line)
}

/// What `coordctl attach` prints where nobody looks.
fn screen(daemon: &Daemon) -> String {
    let ran = daemon.coordctl(&["attach", "dates/m1"]);
    assert_eq!(ran.code, 0, "{}", ran.said());
    ran.stdout
}

/// L-2, K1, K4, K9, K10: shown, typed into, made larger, left and come back to.
#[test]
fn l2_k9_a_terminal_is_attached_to_typed_into_and_left() {
    let daemon = with_terminal();
    let one = attach(&daemon, "one", "");
    one.shows("ready --agent-id m1@alpha");
    one.shows("Ctrl-b d detaches");
    one.type_in("hello");
    one.shows("got <hello>");
    one.tmux(&["resize-window", "-x", "91", "-y", "21"]);
    // The shell sees to the signal when it has read a line.
    one.type_in("resized");
    one.shows("size 21 91");
    one.tmux(&["send-keys", "C-b", "C-b", "Enter"]);
    one.shows("^B");
    one.tmux(&["send-keys", "C-b", "d"]);
    let left = one.shows("left with 0");
    assert!(left.contains("dates/m1 runs on"), "{left}");
    assert!(!left.contains("got <hello>"), "what was there before is there again: {left}");
    assert!(program(&daemon).runs(), "leaving ends nothing");
    one.tmux(&["kill-server"]);
    let two = attach(&daemon, "two", "--detach-keys ctrl-]");
    two.shows("Ctrl-] detaches");
    two.shows("got <hello>");
    two.type_in("bye");
    let left = two.shows("left with 7");
    assert!(left.contains("ended with status 7: leaving"), "{left}");
    two.tmux(&["kill-server"]);
    wait_for(&daemon, AgentState::Stopped);
    let status = daemon.coordctl(&["status", "dates"]);
    assert!(status.stdout.contains("ended with status 7: leaving"), "{}", status.said());
    let refused = daemon.coordctl(&["attach", "dates/m1"]);
    assert_eq!(refused.code, 126, "{}", refused.said());
    assert!(refused.stderr.contains("--start"), "{}", refused.stderr);
    let sent = daemon.coordctl(&["send", "dates/m1", "wake up"]);
    assert!(sent.said().contains("the message starts it"), "{}", sent.said());
    wait_for(&daemon, AgentState::Idle);
    let shown = until("it is up again", || Some(screen(&daemon)).filter(|it| it.contains("ready")));
    assert!(!shown.contains("got <hello>"), "a new program: {shown}");
}

/// K9: whoever ends `coordctl` finds the terminal as it was.
#[test]
fn k9_a_terminal_is_given_back_when_we_are_told_to_end() {
    let daemon = with_terminal();
    let coordctl = tests::sandbox::program("coordctl");
    let line = format!(
        "stty -a >before; '{}' attach dates/m1 & echo $! >attached; fg >/dev/null; echo ended $?; stty -a >after",
        coordctl.display()
    );
    let one =
        Terminal::open(&daemon, "one", &format!("bash -m -c \"{}\"", line.replace('$', "\\$")));
    one.shows("ready");
    let pid = std::fs::read_to_string(daemon.at("w/attached")).unwrap();
    Process::open(pid.trim().parse().unwrap()).unwrap().signal(rustix::process::Signal::TERM);
    one.shows("ended 143");
    let settings = |name: &str| {
        until(name, || {
            std::fs::read_to_string(daemon.at(name)).ok().filter(|it| it.contains("echo"))
        })
    };
    assert_eq!(settings("w/before"), settings("w/after"));
    one.type_in("visible");
    assert!(!one.shows("visible").contains("ready"), "the screen of before is back");
    one.tmux(&["kill-server"]);
}

/// Two who look: the size is that of whoever typed last, and both see the same.
#[test]
fn k1_two_viewers_of_different_sizes() {
    let daemon = with_terminal();
    let one = attach(&daemon, "one", "");
    one.shows("ready");
    let two = attach(&daemon, "two", "");
    two.shows("ready");
    two.tmux(&["resize-window", "-x", "70", "-y", "15"]);
    two.type_in("resized");
    two.shows("size 15 70");
    one.shows("size 15 70");
    one.type_in("mine");
    one.shows("size 40 120");
    two.shows("got <mine>");
    let three = attach(&daemon, "three", "--read-only");
    three.shows("got <mine>");
    three.type_in("nobody");
    three.tmux(&["resize-window", "-x", "60", "-y", "12"]);
    one.type_in("again");
    let shown = three.shows("got <again>");
    assert!(!shown.contains("nobody"), "{shown}");
    assert!(!one.shows("got <again>").contains("size 12 60"));
    for it in [one, two, three] {
        it.tmux(&["kill-server"]);
    }
}

/// The daemon dies under a terminal and whoever looks at it: both go on.
#[test]
fn k9_rel31_a_terminal_and_its_viewer_outlive_the_daemon() {
    let mut daemon = with_terminal();
    let before = program(&daemon);
    // The terminal borrows the daemon meanwhile.
    let socket = {
        let one = attach(&daemon, "one", "");
        one.shows("ready");
        one.type_in("before");
        one.shows("got <before>");
        one.socket()
    };
    daemon.kill9();
    let one = Terminal::again(&daemon, socket);
    until_true("it is shown again", || {
        daemon.coordctl(&["daemon", "status"]).code == 0 && {
            one.type_in("after");
            one.screen().contains("got <after>")
        }
    });
    assert!(one.screen().contains("got <before>"));
    assert!(before.runs(), "it is the same program");
    one.tmux(&["kill-server"]);
    daemon.coordctl(&["daemon", "stop"]);
}

/// Its process is killed: nothing of it is left, and it is started again under whoever looks.
#[test]
fn w6_rel53_a_terminal_whose_process_is_killed_is_started_again() {
    let daemon = with_terminal();
    let one = attach(&daemon, "one", "");
    one.shows("ready");
    one.type_in("before");
    one.shows("got <before>");
    let before = program(&daemon);
    Process::open(m1(&daemon).pid.unwrap()).unwrap().kill9();
    until_true("the program is gone", || !before.runs());
    until_true("it is up again", || {
        let shown = one.screen();
        shown.contains("ready") && !shown.contains("got <before>")
    });
    one.type_in("after");
    one.shows("got <after>");
    one.tmux(&["kill-server"]);
}

/// W-6, E8: a stop ends it with all that it started and takes its mail out again; its session
/// brings it back.
#[test]
fn w6_e8_a_terminal_is_stopped_and_comes_back_with_its_session() {
    let daemon = with_terminal();
    let member = Teammate::new(&daemon, "alpha", "m1", Version::Takes);
    daemon.coordctl(&["send", "dates/m1", "look at this"]);
    let entries = || member.entries("m1").unwrap_or_default().len();
    until_true("the message is in its inbox", || entries() == 1);
    let one = attach(&daemon, "one", "");
    one.shows("ready");
    let before = program(&daemon);
    let stopped = daemon.coordctl(&["stop", "dates/m1"]);
    assert!(stopped.stdout.contains("stopped m1"), "{}", stopped.said());
    assert!(!before.runs());
    assert!(one.shows("left with 143").contains("was stopped"));
    one.tmux(&["kill-server"]);
    until_true("what it did not read is taken out", || entries() == 0);
    start(&daemon);
    let before = program(&daemon);
    assert_eq!(daemon.coordctl(&["stop", "dates"]).code, 0);
    assert!(!before.runs());
    assert_eq!(daemon.coordctl(&["resume", "dates"]).code, 0);
    wait_for(&daemon, AgentState::Idle);
    let deleted = daemon.coordctl(&["team", "delete", "dates"]);
    assert_eq!(deleted.code, 0, "{}", deleted.said());
    wait_for(&daemon, AgentState::Stopped);
    assert!(!daemon.at("h/.claude/teams/alpha").exists());
}

/// K4: somebody who reads slowly costs only itself, and sees the same in the end.
#[test]
fn k4_a_slow_viewer_misses_pictures_and_none_of_the_screen() {
    let daemon = with_terminal();
    let mut slow = daemon.client();
    let request = || Request::Screen {
        agent: "dates/m1".into(),
        size: Some(Size { rows: 40, columns: 400 }),
    };
    slow.ok(request());
    // Nothing is read here while the screen changes more often than there is room for.
    let mut typist = daemon.client();
    let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
    let long = "x".repeat(300);
    for number in 0..400 {
        let bytes = bytes(&format!("{number}{long}\r"));
        typist.ok(Request::ScreenInput { agent: "dates/m1".into(), size: None, bytes });
        typist.ok(Request::Ping {});
    }
    until_true("all is on the screen", || screen(&daemon).contains("got <399x"));
    let wanted = screen(&daemon);
    let mut assembly = Assembly::default();
    let mut parser = vt100::Parser::new(40.try_into().unwrap(), 400.try_into().unwrap(), 0);
    let limit = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let rows: Vec<String> =
            parser.screen().rows(0, 400).map(|row| row.trim_end().to_owned()).collect();
        if format!("{}\n", rows.join("\n").trim_end_matches('\n')) == wanted {
            break;
        }
        assert!(std::time::Instant::now() < limit, "{}", parser.screen().contents());
        let frame = next_frame(&mut slow);
        match assembly.take(frame) {
            Came::Picture { bytes, .. } => parser.process(&bytes),
            Came::Missed => {
                slow.start_call(request(), None);
            }
            Came::Nothing => {}
        }
    }
}

fn next_frame(client: &mut Client) -> proto::screen::Frame {
    client.event("a part of a picture", |it| match it {
        Event::Screen { frame, .. } => Some(frame.clone()),
        _ => None,
    })
}

/// M-8: neither a lead nor the terminal's own process types, looks, or says how another one ended.
#[test]
fn m8_no_agent_looks_at_a_terminal_or_types_into_it() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    lead.create_team("alpha");
    let session = lead.boot.session.clone();
    let invited =
        daemon.coordctl(&["team", "invite", "alpha", "m1", "--start", "--", "--model", "x"]);
    assert_eq!(invited.code, 0, "{}", invited.said());
    let mut own = agents.next(&daemon);
    let told = own.boot.terminal.clone().unwrap();
    assert_eq!(told.arguments[..2], ["--agent-id", "m1@alpha"]);
    assert_eq!(
        told.arguments[told.arguments.len() - 4..],
        ["--permission-mode", "acceptEdits", "--model", "x"]
    );
    let agent = format!("{session}/m1");
    for client in [&mut lead.client, &mut own.client] {
        let bytes = Bytes(b"rm -rf /\r".to_vec());
        let typed = Request::ScreenInput { agent: agent.clone(), size: None, bytes };
        assert_eq!(client.denied(typed).code, ErrorCode::Forbidden);
        let looked = Request::Screen { agent: agent.clone(), size: None };
        assert_eq!(client.denied(looked).code, ErrorCode::Forbidden);
    }
    let ended = Request::TerminalEnded(proto::view::EndedView { status: 0, said: String::new() });
    assert_eq!(lead.client.denied(ended).code, ErrorCode::Forbidden);
    assert_eq!(own.client.order_within(Duration::from_millis(1)), None);
    // The user's keys come there, in order, also over JSON Lines.
    let mut user = daemon.client_in(tests::Codec::Lines);
    for key in [b"a", b"b"] {
        let (agent, bytes) = (agent.clone(), Bytes(key.to_vec()));
        user.ok(Request::ScreenInput { agent, size: None, bytes });
    }
    let typed = |order| match order {
        proto::agent::Order::ScreenInput { bytes, .. } => bytes.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(typed(own.client.order()), b"a");
    assert_eq!(typed(own.client.order()), b"b");
}
