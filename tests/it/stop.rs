//! W-5, W-6, W-7: stopping, continuing, and how long a worker may go on.

use std::path::Path;
use std::time::{Duration, Instant};

use proto::message::MessageState;
use proto::notification::{FailureClass, RunStatus};
use proto::request::{NewAgent, NewSession, Request};
use proto::response::Response;
use proto::view::AgentState;
use serde_json::{Value, json};
use tests::agents::Agents;
use tests::processes::Process;
use tests::rehearsal::{bash, call, lead, say, script, start, worker};
use tests::wait::until;
use tests::{Client, Daemon, story};

/// W-6 allows two seconds; the rest is for a machine that builds at the same time.
const STOP_LIMIT: Duration = Duration::from_millis(3_500);

/// What a tool can do to outlive its end: ignore TERM, leave the group, leave a child behind.
const STUBBORN: &str = "trap '' TERM; setsid sleep 1000 & echo $! >child.pid; (sleep 1000 &) ; \
                        echo $$ >shell.pid; mv shell.pid ready; sleep 1000";

fn pid(path: &Path) -> u32 {
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// A coordinator with one worker, `w`.
fn begin(
    daemon: &Daemon,
    client: &mut Client,
    steps: &Value,
    with: impl Fn(&mut NewSession),
) -> String {
    let lead_steps = json!([call("I send one.", &json!([start("w", "do it")])), say("Sent.")]);
    let script = script(&json!([lead(&lead_steps), worker(steps)]));
    let mut new = daemon.rehearsal("coordinator", &script);
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    with(&mut new);
    client.new_session(new).name
}

fn stubborn(daemon: &Daemon, client: &mut Client) -> (String, Vec<Process>) {
    let steps = json!([call("Sleeping.", &json!([bash(STUBBORN)])), say("I was asleep.")]);
    let session = begin(daemon, client, &steps, |_| {});
    until("the tool runs", || daemon.at("w/ready").exists().then_some(()));
    let agent = client.agent(&format!("{session}/w")).pid.expect("a process");
    let processes = [agent, pid(&daemon.at("w/ready")), pid(&daemon.at("w/child.pid"))];
    (session, processes.into_iter().map(|pid| Process::open(pid).expect("it runs")).collect())
}

#[test]
fn w6_stop_ends_a_worker_with_everything_that_it_started() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let (session, processes) = stubborn(&daemon, &mut client);
    let w = format!("{session}/w");
    let begun = Instant::now();
    let stopped = daemon.coordctl(&["stop", &w]);
    let took = begun.elapsed();
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(stopped.stdout.contains('w'), "{stopped:?}");
    assert!(took < STOP_LIMIT, "{took:?}");
    for process in processes {
        assert!(!process.runs(), "still there: {process:?}");
    }
    let sleeping: Vec<_> = daemon
        .processes()
        .into_iter()
        .filter(|process| process.command.starts_with("sleep"))
        .collect();
    assert!(sleeping.is_empty(), "{sleeping:?}");
    let view = client.agent(&w);
    assert_eq!((view.state, view.runs), (AgentState::Stopped, 1));
    assert_eq!(view.last.unwrap().status, RunStatus::Killed);
    let lead = format!("{session}/lead");
    until("the lead is told", || {
        let entries = client.transcript(&lead);
        let told = story::notifications(&entries).first().map(|notification| notification.1);
        (told == Some(RunStatus::Killed)).then_some(())
    });
}

/// A38, A10: a stop does not wait behind a full mailbox, and what was not read goes back.
#[test]
fn a38_a_stop_overtakes_a_thousand_messages() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let (session, processes) = stubborn(&daemon, &mut client);
    let w = format!("{session}/w");
    let text = |n: usize| Request::Prompt {
        session: session.clone(),
        agent: Some("w".into()),
        text: format!("message {n}"),
    };
    // In lots, since a connection has at most so many open calls.
    let mut full = false;
    for lot in 0..11 {
        let calls: Vec<_> =
            (0..100).map(|n| client.start_call(text(lot * 100 + n), None)).collect();
        full |=
            calls.into_iter().any(|call| matches!(client.reply(call), proto::Outcome::Error(_)));
    }
    assert!(full, "the mailbox was filled to its bound");
    let begun = Instant::now();
    let Response::Stopped { agents, bounced } = client.ok(Request::AgentStop { agent: w }) else {
        panic!("not stopped")
    };
    assert!(begun.elapsed() < STOP_LIMIT, "{:?}", begun.elapsed());
    assert_eq!((agents.as_slice(), bounced), (&["w".to_owned()][..], 1_000));
    assert!(processes.iter().all(|process| !process.runs()));
}

