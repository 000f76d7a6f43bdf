//! Terminals that coordd runs (T-2): when they are there, who looks at them, and who types.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::{Stage, USER, accepted, to, worker};
use crate::agent::{Class, Ended, Life, Process, Runtime, Status};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::{Order, Size};
use crate::id::{MessageId, PeerId};
use crate::message::{Kind, State};
use crate::request::Invite;
use crate::request::{NewAgent, Request};
use crate::{Effect, Input, limits};

fn invite(stage: &mut Stage, name: &str, start: bool) -> Result<Answer, Denial> {
    let (team, name, description) = ("s".into(), name.into(), String::new());
    let arguments = [String::from("--model")].to_vec();
    stage.user(Request::TeamInvite(Invite { team, name, description, start, arguments }))
}

/// A session `s` with a connected lead and a team.
fn with_team() -> (Stage, PeerId) {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let (session, name) = ("s".into(), "team".into());
    let (description, agent_type) = (String::new(), String::new());
    stage.user(Request::TeamCreate { session, name, description, agent_type }).unwrap();
    (stage, lead)
}

/// The same with `m1` in a terminal that coordd runs, connected.
fn with_terminal() -> (Stage, PeerId, PeerId) {
    let (mut stage, lead) = with_team();
    invite(&mut stage, "m1", true).unwrap();
    let own = stage.connect("m1");
    (stage, lead, own)
}

fn spawns(stage: &Stage) -> bool {
    stage.step.effects.iter().any(|it| matches!(it, Effect::Spawn { .. }))
}

fn serves(stage: &Stage) -> bool {
    stage.step.effects.iter().any(|it| matches!(it, Effect::ServeInboxes { .. }))
}

fn orders(stage: &Stage, to: PeerId) -> Vec<Order> {
    let all = stage.step.effects.iter();
    let own = all.filter_map(|it| match it {
        Effect::Order { peer, order } if *peer == to => Some(order.clone()),
        _ => None,
    });
    own.collect()
}

fn read(stage: &mut Stage, messages: &[MessageId]) {
    let (agent, messages) = (stage.id("m1"), messages.to_vec());
    stage.input(Input::InboxRead { agent, messages });
}

fn screen(size: Option<Size>) -> Request {
    Request::Screen { agent: "s/m1".into(), size }
}

fn typed(bytes: &[u8]) -> Request {
    Request::ScreenInput { agent: "s/m1".into(), size: None, bytes: bytes.to_vec() }
}

fn ended(status: u8) -> Request {
    Request::TerminalEnded(Ended { status, said: "x".repeat(1_000) })
}

const SIZE: Size = Size { rows: 50, columns: 132 };

#[test]
fn t2_a_terminal_that_is_to_be_started_is_up_before_anything_is_said_to_it() {
    let (mut stage, _) = with_team();
    invite(&mut stage, "m1", true).unwrap();
    assert!(spawns(&stage));
    let m1 = stage.agent("m1");
    assert_eq!((m1.runtime, &m1.life), (Runtime::Terminal, &Life::Up));
    assert_eq!(m1.pty.as_ref().unwrap().arguments, ["--model"]);
    assert!(!m1.is_active() && !m1.owes_outcome(), "nobody waits for anything of it");
    let own = stage.connect("m1");
    assert_eq!(orders(&stage, own), [], "it is not told to leave, as a worker without work is");
    invite(&mut stage, "M1", true).unwrap();
    assert!(!spawns(&stage) && stage.step.records.is_empty(), "the same again is the same");
    // One that was invited for a terminal of the user's can be started too, unless it is there.
    invite(&mut stage, "m2", false).unwrap();
    assert!(!spawns(&stage));
    let process = Process { pid: 7, start_ticks: 8, boot_id: "b".into() };
    let agent = stage.id("m2");
    stage.input(Input::TerminalSeen { agent: agent.clone(), process: Some(process.clone()) });
    let open = Denial::TerminalOpen { name: "m2".into(), pid: 7 };
    assert_eq!(invite(&mut stage, "m2", true), Err(open));
    stage.input(Input::TerminalSeen { agent, process: None });
    invite(&mut stage, "m2", true).unwrap();
    assert!(spawns(&stage));
    // The program in it is in the list of processes like any other, and says nothing new.
    let agent = stage.id("m1");
    stage.input(Input::TerminalSeen { agent, process: Some(process) });
    assert!(stage.step.records.is_empty());
}

