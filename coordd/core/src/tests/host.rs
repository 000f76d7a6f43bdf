//! Workers on another machine: two cores, and between them what their bridges carry.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use super::{Stage, completed, to, worker};
use crate::agent::{Agent, Class, LastRun, Life, Runtime, Status};
use crate::answer::{Answer, SendRow};
use crate::bridge::{Brought, Decision, Fate, PeerReport, Remote, Report};
use crate::denial::Denial;
use crate::far::{Told, Work};
use crate::id::{AgentId, MessageId, PeerId};
use crate::input::{Credentials, Lineage, Says};
use crate::message::{Kind as Said, Sender, State};
use crate::outgoing::{Kind, Outgoing};
use crate::request::{Address, Body, NewAgent, NewSession, Request};
use crate::role::Role;
use crate::settings::ApprovalMode;
use crate::sim::random::Random;
use crate::{Effect, Input};

const A: &str = "aaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbb";
const BRIDGE: PeerId = PeerId(77);

/// The lead's machine `a` with its lead's connection, and the other one, `b`.
struct Two {
    a: Stage,
    b: Stage,
    lead: PeerId,
}

fn meet(stage: &mut Stage, far: &str, name: &str, sessions: Vec<Remote>) {
    let token = "ff".to_string();
    stage.input(Input::BridgeStarting { incarnation: 1, token: token.clone() });
    let credentials = Credentials { agent: AgentId("bridge".into()), incarnation: 1, token };
    stage.input(Input::Connected {
        peer: BRIDGE,
        credentials: Some(credentials),
        lineage: Lineage::default(),
    });
    let peer = PeerReport {
        fingerprint: far.into(),
        name: name.into(),
        sessions,
        ..PeerReport::default()
    };
    let report = Report { peers: vec![peer], ..Report::default() };
    stage.ask(BRIDGE, Request::BridgeReport(report)).unwrap();
}

fn hosting(stage: &mut Stage) -> Result<Answer, Denial> {
    stage.user(Request::SessionNew(for_ay()))
}

fn for_ay() -> NewSession {
    NewSession {
        name: "dates".into(),
        cwd: "/src/dates".into(),
        model: Some(super::model()),
        mode: Some("coordinator".into()).filter(|_| cfg!(feature = "coordinator")),
        host_for: "ay".into(),
        workers: 20,
        ..NewSession::default()
    }
}

impl Two {
    fn new() -> Self {
        let (mut a, mut b) = (Stage::with_session(), Stage::new());
        // Not the same ids on both.
        b.turns = 100;
        for stage in [&mut a, &mut b] {
            stage.user(Request::BridgeSet { on: true }).unwrap();
        }
        meet(&mut b, A, "ay", Vec::new());
        hosting(&mut b).unwrap();
        meet(&mut a, B, "bee", vec![remote(&b, "dates")]);
        let allow = Request::BridgeAllow {
            session: "s".into(),
            peer: "bee".into(),
            inbound: false,
            outbound: true,
        };
        a.user(allow).unwrap();
        let lead = a.lead();
        Self { a, b, lead }
    }

    fn spawn(&mut self, name: &str) -> Result<Answer, Denial> {
        let new = NewAgent { host: "bee".into(), ..worker(name) };
        self.a.ask(self.lead, Request::AgentSpawn(new))
    }

    /// Carries what is open until nothing is, in order. Each row is brought twice, as after a crash between the two.
    fn carry(&mut self) {
        for _ in 0..20 {
            let moved = carry(&mut self.a, A, &mut self.b) | carry(&mut self.b, B, &mut self.a);
            if !moved {
                return;
            }
        }
        panic!("it does not end");
    }

    /// The guest's process is there, and reads.
    fn begin(&mut self, name: &str) -> PeerId {
        let peer = self.b.connect(name);
        self.b.read(peer, name);
        self.carry();
        peer
    }

    fn end(&mut self, peer: PeerId, name: &str) {
        let run = self.b.agent(name).runs + 1;
        self.b.ask(peer, Request::RunEnded { run, outcome: completed() }).unwrap();
        self.b.exit(name, None);
        self.carry();
    }

    /// What the lead was told of how runs ended: status and result.
    fn told(&self) -> Vec<(Status, String)> {
        let lead = self.a.id("lead");
        let messages = self.a.core.durable.messages.values().filter(|it| it.to == lead);
        let ends = messages.filter_map(|it| match &it.kind {
            Said::Notification { outcome, .. } => Some((outcome.status, it.text.clone())),
            _ => None,
        });
        ends.collect()
    }
}

