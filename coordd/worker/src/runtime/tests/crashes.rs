use std::io::Write as _;

use super::*;

#[tokio::test]
async fn w4_an_end_that_was_not_recorded_is_told_again_with_its_key() {
    let world = World::worker(&json!([{ "text": "done" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        let (first, run, outcome) = peer.run_ended().await;
        assert_eq!(first.key.as_deref(), Some("run-1"));
        // The daemon dies; another one comes up.
        drop(peer);
        let mut peer = world.daemon.welcome().await;
        let (again, run_again, outcome_again) = peer.run_ended().await;
        assert_eq!((again.key, run_again, &outcome_again), (first.key.clone(), run, &outcome));
        // Now the agent dies too; a new process reports before it does anything else.
        process.crash().await;
        let (process, mut peer) = world.connect().await;
        let (last, _, outcome_last) = peer.run_ended().await;
        assert_eq!((last.key, outcome_last), (first.key, outcome));
        peer.reply(last.id, Response::RunRecorded { exit: true }).await;
        assert_eq!(process.ended().await, Ending::Done);
        assert_eq!(starts(&world.transcript(), "end"), ["end completed"]);
    })
    .await;
}

#[tokio::test]
async fn w4_an_end_that_was_recorded_is_not_told_again() {
    let mut world = World::worker(&json!([{ "text": "one" }, { "text": "two" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        let _unanswered = peer.run_ended().await;
        process.crash().await;
        world.boot.runs_before = 1;
        let (_process, mut peer) = world.connect().await;
        peer.until_doing("idle").await;
        peer.deliver("m2", lead(), "more").await;
        assert_eq!(peer.record_run(true).await.0, 2);
    })
    .await;
}

/// The outcome was on disk, and the process died before the transcript said so.
#[tokio::test]
async fn rel31_an_outcome_on_disk_counts() {
    let world = World::worker(&json!([{ "text": "done" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        let (_, _, outcome) = peer.run_ended().await;
        process.crash().await;
        let path = world.path("state/transcript.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let without_end: Vec<_> = text.lines().filter(|line| !line.contains("run_ended")).collect();
        std::fs::write(&path, without_end.join("\n") + "\n").unwrap();
        let (_process, mut peer) = world.connect().await;
        let (_, _, told) = peer.run_ended().await;
        assert_eq!(told, outcome);
        assert_eq!(world.transcript().last().unwrap(), "end completed");
        assert_eq!(starts(&world.transcript(), "text"), ["text done"]);
    })
    .await;
}

/// The outcome file was lost; the transcript still says how the run ended.
#[tokio::test]
async fn rel41_a_lost_outcome_is_made_anew_from_the_transcript() {
    let world = World::worker(&json!([{ "text": "done", "usage": { "output": 9 } }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        let _unanswered = peer.run_ended().await;
        process.crash().await;
        std::fs::write(world.path("state/outcome-1.json"), "{").unwrap();
        let (_process, mut peer) = world.connect().await;
        let (_, run, told) = peer.run_ended().await;
        assert_eq!((run, told.status, told.result.as_str()), (1, RunStatus::Completed, "done"));
        assert_eq!(told.usage.output_tokens, 9);
    })
    .await;
}

/// Makes the first entry of the transcript so much older.
fn began_earlier(world: &World, by_ms: u64) {
    let path = world.path("state/transcript.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut first: Value = serde_json::from_str(first).unwrap();
    first["at_ms"] = json!(first["at_ms"].as_u64().unwrap() - by_ms);
    std::fs::write(&path, format!("{first}\n{rest}")).unwrap();
}

/// A crash in the middle of a tool: its effects are unknown, and it is not run twice.
#[tokio::test]
async fn d5_a_restarted_process_goes_on_in_the_middle_of_a_run() {
    let world = World::worker(&json!([
        { "text": "a", "tools": [
            bash("echo x >> ../count; touch ../running; while [ ! -e ../go ]; do sleep 0.02; done"),
            { "name": "Glob", "input": { "pattern": "*" } },
        ] },
        { "text": "b" },
    ]));
    std::fs::write(world.path("work/seen"), "").unwrap();
    in_world(async {
        let (process, peer) = world.begin().await;
        world.until_exists("running").await;
        process.crash().await;
        drop(peer);
        began_earlier(&world, 60_000);
        let (_process, mut peer) = world.connect().await;
        let (run, outcome) = peer.record_run(true).await;
        assert_eq!((run, outcome.result.as_str(), outcome.usage.tool_uses), (1, "b", 2));
        assert!(outcome.usage.duration_ms >= 60_000, "{outcome:?}");
        assert_eq!(std::fs::read_to_string(world.path("count")).unwrap(), "x\n");
        let lines = world.transcript();
        assert_eq!(lines[4], format!("error {UNFINISHED}"));
        assert!(lines[5].starts_with("result ") && lines[5].contains("seen"), "{}", lines[5]);
        assert_eq!(lines[6..], ["text b", "end completed"]);
    })
    .await;
}

/// C-4: a request to coordd is made again with its key, so that no worker is started twice.
#[tokio::test]
async fn c4_a_request_that_was_open_is_repeated_with_its_key() {
    let call = |name: &str| json!({ "name": "Agent", "input": { "description": "d", "prompt": "p", "name": name } });
    let world =
        World::new(Role::Lead, &json!([{ "tools": [call("x"), call("y")] }, { "text": "ok" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        let first = [peer.call().await, peer.call().await];
        process.crash().await;
        let (_process, mut peer) = world.connect().await;
        let again = [peer.call().await, peer.call().await];
        for at in [0, 1] {
            assert!(again[at].key.is_some());
            assert_eq!((&again[at].key, &again[at].request), (&first[at].key, &first[at].request));
        }
        let outcome = crate::outcome::completed("found it", proto::notification::Usage::default());
        for call in again.iter().rev() {
            let ran =
                Response::Ran { agent: "a2".into(), name: "x".into(), outcome: outcome.clone() };
            peer.reply(call.id, ran).await;
        }
        peer.record_run(false).await;
        let lines = world.transcript();
        assert_eq!(starts(&lines, "result").len(), 2);
        assert!(starts(&lines, "result")[0].ends_with("\n\nfound it"));
    })
    .await;
}

#[tokio::test]
async fn d5_a_crash_after_the_last_answer_asks_the_model_nothing_again() {
    let world = World::worker(&json!([{ "text": "done" }, { "text": "asked twice" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        let _unanswered = peer.run_ended().await;
        process.crash().await;
        // As if it had died between the answer and the outcome.
        std::fs::remove_file(world.path("state/outcome-1.json")).unwrap();
        let path = world.path("state/transcript.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let without_end: Vec<_> = text.lines().filter(|line| !line.contains("run_ended")).collect();
        std::fs::write(&path, without_end.join("\n") + "\n").unwrap();
        let (_process, mut peer) = world.connect().await;
        assert_eq!(peer.record_run(true).await.1.result, "done");
    })
    .await;
}

#[tokio::test]
async fn d5_a_torn_transcript_goes_on_after_its_last_whole_line() {
    let world = World::worker(&json!([{ "tools": [wait_for_go()] }, { "text": "b" }]));
    in_world(async {
        let (process, peer) = world.begin().await;
        world.until_exists("running").await;
        process.crash().await;
        drop(peer);
        let path = world.path("state/transcript.jsonl");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"seq\":4,\"at_ms\":1,\"run\":1,\"wh").unwrap();
        let (_process, mut peer) = world.connect().await;
        peer.record_run(true).await;
        assert_eq!(world.transcript()[2], format!("error {UNFINISHED}"));
    })
    .await;
}

#[tokio::test]
async fn rel41_a_damaged_transcript_is_kept_and_the_model_is_told() {
    let mut world = World::worker(&json!([{ "text": "one" }, { "text": "two" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        peer.record_run(true).await;
        assert_eq!(process.ended().await, Ending::Done);
        let path = world.path("state/transcript.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let damaged = format!("{}\n#{}\n{}\n", lines[0], lines[1], lines[2..].join("\n"));
        std::fs::write(&path, damaged).unwrap();
        world.boot.runs_before = 1;
        let (_process, mut peer) = world.connect().await;
        peer.deliver("m2", lead(), "go on").await;
        let (run, _) = peer.record_run(true).await;
        assert_eq!(run, 2);
        let lines = world.transcript();
        assert!(lines.iter().any(|line| line.contains("transcript.jsonl.corrupt-")), "{lines:?}");
        assert_eq!(lines[0], "input the task");
    })
    .await;
}

/// Invariant 4: a second process of the same agent does not run.
#[tokio::test]
async fn a_second_process_of_an_agent_is_refused() {
    let world = World::worker(&json!([{ "text": "one" }]));
    in_world(async {
        let (_process, peer) = world.connect().await;
        let link = Link::new(LinkConfig {
            socket: world.path("s"),
            credentials: peer.hello.clone().unwrap().agent,
            orphan_limit: None,
            state_dir: Some(world.path("state")),
        });
        let refused = Agent::new(world.boot.clone(), link).err().unwrap();
        assert!(matches!(refused, TranscriptError::Locked { .. }), "{refused}");
    })
    .await;
}
