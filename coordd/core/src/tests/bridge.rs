//! Sessions on other machines: what may pass, what is handed to the bridge, and what becomes of it (M-7, M-8, M-11).

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use super::{Stage, USER};
use crate::answer::{Answer, SendRow};
use crate::bridge::{Brought, Decision, Fate, PeerReport, Report};
use crate::denial::Denial;
use crate::id::{AgentId, MessageId, PeerId};
use crate::input::{Credentials, Lineage, Says};
use crate::message::{Sender, State};
use crate::outgoing::Verdict;
use crate::request::{Address, Body, Request};
use crate::session::Inbound;
use crate::{Effect, Input, limits};

const FAR: &str = "aaaaaaaaaaaaaaaa";
const BRIDGE: PeerId = PeerId(77);

fn set_up() -> Stage {
    let mut stage = Stage::with_session();
    stage.user(Request::BridgeSet { on: true }).unwrap();
    assert!(stage.step.effects.contains(&Effect::WantBridge { on: true }));
    connect(&mut stage);
    stage
}

fn hello(stage: &mut Stage, token: &str) {
    let credentials =
        Credentials { agent: AgentId("bridge".into()), incarnation: 1, token: token.into() };
    stage.input(Input::Connected {
        peer: BRIDGE,
        credentials: Some(credentials),
        lineage: Lineage::default(),
    });
}

fn connect(stage: &mut Stage) {
    let token = "ff".to_string();
    stage.input(Input::BridgeStarting { incarnation: 1, token });
    hello(stage, "ff");
    assert!(stage.step.effects.iter().any(|it| matches!(it, Effect::BeginBridge { .. })));
    let peer = PeerReport { fingerprint: FAR.into(), name: "desk".into(), ..PeerReport::default() };
    let report = Report { peers: vec![peer], ..Report::default() };
    stage.ask(BRIDGE, Request::BridgeReport(report)).unwrap();
}

fn allow(stage: &mut Stage, inbound: bool, outbound: bool) {
    let (session, peer) = ("s".into(), "desk".into());
    stage.user(Request::BridgeAllow { session, peer, inbound, outbound }).unwrap();
}

fn out(text: &str) -> Request {
    Request::Send {
        session: String::new(),
        to: Address::Bridge(format!("{FAR}/s9")),
        body: Body::Text { text: text.into() },
        summary: String::new(),
        notify_when_idle: false,
    }
}

fn sent(answer: Result<Answer, Denial>) -> MessageId {
    match answer {
        Ok(Answer::Sent(rows)) => match &rows[0] {
            SendRow::Accepted { id, to, .. } => {
                assert_eq!(to, &format!("bridge:{FAR}/s9"));
                *id
            }
            SendRow::Refused { reason, .. } => panic!("{reason}"),
        },
        other => panic!("{other:?}"),
    }
}

fn carried(stage: &Stage) -> Vec<MessageId> {
    let ids = stage.step.effects.iter().filter_map(|it| match it {
        Effect::Carry { peer: BRIDGE, outgoing } => Some(*outgoing),
        _ => None,
    });
    ids.collect()
}

fn state(stage: &Stage, id: MessageId) -> State {
    stage.core.durable.outbox.get(id).unwrap().state
}

fn told(stage: &mut Stage, id: MessageId, fate: Fate) {
    stage.ask(BRIDGE, Request::BridgeTold { id, fate }).unwrap();
}

fn words(message: &str, text: &str) -> Brought {
    Brought {
        peer: FAR.into(),
        peer_name: "desk".into(),
        to: String::new(),
        from: "s9".into(),
        name: "dates".into(),
        bypasses: false,
        message: message.into(),
        says: Says::Words { text: text.into(), summary: String::new() },
    }
}

fn bring(stage: &mut Stage, mut it: Brought) -> Decision {
    if it.to.is_empty() {
        it.to = stage.of("s").id.to_string();
    }
    match stage.ask(BRIDGE, Request::BridgeBring(it)) {
        Ok(Answer::Brought(decision)) => decision,
        other => panic!("{other:?}"),
    }
}