fn remote(stage: &Stage, session: &str) -> Remote {
    let it = stage.of(session);
    Remote {
        session: it.id.to_string(),
        name: it.name.to_string(),
        cwd: it.cwd.clone(),
        hosts: true,
        ..Remote::default()
    }
}

fn open(stage: &Stage) -> Vec<Outgoing> {
    stage.core.durable.outbox.carried().cloned().collect()
}

fn brought(stage: &Stage, own: &str, it: &Outgoing) -> Brought {
    let says = match &it.kind {
        Kind::Work { agent, message } => {
            let (agent, message) = (&stage.core.durable.agents[agent], stage.message(*message));
            Says::Host(Told::Work(alloc::boxed::Box::new(Work {
                agent: agent.id.to_string(),
                name: agent.name.to_string(),
                description: agent.description.clone(),
                phase: agent.phase.clone(),
                runtime: agent.far_runtime,
                is_task: message.kind == Said::Prompt,
                text: message.text.clone(),
                summary: message.summary.clone(),
            })))
        }
        Kind::Stop { agent } => {
            Says::Host(Told::Stop { agent: agent.to_string(), by: it.text.clone() })
        }
        Kind::Ended { agent, outcome, had_nothing } => {
            let mut outcome = outcome.clone();
            outcome.result.clone_from(&it.text);
            Says::Host(Told::Ended { agent: agent.clone(), outcome, had_nothing: *had_nothing })
        }
        Kind::Status { of, verdict } => {
            Says::Status { of: of.clone(), verdict: *verdict, reason: it.text.clone() }
        }
        other => panic!("{other:?}"),
    };
    Brought {
        peer: own.into(),
        peer_name: if own == A { "ay".into() } else { "bee".into() },
        to: it.to.to_string().rsplit('/').next().unwrap().into(),
        from: it.session.as_ref().map(alloc::string::ToString::to_string).unwrap_or_default(),
        name: "x".into(),
        bypasses: false,
        message: it.wire_id.clone(),
        says,
    }
}

fn decide(stage: &mut Stage, it: Brought) -> Decision {
    match stage.ask(BRIDGE, Request::BridgeBring(it)) {
        Ok(Answer::Brought(decision)) => decision,
        other => panic!("{other:?}"),
    }
}

fn carry(from: &mut Stage, own: &str, to: &mut Stage) -> bool {
    let Some(it) = open(from).into_iter().next() else { return false };
    let row = brought(from, own, &it);
    let first = decide(to, row.clone());
    assert_eq!(decide(to, row), first, "a second time");
    let fate = match first {
        Decision::Taken => Fate::Taken,
        Decision::Refused(why) => Fate::Refused(why),
        Decision::Later => return false,
    };
    from.ask(BRIDGE, Request::BridgeTold { id: it.id, fate }).unwrap();
    true
}

fn message_of(stage: &Stage, name: &str) -> MessageId {
    *stage.agent(name).mailbox.back().unwrap()
}

/// C-7: a worker on another machine is told of like any other, and each of its runs once.
#[test]
fn c7_a_worker_runs_there_and_is_told_of_here() {
    let mut two = Two::new();
    let Ok(Answer::Spawned { .. }) = two.spawn("w") else { panic!() };
    let it = two.a.agent("w");
    assert_eq!((it.runtime, &it.life), (Runtime::Bridged, &Life::Down));
    assert!(it.is_active() && it.owes_outcome());
    let task = message_of(&two.a, "w");
    two.carry();
    assert_eq!(two.a.message(task).state, State::Delivered);
    let guest = two.b.agent("w");
    assert_eq!((guest.runtime, &guest.life, guest.mailbox.len()), (Runtime::Native, &Life::Up, 1));
    assert_eq!(two.b.message(guest.mailbox[0]).kind, Said::Prompt);
    assert_eq!(guest.far_lead().unwrap().agent, two.a.id("w").to_string());
    assert!(!two.a.agent("w").run_is_open());
    let peer = two.begin("w");
    assert_eq!(two.a.message(task).state, State::Consumed);
    assert!(two.a.agent("w").run_is_open());
    two.end(peer, "w");
    assert_eq!(two.told(), [(Status::Completed, "all done".to_string())]);
    let it = two.a.agent("w");
    assert_eq!((it.runs, it.usage.input_tokens, it.is_active()), (1, 5_000, false));
    let lead = two.b.of("dates").lead.clone();
    assert!(two.b.core.durable.agents[&lead].mailbox.is_empty(), "nobody there is notified");
    assert!(open(&two.a).is_empty() && open(&two.b).is_empty());
}

