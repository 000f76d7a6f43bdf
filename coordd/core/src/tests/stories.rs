//! Stories that went wrong for people elsewhere: who is woken and by what, who is told what, and what a clock or a second call
//! must not do. Their ids are those of the field reports.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Stage, USER, accepted, completed, to};
use crate::agent::{Life, Process, Status};
use crate::answer::Answer;
use crate::id::PeerId;
use crate::message::{Kind, State};
use crate::request::Request;
use crate::{Effect, Input, limits};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A lead in a run, with worker `w` in a run.
fn at_work() -> (Stage, PeerId, PeerId) {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let worker = stage.connect("w");
    stage.read(worker, "w");
    (stage, lead, worker)
}

/// How many processes the last step starts.
fn started(stage: &Stage) -> usize {
    stage.step.effects.iter().filter(|it| matches!(it, Effect::Spawn { .. })).count()
}

/// How many processes the last step kills.
fn killed(stage: &Stage) -> usize {
    stage.step.effects.iter().filter(|it| matches!(it, Effect::Kill { .. })).count()
}

/// What the notifications to the lead say: status and reason.
fn told(stage: &Stage) -> Vec<(Status, String)> {
    let kinds = stage.core.durable.messages.values().map(|it| &it.kind);
    let outcomes = kinds.filter_map(|kind| match kind {
        Kind::Notification { outcome, .. } => Some((outcome.status, outcome.reason.clone())),
        _ => None,
    });
    outcomes.collect()
}

/// A16: to look at an agent is no message to it, however often it is done.
#[test]
fn a16_looking_at_an_agent_sends_it_nothing() {
    let (mut stage, ..) = at_work();
    let before = stage.core.durable.messages.len();
    for _ in 0..5 {
        for request in [
            Request::AgentShow { agent: "s/w".into() },
            Request::SessionShow { session: "s".into() },
        ] {
            stage.user(request).unwrap();
            assert_eq!(stage.step.records, []);
            assert_eq!(stage.step.effects.len(), 1, "the answer alone: {:?}", stage.step.effects);
        }
    }
    assert_eq!(stage.core.durable.messages.len(), before);
    assert!(stage.agent("w").mailbox.is_empty());
}

