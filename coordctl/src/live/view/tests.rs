use proto::agent::{Mode, Model, Provider, Role};
use proto::notification::{RunStatus, Usage};
use proto::view::{PermissionView, SessionState};

use super::super::roster::tests::agent;
use super::*;

fn session() -> SessionView {
    SessionView {
        id: "0f".into(),
        name: "dates".into(),
        mode: Mode::Coordinator,
        cwd: "/w".into(),
        state: SessionState::Live,
        created_ms: 0,
        lead: "a0".into(),
        model: Some(Model {
            provider: Provider::Rehearsal,
            name: String::new(),
            base_url: None,
            rehearsal_file: None,
        }),
        runtime: proto::agent::Runtime::Native,
        scratchpad: Some("/t/s".into()),
        team: None,
        running: 1,
        waiting: 0,
        agents: 2,
        questions: 0,
        usage: Usage::default(),
        output: None,
        cross_session_inbound: "auto".into(),
        held: 0,
        host_for: String::new(),
    }
}

fn view(streams: bool) -> View {
    let mut view = View::new(Style::default(), streams, &session(), "");
    view.roster.put(&agent("a0", "lead", Role::Coordinator, AgentState::Running));
    view.roster.put(&agent("a1", "w", Role::Worker, AgentState::Starting));
    view
}

fn at(event: Event) -> Numbered {
    Numbered { seq: 1, at_ms: 0, session: "0f".into(), event }
}

fn said(seq: u64, text: &str) -> Event {
    let entry = Entry { seq, at_ms: 0, run: 1, what: What::Text { text: text.into() } };
    Event::Entry { agent: "a0".into(), name: "lead".into(), entry }
}

fn piece(text: &str) -> Event {
    Event::Delta { agent: "a0".into(), text: text.into() }
}

fn done() -> Notification {
    Notification {
        task_id: "a1".into(),
        status: RunStatus::Completed,
        summary: String::new(),
        result: "ok".into(),
        usage: Usage::default(),
    }
}

#[test]
fn l2_what_was_shown_is_not_shown_again_after_reattaching() {
    let mut view = view(false);
    assert_eq!(view.event(&at(said(1, "one")), 0), "lead › one\n");
    assert_eq!(view.event(&at(said(1, "one")), 0), "");
    assert_eq!(view.event(&at(said(2, "two")), 0), "lead › two\n");
}

#[test]
fn an_answer_is_shown_while_it_is_written_and_once() {
    let mut view = view(true);
    let mut shown = view.event(&at(piece("on\u{1b}[2")), 0);
    shown += &view.event(&at(piece("Je\ntwo")), 0);
    shown += &view.event(&at(said(1, "on\u{1b}[2Je\ntwo")), 0);
    assert_eq!(shown, "lead › one\n       two\n");
}

#[test]
fn other_lines_break_into_an_answer_without_mixing_with_it() {
    let mut view = view(true);
    let mut shown = view.event(&at(piece("one ")), 0);
    shown += &view.event(&at(Event::Warning { text: "disk".into() }), 0);
    shown += &view.event(&at(piece("two")), 0);
    shown += &view.event(&at(said(1, "one two")), 0);
    assert_eq!(shown, "lead › one\n  warning: disk\nlead › two\n");
}

/// News of others waits for the end of an answer, but not for long.
#[test]
fn news_of_others_does_not_tear_an_answer() {
    let ended = || Event::RunEnded { name: "w".into(), notification: done(), thin: false };
    let news = "✓ w completed (0 tools, 0 tokens, 0.0s)\n  │ ok\n";
    let mut quick = view(true);
    let mut shown = quick.event(&at(piece("one tw")), 0);
    shown += &quick.event(&at(ended()), 10);
    // An event that tells nothing.
    shown += &quick.event(&at(Event::CaughtUp {}), 10);
    shown += &quick.event(&at(piece("o")), 20);
    shown += &quick.event(&at(said(1, "one two")), 30);
    assert_eq!(shown, format!("lead › one two\n{news}"));
    let mut slow = view(true);
    let mut shown = slow.event(&at(piece("one tw")), 0);
    shown += &slow.event(&at(ended()), 10);
    shown += &slow.event(&at(piece("o")), HOLD_MS + 10);
    shown += &slow.event(&at(said(1, "one two")), HOLD_MS + 20);
    assert_eq!(shown, format!("lead › one\n{news}lead › two\n"));
}

#[test]
fn n2_the_end_of_a_run_is_shown_once() {
    let mut view = view(false);
    let ended = Event::RunEnded { name: "w".into(), notification: done(), thin: true };
    let shown = view.event(&at(ended), 0);
    assert!(
        shown.starts_with("✓ w completed (0 tools, 0 tokens, 0.0s; thin: little work behind it, so doubt what it found)\n"),
        "{shown}"
    );
    let input = |seq| Event::Entry {
        agent: "a0".into(),
        name: "lead".into(),
        entry: Entry {
            seq,
            at_ms: 0,
            run: 2,
            what: What::Input {
                origin: Origin::Notification { notification: done() },
                message: None,
                text: "<task-notification>".into(),
            },
        },
    };
    assert_eq!(view.event(&at(input(1)), 0), "");
    // A second run, of which only the conversation tells.
    assert!(view.event(&at(input(2)), 0).starts_with("✓ w completed"));
}

