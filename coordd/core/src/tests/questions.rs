//! Questions to the user (W-3, M-8), and the structured result (B4).

use alloc::string::String;
use alloc::vec::Vec;

use super::{Stage, USER, completed, to};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::id::PeerId;
use crate::message::{Kind, Sender};
use crate::permission::Question;
use crate::request::Request;

fn ask(stage: &mut Stage, peer: PeerId) -> u64 {
    let question = Question {
        tool: "Bash".into(),
        input: "{\"command\":\"make\"}".into(),
        reason: "no rule allows it".into(),
        rule: "Bash(make)".into(),
        about: "make".into(),
        shown: String::new(),
    };
    stage.send_call(peer, Some("tool-1"), Request::PermissionAsk(question))
}

fn answer(stage: &mut Stage, allow: bool, always: bool) -> Result<Answer, Denial> {
    stage.user(Request::PermissionAnswer { id: "p1".into(), allow, always, reason: String::new() })
}

fn asking_worker() -> (Stage, PeerId, u64) {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    let w = stage.connect("w");
    stage.read(w, "w");
    let call = ask(&mut stage, w);
    assert_eq!(stage.reply(w, call), None);
    (stage, w, call)
}

/// W-3, G1: a question waits over restarts of the daemon and of the agent, as one question.
#[test]
fn w3_a_question_waits_over_restarts() {
    let (mut stage, ..) = asking_worker();
    stage.restart();
    let w = stage.connect("w");
    ask(&mut stage, w);
    stage.exit("w", None);
    let w = stage.connect("w");
    let call = ask(&mut stage, w);
    assert_eq!(stage.core.durable.permissions.len(), 1);
    assert_eq!(answer(&mut stage, true, true), Ok(Answer::Done));
    let rule = String::from("Bash(make)");
    let permitted = Answer::Permitted { allow: true, reason: String::new(), rule: rule.clone() };
    assert_eq!(stage.reply(w, call), Some(Ok(permitted)));
    assert_eq!(stage.of("s").rules_learned, [rule]);
    assert_eq!(answer(&mut stage, true, false), Err(Denial::Answered { id: "p1".into() }));
    // Asked again after the answer got lost: the same answer.
    let call = ask(&mut stage, w);
    assert!(matches!(stage.reply(w, call), Some(Ok(Answer::Permitted { allow: true, .. }))));
}

#[test]
fn w3_a_no_is_told_with_its_reason_and_teaches_nothing() {
    let (mut stage, w, call) = asking_worker();
    answer(&mut stage, false, true).unwrap();
    let (reason, rule) = ("the user said no".into(), String::new());
    assert_eq!(stage.reply(w, call), Some(Ok(Answer::Permitted { allow: false, reason, rule })));
    assert_eq!(stage.of("s").rules_learned, Vec::<String>::new());
}

/// A-4, fR7: what the user adds to a yes is mail of the agent that asked, in the user's name.
#[test]
fn a4_fr7_a_note_with_a_yes_reaches_the_agent() {
    let (mut stage, w, call) = asking_worker();
    let reason = String::from("once; the port is 5433");
    let request = Request::PermissionAnswer {
        id: "p1".into(),
        allow: true,
        always: false,
        reason: reason.clone(),
    };
    assert_eq!(stage.user(request), Ok(Answer::Done));
    assert!(matches!(stage.reply(w, call), Some(Ok(Answer::Permitted { allow: true, .. }))));
    let mail = stage.agent("w").mailbox.iter().map(|id| stage.message(*id)).collect::<Vec<_>>();
    let [note] = mail.as_slice() else { panic!("{mail:?}") };
    assert_eq!((&note.from, &note.kind), (&Sender::User, &Kind::Prompt));
    assert!(note.text.ends_with(&reason), "{note:?}");
}

/// A-3, fA4: *always* answers each open question of the session that names the same rule, and no other one.
#[test]
fn a3_fa4_always_answers_what_names_the_same_rule() {
    let (mut stage, w, call) = asking_worker();
    let lead = stage.lead();
    let [v, u] = ["v", "u"].map(|name| {
        stage.spawn(lead, name).unwrap();
        let peer = stage.connect(name);
        stage.read(peer, name);
        peer
    });
    let same = ask(&mut stage, v);
    let question = Question {
        tool: "Bash".into(),
        input: "{}".into(),
        reason: String::new(),
        rule: "Bash(rm *)".into(),
        about: String::new(),
        shown: String::new(),
    };
    let other = stage.send_call(u, Some("tool-1"), Request::PermissionAsk(question));
    let asked = stage.core.durable.permissions.values().next().unwrap();
    assert_eq!(asked.covers(&stage.core.durable).count(), 1);
    assert_eq!(answer(&mut stage, true, true), Ok(Answer::Done));
    let rule = String::from("Bash(make)");
    let permitted = Answer::Permitted { allow: true, reason: String::new(), rule };
    assert_eq!(stage.reply(w, call), Some(Ok(permitted.clone())));
    assert_eq!(stage.reply(v, same), Some(Ok(permitted)));
    assert_eq!(stage.reply(u, other), None);
}

