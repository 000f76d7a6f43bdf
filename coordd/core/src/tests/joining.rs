//! Programs of the user's that join a session (L-4): who is let in as what, what their mail does, and how they leave.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::{Stage, USER, accepted, completed, to, worker};
use crate::agent::{Life, Process, Runtime};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::Order;
use crate::id::{AgentId, PeerId};
use crate::message::State;
use crate::mode::Mode;
use crate::request::{Join, NewSession, Request};
use crate::role::Role;
use crate::{Effect, Input, limits};

fn process(pid: u32) -> Process {
    Process { pid, start_ticks: 7, boot_id: "b".into() }
}

fn join(role: Role, name: &str, pid: u32) -> Request {
    Request::Join(Join {
        session: "s".into(),
        role,
        name: name.into(),
        process: Some(process(pid)),
    })
}

/// A session `s` whose lead is a program that joins.
fn stage() -> Stage {
    let mut stage = Stage::new();
    let new = external("coordinator");
    assert!(matches!(stage.user(Request::SessionNew(new)), Ok(Answer::Session(_))));
    stage
}

fn external(mode: &str) -> NewSession {
    NewSession {
        name: "s".into(),
        cwd: "/here".into(),
        model: Some(super::model()),
        mode: Some(mode.into()),
        lead_runtime: Runtime::External,
        ..NewSession::default()
    }
}

fn joined(answer: Result<Answer, Denial>) -> AgentId {
    match answer {
        Ok(Answer::Joined { agent, .. }) => agent,
        other => panic!("{other:?}"),
    }
}

/// The lead joins as process 10, and says hello.
fn lead(stage: &mut Stage) -> PeerId {
    joined(stage.user(join(Role::Coordinator, "", 10)));
    stage.connect("lead")
}

fn spawned(stage: &Stage) -> Vec<String> {
    let durable = &stage.core.durable;
    let agents = stage.step.effects.iter().filter_map(|it| match it {
        Effect::Spawn { agent, .. } => durable.agents.get(agent).map(|it| it.name.to_string()),
        _ => None,
    });
    agents.collect()
}

fn orders(stage: &Stage, peer: PeerId) -> usize {
    let is_stop = |it: &&Effect| matches!(it, Effect::Order { peer: to, order: Order::Stop { .. } } if *to == peer);
    stage.step.effects.iter().filter(is_stop).count()
}

#[test]
fn l4_an_external_lead_is_never_started_and_its_mail_waits_for_it() {
    let mut stage = stage();
    let message = stage.prompt("lead");
    assert!(spawned(&stage).is_empty());
    assert_eq!(
        (&stage.agent("lead").life, stage.message(message).state),
        (&Life::Down, State::Accepted)
    );
    stage.restart();
    assert!(spawned(&stage).is_empty());
    let id = joined(stage.user(join(Role::Coordinator, "", 10)));
    let agent = stage.agent("lead");
    assert_eq!(
        (&agent.life, agent.incarnation, &agent.process),
        (&Life::Up, 1, &Some(process(10)))
    );
    assert!(!agent.token.is_empty() && agent.id == id);
    let watched = |it: &&Effect| matches!(it, Effect::Watch { tree: false, process: Some(it), .. } if *it == process(10));
    assert_eq!(stage.step.effects.iter().filter(watched).count(), 1);
    let peer = stage.connect("lead");
    assert!(stage.step.effects.contains(&Effect::Deliver { peer, message }));
    // It has no runs, whatever it says.
    stage.ask(peer, Request::Acknowledge { messages: [message].to_vec(), run: 3 }).unwrap();
    let agent = stage.agent("lead");
    assert!(
        stage.message(message).state == State::Consumed
            && !agent.run_is_open()
            && !agent.is_active()
    );
    let denied = stage.ask(peer, Request::RunEnded { run: 1, outcome: completed() });
    assert!(matches!(denied, Err(Denial::Invalid { field: "run", .. })));
    assert_eq!(stage.agent("lead").runs, 0);
}

