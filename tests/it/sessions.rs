//! G-1 to G-6 at the socket; sessions over kill -9, stop, resume and removal.

use std::collections::BTreeMap;

use proto::Outcome;
use proto::agent::{Mode, Role};
use proto::error::ErrorCode;
use proto::event::Event;
use proto::request::{NewSession, Request};
use proto::response::Response;
use proto::view::{AgentState, SessionState};
use serde_json::json;
use tests::agents::Agents;
use tests::processes::Process;
use tests::rehearsal::{call, lead, say, script};
use tests::wait::until;
use tests::{Client, Daemon, story};

fn plain(daemon: &Daemon) -> NewSession {
    daemon.rehearsal("normal", &script(&json!([lead(&json!([say("Hello."), say("Again.")]))])))
}

fn resume(
    client: &mut Client,
    session: &str,
    variable: Option<&str>,
) -> (SessionState, Mode, String) {
    let request = Request::SessionResume {
        session: session.into(),
        env: BTreeMap::new(),
        mode_variable: variable.map(str::to_owned),
    };
    match client.ok(request) {
        Response::Resumed { session, note, .. } => (session.state, session.mode, note),
        other => panic!("{other:?}"),
    }
}

/// The client's environment counts, value by value, and the command line before it.
#[test]
fn g1_g2_the_mode_of_a_session() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for (flag, variable, mode) in [
        (None, None, Mode::Normal),
        (None, Some("1"), Mode::Coordinator),
        (None, Some(" TRUE "), Mode::Coordinator),
        (None, Some("Yes"), Mode::Coordinator),
        (None, Some("on"), Mode::Coordinator),
        (None, Some("0"), Mode::Normal),
        (None, Some("enabled"), Mode::Normal),
        (None, Some(""), Mode::Normal),
        (Some("normal"), Some("1"), Mode::Normal),
        (Some("coordinator"), Some("0"), Mode::Coordinator),
    ] {
        let new = NewSession {
            mode: flag.map(str::to_owned),
            mode_variable: variable.map(str::to_owned),
            ..plain(&daemon)
        };
        let session = client.new_session(new);
        assert_eq!(session.mode, mode, "{flag:?} {variable:?}");
        let (_, agents) = client.show(&session.id);
        let role = if mode == Mode::Coordinator { Role::Coordinator } else { Role::Lead };
        assert_eq!(agents[0].role, role);
    }
}

/// The daemon's own variable is stale by nature, and is not looked at.
#[test]
fn g2_the_daemons_own_environment_does_not_count() {
    let mut sandbox = tests::Sandbox::new();
    sandbox.set("CLAUDE_CODE_COORDINATOR_MODE", "1");
    let mut daemon = Daemon::start_in(sandbox);
    let new = NewSession { mode: None, ..plain(&daemon) };
    assert_eq!(daemon.client().new_session(new).mode, Mode::Normal);
    // coordctl passes what it finds at each call.
    daemon.unset("CLAUDE_CODE_COORDINATOR_MODE");
    let new = |vars: &[(&str, &str)]| {
        let ran = daemon.coordctl_with(&["new", "--model", "rehearsal", "--json"], vars, "");
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json_lines()[0]["session"]["session"]["mode"].clone()
    };
    assert_eq!(new(&[]), "normal");
    assert_eq!(new(&[("CLAUDE_CODE_COORDINATOR_MODE", "on")]), "coordinator");
}

#[test]
fn g1_fork_is_refused_as_not_there_yet() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let new = |mode: &str| NewSession { mode: Some(mode.into()), ..plain(&daemon) };
    let error = client.denied(Request::SessionNew { session: Box::new(new("fork")) });
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.message.contains("not available"), "{error:?}");
    let error = client.denied(Request::SessionNew { session: Box::new(new("boss")) });
    assert_eq!(error.code, ErrorCode::Invalid);
    assert!(error.hint.contains("coordinator"), "{error:?}");
    assert_eq!(client.sessions(), []);
}