/// W-2, M-3: it goes on with what its lead says, in the same conversation there.
#[test]
fn c7_it_is_continued_by_a_message() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    let peer = two.begin("w");
    two.end(peer, "w");
    two.a.ask(two.lead, to("w", "and now the rest")).unwrap();
    two.carry();
    assert_eq!(two.b.core.durable.agents.len(), 2, "the lead and one guest");
    let mail = two.b.agent("w").mailbox.clone();
    assert_eq!(two.b.message(mail[0]).kind, Said::Text);
    assert!(matches!(two.b.message(mail[0]).from, Sender::Outside(_)));
    let peer = two.begin("w");
    two.end(peer, "w");
    assert_eq!(two.told().len(), 2);
    assert_eq!((two.a.agent("w").runs, two.a.agent("w").usage.input_tokens), (2, 10_000));
}

/// W-6: stopped from here, in the middle, before it has begun, and when it has nothing to do.
#[test]
fn c7_w6_a_stop_goes_there_and_the_end_comes_back() {
    for begun in [true, false] {
        let mut two = Two::new();
        two.spawn("w").unwrap();
        two.carry();
        if begun {
            two.begin("w");
        }
        let stop = Request::AgentStop { agent: "w".into() };
        for _ in 0..2 {
            let stopped = two.a.ask(two.lead, stop.clone()).unwrap();
            assert_eq!(stopped, Answer::StopAsked { agent: "w".into() });
        }
        assert_eq!(open(&two.a).len(), 1, "asked for once");
        two.carry();
        assert!(matches!(two.b.agent("w").life, Life::Stopping { .. }));
        two.b.exit("w", None);
        two.carry();
        let told = two.told();
        assert_eq!((told.len(), told[0].0), (1, Status::Killed), "begun: {begun}");
        assert!(two.a.agent("w").last.as_ref().unwrap().outcome.reason.contains("lead on ay"));
        assert!(!two.a.agent("w").is_active() && two.a.agent("w").mailbox.is_empty());
        let nothing = two.a.ask(two.lead, stop).unwrap();
        assert_eq!(nothing, Answer::Stopped { agents: Vec::new(), bounced: 0 });
    }
}

/// M-8: off unless both users have allowed it, and each is told what to do.
#[test]
fn c7_m8_nothing_runs_there_unless_its_user_said_so() {
    let mut two = Two::new();
    let to_host = |host: &str| Request::AgentSpawn(NewAgent { host: host.into(), ..worker("w") });
    let denied = two.a.ask(two.lead, to_host("nobody")).unwrap_err();
    let known = vec!["bee/dates".to_string()];
    assert_eq!(denied, Denial::NoSuchHost { given: "nobody".into(), known });
    let deny = |session: &str, peer: &str| Request::BridgeAllow {
        session: session.into(),
        peer: peer.into(),
        inbound: false,
        outbound: false,
    };
    // The lead's user has taken it back.
    two.a.user(deny("s", "bee")).unwrap();
    assert!(matches!(two.spawn("w"), Err(Denial::NotBridged { .. })));
    let allow = Request::BridgeAllow {
        session: "s".into(),
        peer: "bee".into(),
        inbound: false,
        outbound: true,
    };
    two.a.user(allow).unwrap();
    // The other one has.
    two.b.user(deny("dates", "ay")).unwrap();
    two.spawn("w").unwrap();
    two.carry();
    assert_eq!(two.b.core.durable.agents.len(), 1, "its lead alone");
    let last = two.a.agent("w").last.clone().unwrap().outcome;
    assert_eq!((last.status, last.class), (Status::Failed, Some(Class::Adjust)));
    assert!(last.reason.contains("--host-for"), "{}", last.reason);
    assert_eq!(two.told().len(), 1);
    assert!(two.a.agent("w").mailbox.is_empty());
}