#[test]
fn t2_what_cannot_be_started_is_refused() {
    let (mut stage, lead) = with_team();
    let many = (0..=limits::TERMINAL_ARGUMENTS_MAX).map(|it| it.to_string()).collect();
    let long =
        [String::from_utf8(Vec::from([b'x'; limits::TERMINAL_ARGUMENTS_BYTES_MAX + 1])).unwrap()];
    for arguments in [many, long.to_vec()] {
        let (team, name, description) = ("s".into(), "m1".into(), String::new());
        let invite = Invite { team, name, description, start: true, arguments };
        assert!(stage.user(Request::TeamInvite(invite)).is_err());
    }
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    let forbidden = stage.ask(lead, Request::TeamList);
    assert!(matches!(forbidden, Err(Denial::Forbidden { .. })));
    let stopped = Denial::SessionStopped { name: "s".into() };
    assert_eq!(invite(&mut stage, "m1", true), Err(stopped));
}

/// The lead's tool: its prompt is the terminal's first mail.
#[test]
fn t2_c4_a_lead_starts_a_terminal_where_there_is_a_team() {
    let terminal = |name: &str| NewAgent { runtime: Some(Runtime::Terminal), ..worker(name) };
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    let denied = stage.ask(lead, Request::AgentSpawn(terminal("m1")));
    assert_eq!(denied, Err(Denial::NeedsTeam { session: "s".into() }));
    let (mut stage, lead) = with_team();
    stage.ask(lead, Request::AgentSpawn(terminal("m.1"))).unwrap();
    assert!(spawns(&stage) && serves(&stage));
    let m1 = stage.agent("m.1");
    assert_eq!(m1.agent_type, "general-purpose");
    assert!(m1.owes_outcome());
    let own = stage.connect("m.1");
    assert!(!stage.step.effects.iter().any(|it| matches!(it, Effect::Deliver { .. })), "{own}");
    let shared = Denial::InboxShared { name: "m-1".into(), other: "m.1".into() };
    assert_eq!(stage.ask(lead, Request::AgentSpawn(terminal("m-1"))), Err(shared));
}

#[test]
fn t2_m11_its_mail_goes_into_its_inbox_and_wakes_it() {
    let (mut stage, lead, own) = with_terminal();
    let one = accepted(stage.ask(lead, to("m1", "look")));
    assert!(serves(&stage));
    assert_eq!(orders(&stage, own), [], "its process knows nothing of messages");
    read(&mut stage, &[one]);
    assert!(stage.agent("m1").is_active());
    // Its user ends it in the middle of that.
    stage.ask(own, ended(130)).unwrap();
    let last = stage.agent("m1").last.clone().unwrap().outcome;
    assert_eq!((last.status, last.class), (Status::Failed, Some(Class::Adjust)));
    assert!(last.reason.contains("status 130"), "{}", last.reason);
    stage.exit("m1", None);
    assert!(!spawns(&stage), "it is not started again");
    assert_eq!(stage.agent("m1").pty.as_ref().unwrap().ended.as_ref().unwrap().status, 130);
    stage.restart();
    assert!(!spawns(&stage), "nor after a restart");
    let lead = stage.connect("lead");
    stage.ask(lead, to("m1", "again")).unwrap();
    assert!(spawns(&stage) && serves(&stage), "a message starts it");
    assert_eq!(stage.agent("m1").pty.as_ref().unwrap().ended, None);
}