#[test]
fn g4_a_session_is_resumed_in_its_own_mode_with_a_note() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session =
        client.new_session(NewSession { mode: Some("coordinator".into()), ..plain(&daemon) });
    client.subscribe(&session.id);
    client.ok(Request::SessionStop { session: session.id.clone() });
    let (state, mode, note) = resume(&mut client, &session.name, Some("0"));
    assert_eq!((state, mode), (SessionState::Live, Mode::Coordinator));
    assert!(note.contains("normal") && note.contains("coordinator"), "{note}");
    let seen = client.event("mode_switched", |event| match event {
        Event::ModeSwitched { from, to } => Some((*from, *to)),
        _ => None,
    });
    assert_eq!(seen, (Mode::Normal, Mode::Coordinator));
    // Asked for the same, or for nothing, there is nothing to say.
    for variable in [Some("1"), None] {
        client.ok(Request::SessionStop { session: session.id.clone() });
        assert_eq!(resume(&mut client, &session.id, variable).2, "");
    }
}

#[test]
fn g5_the_definitions_of_each_mode() {
    let (daemon, mut agents) = Agents::start();
    let spawn = |client: &mut Client, kind: &str| {
        let agent = proto::request::NewAgent {
            description: "d".into(),
            prompt: "p".into(),
            subagent_type: kind.into(),
            ..proto::request::NewAgent::default()
        };
        client.call(Request::AgentSpawn { agent: Box::new(agent) })
    };
    for (mode, good, bad) in
        [("coordinator", "worker", "general-purpose"), ("normal", "general-purpose", "worker")]
    {
        let new = NewSession { mode: Some(mode.into()), prompt: "go".into(), ..plain(&daemon) };
        daemon.client().new_session(new);
        let mut lead = agents.next(&daemon);
        assert!(matches!(spawn(&mut lead.client, good), Outcome::Ok(_)), "{mode} {good}");
        let started = agents.next_started();
        assert_eq!(started.boot.agent_type, good);
        let Outcome::Error(error) = spawn(&mut lead.client, bad) else { panic!("{mode} {bad}") };
        assert!(error.hint.contains(good), "{error:?}");
    }
}

#[test]
fn g6_the_simple_tools_are_chosen_by_the_client() {
    let (daemon, mut agents) = Agents::start();
    for (value, simple) in [(Some("1"), true), (Some("off"), false), (None, false)] {
        let new = NewSession {
            simple_variable: value.map(str::to_owned),
            prompt: "go".into(),
            ..plain(&daemon)
        };
        daemon.client().new_session(new);
        assert_eq!(agents.next_started().boot.simple_tools, simple, "{value:?}");
    }
}

/// D-5: accepted means on disk, whatever happens next.
#[test]
fn d5_sessions_survive_kill_9() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let one = client.new_session(NewSession { name: "one".into(), ..plain(&daemon) });
    let two = client.new_session(NewSession {
        name: "two".into(),
        mode: Some("coordinator".into()),
        ..plain(&daemon)
    });
    client.ok(Request::SessionStop { session: "one".into() });
    let before = until("both have their scratchpad", || {
        let sessions = client.sessions();
        sessions.iter().all(|session| session.scratchpad.is_some()).then_some(sessions)
    });
    daemon.kill9();
    daemon.restart();
    let mut client = daemon.client();
    assert_eq!(client.sessions(), before);
    assert_eq!(client.show("one").0.state, SessionState::Stopped);
    assert_eq!(client.show(&two.id).0.mode, Mode::Coordinator);
    // Names stay taken.
    let new = NewSession { name: "ONE".into(), ..plain(&daemon) };
    let error = client.denied(Request::SessionNew { session: Box::new(new) });
    assert_eq!(error.code, ErrorCode::Exists);
    assert_eq!(client.show(&one.id[..8]).0.name, "one", "a unique prefix of its id");
}