#[test]
fn m7_a_bridge_is_let_in_by_its_secret_and_while_it_is_wanted() {
    let mut stage = Stage::with_session();
    let token = "ff".to_string();
    stage.input(Input::BridgeStarting { incarnation: 1, token });
    let refused = Effect::Close { peer: BRIDGE, denial: Denial::BadCredentials };
    hello(&mut stage, "ff");
    assert!(stage.step.effects.contains(&refused), "nobody wants a bridge");
    stage.user(Request::BridgeSet { on: true }).unwrap();
    for wrong in ["", "fe", "fff"] {
        hello(&mut stage, wrong);
        assert!(stage.step.effects.contains(&refused), "{wrong:?}");
    }
    connect(&mut stage);
    stage.user(Request::BridgeSet { on: false }).unwrap();
    assert!(stage.step.effects.contains(&refused));
    assert!(stage.step.effects.contains(&Effect::WantBridge { on: false }));
}

#[test]
fn m7_l5_nothing_leaves_that_the_user_did_not_allow() {
    let mut stage = set_up();
    let lead = stage.lead();
    let denied = stage.ask(lead, out("x"));
    assert!(matches!(denied, Err(Denial::NotBridged { .. })), "{denied:?}");
    allow(&mut stage, true, false);
    assert!(stage.ask(lead, out("x")).is_err(), "it may be heard, and not write");
    allow(&mut stage, false, true);
    let id = sent(stage.ask(lead, out("x")));
    assert_eq!(carried(&stage), [id]);
    // The user's own words need no leave, but a daemon that is trusted.
    sent(stage.user(out("y")));
    let to = Address::Bridge("bbbbbbbbbbbbbbbb/s9".into());
    let Request::Send { session, body, summary, notify_when_idle, .. } = out("z") else {
        unreachable!()
    };
    let strange = Request::Send { session, to, body, summary, notify_when_idle };
    assert!(matches!(stage.user(strange), Err(Denial::NotTrusted { .. })));
    stage.user(Request::BridgeSet { on: false }).unwrap();
    assert_eq!(stage.user(out("x")), Err(Denial::BridgeOff));
}

#[test]
fn m11_a_message_to_another_machine_stays_until_that_daemon_has_it() {
    let mut stage = set_up();
    allow(&mut stage, false, true);
    let lead = stage.lead();
    let id = sent(stage.ask(lead, out("are you there?")));
    // Lost connections and daemons make no difference.
    stage.input(Input::Disconnected { peer: BRIDGE });
    connect(&mut stage);
    stage.restart();
    assert!(stage.core.durable.bridge.unwrap().on);
    hello(&mut stage, "");
    let token = "ff".to_string();
    stage.input(Input::BridgeStarting { incarnation: 1, token });
    hello(&mut stage, "ff");
    assert_eq!(carried(&stage), [id]);
    assert_eq!(state(&stage, id), State::Accepted);
    told(&mut stage, id, Fate::Taken);
    assert_eq!(state(&stage, id), State::Delivered);
    assert!(stage.core.durable.outbox.get(id).unwrap().text.is_empty());
    told(&mut stage, id, Fate::Refused("late".into()));
    assert_eq!(state(&stage, id), State::Delivered, "it was told once");
    let wire_id = stage.core.durable.outbox.get(id).unwrap().wire_id.clone();
    let status = |of: &str, verdict| Brought {
        says: Says::Status { of: of.into(), verdict, reason: String::new() },
        ..words("st", "")
    };
    // Another session of that daemon says nothing about it.
    let other = Brought { from: "s8".into(), ..status(&wire_id, Verdict::Consumed) };
    assert_eq!(bring(&mut stage, other), Decision::Taken);
    assert_eq!(state(&stage, id), State::Delivered);
    assert_eq!(bring(&mut stage, status(&wire_id, Verdict::Consumed)), Decision::Taken);
    assert_eq!(state(&stage, id), State::Consumed);
}

