//! W-6, rel-29, rel-32, cases C1, C3, C5, C6, C16, D2, D20: when `coordctl stop` says that it is
//! gone, it is gone.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proto::notification::RunStatus;
use proto::view::AgentState;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::agents::Agents;
use tests::processes::Process;
use tests::rehearsal::{bash, call, lead, say, script, start, worker};
use tests::wait::until;
use tests::{Client, Daemon};

/// Two seconds to end by itself, then the killing; the rest is for a machine that builds at the
/// same time.
const STOP_LIMIT: Duration = Duration::from_secs(8);

/// All that a tool can do to stay: TERM ignored, other sessions, double forks, a lost mark, 200
/// children, and output that somebody holds open.
const STUBBORN: &str = "trap '' TERM HUP INT
    (setsid sh -c 'trap \"\" TERM; (sleep 1001 &) ; sleep 1001' &)
    (env -u COORDD_AGENT_ID sleep 1001 &)
    env -u COORDD_AGENT_ID setsid sleep 1001 &
    (setsid setsid sh -c 'while :; do sleep 0.1; done' &)
    n=0; while [ $n -lt 200 ]; do sleep 1001 & n=$((n+1)); done
    echo all there; touch ready; sleep 1001";

/// Processes that carry the agent's mark, or that have something of the sandbox and are not
/// coordd's own.
fn survivors(daemon: &Daemon, agent: &str) -> Vec<Process> {
    let mark = format!("COORDD_AGENT_ID={agent}").into_bytes();
    let carries = |pid: u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|it| *it == 0).any(|part| part == mark)
    };
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let all = numbers.filter_map(|number| number.file_name().to_str()?.parse::<u32>().ok());
    let marked = all.filter(|pid| carries(*pid)).filter_map(Process::open);
    let left =
        daemon.processes().into_iter().filter(|process| process.command.contains("sleep 1001"));
    marked.chain(left).filter(Process::runs).collect()
}

/// A coordinator with one worker, `w`. Returns the session's name and the worker's id.
fn begin(daemon: &Daemon, client: &mut Client, steps: &Value) -> (String, String) {
    let lead_steps = json!([call("I send one.", &json!([start("w", "do it")])), say("Sent.")]);
    let script = script(&json!([lead(&lead_steps), worker(steps)]));
    let mut new = daemon.rehearsal("coordinator", &script);
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let session = client.new_session(new).name;
    until("the tool runs", || daemon.at("w/ready").exists().then_some(()));
    let id = client.agent(&format!("{session}/w")).id;
    (session, id)
}

/// Stops it as a person would. Returns what was printed as JSON, and how long it took.
fn stop(daemon: &Daemon, what: &str) -> (Value, Duration) {
    let begun = Instant::now();
    let stopped = daemon.coordctl_json(&["stop", what]);
    (stopped, begun.elapsed())
}

fn assert_gone(daemon: &Daemon, agent: &str, names: &[&str], (said, took): &(Value, Duration)) {
    let left = survivors(daemon, agent);
    assert!(left.is_empty(), "said to be gone after {took:?}: {} of them: {left:#?}", left.len());
    assert_eq!(said["stopped"]["agents"], json!(names), "{said}");
    assert!(*took < STOP_LIMIT, "{took:?}");
}

/// rel-29, C3, D2.
#[test]
fn w6_rel29_nothing_that_a_tool_does_lets_it_stay() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([call("Staying.", &json!([bash(STUBBORN)])), say("I stayed.")]);
    let (session, id) = begin(&daemon, &mut client, &steps);
    let before = survivors(&daemon, &id).len();
    assert!(before > 200, "the test is right about what runs: {before}");
    let stopped = stop(&daemon, &format!("{session}/w"));
    assert_gone(&daemon, &id, &["w"], &stopped);
    let view = client.agent(&format!("{session}/w"));
    assert_eq!((view.state, view.pid), (AgentState::Stopped, None));
    assert_eq!(view.last.map(|it| it.status), Some(RunStatus::Killed));
}