/// Another daemon has no part in it: not by work, not by a stop, not by the end of a run.
/// D-5: what is denied after it was begun leaves nothing behind: here the worker is made before its task turns out too long to travel.
#[test]
fn c7_d5_a_denied_worker_leaves_nothing_behind() {
    let mut two = Two::new();
    let before = two.a.core.durable.agents.len();
    let prompt = "\u{1}".repeat(200 * 1024);
    let new = NewAgent { host: "bee".into(), prompt, ..worker("w") };
    let denied = two.a.ask(two.lead, Request::AgentSpawn(new)).unwrap_err();
    assert!(matches!(denied, Denial::TooLarge { .. }), "{denied:?}");
    assert_eq!(two.a.core.durable.agents.len(), before);
    assert!(two.a.core.durable.messages.values().all(|it| it.text.len() < 1_000));
    two.spawn("w").unwrap();
}

/// FP-15: workers of another machine run in the box, and nobody is asked: no choice of either user opens more.
#[test]
fn c7_fp15_what_another_machine_starts_runs_boxed_and_asks_nobody() {
    let mut two = Two::new();
    let refused = |stage: &mut Stage, change: &dyn Fn(&mut NewSession)| {
        let mut new = NewSession { name: "more".into(), ..for_ay() };
        change(&mut new);
        match stage.user(Request::SessionNew(new)) {
            Err(Denial::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    let b = &mut two.b;
    assert_eq!(refused(b, &|it| it.runtime = Runtime::Claude), "runtime");
    for mode in ApprovalMode::ALL {
        if !matches!(mode, ApprovalMode::Unsaid | ApprovalMode::DontAsk) {
            assert_eq!(refused(b, &|it| it.permissions.mode = mode), "permissions.mode");
        }
    }
    assert_eq!(refused(b, &|it| it.permissions.sandbox.off = true), "permissions.sandbox");
    let docker = vec!["docker *".to_string()];
    let outside = |it: &mut NewSession| it.permissions.sandbox.outside.clone_from(&docker);
    assert_eq!(refused(b, &outside), "permissions.sandbox");
    // Nor does the other machine choose what drives its workers.
    let claude = NewAgent { host: "bee".into(), runtime: Some(Runtime::Claude), ..worker("c") };
    two.a.ask(two.lead, Request::AgentSpawn(claude)).unwrap();
    two.carry();
    assert!(two.b.core.durable.agents.values().all(|it| !it.name.is("c")));
    let (status, why) = two.told().pop().unwrap();
    assert!(status == Status::Failed && why.is_empty(), "{status:?} {why}");
}

#[test]
fn c7_m8_who_is_not_the_other_end_changes_nothing() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    // Its words may be heard there: that is something else than to work there.
    let allow = Request::BridgeAllow {
        session: "dates".into(),
        peer: "cccccccccccccccc".into(),
        inbound: true,
        outbound: true,
    };
    two.b.user(allow).unwrap();
    let work = brought(&two.a, "cccccccccccccccc", &open(&two.a)[0]);
    assert!(matches!(decide(&mut two.b, work), Decision::Refused(_)));
    assert_eq!(two.b.core.durable.agents.len(), 1);
    two.carry();
    let peer = two.begin("w");
    two.a.ask(two.lead, Request::AgentStop { agent: "w".into() }).unwrap();
    let stop = brought(&two.a, "cccccccccccccccc", &open(&two.a)[0]);
    assert!(matches!(decide(&mut two.b, stop), Decision::Refused(_)));
    assert_eq!(two.b.agent("w").life, Life::Up);
    two.b.ask(peer, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let end = brought(&two.b, "cccccccccccccccc", &open(&two.b)[0]);
    assert_eq!(decide(&mut two.a, end), Decision::Taken);
    assert!(two.told().is_empty());
}

/// M-8: what was taken back holds for the workers that are there already.
#[test]
fn c7_m8_a_worker_there_hears_nothing_any_more_once_that_is_taken_back() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    let allow = Request::BridgeAllow {
        session: "s".into(),
        peer: "bee".into(),
        inbound: true,
        outbound: false,
    };
    two.a.user(allow).unwrap();
    let denied = two.a.ask(two.lead, to("w", "more")).unwrap_err();
    assert!(matches!(denied, Denial::NotBridged { .. }));
    let prompt = Request::Prompt { session: "s".into(), agent: Some("w".into()), text: "x".into() };
    assert!(matches!(two.a.user(prompt), Err(Denial::NotBridged { .. })));
    // M-5: of many, it alone does not get it, and for the reason that is true.
    let all = Request::Send {
        session: String::new(),
        to: Address::Everyone,
        body: Body::Text { text: "hear".into() },
        summary: String::new(),
        notify_when_idle: false,
    };
    let Ok(Answer::Sent(rows)) = two.a.ask(two.lead, all) else { panic!() };
    let refused = |it: &SendRow| matches!(it, SendRow::Refused { reason, .. } if reason.contains("another machine"));
    assert!(rows.len() == 1 && refused(&rows[0]), "{rows:?}");
    // It can still be stopped.
    two.a.ask(two.lead, Request::AgentStop { agent: "w".into() }).unwrap();
    assert_eq!(open(&two.a).len(), 1);
}

/// D-6: a process that died after its run and before it could say what it had read says it late. That opens nothing here.
#[test]
fn c7_d6_what_is_acknowledged_after_the_end_opens_no_run() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    two.b.connect("w");
    two.b.exit("w", Some((1, completed())));
    two.carry();
    assert_eq!(two.told().len(), 1);
    let peer = two.b.connect("w");
    let messages = two.b.agent("w").mailbox.iter().copied().collect();
    two.b.ask(peer, Request::Acknowledge { messages, run: 1 }).unwrap();
    two.carry();
    let it = two.a.agent("w");
    assert!(!it.run_is_open() && !it.is_active() && it.mailbox.is_empty());
    assert_eq!(two.told().len(), 1);
}

/// N-4: what waited for a machine and expires at once is one end, and a stop that nobody took leaves nothing open.
#[test]
fn c7_n4_all_that_waited_expires_as_one_end() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.a.ask(two.lead, Request::AgentStop { agent: "w".into() }).unwrap();
    two.a.wall_ms += 10 * 24 * 60 * 60 * 1_000;
    two.a.mono_ms += 10 * 24 * 60 * 60 * 1_000;
    two.a.input(Input::Tick);
    // A clock that has jumped is not believed at first.
    two.a.wall_ms += 60 * 60 * 1_000;
    two.a.mono_ms += 60 * 60 * 1_000;
    two.a.input(Input::Tick);
    assert!(open(&two.a).is_empty());
    assert_eq!((two.told().len(), two.a.agent("w").runs), (1, 1));
    assert!(!two.a.agent("w").is_active());
}

