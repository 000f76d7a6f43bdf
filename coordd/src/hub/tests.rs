//! The hub with real transcripts and peers that the test reads for.

use std::io::Write as _;

use proto::Reply;
use proto::entry::{Entry, What};

use super::*;
use crate::peer::Out;

fn entry(seq: u64) -> Entry {
    Entry { seq, at_ms: 0, run: 1, what: What::Text { text: format!("entry {seq}") } }
}

fn made(agent: &str) -> Event {
    Event::AgentChanged {
        agent: agent.to_owned(),
        name: "lead".to_owned(),
        state: AgentState::Running,
        reason: String::new(),
    }
}

async fn next(out: &mut mpsc::Receiver<Out>) -> FromDaemon {
    match out.recv().await.unwrap() {
        Out::Own(message) => *message,
        Out::Shared(message) => FromDaemon::clone(&message),
    }
}

async fn next_event(out: &mut mpsc::Receiver<Out>) -> Event {
    let message = next(out).await;
    let FromDaemon::Event(numbered) = message else { panic!("no event: {message:?}") };
    numbered.event
}

fn viewer(path: &std::path::Path) -> Viewer {
    Viewer {
        session: "s".into(),
        agent: "a".into(),
        name: "lead".into(),
        transcript: path.to_owned(),
        history: None,
    }
}

#[tokio::test]
async fn l2_a_viewer_gets_the_past_and_then_the_present_each_once() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for seq in 1..=2 {
        writeln!(file, "{}", serde_json::to_string(&entry(seq)).unwrap()).unwrap();
    }
    let (hub, task) = Hub::new("b".into(), Arc::new(Semaphore::new(1)));
    let _task = tokio::task::spawn(task);
    hub.publish("s", made("a"));
    let (handle, mut out) = Handle::new();
    hub.attach(PeerId(1), handle, viewer(file.path()), 5);
    // Entry 2 is also still on its way, and 3 is in no file.
    hub.report("a", Report::Entry { entry: entry(2) });
    hub.report("a", Report::Entry { entry: entry(3) });
    assert!(matches!(next(&mut out).await, FromDaemon::Reply(Reply { id: 5, .. })));
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let event = next_event(&mut out).await;
        if let Event::Entry { entry, .. } = event {
            seen.push(entry.seq);
        } else {
            assert_eq!(event, Event::CaughtUp {});
            seen.push(0);
        }
    }
    assert_eq!(seen, [1, 2, 0, 3]);
}

#[tokio::test]
async fn a40_events_go_on_from_a_cursor_and_a_gap_is_said() {
    let (hub, task) = Hub::new("b".into(), Arc::new(Semaphore::new(1)));
    let _task = tokio::task::spawn(task);
    for n in 0..limits::EVENTS_KEPT_MAX + 10 {
        hub.publish("s", Event::Warning { text: n.to_string() });
        if n % 1_000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let (handle, mut out) = Handle::new();
    let after = limits::EVENTS_KEPT_MAX as u64 + 8;
    hub.subscribe(PeerId(1), handle, None, Some(after), 1);
    assert!(matches!(next(&mut out).await, FromDaemon::Reply(_)));
    assert_eq!(next_event(&mut out).await, Event::Warning { text: after.to_string() });
    let (handle, mut out) = Handle::new();
    hub.subscribe(PeerId(2), handle, None, Some(3), 1);
    assert!(matches!(next(&mut out).await, FromDaemon::Reply(_)));
    assert_eq!(next_event(&mut out).await, Event::Gap { missed: Some(7) });
}

#[tokio::test]
async fn rel69_a_viewer_that_does_not_read_is_told_of_a_gap_and_holds_up_nobody() {
    let (hub, task) = Hub::new("b".into(), Arc::new(Semaphore::new(1)));
    let _task = tokio::task::spawn(task);
    let (slow, mut slow_out) = Handle::new();
    let (quick, mut quick_out) = Handle::new();
    hub.subscribe(PeerId(1), slow, None, None, 1);
    hub.subscribe(PeerId(2), quick, Some("s".into()), None, 1);
    assert!(matches!(next(&mut quick_out).await, FromDaemon::Reply(_)));
    let all = limits::OUTBOX_LEN_MAX + 50;
    for n in 0..all {
        hub.publish("s", Event::Warning { text: n.to_string() });
        assert_eq!(next_event(&mut quick_out).await, Event::Warning { text: n.to_string() });
    }
    assert!(matches!(next(&mut slow_out).await, FromDaemon::Reply(_)));
    for n in 0..limits::OUTBOX_LEN_MAX - 1 {
        assert_eq!(next_event(&mut slow_out).await, Event::Warning { text: n.to_string() });
    }
    hub.publish("s", Event::Warning { text: "after".into() });
    assert_eq!(next_event(&mut slow_out).await, Event::Gap { missed: Some(51) });
    assert_eq!(next_event(&mut slow_out).await, Event::Warning { text: "after".into() });
}

#[tokio::test]
async fn status_says_what_agents_are_doing() {
    let (hub, task) = Hub::new("b".into(), Arc::new(Semaphore::new(1)));
    let _task = tokio::task::spawn(task);
    hub.publish("s", made("a"));
    let activity = Activity {
        doing: "running Bash".into(),
        turns: 2,
        usage: proto::notification::Usage::default(),
        sandbox: String::new(),
    };
    hub.report("a", Report::Activity { activity: activity.clone() });
    let (handle, mut out) = Handle::new();
    let agent = AgentView {
        id: "a".into(),
        name: "lead".into(),
        session: "s".into(),
        role: proto::agent::Role::Lead,
        runtime: proto::agent::Runtime::Native,
        host: String::new(),
        agent_type: String::new(),
        description: String::new(),
        phase: String::new(),
        state: AgentState::Running,
        runs: 0,
        pid: None,
        incarnation: 1,
        run_started_ms: None,
        activity: None,
        usage: proto::notification::Usage::default(),
        last: None,
        mail: 0,
        transcript: String::new(),
        screen: false,
        ended: None,
    };
    hub.answer(handle, 3, Response::Agent { agent });
    let FromDaemon::Reply(Reply { id: 3, outcome: Outcome::Ok(response) }) = next(&mut out).await
    else {
        panic!("no reply")
    };
    let Response::Agent { agent } = *response else { panic!("no agent") };
    assert_eq!(agent.activity, Some(activity));
}