#[test]
fn l4_it_starts_workers_and_is_told_of_their_ends() {
    let mut stage = stage();
    let lead = lead(&mut stage);
    stage.ask(lead, Request::AgentSpawn(worker("w"))).unwrap();
    assert_eq!(spawned(&stage), ["w"]);
    let peer = stage.connect("w");
    stage.read(peer, "w");
    // The client is gone when the run ends: the notification waits, and is handed to the next one.
    stage.exit("lead", None);
    assert!(spawned(&stage).is_empty() && stage.agent("lead").life == Life::Down);
    stage.ask(peer, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let notification = *stage.agent("lead").mailbox.back().unwrap();
    assert!(spawned(&stage).is_empty() && stage.agent("lead").life == Life::Down);
    joined(stage.user(join(Role::Coordinator, "", 11)));
    let lead = stage.connect("lead");
    assert!(stage.step.effects.contains(&Effect::Deliver { peer: lead, message: notification }));
    assert_eq!(stage.agent("lead").incarnation, 2);
    stage.exit("w", None);
    let output = Request::StructuredOutput { output: "{}".into() };
    assert_eq!(stage.ask(lead, output), Ok(Answer::Done));
}

/// A program that ends with mail unread has not crashed, however often it does: a client is closed when its user likes.
#[test]
fn l4_mail_waits_however_often_the_program_ends() {
    let mut stage = stage();
    let message = stage.prompt("lead");
    for pid in 10..10 + limits::CRASHES_MAX + 2 {
        joined(stage.user(join(Role::Coordinator, "", pid)));
        let peer = stage.connect("lead");
        assert!(stage.step.effects.contains(&Effect::Deliver { peer, message }));
        stage.exit("lead", None);
        let lead = stage.agent("lead");
        assert_eq!((&lead.life, lead.crashes, lead.runs), (&Life::Down, 0, 0));
    }
    assert_eq!(stage.message(message).state, State::Delivered);
}

#[test]
fn l4_one_program_is_the_lead_and_a_second_one_is_told_so() {
    let mut stage = stage();
    let old = lead(&mut stage);
    let denied = stage.user(join(Role::Coordinator, "", 11)).unwrap_err();
    assert_eq!(denied, Denial::Joined { path: "s/lead".into(), pid: Some(10) });
    assert_eq!(stage.agent("lead").incarnation, 1);
    // The same program has lost the answer: it is a new incarnation, and what it was before is let go.
    joined(stage.user(join(Role::Coordinator, "", 10)));
    let closed = Effect::Close { peer: old, denial: Denial::BadCredentials };
    assert!(stage.step.effects.contains(&closed));
    assert_eq!(stage.agent("lead").incarnation, 2);
    let late = Input::Exited {
        agent: stage.id("lead"),
        incarnation: 1,
        how: "late".into(),
        outcome: None,
    };
    stage.input(late);
    assert_eq!(stage.agent("lead").life, Life::Up);
    stage.exit("lead", None);
    joined(stage.user(join(Role::Coordinator, "", 11)));
}

#[test]
fn l4_who_may_join_as_what() {
    let mut stage = Stage::with_session();
    let path = String::from("s/lead");
    let denied = stage.user(join(Role::Coordinator, "", 10));
    assert_eq!(denied, Err(Denial::NotExternal { path }));
    for role in [Role::Lead, Role::Worker] {
        let denied = stage.user(join(role, "", 10));
        assert!(matches!(denied, Err(Denial::Invalid { field: "role", .. })), "{role:?}");
    }
    let unseen = Join { session: "s".into(), role: Role::Peer, name: String::new(), process: None };
    assert_eq!(stage.user(Request::Join(unseen)), Err(Denial::OutOfSight));
    let lead = stage.lead();
    let denied = stage.ask(lead, join(Role::Peer, "", 10));
    assert!(matches!(denied, Err(Denial::Forbidden { request: "join", .. })));
    let denied = stage.user(join(Role::Peer, "lead", 10));
    assert!(matches!(denied, Err(Denial::NameTaken { .. } | Denial::Invalid { .. })), "{denied:?}");
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    let denied = stage.user(join(Role::Peer, "", 10));
    assert_eq!(denied, Err(Denial::SessionStopped { name: "s".into() }));
    // Neither can one be asked for.
    let mut stage = Stage::new();
    let denied = stage.user(Request::SessionNew(external("normal")));
    assert!(matches!(denied, Err(Denial::Invalid { field: "lead_runtime", .. })));
    let workers = NewSession {
        runtime: Runtime::External,
        lead_runtime: Runtime::Native,
        ..external("normal")
    };
    let denied = stage.user(Request::SessionNew(workers));
    assert!(matches!(denied, Err(Denial::Invalid { field: "runtime", .. })));
    assert!(stage.core.durable.agents.is_empty());
}

#[test]
fn l4_peers_keep_their_names_and_their_mail() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let first = joined(stage.user(join(Role::Peer, "", 10)));
    let second = joined(stage.user(join(Role::Peer, "", 11)));
    let named = joined(stage.user(join(Role::Peer, "gem", 12)));
    let called = |id: &AgentId| stage.core.durable.agents[id].name.to_string();
    let all = [&first, &second, &named].map(called);
    assert_eq!(all, ["peer", "peer-2", "gem"]);
    let denied = stage.user(join(Role::Peer, "GEM", 13)).unwrap_err();
    assert_eq!(denied, Denial::Joined { path: "s/gem".into(), pid: Some(12) });
    // It speaks as an agent, with no more than that.
    let peer = stage.connect("gem");
    let sent = accepted(stage.ask(peer, to("lead", "hello")));
    assert_eq!(stage.message(sent).from, crate::message::Sender::Agent(named.clone()));
    for refused in [
        Request::AgentSpawn(worker("w")),
        Request::AgentStop { agent: "peer".into() },
        Request::StructuredOutput { output: "{}".into() },
        Request::PermissionAnswer {
            id: "p1".into(),
            allow: true,
            always: true,
            reason: String::new(),
        },
        Request::RunEnded { run: 1, outcome: completed() },
    ] {
        assert!(matches!(stage.ask(peer, refused), Err(Denial::Forbidden { .. })));
    }
    // Gone, written to, and back: under its name, or as the first that is free.
    stage.exit("gem", None);
    let waiting = accepted(stage.ask(lead, to("gem", "are you there?")));
    assert!(spawned(&stage).is_empty());
    assert_eq!(joined(stage.user(join(Role::Peer, "", 14))), named);
    let peer = stage.connect("gem");
    assert!(stage.step.effects.contains(&Effect::Deliver { peer, message: waiting }));
}