#[test]
fn the_lead_among_its_workers_is_spared_their_entries() {
    let mut view = view(false);
    let entry = Entry { seq: 1, at_ms: 0, run: 1, what: What::Text { text: "x".into() } };
    let event = Event::Entry { agent: "a1".into(), name: "w".into(), entry };
    assert_eq!(view.event(&at(event), 0), "");
}

fn asks(id: &str, agent: &str) -> PermissionView {
    card::tests::bash(id, agent, "rm -r x")
}

fn asked(it: &PermissionView) -> Numbered {
    at(Event::PermissionAsked { permission: it.clone() })
}

fn answered(id: &str, with: &str) -> Numbered {
    at(Event::PermissionAnswered {
        id: id.into(),
        allowed: true,
        agent: "w".into(),
        rule: "Bash(rm *)".into(),
        with: with.into(),
        note: String::new(),
    })
}

#[test]
fn w3_a_question_says_how_it_is_answered_and_goes_when_it_is() {
    let mut view = view(false);
    let shown = view.event(&asked(&asks("p3", "w")), 0);
    assert!(shown.starts_with("? p3  w asks: Bash\n   │ rm -r x\n"), "{shown}");
    assert!(shown.contains("coordctl permit allow p3"), "{shown}");
    assert_eq!(view.ask(vec![asks("p3", "w")], 0), "", "it is known");
    let shown = view.event(&answered("p3", ""), 0);
    assert_eq!(shown, "  p3 allowed, not from here: w: Bash rm -r x (by the rule Bash(rm *))\n");
    assert!(view.desk.open().is_empty());
}

/// fA1, A-2: of several, one is drawn, and the next when that is answered.
#[test]
fn fa1_a2_one_question_is_drawn_at_a_time() {
    let mut view = view(false);
    view.answers = true;
    let shown = view.event(&asked(&asks("p1", "w")), 0);
    assert!(shown.contains("? p1  w asks") && shown.contains("  y  yes, this once\n"), "{shown}");
    let shown = view.event(&asked(&asks("p2", "v")), 0);
    assert_eq!(shown, "  p2 waits: v asks: Bash rm -r x (p1 is answered first)\n");
    view.event(&asked(&asks("p3", "v")), 0);
    assert_eq!(view.desk.drawn().unwrap().id, "p1");
    let shown = view.answered("p1", 0);
    assert!(shown.starts_with("? p2  v asks"), "{shown}");
    assert_eq!(view.event(&answered("p1", ""), 0), "", "it has been told");
    let shown = view.event(&answered("p2", "p1"), 0);
    assert!(
        shown.starts_with("  p2 allowed with p1: v: Bash rm -r x (by the rule Bash(rm *))\n? p3"),
        "{shown}"
    );
}

/// fA2: who looks at one agent is asked by that agent alone.
#[test]
fn fa2_only_the_questions_of_the_agent_that_is_shown() {
    let mut view = View::new(Style::default(), false, &session(), "a1");
    view.answers = true;
    view.roster.put(&agent("a1", "w", Role::Worker, AgentState::Running));
    assert_eq!(view.event(&asked(&asks("p1", "v")), 0), "");
    assert_eq!(view.ask(vec![asks("p1", "v")], 0), "");
    assert!(view.desk.open().is_empty());
    assert!(view.event(&asked(&asks("p2", "w")), 0).contains("? p2  w asks"));
    assert_eq!(view.event(&answered("p1", ""), 0), "");
}

#[test]
fn a_gap_is_said() {
    let shown = view(false).event(&at(Event::Gap { missed: Some(7) }), 0);
    assert_eq!(shown, "  7 events were left out here\n");
}

#[test]
fn the_heading_tells_mode_model_and_place() {
    let shown = view(false).heading(&session());
    assert_eq!(
        shown,
        "session dates  coordinator mode  rehearsal (scripted)  /w\n  scratchpad /t/s\n"
    );
}

#[test]
fn quiet_means_that_nothing_is_on_its_way() {
    let lead = agent("a0", "lead", Role::Coordinator, AgentState::Idle);
    let mut worker = agent("a1", "w", Role::Worker, AgentState::Stopped);
    let mut session = session();
    let quiet = crate::live::is_quiet;
    assert!(quiet(&session, &[lead.clone(), worker.clone()]));
    worker.mail = 1;
    assert!(!quiet(&session, &[lead.clone(), worker.clone()]));
    worker.mail = 0;
    worker.state = AgentState::Waiting;
    assert!(!quiet(&session, &[lead.clone(), worker.clone()]));
    session.questions = 1;
    assert!(!quiet(&session, std::slice::from_ref(&lead)));
    session.state = SessionState::Stopped;
    assert!(quiet(&session, &[lead]));
}
