use proto::notification::Usage;

use super::*;

#[tokio::test]
async fn r1_a_whole_run_with_tools() {
    let world = World::worker(&json!([
        { "text": "I look.", "tools": [bash("printf hello > made; printenv COORDD_AGENT COORDD_SCRATCHPAD")] },
        { "tools": [{ "name": "Read", "input": { "file_path": "made" } }] },
        { "text": "Done: hello.", "usage": { "input": 7, "output": 5 } },
    ]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        let (run, outcome) = peer.record_run(true).await;
        assert_eq!(process.ended().await, Ending::Done);
        assert_eq!((run, outcome.status), (1, RunStatus::Completed));
        assert_eq!(outcome.result, "Done: hello.");
        assert_eq!((outcome.usage.tool_uses, outcome.reason.as_str()), (2, ""));
        assert!(outcome.usage.input_tokens > 7 && outcome.usage.output_tokens > 5);
        assert_eq!(peer.acknowledged, [("m1".to_owned(), 1)]);
        let lines = world.transcript();
        assert_eq!(lines[..3], ["input the task", "text I look.", "call Bash"]);
        assert!(
            lines[3].starts_with("result look\n") && lines[3].contains("/scratch"),
            "{}",
            lines[3]
        );
        assert!(lines[5].contains("hello"), "{}", lines[5]);
        assert_eq!(lines[6..], ["text Done: hello.", "end completed"]);
        assert_eq!(std::fs::read_to_string(world.path("work/made")).unwrap(), "hello");
        let reported = crate::outcome::read(&world.path("state"), 1).unwrap();
        assert_eq!(reported, outcome);
        let entries =
            peer.reports.iter().filter(|report| matches!(report, Report::Entry { .. })).count();
        assert!(entries >= 9, "{entries} entries were reported");
        assert!(peer.reports.iter().any(|report| matches!(report, Report::Delta { .. })));
    })
    .await;
}

/// What the agent is given as secrets is in no tool's environment and in no transcript.
#[tokio::test]
async fn rel37_no_tool_sees_a_secret() {
    let mut world = World::worker(&json!([
        { "tools": [bash("env; cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -c t0ken")] },
        { "text": "ok" },
    ]));
    world.boot.env.insert("ANTHROPIC_API_KEY".to_owned(), "k3y".to_owned());
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        peer.record_run(true).await;
        let lines = world.transcript().join("\n");
        assert!(lines.contains("COORDD_SESSION=s1") && !lines.contains("k3y"), "{lines}");
        assert!(!lines.contains("t0ken="), "{lines}");
    })
    .await;
}

/// reads may overlap, but none overtakes a call that changes something.
#[tokio::test]
async fn r1_calls_of_one_message_see_what_those_before_them_did() {
    let read = |path: &str| json!({ "name": "Read", "input": { "file_path": path } });
    let world = World::worker(&json!([
        { "tools": [read("a"), read("b"), bash("printf new > a"), read("a")] },
        { "text": "ok" },
    ]));
    std::fs::write(world.path("work/a"), "old").unwrap();
    std::fs::write(world.path("work/b"), "bee").unwrap();
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        peer.record_run(true).await;
        let lines = world.transcript();
        let results = starts(&lines, "result");
        assert!(results[0].contains("old") && results[1].contains("bee"), "{results:?}");
        assert!(results[3].contains("new"), "{results:?}");
    })
    .await;
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_those_that_there_are() {
    let mut world = World::worker(&json!([
        { "tools": [{ "name": "Agent", "input": {} }, { "name": "Grep", "input": {} }] },
        { "text": "ok" },
    ]));
    world.boot.simple_tools = true;
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        peer.record_run(true).await;
        let lines = world.transcript();
        let expected = "error There is no tool \"Agent\" here. The tools are: Bash, Edit, Read.";
        assert_eq!(starts(&lines, "error")[0], expected);
        assert!(starts(&lines, "error")[1].starts_with("error There is no tool \"Grep\""));
    })
    .await;
}

#[tokio::test]
async fn w3_a_question_waits_for_its_answer_over_a_restart_of_the_daemon() {
    let mut world = World::worker(&json!([
        { "tools": [bash("make one")] },
        { "tools": [bash("touch two")] },
        { "text": "ok" },
    ]));
    world.boot.permissions.mode = String::new();
    world.boot.limits.run_ms = 600_000;
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let call = peer.call().await;
        let Request::PermissionAsk { question } = &call.request else { panic!("{call:?}") };
        assert_eq!(question.tool, "Bash");
        assert_eq!(question.input.0, json!({ "command": "make one" }));
        assert!(!question.rule.is_empty() && !question.reason.is_empty());
        peer.until_doing("waiting for approval").await;
        drop(peer);
        let mut peer = world.daemon.welcome().await;
        let again = peer.call().await;
        assert_eq!((&again.key, &again.request), (&call.key, &call.request));
        let no =
            Response::Permitted { allow: false, reason: "use two".into(), rule: String::new() };
        peer.reply(again.id, no).await;
        let second = peer.call().await;
        assert!(second.key.is_some() && second.key != call.key);
        let yes = Response::Permitted { allow: true, reason: String::new(), rule: String::new() };
        peer.reply(second.id, yes).await;
        peer.record_run(true).await;
        let lines = world.transcript();
        assert_eq!(starts(&lines, "error"), ["error Permission denied by the user: use two."]);
        assert!(world.path("work/two").exists());
    })
    .await;
}

