//! Starting workers: which, how many at once, and who waits for whom (C-4 to C-6, G-5, W-7, F-1).

use alloc::string::String;
use alloc::vec::Vec;

use super::{Stage, USER, completed, worker};
use crate::agent::{Life, Runtime, Status};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::id::PeerId;
use crate::message::{Kind, Sender};
use crate::request::{NewAgent, NewSession, Request};
use crate::{Input, limits};

/// G-5: which definitions there are in normal mode; case does not matter.
#[test]
fn g5_normal_mode_has_the_built_in_definitions_and_the_users() {
    for (given, taken) in [
        ("", Some("general-purpose")),
        ("Explore", Some("explore")),
        ("PLAN", Some("plan")),
        ("reviewer", Some("reviewer")),
        ("worker", None),
        ("boss", None),
    ] {
        let mut stage = Stage::new();
        let new = NewSession {
            name: "s".into(),
            cwd: "/here".into(),
            model: Some(super::model()),
            definitions: ["reviewer".into(), "plan".into()].to_vec(),
            ..Default::default()
        };
        stage.user(Request::SessionNew(new)).unwrap();
        let lead = stage.lead();
        let new = NewAgent { subagent_type: given.into(), ..worker("w") };
        match (stage.ask(lead, Request::AgentSpawn(new)), taken) {
            (Ok(_), Some(taken)) => assert_eq!(stage.agent("w").agent_type, taken),
            (Err(Denial::NoSuchDefinition { known, .. }), None) => {
                assert_eq!(known, ["explore", "general-purpose", "plan", "reviewer"]);
            }
            other => panic!("{given}: {other:?}"),
        }
    }
}

/// G-5, C-6: coordinator mode offers `worker` alone, and says that it ignores a model.
#[test]
#[cfg(feature = "coordinator")]
fn g5_c6_coordinator_mode_has_one_definition_and_one_model() {
    let mut stage = Stage::new();
    stage.session("s", "coordinator", 20);
    let lead = stage.lead();
    let new = NewAgent { model: "other".into(), ..worker("w") };
    let Ok(Answer::Spawned { note, .. }) = stage.ask(lead, Request::AgentSpawn(new)) else {
        panic!()
    };
    assert_eq!(
        note,
        "`model` was ignored: in coordinator mode all workers use the session's model"
    );
    assert_eq!(stage.agent("w").agent_type, "worker");
    let Ok(Answer::Spawned { note, .. }) = stage.spawn(lead, "x") else { panic!() };
    assert_eq!(note, "");
    let new = NewAgent { subagent_type: "explore".into(), ..worker("y") };
    let denial = stage.ask(lead, Request::AgentSpawn(new)).unwrap_err();
    let known = ["worker".into()].to_vec();
    assert_eq!(denial, Denial::NoSuchDefinition { given: "explore".into(), known });
}

/// C-6: workers start no workers, and neither does a user.
#[test]
fn c6_only_leads_start_workers() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let w = stage.connect("w");
    for asker in [w, USER] {
        assert!(matches!(stage.spawn(asker, "x"), Err(Denial::Forbidden { .. })));
    }
}

#[test]
fn w11_bad_worker_requests_are_refused_with_their_field() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let mut ask = |new: NewAgent| stage.ask(lead, Request::AgentSpawn(new)).unwrap_err();
    let is_field = |denial: Denial, wanted: &str| match denial {
        Denial::Invalid { field, .. } | Denial::TooLarge { field, .. } => assert_eq!(field, wanted),
        other => panic!("{other:?}"),
    };
    is_field(ask(NewAgent { prompt: " \n".into(), ..worker("w") }), "prompt");
    is_field(
        ask(NewAgent { prompt: "x".repeat(limits::BODY_LEN_MAX + 1), ..worker("w") }),
        "prompt",
    );
    is_field(ask(NewAgent { description: "x".repeat(501), ..worker("w") }), "description");
    is_field(ask(worker("../w")), "name");
    is_field(ask(worker("lead")), "name");
    let denial = ask(NewAgent { phase: "planning".into(), ..worker("w") });
    assert_eq!(denial, Denial::NoSuchPhase { given: "planning".into() });
}