/// W-6: a stop counts for what was said before it.
#[test]
fn c7_w6_a_worker_that_was_spoken_to_after_a_stop_is_stopped_again() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    two.begin("w");
    let stop = Request::AgentStop { agent: "w".into() };
    two.a.ask(two.lead, stop.clone()).unwrap();
    two.a.ask(two.lead, to("w", "no, go on")).unwrap();
    two.a.ask(two.lead, stop.clone()).unwrap();
    two.a.ask(two.lead, stop).unwrap();
    let kinds: Vec<_> =
        open(&two.a).iter().map(|it| matches!(it.kind, Kind::Stop { .. })).collect();
    assert_eq!(kinds, [true, false, true]);
}

/// A stop that the machine refuses, since it knows no such worker, leaves nothing open here.
#[test]
fn c7_w6_a_stop_of_who_is_gone_there_gives_its_mail_back() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    two.begin("w");
    two.a.ask(two.lead, to("w", "more")).unwrap();
    two.carry();
    two.a.ask(two.lead, Request::AgentStop { agent: "w".into() }).unwrap();
    let id = open(&two.a)[0].id;
    let fate = Fate::Refused("there is no such worker".into());
    two.a.ask(BRIDGE, Request::BridgeTold { id, fate }).unwrap();
    let it = two.a.agent("w");
    assert!(!it.is_active() && it.mailbox.is_empty());
    assert_eq!(two.told().len(), 1);
}

/// A stop of an idle worker is answered as such, and nobody is notified.
#[test]
fn c7_w6_a_stop_of_who_has_nothing_to_do_is_no_news() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    let peer = two.begin("w");
    two.b.ask(peer, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    two.b.exit("w", None);
    // The stop and the end pass each other.
    two.a.ask(two.lead, Request::AgentStop { agent: "w".into() }).unwrap();
    two.carry();
    assert_eq!(two.told(), [(Status::Completed, "all done".to_string())]);
    assert!(open(&two.a).is_empty() && open(&two.b).is_empty());
}