#[test]
fn m4_m11_what_is_refused_or_expires_is_told_to_its_sender() {
    let mut stage = set_up();
    allow(&mut stage, false, true);
    let lead = stage.lead();
    let fates = [
        (Fate::Refused("no".into()), State::Bounced, "was refused there"),
        (Fate::Expired, State::Expired, "expired"),
    ];
    for (fate, want, said) in fates {
        let id = sent(stage.ask(lead, out("x")));
        told(&mut stage, id, fate);
        assert_eq!(state(&stage, id), want);
        let last = stage.core.durable.messages.values().last().unwrap();
        assert!(last.from == Sender::System && last.text.contains(said), "{last:?}");
    }
    // With the bridge off nobody else watches the time.
    let id = sent(stage.ask(lead, out("x")));
    stage.input(Input::Disconnected { peer: BRIDGE });
    stage.wall_ms += limits::BRIDGE_KEPT_MS + 2 * limits::FORGET_EVERY_MS;
    stage.mono_ms += limits::BRIDGE_KEPT_MS + 2 * limits::FORGET_EVERY_MS;
    stage.input(Input::Tick);
    assert_eq!(state(&stage, id), State::Expired);
}

#[test]
fn m8_l5_nothing_comes_in_that_the_user_did_not_allow() {
    let mut stage = set_up();
    let refused = bring(&mut stage, words("m1", "hello"));
    assert!(matches!(&refused, Decision::Refused(why) if why.contains("bridge allow")));
    let unknown = Brought { to: "nobody".into(), ..words("m1", "hello") };
    assert_eq!(bring(&mut stage, unknown), refused, "which sessions there are is not told");
    allow(&mut stage, false, true);
    assert_eq!(bring(&mut stage, words("m1", "hello")), refused);
    allow(&mut stage, true, false);
    assert_eq!(bring(&mut stage, words("m1", "hello")), Decision::Taken);
    assert_eq!(bring(&mut stage, words("m1", "hello")), Decision::Taken, "it came again");
    let from_far: Vec<_> = stage.core.durable.messages.values().collect();
    assert_eq!(from_far.len(), 1, "{from_far:?}");
    let Sender::Outside(from) = &from_far[0].from else { panic!("{from_far:?}") };
    assert_eq!(from.address.to_string(), format!("bridge:{FAR}/s9"));
    assert_eq!((from.name.as_str(), from.verified), ("dates@desk", true));
    allow(&mut stage, false, false);
    assert_eq!(bring(&mut stage, words("m2", "hello")), refused);
}

