use std::time::{Duration, Instant};

use super::*;

fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|it| !it.contains(") Z "))
}

#[tokio::test]
async fn w6_a_stop_ends_the_tool_and_its_children_within_two_seconds() {
    let command = "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > ../grandchild; \
                   touch ../running; while :; do sleep 0.1; done') & echo so far; while :; do sleep 0.1; done";
    let world = World::worker(&json!([{ "text": "I wait.", "tools": [bash(command)] }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        world.until_exists("running").await;
        let grandchild = std::fs::read_to_string(world.path("grandchild")).unwrap();
        assert!(lives(&grandchild));
        let asked = Instant::now();
        peer.order(stop("stopped by the user")).await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(asked.elapsed() < Duration::from_millis(2_500), "{:?}", asked.elapsed());
        assert!(!lives(&grandchild));
        assert_eq!((outcome.status, outcome.class), (RunStatus::Killed, None));
        assert_eq!(outcome.reason, "stopped by the user");
        assert!(outcome.result.starts_with("I wait.\n\n[coordd: "), "{}", outcome.result);
        assert_eq!(process.ended().await, Ending::Done);
        let lines = world.transcript();
        assert!(lines[3].starts_with("error "), "{lines:?}");
        assert_eq!(lines[4], "end killed");
    })
    .await;
}

/// W-6: what the model had said before the stop stays in the conversation, so that a continued
/// worker knows it.
#[tokio::test]
async fn w6_a_stop_while_the_model_answers() {
    let mut world =
        World::worker(&json!([{ "text": "half", "pause_ms": 60_000 }, { "text": "whole" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        peer.until_doing("thinking").await;
        peer.order(stop("enough")).await;
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!(outcome.status, RunStatus::Killed);
        assert_eq!(process.ended().await, Ending::Done);
        world.boot.runs_before = 1;
        let script = json!({ "agents": [{ "steps": [], "after": "continued" }] });
        std::fs::write(world.path("script.json"), script.to_string()).unwrap();
        let (_process, mut peer) = world.connect().await;
        peer.deliver("m2", lead(), "go on").await;
        assert_eq!(peer.record_run(true).await.1.result, "continued");
        let lines = world.transcript();
        let woken = starts(&lines, "input")[1];
        assert!(woken.starts_with("input Your last run ended (killed: enough)"), "{woken}");
    })
    .await;
}

#[tokio::test]
async fn an_interrupt_ends_the_run_and_not_the_process() {
    let world = World::new(Role::Lead, &json!([{ "tools": [wait_for_go()] }, { "text": "next" }]));
    in_world(async {
        let (process, mut peer) = world.connect().await;
        // It means nothing to an agent that does nothing.
        peer.order(Order::Interrupt {}).await;
        peer.deliver("m1", Origin::User {}, "wait").await;
        world.until_exists("running").await;
        peer.order(Order::Interrupt {}).await;
        let (_, outcome) = peer.record_run(false).await;
        assert_eq!(outcome.status, RunStatus::Killed);
        assert_eq!(outcome.reason, "interrupted by the user");
        peer.deliver("m2", Origin::User {}, "and now").await;
        assert_eq!(peer.record_run(false).await.1.result, "next");
        peer.order(stop("bye")).await;
        assert_eq!(process.ended().await, Ending::Done);
    })
    .await;
}

/// W-6: the process can be ended while it looks for a daemon, before and after it has one.
#[tokio::test]
async fn w6_a_stop_without_a_daemon_leaves_the_outcome_on_disk() {
    let mut world = World::worker(&json!([{ "text": "a", "tools": [wait_for_go()] }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        world.until_exists("running").await;
        peer.order(stop("bye")).await;
        let _unanswered = peer.run_ended().await;
        drop(peer);
        world.daemon = FakeDaemon::bind(&world.path("elsewhere"));
        assert_eq!(process.ended().await, Ending::Done);
        let outcome = crate::outcome::read(&world.path("state"), 1).unwrap();
        assert_eq!((outcome.status, outcome.reason.as_str()), (RunStatus::Killed, "bye"));
    })
    .await;
}

#[tokio::test]
async fn w6_a_question_does_not_hold_up_a_stop() {
    let mut world = World::worker(&json!([{ "tools": [bash("make it")] }]));
    world.boot.permissions.mode = String::new();
    in_world(async {
        let (process, mut peer) = world.begin().await;
        assert!(matches!(peer.call().await.request, Request::PermissionAsk { .. }));
        peer.order(stop("")).await;
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!((outcome.status, outcome.reason.as_str()), (RunStatus::Killed, "stopped"));
        assert_eq!(process.ended().await, Ending::Done);
        let lines = world.transcript();
        assert!(starts(&lines, "error")[0].contains("before the user answered"));
    })
    .await;
}

/// D-7: when coordd wants nothing more of an agent, its tools end with it.
#[tokio::test]
async fn d7_the_tools_go_with_a_removed_agent() {
    let command = "echo $$ > ../shell; touch ../running; while :; do sleep 0.1; done";
    let world = World::worker(&json!([{ "tools": [bash(command)] }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        world.until_exists("running").await;
        let shell = std::fs::read_to_string(world.path("shell")).unwrap();
        let code = proto::error::ErrorCode::BadCredentials;
        let body = proto::error::ErrorBody::new(code, "removed");
        peer.send(&proto::FromDaemon::Closing(body)).await;
        assert_eq!(process.ended().await, Ending::Gone("removed".to_owned()));
        let gone = async {
            while lives(&shell) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(2), gone).await.expect("the tool lives on");
    })
    .await;
}
