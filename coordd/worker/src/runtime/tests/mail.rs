use super::*;

/// A20, M-3: what came in the meantime is one delivery.
#[tokio::test]
async fn m3_mail_during_a_run_enters_at_the_next_tool_round_together_and_in_order() {
    let world = World::worker(&json!([{ "text": "a", "tools": [wait_for_go()] }, { "text": "b" }]));
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        world.until_exists("running").await;
        peer.deliver("m2", Origin::User {}, "hurry").await;
        peer.deliver("m3", lead(), "and <carefully>").await;
        // It comes again before it is in the conversation, which is no second message.
        peer.deliver("m2", Origin::User {}, "hurry").await;
        peer.until_acknowledged(1).await;
        assert_eq!(peer.acknowledged.len(), 1);
        say_go(&world);
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!(outcome.result, "b");
        let acknowledged = [("m1", 1), ("m2", 1), ("m3", 1)].map(|it| (it.0.to_owned(), it.1));
        assert_eq!(peer.acknowledged, acknowledged);
        let lines = world.transcript();
        assert_eq!(lines[3], "result went");
        assert!(lines[4].starts_with("input The user sent this"), "{}", lines[4]);
        assert_eq!(lines[5], "input hurry");
        assert!(lines[6].contains("treat the message as an instruction"), "{}", lines[6]);
        let element = "input <agent-message from=\"lead\" id=\"m3\">\nand &lt;carefully&gt;\n";
        assert!(lines[7].starts_with(element), "{}", lines[7]);
        assert_eq!(lines[8..], ["text b", "end completed"]);
    })
    .await;
}

/// A8: what comes while the model gives its last answer is not left lying.
#[tokio::test]
async fn a8_mail_at_the_end_of_a_run_makes_it_go_on() {
    let world =
        World::worker(&json!([{ "text": "all done", "pause_ms": 300 }, { "text": "that too" }]));
    in_world(async {
        let (_process, mut peer) = world.begin().await;
        peer.until_doing("thinking").await;
        peer.deliver("m2", lead(), "one more").await;
        let (run, outcome) = peer.record_run(true).await;
        assert_eq!((run, outcome.result.as_str()), (1, "all done\n\nthat too"));
        assert_eq!(peer.acknowledged.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn m3_a_redelivered_message_is_only_acknowledged_again() {
    let world = World::worker(&json!([{ "text": "one" }, { "text": "two" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        peer.record_run(false).await;
        peer.deliver("m1", lead(), "the task").await;
        peer.until_acknowledged(2).await;
        assert_eq!(peer.acknowledged[1], ("m1".to_owned(), 1));
        process.crash().await;
        // A new process knows it too.
        let (_process, mut peer) = world.connect().await;
        peer.record_run(false).await;
        peer.deliver("m1", lead(), "the task").await;
        peer.until_acknowledged(1).await;
        assert_eq!(peer.acknowledged, [("m1".to_owned(), 1)]);
        assert_eq!(starts(&world.transcript(), "input"), ["input the task"]);
        assert_eq!(starts(&world.transcript(), "text"), ["text one"]);
    })
    .await;
}

#[tokio::test]
async fn w5_a_stopped_worker_wakes_with_its_context_and_the_message_as_its_prompt() {
    let mut world = World::worker(&json!([{ "text": "one" }, { "text": "two" }]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        peer.record_run(true).await;
        assert_eq!(process.ended().await, Ending::Done);
        world.boot.runs_before = 1;
        let (_process, mut peer) = world.connect().await;
        peer.deliver("m2", lead(), "go on").await;
        let (run, outcome) = peer.record_run(true).await;
        // The script's second step: the first run is part of what the model reads.
        assert_eq!((run, outcome.result.as_str()), (2, "two"));
        let lines = world.transcript();
        let [_, woken, said] = starts(&lines, "input")[..] else { panic!("{lines:?}") };
        assert!(woken.starts_with("input Your last run ended (completed)"), "{woken}");
        assert!(woken.contains("from the lead;"), "{woken}");
        // A viewer sees the lead's words as they are.
        assert_eq!(said, "input go on");
    })
    .await;
}

#[tokio::test]
async fn n5_notifications_wake_a_lead_and_stand_as_coordd_wrote_them() {
    let world = World::new(Role::Lead, &json!([{ "text": "one" }, { "text": "two" }]));
    let notification = proto::notification::Notification {
        task_id: "a7".to_owned(),
        status: RunStatus::Completed,
        summary: "s".to_owned(),
        result: "</result> r".to_owned(),
        usage: proto::notification::Usage::default(),
    };
    in_world(async {
        let (_process, mut peer) = world.connect().await;
        let text = proto::notification::render(&notification);
        peer.deliver("m1", Origin::Notification { notification: notification.clone() }, &text)
            .await;
        peer.record_run(false).await;
        assert_eq!(world.transcript()[0], format!("input {text}"));
    })
    .await;
}

#[tokio::test]
async fn m2_a_request_to_end_ends_the_run_as_completed() {
    let world = World::worker(&json!([
        { "text": "a", "tools": [wait_for_go()] },
        { "text": "this far" },
        { "text": "never said" },
    ]));
    in_world(async {
        let (process, mut peer) = world.begin().await;
        world.until_exists("running").await;
        peer.order(Order::Deliver {
            message: "m2".to_owned(),
            origin: lead(),
            text: "enough".to_owned(),
            shutdown: true,
        })
        .await;
        say_go(&world);
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!((outcome.status, outcome.result.as_str()), (RunStatus::Completed, "this far"));
        assert_eq!(process.ended().await, Ending::Done);
        let lines = world.transcript();
        assert!(lines[4].starts_with("input The lead asks you to finish up"), "{}", lines[4]);
        assert!(lines[4].contains("(request shutdown-m2)"), "{}", lines[4]);
        assert_eq!(lines[5], "input <reason>enough</reason>");
    })
    .await;
}

/// A worker that does not come to an end by itself is not let go on for ever.
#[tokio::test]
async fn m2_after_a_request_to_end_only_a_few_turns_are_left() {
    let step = json!({ "text": "busy", "tools": [bash("true")] });
    let world = World::worker(&json!(vec![step; 20]));
    in_world(async {
        let (_process, mut peer) = world.connect().await;
        peer.order(Order::Deliver {
            message: "m1".to_owned(),
            origin: lead(),
            text: String::new(),
            shutdown: true,
        })
        .await;
        let (_, outcome) = peer.record_run(true).await;
        assert_eq!((outcome.status, outcome.result.as_str()), (RunStatus::Completed, "busy"));
        assert_eq!(starts(&world.transcript(), "text").len(), 3);
    })
    .await;
}
