//! Members in terminals (T-2): what is left for them and by them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::{Stage, USER, accepted, to};
use crate::agent::{Class, Process, Runtime, Status};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::Event;
use crate::id::{AgentId, MessageId, PeerId};
use crate::message::{Kind, Sender, State};
use crate::name::Name;
use crate::request::Invite;
use crate::request::{Address, Body, Request};
use crate::task::{Edit, TaskStatus};
use crate::terminal::{Left, Said, key_of};
use crate::{Core, Effect, Input, Record, limits};

fn team() -> Name {
    Name::new("team").unwrap()
}

fn invitation(team: &str, name: &str) -> Invite {
    let (team, name, description) = (team.into(), name.into(), String::new());
    Invite { team, name, description, start: false, arguments: Vec::new() }
}

fn invite(stage: &mut Stage, name: &str) -> Result<Answer, Denial> {
    stage.user(Request::TeamInvite(invitation("s", name)))
}

/// A session `s` with a connected lead, a team, and `m1` in a terminal.
fn with_member() -> (Stage, PeerId) {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let (session, name) = ("s".into(), "team".into());
    let (description, agent_type) = (String::new(), String::new());
    stage.user(Request::TeamCreate { session, name, description, agent_type }).unwrap();
    invite(&mut stage, "m1").unwrap();
    (stage, lead)
}

fn serves(stage: &Stage) -> bool {
    stage.step.effects.contains(&Effect::ServeInboxes { team: team() })
}

fn written(stage: &mut Stage, messages: &[MessageId]) {
    let (agent, messages) = (stage.id("m1"), messages.to_vec());
    stage.input(Input::InboxWritten { agent, messages });
}

fn read(stage: &mut Stage, messages: &[MessageId]) {
    let (agent, messages) = (stage.id("m1"), messages.to_vec());
    stage.input(Input::InboxRead { agent, messages });
}

/// `m1` left this in the inbox of `inbox`. Whether it is to be taken out.
fn left(stage: &mut Stage, inbox: &str, key: &str, said: Said) -> bool {
    let agents = stage.core.durable.agents.values();
    let to = if inbox == "team-lead" { "lead" } else { inbox };
    let to: Vec<AgentId> =
        agents.filter(|it| it.name.as_str() == to).map(|it| it.id.clone()).collect();
    let it = Left {
        team: team(),
        from: stage.id("m1"),
        inbox: inbox.into(),
        to: to.first().cloned(),
        key: key.into(),
        summary: "in short".into(),
        said,
    };
    stage.input(Input::InboxLeft(Box::new(it)));
    let taken = Effect::InboxTaken { team: team(), inbox: inbox.into(), key: key.into() };
    stage.step.effects.contains(&taken)
}

fn text(words: &str) -> Said {
    Said::Text(words.into())
}

fn idle(result: &str) -> Said {
    Said::Idle { result: result.into() }
}

/// The last message for an agent.
fn last<'a>(stage: &'a Stage, name: &str) -> &'a crate::message::Message {
    let id = stage.id(name);
    stage.core.durable.messages.values().rev().find(|it| it.to == id).unwrap()
}

fn process() -> Process {
    Process { pid: 7, start_ticks: 8, boot_id: "b".into() }
}

#[test]
fn t2_a_member_is_invited_once_and_starts_nothing() {
    let (mut stage, lead) = with_member();
    let id = stage.id("m1");
    assert_eq!(stage.agent("m1").runtime, Runtime::Terminal);
    assert_eq!(invite(&mut stage, "M1"), Ok(Answer::Invited(id)));
    assert!(stage.step.records.is_empty());
    stage.spawn(lead, "w").unwrap();
    for taken in ["w", "W", "lead", "team-lead"] {
        assert!(invite(&mut stage, taken).is_err(), "{taken}");
    }
    invite(&mut stage, "mate.one").unwrap();
    let shared = Denial::InboxShared { name: "mate-one".into(), other: "mate.one".into() };
    assert_eq!(invite(&mut stage, "mate-one"), Err(shared));
    let denied = stage.ask(lead, Request::TeamInvite(invitation("s", "x")));
    assert!(matches!(denied, Err(Denial::Forbidden { .. })));
    stage.session("t", "normal", 1);
    let denied = stage.user(Request::TeamInvite(invitation("t", "x")));
    assert_eq!(denied, Err(Denial::NeedsTeam { session: "t".into() }));
}