/// A-3, fA4: a rule is the session's at once. Those that run are told, and those that were not there when they are back.
#[test]
fn a3_fa4_who_runs_learns_a_rule_at_once() {
    let (mut stage, w, call) = asking_worker();
    let lead = stage.lead();
    stage.spawn(lead, "v").unwrap();
    let v = stage.connect("v");
    assert_eq!(answer(&mut stage, true, true), Ok(Answer::Done));
    assert!(stage.reply(w, call).is_some());
    let learned = |stage: &Stage, peer: PeerId| {
        let order = crate::effect::Order::Learned { rule: "Bash(make)".into() };
        let told = crate::Effect::Order { peer, order };
        stage.step.effects.iter().filter(|effect| **effect == told).count()
    };
    assert_eq!((learned(&stage, v), learned(&stage, lead)), (1, 1));
    stage.input(crate::Input::Disconnected { peer: v });
    let again = stage.connect("v");
    assert_eq!(learned(&stage, again), 1);
    let call = ask(&mut stage, again);
    stage
        .user(Request::PermissionAnswer {
            id: "p2".into(),
            allow: true,
            always: true,
            reason: String::new(),
        })
        .unwrap();
    assert!(stage.reply(again, call).is_some());
    assert_eq!(learned(&stage, w), 0, "what is known is not learned again");
    assert_eq!(stage.of("s").rules_learned.len(), 1);
}

/// W-3: an answer that nobody was there for is heard by the process that asked, when it asks again; a later one has not begun the call.
#[test]
fn w3_an_answer_is_heard_by_the_process_that_asked() {
    let unheard_by = |stage: &Stage| {
        let question = stage.core.durable.permissions.values().next().unwrap();
        question.answer.as_ref().unwrap().unheard_by
    };
    for (is_lost, want) in [(false, 0), (true, 1)] {
        let (mut stage, w, _) = asking_worker();
        stage.input(crate::Input::Disconnected { peer: w });
        answer(&mut stage, true, false).unwrap();
        assert_eq!(unheard_by(&stage), 1);
        if is_lost {
            stage.exit("w", None);
        }
        let again = stage.connect("w");
        let call = ask(&mut stage, again);
        assert!(stage.reply(again, call).is_some());
        assert_eq!(unheard_by(&stage), want);
    }
}

/// A-6, fR11: what the user denied is told when it is asked again in the session, whoever asks; what the end of a run closed is not.
#[test]
fn a6_fr11_what_was_denied_before_is_known_when_it_is_asked_again() {
    let (mut stage, _, _) = asking_worker();
    let reason = String::from("never touch /etc");
    let request = Request::PermissionAnswer {
        id: "p1".into(),
        allow: false,
        always: false,
        reason: reason.clone(),
    };
    stage.user(request).unwrap();
    let lead = stage.lead();
    stage.spawn(lead, "v").unwrap();
    let v = stage.connect("v");
    stage.read(v, "v");
    ask(&mut stage, v);
    let durable = &stage.core.durable;
    let again = durable.permissions.values().last().unwrap();
    let before: Vec<_> = again.denied_before(durable).collect();
    let [denied] = before.as_slice() else { panic!("{before:?}") };
    assert_eq!((denied.question.id, denied.same), (crate::id::PermissionId(1), true));
    assert_eq!(denied.answer.reason, reason);
    assert_eq!(denied.question.denied_before(durable).count(), 0);
    // The end of a run is nobody's no.
    stage.exit("v", Some((1, completed())));
    stage.spawn(lead, "u").unwrap();
    let u = stage.connect("u");
    stage.read(u, "u");
    ask(&mut stage, u);
    let durable = &stage.core.durable;
    let third = durable.permissions.values().last().unwrap();
    assert_eq!(third.denied_before(durable).count(), 1);
}

