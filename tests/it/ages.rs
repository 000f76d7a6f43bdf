//! Programs of different builds. A later one has another revision of the binary codec and says more
//! than this one knows (`proto`'s feature `skew`): agents live over the change of the daemon, and
//! `coordctl` of either age works with a daemon of either age.

use std::path::Path;

use proto::entry::Origin;
use proto::message::MessageState;
use proto::notification::RunStatus;
use proto::request::Request;
use proto::response::Response;
use proto::view::{AgentState, AgentView};
use serde_json::json;
use tests::rehearsal::{bash, call, lead, say, script, start, worker};
use tests::wait::until;
use tests::{Client, Daemon, Sandbox, story};

const LATER: &str = "COORDD_TEST_LATER_BUILD";

fn flag(is_later: bool) -> &'static str {
    if is_later { "1" } else { "0" }
}

/// Puts this build, or a later one, in the place from which the next agent process is started.
fn put_build(at: &Path, is_later: bool) {
    let real = tests::sandbox::program("coordd-worker");
    let text = format!("#!/bin/sh\n{LATER}={} exec {} \"$@\"\n", flag(is_later), real.display());
    std::fs::write(at, text).unwrap();
}

/// All agents of a session, once all of them are connected.
fn connected(client: &mut Client, session: &str) -> Vec<AgentView> {
    until("the agents are connected", || {
        let agents = client.show(session).1;
        let is_up =
            |agent: &AgentView| matches!(agent.state, AgentState::Running | AgentState::Idle);
        (agents.len() == 2 && agents.iter().all(is_up)).then_some(agents)
    })
}

/// A lead and a worker of one build, and a daemon that is replaced by one of another build in the
/// middle of the worker's run.
fn upgrade(agents_are_later: bool, first_is_later: bool) {
    let mut sandbox = Sandbox::new();
    let program = sandbox.write_program("builds/coordd-worker", "");
    put_build(&program, agents_are_later);
    sandbox.set("COORDD_WORKER", program.to_str().unwrap());
    sandbox.set(LATER, flag(first_is_later));
    let mut daemon = Daemon::start_in(sandbox);
    assert_eq!(daemon.shell("mkfifo wait").code, 0);

    let lead_steps = json!([
        call("It waits.", &json!([start("waiter", "wait")])),
        { "needs": ["waiter"], "text": "It has waited." }
    ]);
    let mut tool =
        bash("touch begun; until test -e enough; do read -t 0.03 <>wait; done; echo it is enough");
    tool["input"]["timeout"] = json!(600_000);
    let worker_steps = json!([call("I wait.", &json!([tool])), say("Waited.")]);
    let story = script(&json!([lead(&lead_steps), worker(&worker_steps)]));
    let mut new = daemon.rehearsal("coordinator", &story);
    new.permissions.allow = vec!["Bash".into()];
    "go".clone_into(&mut new.prompt);
    let session = daemon.client().new_session(new).id;
    until("the worker waits", || daemon.at("w/begun").exists().then_some(()));
    let before = connected(&mut daemon.client(), &session);

    daemon.kill9();
    // What is started from now on would be of the daemon's own build.
    put_build(&program, !first_is_later);
    daemon.set(LATER, flag(!first_is_later));
    daemon.restart();

    let mut client = daemon.client();
    let after = connected(&mut client, &session);
    let sent = daemon.coordctl_json(&["send", &format!("{session}/waiter"), "and then report"]);
    let id = sent["sent"]["results"][0]["accepted"]["id"].as_str().unwrap().to_owned();
    daemon.write("w/enough", "");
    until("the lead has read of the end and rests", || {
        let entries = client.transcript(&before[0].id);
        let told = story::texts(&entries).contains(&"It has waited.");
        let idle = client.agent(&before[0].id).state == AgentState::Idle;
        (told && idle).then_some(())
    });

    let entries = client.transcript(&before[0].id);
    let told: Vec<_> =
        story::notifications(&entries).into_iter().map(|it| (it.0.to_owned(), it.1)).collect();
    assert_eq!(told, [(before[1].id.clone(), RunStatus::Completed)], "once, and completed");
    let entries = client.transcript(&before[1].id);
    assert_eq!(story::results(&entries), [("it is enough", false)], "the tool went on");
    let heard = story::inputs(&entries);
    let mail = heard
        .iter()
        .filter(|(origin, text)| **origin == Origin::User {} && text.contains("and then report"));
    assert_eq!(mail.count(), 1, "{heard:?}");
    let Response::Receipt { receipt } = client.ok(Request::Receipt { message: id }) else {
        panic!("no receipt")
    };
    assert_eq!(receipt.state, MessageState::Consumed, "{receipt:?}");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(
            (&after.id, after.pid, after.incarnation),
            (&before.id, before.pid, 1),
            "the same process"
        );
    }
    daemon.stop_and_leave_nothing();
}

#[test]
fn d6_fb_agents_of_this_build_live_over_a_change_to_a_later_daemon() {
    upgrade(false, false);
}

#[test]
fn d6_fb_agents_of_a_later_build_live_over_a_change_to_this_daemon() {
    upgrade(true, true);
}

/// The program of agents is replaced before the daemon is: new agents of the old daemon are of the
/// later build already.
#[test]
fn d6_fb_agents_of_a_later_build_begin_under_this_daemon_and_live_over_the_change() {
    upgrade(true, false);
}

#[test]
fn d3_fb_coordctl_of_either_age_works_with_a_daemon_of_either_age() {
    for (daemon_is_later, coordctl_is_later) in [(false, true), (true, false), (true, true)] {
        let mut sandbox = Sandbox::new();
        let program = sandbox.write_program("builds/coordd-worker", "");
        put_build(&program, false);
        sandbox.set("COORDD_WORKER", program.to_str().unwrap());
        sandbox.set(LATER, flag(daemon_is_later));
        let daemon = Daemon::start_in(sandbox);
        let run = |arguments: &[&str]| {
            let ran = daemon.coordctl_with(arguments, &[(LATER, flag(coordctl_is_later))], "");
            let case =
                format!("daemon later: {daemon_is_later}, coordctl later: {coordctl_is_later}");
            assert_eq!(ran.code, 0, "{case}: coordctl {arguments:?}: {ran:?}");
            ran.stdout
        };
        run(&[
            "new",
            "--name",
            "dates",
            "--mode",
            "coordinator",
            "--model",
            "rehearsal",
            "make the test pass",
        ]);
        run(&["wait", "dates"]);
        for arguments in [
            &["ls"][..],
            &["status", "dates"],
            &["logs", "dates"],
            &["send", "dates", "and what about leap years?", "--wait"],
            &["usage"],
            &["permit"],
            &["peers"],
            &["team", "create", "dates", "fixers"],
            &["scratchpad", "path", "dates"],
            &["daemon", "status"],
            &["stop", "dates"],
            &["resume", "dates"],
        ] {
            run(arguments);
        }
        // Events come in between, and some that nobody knows.
        let begin = ["run", "--name", "again", "--mode", "coordinator", "--model", "rehearsal"];
        let again = [&begin[..], &["make it pass"]].concat();
        let ran = daemon.coordctl_with(&again, &[(LATER, flag(coordctl_is_later))], "");
        // fA17: that model does nothing.
        assert_eq!(ran.code, 1, "{ran:?}");
        let shown = ran.stdout;
        assert!(shown.contains("make it pass"), "{shown}");
        run(&["rm", "dates", "--force"]);
        let left = run(&["ls", "--json"]);
        assert!(!left.contains("dates"), "{left}");
        daemon.stop_and_leave_nothing();
    }
}