#[test]
fn m8_m11_held_read_and_refused_are_told_across_machines() {
    let mut stage = set_up();
    allow(&mut stage, true, false);
    let set = |inbound| Request::InboundSet { session: "s".into(), inbound: Some(inbound) };
    stage.user(set(Inbound::Hold)).unwrap();
    assert_eq!(bring(&mut stage, words("m1", "hello")), Decision::Taken);
    let statuses = |stage: &Stage| -> Vec<Verdict> {
        let kinds = carried(stage).into_iter().map(|id| {
            let it = stage.core.durable.outbox.get(id).unwrap();
            assert_eq!(it.to.to_string(), format!("bridge:{FAR}/s9"));
            it.kind.clone()
        });
        kinds
            .map(|it| match it {
                crate::outgoing::Kind::Status { verdict, .. } => verdict,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(statuses(&stage), [Verdict::Held]);
    stage.user(set(Inbound::Refuse)).unwrap();
    assert!(matches!(bring(&mut stage, words("m2", "x")), Decision::Refused(_)));
    stage.user(set(Inbound::Accept)).unwrap();
    assert_eq!(bring(&mut stage, words("m3", "x")), Decision::Taken);
    // The lead begins its run with all of its mail.
    stage.lead();
    let said = stage.core.durable.outbox.carried().map(|it| it.kind.clone());
    let said: Vec<_> = said.collect();
    let consumed = crate::outgoing::Kind::Status { of: "m3".into(), verdict: Verdict::Consumed };
    assert!(said.contains(&consumed), "{said:?}");
}

#[test]
fn rel74_what_waits_for_other_machines_is_bounded_and_one_that_is_away_stops_nobody() {
    let mut stage = set_up();
    for _ in 0..limits::BRIDGE_WINDOW_MAX {
        let id = sent(stage.user(out("x")));
        assert_eq!(carried(&stage), [id]);
    }
    let waits = sent(stage.user(out("x")));
    assert_eq!(carried(&stage), [], "the window is full");
    let first = stage.core.durable.outbox.carried().next().unwrap().id;
    told(&mut stage, first, Fate::Taken);
    assert_eq!(carried(&stage), [waits]);
    while stage.core.durable.outbox.carried_len() < limits::BRIDGE_OPEN_MAX {
        sent(stage.user(out("x")));
    }
    assert!(matches!(stage.user(out("x")), Err(Denial::Full { .. })));
    let long = "\u{1}".repeat(limits::BRIDGE_TEXT_LEN_MAX / 6 + 1);
    assert!(matches!(stage.user(out(&long)), Err(Denial::TooLarge { .. })));
}

/// M-11: what was taken can be told of. A daemon that fetches nothing of that is not heard any more, and stops no other.
#[test]
fn m11_no_more_is_taken_than_can_be_told_of() {
    let mut stage = set_up();
    allow(&mut stage, true, true);
    let set = Request::InboundSet { session: "s".into(), inbound: Some(Inbound::Accept) };
    stage.user(set).unwrap();
    let lead = stage.lead();
    let mut taken = 0;
    while bring(&mut stage, words(&format!("m{taken}"), "x")) == Decision::Taken {
        taken += 1;
        let message = *stage.core.durable.messages.keys().last().unwrap();
        stage.ask(lead, Request::Acknowledge { messages: vec![message], run: 1 }).unwrap();
        assert!(taken <= limits::BRIDGE_STATUSES_OF_ONE_MAX, "without bound");
    }
    assert_eq!(taken, limits::BRIDGE_STATUSES_OF_ONE_MAX);
    assert_eq!(stage.core.durable.outbox.carried_len(), taken, "one was left out");
    assert_eq!(bring(&mut stage, words("more", "x")), Decision::Later);
    // Own words have their own room, and another daemon is heard.
    sent(stage.user(out("x")));
    let other = "bbbbbbbbbbbbbbbb";
    let session = "s".into();
    let allow =
        Request::BridgeAllow { session, peer: other.into(), inbound: true, outbound: false };
    stage.user(allow).unwrap();
    let from_other = Brought { peer: other.into(), ..words("o1", "x") };
    assert_eq!(bring(&mut stage, from_other), Decision::Taken);
    let first = stage.core.durable.outbox.carried().next().unwrap().id;
    told(&mut stage, first, Fate::Taken);
    assert_eq!(bring(&mut stage, words("more", "x")), Decision::Taken);
}

#[test]
fn m7_numbers_begin_anew_after_damage() {
    let mut stage = set_up();
    let before = stage.core.durable.bridge.unwrap().epoch;
    stage.input(Input::Damaged);
    let after = stage.core.durable.bridge.unwrap();
    assert!(after.on && after.epoch > before);
    // Where there is no bridge yet, one that comes later begins anew all the same.
    let mut stage = Stage::with_session();
    stage.input(Input::Damaged);
    let damaged = stage.core.durable.bridge.unwrap();
    assert!(!damaged.on);
    stage.user(Request::BridgeSet { on: true }).unwrap();
    assert_eq!(stage.core.durable.bridge.unwrap().epoch, damaged.epoch);
}

#[test]
fn m8_the_bridge_speaks_for_nobody() {
    let mut stage = set_up();
    let answer = Request::PermissionAnswer {
        id: "p1".into(),
        allow: true,
        always: false,
        reason: String::new(),
    };
    for request in [answer, out("x"), Request::SessionList, Request::BridgeSet { on: false }] {
        let denied = stage.ask(BRIDGE, request);
        assert!(matches!(denied, Err(Denial::Forbidden { .. })), "{denied:?}");
    }
    let forged = stage.ask(USER, Request::BridgeBring(words("m1", "x")));
    assert!(matches!(forged, Err(Denial::Forbidden { .. })));
}