/// C6, C8: the agent itself is stopped by a signal, in the middle of such a tool, and can neither
/// hear nor end anything.
#[test]
fn w6_c6_an_agent_that_is_frozen_is_ended_with_its_tools() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([call("Staying.", &json!([bash(STUBBORN)])), say("I stayed.")]);
    let (session, id) = begin(&daemon, &mut client, &steps);
    let w = format!("{session}/w");
    let agent = Process::open(client.agent(&w).pid.expect("it runs")).unwrap();
    agent.signal(Signal::STOP);
    let stopped = stop(&daemon, &w);
    assert!(!agent.runs());
    assert_gone(&daemon, &id, &["w"], &stopped);
}

/// C1, C15: an agent that is connected, answers, and does not do what it is told.
#[test]
fn w6_c1_an_agent_that_ignores_the_order_is_ended() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let w = agents.worker(&daemon, &mut lead, "w");
    let process = Process::open(w.pid).unwrap();
    let stopped = stop(&daemon, &format!("{}/w", daemon.client().sessions()[0].name));
    assert!(!process.runs());
    assert_gone(&daemon, &w.boot.agent, &["w"], &stopped);
    assert!(Process::open(lead.pid).unwrap().runs(), "C5: the lead is untouched");
}

/// C4, C16: a session's end names every one of them, and comes after the last of them.
#[test]
fn w6_c4_a_whole_session_is_gone_by_name() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([call("Staying.", &json!([bash(STUBBORN)])), say("I stayed.")]);
    let (session, id) = begin(&daemon, &mut client, &steps);
    let stopped = stop(&daemon, &session);
    let left = survivors(&daemon, &id);
    assert!(left.is_empty(), "{left:#?}");
    let mut names: Vec<_> =
        serde_json::from_value::<Vec<String>>(stopped.0["stopped"]["agents"].clone()).unwrap();
    names.sort();
    assert_eq!(names, ["lead", "w"]);
    assert!(stopped.1 < STOP_LIMIT, "{:?}", stopped.1);
    daemon.stop_and_leave_nothing();
}

/// D20, C5: what only looks like an agent is nobody's to end: another agent's mark, our own folder,
/// the same name.
#[test]
fn d20_what_belongs_to_nobody_here_is_left_alone() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let foreign = |mark: &str| {
        let mut command = Command::new("cat");
        command.arg0("coordd-worker").env("COORDD_AGENT_ID", mark).stdin(Stdio::piped());
        command.current_dir(daemon.work()).spawn().unwrap()
    };
    let mut bystanders = [foreign("a0123456789abcdef"), foreign("")];
    let steps = json!([call("Staying.", &json!([bash("touch ready; sleep 1001")])), say("x")]);
    let (session, id) = begin(&daemon, &mut client, &steps);
    let stopped = stop(&daemon, &session);
    assert!(survivors(&daemon, &id).is_empty(), "{stopped:?}");
    for bystander in &mut bystanders {
        assert!(bystander.try_wait().unwrap().is_none(), "it was ended");
        drop(bystander.stdin.take());
        bystander.wait().unwrap();
    }
}

/// rel-30, C9: a grandchild that holds the tool's output open does not hold up its end.
#[test]
fn rel30_a_held_output_does_not_hold_up_the_result() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([
        call("Quick.", &json!([bash("echo quick; sleep 1001 & touch ready; exit 3")])),
        say("It is {{re:(quick)}}.")
    ]);
    let begun = Instant::now();
    let (session, _) = begin(&daemon, &mut client, &steps);
    let view = client.agent_until(&format!("{session}/w"), "is done", |agent| agent.runs == 1);
    assert_eq!(view.last.unwrap().result, "It is quick.");
    assert!(begun.elapsed() < STOP_LIMIT, "{:?}", begun.elapsed());
}
