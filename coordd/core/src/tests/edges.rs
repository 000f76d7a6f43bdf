//! What holds at the edge of a bound, and what a rule must leave alone. Each was once a change that no test noticed.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use proto_words::address::Place;

use super::{Stage, USER, completed, worker};
use crate::agent::Life;
use crate::answer::{Answer, SendRow};
use crate::denial::Denial;
use crate::id::MessageId;
use crate::input::Says;
use crate::message::{Outside, Sender, State};
use crate::outgoing::{self, Outgoing};
use crate::permission::Question;
use crate::request::{NewAgent, NewSession, Request};
use crate::{Effect, Input, Moment, Record, limits};

fn question() -> Request {
    Request::PermissionAsk(Question {
        tool: "Bash".into(),
        input: "{}".into(),
        reason: "no rule allows it".into(),
        rule: String::new(),
        about: String::new(),
        shown: String::new(),
    })
}

/// W-3: a reason of exactly the most bytes is taken, one more is not.
#[test]
fn w3_the_longest_reason_is_taken_and_a_longer_one_is_not() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let call = stage.send_call(lead, None, question());
    let deny = |len: usize| Request::PermissionAnswer {
        id: "p1".into(),
        allow: false,
        always: false,
        reason: "x".repeat(len),
    };
    let max = limits::REASON_LEN_MAX;
    let denied = stage.user(deny(max + 1));
    assert_eq!(denied, Err(Denial::TooLarge { field: "reason", len: max + 1, max }));
    assert_eq!(stage.user(deny(max)), Ok(Answer::Done));
    assert!(stage.reply(lead, call).is_some());
}

/// rel-96: settings of exactly the most bytes begin a session, and larger ones do not.
#[test]
fn rel96_settings_that_are_too_large_begin_no_session() {
    let mut stage = Stage::new();
    let new = |len: usize| {
        let model = crate::settings::Model { name: "m".repeat(len), ..super::model() };
        Request::SessionNew(NewSession {
            name: "large".into(),
            cwd: "/here".into(),
            model: Some(model),
            mode: Some("normal".into()),
            workers: 1,
            ..NewSession::default()
        })
    };
    let denied = stage.user(new(limits::SETTINGS_LEN_MAX + 1));
    assert!(matches!(denied, Err(Denial::TooLarge { field: "model", .. })), "{denied:?}");
    assert!(stage.core.durable.sessions.is_empty());
    assert!(matches!(stage.user(new(100)), Ok(Answer::Session(_))));
}

/// T-4, rel-96: all texts of a team's tasks together have a bound, which is their sum.
#[test]
fn t4_the_texts_of_all_tasks_are_bounded_by_their_sum() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage
        .ask(
            lead,
            Request::TeamCreate {
                session: "s".into(),
                name: "team".into(),
                description: String::new(),
                agent_type: String::new(),
            },
        )
        .unwrap();
    let create = |len: usize| Request::TaskCreate {
        team: "team".into(),
        subject: "s".into(),
        description: "d".repeat(len - 1),
        blocked_by: Vec::new(),
    };
    let each = 64 * 1024;
    let full = limits::TASKS_BYTES_MAX / each;
    for _ in 1..full {
        stage.user(create(each)).unwrap();
    }
    let max = limits::TASKS_BYTES_MAX;
    let denied = stage.user(create(each)).and_then(|_| stage.user(create(1)));
    assert_eq!(denied, Err(Denial::TooLarge { field: "all tasks", len: max + 1, max }));
}

/// M-6: what one step says to the outside counts against the room that there is.
#[test]
fn m6_what_one_step_says_outside_has_room_for_all_of_it() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    for name in ["alice", "bob"] {
        let from = Outside {
            address: Place::Socket(format!("/run/{name}.sock")),
            name: name.into(),
            bypasses: false,
            verified: true,
            message: name.into(),
        };
        let session = Some(stage.of("s").id.clone());
        stage.input(Input::Outside { ticket: 1, session, from, says: Says::NotifyWhenIdle });
    }
    assert_eq!(stage.of("s").watchers.len(), 2);
    let now = Moment { wall_ms: stage.wall_ms, mono_ms: stage.mono_ms, random: [7; 64] };
    for number in 1..limits::OUTGOING_OPEN_MAX as u64 {
        let (id, to) = (MessageId(1_000_000 + number), Place::Socket("/run/x.sock".into()));
        let kind = outgoing::Kind::Words { summary: String::new(), notice_id: None };
        let it = Outgoing::new(&now, id, None, Sender::User, to, kind, "x".into());
        stage.core.durable.apply(&Record::OutgoingPut { outgoing: Box::new(it) });
    }
    stage.ask(lead, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let told = stage.step.effects.iter().filter(|it| matches!(it, Effect::HandOut { .. })).count();
    assert_eq!(told, 1, "there was room for one");
}