#[test]
fn t2_m11_mail_for_a_member_goes_into_its_inbox_and_its_receipt_says_how_far_it_is() {
    let (mut stage, lead) = with_member();
    let one = accepted(stage.ask(lead, to("m1", "look")));
    assert!(serves(&stage));
    assert!(!stage.step.effects.iter().any(|it| matches!(it, Effect::Spawn { .. })));
    assert_eq!(stage.message(one).state, State::Accepted);
    written(&mut stage, &[one]);
    assert_eq!(stage.message(one).state, State::Delivered);
    written(&mut stage, &[one]);
    assert!(stage.step.records.is_empty(), "the same again changes nothing");
    read(&mut stage, &[one, MessageId(999)]);
    assert_eq!(stage.message(one).state, State::Consumed);
    assert!(stage.agent("m1").run_is_open() && stage.agent("m1").is_active());
    read(&mut stage, &[one]);
    assert!(stage.step.records.is_empty());
    // What is not for a member is none of an inbox's business.
    let agent = stage.id("lead");
    let other = stage.prompt("lead");
    stage.input(Input::InboxRead { agent, messages: [other].to_vec() });
    assert!(stage.step.records.is_empty());
}

#[test]
fn t2_w4_a_turn_of_a_member_is_a_run_and_the_lead_is_notified_once() {
    let (mut stage, lead) = with_member();
    let one = accepted(stage.ask(lead, to("m1", "look")));
    read(&mut stage, &[one]);
    assert!(left(&mut stage, "team-lead", "k1", idle("found it")));
    let told = last(&stage, "lead");
    assert!(
        matches!(&told.kind, Kind::Notification { run: 1, outcome, .. } if outcome.status == Status::Completed)
    );
    assert_eq!((told.text.as_str(), &told.from), ("found it", &Sender::System));
    let count = stage.core.durable.messages.len();
    assert!(left(&mut stage, "team-lead", "k1", idle("found it")), "taken out again");
    assert!(left(&mut stage, "team-lead", "k2", idle("")), "a turn that its user began");
    assert_eq!(stage.core.durable.messages.len(), count);
    // Words that nobody asked for are words.
    assert!(left(&mut stage, "team-lead", "k3", idle("by the way")));
    let told = last(&stage, "lead");
    assert_eq!((&told.kind, told.text.as_str()), (&Kind::Text, "by the way"));
    assert_eq!(told.from, Sender::Agent(stage.id("m1")));
}

#[test]
fn t2_m3_what_a_member_leaves_is_its_own_words_and_counts_once() {
    let (mut stage, lead) = with_member();
    assert!(left(&mut stage, "team-lead", "k1", text("hi")));
    let told = last(&stage, "lead");
    assert_eq!((told.text.as_str(), &told.kind), ("hi", &Kind::Text));
    assert_eq!(told.from, Sender::Agent(stage.id("m1")));
    let count = stage.core.durable.messages.len();
    stage.restart();
    assert!(left(&mut stage, "team-lead", "k1", text("hi")), "found again after a crash");
    assert_eq!(stage.core.durable.messages.len(), count);
    let _ = lead;
    // A worker of ours is woken by it, as by any message.
    let lead = stage.connect("lead");
    stage.spawn(lead, "w").unwrap();
    assert!(left(&mut stage, "w", "k2", text("yours")));
    assert_eq!(last(&stage, "w").text, "yours");
}

#[test]
fn t2_m4_what_cannot_be_delivered_comes_back_to_the_member_or_stays() {
    let (mut stage, _) = with_member();
    assert!(left(&mut stage, "ghost", "k1", text("boo")));
    let back = last(&stage, "m1");
    assert!(back.text.contains("ghost") && back.text.contains("boo"), "{}", back.text);
    assert_eq!(back.from, Sender::System);
    let long = "x".repeat(limits::BODY_LEN_MAX + 1);
    assert!(left(&mut stage, "team-lead", "k2", text(&long)));
    assert!(last(&stage, "m1").text.contains("at most"));
    for _ in stage.agent("lead").mailbox.len()..limits::MAILBOX_LEN_MAX {
        stage.prompt("lead");
    }
    assert!(left(&mut stage, "team-lead", "k3", text("late")));
    assert!(last(&stage, "m1").text.contains("full"));
    for _ in stage.agent("m1").mailbox.len()..limits::MAILBOX_LEN_MAX {
        stage.prompt("m1");
    }
    assert!(!left(&mut stage, "team-lead", "k4", text("later")), "it stays in the file");
    assert!(stage.step.records.is_empty());
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    assert!(!left(&mut stage, "ghost", "k5", text("stopped")));
}

