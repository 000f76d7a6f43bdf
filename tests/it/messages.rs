//! M-1 to M-5, M-11: what is accepted is on disk, is handed over until it is acknowledged, and its
//! sender can ask for it.

use proto::Outcome;
use proto::error::{ErrorBody, ErrorCode};
use proto::message::{BODY_LEN_MAX, Body, MessageState, SendResult};
use proto::request::Request;
use proto::response::Response;
use tests::agents::{Agents, FakeAgent};
use tests::{Client, Codec};

/// The most unconsumed messages of one agent (M-4).
const MAILBOX_LEN: usize = 1_000;

fn request(session: &str, to: &str, text: &str) -> Request {
    let body = Body::text(text);
    Request::Send {
        session: session.into(),
        to: to.into(),
        body,
        summary: "a few words".into(),
        notify_when_idle: false,
    }
}

fn rows(response: Response) -> Vec<SendResult> {
    match response {
        Response::Sent { results } => results,
        other => panic!("{other:?}"),
    }
}

/// Sends what must be accepted by one. Returns the message's id, the number ahead of it, and what
/// will happen.
fn send(client: &mut Client, session: &str, to: &str, text: &str) -> (String, u32, String) {
    let mut results = rows(client.ok(request(session, to, text)));
    match results.remove(0) {
        SendResult::Accepted { id, ahead, note, .. } => (id, ahead, note),
        SendResult::Refused { reason, .. } => panic!("{reason}"),
    }
}

fn state(client: &mut Client, id: &str) -> MessageState {
    client.receipt(id).state
}

fn denied(client: &mut Client, session: &str, to: &str) -> ErrorBody {
    client.denied(request(session, to, "x"))
}

/// A6, A12, A19, M-11: who has it, since when, how many are before it; read is what the reader says
/// that it has read.
#[test]
fn m11_a_receipt_follows_its_message() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "normal");
    let mut client = daemon.client();
    let session = lead.boot.session.clone();
    lead.disconnect();
    let (first, ahead, _) = send(&mut client, &session, "lead", "one");
    assert_eq!(ahead, 0);
    let (second, ahead, _) = send(&mut client, &session, "lead", "two");
    assert_eq!(ahead, 1);

    lead.reconnect(&daemon);
    for (id, text) in [(&first, "one"), (&second, "two")] {
        let delivered = lead.deliver();
        assert_eq!((&delivered.message, delivered.text.contains(text)), (id, true));
        let receipt = client.receipt(id);
        assert_eq!(receipt.state, MessageState::Delivered);
        assert!(receipt.delivered_ms >= Some(receipt.accepted_ms), "{receipt:?}");
        assert_eq!((receipt.from.as_str(), receipt.to.as_str()), ("user", "lead"));
    }
    // The receiver takes its time; meanwhile it stays where it is.
    assert_eq!(state(&mut client, &first), MessageState::Delivered);
    lead.acknowledge(&[&first], 1);
    let consumed = client.receipt(&first);
    assert_eq!(consumed.state, MessageState::Consumed);
    assert!(consumed.ended_ms >= consumed.delivered_ms, "{consumed:?}");
    assert_eq!(client.receipt(&second).ahead, 0);
    assert_eq!(state(&mut client, &second), MessageState::Delivered);
    lead.acknowledge(&[&second], 1);
    assert_eq!(state(&mut client, &second), MessageState::Consumed);
    let error = client.denied(Request::Receipt { message: "m999999".into() });
    assert_eq!(error.code, ErrorCode::NotFound);
}

/// rel-15: killed between accepting and handing over, with the receiver waiting and with the
/// receiver dead.
#[test]
fn m3_rel15_what_was_accepted_survives_kill_9() {
    for receiver_dies in [false, true] {
        let (mut daemon, mut agents) = Agents::start();
        let mut lead = agents.lead(&daemon, "normal");
        let session = lead.boot.session.clone();
        lead.disconnect();
        let mut client = daemon.client();
        let ids: Vec<_> =
            ["1", "2", "3"].map(|text| send(&mut client, &session, "lead", text).0).into();
        daemon.kill9();
        if receiver_dies {
            tests::processes::Process::open(lead.pid).unwrap().kill9();
        }
        daemon.restart();
        lead = if receiver_dies {
            agents.next(&daemon)
        } else {
            lead.reconnect(&daemon);
            lead
        };
        let delivered: Vec<_> = (0..3).map(|_| lead.deliver().message).collect();
        assert_eq!(delivered, ids, "all of them, in order");
        assert_eq!(state(&mut daemon.client(), &ids[0]), MessageState::Delivered);
    }
}