/// W-6: a second stop of the same kind changes nothing; one that keeps no mail takes back that it is kept.
#[test]
fn w6_a_second_stop_of_the_same_kind_writes_nothing() {
    let mut stage = Stage::with_session();
    stage.lead();
    let stop = || Request::SessionStop { session: "s".into() };
    stage.send_call(USER, None, stop());
    let keeps = |stage: &Stage| match stage.agent("lead").life {
        Life::Stopping { keep_mail, .. } => Some(keep_mail),
        Life::Down | Life::Waiting | Life::Up => None,
    };
    assert_eq!(keeps(&stage), Some(true));
    stage.send_call(USER, None, stop());
    let stopping = |it: &&Record| matches!(it, Record::AgentStopping { .. });
    assert_eq!(stage.step.records.iter().filter(stopping).count(), 0);
    stage.send_call(USER, None, Request::AgentStop { agent: "s/lead".into() });
    assert_eq!(keeps(&stage), Some(false));
}

/// W-1: with a new environment an idle lead starts afresh; workers, and a lead at work, are left alone.
#[test]
fn w1_a_new_environment_ends_nobody_at_work() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let w = stage.connect("w");
    stage.read(w, "w");
    let changed = |stage: &mut Stage| {
        let session = stage.of("s").id.clone();
        stage.input(Input::EnvironmentChanged { session });
        (stage.agent("lead").life.clone(), stage.agent("w").life.clone())
    };
    assert_eq!(changed(&mut stage), (Life::Up, Life::Up));
    stage.ask(lead, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let (lead, w) = changed(&mut stage);
    assert!(matches!(lead, Life::Stopping { keep_mail: true, .. }), "{lead:?}");
    assert_eq!(w, Life::Up);
}

/// M-7: what waits for another machine is kept for its whole time, and then expires.
#[test]
fn m7_what_waits_for_another_machine_is_kept_for_its_whole_time() {
    let mut stage = Stage::with_session();
    let now = Moment { wall_ms: stage.wall_ms, mono_ms: stage.mono_ms, random: [7; 64] };
    let to = Place::Remote { peer: "a".repeat(16), session: "s9".into() };
    let kind = outgoing::Kind::Words { summary: String::new(), notice_id: None };
    let id = MessageId(1_000_000);
    let it = Outgoing::new(&now, id, None, Sender::User, to, kind, "x".into());
    stage.core.durable.apply(&Record::OutgoingPut { outgoing: Box::new(it) });
    let mut later = |ms: u64| {
        stage.wall_ms += ms;
        stage.mono_ms += ms;
        stage.input(Input::Tick);
        stage.core.durable.outbox.get(id).map(|it| it.state)
    };
    assert_eq!(later(limits::BRIDGE_KEPT_MS), Some(State::Accepted));
    assert_eq!(later(2 * limits::FORGET_EVERY_MS), Some(State::Expired));
}

/// M-11: what a sender hears of its message says what the receiver does with it.
#[test]
fn m11_a_sender_hears_what_becomes_of_its_message() {
    let mut stage = Stage::new();
    stage.session("s", "normal", 1);
    let lead = stage.lead();
    let note = |stage: &mut Stage, to: &str| {
        let answer = stage.user(super::to(to, "hello"));
        let Ok(Answer::Sent(rows)) = answer else { panic!("{answer:?}") };
        match rows.into_iter().next() {
            Some(SendRow::Accepted { note, .. }) => note,
            other => panic!("{other:?}"),
        }
    };
    assert!(note(&mut stage, "lead").contains("next tool round"));
    stage.ask(lead, Request::AgentSpawn(worker("a"))).unwrap();
    stage.ask(lead, Request::AgentSpawn(worker("b"))).unwrap();
    assert!(note(&mut stage, "b").contains("waits for a place"));
    assert!(note(&mut stage, "a").contains("reads the message now"));
    stage.send_call(USER, None, Request::AgentStop { agent: "s/a".into() });
    assert!(note(&mut stage, "a").contains("being stopped"));
    stage.exit("a", None);
    assert!(note(&mut stage, "b").contains("now"), "it has the place");
    stage.send_call(USER, None, Request::AgentStop { agent: "s/b".into() });
    stage.exit("b", None);
    assert!(note(&mut stage, "b").contains("the message resumes it"));
}