/// A daemon that tells of ends which nobody asked for fills no mailbox.
#[test]
fn c7_ends_that_nobody_asked_for_are_bounded() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    let peer = two.begin("w");
    two.b.ask(peer, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    let end = open(&two.b).into_iter().find(|it| matches!(it.kind, Kind::Ended { .. })).unwrap();
    let mut end = brought(&two.b, B, &end);
    let mut taken = 0;
    for at in 0..crate::limits::MAILBOX_LEN_MAX + 50 {
        end.message = format!("again-{at}");
        match decide(&mut two.a, end.clone()) {
            Decision::Taken => taken += 1,
            Decision::Later => break,
            Decision::Refused(why) => panic!("{why}"),
        }
    }
    assert!(taken <= crate::limits::MAILBOX_LEN_MAX, "without bound");
}

/// The user there is master there: a stopped session refuses, and its runs are told as stopped.
#[test]
fn c7_the_user_there_may_stop_it() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    two.begin("w");
    let call = two.b.send_call(super::USER, None, Request::SessionStop { session: "dates".into() });
    two.b.exit("w", None);
    assert!(two.b.reply(super::USER, call).is_some());
    two.carry();
    assert_eq!(two.told()[0].0, Status::Killed);
    two.spawn("x").unwrap();
    two.carry();
    assert!(two.a.agent("x").last.as_ref().unwrap().outcome.reason.contains("stopped there"));
    let resume = Request::SessionResume { session: "dates".into(), mode_variable: None };
    two.b.user(resume).unwrap();
    two.spawn("y").unwrap();
    two.carry();
    assert_eq!(two.b.agent("y").life, Life::Up);
}

/// Removed there before it has begun, or in the middle: it is told all the same, and once.
#[test]
fn c7_a_session_that_is_removed_there_leaves_no_run_open() {
    for begun in [true, false] {
        let mut two = Two::new();
        two.spawn("w").unwrap();
        two.carry();
        if begun {
            two.begin("w");
        }
        let remove = Request::SessionRemove { session: "dates".into(), force: true };
        two.b.send_call(super::USER, None, remove);
        two.b.exit("w", None);
        assert!(two.b.core.durable.sessions.is_empty());
        two.carry();
        assert_eq!((two.told().len(), two.told()[0].0), (1, Status::Killed), "begun: {begun}");
        assert!(!two.a.agent("w").is_active());
    }
}

/// A session for workers has no conversation: neither its user nor anybody else writes to it.
#[test]
fn c7_nobody_reads_in_a_session_for_workers() {
    let mut two = Two::new();
    let prompt = Request::Prompt { session: "dates".into(), agent: None, text: "hi".into() };
    assert!(matches!(two.b.user(prompt), Err(Denial::IsHost { .. })));
    let words = Brought {
        peer: A.into(),
        peer_name: "ay".into(),
        to: two.b.of("dates").id.to_string(),
        from: "s".into(),
        name: "s".into(),
        bypasses: false,
        message: "m".into(),
        says: Says::Words { text: "hi".into(), summary: String::new() },
    };
    assert!(matches!(decide(&mut two.b, words), Decision::Refused(_)));
    two.spawn("w").unwrap();
    two.carry();
    assert!(two.b.step.effects.iter().all(|it| !matches!(it, Effect::ServeInboxes { .. })));
    let lead = two.b.of("dates").lead.clone();
    assert_eq!(two.b.core.durable.agents[&lead].life, Life::Down);
}