/// A26: the conversation goes on where it was, with everything that was said, under the names that
/// it had.
#[test]
fn a_session_is_stopped_and_resumed_with_its_conversation() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.new_session(NewSession { prompt: "first".into(), ..plain(&daemon) });
    let lead = format!("{}/lead", session.name);
    client.agent_until(&lead, "has answered", |agent| agent.runs == 1);
    client.ok(Request::SessionStop { session: session.id.clone() });
    let stopped = client.agent(&lead);
    assert_eq!((stopped.state, stopped.pid), (AgentState::Stopped, None));
    let error = client.denied(Request::Prompt {
        session: session.id.clone(),
        agent: None,
        text: "too early".into(),
    });
    assert_eq!(error.code, ErrorCode::State);
    assert!(error.hint.contains("resume"), "{error:?}");

    daemon.kill9();
    daemon.restart();
    let mut client = daemon.client();
    assert_eq!(resume(&mut client, &session.id, None).0, SessionState::Live);
    client.prompt(&session.id, "second");
    client.agent_until(&lead, "has answered again", |agent| agent.runs == 2);
    let entries = client.transcript(&lead);
    assert_eq!(story::texts(&entries), ["Hello.", "Again."]);
    let inputs: Vec<_> = story::inputs(&entries).iter().map(|input| input.1.to_owned()).collect();
    assert_eq!(inputs.len(), 2, "{inputs:?}");
    assert!(inputs[0].contains("first") && inputs[1].contains("second"), "{inputs:?}");
    let numbers: Vec<_> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>(), "without gaps");
}

/// D28: the daemon dies and leaves its agents; they hold nothing that keeps the session from being
/// stopped and resumed.
#[test]
fn d28_what_a_dead_daemon_left_does_not_keep_its_session_from_going_on() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.new_session(NewSession { prompt: "first".into(), ..plain(&daemon) });
    let lead = format!("{}/lead", session.name);
    let before = client.agent_until(&lead, "has answered", |agent| agent.runs == 1);
    let orphan = Process::open(before.pid.unwrap()).unwrap();
    daemon.kill9();
    assert!(orphan.runs(), "an agent outlives its daemon");
    daemon.restart();
    let mut client = daemon.client();
    client.ok(Request::SessionStop { session: session.id.clone() });
    assert!(!orphan.runs());
    resume(&mut client, &session.id, None);
    client.prompt(&session.id, "second");
    let after = client.agent_until(&lead, "has answered again", |agent| agent.runs == 2);
    assert!(after.incarnation > before.incarnation, "{after:?}");
    assert_eq!(story::texts(&client.transcript(&lead)), ["Hello.", "Again."]);
}