/// W-6: an agent that names itself is told that it cannot stop itself; its run ends when it says so.
#[test]
fn w6_an_agent_does_not_stop_itself() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let denied = stage.ask(lead, Request::AgentStop { agent: "lead".into() });
    assert_eq!(denied, Err(Denial::ToSelf));
    assert_eq!(stage.agent("lead").life, Life::Up);
}

/// C-4, rel-96: a task and a description of exactly the most bytes start a worker, and longer ones do not.
#[test]
fn c4_the_longest_task_starts_a_worker_and_a_longer_one_does_not() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let (prompt, description) = (limits::BODY_LEN_MAX, limits::DESCRIPTION_LEN_MAX);
    let new = |name: &str, prompt: usize, description: usize| NewAgent {
        prompt: "p".repeat(prompt),
        description: "d".repeat(description),
        ..worker(name)
    };
    for (field, prompt, description, max) in [
        ("prompt", prompt + 1, description, prompt),
        ("description", prompt, description + 1, description),
    ] {
        let denied = stage.ask(lead, Request::AgentSpawn(new("a", prompt, description)));
        assert_eq!(denied, Err(Denial::TooLarge { field, len: max + 1, max }));
    }
    let made = stage.ask(lead, Request::AgentSpawn(new("a", prompt, description)));
    assert!(matches!(made, Ok(Answer::Spawned { .. })), "{made:?}");
}

/// M-8: a session exchanges messages with so many machines at most, in whichever direction; what is allowed already can change.
#[test]
fn m8_a_session_is_open_to_so_many_machines() {
    let mut stage = Stage::with_session();
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let peers: Vec<String> = letters
        .iter()
        .flat_map(|first| letters.map(|second| format!("aaaaaaaaaaaaaa{first}{second}")))
        .collect();
    let allow = |stage: &mut Stage, peer: &str, inbound: bool, outbound: bool| {
        let (session, peer) = ("s".into(), peer.into());
        stage.user(Request::BridgeAllow { session, peer, inbound, outbound })
    };
    let max = limits::BRIDGED_MAX;
    for (number, peer) in peers.iter().take(max).enumerate() {
        allow(&mut stage, peer, number % 2 == 0, number % 2 == 1).unwrap();
    }
    assert_eq!(stage.of("s").bridged.len(), max);
    let full = Err(Denial::Full { what: "machines of one session", max });
    let another = "zzzzzzzzzzzzzzzz";
    assert_eq!(allow(&mut stage, another, true, false), full);
    assert_eq!(allow(&mut stage, another, false, true), full);
    assert!(allow(&mut stage, another, false, false).is_ok(), "nothing is allowed by that");
    assert!(allow(&mut stage, &peers[0], true, true).is_ok());
    assert!(allow(&mut stage, &peers[1], false, false).is_ok());
    assert!(allow(&mut stage, another, true, false).is_ok(), "there is room again");
}

/// M-11: what is said of other machines' messages has a bound over all of them; the last one within it is said.
#[test]
fn m11_what_is_said_of_others_messages_is_bounded() {
    let mut stage = Stage::with_session();
    let session = stage.of("s").id.clone();
    let set =
        Request::InboundSet { session: "s".into(), inbound: Some(crate::session::Inbound::Hold) };
    stage.user(set).unwrap();
    let now = Moment { wall_ms: stage.wall_ms, mono_ms: stage.mono_ms, random: [7; 64] };
    let put = |stage: &mut Stage, number: usize| {
        let id = MessageId(1_000_000 + number as u64);
        let to = Place::Remote { peer: "b".repeat(16), session: "s9".into() };
        let kind =
            outgoing::Kind::Status { of: format!("m{number}"), verdict: outgoing::Verdict::Held };
        let it = Outgoing::new(&now, id, None, Sender::System, to, kind, String::new());
        stage.core.durable.apply(&Record::OutgoingPut { outgoing: Box::new(it) });
    };
    for number in 1..limits::BRIDGE_STATUSES_MAX {
        put(&mut stage, number);
    }
    let arrives = |stage: &mut Stage, number: u32| {
        let from = Outside {
            address: Place::Remote { peer: "c".repeat(16), session: "s1".into() },
            name: "carol".into(),
            bypasses: false,
            verified: true,
            message: format!("c{number}"),
        };
        let says = Says::Words { text: "x".into(), summary: String::new() };
        stage.input(Input::Outside { ticket: 1, session: Some(session.clone()), from, says });
        stage.core.durable.outbox.statuses_len()
    };
    assert_eq!(arrives(&mut stage, 1), limits::BRIDGE_STATUSES_MAX);
    assert_eq!(arrives(&mut stage, 2), limits::BRIDGE_STATUSES_MAX, "one more is left out");
}