/// Lives of `a` to `e`.
fn lives(stage: &Stage) -> Vec<&'static str> {
    let word = |name: &str| match stage.agent(name).life {
        Life::Down => "down",
        Life::Waiting => "waits",
        Life::Up => "up",
        Life::Stopping { .. } => "stopping",
    };
    ["a", "b", "c", "d", "e"].map(word).to_vec()
}

fn finish(stage: &mut Stage, name: &str) {
    let peer = stage.connect(name);
    stage.read(peer, name);
    let run = stage.agent(name).runs + 1;
    stage.ask(peer, Request::RunEnded { run, outcome: completed() }).unwrap();
    stage.exit(name, None);
}

/// W-7, I2, I4: two run, the others wait in a visible queue and start first come first served; who is resumed waits too.
#[test]
fn w7_more_workers_than_places_wait_in_order() {
    let mut stage = Stage::new();
    stage.session("s", "normal", 2);
    let lead = stage.lead();
    for (name, waits) in [("a", None), ("b", None), ("c", Some(2)), ("d", Some(2)), ("e", Some(2))]
    {
        let Ok(Answer::Spawned { waits_for, .. }) = stage.spawn(lead, name) else { panic!() };
        let want =
            waits.map(|running: u32| alloc::format!("a place: {running} of 2 workers are running"));
        assert_eq!(waits_for, want, "{name}");
    }
    assert_eq!(lives(&stage), ["up", "up", "waits", "waits", "waits"]);
    finish(&mut stage, "b");
    assert_eq!(lives(&stage), ["up", "down", "up", "waits", "waits"]);
    stage.prompt("b");
    finish(&mut stage, "a");
    assert_eq!(lives(&stage), ["down", "waits", "up", "up", "waits"]);
    // The place of one that is being stopped is free only when it is gone.
    stage.send_call(USER, None, Request::AgentStop { agent: "s/c".into() });
    assert_eq!(lives(&stage), ["down", "waits", "stopping", "up", "waits"]);
    stage.exit("c", None);
    assert_eq!(lives(&stage), ["down", "waits", "down", "up", "up"]);
    // A daemon that dies keeps the queue.
    stage.restart();
    stage.exit("d", None);
    // Nobody saw that end, so it counts for nothing (fR4).
    assert_eq!(stage.agent("d").crashes, 0);
    assert_eq!(lives(&stage), ["down", "up", "down", "waits", "up"]);
}

/// fA6, A-5, W-7: who waits for a person holds no place, and goes on at once with its answer; then no other starts before a place is free.
#[test]
fn fa6_who_waits_for_a_person_holds_no_place() {
    let mut stage = Stage::new();
    stage.session("s", "normal", 2);
    let lead = stage.lead();
    for name in ["a", "b", "c", "d", "e"] {
        stage.spawn(lead, name).unwrap();
    }
    assert_eq!(lives(&stage), ["up", "up", "waits", "waits", "waits"]);
    let a = stage.connect("a");
    stage.read(a, "a");
    let question = |tool: &str| crate::permission::Question {
        tool: tool.into(),
        input: "{}".into(),
        reason: "no rule allows it".into(),
        rule: String::new(),
        about: String::new(),
        shown: String::new(),
    };
    let call = stage.send_call(a, Some("1"), Request::PermissionAsk(question("Bash")));
    let second = stage.send_call(a, Some("2"), Request::PermissionAsk(question("Read")));
    assert_eq!(lives(&stage), ["up", "up", "up", "waits", "waits"], "one place, not two");
    let answer = |id: &str| Request::PermissionAnswer {
        id: id.into(),
        allow: true,
        always: false,
        reason: String::new(),
    };
    stage.user(answer("p1")).unwrap();
    assert!(stage.reply(a, call).is_some());
    finish(&mut stage, "b");
    assert_eq!(
        lives(&stage),
        ["up", "down", "up", "up", "waits"],
        "it still waits with its other question"
    );
    stage.user(answer("p2")).unwrap();
    assert!(stage.reply(a, second).is_some(), "three work now, and it was not held up");
    finish(&mut stage, "c");
    assert_eq!(lives(&stage), ["up", "down", "down", "up", "waits"], "two work");
    finish(&mut stage, "d");
    assert_eq!(lives(&stage), ["up", "down", "down", "down", "up"]);
}

