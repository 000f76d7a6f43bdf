//! Sessions as a whole: making, stopping, resuming, removing, and the end of the daemon (G-4, D-6, C13).

use alloc::string::String;

use super::{Stage, USER, completed};
use crate::agent::{Life, Process, Runtime};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::Event;
use crate::id::{AgentId, PeerId};
use crate::input::Lineage;
use crate::mode::Mode;
use crate::request::{NewAgent, NewSession, Request};
use crate::session::SessionState;
use crate::{Effect, Input, Record, limits};

fn resume(stage: &mut Stage, variable: Option<&str>) -> Result<Answer, Denial> {
    let mode_variable = variable.map(String::from);
    stage.user(Request::SessionResume { session: "s".into(), mode_variable })
}

/// G-4: the recorded mode wins, and a variable that says the other thing is told about in one line.
#[test]
fn g4_a_session_is_resumed_in_its_own_mode() {
    let mut table = alloc::vec![
        ("normal", Some("1"), true),
        ("normal", Some("0"), false),
        ("normal", None, false)
    ];
    if cfg!(feature = "coordinator") {
        table.extend([("coordinator", Some("1"), false), ("coordinator", Some("0"), true)]);
    }
    for (mode, variable, told) in table {
        let mut stage = Stage::new();
        stage.session("s", mode, 20);
        let Ok(Answer::Resumed { note, .. }) = resume(&mut stage, variable) else { panic!() };
        assert_eq!(!note.is_empty(), told, "{mode} {variable:?}: {note}");
        assert_eq!(note.lines().count(), usize::from(told));
        let switched = stage.step.effects.iter().find_map(|it| match it {
            Effect::Publish { event: Event::ModeSwitched { from, to }, .. } => Some((*from, *to)),
            _ => None,
        });
        assert_eq!(switched.is_some(), told);
        assert!(switched.is_none_or(|(from, to)| from != to && to == stage.of("s").mode));
        assert_eq!(stage.of("s").mode.as_str(), mode);
    }
    assert_eq!(Mode::Fork.as_str(), "fork");
}

#[test]
fn bad_sessions_are_refused_with_their_field() {
    let mut stage = Stage::with_session();
    let new =
        NewSession { cwd: "/here".into(), model: Some(super::model()), ..NewSession::default() };
    let ask = |stage: &mut Stage, new: NewSession| stage.user(Request::SessionNew(new));
    for (bad, field) in [
        (NewSession { cwd: "here".into(), ..new.clone() }, "cwd"),
        (NewSession { cwd: "/".repeat(limits::PATH_LEN_MAX + 1), ..new.clone() }, "cwd"),
        (NewSession { name: "a/b".into(), ..new.clone() }, "name"),
        (NewSession { model: None, ..new.clone() }, "model"),
        (NewSession { prompt: "x".repeat(limits::BODY_LEN_MAX + 1), ..new.clone() }, "prompt"),
    ] {
        match ask(&mut stage, bad) {
            Err(Denial::Invalid { field: told, .. } | Denial::TooLarge { field: told, .. }) => {
                assert_eq!(told, field);
            }
            other => panic!("{field}: {other:?}"),
        }
    }
    let taken = ask(&mut stage, NewSession { name: "S".into(), ..new.clone() }).unwrap_err();
    assert_eq!(taken, Denial::NameTaken { what: "session", name: "S".into() });
    // Without a name it gets the folder's, and a number when that is taken.
    for name in ["here", "here-2", "here-3"] {
        ask(&mut stage, new.clone()).unwrap();
        assert!(stage_has(&stage, name), "{name}");
    }
}

fn stage_has(stage: &Stage, name: &str) -> bool {
    stage.core.durable.sessions.values().any(|it| it.name.as_str() == name)
}

/// E1, D-6: a stop keeps mail, and a resume goes on with it; nothing runs in between.
#[test]
fn e1_d6_a_stopped_session_goes_on_where_it_was() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let call = stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    assert_eq!(stage.reply(USER, call), None, "C16: stopped is said when it is true");
    stage.exit("lead", None);
    stage.exit("w", None);
    let agents = ["lead".into(), "w".into()].to_vec();
    assert_eq!(stage.reply(USER, call), Some(Ok(Answer::Stopped { agents, bounced: 0 })));
    for request in [
        Request::Prompt { session: "s".into(), agent: None, text: "go on".into() },
        super::to("w", "go on"),
    ] {
        let denial = stage.user(request).unwrap_err();
        assert_eq!(denial, Denial::SessionStopped { name: "s".into() });
    }
    // The step before the user's hello: a start that starts nothing.
    let durable = core::mem::take(&mut stage.core.durable);
    stage.core = crate::Core { durable, ..Default::default() };
    assert_eq!(stage.input(Input::Started).records, []);
    stage.input(Input::Connected { peer: USER, credentials: None, lineage: Lineage::default() });
    assert_eq!(stage.agent("w").life, Life::Down);
    let Ok(Answer::Resumed { waiting_messages, interrupted, .. }) = resume(&mut stage, None) else {
        panic!()
    };
    assert_eq!((waiting_messages, interrupted), (1, ["lead".into()].to_vec()));
    assert_eq!(stage.agent("w").life, Life::Up);
    assert_eq!(stage.agent("lead").life, Life::Down, "it has nothing to do");
}