/// W-5: continued, it has its whole context and the message as its new prompt.
#[test]
fn w5_w6_a_stopped_worker_can_be_continued_and_knows_what_it_did() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let (session, _) = stubborn(&daemon, &mut client);
    let w = format!("{session}/w");
    client.ok(Request::AgentStop { agent: w.clone() });
    let before = client.transcript(&w);
    let sent = daemon.coordctl(&["send", &w, "what were you doing?"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let view = client.agent_until(&w, "has run again", |agent| agent.runs == 2);
    let last = view.last.unwrap();
    // The script's second step: its model has seen the first.
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "I was asleep."));
    let entries = client.transcript(&w);
    assert_eq!(entries[..before.len()], before, "nothing of it was changed");
    let inputs = story::inputs(&entries);
    assert!(inputs.last().unwrap().1.contains("what were you doing?"), "{inputs:?}");
    assert!(inputs[0].1.contains("do it"), "{inputs:?}");
    let results = story::results(&entries);
    assert_eq!(results.len(), 1, "the call that was cut off has its result: {results:?}");
    client.agent_until(&w, "has no process", |agent| agent.pid.is_none());
}

/// Stopped by its lead's tool, in the middle of a model call.
#[test]
fn w6_task_stop_ends_a_worker_that_is_thinking() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let lead_steps = json!([
        call("I send one.", &json!([start("w", "think")])),
        say("Sent."),
        call("Enough.", &json!([{ "name": "TaskStop", "input": { "task_id": "{{id:w}}" } }])),
        { "needs": ["w"], "text": "It ended: {{status:w}}" }
    ]);
    let worker_steps = json!([{ "text": "Thinking.", "pause_ms": 600_000 }]);
    let script = script(&json!([lead(&lead_steps), worker(&worker_steps)]));
    let mut new = daemon.rehearsal("coordinator", &script);
    new.prompt = "go".into();
    let session = client.new_session(new).name;
    let (w, lead) = (format!("{session}/w"), format!("{session}/lead"));
    client.agent_until(&lead, "rests", |agent| agent.runs == 1);
    let thinks = |it: &proto::view::AgentView| {
        it.activity.as_ref().is_some_and(|activity| activity.doing == "thinking")
    };
    client.agent_until(&w, "thinks", thinks);
    let begun = Instant::now();
    client.prompt(&session, "stop it");
    client.agent_until(&w, "is gone", |agent| agent.pid.is_none() && agent.runs == 1);
    assert!(begun.elapsed() < STOP_LIMIT, "{:?}", begun.elapsed());
    until("the lead has read that it was killed", || {
        let entries = client.transcript(&lead);
        story::texts(&entries).contains(&"It ended: killed").then_some(())
    });
}

/// W-5, A11: a message to a worker that runs waits for the end of its tool round, not of its run.
#[test]
fn w5_a_message_enters_at_the_next_tool_round() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let wait = "touch reached; until test -e go; do sleep 0.02; done; echo gone on";
    let steps = json!([
        call("Waiting.", &json!([bash(wait)])),
        say("I was told: {{re:the word is ([a-z]+)}}")
    ]);
    let session = begin(&daemon, &mut client, &steps, |_| {});
    let w = format!("{session}/w");
    until("the tool runs", || daemon.at("w/reached").exists().then_some(()));
    let sent = daemon.coordctl(&["send", "--json", &w, "the word is heron"]);
    assert!(sent.code == 0 && sent.said().contains("next tool round"), "{sent:?}");
    let sent: Value = serde_json::from_str(&sent.stdout).unwrap();
    let id = sent["sent"]["results"][0]["accepted"]["id"].as_str().unwrap().to_owned();
    until("the worker's process has it", || {
        (client.receipt(&id).state == MessageState::Delivered).then_some(())
    });
    daemon.write("w/go", "");
    let view = client.agent_until(&w, "is done", |agent| agent.runs == 1);
    assert_eq!(view.last.unwrap().result, "I was told: heron");
    let entries = client.transcript(&w);
    let order: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.what {
            proto::entry::What::ToolResult { .. } => Some("result"),
            proto::entry::What::Input { text, .. } if text.contains("heron") => Some("message"),
            proto::entry::What::Text { text } if text.contains("heron") => Some("answer"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["result", "message", "answer"]);
}