/// A36: mail wakes who rests in the very step that accepts it, with a process and without one.
#[test]
fn a36_mail_wakes_who_rests_at_once() {
    let (mut stage, lead, worker) = at_work();
    stage.ask(lead, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let id = stage.prompt("lead");
    let handed = Effect::Deliver { peer: lead, message: id };
    assert!(stage.step.effects.contains(&handed), "{:?}", stage.step.effects);

    stage.ask(worker, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    stage.exit("w", None);
    assert_eq!(stage.agent("w").life, Life::Down);
    accepted(stage.user(to("w", "one more")));
    assert_eq!((started(&stage), &stage.agent("w").life), (1, &Life::Up));
}

/// B5: to rest is one change and one notification, not one for each look at the clock.
#[test]
fn b5_who_rests_says_so_once() {
    let (mut stage, lead, worker) = at_work();
    stage.ask(worker, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    stage.exit("w", None);
    assert_eq!(told(&stage).len(), 1);
    stage.read(lead, "lead");
    stage.ask(lead, Request::RunEnded { run: 2, outcome: completed() }).unwrap();
    let messages = stage.core.durable.messages.len();
    for _ in 0..20 {
        stage.mono_ms += 60_000;
        stage.input(Input::Tick);
        assert_eq!((&stage.step.records[..], &stage.step.effects[..]), (&[][..], &[][..]));
    }
    assert_eq!(stage.core.durable.messages.len(), messages);
}

/// B12, B13: a machine that slept, or whose clock was set, has killed nobody; an agent that is found dead then is restarted, and one that cannot
/// is told of, with what ended it.
#[test]
fn b12_b13_a_jump_of_the_clock_kills_nobody_and_the_dead_are_told_of() {
    let (mut stage, ..) = at_work();
    for jumped_ms in [stage.wall_ms + 2 * DAY_MS, stage.wall_ms - DAY_MS] {
        stage.wall_ms = jumped_ms;
        stage.input(Input::Tick);
        assert_eq!((killed(&stage), &stage.step.records[..]), (0, &[][..]));
    }
    for _ in 1..limits::CRASHES_MAX {
        stage.exit("w", None);
        assert_eq!((started(&stage), told(&stage)), (1, Vec::new()));
        stage.connect("w");
    }
    stage.exit("w", None);
    let told = told(&stage);
    let [(Status::Failed, reason)] = told.as_slice() else { panic!("{told:?}") };
    assert!(reason.contains("last with signal 9"), "{reason}");
}

/// B14: who stopped an agent is who it is told of.
#[test]
fn b14_a_stop_names_who_asked_for_it() {
    let stops: [fn(&mut Stage, PeerId); 4] = [
        |stage, _| _ = stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() }),
        |stage, lead| _ = stage.send_call(lead, None, Request::AgentStop { agent: "w".into() }),
        |stage, _| _ = stage.send_call(USER, None, Request::SessionStop { session: "s".into() }),
        |stage, _| drop(stage.user(Request::DaemonStop { keep_agents: false })),
    ];
    let mut reasons = Vec::new();
    for stop in stops {
        let (mut stage, lead, _) = at_work();
        stop(&mut stage, lead);
        stage.exit("w", None);
        assert_eq!(told(&stage).len(), 1);
        reasons.extend(told(&stage));
    }
    let want = ["by the user", "by lead", "by the user", "by the end of the daemon"];
    assert_eq!(reasons, want.map(|it| (Status::Killed, String::from(it))));
}

/// D13: a process that does not return after a restart of the daemon is ended, and no other takes its place before it is gone.
#[test]
fn d13_nobody_is_replaced_before_its_end_is_seen() {
    let (mut stage, ..) = at_work();
    for name in ["lead", "w"] {
        let it = stage.agent(name);
        let (agent, incarnation) = (it.id.clone(), it.incarnation);
        let process = Process { pid: 4_242, start_ticks: 9, boot_id: "b".into() };
        stage.input(Input::Spawned { agent, incarnation, process });
    }
    stage.restart();
    let id = accepted(stage.user(to("w", "are you there?")));
    stage.mono_ms += limits::RETURN_MS - 100;
    stage.input(Input::Tick);
    assert_eq!((started(&stage), killed(&stage)), (0, 0), "it may just be slow");
    stage.mono_ms += 100;
    stage.input(Input::Tick);
    assert_eq!((started(&stage), killed(&stage)), (0, 2), "the lead and its worker");
    stage.mono_ms += 10 * limits::RETURN_MS;
    stage.input(Input::Tick);
    assert_eq!(started(&stage), 0, "it may still be there");
    assert_eq!(stage.message(id).state, State::Accepted);
    stage.exit("w", None);
    assert_eq!((started(&stage), stage.agent("w").incarnation), (1, 2));
}

/// D21, E6: a session that is resumed again and again has one process for each agent, and its connection stays.
#[test]
fn d21_e6_a_second_resume_starts_nobody_twice() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    stage.exit("lead", None);
    stage.exit("w", None);
    let mut starts = Vec::new();
    for _ in 0..3 {
        let request = Request::SessionResume { session: "s".into(), mode_variable: None };
        assert!(matches!(stage.user(request), Ok(Answer::Resumed { .. })));
        starts.push(started(&stage));
        if starts.len() == 1 {
            stage.connect("w");
        }
        let closed = |it: &Effect| matches!(it, Effect::Close { .. });
        assert!(!stage.step.effects.iter().any(closed), "{:?}", stage.step.effects);
    }
    assert_eq!((starts, stage.agent("w").incarnation), ([1, 0, 0].to_vec(), 2));
}
