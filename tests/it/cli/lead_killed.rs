//! R-2, rel-58: Claude Code as a lead, the real one, is killed in the middle of a turn with a call
//! open. What it had begun is begun once, what comes of it is told once, and nothing is left over.

use std::path::Path;

use proto::agent::Runtime;
use proto::notification::RunStatus;
use proto::view::AgentState;
use serde_json::json;
use tests::cli::{self, CLI_LIMIT, Cli, Model, Script};
use tests::processes::Process;
use tests::rehearsal::{bash, call, say, script, worker_of};
use tests::wait::until_within;
use tests::{Client, Daemon, Sandbox, story};

const GOAL: &str = "Make the flaky date test pass";

/// What a worker does until it may go on.
const WAITS: &str = "touch helper-runs; while [ ! -e go ]; do sleep 0.05; done";

/// A session whose lead is Claude Code in normal mode, which waits for its worker `helper`.
fn begin(scripts: Vec<Script>) -> (Daemon, Model, Client, String) {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, scripts);
    let program = Cli::claude("2.1.332").program_in(&sandbox);
    sandbox.set("COORDD_CLAUDE", program.to_str().unwrap());
    let daemon = Daemon::start_in(sandbox);
    let steps = json!([call("Helping.", &json!([bash(WAITS)])), say("help-number-7")]);
    let mut new = daemon.rehearsal("normal", &script(&json!([worker_of("Help with it", &steps)])));
    new.lead_runtime = Runtime::Claude;
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = GOAL.into();
    let mut client = daemon.client();
    let session = client.new_session(new).id;
    (daemon, model, client, session)
}

/// The process of Claude Code that an agent's process has started.
fn claude_of(agent: u32) -> Process {
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("stream-json")
    };
    let children = std::fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).unwrap();
    let pid = children.split_whitespace().map(|word| word.parse().unwrap()).find(is_it);
    Process::open(pid.expect("Claude Code runs")).unwrap()
}

fn exists(path: &Path) {
    until_within(CLI_LIMIT, &path.display().to_string(), || path.exists().then_some(()));
}

fn kill(client: &mut Client, session: &str, who: &str) {
    let lead = client.agent(&format!("{session}/lead")).pid.unwrap();
    match who {
        "claude" => claude_of(lead).kill9(),
        _ => Process::open(lead).unwrap().kill9(),
    }
}

/// While its own tool runs.
#[test]
fn r2_a_lead_goes_on_after_the_end_of_any_of_its_processes() {
    for dies in ["claude", "agent"] {
        let goal = Script::when(GOAL)
            .call(
                "Bash",
                json!({ "command": "touch lead-runs; sleep 300", "description": "does it" }),
            )
            .say("never");
        let goes_on = Script::when("process was restarted").say("I go on.");
        let (daemon, model, mut client, session) = begin(vec![goal, goes_on]);
        exists(&daemon.at("w/lead-runs"));
        cli::is_recorded(&daemon, "touch lead-runs");
        kill(&mut client, &session, dies);
        let lead = until_within(CLI_LIMIT, "the run has ended", || {
            Some(client.agent(&format!("{session}/lead"))).filter(|it| it.runs == 1)
        });
        let last = lead.last.unwrap();
        assert_eq!(
            (last.status, last.result.as_str()),
            (RunStatus::Completed, "I go on."),
            "{dies}"
        );
        let shown = model.shown().pop().unwrap();
        assert_eq!(shown.all().matches(GOAL).count(), 1, "{dies}: {}", shown.all());
        daemon.stop_and_leave_nothing();
    }
}

/// While it waits for its worker: the worker goes on, there is one, and what it reports reaches the
/// lead, in whichever run that is in.
#[test]
fn r2_f1_a_worker_that_a_killed_lead_waited_for_is_told_once() {
    let helper = json!({ "description": "helper", "name": "helper", "prompt": "Help with it" });
    for dies in ["claude", "agent"] {
        for is_in_the_same_run in [true, false] {
            let goal = Script::when(GOAL).call("mcp__coordd__Agent", helper.clone()).say("never");
            let mut goes_on = Script::when("process was restarted").say("I go on.");
            if is_in_the_same_run {
                goes_on = goes_on.after("told");
            }
            let told = Script::when("help-number-7").say("It is told.");
            let (daemon, model, mut client, session) = begin(vec![goal, goes_on, told]);
            exists(&daemon.at("w/helper-runs"));
            cli::is_recorded(&daemon, "mcp__coordd__Agent");
            let before = client.agent(&format!("{session}/lead")).pid;
            kill(&mut client, &session, dies);
            let what = format!("{dies}, in the same run: {is_in_the_same_run}");
            if is_in_the_same_run {
                model.wait_for(&what, |it| it.all().contains("process was restarted"));
                daemon.write("w/go", "");
                until_within(CLI_LIMIT, "the worker's run has ended", || {
                    Some(client.agent(&format!("{session}/helper"))).filter(|it| it.runs == 1)
                });
                model.open("told");
            } else {
                until_within(CLI_LIMIT, "the lead's run has ended", || {
                    Some(client.agent(&format!("{session}/lead"))).filter(|it| it.runs == 1)
                });
                daemon.write("w/go", "");
            }
            model.wait_for(&what, |it| it.script.as_deref() == Some("help-number-7"));
            let lead = until_within(CLI_LIMIT, "the lead rests", || {
                let lead = client.agent(&format!("{session}/lead"));
                (lead.state == AgentState::Idle && lead.mail == 0).then_some(lead)
            });
            assert_ne!(lead.pid, before, "{what}: nobody else could tell that nobody waits");
            let entries = client.transcript(&lead.id);
            assert_eq!(story::notifications(&entries).len(), 1, "{what}");
            assert_eq!(story::calls(&entries), ["Agent"], "{what}");
            assert_eq!(client.show(&session).1.len(), 2, "{what}: one worker");
            daemon.stop_and_leave_nothing();
        }
    }
}