/// rel-17, A27: handed over again until it is acknowledged, and never again after that.
#[test]
fn m3_rel17_a_message_leaves_when_it_is_acknowledged() {
    let (mut daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "normal");
    let session = lead.boot.session.clone();
    let (id, ..) = send(&mut daemon.client(), &session, "lead", "again and again");
    assert_eq!(lead.deliver().message, id);
    // The connection is lost, then the daemon, then the process.
    lead.reconnect(&daemon);
    assert_eq!(lead.deliver().message, id);
    daemon.kill9();
    daemon.restart();
    lead.reconnect(&daemon);
    assert_eq!(lead.deliver().message, id);
    lead.exit();
    let mut lead = agents.next(&daemon);
    assert_eq!(lead.deliver().message, id);

    lead.acknowledge(&[&id], 1);
    lead.reconnect(&daemon);
    lead.assert_nothing_comes();
    daemon.kill9();
    daemon.restart();
    lead.reconnect(&daemon);
    lead.assert_nothing_comes();
    assert_eq!(state(&mut daemon.client(), &id), MessageState::Consumed);
}

/// M-11: a client that does not know whether its send arrived sends it again.
#[test]
fn m11_rel18_a_repeated_send_is_one_message() {
    let (mut daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "normal");
    let session = lead.boot.session.clone();
    let once = request(&session, "lead", "once");
    let first = daemon.client().call_keyed(once.clone(), Some("k"));
    assert!(matches!(first, Outcome::Ok(_)), "{first:?}");
    assert_eq!(daemon.client().call_keyed(once.clone(), Some("k")), first);
    daemon.kill9();
    daemon.restart();
    assert_eq!(daemon.client().call_keyed(once.clone(), Some("k")), first);
    lead.reconnect(&daemon);
    let delivered = lead.deliver().message;
    lead.assert_nothing_comes();
    // Another key is another message.
    let second = rows(match daemon.client().call_keyed(once, Some("k2")) {
        Outcome::Ok(response) => *response,
        Outcome::Error(error) => panic!("{error:?}"),
    });
    let two = lead.deliver().message;
    assert_ne!(delivered, two);
    assert!(matches!(&second[0], SendResult::Accepted { id, .. } if *id == two));
}

/// A5: the names that there are, the likely one first; nothing is accepted for a name that is not
/// there (rel-16).
#[test]
fn m1_a5_rel16_an_unknown_name_lists_the_live_ones() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let session = lead.boot.session.clone();
    let _writer = agents.worker(&daemon, &mut lead, "writer");
    let _engineer = agents.worker(&daemon, &mut lead, "engineer");
    for mut client in [daemon.client(), daemon.client_in(Codec::Lines)] {
        let error = denied(&mut client, &session, "enginer");
        assert_eq!(error.code, ErrorCode::NotFound);
        assert!(error.hint.starts_with("known names: engineer, "), "{error:?}");
        assert!(error.hint.contains("lead") && error.hint.contains("writer"), "{error:?}");
    }
    let error = denied(&mut lead.client, "", "enginer");
    assert!(error.hint.contains("engineer, "), "{error:?}");
    lead.assert_nothing_comes();
}

#[test]
fn m1_other_addresses_are_refused_with_what_is_valid() {
    let (daemon, mut agents) = Agents::start();
    let lead = agents.lead(&daemon, "normal");
    let mut client = daemon.client();
    let error = denied(&mut client, &lead.boot.session, "bridge:some-session");
    assert_eq!(error.code, ErrorCode::NotFound, "{error:?}");
    assert!(error.message.contains("no session here"), "{error:?}");
    assert!(error.hint.contains("on another machine"), "{error:?}");
    let error = denied(&mut client, &lead.boot.session, "bridge:aaaaaaaaaaaaaaaa/some-session");
    assert!(error.hint.contains("coordctl bridge add"), "{error:?}");
    for (to, said) in [
        ("tcp:localhost", "`tcp:` is no kind of address"),
        ("uds:relative.sock", "absolute"),
        ("bridge:", "id"),
        ("", "empty"),
    ] {
        let error = denied(&mut client, &lead.boot.session, to);
        assert_eq!(error.code, ErrorCode::Invalid, "{to}: {error:?}");
        let whole = format!("{} {}", error.message, error.hint);
        assert!(whole.contains(said), "{to}: {whole}");
    }
}