/// W-7: one full session does not hold up another.
#[test]
fn w7_a_full_session_holds_up_no_other() {
    let mut stage = Stage::new();
    stage.session("s", "normal", 1);
    let lead = stage.lead();
    stage.spawn(lead, "a").unwrap();
    stage.spawn(lead, "b").unwrap();
    stage.session("t", "normal", 1);
    stage.user(Request::Prompt { session: "t".into(), agent: None, text: "go".into() }).unwrap();
    let id = stage.of("t").lead.clone();
    let token = stage.tokens[&id].clone();
    let peer = PeerId(90);
    let credentials = crate::input::Credentials { agent: id, incarnation: 1, token };
    stage.input(Input::Connected {
        peer,
        credentials: Some(credentials),
        lineage: crate::input::Lineage::default(),
    });
    stage.spawn(peer, "c").unwrap();
    assert_eq!(stage.agent("b").life, Life::Waiting);
    assert_eq!(stage.agent("c").life, Life::Up);
}

fn spawn_and_wait(stage: &mut Stage, lead: PeerId) -> u64 {
    let new = NewAgent { wait: true, ..worker("w") };
    stage.send_call(lead, Some("tool-1"), Request::AgentSpawn(new))
}

/// F-1, N-4: a waiting lead is answered with the outcome, and gets no notification besides.
#[test]
fn f1_who_waits_for_a_worker_gets_its_outcome() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let call = spawn_and_wait(&mut stage, lead);
    assert_eq!(stage.reply(lead, call), None);
    let w = stage.connect("w");
    stage.read(w, "w");
    stage.ask(w, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let agent = stage.id("w");
    assert_eq!(stage.reply(lead, call), Some(Ok(Answer::Ran { agent, outcome: completed() })));
    assert_eq!(notified(&stage), 0);
    // Repeated after a crash of the lead: the same answer.
    stage.exit("lead", None);
    let lead = stage.connect("lead");
    let call = spawn_and_wait(&mut stage, lead);
    assert!(matches!(stage.reply(lead, call), Some(Ok(Answer::Ran { .. }))));
    // Its next run is notified like any other's.
    stage.exit("w", None);
    stage.prompt("w");
    finish(&mut stage, "w");
    assert_eq!(notified(&stage), 1);
}

fn notified(stage: &Stage) -> usize {
    let is_one = |kind: &Kind| matches!(kind, Kind::Notification { .. });
    stage.core.durable.messages.values().filter(|it| is_one(&it.kind)).count()
}

/// Whatever ends the worker that is waited for, the call is answered.
#[test]
fn f1_a_worker_that_is_stopped_while_it_waits_answers_the_call() {
    let mut stage = Stage::new();
    stage.session("s", "normal", 1);
    let lead = stage.lead();
    stage.spawn(lead, "other").unwrap();
    let call = spawn_and_wait(&mut stage, lead);
    assert_eq!(stage.agent("w").life, Life::Waiting);
    stage.user(Request::AgentStop { agent: "s/w".into() }).unwrap();
    let Some(Ok(Answer::Ran { outcome, .. })) = stage.reply(lead, call) else {
        panic!("no answer")
    };
    assert_eq!((outcome.status, outcome.reason.as_str()), (Status::Killed, "by the user"));
    assert_eq!(notified(&stage), 0);

    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let call = spawn_and_wait(&mut stage, lead);
    let (agent, incarnation) = (stage.id("w"), 1);
    stage.input(Input::SpawnFailed { agent, incarnation, why: "no such file".into() });
    let Some(Ok(Answer::Ran { outcome, .. })) = stage.reply(lead, call) else {
        panic!("no answer")
    };
    assert_eq!((outcome.status, outcome.reason.as_str()), (Status::Failed, "no such file"));
}

