use super::*;

fn busy() -> Value {
    json!({ "text": "still at it", "tools": [bash("true")] })
}

#[tokio::test]
async fn w9_out_of_turns_the_worker_still_writes_its_report() {
    let mut world = World::worker(&json!([busy(), busy(), { "text": "my report" }]));
    world.boot.limits.turns = 2;
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(failed_with(&outcome, FailureClass::Adjust), "{outcome:?}");
        assert_eq!(outcome.reason, "out of turns (2 turns)");
        assert_eq!((outcome.result.as_str(), outcome.usage.tool_uses), ("my report", 2));
        let lines = world.transcript();
        assert!(starts(&lines, "input")[1].contains("a limit of this run (2 turns)"));
    })
    .await;
}

#[tokio::test]
async fn w9_a_worker_that_writes_no_report_hands_on_what_there_is() {
    let silent = json!({ "tools": [bash("touch never")] });
    let mut world = World::worker(&json!([busy(), silent]));
    world.boot.limits.turns = 1;
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(failed_with(&outcome, FailureClass::Adjust), "{outcome:?}");
        let expected =
            "still at it\n\n[coordd: the agent's run was cut off here (out of turns (1 turns)).";
        assert!(outcome.result.starts_with(expected), "{}", outcome.result);
        assert!(!world.path("work/never").exists(), "a tool ran beyond the limit");
    })
    .await;
}

#[tokio::test]
async fn w7_wall_time_ends_a_tool_and_leaves_a_report() {
    let mut world = World::worker(&json!([
        { "text": "a", "tools": [bash("sleep 60")] },
        { "text": "my report" },
    ]));
    world.boot.limits.run_ms = 400;
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(failed_with(&outcome, FailureClass::Adjust), "{outcome:?}");
        assert_eq!(outcome.reason, "out of time (0.4 s)");
        assert_eq!(outcome.result, "my report");
        assert!(outcome.usage.duration_ms >= 400);
    })
    .await;
}

#[tokio::test]
async fn w7_wall_time_ends_an_answer() {
    let mut world = World::worker(&json!([{ "text": "slow", "pause_ms": 60_000 }]));
    world.boot.limits.run_ms = 300;
    in_world(async {
        let (process, mut peer) = world.begin().await;
        // The last call for the report is as slow as the first; a stop does not wait for it.
        peer.until_doing("thinking").await;
        peer.reports.clear();
        peer.until_doing("thinking").await;
        peer.order(stop("enough")).await;
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!(outcome.status, RunStatus::Killed);
        assert_eq!(process.ended().await, Ending::Done);
    })
    .await;
}

#[tokio::test]
async fn w7_tokens_are_a_limit() {
    let usage = json!({ "input": 600, "output": 500 });
    let mut world = World::worker(&json!([
        { "text": "a", "tools": [bash("true")], "usage": usage },
        { "text": "my report", "usage": usage },
    ]));
    world.boot.limits.tokens = 1_000;
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!(outcome.reason, "out of tokens (1000 tokens)");
        assert_eq!((outcome.result.as_str(), outcome.usage.total_tokens()), ("my report", 2_200));
    })
    .await;
}

#[tokio::test]
async fn r1_an_answer_that_was_cut_off_is_gone_on_with_once() {
    let world = World::worker(
        &json!([{ "text": "first half", "stop": "max_tokens" }, { "text": "second" }]),
    );
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        let whole = (RunStatus::Completed, "first half\n\nsecond");
        assert_eq!((outcome.status, outcome.result.as_str()), whole);
        assert!(starts(&world.transcript(), "input")[1].contains("cut off here"));
    })
    .await;
}

#[tokio::test]
async fn fm25_w9_the_output_limit_twice_in_a_row_is_adjust_with_what_there_is() {
    let cut = |text: &str| json!({ "text": text, "stop": "max_tokens" });
    let world = World::worker(&json!([cut("one"), cut("two"), { "text": "never asked" }]));
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(failed_with(&outcome, FailureClass::Adjust), "{outcome:?}");
        assert!(outcome.reason.contains("output limit of 16000 tokens"), "{}", outcome.reason);
        assert!(outcome.result.starts_with("one\n\ntwo\n\n[coordd: "), "{}", outcome.result);
    })
    .await;
}

#[tokio::test]
async fn w8_an_error_of_the_model_fails_the_run_with_its_class_and_its_remedy() {
    for (status, class) in [(401, FailureClass::Fatal), (400, FailureClass::Fatal)] {
        let world =
            World::worker(&json!([busy(), { "error": { "status": status, "message": "no" } }]));
        in_world(async {
            let (_process, mut peer) = world.begin().await;
            let (_, outcome) = peer.record_run(true).await;
            assert!(failed_with(&outcome, class), "{outcome:?}");
            assert!(outcome.reason.contains(&format!("HTTP {status}")), "{}", outcome.reason);
            assert!(outcome.result.starts_with("still at it\n\n[coordd:"), "{}", outcome.result);
        })
        .await;
    }
}

#[tokio::test]
async fn a_model_that_is_not_set_up_says_what_to_do() {
    let mut world = World::new(Role::Lead, &json!([{ "text": "x" }]));
    let model = world.boot.model.as_mut().unwrap();
    model.provider = proto::agent::Provider::Anthropic;
    model.name = "m".to_owned();
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(false).await;
        assert!(failed_with(&outcome, FailureClass::Fatal));
        assert!(outcome.reason.contains("ANTHROPIC_API_KEY"), "{}", outcome.reason);
        assert_eq!(outcome.result, "");
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_vanished_fails_the_run_plainly() {
    let world = World::worker(
        &json!([{ "text": "a", "tools": [bash("rm -rf \"$PWD\"")] }, { "text": "b" }]),
    );
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        let (_, outcome) = peer.record_run(true).await;
        assert!(failed_with(&outcome, FailureClass::Fatal), "{outcome:?}");
        let expected = format!("working directory {} no longer exists", world.boot.cwd);
        assert!(outcome.reason.starts_with(&expected), "{}", outcome.reason);
    })
    .await;
}