/// A stop that is overtaken by a resume is answered when the processes that it stopped are gone, not their successors.
#[test]
fn a_stop_is_answered_though_its_session_is_resumed_meanwhile() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let call = stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    resume(&mut stage, None).unwrap();
    stage.exit("w", None);
    assert_eq!(stage.agent("w").life, Life::Up, "its successor runs already");
    assert_eq!(stage.reply(USER, call), None);
    stage.exit("lead", None);
    assert!(matches!(stage.reply(USER, call), Some(Ok(Answer::Stopped { .. }))));
}

/// C13: a removed session is gone for good, and calls that waited for something in it are answered.
#[test]
fn c13_a_removal_answers_whoever_waits() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let denial =
        stage.user(Request::SessionRemove { session: "s".into(), force: false }).unwrap_err();
    assert_eq!(denial, Denial::SessionLive { name: "s".into() });
    let stop = stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    let removal =
        stage.send_call(USER, None, Request::SessionRemove { session: "s".into(), force: true });
    stage.exit("w", None);
    assert!(stage.reply(USER, stop).is_some());
    assert!(stage_has(&stage, "s"));
    stage.exit("lead", None);
    let by_shell =
        |it: &Effect| matches!(it, Effect::RemoveSession { call, .. } if *call == removal);
    assert_eq!(stage.step.effects.iter().filter(|it| by_shell(it)).count(), 1);
    let durable = &stage.core.durable;
    assert!(
        durable.sessions.is_empty() && durable.agents.is_empty() && durable.messages.is_empty()
    );
    stage.restart();
    assert!(stage.core.durable.sessions.is_empty());
}

/// The later word counts: a session that is resumed while it is being removed stays.
#[test]
fn a_resume_takes_back_a_removal_that_waits() {
    let mut stage = Stage::with_session();
    stage.lead();
    let request = Request::SessionRemove { session: "s".into(), force: true };
    let removal = stage.send_call(USER, None, request);
    stage.send_call(
        USER,
        None,
        Request::SessionResume { session: "s".into(), mode_variable: None },
    );
    let denial = Denial::SessionLive { name: "s".into() };
    assert_eq!(stage.reply(USER, removal), Some(Err(denial)));
    stage.exit("lead", None);
    assert_eq!(stage.of("s").state, SessionState::Live);
}

/// D-6: the end of the daemon stops all in order and waits; or leaves all running and does not.
#[test]
fn d6_the_daemon_ends_with_its_agents_or_without_them() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    stage.input(Input::Terminate { keep_agents: true });
    assert!(stage.step.effects.contains(&Effect::Exit));
    assert_eq!(stage.step.records, []);

    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let answer = stage.user(Request::DaemonStop { keep_agents: false });
    assert_eq!(answer, Ok(Answer::Done));
    assert!(!stage.step.effects.contains(&Effect::Exit));
    let new = NewSession { cwd: "/".into(), model: Some(super::model()), ..NewSession::default() };
    assert_eq!(stage.user(Request::SessionNew(new)), Err(Denial::ShuttingDown));
    assert_eq!(stage.spawn(lead, "x"), Err(Denial::ShuttingDown));
    stage.exit("lead", None);
    assert!(!stage.step.effects.contains(&Effect::Exit));
    stage.exit("w", None);
    assert!(stage.step.effects.contains(&Effect::Exit));
    assert_eq!(stage.of("s").state, SessionState::Stopped);
}

/// Invariant 5: calls that wait have a bound, and one too many changes nothing.
#[test]
fn rel68_one_call_too_many_waits_for_nothing_and_does_nothing() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let wait = NewAgent { wait: true, ..super::worker("w") };
    for _ in 0..limits::WAITERS_MAX {
        stage.send_call(lead, Some("tool-1"), Request::AgentSpawn(wait.clone()));
    }
    let full = Denial::Full { what: "calls that wait", max: limits::WAITERS_MAX };
    let new = NewAgent { wait: true, ..super::worker("x") };
    assert_eq!(stage.ask(lead, Request::AgentSpawn(new)), Err(full));
    assert_eq!(stage.step.records, []);
    stage.spawn(lead, "x").unwrap();
    // A connection that ends takes its calls along.
    stage.input(Input::Disconnected { peer: lead });
    assert_eq!(stage.core.live.waiters, []);
}

