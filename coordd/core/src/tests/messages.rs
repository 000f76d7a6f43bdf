//! Messages from acceptance to their end (section 6 of SPEC), and the notifications among them (section 5).

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use super::{Stage, USER, accepted, completed, to};
use crate::agent::{Class, Outcome, Status, Usage};
use crate::answer::{Answer, SendRow};
use crate::denial::Denial;
use crate::effect::Event;
use crate::id::{MessageId, PeerId};
use crate::message::{Kind, Sender, State};
use crate::request::{Address, Body, NewAgent, Request};
use crate::{Effect, Input, Record, limits};

fn send(body: Body, to: Address) -> Request {
    Request::Send { session: "s".into(), to, body, summary: String::new(), notify_when_idle: false }
}

/// A live session whose lead works, with worker `w` in a run.
fn lead_and_worker() -> (Stage, PeerId, PeerId) {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let worker = stage.connect("w");
    stage.read(worker, "w");
    (stage, lead, worker)
}

/// Which notifications the lead's mailbox holds, by worker, run and status.
fn notifications(stage: &Stage) -> Vec<(String, u32, Status)> {
    let durable = &stage.core.durable;
    let kinds = durable.messages.values().map(|it| &it.kind);
    let found = kinds.filter_map(|kind| match kind {
        Kind::Notification { agent, run, outcome, .. } => {
            Some((durable.agents[agent].name.to_string(), *run, outcome.status))
        }
        _ => None,
    });
    found.collect()
}

/// M-2: every body to every address, said by the lead.
#[test]
fn m2_bodies_and_addresses() {
    let bodies = [
        Body::Text { text: "words".into() },
        Body::ShutdownRequest { reason: "enough".into() },
        Body::ShutdownResponse {
            request_id: "shutdown-m99".into(),
            approve: true,
            reason: String::new(),
        },
        Body::PlanApprovalResponse {
            request_id: "plan-1".into(),
            approve: true,
            feedback: String::new(),
        },
    ];
    let addresses = [
        Address::Name("w".into()),
        Address::Everyone,
        Address::Uds("/x.sock".into()),
        Address::Bridge("none".into()),
    ];
    let mut table = Vec::new();
    for body in &bodies {
        for address in &addresses {
            let (mut stage, lead, _) = lead_and_worker();
            let call = stage.send_call(lead, None, send(body.clone(), address.clone()));
            let Some(reply) = stage.reply(lead, call) else {
                table.push("waits for what becomes of it".into());
                continue;
            };
            table.push(match reply {
                Ok(Answer::Sent(rows)) => format!("{} accepted", rows.len()),
                Ok(other) => panic!("{other:?}"),
                Err(Denial::NoBridge { given, .. }) => format!("no bridge to {given}"),
                Err(Denial::StructuredToMany) => "one named teammate only".into(),
                Err(Denial::NoOpenRequest { .. }) => "no open request".into(),
                Err(other) => panic!("{other:?}"),
            });
        }
    }
    let (uds, bridge) = ("waits for what becomes of it", "no bridge to none");
    let many = "one named teammate only";
    #[rustfmt::skip]
    let want = [
        "1 accepted",      "1 accepted", uds,  bridge,
        "1 accepted",      many,         many, many,
        "no open request", many,         many, many,
        "no open request", many,         many, many,
    ];
    assert_eq!(table, want);
}

/// M-2: only the one who was asked answers, and only once.
#[test]
fn m2_a_shutdown_response_needs_its_request() {
    let (mut stage, lead, _) = lead_and_worker();
    let asked = stage.user(send(
        Body::ShutdownRequest { reason: "enough".into() },
        Address::Name("lead".into()),
    ));
    let Ok(Answer::Sent(rows)) = asked else { panic!("{asked:?}") };
    let [SendRow::Accepted { request_id: Some(request_id), .. }] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    let answer = |id: &str| {
        let body =
            Body::ShutdownResponse { request_id: id.into(), approve: true, reason: String::new() };
        send(body, Address::Name("w".into()))
    };
    assert!(matches!(stage.user(answer(request_id)), Err(Denial::NoOpenRequest { .. })));
    assert!(matches!(stage.ask(lead, answer("shutdown-m1")), Err(Denial::NoOpenRequest { .. })));
    accepted(stage.ask(lead, answer(request_id)));
    assert!(matches!(stage.ask(lead, answer(request_id)), Err(Denial::NoOpenRequest { .. })));
}