/// D-6: whichever daemon dies, and whenever, the run goes on and is told once.
#[test]
fn c7_d6_either_daemon_may_die_at_any_point() {
    for dies in 0..10 {
        let mut two = Two::new();
        let mut at = 0;
        let mut step = |two: &mut Two| {
            if at == dies {
                two.b.restart();
                meet(&mut two.b, A, "ay", Vec::new());
            } else if at + 5 == dies {
                two.a.restart();
                meet(&mut two.a, B, "bee", vec![remote(&two.b, "dates")]);
                two.lead = two.a.connect("lead");
            }
            at += 1;
        };
        two.spawn("w").unwrap();
        step(&mut two);
        two.carry();
        step(&mut two);
        let peer = two.b.connect("w");
        two.b.read(peer, "w");
        step(&mut two);
        two.carry();
        step(&mut two);
        let peer = two.b.connect("w");
        two.b.ask(peer, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
        step(&mut two);
        two.carry();
        assert_eq!(two.told(), [(Status::Completed, "all done".to_string())], "{dies}");
    }
}

/// The machine is away for too long: what was not read goes back, and what was to be stopped counts as stopped, with a word.
#[test]
fn c7_what_a_machine_never_fetches_is_told() {
    let mut two = Two::new();
    two.spawn("w").unwrap();
    let id = open(&two.a)[0].id;
    two.a.ask(BRIDGE, Request::BridgeTold { id, fate: Fate::Expired }).unwrap();
    assert_eq!((two.told().len(), two.told()[0].0), (1, Status::Failed));
    let mut two = Two::new();
    two.spawn("w").unwrap();
    two.carry();
    let peer = two.begin("w");
    two.a.ask(two.lead, Request::AgentStop { agent: "w".into() }).unwrap();
    let id = open(&two.a)[0].id;
    two.a.ask(BRIDGE, Request::BridgeTold { id, fate: Fate::Expired }).unwrap();
    assert_eq!((two.told().len(), two.told()[0].0), (1, Status::Killed));
    let reason = &two.a.agent("w").last.as_ref().unwrap().outcome.reason;
    assert!(reason.contains("may still be at work"), "{reason}");
    // It was, and its work is not lost.
    two.end(peer, "w");
    assert_eq!(two.told().len(), 2);
    assert_eq!(two.told()[1], (Status::Completed, "all done".to_string()));
}

/// Which place is meant.
#[test]
fn c7_a_host_is_named_by_its_machine_or_by_machine_and_session() {
    let mut two = Two::new();
    let mut second = remote(&two.b, "dates");
    (second.session, second.name, second.cwd) = ("other".into(), "tools".into(), "/x/here".into());
    let mut closed = second.clone();
    (closed.name, closed.session, closed.hosts) = ("talk".into(), "talk".into(), false);
    let both = vec![remote(&two.b, "dates"), second, closed];
    meet(&mut two.a, B, "bee", both);
    let cases = [
        ("bee", Some("other")),
        ("bee/tools", Some("other")),
        ("bee/dates", Some("")),
        ("bee/other", Some("other")),
        (B, Some("other")),
        ("bee/talk", None),
        ("bee/nothing", None),
        ("", Some("local")),
    ];
    for (at, (host, want)) in cases.into_iter().enumerate() {
        let name = format!("w{at}");
        let new = NewAgent { host: host.into(), ..worker(&name) };
        let spawned = two.a.ask(two.lead, Request::AgentSpawn(new));
        let found = spawned.ok().map(|_| two.a.agent(&name).far.clone());
        match (found, want) {
            (None, None) | (Some(None), Some("local")) => {}
            (Some(Some(far)), Some("")) => assert_eq!(far.session, two.b.of("dates").id.0),
            (Some(Some(far)), Some(want)) => assert_eq!(far.session, want, "{host}"),
            other => panic!("{host}: {other:?}"),
        }
    }
}

/// What a step of a random story does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Spawn,
    Say(usize),
    Stop(usize),
    Begin(usize),
    End(usize),
    Crash(usize),
    RestartA,
    RestartB,
    Carry,
    Return,
    /// A row is brought and decided, and the word about it is lost.
    Forget,
}

/// One of them, the usual ones more often.
fn act(random: &mut Random) -> Act {
    let worker = random.below(4);
    let all = [
        (2, Act::Spawn),
        (3, Act::Say(worker)),
        (1, Act::Stop(worker)),
        (4, Act::Begin(worker)),
        (4, Act::End(worker)),
        (1, Act::Crash(worker)),
        (1, Act::RestartA),
        (1, Act::RestartB),
        (6, Act::Carry),
        (6, Act::Return),
        (2, Act::Forget),
    ];
    let mut at = random.below(all.iter().map(|it| it.0).sum());
    let found = all.into_iter().find(|(weight, _)| {
        let is_it = at < *weight;
        at = at.saturating_sub(*weight);
        is_it
    });
    found.unwrap().1
}

impl Two {
    fn guest(&self, name: &str) -> Option<&Agent> {
        self.b.core.durable.agents.values().find(|it| it.name.as_str() == name)
    }

    /// The guest's process, if there is one that has not ended, says hello and does this.
    fn as_guest(&mut self, name: &str, act: impl FnOnce(&mut Stage, PeerId)) {
        if self.guest(name).is_some_and(|it| it.life == Life::Up) {
            let peer = self.b.connect(name);
            act(&mut self.b, peer);
        }
    }