/// A program that ends at once, and leaves its mail, is not started again and again for it.
#[test]
fn t2_mail_that_it_leaves_does_not_start_it_again() {
    let (mut stage, lead, own) = with_terminal();
    accepted(stage.ask(lead, to("m1", "look")));
    stage.ask(own, ended(1)).unwrap();
    stage.exit("m1", None);
    assert!(!spawns(&stage));
    assert_eq!(stage.agent("m1").mailbox.len(), 1);
    invite(&mut stage, "m1", true).unwrap();
    assert!(spawns(&stage));
}

#[test]
fn t2_one_that_is_lost_is_started_again_and_not_for_ever() {
    let (mut stage, lead, _) = with_terminal();
    let one = accepted(stage.ask(lead, to("m1", "look")));
    read(&mut stage, &[one]);
    stage.exit("m1", None);
    assert!(spawns(&stage));
    let last = stage.agent("m1").last.clone().unwrap().outcome;
    assert!(last.reason.contains("its terminal was lost"), "{}", last.reason);
    for _ in 2..limits::CRASHES_MAX {
        stage.connect("m1");
        stage.exit("m1", None);
        assert!(spawns(&stage));
    }
    stage.connect("m1");
    stage.exit("m1", None);
    assert!(!spawns(&stage), "given up");
    let told = stage.core.durable.messages.values().rev();
    let told = told.filter(|it| matches!(it.kind, Kind::Notification { .. })).count();
    assert_eq!(told, 2, "once for what it was at, once for the end");
    invite(&mut stage, "m1", true).unwrap();
    assert!(spawns(&stage), "until somebody wants it again");
}

#[test]
fn t2_e8_a_stop_ends_it_and_only_its_session_brings_it_back() {
    let (mut stage, lead, own) = with_terminal();
    let one = accepted(stage.ask(lead, to("m1", "look")));
    let agent = stage.id("m1");
    stage.input(Input::InboxWritten { agent, messages: [one].to_vec() });
    let call = stage.send_call(USER, None, Request::AgentStop { agent: "s/m1".into() });
    assert!(matches!(orders(&stage, own)[..], [Order::Stop { .. }]));
    stage.exit("m1", None);
    assert!(matches!(stage.reply(USER, call), Some(Ok(Answer::Stopped { .. }))));
    assert!(!spawns(&stage));
    assert!(serves(&stage), "what stands in its inbox is taken out");
    assert_eq!(stage.message(one).state, State::Bounced);
    stage.ask(lead, to("m1", "again")).unwrap();
    assert!(spawns(&stage), "a message starts it");
    stage.connect("m1");
    stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
    stage.exit("m1", None);
    assert!(!spawns(&stage));
    stage.exit("lead", None);
    let (session, mode_variable) = ("s".into(), None);
    stage.user(Request::SessionResume { session, mode_variable }).unwrap();
    assert!(spawns(&stage), "with its session it comes back");
    assert_eq!(stage.agent("m1").life, Life::Up);
}

#[test]
fn t3_the_end_of_its_team_is_its_end() {
    let (mut stage, lead, own) = with_terminal();
    stage.send_call(lead, None, Request::TeamDelete { session: String::new() });
    assert!(matches!(orders(&stage, own)[..], [Order::Stop { .. }]));
    let denied = invite(&mut stage, "m2", false);
    assert!(denied.is_err(), "it takes no member any more: {denied:?}");
    stage.exit("m1", None);
    stage.input(Input::TeamRemoved { team: crate::name::Name::new("team").unwrap(), all: true });
    stage.ask(lead, to("m1", "late")).unwrap();
    assert!(!spawns(&stage));
}