/// W-7: more than run at once wait where they can be seen, first come first served.
#[test]
fn w7_workers_over_the_cap_wait_in_a_visible_queue() {
    let (daemon, mut agents) = Agents::start();
    let mut new = daemon.rehearsal("coordinator", &script(&json!([lead(&json!([]))])));
    new.workers = 1;
    new.prompt = "go".into();
    let mut lead = agents.lead_of(&daemon, new);
    let session = lead.boot.session.clone();
    let mut a = agents.worker(&daemon, &mut lead, "a");
    for name in ["b", "c"] {
        let agent = NewAgent {
            name: name.into(),
            description: name.into(),
            prompt: "p".into(),
            ..NewAgent::default()
        };
        let response = lead.client.ok(Request::AgentSpawn { agent: Box::new(agent) });
        let Response::Spawned { state, .. } = response else { panic!("{response:?}") };
        assert!(state.contains("1 of 1"), "{state}");
    }
    let mut client = daemon.client();
    let (view, _) = client.show(&session);
    assert_eq!((view.running, view.waiting), (2, 2), "the lead and one worker run: {view:?}");
    for name in ["b", "c"] {
        assert_eq!(client.agent(&format!("{session}/{name}")).state, AgentState::Waiting);
    }
    assert!(agents.look().is_none());
    // A place comes free with the end of the process, not with the report.
    a.complete(1, "done");
    assert!(agents.look().is_none());
    a.exit();
    assert_eq!(agents.next_started().boot.name, "b");
    assert_eq!(client.agent(&format!("{session}/c")).state, AgentState::Waiting);
    // Stopped while it waits, it never runs.
    client.ok(Request::AgentStop { agent: format!("{session}/c") });
    let c = client.agent(&format!("{session}/c"));
    assert_eq!((c.state, c.incarnation), (AgentState::Stopped, 0));
    assert_eq!(c.last.unwrap().status, RunStatus::Killed);
}

/// W-7, W-9: out of turns, it reports what it has.
#[test]
fn w7_w9_out_of_turns_there_is_a_partial_result() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([
        call("One.", &json!([bash("echo 1")])),
        call("Two.", &json!([bash("echo 2")])),
        say("Two of three are done."),
    ]);
    let session = begin(&daemon, &mut client, &steps, |new| new.max_turns = 2);
    let view = client.agent_until(&format!("{session}/w"), "has ended", |agent| agent.runs == 1);
    let last = view.last.unwrap();
    assert_eq!((last.status, last.class), (RunStatus::Failed, Some(FailureClass::Adjust)));
    assert!(last.reason.contains("turns"), "{last:?}");
    assert!(last.result.contains("Two of three are done."), "{last:?}");
}

/// The same with time, in the middle of a command.
#[test]
fn w7_w9_out_of_time_there_is_a_partial_result() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([call("Slow.", &json!([bash("sleep 1000")])), say("It is slow.")]);
    let session = begin(&daemon, &mut client, &steps, |new| new.run_s = 1);
    let view = client.agent_until(&format!("{session}/w"), "has ended", |agent| agent.runs == 1);
    let last = view.last.unwrap();
    assert_eq!((last.status, last.class), (RunStatus::Failed, Some(FailureClass::Adjust)));
    assert!(last.reason.contains("time"), "{last:?}");
    assert!(last.result.contains("It is slow."), "{last:?}");
    client.agent_until(&format!("{session}/w"), "has no process", |agent| agent.pid.is_none());
}

/// Stopping a session ends all of it, and keeps the mail.
#[test]
fn w6_stopping_a_session_leaves_no_process() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let (session, processes) = stubborn(&daemon, &mut client);
    let stopped = daemon.coordctl(&["stop", &session]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    for process in processes {
        assert!(!process.runs(), "still there: {process:?}");
    }
    let (view, agents) = client.show(&session);
    assert_eq!((view.running, view.state), (0, proto::view::SessionState::Stopped));
    assert!(agents.iter().all(|agent| agent.pid.is_none()), "{agents:?}");
    daemon.stop_and_leave_nothing();
}

/// D-6: an orderly end of the daemon stops the agents, resumable.
#[test]
fn d6_the_daemons_orderly_end_stops_the_agents() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let (session, processes) = stubborn(&daemon, &mut client);
    let status = daemon.stop();
    assert!(status.success(), "{status}");
    for process in processes {
        assert!(!process.runs(), "still there: {process:?}");
    }
    daemon.assert_nothing_runs();
    daemon.restart();
    let mut client = daemon.client();
    let w = client.agent(&format!("{session}/w"));
    assert_eq!((w.pid, w.state), (None, AgentState::Stopped), "{w:?}");
}