    fn end_now(&mut self, name: &str) {
        if self.guest(name).is_some_and(Agent::run_is_open) {
            self.as_guest(name, |b, peer| {
                let run = b.agent(name).runs + 1;
                b.ask(peer, Request::RunEnded { run, outcome: completed() }).unwrap();
            });
        }
        if self.guest(name).is_some_and(|it| !it.run_is_open() && it.has_process()) {
            self.b.exit(name, None);
        }
    }

    fn begin_now(&mut self, name: &str) {
        self.as_guest(name, |b, peer| b.read(peer, name));
    }

    fn play(&mut self, act: Act) {
        let name = |it: usize| format!("w{it}");
        match act {
            Act::Spawn => {
                let fresh = (0..4).map(name).find(|it| {
                    !self.a.core.durable.agents.values().any(|agent| agent.name.as_str() == it)
                });
                if let Some(name) = fresh {
                    self.spawn(&name).unwrap();
                }
            }
            Act::Say(it) => drop(self.a.ask(self.lead, to(&name(it), "more"))),
            Act::Stop(it) => drop(self.a.ask(self.lead, Request::AgentStop { agent: name(it) })),
            Act::Begin(it) => self.begin_now(&name(it)),
            Act::End(it) => self.end_now(&name(it)),
            Act::Crash(it) => {
                if self.guest(&name(it)).is_some_and(Agent::has_process) {
                    self.b.exit(&name(it), None);
                }
            }
            Act::RestartA => {
                self.a.restart();
                meet(&mut self.a, B, "bee", vec![remote(&self.b, "dates")]);
                self.lead = self.a.connect("lead");
            }
            Act::RestartB => {
                self.b.restart();
                meet(&mut self.b, A, "ay", Vec::new());
            }
            Act::Carry => drop(carry(&mut self.a, A, &mut self.b)),
            Act::Return => drop(carry(&mut self.b, B, &mut self.a)),
            Act::Forget => {
                if let Some(it) = open(&self.a).first() {
                    let row = brought(&self.a, A, it);
                    decide(&mut self.b, row);
                }
                if let Some(it) = open(&self.b).first() {
                    let row = brought(&self.b, B, it);
                    decide(&mut self.a, row);
                }
            }
        }
    }

    /// Everything that was begun comes to its end.
    fn rest(&mut self) {
        for _ in 0..40 {
            self.carry();
            for it in 0..4 {
                self.begin_now(&format!("w{it}"));
                self.end_now(&format!("w{it}"));
                if self
                    .guest(&format!("w{it}"))
                    .is_some_and(|it| matches!(it.life, Life::Stopping { .. }))
                {
                    self.b.exit(&format!("w{it}"), None);
                }
            }
            let busy = |stage: &Stage| {
                stage
                    .core
                    .durable
                    .agents
                    .values()
                    .any(|it| it.role == Role::Worker && it.is_active())
            };
            if !busy(&self.b) && open(&self.a).is_empty() && open(&self.b).is_empty() {
                return;
            }
        }
        panic!("it does not come to rest");
    }
}

/// N-4, D-6: whatever happens in whatever order, each run that ends there is told here once, and nothing stays open.
#[test]
fn c7_n4_each_end_there_is_told_here_once() {
    let (mut ended, mut killed) = (0, 0);
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let mut two = Two::new();
        let acts: Vec<_> = (0..random.below(100)).map(|_| act(&mut random)).collect();
        for act in &acts {
            two.play(*act);
        }
        two.rest();
        let durable = &two.a.core.durable;
        for there in two.b.core.durable.agents.values() {
            let Some(far) = there.far_lead() else { continue };
            let here = &durable.agents[&AgentId(far.agent.clone())];
            let told = durable.messages.values().filter(
                |it| matches!(&it.kind, Said::Notification { agent, .. } if *agent == here.id),
            );
            let (told, runs) = (told.count(), usize::try_from(there.runs).unwrap());
            assert_eq!(
                (here.runs, told),
                (there.runs, runs),
                "seed {seed}, {}: {acts:?}",
                here.name
            );
            assert_eq!(here.usage, there.usage, "seed {seed}");
            ended += told;
            let is_killed = |it: &LastRun| it.outcome.status == Status::Killed;
            killed += usize::from(here.last.as_ref().is_some_and(is_killed));
        }
        for it in durable.agents.values().filter(|it| it.role == Role::Worker) {
            assert!(!it.is_active() && it.mailbox.is_empty(), "seed {seed}, {}: {acts:?}", it.name);
        }
    }
    assert!(ended > 500 && killed > 20, "too little happened: {ended}, {killed}");
}