#[test]
fn k4_whoever_looks_is_shown_the_screen_and_the_last_one_ends_it() {
    let (mut stage, lead, own) = with_terminal();
    let looks = |stage: &mut Stage, peer: PeerId, size| {
        stage.send_call(peer, None, screen(size));
        stage
            .step
            .effects
            .iter()
            .any(|it| matches!(it, Effect::ShowScreen { peer: p, .. } if *p == peer))
    };
    assert!(looks(&mut stage, USER, Some(SIZE)));
    let shown = Order::Screen { shown: true };
    let sized = Order::ScreenInput { size: Some(SIZE), bytes: Vec::new() };
    assert_eq!(orders(&stage, own), [sized, shown.clone()]);
    let other = PeerId(50);
    stage.input(Input::Connected {
        peer: other,
        credentials: None,
        lineage: crate::input::Lineage::default(),
    });
    assert!(looks(&mut stage, other, None));
    assert_eq!(orders(&stage, own), core::slice::from_ref(&shown), "the size stays");
    stage.input(Input::Disconnected { peer: other });
    assert_eq!(orders(&stage, own), []);
    // A process that comes back is told that somebody looks.
    stage.input(Input::Disconnected { peer: own });
    assert!(looks(&mut stage, USER, None), "it is on its way");
    let own = stage.connect("m1");
    assert_eq!(orders(&stage, own), [shown]);
    stage.input(Input::Disconnected { peer: USER });
    assert_eq!(orders(&stage, own), [Order::Screen { shown: false }]);
    assert_eq!(orders(&stage, lead), []);
}

/// K4: of two who look one may leave; it is the last one that ends it.
#[test]
fn k4_one_of_two_who_look_may_leave() {
    let (mut stage, _lead, own) = with_terminal();
    let other = PeerId(50);
    stage.input(Input::Connected {
        peer: other,
        credentials: None,
        lineage: crate::input::Lineage::default(),
    });
    for peer in [USER, other] {
        stage.send_call(peer, None, screen(None));
    }
    stage.input(Input::Disconnected { peer: other });
    assert_eq!(orders(&stage, own), []);
    stage.input(Input::Disconnected { peer: USER });
    assert_eq!(orders(&stage, own), [Order::Screen { shown: false }]);
}

#[test]
fn k4_nothing_is_shown_where_there_is_no_screen() {
    let (mut stage, lead, own) = with_terminal();
    let path = String::from("s/lead");
    let request = Request::Screen { agent: path.clone(), size: None };
    assert_eq!(stage.user(request), Err(Denial::NoScreen { path }));
    let forbidden = |it: Result<Answer, Denial>| matches!(it, Err(Denial::Forbidden { .. }));
    assert!(forbidden(stage.ask(lead, screen(None))));
    stage.ask(own, ended(3)).unwrap();
    stage.exit("m1", None);
    match stage.user(screen(None)) {
        Err(Denial::ScreenDark { path, why }) => {
            assert_eq!((path.as_str(), why.contains("status 3")), ("s/m1", true));
        }
        other => panic!("{other:?}"),
    }
    assert!(stage.ask(lead, to("m1", "x")).is_ok());
    for number in 0..limits::VIEWERS_MAX as u64 {
        let peer = PeerId(100 + number);
        stage.input(Input::Connected {
            peer,
            credentials: None,
            lineage: crate::input::Lineage::default(),
        });
        stage.send_call(peer, None, screen(None));
    }
    assert!(matches!(stage.user(screen(None)), Err(Denial::Full { .. })));
}

/// M-8: words of an agent never come as the user's, and keys even less.
#[test]
fn m8_the_user_types_in_order_and_nobody_else() {
    let (mut stage, lead, own) = with_terminal();
    stage.user(typed(b"a")).unwrap();
    let input = |bytes: &[u8]| Order::ScreenInput { size: None, bytes: bytes.to_vec() };
    assert_eq!(orders(&stage, own), [input(b"a")]);
    assert!(stage.step.records.is_empty(), "what is typed is not kept");
    for agent in [lead, own] {
        assert!(matches!(stage.ask(agent, typed(b"x")), Err(Denial::Forbidden { .. })));
        assert!(!stage.step.effects.iter().any(|it| matches!(it, Effect::Order { .. })));
    }
    let long = typed(&alloc::vec![b'x'; limits::SCREEN_INPUT_LEN_MAX + 1]);
    assert!(matches!(stage.user(long), Err(Denial::TooLarge { .. })));
    stage.input(Input::Disconnected { peer: own });
    assert!(matches!(stage.user(typed(b"b")), Err(Denial::ScreenDark { .. })));
    assert!(matches!(stage.ask(lead, ended(0)), Err(Denial::Forbidden { .. })));
}
