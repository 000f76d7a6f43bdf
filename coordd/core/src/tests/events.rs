//! What subscribers are told follows from records alone (fA22).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{Stage, USER, to};
use crate::agent::Life;
use crate::bridge::{PeerReport, Report};
use crate::effect::Event;
use crate::id::{MessageId, SessionId};
use crate::message::State;
use crate::request::{Address, Body, Request};
use crate::session::Inbound;
use crate::{Effect, Input, Record};

/// What the last step tells, with the session that it is of.
fn told(stage: &Stage) -> Vec<(SessionId, Event)> {
    let events = stage.step.effects.iter().filter_map(|effect| match effect {
        Effect::Publish { session, event } => Some((session.clone(), event.clone())),
        _ => None,
    });
    events.collect()
}

#[test]
fn fa22_a_setting_of_a_session_is_told() {
    let mut stage = Stage::with_session();
    let session = stage.of("s").id.clone();
    let set = Request::InboundSet { session: "s".into(), inbound: Some(Inbound::Hold) };
    stage.user(set.clone()).unwrap();
    assert_eq!(told(&stage), [(session.clone(), Event::SettingsChanged)]);
    stage.user(set).unwrap();
    assert_eq!(told(&stage), [], "nothing has changed");

    let peer = PeerReport { fingerprint: "aaaaaaaaaaaaaaaa".into(), ..PeerReport::default() };
    stage.core.live.bridge.report = Report { peers: vec![peer], ..Report::default() };
    let (peer, inbound, outbound) = ("aaaaaaaaaaaaaaaa".into(), true, false);
    stage.user(Request::BridgeAllow { session: "s".into(), peer, inbound, outbound }).unwrap();
    assert_eq!(told(&stage), [(session, Event::SettingsChanged)]);
}

#[test]
fn fa22_a_message_to_the_outside_is_told_from_its_acceptance_on() {
    let mut stage = Stage::with_session();
    let session = stage.of("s").id.clone();
    let changed = |state| Event::MessageChanged { message: MessageId(1), state };
    let body = Body::Text { text: "hello".into() };
    let request = Request::Send {
        session: "s".into(),
        to: Address::Uds("/run/bob.sock".into()),
        body,
        summary: String::new(),
        notify_when_idle: false,
    };
    let call = stage.send_call(USER, None, request);
    assert_eq!(told(&stage), [(session.clone(), changed(State::Accepted))]);
    stage.input(Input::Handed { outgoing: MessageId(1), failed: None });
    assert_eq!(told(&stage), [(session, changed(State::Delivered))]);
    assert!(stage.reply(USER, call).is_some());
}

/// The same record tells its subscribers in one way, whichever rule it comes from.
#[test]
fn fa22_an_agents_life_is_told_with_its_record() {
    let mut stage = Stage::with_session();
    stage.user(to("lead", "go")).unwrap();
    let lead = stage.of("s").lead.clone();
    let lives: Vec<_> = told(&stage)
        .into_iter()
        .filter_map(|(_, event)| match event {
            Event::AgentChanged { agent, life, .. } => Some((agent, life)),
            _ => None,
        })
        .collect();
    assert_eq!(lives, [(lead.clone(), Life::Waiting), (lead, Life::Up)]);
    let starts = |record: &&Record| matches!(record, Record::AgentStarted { .. });
    assert_eq!(stage.step.records.iter().filter(starts).count(), 1);
}