/// M-8, rel-20, G7: nothing but the user's answer answers a question.
#[test]
fn m8_rel20_nobody_but_the_user_answers() {
    let (mut stage, w, _) = asking_worker();
    let lead = stage.core.live.links[&stage.id("lead")].peer.unwrap();
    for peer in [w, lead] {
        let request = Request::PermissionAnswer {
            id: "p1".into(),
            allow: true,
            always: true,
            reason: String::new(),
        };
        assert!(matches!(stage.ask(peer, request), Err(Denial::Forbidden { .. })));
    }
    stage.ask(lead, to("w", "approved: p1")).unwrap();
    assert_eq!(stage.core.durable.permissions.values().filter(|it| it.answer.is_none()).count(), 1);
}

/// A run that ends closes its questions: nobody is left waiting, and no user answers into the void.
#[test]
fn w3_the_end_of_a_run_closes_its_questions() {
    let (mut stage, w, call) = asking_worker();
    stage.ask(w, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    assert!(matches!(stage.reply(w, call), Some(Ok(Answer::Permitted { allow: false, .. }))));
    assert_eq!(answer(&mut stage, true, true), Err(Denial::Answered { id: "p1".into() }));

    let (mut stage, ..) = asking_worker();
    stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
    stage.exit("w", None);
    assert!(stage.core.durable.permissions.values().all(|it| it.answer.is_some()));
}

/// Case B4: no final result while workers run.
#[test]
#[cfg(feature = "coordinator")]
fn b4_no_structured_output_while_workers_run() {
    let mut stage = Stage::new();
    stage.session("s", "coordinator", 1);
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    stage.spawn(lead, "x").unwrap();
    let give = |stage: &mut Stage| {
        stage.ask(lead, Request::StructuredOutput { output: "{\"done\":true}".into() })
    };
    let running = |names: &[&str]| {
        Err(Denial::WorkersRun { names: names.iter().map(|it| String::from(*it)).collect() })
    };
    assert_eq!(give(&mut stage), running(&["w", "x"]));
    for (name, left) in [("w", &["x"][..]), ("x", &[])] {
        let peer = stage.connect(name);
        stage.read(peer, name);
        stage.ask(peer, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
        stage.exit(name, None);
        if !left.is_empty() {
            assert_eq!(give(&mut stage), running(left));
        }
    }
    assert_eq!(give(&mut stage), Ok(Answer::Done));
    assert_eq!(stage.of("s").output.as_deref(), Some("{\"done\":true}"));
}

/// Case B4: what holds the result up is work that is still to come, not a process that is leaving.
#[test]
#[cfg(feature = "coordinator")]
fn b4_a_worker_that_only_leaves_holds_nothing_up() {
    fn outcome() -> Request {
        Request::RunEnded { run: 1, outcome: completed() }
    }
    fn stop() -> Request {
        Request::AgentStop { agent: "s/w".into() }
    }
    type Story = fn(&mut Stage, PeerId);
    let table: [(&str, Story, bool); 7] = [
        ("it waits for its process", |_, _| (), false),
        ("its process has not read its mail", |stage, _| _ = stage.connect("w"), false),
        (
            "it works",
            |stage, _| {
                let peer = stage.connect("w");
                stage.read(peer, "w");
            },
            false,
        ),
        (
            "it is done, and its process is there",
            |stage, _| {
                let peer = stage.connect("w");
                stage.read(peer, "w");
                stage.ask(peer, outcome()).unwrap();
            },
            true,
        ),
        (
            "it is done, and was spoken to again",
            |stage, lead| {
                let peer = stage.connect("w");
                stage.read(peer, "w");
                stage.ask(peer, outcome()).unwrap();
                stage.ask(lead, to("w", "one more thing")).unwrap();
            },
            false,
        ),
        (
            "it is being ended in the middle of its work",
            |stage, _| {
                let peer = stage.connect("w");
                stage.read(peer, "w");
                stage.send_call(USER, None, stop());
            },
            false,
        ),
        (
            "it is done, and is being ended",
            |stage, _| {
                let peer = stage.connect("w");
                stage.read(peer, "w");
                stage.ask(peer, outcome()).unwrap();
                stage.send_call(USER, None, stop());
            },
            true,
        ),
    ];
    for (what, story, taken) in table {
        let mut stage = Stage::new();
        stage.session("s", "coordinator", 1);
        let lead = stage.lead();
        stage.spawn(lead, "w").unwrap();
        story(&mut stage, lead);
        let given = stage.ask(lead, Request::StructuredOutput { output: "{}".into() });
        assert_eq!(given.is_ok(), taken, "{what}: {given:?}");
    }
}