/// rel-68: a full mailbox refuses, keeps what it has, and is nobody else's problem.
#[test]
fn m4_m5_rel68_a_full_mailbox_refuses_and_stops_nobody_else() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let session = lead.boot.session.clone();
    let full = agents.worker(&daemon, &mut lead, "full");
    let mut other = agents.worker(&daemon, &mut lead, "other");
    let mut client = daemon.client();
    for hundred in 0..MAILBOX_LEN / 100 {
        let text = |n: u32| format!("{hundred}, {n}");
        let calls: Vec<_> = (0..100)
            .map(|n| client.start_call(request(&session, "full", &text(n)), None))
            .collect();
        for id in calls {
            assert!(matches!(client.reply(id), Outcome::Ok(_)));
        }
    }
    let error = denied(&mut client, &session, "full");
    assert_eq!(error.code, ErrorCode::MailboxFull);
    assert!(error.hint.contains("nothing was sent"), "{error:?}");

    let results = rows(lead.client.ok(request("", "*", "to all")));
    let named = |name: &str| {
        results
            .iter()
            .find(|it| match it {
                SendResult::Accepted { to, .. } | SendResult::Refused { to, .. } => to == name,
            })
            .unwrap_or_else(|| panic!("no row for {name}: {results:?}"))
    };
    assert_eq!(results.len(), 2, "without the sender: {results:?}");
    assert!(matches!(named("full"), SendResult::Refused { reason, .. } if reason.contains("full")));
    assert!(matches!(named("other"), SendResult::Accepted { .. }));
    assert!(other.deliver().text.contains("to all"));
    drop(full);
}

#[test]
fn m4_what_is_too_large_or_empty_is_refused() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "normal");
    let session = lead.boot.session.clone();
    let mut client = daemon.client();
    let error = client.denied(request(&session, "lead", &"x".repeat(BODY_LEN_MAX + 1)));
    assert_eq!(error.code, ErrorCode::TooLarge);
    assert!(error.hint.contains("file"), "{error:?}");
    assert_eq!(client.denied(request(&session, "lead", " \n")).code, ErrorCode::Invalid);
    lead.assert_nothing_comes();
    let largest = "x".repeat(BODY_LEN_MAX);
    send(&mut client, &session, "lead", &largest);
    assert!(lead.deliver().text.contains(&largest));
}

/// M-2: structured kinds go to one named teammate, and an answer answers something.
#[test]
fn m2_structured_messages() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let mut worker = agents.worker(&daemon, &mut lead, "w");
    let structured = |to: &str, body: Body| Request::Send {
        session: String::new(),
        to: to.into(),
        body,
        summary: String::new(),
        notify_when_idle: false,
    };
    let shutdown = || Body::ShutdownRequest { reason: "done".into() };
    let error = lead.client.denied(structured("*", shutdown()));
    assert_eq!(error.code, ErrorCode::Invalid, "{error:?}");
    assert!(error.hint.contains("one to each"), "{error:?}");
    for body in [
        Body::ShutdownResponse {
            request_id: "shutdown-m1".into(),
            approve: true,
            reason: String::new(),
        },
        Body::PlanApprovalResponse {
            request_id: "plan-1".into(),
            approve: true,
            feedback: String::new(),
        },
    ] {
        let error = lead.client.denied(structured("w", body));
        assert_eq!(error.code, ErrorCode::State, "{error:?}");
    }
    let results = rows(lead.client.ok(structured("w", shutdown())));
    let SendResult::Accepted { request_id: Some(request_id), id, .. } = &results[0] else {
        panic!("{results:?}")
    };
    assert_eq!(*request_id, format!("shutdown-{id}"));
    let asked = worker.deliver();
    assert!(asked.shutdown && asked.message == *id, "{asked:?}");
}

/// What a stopped agent did not read goes back, and its sender can see why.
#[test]
fn m4_unread_messages_of_a_stopped_agent_bounce() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let session = lead.boot.session.clone();
    let mut worker = agents.worker(&daemon, &mut lead, "w");
    worker.disconnect();
    let mut client = daemon.client();
    let (id, ..) = send(&mut client, &session, "w", "too late");
    let response = client.ok(Request::AgentStop { agent: format!("{session}/w") });
    let Response::Stopped { agents, bounced } = response else { panic!("{response:?}") };
    assert_eq!((agents, bounced), (vec!["w".to_owned()], 1));
    let receipt = client.receipt(&id);
    assert_eq!(receipt.state, MessageState::Bounced);
    assert!(receipt.reason.contains("stopped"), "{receipt:?}");
}

/// N-5, rel-71: in the order of their ends, together, when the lead is back.
#[test]
fn n5_rel71_notifications_come_in_order_of_completion() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let workers: Vec<_> =
        ["a", "b", "c"].into_iter().map(|name| agents.worker(&daemon, &mut lead, name)).collect();
    let [mut a, mut b, mut c] = <[FakeAgent; 3]>::try_from(workers).unwrap();
    lead.disconnect();
    for worker in [&mut c, &mut a, &mut b] {
        let result = format!("found by {}", worker.boot.name);
        assert!(worker.complete(1, &result), "a worker's process may exit");
    }
    lead.reconnect(&daemon);
    let texts: Vec<_> = (0..3).map(|_| lead.deliver().text).collect();
    for (text, name) in texts.iter().zip(["c", "a", "b"]) {
        assert!(text.contains(&format!("<result>found by {name}</result>")), "{texts:?}");
    }
}