/// M-4, case A31: full by number, full by bytes, too large: said, and nothing is dropped.
#[test]
fn m4_a_full_mailbox_refuses() {
    let mut stage = Stage::with_session();
    let size = limits::BODY_LEN_MAX;
    let denial = stage.user(to("lead", &"x".repeat(size + 1))).unwrap_err();
    assert_eq!(denial, Denial::TooLarge { field: "message", len: size + 1, max: size });
    for _ in 0..limits::MAILBOX_BYTES_MAX / size {
        accepted(stage.user(to("lead", &"x".repeat(size))));
    }
    let denial = stage.user(to("lead", "x")).unwrap_err();
    assert_eq!(denial, Denial::MailboxFull { name: "lead".into(), len: 64 });

    let mut stage = Stage::with_session();
    for n in 0..limits::MAILBOX_LEN_MAX {
        let sent = stage.user(to("lead", "x"));
        let Ok(Answer::Sent(rows)) = sent else { panic!("{sent:?}") };
        let [SendRow::Accepted { ahead, .. }] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(*ahead as usize, n, "M-11: how many are ahead");
    }
    let denial = stage.user(to("lead", "x")).unwrap_err();
    assert_eq!(denial, Denial::MailboxFull { name: "lead".into(), len: 1_000 });
    // Room again as soon as they are read.
    let lead = stage.connect("lead");
    stage.read(lead, "lead");
    assert_eq!(stage.agent("lead").mailbox_bytes, 0);
    accepted(stage.user(to("lead", "x")));
}

