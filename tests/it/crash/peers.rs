//! The daemon dies at each point of the way of a message to a session of another program: what its
//! receipt says is true, and the receiver takes it for one message, by the id that stays the same.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::message::{Body, MessageState};
use proto::request::Request;
use proto::response::Response;
use tests::Sandbox;
use tests::kept::Kept;
use tests::outsider::Outsider;
use tests::stubborn::Stubborn;
use tests::wait::until_within;

use super::with_failpoint;

/// Plays it with a death at this point, the n-th time that the daemon gets there. What the receiver
/// heard.
fn dies_at(point: &str, time: usize) -> Vec<String> {
    let mut kept = Kept::start(Sandbox::new(), with_failpoint(&format!("{point}=abort@{time}")));
    let alice = Outsider::new(&kept, "alice");
    let mut client = Stubborn::new(&kept.socket());
    let request = Request::Send {
        session: String::new(),
        to: alice.address(),
        body: Body::text("is the build green?"),
        summary: String::new(),
        notify_when_idle: false,
    };
    let Response::Sent { results } = client.ok(&request, Some("one")) else { panic!("not sent") };
    let proto::message::SendResult::Accepted { id, .. } = &results[0] else {
        panic!("{results:?}")
    };
    let receipt = until_within(Duration::from_secs(30), "its fate is known", || {
        let request = Request::Receipt { message: id.clone() };
        let Response::Receipt { receipt } = client.ok(&request, None) else { panic!("no receipt") };
        (receipt.state != MessageState::Accepted).then_some(receipt)
    });
    // Another one after it, so that all that is said of the first has been heard.
    let last = Request::Send {
        session: String::new(),
        to: alice.address(),
        body: Body::text("the last word"),
        summary: String::new(),
        notify_when_idle: false,
    };
    client.ok(&last, Some("two"));
    let mut heard = Vec::new();
    loop {
        let line = alice.hear();
        let text = line["message"]["content"].as_str().unwrap_or_default();
        if text.contains("the last word") {
            break;
        }
        assert!(text.contains("is the build green?"), "{line}");
        heard.push(line["msg_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(receipt.state, MessageState::Delivered, "{point} {time}: {receipt:?}");
    let deaths = kept.end();
    assert_eq!(deaths, 1, "{point} {time}");
    heard
}

/// Once, or twice under one id, which is one message to its receiver.
#[test]
fn m10_rel16_a_message_outside_is_one_whatever_dies_on_its_way() {
    for (point, times) in [
        ("before-saying", 1..=1),
        ("after-saying", 1..=1),
        ("before-commit", 1..=2),
        ("after-commit", 1..=2),
    ] {
        for time in times {
            let heard = dies_at(point, time);
            let ids: BTreeSet<_> = heard.iter().collect();
            assert_eq!(ids.len(), 1, "{point} {time}: {heard:?}");
            assert!(heard.len() <= 2, "{point} {time}: {heard:?}");
            if point == "after-saying" {
                assert_eq!(heard.len(), 2, "it is said again, for the receiver to tell");
            }
        }
    }
}