/// N-4: once the run that waited has ended, the outcome comes as a notification.
#[test]
fn n4_an_outcome_that_nobody_waits_for_any_more_is_notified() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    spawn_and_wait(&mut stage, lead);
    stage.send_call(USER, None, Request::AgentStop { agent: "s/lead".into() });
    stage.exit("lead", None);
    finish(&mut stage, "w");
    assert_eq!(notified(&stage), 1);
}

/// Claude Code does not repeat a call that its end has cut off: the outcome is told to the next process, and only to that.
#[test]
fn f1_n4_a_lead_that_repeats_no_call_is_notified_when_it_died_meanwhile() {
    for (dies, told) in [(false, 0), (true, 1)] {
        let mut stage = Stage::new();
        let lead_runtime = Runtime::Claude;
        let (name, cwd, model) = ("s".into(), "/here".into(), Some(super::model()));
        let new =
            NewSession { name, cwd, model, workers: 2, lead_runtime, ..NewSession::default() };
        stage.user(Request::SessionNew(new)).unwrap();
        let lead = stage.lead();
        spawn_and_wait(&mut stage, lead);
        if dies {
            stage.exit("lead", None);
            stage.connect("lead");
        }
        finish(&mut stage, "w");
        assert_eq!(notified(&stage), told, "{dies}");
    }
}

/// A worker that was stopped with its session before it began has its outcome when it is stopped for good.
#[test]
fn n4_a_worker_that_never_began_is_told_of_once() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    stage.exit("w", None);
    stage.exit("lead", None);
    assert_eq!((notified(&stage), stage.agent("w").mailbox.len()), (0, 1));
    for _ in 0..2 {
        stage.user(Request::AgentStop { agent: "s/w".into() }).unwrap();
        assert_eq!((notified(&stage), stage.agent("w").mailbox.len()), (1, 0));
    }
}

/// C7, C8, W-4: a process that never says hello, one that does not come back, one that does not leave: each is killed at its deadline.
#[test]
fn c7_processes_have_deadlines() {
    let killed = |stage: &mut Stage, ms: u64| {
        stage.mono_ms += ms;
        stage.input(Input::Tick);
        stage.step.effects.iter().any(|it| matches!(it, crate::Effect::Kill { .. }))
    };
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    assert!(!killed(&mut stage, limits::HELLO_MS - 10));
    assert!(killed(&mut stage, 100), "hello");
    assert!(!killed(&mut stage, limits::HELLO_MS), "once");
    stage.exit("w", None);
    let w = stage.connect("w");
    assert!(!killed(&mut stage, 10 * limits::RETURN_MS), "a connected one has all the time");
    stage.input(Input::Disconnected { peer: w });
    assert!(!killed(&mut stage, limits::RETURN_MS - 10));
    assert!(killed(&mut stage, 100), "return");
    stage.exit("w", None);
    let w = stage.connect("w");
    stage.read(w, "w");
    stage.ask(w, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    assert!(!killed(&mut stage, limits::LEAVE_MS - 10));
    assert!(killed(&mut stage, 100), "leave");
}

/// W-6: told, given its grace, then killed; one that cannot be told is killed at once.
#[test]
fn w6_a_stop_has_a_deadline() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    assert!(stage.core.live.next_deadline() <= stage.mono_ms);
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    stage.connect("w");
    stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    assert_eq!(stage.core.live.next_deadline(), stage.mono_ms + limits::STOP_GRACE_MS);
}