/// M-5, A37, rel-70: everyone but the sender, one row each; a full one does not stop the others.
#[test]
fn m5_a_broadcast_tells_of_each_receiver() {
    let (mut stage, lead, worker) = lead_and_worker();
    for name in ["full", "gone"] {
        stage.spawn(lead, name).unwrap();
    }
    let done = stage.connect("gone");
    stage.read(done, "gone");
    stage.ask(done, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    stage.exit("gone", None);
    for _ in 1..limits::MAILBOX_LEN_MAX {
        accepted(stage.user(to("full", "x")));
    }
    let everyone = send(Body::Text { text: "to all".into() }, Address::Everyone);
    let row = |row: &SendRow| match row {
        SendRow::Accepted { to, .. } => format!("{to} accepted"),
        SendRow::Refused { to, reason } => format!("{to}: {reason}"),
    };
    let Ok(Answer::Sent(rows)) = stage.ask(lead, everyone.clone()) else { panic!() };
    let rows: Vec<_> = rows.iter().map(row).collect();
    assert_eq!(rows, ["w accepted", "full: its mailbox is full"]);
    let Ok(Answer::Sent(rows)) = stage.user(everyone) else { panic!() };
    let rows: Vec<_> = rows.iter().map(row).collect();
    assert_eq!(rows, ["lead accepted", "w accepted", "full: its mailbox is full"]);
    stage.input(Input::Disconnected { peer: worker });
}

/// M-3, A9, rel-17: a message leaves the mailbox only when it is in the conversation; lost on the way it is handed over again, in order.
#[test]
fn a9_m3_what_is_not_acknowledged_is_handed_over_again() {
    let (mut stage, _, worker) = lead_and_worker();
    let [one, two] = ["one", "two"].map(|text| accepted(stage.user(to("w", text))));
    assert_eq!(stage.states("w"), [State::Consumed, State::Delivered, State::Delivered]);
    let delivered = |stage: &Stage| {
        let ids = stage.step.effects.iter().filter_map(|it| match it {
            Effect::Deliver { message, .. } => Some(*message),
            _ => None,
        });
        ids.collect::<Vec<_>>()
    };
    stage.input(Input::Disconnected { peer: worker });
    assert_eq!(delivered(&stage), []);
    let worker = stage.connect("w");
    assert_eq!(delivered(&stage), [one, two]);
    stage
        .ask(worker, Request::Acknowledge { messages: vec![one, one, MessageId(1)], run: 1 })
        .unwrap();
    assert_eq!(stage.message(one).state, State::Consumed);
    stage.exit("w", None);
    stage.connect("w");
    assert_eq!(delivered(&stage), [two], "what is acknowledged does not come again");
    assert_eq!(stage.message(MessageId(1)).state, State::Consumed);
}

/// A message to a worker whose run has ended waits for the process to leave, and then starts it again (A8, W-5).
#[test]
fn a8_w5_mail_at_the_end_of_a_run_begins_the_next() {
    let (mut stage, _, worker) = lead_and_worker();
    let reply = stage.ask(worker, Request::RunEnded { run: 1, outcome: completed() });
    assert_eq!(reply, Ok(Answer::RunRecorded { exit: true }));
    let id = accepted(stage.user(to("w", "one more thing")));
    assert_eq!(
        stage.message(id).state,
        State::Accepted,
        "it is not handed to a process that leaves"
    );
    stage.exit("w", None);
    assert_eq!(stage.agent("w").crashes, 0, "to leave is no crash");
    let worker = stage.connect("w");
    stage.read(worker, "w");
    stage.ask(worker, Request::RunEnded { run: 2, outcome: completed() }).unwrap();
    let runs = notifications(&stage);
    assert_eq!(runs, [("w".into(), 1, Status::Completed), ("w".into(), 2, Status::Completed)]);
}

/// A10, A13, A21, M-4: a stop sends unread mail back, tells its sender, and nothing wakes the worker but new words.
#[test]
fn a13_a21_a_stop_sends_mail_back() {
    let (mut stage, lead, worker) = lead_and_worker();
    let by_lead = accepted(stage.ask(lead, to("w", "from the lead")));
    stage.input(Input::Disconnected { peer: worker });
    let by_user = accepted(stage.user(to("w", "from the user")));
    let call = stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    // What was handed over may have been read: its end is known with the process's.
    assert_eq!(stage.message(by_user).state, State::Bounced);
    assert_eq!(stage.message(by_user).reason, "w was stopped; it had not got the message");
    assert_eq!(stage.message(by_lead).state, State::Delivered);
    assert_eq!(stage.reply(USER, call), None);
    stage.exit("w", None);
    assert_eq!(stage.message(by_lead).state, State::Bounced);
    let reason = "w was stopped; it had got the message, and may have read it";
    assert_eq!(stage.message(by_lead).reason, reason);
    let agents = vec!["w".into()];
    assert_eq!(stage.reply(USER, call), Some(Ok(Answer::Stopped { agents, bounced: 2 })));
    assert_eq!(stage.agent("w").life, crate::agent::Life::Down);
    // The lead is told, once, by coordd.
    let told: Vec<_> = stage
        .core
        .durable
        .messages
        .values()
        .filter(|it| it.from == Sender::System && it.kind == Kind::Text)
        .map(|it| it.text.as_str())
        .collect();
    assert_eq!(told, [format!("Undeliverable to w: {by_lead}. w was stopped.")]);
    assert_eq!(notifications(&stage), [("w".into(), 1, Status::Killed)]);

    // A second stop takes back what came since the first.
    let woken = accepted(stage.user(to("w", "go on")));
    assert!(stage.agent("w").has_process());
    stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    let between = accepted(stage.user(to("w", "no, do go on")));
    stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    stage.exit("w", None);
    for id in [woken, between] {
        assert_eq!(stage.message(id).state, State::Bounced);
    }
    assert_eq!(stage.agent("w").life, crate::agent::Life::Down);
}

/// A10, W-5: what is said to a worker while it ends is not part of what its stop takes back.
#[test]
fn a10_mail_that_comes_during_a_stop_resumes_the_worker() {
    let (mut stage, _, _) = lead_and_worker();
    stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    let id = accepted(stage.user(to("w", "but first")));
    assert_eq!(stage.message(id).state, State::Accepted);
    stage.exit("w", None);
    assert_eq!(stage.message(id).state, State::Accepted);
    assert_eq!(stage.agent("w").life, crate::agent::Life::Up);
    let worker = stage.connect("w");
    stage.read(worker, "w");
    assert_eq!(stage.message(id).state, State::Consumed);
}

/// A13: an agent that may have begun a run when it was stopped does not resume it with the next message, and nobody is
/// taken to wait for what that run began.
#[test]
fn a13_a_stop_ends_a_run_that_was_never_acknowledged() {
    let mut stage = Stage::with_session();
    stage.prompt("lead");
    let lead = stage.connect("lead");
    let new = NewAgent { wait: true, ..super::worker("w") };
    stage.send_call(lead, Some("tool-1"), Request::AgentSpawn(new));
    stage.send_call(USER, None, Request::AgentStop { agent: "s/lead".into() });
    stage.exit("lead", None);
    assert_eq!(stage.agent("lead").runs, 1, "the next process is told that run 1 is over");
    let worker = stage.connect("w");
    stage.read(worker, "w");
    stage.ask(worker, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    assert_eq!(notifications(&stage), [("w".into(), 1, Status::Completed)]);
}

/// rel-52, rel-80: what has ended has ended, whatever a record says.
#[test]
fn rel80_a_final_state_never_changes() {
    let (mut stage, ..) = lead_and_worker();
    let id = MessageId(1);
    let before = stage.message(id).clone();
    assert_eq!(before.state, State::Consumed);
    let (reason, at_ms) = (String::from("late"), 1);
    let durable = &mut stage.core.durable;
    durable.apply(&Record::MessageBounced { message: id, reason, at_ms });
    durable.apply(&Record::MessageDelivered { message: id, at_ms });
    assert_eq!(*stage.message(id), before);
}

/// Nobody acknowledges for another.
#[test]
fn g9_an_acknowledgement_counts_for_ones_own_mail_only() {
    let (mut stage, _, worker) = lead_and_worker();
    let id = accepted(stage.user(to("lead", "for the lead")));
    stage.ask(worker, Request::Acknowledge { messages: vec![id, MessageId(99)], run: 1 }).unwrap();
    assert_eq!(stage.step.records, []);
    assert_eq!(stage.message(id).state, State::Delivered);
}

/// N-4: neither a stop of the lead nor its failure loses what its workers reported, and neither wakes it for that alone.
#[test]
fn n4_a_stopped_lead_keeps_its_notifications() {
    let (mut stage, _, worker) = lead_and_worker();
    stage.send_call(USER, None, Request::AgentStop { agent: "s/lead".into() });
    stage.ask(worker, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    stage.exit("lead", None);
    assert_eq!(stage.agent("lead").life, crate::agent::Life::Down);
    assert_eq!(stage.agent("lead").mailbox.len(), 1);
    stage.send_call(USER, None, Request::AgentStop { agent: "s/lead".into() });
    assert_eq!(stage.agent("lead").mailbox.len(), 1);
    stage.restart();
    assert_eq!(stage.agent("lead").life, crate::agent::Life::Down);
    stage.prompt("lead");
    assert_eq!(stage.agent("lead").life, crate::agent::Life::Up);
    let lead = stage.connect("lead");
    stage.read(lead, "lead");
    assert_eq!(notifications(&stage), [("w".into(), 1, Status::Completed)]);
    assert!(stage.states("lead").iter().all(|it| *it == State::Consumed));
}

/// rel-53, W-8: what cannot be started fails at once, says why, and is not tried again.
#[test]
fn rel53_a_lead_that_cannot_be_started_tells_the_user() {
    let mut stage = Stage::with_session();
    let prompt = stage.prompt("lead");
    let (agent, incarnation) = (stage.id("lead"), stage.agent("lead").incarnation);
    stage.input(Input::SpawnFailed {
        agent,
        incarnation,
        why: "the working directory is gone".into(),
    });
    assert_eq!(stage.agent("lead").life, crate::agent::Life::Down);
    let message = stage.message(prompt);
    assert_eq!(message.state, State::Bounced);
    assert_eq!(message.reason, "the working directory is gone; it had not got the message");
    let is_warning = |it: &Effect| matches!(it, Effect::Publish { event: Event::Warning(text), .. } if text.contains("directory is gone"));
    assert!(stage.step.effects.iter().any(is_warning), "{:?}", stage.step.effects);
    let last = stage.agent("lead").last.clone().unwrap();
    assert_eq!((last.outcome.status, last.outcome.class), (Status::Failed, Some(Class::Fatal)));
}

/// B8, rel-54, N-4: three ends in the middle of one run, and it has failed, with one notification.
#[test]
fn b8_rel54_a_run_is_given_up_after_three_crashes() {
    let (mut stage, lead, worker) = lead_and_worker();
    let unread = accepted(stage.ask(lead, to("w", "more")));
    for crashes in 1..limits::CRASHES_MAX {
        stage.exit("w", None);
        assert_eq!(stage.agent("w").crashes, crashes);
        assert_eq!(notifications(&stage), []);
        // A daemon that dies meanwhile forgets none of them.
        stage.restart();
        stage.connect("w");
    }
    stage.exit("w", None);
    stage.exit("w", None);
    assert_eq!(notifications(&stage), [("w".into(), 1, Status::Failed)]);
    assert_eq!(stage.agent("w").life, crate::agent::Life::Down);
    assert_eq!(stage.message(unread).state, State::Bounced);
    // Words of the former process change nothing.
    let denial = stage.ask(worker, Request::RunEnded { run: 2, outcome: completed() }).unwrap_err();
    assert_eq!(denial, Denial::BadCredentials);
}

/// N-4, B1: reported, found on disk, reported again: one notification, with the outcome of the first.
#[test]
fn b1_n4_one_notification_for_each_run() {
    let (mut stage, _, worker) = lead_and_worker();
    stage.ask(worker, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let failed = Outcome { status: Status::Failed, ..completed() };
    stage.ask(worker, Request::RunEnded { run: 1, outcome: failed.clone() }).unwrap();
    stage.exit("w", Some((1, failed)));
    assert_eq!(notifications(&stage), [("w".into(), 1, Status::Completed)]);
    assert_eq!(stage.agent("w").runs, 1);
}

/// rel-9: runs count from 1, whatever an agent claims.
#[test]
fn a_run_of_number_0_is_refused() {
    let (mut stage, _, worker) = lead_and_worker();
    let id = accepted(stage.user(to("w", "more")));
    for request in [
        Request::RunEnded { run: 0, outcome: completed() },
        Request::Acknowledge { messages: vec![id], run: 0 },
    ] {
        assert!(matches!(stage.ask(worker, request), Err(Denial::Invalid { field: "run", .. })));
    }
}

/// N-6: almost no tools and tokens in the research phase.
#[test]
fn n6_thin_research_is_marked() {
    for (phase, tools, tokens, thin) in [
        ("research", 0, 10, true),
        ("research", 1, 999, true),
        ("research", 2, 10, false),
        ("research", 0, 1_000, false),
        ("implementation", 0, 10, false),
        ("", 0, 10, false),
    ] {
        let mut stage = Stage::with_session();
        let lead = stage.lead();
        let new = NewAgent { phase: phase.into(), ..super::worker("w") };
        stage.ask(lead, Request::AgentSpawn(new)).unwrap();
        let worker = stage.connect("w");
        stage.read(worker, "w");
        let usage = Usage { tool_uses: tools, input_tokens: tokens, ..Usage::default() };
        let outcome = Outcome { usage, ..completed() };
        stage.ask(worker, Request::RunEnded { run: 1, outcome }).unwrap();
        assert_eq!(stage.agent("w").last.as_ref().unwrap().thin, thin, "{phase} {tools} {tokens}");
        let notified = stage.core.durable.messages.values().find(|it| it.from == Sender::System);
        assert_eq!(notified.unwrap().summary.contains("thin"), thin);
    }
}

/// A result longer than a notification may carry is cut between characters, and says so.
#[test]
fn w9_a_long_result_is_cut_and_says_so() {
    let (mut stage, _, worker) = lead_and_worker();
    let outcome = Outcome { result: "ä".repeat(limits::RESULT_LEN_MAX), ..completed() };
    stage.ask(worker, Request::RunEnded { run: 1, outcome }).unwrap();
    let notified = stage.core.durable.messages.values().find(|it| it.from == Sender::System);
    let text = &notified.unwrap().text;
    assert!(text.len() <= limits::RESULT_LEN_MAX && text.ends_with("in the worker's transcript.]"));
}

/// A39, M-11: a key makes a repeated call the same call.
#[test]
fn a39_m11_a_repeated_call_with_its_key_does_nothing_more() {
    let mut stage = Stage::with_session();
    let request = to("lead", "once");
    let mut answers = Vec::new();
    for _ in 0..3 {
        let call = stage.send_call(USER, Some("k"), request.clone());
        answers.push(stage.reply(USER, call).unwrap());
    }
    assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
    assert_eq!(stage.states("lead").len(), 1);
    for bad in ["", &"k".repeat(limits::KEY_LEN_MAX + 1)] {
        let call = stage.send_call(USER, Some(bad), request.clone());
        assert!(matches!(stage.reply(USER, call), Some(Err(Denial::Invalid { field: "key", .. }))));
    }
}

/// M-11, rel-80: receipts and keys stay for 7 days, and a clock that jumps does not take them from who repeats a call.
#[test]
fn m11_receipts_stay_for_seven_days_whatever_the_clock_says() {
    let mut stage = Stage::with_session();
    let call = stage.send_call(USER, Some("k"), to("lead", "once"));
    let id = accepted(stage.reply(USER, call).unwrap());
    let lead = stage.connect("lead");
    stage.read(lead, "lead");
    let tick = |stage: &mut Stage, ms: u64, jump_ms: u64| {
        stage.mono_ms += ms;
        stage.wall_ms += ms + jump_ms;
        stage.input(Input::Tick);
        stage.core.durable.messages.contains_key(&id)
    };
    assert!(tick(&mut stage, limits::FORGET_EVERY_MS, 0));
    assert!(
        tick(&mut stage, limits::FORGET_EVERY_MS, limits::RECEIPT_KEPT_MS),
        "right after a jump"
    );
    assert!(tick(&mut stage, limits::FORGET_EVERY_MS - 10, 0));
    assert!(stage.core.durable.keys.len() == 1);
    assert!(!tick(&mut stage, 1_000, 0), "the jump is long ago");
    assert_eq!(stage.core.durable.keys.len(), 0);
    let given = format!("{id} (receipts are kept for 7 days)");
    let denial = stage.user(Request::Receipt { message: id.to_string() }).unwrap_err();
    assert_eq!(denial, Denial::NoSuch { what: "message", given });
}

/// A39: the key of a call in a run that goes on is never too old.
#[test]
fn a39_an_open_run_keeps_its_keys() {
    let (mut stage, lead, _) = lead_and_worker();
    let spawn = Request::AgentSpawn(super::worker("x"));
    stage.send_call(lead, Some("tool-2"), spawn.clone());
    let tick = |stage: &mut Stage| {
        for _ in 0..2 {
            stage.mono_ms += 2 * limits::RECEIPT_KEPT_MS;
            stage.wall_ms += 2 * limits::RECEIPT_KEPT_MS;
            stage.input(Input::Tick);
        }
    };
    tick(&mut stage);
    let call = stage.send_call(lead, Some("tool-2"), spawn.clone());
    assert!(matches!(stage.reply(lead, call), Some(Ok(Answer::Spawned { .. }))));
    stage.ask(lead, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    tick(&mut stage);
    let call = stage.send_call(lead, Some("tool-2"), spawn);
    assert!(matches!(stage.reply(lead, call), Some(Err(Denial::NameTaken { .. }))));
}

/// B-4 of the figures: how much waits in a mailbox does not matter for a send to it.
#[test]
fn b4_a_send_records_the_same_however_deep_the_mailbox_is() {
    let mut stage = Stage::with_session();
    stage.prompt("lead");
    stage.connect("lead");
    for _ in 0..900 {
        accepted(stage.user(to("lead", "x")));
        let records = &stage.step.records;
        assert!(matches!(
            records.as_slice(),
            [Record::MessagePut { .. }, Record::MessageDelivered { .. }]
        ));
    }
    assert_eq!(stage.agent("lead").mailbox.len(), 901);
}