#[test]
fn t2_m2_a_shutdown_is_asked_for_and_answered() {
    let (mut stage, lead) = with_member();
    let body = Body::ShutdownRequest { reason: "done".into() };
    let ask = |stage: &mut Stage, peer| {
        let (session, to, summary) = ("s".into(), Address::Name("m1".into()), String::new());
        accepted(stage.ask(
            peer,
            Request::Send { session, to, body: body.clone(), summary, notify_when_idle: false },
        ))
    };
    let answer = |request, approve| {
        let reason = if approve { String::new() } else { "busy".to_string() };
        Said::ShutdownResponse { request, approve, reason }
    };
    let one = ask(&mut stage, lead);
    read(&mut stage, &[one]);
    assert!(!stage.agent("m1").run_is_open(), "it was asked for nothing else");
    assert!(left(&mut stage, "team-lead", "k1", answer(one, false)));
    let told = last(&stage, "lead");
    assert_eq!(told.kind, Kind::ShutdownResponse { approve: false });
    assert_eq!(told.text, "busy");
    let count = stage.core.durable.messages.len();
    assert!(left(&mut stage, "team-lead", "k2", answer(one, true)), "it is not open any more");
    assert!(left(&mut stage, "team-lead", "k3", answer(MessageId(999), true)));
    assert_eq!(stage.core.durable.messages.len(), count);
    // The user asks; the lead hears of it. A version that ends at once leaves the request unread.
    let two = ask(&mut stage, USER);
    let work = accepted(stage.ask(lead, to("m1", "look")));
    read(&mut stage, &[work]);
    assert!(left(&mut stage, "team-lead", "k4", answer(two, true)));
    assert_eq!(stage.message(two).state, State::Consumed);
    let lead = stage.id("lead");
    let told: Vec<_> = stage.core.durable.messages.values().filter(|it| it.to == lead).collect();
    assert!(told.iter().any(|it| it.kind == Kind::ShutdownResponse { approve: true }));
    let ended = &stage.agent("m1").last.as_ref().unwrap().outcome;
    assert_eq!(ended.status, Status::Killed);
}

#[test]
fn t2_m2_m8_a_plan_is_approved_by_the_lead_or_the_user_and_by_nobody_else() {
    let (mut stage, lead) = with_member();
    invite(&mut stage, "m2").unwrap();
    let plan =
        |given: &str| Said::PlanApprovalRequest { given: given.into(), plan: "1. go".into() };
    let answer = |stage: &mut Stage, peer, name: &str, request: MessageId, approve| {
        let (request_id, feedback) = (format!("plan-{request}"), "more".into());
        let body = Body::PlanApprovalResponse { request_id, approve, feedback };
        let (session, to, summary) = ("s".into(), Address::Name(name.into()), String::new());
        stage.ask(peer, Request::Send { session, to, body, summary, notify_when_idle: false })
    };
    assert!(left(&mut stage, "team-lead", "k1", plan("p1")));
    let asked = last(&stage, "lead").id;
    assert_eq!(last(&stage, "lead").request_id(), Some(format!("plan-{asked}")));
    assert!(matches!(
        answer(&mut stage, lead, "m2", asked, true),
        Err(Denial::NoOpenRequest { .. })
    ));
    let reply = accepted(answer(&mut stage, lead, "m1", asked, false));
    let kind = Kind::PlanApprovalResponse { given: "p1".into(), approve: false };
    assert_eq!(stage.message(reply).kind, kind);
    assert_eq!(stage.message(reply).text, "more");
    assert!(serves(&stage));
    assert!(answer(&mut stage, lead, "m1", asked, true).is_err(), "it is answered");
    assert!(left(&mut stage, "team-lead", "k2", plan("p2")));
    let asked = last(&stage, "lead").id;
    stage.spawn(lead, "w").unwrap();
    let worker = stage.connect("w");
    assert!(matches!(answer(&mut stage, worker, "m1", asked, true), Err(Denial::Forbidden { .. })));
    accepted(answer(&mut stage, USER, "m1", asked, true));
}