/// Invariants 4 and 9: who someone is follows from the secret of the present incarnation alone.
#[test]
fn g9_bad_credentials_are_refused() {
    let mut stage = Stage::with_session();
    stage.prompt("lead");
    let lead = stage.agent("lead").clone();
    let token = stage.tokens[&lead.id].clone();
    let good = crate::input::Credentials { agent: lead.id, incarnation: 1, token };
    let mut refused = |change: &dyn Fn(&mut crate::input::Credentials)| {
        let mut credentials = good.clone();
        change(&mut credentials);
        let peer = PeerId(50);
        stage.input(Input::Connected {
            peer,
            credentials: Some(credentials),
            lineage: crate::input::Lineage::default(),
        });
        let closed = crate::Effect::Close { peer, denial: Denial::BadCredentials };
        let request = Request::Ping;
        let is_closed = stage.step.effects.contains(&closed);
        is_closed && stage.ask(peer, request) == Err(Denial::BadCredentials)
    };
    assert!(refused(&|it| it.incarnation = 0));
    assert!(refused(&|it| it.incarnation = 2));
    assert!(refused(&|it| it.token.clear()));
    assert!(refused(&|it| it.token.replace_range(0..1, "x")));
    assert!(refused(&|it| it.token.push('0')));
    // rel-91: what the store has of it opens nothing.
    assert!(refused(&|it| it.token.clone_from(&lead.token)));
    assert!(refused(&|it| it.agent.0.push('0')));
    assert!(!refused(&|_| {}));
}

/// Two starts in one turn have secrets of their own.
#[test]
fn tokens_differ_though_the_randomness_is_one() {
    let mut stage = Stage::new();
    stage.session("s", "normal", 2);
    let lead = stage.lead();
    stage.spawn(lead, "a").unwrap();
    stage.spawn(lead, "b").unwrap();
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    for name in ["a", "b", "lead"] {
        stage.exit(name, None);
    }
    let session = String::from("s");
    stage.user(Request::SessionResume { session, mode_variable: None }).unwrap();
    let tokens = ["a", "b"].map(|name| stage.tokens[&stage.id(name)].clone());
    assert!(tokens[0].len() == 64 && tokens[0] != tokens[1]);
    let sent_by = stage.core.durable.messages.values().filter(|it| it.from == Sender::User).count();
    assert_eq!(sent_by, 1);
}

/// W-7: over all sessions only so many workers are started in a minute; the others wait, are told why, and start when the
/// window frees.
#[test]
fn w7_starts_per_minute_are_limited_and_the_rest_wait_for_the_window() {
    let mut stage = Stage::with_session();
    stage.core.live.starts_per_minute = 2;
    let lead = stage.lead();
    for name in ["a", "b"] {
        assert!(matches!(stage.spawn(lead, name), Ok(Answer::Spawned { waits_for: None, .. })));
        assert_eq!(stage.agent(name).life, Life::Up);
    }
    let Ok(Answer::Spawned { waits_for: Some(why), .. }) = stage.spawn(lead, "c") else { panic!() };
    assert_eq!(why, "2 agents were started in the last minute");
    assert_eq!(stage.agent("c").life, Life::Waiting);
    // A lead is no worker.
    stage.session("t", "normal", 20);
    assert_eq!(stage.core.durable.agents.values().filter(|it| it.life == Life::Up).count(), 3);
    let due = stage.core.live.next_deadline();
    while stage.core.live.next_deadline() < stage.mono_ms + limits::STARTS_WINDOW_MS
        && stage.agent("c").life == Life::Waiting
    {
        stage.mono_ms = stage.core.live.next_deadline();
        stage.input(Input::Tick);
    }
    assert_eq!(stage.agent("c").life, Life::Up);
    assert!(stage.mono_ms >= due && stage.mono_ms <= 1_100 + limits::STARTS_WINDOW_MS);
    // Nothing is due any more on that account, and without a limit nobody waits.
    assert_eq!(stage.core.live.start_due_mono_ms, None);
    stage.core.live.starts_per_minute = 0;
    assert!(matches!(stage.spawn(lead, "d"), Ok(Answer::Spawned { waits_for: None, .. })));
    assert_eq!(stage.agent("d").life, Life::Up);
}