/// A connection that is replaced by a new one is closed, and what it still sends is ignored.
#[test]
fn a_second_connection_takes_the_place_of_the_first() {
    let mut stage = Stage::with_session();
    let first = stage.lead();
    let second = stage.connect("lead");
    assert!(
        stage.step.effects.contains(&Effect::Close { peer: first, denial: Denial::BadCredentials })
    );
    assert_eq!(stage.spawn(first, "w"), Err(Denial::BadCredentials));
    stage.input(Input::Disconnected { peer: first });
    stage.spawn(second, "w").unwrap();
    let denial = stage.ask(PeerId(99), Request::Ping);
    assert_eq!(denial, Err(Denial::BadCredentials), "without a hello");
    stage.ask(second, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let is_note = |it: &Record| matches!(it, Record::MessagePut { .. });
    assert!(!stage.step.records.iter().any(is_note), "a lead's run notifies nobody");
}

/// the call says what drives a worker, else the session does; a native one needs a model.
#[test]
fn r2_a_worker_has_the_runtime_of_the_call_or_of_the_session() {
    let mut stage = Stage::new();
    let new = NewSession {
        name: "s".into(),
        cwd: "/".into(),
        model: Some(super::model()),
        runtime: Runtime::Claude,
        ..NewSession::default()
    };
    stage.user(Request::SessionNew(new.clone())).unwrap();
    let lead = stage.lead();
    stage.spawn(lead, "x").unwrap();
    let native = NewAgent { runtime: Some(Runtime::Native), ..super::worker("y") };
    stage.ask(lead, Request::AgentSpawn(native.clone())).unwrap();
    assert_eq!(stage.agent("lead").runtime, Runtime::Native);
    assert_eq!(stage.agent("x").runtime, Runtime::Claude);
    assert_eq!(stage.agent("y").runtime, Runtime::Native);
    // Where nobody is native, none is needed.
    let all =
        NewSession { name: "t".into(), model: None, lead_runtime: Runtime::Claude, ..new.clone() };
    stage.user(Request::SessionNew(all)).unwrap();
    assert!(stage.of("t").model.is_none());
    let lead = stage.core.durable.agents.get(&stage.of("t").lead).unwrap();
    assert_eq!(lead.runtime, Runtime::Claude);
    for bad in [
        NewSession {
            model: None,
            runtime: Runtime::Native,
            lead_runtime: Runtime::Claude,
            ..new.clone()
        },
        NewSession { model: None, ..new },
    ] {
        let denial =
            stage.user(Request::SessionNew(NewSession { name: "u".into(), ..bad })).unwrap_err();
        assert!(matches!(denial, Denial::Invalid { field: "model", .. }), "{denial:?}");
        assert_eq!(stage.step.records, []);
    }
}

/// FP-14: a program is an agent's by its process or by its mark, and then it may do nothing for the user; another daemon's mark is nobody's.
#[test]
fn fp14_a_program_that_an_agent_started_is_not_the_user() {
    let mut stage = Stage::with_session();
    stage.lead();
    let agent = stage.agent("lead").clone();
    let process = |pid| Process { pid, start_ticks: 7, boot_id: "b".into() };
    let (id, incarnation) = (agent.id.clone(), agent.incarnation);
    stage.input(Input::Spawned { agent: id.clone(), incarnation, process: process(40) });
    let connect = |stage: &mut Stage, pids: &[u32], mark: &str| {
        stage.last_peer += 1;
        let peer = PeerId(stage.last_peer);
        let processes = pids.iter().map(|pid| process(*pid)).collect();
        let marks = [mark].into_iter().filter(|it| !it.is_empty());
        let marks = marks.map(|it| AgentId(it.into())).collect();
        let lineage = Lineage { processes, marks };
        stage.input(Input::Connected { peer, credentials: None, lineage });
        peer
    };
    let stop = || Request::SessionStop { session: "none".into() };
    for (pids, mark) in [(&[42, 41, 40, 1][..], ""), (&[42, 1], id.0.as_str()), (&[40], "other")] {
        let peer = connect(&mut stage, pids, mark);
        let denied = stage.ask(peer, stop()).unwrap_err();
        let not = Denial::NotTheUser { agent: "lead".into(), request: "session_stop" };
        assert_eq!(denied, not, "{pids:?} {mark}");
        let answer = Request::PermissionAnswer {
            id: "p1".into(),
            allow: true,
            always: false,
            reason: String::new(),
        };
        assert!(matches!(stage.ask(peer, answer), Err(Denial::NotTheUser { .. })));
        assert!(stage.ask(peer, Request::SessionList).is_ok());
        // What the user may not do either is the role's to refuse.
        let ended = stage.ask(peer, Request::StructuredOutput { output: "{}".into() });
        assert!(matches!(ended, Err(Denial::Forbidden { .. })), "{ended:?}");
    }
    for (pids, mark) in [(&[42, 41, 1][..], ""), (&[42, 1], "another daemon's"), (&[], "")] {
        let peer = connect(&mut stage, pids, mark);
        assert!(matches!(stage.ask(peer, stop()), Err(Denial::NoSuchSession { .. })));
    }
}