#[test]
fn t2_a_terminal_that_is_closed_in_the_middle_of_its_work_has_failed() {
    let (mut stage, lead) = with_member();
    let agent = stage.id("m1");
    let seen = |stage: &mut Stage, process: Option<Process>| {
        stage.input(Input::TerminalSeen { agent: agent.clone(), process });
    };
    seen(&mut stage, Some(process()));
    assert_eq!(stage.agent("m1").process, Some(process()));
    seen(&mut stage, Some(process()));
    assert!(stage.step.records.is_empty());
    let one = accepted(stage.ask(lead, to("m1", "look")));
    read(&mut stage, &[one]);
    stage.restart();
    assert!(stage.agent("m1").run_is_open(), "it goes on without us");
    assert!(
        !stage
            .step
            .effects
            .iter()
            .any(|it| matches!(it, Effect::Watch { agent: a, .. } if *a == agent))
    );
    seen(&mut stage, None);
    let last = stage.agent("m1").last.clone().unwrap();
    assert_eq!((last.outcome.status, last.outcome.class), (Status::Failed, Some(Class::Adjust)));
    assert_eq!(stage.agent("m1").process, None);
}

#[test]
fn t2_t3_a_member_is_not_ended_from_here_and_keeps_its_team_while_it_works() {
    let (mut stage, lead) = with_member();
    let denied = stage.user(Request::AgentStop { agent: "s/m1".into() });
    assert_eq!(denied, Err(Denial::InTerminal { name: "m1".into() }));
    let one = accepted(stage.ask(lead, to("m1", "look")));
    read(&mut stage, &[one]);
    let denied = stage.ask(lead, Request::TeamDelete { session: String::new() });
    assert_eq!(denied, Err(Denial::WorkersRun { names: ["m1".into()].to_vec() }));
    assert!(left(&mut stage, "team-lead", "k", idle("done")));
    stage.send_call(lead, None, Request::TeamDelete { session: String::new() });
    assert!(stage.step.effects.iter().any(|it| matches!(it, Effect::RemoveTeam { .. })));
    assert!(!left(&mut stage, "team-lead", "k2", text("too late")));
}

#[test]
fn m1_a_broadcast_reaches_members_whose_terminals_are_open() {
    let (mut stage, lead) = with_member();
    let all = |stage: &mut Stage| {
        let (session, body) = ("s".into(), Body::Text { text: "all".into() });
        let summary = String::new();
        stage.ask(
            lead,
            Request::Send {
                session,
                to: Address::Everyone,
                body,
                summary,
                notify_when_idle: false,
            },
        )
    };
    assert_eq!(all(&mut stage), Err(Denial::Nobody));
    let agent = stage.id("m1");
    stage.input(Input::TerminalSeen { agent, process: Some(process()) });
    accepted(all(&mut stage));
}

/// Mail that waits is served again after a restart and after a resume.
#[test]
fn t2_m3_mail_is_served_again_after_a_restart() {
    let (mut stage, lead) = with_member();
    stage.ask(lead, to("m1", "look")).unwrap();
    let durable = core::mem::take(&mut stage.core.durable);
    stage.core = Core { durable, ..Core::default() };
    stage.input(Input::Started);
    assert!(serves(&stage));
    stage.input(Input::Connected {
        peer: USER,
        credentials: None,
        lineage: crate::input::Lineage::default(),
    });
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    assert!(!serves(&stage));
    stage.user(Request::SessionResume { session: "s".into(), mode_variable: None }).unwrap();
    assert!(serves(&stage));
}

#[test]
fn t2_events_tell_where_a_member_is() {
    let (mut stage, lead) = with_member();
    let one = accepted(stage.ask(lead, to("m1", "look")));
    read(&mut stage, &[one]);
    let told = |stage: &Stage, wanted: fn(&Event) -> bool| {
        let published = |it: &Effect| matches!(it, Effect::Publish { event, .. } if wanted(event));
        stage.step.effects.iter().any(published)
    };
    assert!(told(&stage, |it| matches!(it, Event::AgentChanged { .. })));
    assert!(told(&stage, |it| matches!(it, Event::MessageChanged { state: State::Consumed, .. })));
    left(&mut stage, "team-lead", "k", idle("done"));
    assert!(told(&stage, |it| matches!(it, Event::RunEnded { .. })));
    assert_ne!(key_of(&["a", "bc"]), key_of(&["ab", "c"]));
}