/// D17: what was in the middle when the daemon and an agent died is listed as what it is now:
/// running means a process.
#[test]
fn d17_after_a_crash_only_the_living_are_listed_as_running() {
    let (mut daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let w = agents.worker(&daemon, &mut lead, "w");
    daemon.kill9();
    w.exit();
    daemon.restart();
    lead.reconnect(&daemon);
    let next = agents.next_started();
    let (_, listed) = daemon.client().show(&lead.boot.session);
    let seen: Vec<_> = listed.iter().map(|it| (it.name.as_str(), it.state, it.pid)).collect();
    let want = [
        ("lead", AgentState::Running, Some(lead.pid)),
        ("w", AgentState::Starting, Some(next.pid)),
    ];
    assert_eq!(seen, want);
    assert_ne!(next.pid, w.pid);
}

/// C13: what is removed is gone from the disk, and stays gone.
#[test]
fn a_session_is_removed_with_its_state_and_scratchpad() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([
        call(
            "I write.",
            &json!([{ "name": "Write", "input": { "file_path": "{{scratchpad}}/note.md", "content": "n" } }])
        ),
        say("Written.")
    ]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.prompt = "write a note".into();
    let session = client.new_session(new);
    let lead = format!("{}/lead", session.name);
    client.agent_until(&lead, "has written", |agent| agent.runs == 1);
    let scratchpad = std::path::PathBuf::from(client.show(&session.id).0.scratchpad.unwrap());
    let state = daemon.state().join("sessions").join(&session.id);
    assert!(scratchpad.join("note.md").exists() && state.exists());

    let error = client.denied(Request::SessionRemove { session: session.id.clone(), force: false });
    assert_eq!(error.code, ErrorCode::State, "its lead still runs: {error:?}");
    let response = client.ok(Request::SessionRemove { session: session.id.clone(), force: true });
    let Response::Removed { removed, kept } = response else { panic!("{response:?}") };
    assert!(!removed.is_empty() && kept.is_empty(), "{removed:?} {kept:?}");
    assert!(!scratchpad.exists() && !state.exists());
    assert_eq!(client.sessions(), []);
    daemon.kill9();
    daemon.restart();
    assert_eq!(daemon.client().sessions(), []);
    daemon.stop_and_leave_nothing();
}

#[test]
fn a_name_that_fits_nothing_or_too_much_says_what_there_is() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for name in ["alpha", "beta"] {
        let new = NewSession { name: name.into(), prompt: "go".into(), ..plain(&daemon) };
        client.new_session(new);
    }
    let error = client.denied(Request::SessionShow { session: "gamma".into() });
    assert_eq!(error.code, ErrorCode::NotFound);
    assert!(error.hint.contains("alpha") && error.hint.contains("beta"), "{error:?}");
    // Both have a lead.
    let error = client.denied(Request::AgentShow { agent: "lead".into() });
    assert_eq!(error.code, ErrorCode::Ambiguous);
    assert!(error.hint.contains("alpha/lead") && error.hint.contains("beta/lead"), "{error:?}");
    assert_eq!(client.agent("alpha/lead").name, "lead");
    let new = NewSession { name: "../x".into(), ..plain(&daemon) };
    let error = client.denied(Request::SessionNew { session: Box::new(new) });
    assert_eq!(error.code, ErrorCode::Invalid);
    let new = NewSession { cwd: "relative".into(), ..plain(&daemon) };
    let error = client.denied(Request::SessionNew { session: Box::new(new) });
    assert!(error.message.contains("absolute"), "{error:?}");
}

/// Without a name it is the folder's, with a number where that is taken.
#[test]
fn names_are_made_of_the_folder() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let names: Vec<_> = (0..3).map(|_| client.new_session(plain(&daemon)).name).collect();
    assert_eq!(names, ["w", "w-2", "w-3"]);
    let listed: Vec<_> = client.sessions().into_iter().map(|session| session.name).collect();
    assert_eq!(listed, ["w-3", "w-2", "w"], "newest first");
}

/// D21: the same key is the same session, also after a crash (rel-18).
#[test]
fn a_repeated_call_makes_one_session() {
    let mut daemon = Daemon::start();
    let request = Request::SessionNew { session: Box::new(plain(&daemon)) };
    let made = |outcome: Outcome| match outcome {
        Outcome::Ok(response) => match *response {
            Response::Session { session } => session.id,
            other => panic!("{other:?}"),
        },
        Outcome::Error(error) => panic!("{error:?}"),
    };
    let mut client = daemon.client();
    let first = made(client.call_keyed(request.clone(), Some("k1")));
    assert_eq!(made(client.call_keyed(request.clone(), Some("k1"))), first);
    daemon.kill9();
    daemon.restart();
    assert_eq!(made(daemon.client().call_keyed(request, Some("k1"))), first);
    assert_eq!(daemon.client().sessions().len(), 1);
}

/// Interrupt ends the run and keeps the process.
#[test]
fn an_interrupt_ends_the_run_and_not_the_lead() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([{ "text": "Thinking hard.", "pause_ms": 600_000 }, say("Listening.")]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.prompt = "think".into();
    let session = client.new_session(new);
    let lead = format!("{}/lead", session.name);
    let thinking = client.agent_until(&lead, "thinks", |agent| {
        agent.activity.as_ref().is_some_and(|activity| activity.doing == "thinking")
    });
    assert!(thinking.pid.is_some());
    client.ok(Request::Interrupt { session: session.id.clone() });
    let idle = client.agent_until(&lead, "is interrupted", |agent| agent.runs == 1);
    assert_eq!(idle.pid, thinking.pid);
    until("its process waits", || (client.agent(&lead).state == AgentState::Idle).then_some(()));
}