/// fM6: nobody is asked about a call that cannot run, and the model learns why at once.
#[tokio::test]
async fn fm6_a_call_that_cannot_run_never_asks() {
    let unreadable = json!({ "unparsed_arguments": "{oops", "problem": "key must be a string" });
    let mut world = World::worker(&json!([
        { "tools": [{ "name": "Bash", "input": { "command": "make one", "surprise": 1 } }] },
        { "tools": [{ "name": "Write", "input": { "file_path": "/etc/x" } }] },
        { "tools": [{ "name": "Bash", "input": unreadable }, { "name": "Glob", "input": { "pattern": "*" } }] },
        { "text": "ok" },
    ]));
    world.boot.permissions.mode = String::new();
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        // A question would be a call, which this does not answer.
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!(outcome.status, RunStatus::Completed, "{outcome:?}");
        let lines = world.transcript();
        let errors = starts(&lines, "error");
        assert!(errors[0].contains("Bash has no field `surprise`"), "{errors:?}");
        assert!(errors[1].contains("Write needs the field `content`"), "{errors:?}");
        assert!(errors[2].contains("not a valid JSON object: key must be a string"), "{errors:?}");
        assert_eq!((errors.len(), starts(&lines, "result").len()), (3, 1));
    })
    .await;
}

#[tokio::test]
async fn w3_a_rule_that_is_learned_asks_no_more() {
    let mut world = World::worker(&json!([
        { "tools": [bash("touch one")] },
        { "tools": [bash("touch two")] },
        { "text": "ok" },
    ]));
    world.boot.permissions.mode = String::new();
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let call = peer.call().await;
        assert!(matches!(call.request, Request::PermissionAsk { .. }));
        let rule = "Bash(touch *)".to_owned();
        peer.reply(call.id, Response::Permitted { allow: true, reason: String::new(), rule }).await;
        peer.record_run(true).await;
        assert!(world.path("work/two").exists());
    })
    .await;
}

#[tokio::test]
async fn bad_rules_let_nothing_run() {
    let mut world = World::worker(&json!([{ "tools": [bash("touch one")] }]));
    world.boot.permissions.deny.push("Bash(".to_owned());
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(failed_with(&outcome, FailureClass::Fatal));
        assert!(outcome.reason.contains("permission rules cannot be used"), "{}", outcome.reason);
    })
    .await;
}

#[tokio::test]
async fn d3_a_daemon_of_another_revision_is_served_in_json() {
    let mut world = World::worker(&json!([{ "text": "ok" }]));
    in_world(async {
        let other = FakeDaemon::of_another_revision(&world.path("s"));
        world.daemon = other;
        let (process, mut peer) = world.begin().await;
        assert!(peer.speaks_lines());
        peer.record_run(true).await;
        assert_eq!(process.ended().await, Ending::Done);
    })
    .await;
}

#[tokio::test]
async fn d7_a_stale_incarnation_does_nothing_and_ends() {
    let world = World::worker(&json!([{ "text": "ok" }]));
    in_world(async {
        let process = world.start();
        let mut peer = world.daemon.hello().await;
        let code = proto::error::ErrorCode::BadCredentials;
        let body = proto::error::ErrorBody::new(code, "stale");
        peer.send(&proto::FromDaemon::Closing(body)).await;
        assert_eq!(process.ended().await, Ending::Gone("stale".to_owned()));
        assert_eq!(world.transcript(), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn w5_an_idle_agent_that_may_not_exit_takes_the_next_prompt() {
    let world = World::new(Role::Lead, &json!([{ "text": "one" }, { "text": "two" }]));
    in_world(async {
        let (process, mut peer) = world.connect().await;
        peer.deliver("m1", Origin::User {}, "first").await;
        assert_eq!(peer.record_run(false).await.1.result, "one");
        peer.until_doing("idle").await;
        peer.deliver("m2", Origin::User {}, "second").await;
        let (run, outcome) = peer.record_run(false).await;
        assert_eq!((run, outcome.result.as_str()), (2, "two"));
        assert_ne!(outcome.usage, Usage::default());
        peer.order(stop("over")).await;
        assert_eq!(process.ended().await, Ending::Done);
        let lines = world.transcript();
        assert_eq!(starts(&lines, "input"), ["input first", "input second"]);
    })
    .await;
}