/// A member that is given a task is told so once, by any giver, and only when it is new to it.
#[test]
fn t2_t4_a_member_is_told_of_a_task_that_is_its_own_now() {
    let (mut stage, _) = with_member();
    invite(&mut stage, "m2").unwrap();
    for number in 1..=3 {
        let (team, subject) = ("s".into(), format!("thing {number}"));
        let (description, blocked_by) = ("in full".into(), Vec::new());
        stage.user(Request::TaskCreate { team, subject, description, blocked_by }).unwrap();
    }
    let give = |stage: &mut Stage, task, owner: &str, status| {
        let (team, owner, blocked_by) = ("s".into(), Some(owner.into()), None);
        stage.user(Request::TaskUpdate { team, task, status, owner, blocked_by }).unwrap();
        let told = stage.step.records.iter().filter_map(|it| match it {
            Record::MessagePut { message } => Some((
                stage.core.durable.agents[&message.to].name.to_string(),
                message.from.clone(),
                message.kind.clone(),
                message.text.clone(),
            )),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let of = |number: u32, to: &str| {
        let kind = Kind::TaskAssignment { task: number, subject: format!("thing {number}") };
        [(to.to_string(), Sender::User, kind, "in full".to_string())]
    };
    assert_eq!(give(&mut stage, 1, "m1", None), of(1, "m1"));
    assert!(serves(&stage));
    assert_eq!(give(&mut stage, 1, "m1", None), [], "it has it already");
    let claimed = Some(TaskStatus::InProgress);
    assert_eq!(give(&mut stage, 1, "m1", claimed), [], "it has it still");
    assert_eq!(give(&mut stage, 1, "", Some(TaskStatus::Pending)), [], "given back");
    assert_eq!(give(&mut stage, 1, "m2", claimed), of(1, "m2"));
    assert_eq!(give(&mut stage, 2, "lead", None), [], "the lead is in no terminal");
    give(&mut stage, 2, "", None);
    let done = Some(TaskStatus::Completed);
    assert_eq!(give(&mut stage, 2, "m1", done), [], "there is nothing left to do");
    // In the task's file, by somebody who is known to nobody; and the same again.
    let edit = |stage: &mut Stage, owner: &str| {
        let edit = Edit { owner: Some(owner.into()), ..Edit::default() };
        let before = stage.core.durable.messages.len();
        stage.input(Input::TaskEdited { team: team(), task: 3, edit: Box::new(edit) });
        stage.core.durable.messages.len() - before
    };
    assert_eq!(edit(&mut stage, "m1"), 1);
    assert_eq!(last(&stage, "m1").from, Sender::System);
    assert_eq!(edit(&mut stage, "m1"), 0);
    assert_eq!(edit(&mut stage, "somebody else"), 0);
    assert_eq!(edit(&mut stage, ""), 0);
    stage.restart();
    assert_eq!(edit(&mut stage, "m2"), 1);
}

/// A mailbox that is full keeps its owner from getting the task too: nobody has a task that it was not told of.
#[test]
fn t2_m4_a_task_goes_to_no_member_that_cannot_be_told() {
    let (mut stage, lead) = with_member();
    let (team, subject) = ("s".into(), "thing".into());
    let (description, blocked_by) = (String::new(), Vec::new());
    stage.user(Request::TaskCreate { team, subject, description, blocked_by }).unwrap();
    for _ in 0..limits::MAILBOX_LEN_MAX {
        accepted(stage.ask(lead, to("m1", "more")));
    }
    let (team, owner, blocked_by) = ("s".into(), Some("m1".into()), None);
    let status = None;
    let denied = stage.user(Request::TaskUpdate { team, task: 1, status, owner, blocked_by });
    assert!(matches!(denied, Err(Denial::MailboxFull { .. })), "{denied:?}");
    let edit = Edit { owner: Some("m1".into()), ..Edit::default() };
    stage.input(Input::TaskEdited { team: self::team(), task: 1, edit: Box::new(edit) });
    let tasks = &stage.core.durable.teams[&self::team()].tasks;
    assert_eq!(tasks[&1].owner, None);
    assert!(stage.step.records.is_empty());
}