#[test]
fn l4_a_stop_tells_it_and_then_kills_it_alone() {
    let mut stage = stage();
    let peer = lead(&mut stage);
    let call = stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    assert_eq!(orders(&stage, peer), 1);
    stage.mono_ms += limits::STOP_GRACE_MS;
    stage.input(Input::Tick);
    let killed = |it: &&Effect| matches!(it, Effect::Kill { tree: false, process: Some(it), .. } if *it == process(10));
    assert_eq!(stage.step.effects.iter().filter(killed).count(), 1);
    stage.exit("lead", None);
    let answer = stage.reply(USER, call).unwrap();
    assert_eq!(answer, Ok(Answer::Stopped { agents: ["lead".into()].to_vec(), bounced: 0 }));
    assert_eq!((&stage.agent("lead").life, stage.agent("lead").runs), (&Life::Down, 0));
}

#[test]
fn l4_one_that_does_not_come_back_has_left_and_is_not_killed() {
    let mut stage = stage();
    let peer = lead(&mut stage);
    let message = stage.prompt("lead");
    // The daemon dies and comes back; the program does so too.
    stage.restart();
    assert!(stage.step.effects.is_empty() || spawned(&stage).is_empty());
    assert_eq!(stage.agent("lead").life, Life::Up);
    let peer_again = stage.connect("lead");
    assert!(stage.step.effects.contains(&Effect::Deliver { peer: peer_again, message }));
    stage.input(Input::Disconnected { peer: peer_again });
    stage.mono_ms += limits::RETURN_MS;
    stage.input(Input::Tick);
    assert!(!stage.step.effects.iter().any(|it| matches!(it, Effect::Kill { .. })));
    assert_eq!(stage.agent("lead").life, Life::Down);
    assert_ne!(stage.message(message).state, State::Bounced);
    assert_ne!(peer, peer_again);
    joined(stage.user(join(Role::Coordinator, "", 12)));
}

#[test]
fn l4_what_coordd_has_no_hold_of_it_does_not_claim_to_have() {
    let mut stage = stage();
    lead(&mut stage);
    let denied = stage.user(Request::Interrupt { session: "s".into() });
    assert_eq!(denied, Err(Denial::External { path: "s/lead".into() }));
    // A new environment is for what is started from here.
    let session = stage.of("s").id.clone();
    stage.input(Input::EnvironmentChanged { session });
    assert_eq!(stage.agent("lead").life, Life::Up);
    assert_eq!(stage.of("s").mode, Mode::Coordinator);
    let sent = stage.user(to("lead", "x"));
    let Ok(Answer::Sent(rows)) = sent else { panic!("{sent:?}") };
    assert!(alloc::format!("{rows:?}").contains("when it next asks"), "{rows:?}");
    stage.exit("lead", None);
    let sent = stage.user(to("lead", "x"));
    assert!(alloc::format!("{sent:?}").contains("when its program joins again"), "{sent:?}");
}
