//! The journal's format stays readable (level 5): lines as they were written by version 1 still parse, mean the same, and
//! are written the same. The file may only grow.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use alloc::{boxed::Box, vec};

use crate::agent::{
    Agent, Class, Ended, LastRun, Life, Outcome, Process, Pty, Runtime, Status, Usage,
};
use crate::answer::SendRow;
use crate::bridge::{Allowed, Wish};
use crate::far::Far;
use crate::id::{AgentId, MessageId, PermissionId, SessionId};
use crate::message::{Kind, Message, Outside, Sender, State};
use crate::mode::Mode;
use crate::name::Name;
use crate::outgoing::{self, Outgoing};
use crate::permission::{Answer, By, Permission, Question};
use crate::record::Keyed;
use crate::role::Role;
use crate::session::{Inbound, Session, SessionState};
use crate::task::{Task, TaskStatus};
use crate::team::Team;
use crate::{Durable, Record};

/// One line for each variant at least, in an order that can be applied.
const JOURNAL: &str = include_str!("../../tests-data/journal-v1.jsonl");

/// Lines without the fields that have a default: what an earlier build would have left out.
const SPARSE: &str = include_str!("../../tests-data/journal-v1-sparse.jsonl");

fn parsed(text: &str) -> Vec<Record> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn applied(records: &[Record]) -> Durable {
    let mut durable = Durable::default();
    for record in records {
        durable.apply(record);
    }
    durable
}

/// The variant's name in the journal. A new variant does not compile without a name here, and does not pass without a line.
fn tag(record: &Record) -> &'static str {
    match record {
        Record::Counters { .. } => "counters",
        Record::SessionPut { .. } => "session_put",
        Record::SessionState { .. } => "session_state",
        Record::ScratchpadReady { .. } => "scratchpad_ready",
        Record::RuleLearned { .. } => "rule_learned",
        Record::OutputGiven { .. } => "output_given",
        Record::SessionRemoved { .. } => "session_removed",
        Record::AgentPut { .. } => "agent_put",
        Record::AgentWaiting { .. } => "agent_waiting",
        Record::AgentDown { .. } => "agent_down",
        Record::AgentParked { .. } => "agent_parked",
        Record::AgentStarted { .. } => "agent_started",
        Record::AgentSpawned { .. } => "agent_spawned",
        Record::AgentStopping { .. } => "agent_stopping",
        Record::AgentExited { .. } => "agent_exited",
        Record::TerminalSeen { .. } => "terminal_seen",
        Record::PtySet { .. } => "pty_set",
        Record::RunEnded { .. } => "run_ended",
        Record::MessagePut { .. } => "message_put",
        Record::MessageDelivered { .. } => "message_delivered",
        Record::MessagesConsumed { .. } => "messages_consumed",
        Record::MessageBounced { .. } => "message_bounced",
        Record::RequestAnswered { .. } => "request_answered",
        Record::PermissionPut { .. } => "permission_put",
        Record::PermissionAnswered { .. } => "permission_answered",
        Record::TeamPut { .. } => "team_put",
        Record::TeamEdited { .. } => "team_edited",
        Record::TeamDeleting { .. } => "team_deleting",
        Record::TeamDeleted { .. } => "team_deleted",
        Record::TaskPut { .. } => "task_put",
        Record::Keyed { .. } => "keyed",
        Record::Forgotten { .. } => "forgotten",
        Record::InboundSet { .. } => "inbound_set",
        Record::WatcherPut { .. } => "watcher_put",
        Record::WatchersTold { .. } => "watchers_told",
        Record::MessageExpired { .. } => "message_expired",
        Record::MessageLetIn { .. } => "message_let_in",
        Record::OutgoingPut { .. } => "outgoing_put",
        Record::OutgoingMoved { .. } => "outgoing_moved",
        Record::BridgeSet { .. } => "bridge_set",
        Record::BridgeAllowed { .. } => "bridge_allowed",
    }
}

const TAGS: usize = 41;

#[test]
fn d24_every_kind_of_line_is_read_and_written_as_in_version_1() {
    let records = parsed(JOURNAL);
    let tags: BTreeSet<_> = records.iter().map(tag).collect();
    assert_eq!(tags.len(), TAGS, "{tags:?}");
    for (line, record) in JOURNAL.lines().zip(&records) {
        assert_eq!(serde_json::to_string(record).unwrap(), line);
        assert!(line.starts_with(&alloc::format!("{{\"{}\":", tag(record))), "{line}");
    }
    // Every word of the enums inside is there too.
    for word in [
        "coordinator",
        "fork",
        "normal",
        "lead",
        "worker",
        "claude",
        "external",
        "peer",
        "live",
        "stopped",
        "down",
        "waiting",
        "up",
        "stopping",
        "completed",
        "failed",
        "killed",
        "retryable",
        "adjust",
        "fatal",
        "user",
        "agent",
        "system",
        "prompt",
        "text",
        "shutdown_request",
        "shutdown_response",
        "plan_approval_request",
        "plan_approval_response",
        "task_assignment",
        "terminal",
        "notification",
        "accepted",
        "delivered",
        "consumed",
        "bounced",
        "pending",
        "in_progress",
        "session",
        "sent",
        "permission",
        "team",
        "task",
        "refused",
        "outside",
        "held",
        "expired",
        "accept",
        "hold",
        "refuse",
        "words",
        "status",
        "idle",
        "outgoing",
        "bridged",
        "work",
        "stop",
        "ended",
    ] {
        assert!(JOURNAL.contains(&alloc::format!("\"{word}\"")), "no line has {word}");
    }
}

#[test]
fn d24_the_lines_of_version_1_mean_what_they_meant() {
    let durable = applied(&parsed(JOURNAL));
    let session = &durable.sessions[&session_id()];
    assert_eq!((session.state, session.mode), (SessionState::Live, Mode::Coordinator));
    assert_eq!(session.scratchpad.as_deref(), Some("/scratch/s1"));
    assert_eq!(session.rules_learned, ["Bash(ls)", "Bash(make)"]);
    assert_eq!(session.output.as_deref(), Some("{}"));
    assert!(!durable.sessions.contains_key(&SessionId("s2".into())));
    let worker = &durable.agents[&AgentId("a2".into())];
    assert_eq!((worker.life.clone(), worker.incarnation, worker.runs), (Life::Down, 3, 2));
    assert_eq!((worker.crashes, worker.parked, worker.queued), (0, true, 11));
    assert_eq!(worker.usage.tool_uses, 12);
    assert_eq!(durable.agents[&AgentId("a3".into())].usage.cost_micro_usd, 1_500);
    let states: Vec<_> = durable.messages.values().map(|it| (it.id.0, it.state)).collect();
    let want = [
        (5, State::Consumed),
        (6, State::Bounced),
        (7, State::Delivered),
        (8, State::Accepted),
        (9, State::Accepted),
        (10, State::Held),
        (11, State::Expired),
        (13, State::Expired),
        (14, State::Accepted),
        (30, State::Accepted),
        (31, State::Accepted),
        (32, State::Accepted),
    ];
    assert_eq!(states, want);
    assert_eq!(durable.agents[&AgentId("a1".into())].mailbox, [7, 8, 9, 14, 30].map(MessageId));
    assert_eq!(durable.agents[&AgentId("a1".into())].mailbox_bytes, 5 * 18);
    assert_eq!(durable.messages[&MessageId(7)].kind, Kind::ShutdownRequest { answered: true });
    let given = String::from("plan_approval-1@w@team");
    let plan = Kind::PlanApprovalRequest { given, answered: true };
    assert_eq!(durable.messages[&MessageId(30)].kind, plan);
    let member = &durable.agents[&AgentId("a3".into())];
    assert_eq!((member.runtime, &member.process), (Runtime::Terminal, &None));
    assert_eq!(member.pty, None);
    let ours = durable.agents[&AgentId("a9".into())].pty.as_ref().unwrap();
    assert_eq!(
        (ours.wanted, ours.ended.as_ref().unwrap().status, ours.arguments.len()),
        (false, 130, 2)
    );
    assert_eq!(durable.permissions.len(), 1);
    assert_eq!(durable.teams.len(), 1);
    assert_eq!(durable.keys.len(), 8);
    assert_eq!(durable.heard.len(), 4);
    assert_eq!(durable.sessions[&session_id()].inbound, Some(Inbound::Hold));
    assert!(durable.sessions[&session_id()].watchers.is_empty());
    let other = &durable.sessions[&SessionId("s3".into())];
    assert!(other.bypasses && other.inbound == Some(Inbound::Accept));
    assert_eq!(other.watchers, [outside()]);
    let out: Vec<_> = durable.outbox.iter().map(|it| (it.id.0, it.state)).collect();
    assert_eq!(out[0], (20, State::Held));
    assert_eq!(out.len(), 12, "what coordd says leaves no receipt");
    assert_eq!(durable.outbox.open_len(), 5);
    assert_eq!((durable.last_message, durable.last_permission, durable.last_queued), (54, 3, 11));
    assert_eq!(durable.bridge, Some(Wish { on: true, epoch: 2 }));
    let peer = "aaaaaaaaaaaaaaaa".into();
    let allowed = [Allowed { peer, inbound: true, outbound: false }];
    assert_eq!(durable.sessions[&session_id()].bridged, allowed);
    let carried: Vec<_> = durable.outbox.carried().map(|it| it.id.0).collect();
    assert_eq!((carried, durable.outbox.carried_bytes()), (vec![40, 42, 50, 51, 52], 50));
}

#[test]
fn d24_fields_that_came_later_have_defaults() {
    let durable = applied(&parsed(SPARSE));
    let agent = &durable.agents[&AgentId("a1".into())];
    assert!(!agent.parked && !agent.waited_for && agent.mailbox.is_empty());
    let last = agent.last.as_ref().unwrap();
    assert_eq!((last.outcome.class, last.outcome.usage), (None, Usage::default()));
    assert_eq!(durable.messages[&MessageId(1)].state, State::Consumed);
    assert_eq!(durable.sessions.len() + durable.teams.len() + durable.permissions.len(), 3);
}

fn session_id() -> SessionId {
    SessionId("s1".into())
}

fn session() -> Session {
    Session {
        id: session_id(),
        name: Name::new("here").unwrap(),
        mode: Mode::Coordinator,
        cwd: "/home/me/here".into(),
        created_ms: 1_700_000_000_000,
        state: SessionState::Live,
        lead: AgentId("a1".into()),
        model: String::from("{\"provider\":\"rehearsal\"}").into(),
        runtime: Runtime::Native,
        permissions: String::from("{}").into(),
        rules_learned: vec!["Bash(ls)".into()],
        simple_tools: true,
        scratchpad: Some(String::new()),
        definitions: vec!["reviewer".into()],
        worker_turns: 200,
        worker_run_ms: 3_600_000,
        workers_running_max: 20,
        output: None,
        bypasses: false,
        inbound: None,
        watchers: Vec::new(),
        bridged: Vec::new(),
        host_for: None,
    }
}

fn outside() -> Outside {
    Outside {
        address: "uds:/run/7.sock".into(),
        name: "alice".into(),
        bypasses: true,
        verified: true,
        message: "0f3c".into(),
    }
}

fn outgoing(id: u64, kind: outgoing::Kind) -> Record {
    let from = if id == 20 { Sender::User } else { Sender::System };
    Record::OutgoingPut {
        outgoing: Box::new(Outgoing {
            id: MessageId(id),
            session: (id != 20).then(session_id),
            from,
            to: "uds:/run/7.sock".into(),
            wire_id: alloc::format!("wire-{id}"),
            kind,
            text: "some words".into(),
            state: State::Accepted,
            accepted_ms: 1_700_000_000_008,
            delivered_ms: None,
            ended_ms: None,
            reason: String::new(),
        }),
    }
}

/// What came with messages from and to the outside.
fn records_of_the_outside() -> Vec<Record> {
    let at_ms = 1_700_000_200_000;
    let from = |id: &str| Sender::Outside(Box::new(Outside { message: id.into(), ..outside() }));
    let settings = Session { bypasses: true, inbound: Some(Inbound::Refuse), ..session() };
    let id = SessionId("s3".into());
    let other = Session { id: id.clone(), name: Name::new("other").unwrap(), ..settings };
    let words = outgoing::Kind::Words { summary: "in short".into(), notice_id: Some("n".into()) };
    let status = |verdict| outgoing::Kind::Status { of: "0f3c".into(), verdict };
    let moved = |id, state| Record::OutgoingMoved {
        outgoing: MessageId(id),
        state,
        reason: "so it was".into(),
        at_ms,
    };
    vec![
        Record::SessionPut { session: Box::new(other) },
        Record::InboundSet { session: id.clone(), inbound: Some(Inbound::Accept) },
        Record::InboundSet { session: session_id(), inbound: Some(Inbound::Hold) },
        Record::WatcherPut { session: session_id(), watcher: Box::new(outside()) },
        Record::WatchersTold { session: session_id() },
        Record::WatcherPut { session: id, watcher: Box::new(outside()) },
        message(10, "a1", from("b1"), Kind::Text, State::Held),
        message(11, "a1", from("b2"), Kind::Text, State::Held),
        message(12, "a1", from("b3"), Kind::Text, State::Held),
        message(13, "a1", from("b4"), Kind::Text, State::Expired),
        Record::MessageExpired { message: MessageId(11), reason: "a day".into(), at_ms },
        Record::MessageLetIn { message: MessageId(12), new: MessageId(14) },
        outgoing(20, words),
        outgoing(21, status(outgoing::Verdict::Held)),
        outgoing(22, status(outgoing::Verdict::Expired)),
        outgoing(23, status(outgoing::Verdict::Refused)),
        outgoing(24, outgoing::Kind::Idle { of: "0f3d".into(), at_ms }),
        moved(20, State::Delivered),
        moved(20, State::Held),
        moved(24, State::Delivered),
        Record::Keyed {
            caller: "user".into(),
            key: "k7".into(),
            to: Keyed::Outgoing(MessageId(20)),
            at_ms,
        },
    ]
}

/// What came with the bridge to other machines.
fn records_of_the_bridge() -> Vec<Record> {
    let far = "bridge:aaaaaaaaaaaaaaaa/s9";
    let allowed = |peer: &str, inbound, outbound| Record::BridgeAllowed {
        session: session_id(),
        peer: peer.into(),
        inbound,
        outbound,
    };
    let to_far = |id, kind| {
        let Record::OutgoingPut { mut outgoing } = outgoing(id, kind) else { unreachable!() };
        outgoing.to = far.into();
        outgoing.from = if id == 42 { Sender::System } else { Sender::User };
        Record::OutgoingPut { outgoing }
    };
    let words = || outgoing::Kind::Words { summary: "in short".into(), notice_id: None };
    let verdict = outgoing::Verdict::Consumed;
    let hosting = Session {
        id: SessionId("s4".into()),
        name: Name::new("hosting").unwrap(),
        host_for: Some("aaaaaaaaaaaaaaaa".into()),
        ..session()
    };
    let pty = Agent {
        name: Name::new("far").unwrap(),
        runtime: Runtime::Bridged,
        far: Some(Far {
            peer: "aaaaaaaaaaaaaaaa".into(),
            session: "s9".into(),
            agent: "a9".into(),
        }),
        far_runtime: Some(Runtime::Claude),
        ..agent("a4", Role::Worker, Life::Down)
    };
    let work = outgoing::Kind::Work { agent: AgentId("a4".into()), message: MessageId(9) };
    vec![
        Record::BridgeSet { on: false, epoch: 1 },
        Record::BridgeSet { on: true, epoch: 2 },
        allowed("aaaaaaaaaaaaaaaa", true, false),
        allowed("bbbbbbbbbbbbbbbb", true, true),
        allowed("bbbbbbbbbbbbbbbb", false, false),
        to_far(40, words()),
        to_far(41, words()),
        to_far(42, outgoing::Kind::Status { of: "0f3c".into(), verdict }),
        Record::OutgoingMoved {
            outgoing: MessageId(41),
            state: State::Delivered,
            reason: String::new(),
            at_ms: 1_700_000_200_000,
        },
        Record::SessionPut { session: Box::new(hosting) },
        Record::AgentPut { agent: Box::new(pty) },
        to_far(50, work),
        to_far(51, outgoing::Kind::Stop { agent: AgentId("a4".into()) }),
        to_far(
            52,
            outgoing::Kind::Ended {
                agent: "a5".into(),
                outcome: outcome(Status::Failed),
                had_nothing: false,
            },
        ),
    ]
}

fn agent(id: &str, role: Role, life: Life) -> Agent {
    Agent {
        id: AgentId(id.into()),
        session: session_id(),
        name: Name::new(if role == Role::Worker { "w" } else { "lead" }).unwrap(),
        role,
        runtime: Runtime::Native,
        agent_type: "worker".into(),
        description: "find it".into(),
        phase: "research".into(),
        created_ms: 1_700_000_000_001,
        waited_for: true,
        waited_run: 1,
        waited_incarnation: 0,
        life,
        incarnation: 2,
        token: "00ff".into(),
        process: Some(process()),
        runs: 1,
        run_opened_ms: Some(1_700_000_000_002),
        crashes: 1,
        queued: 10,
        usage: Usage { tool_uses: 6, ..Usage::default() },
        last: Some(LastRun {
            outcome: outcome(Status::Failed),
            ended_ms: 1_700_000_000_003,
            thin: true,
        }),
        mailbox: VecDeque::new(),
        mailbox_bytes: 0,
        far: None,
        far_runtime: None,
        pty: None,
        parked: false,
    }
}

fn process() -> Process {
    Process { pid: 4_242, start_ticks: 99, boot_id: "b00t".into() }
}

fn outcome(status: Status) -> Outcome {
    let class = match status {
        Status::Completed => None,
        Status::Failed => Some(Class::Retryable),
        Status::Killed => Some(Class::Fatal),
    };
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cache_read_tokens: 3,
        cache_write_tokens: 4,
        tool_uses: 6,
        duration_ms: 7,
        cost_micro_usd: 0,
    };
    Outcome { status, class, reason: "so it was".into(), result: "a < b & \"c\"".into(), usage }
}

fn message(id: u64, to: &str, from: Sender, kind: Kind, state: State) -> Record {
    let text = if state.is_final() { String::new() } else { "some words".into() };
    Record::MessagePut {
        message: Box::new(Message {
            id: MessageId(id),
            session: session_id(),
            from,
            to: AgentId(to.into()),
            kind,
            text,
            summary: "in short".into(),
            state,
            accepted_ms: 1_700_000_000_004,
            delivered_ms: None,
            ended_ms: state.is_final().then_some(1_700_000_000_005),
            reason: String::new(),
        }),
    }
}

fn permission(id: u64, answer: Option<Answer>) -> Record {
    let (tool, input) = ("Bash".into(), "{\"command\":\"make\"}".into());
    let question = Question {
        tool,
        input,
        reason: "asked".into(),
        rule: "Bash(make)".into(),
        about: String::new(),
        shown: String::new(),
    };
    let (id, session, agent) = (PermissionId(id), session_id(), AgentId("a2".into()));
    let permission =
        Permission { id, session, agent, question, asked_ms: 1_700_000_000_006, answer };
    Record::PermissionPut { permission: Box::new(permission) }
}

fn task(id: u32, status: TaskStatus) -> Task {
    Task {
        id,
        subject: "a thing".into(),
        description: "in full".into(),
        status,
        owner: Some("w".into()),
        blocked_by: vec![1],
    }
}

fn team(name: &str) -> Team {
    Team {
        name: Name::new(name).unwrap(),
        description: "for it".into(),
        session: session_id(),
        agent_type: "coordinator".into(),
        created_ms: 1_700_000_000_007,
        deleting: false,
        tasks: BTreeMap::from([(1, task(1, TaskStatus::Pending))]),
        last_task: 1,
        outside: "{\"x\":1}".into(),
    }
}

/// What the golden file was written from.
#[expect(clippy::too_many_lines, reason = "one line for each kind of line")]
fn every_record() -> Vec<Record> {
    let at_ms = 1_700_000_100_000;
    let (a1, a2) = (AgentId("a1".into()), AgentId("a2".into()));
    let s2 = SessionId("s2".into());
    let answer = Answer {
        allow: true,
        reason: String::new(),
        rule: "Bash(make)".into(),
        at_ms,
        unheard_by: 0,
        by: By::User,
    };
    let keyed = |key: &str, to| Record::Keyed { caller: "user".into(), key: key.into(), to, at_ms };
    let adjusted = Outcome { class: Some(Class::Adjust), ..outcome(Status::Completed) };
    let rows = vec![
        SendRow::Accepted {
            to: "w".into(),
            id: MessageId(5),
            ahead: 0,
            note: "now".into(),
            request_id: Some("shutdown-m5".into()),
        },
        SendRow::Refused { to: "x".into(), reason: "its mailbox is full".into() },
    ];
    let stopping = |keep_mail| Life::Stopping { by: "the user".into(), keep_mail };
    let put = |agent: Agent| Record::AgentPut { agent: Box::new(agent) };
    let run_ended = |run, status| Record::RunEnded {
        agent: a2.clone(),
        run,
        outcome: outcome(status),
        at_ms,
        thin: false,
    };
    let other = |id: &SessionId, mode| Session { id: id.clone(), mode, ..session() };
    vec![
        Record::Counters { messages: 4, permissions: 2, queued: 9 },
        Record::SessionPut { session: Box::new(session()) },
        Record::SessionPut { session: Box::new(other(&s2, Mode::Normal)) },
        Record::SessionPut { session: Box::new(other(&s2, Mode::Fork)) },
        Record::SessionPut {
            session: Box::new(Session { runtime: Runtime::Claude, ..other(&s2, Mode::Fork) }),
        },
        Record::SessionState { session: session_id(), state: SessionState::Stopped },
        Record::SessionState { session: session_id(), state: SessionState::Live },
        Record::ScratchpadReady { session: session_id(), path: "/scratch/s1".into() },
        Record::RuleLearned { session: session_id(), rule: "Bash(make)".into() },
        Record::OutputGiven { session: session_id(), output: "{}".into() },
        Record::SessionRemoved { session: s2 },
        put(agent("a1", Role::Lead, Life::Up)),
        put(agent("a1", Role::Coordinator, Life::Waiting)),
        put(agent("a2", Role::Worker, stopping(true))),
        put(Agent { runtime: Runtime::Claude, ..agent("a2", Role::Worker, stopping(true)) }),
        put(Agent { runtime: Runtime::External, ..agent("a2", Role::Peer, stopping(true)) }),
        put(agent("a2", Role::Worker, Life::Down)),
        Record::AgentDown { agent: a2.clone() },
        Record::AgentWaiting { agent: a2.clone() },
        Record::AgentStarted { agent: a2.clone(), incarnation: 3, token: "ff00".into() },
        Record::AgentSpawned { agent: a2.clone(), incarnation: 3, process: process() },
        message(5, "a2", Sender::User, Kind::Prompt, State::Accepted),
        message(6, "a2", Sender::Agent(a1.clone()), Kind::Text, State::Accepted),
        message(7, "a1", Sender::User, Kind::ShutdownRequest { answered: false }, State::Accepted),
        message(
            8,
            "a1",
            Sender::Agent(a2.clone()),
            Kind::ShutdownResponse { approve: true },
            State::Accepted,
        ),
        message(
            9,
            "a1",
            Sender::System,
            Kind::Notification { agent: a2.clone(), run: 1, outcome: adjusted, thin: false },
            State::Accepted,
        ),
        Record::MessageDelivered { message: MessageId(5), at_ms },
        Record::MessageDelivered { message: MessageId(7), at_ms },
        Record::MessagesConsumed { agent: a2.clone(), messages: vec![MessageId(5)], run: 2, at_ms },
        Record::MessageBounced { message: MessageId(6), reason: "w was stopped".into(), at_ms },
        message(5, "a2", Sender::User, Kind::Prompt, State::Consumed),
        message(6, "a2", Sender::Agent(a1), Kind::Text, State::Bounced),
        message(7, "a1", Sender::User, Kind::ShutdownRequest { answered: false }, State::Delivered),
        Record::RequestAnswered { message: MessageId(7) },
        run_ended(2, Status::Killed),
        Record::AgentStopping { agent: a2.clone(), by: "the user".into(), keep_mail: false },
        Record::AgentParked { agent: a2.clone() },
        Record::AgentExited { agent: a2.clone(), incarnation: 3, again: false, counted: true },
        permission(2, Some(Answer { at_ms: 5, ..answer.clone() })),
        permission(3, None),
        Record::PermissionAnswered { id: PermissionId(3), answer },
        Record::TeamPut { team: Box::new(team("team")) },
        Record::TeamPut { team: Box::new(team("old")) },
        Record::TaskPut { team: Name::new("team").unwrap(), task: task(2, TaskStatus::InProgress) },
        Record::TaskPut { team: Name::new("team").unwrap(), task: task(3, TaskStatus::Completed) },
        Record::TeamEdited {
            team: Name::new("old").unwrap(),
            description: "edited".into(),
            outside: "{\"y\":2}".into(),
        },
        Record::TeamEdited {
            team: Name::new("old").unwrap(),
            description: "changed by hand".into(),
            outside: "{}".into(),
        },
        Record::TeamDeleting { team: Name::new("old").unwrap() },
        Record::TeamDeleted { team: Name::new("old").unwrap() },
        keyed("k1", Keyed::Session(session_id())),
        keyed("k2", Keyed::Agent(a2)),
        keyed("k3", Keyed::Sent(rows)),
        keyed("k4", Keyed::Permission(PermissionId(3))),
        keyed("k5", Keyed::Team(Name::new("team").unwrap())),
        keyed("k6", Keyed::Task(Name::new("team").unwrap(), 2)),
        Record::Keyed {
            caller: "a2".into(),
            key: "old".into(),
            to: Keyed::Session(session_id()),
            at_ms: 6,
        },
        Record::Forgotten { before_ms: 7 },
    ]
    .into_iter()
    .chain(records_of_the_outside())
    .chain(records_of_terminals())
    .chain(records_of_the_bridge())
    .chain(records_of_what_was_seen())
    .collect()
}

/// What is known of ends, near and far, and of things that were seen before.
fn records_of_what_was_seen() -> Vec<Record> {
    let a2 = AgentId("a2".into());
    let verdict = outgoing::Verdict::ReadBefore;
    let nothing = outgoing::Kind::Ended {
        agent: "a5".into(),
        outcome: outcome(Status::Killed),
        had_nothing: true,
    };
    vec![
        Record::AgentExited { agent: a2, incarnation: 2, again: true, counted: false },
        Record::Keyed {
            caller: "a4".into(),
            key: "seen".into(),
            to: Keyed::Seen,
            at_ms: 1_700_000_000_000,
        },
        outgoing(53, outgoing::Kind::Status { of: "wire-9".into(), verdict }),
        outgoing(54, nothing),
    ]
}

/// What members in terminals leave in the journal.
fn records_of_terminals() -> Vec<Record> {
    let a3 = AgentId("a3".into());
    let given = String::from("plan_approval-1@w@team");
    let plan = Kind::PlanApprovalRequest { given: given.clone(), answered: false };
    let approval = Kind::PlanApprovalResponse { given, approve: true };
    let mut outcome = outcome(Status::Completed);
    outcome.usage.cost_micro_usd = 1_500;
    let assignment = Kind::TaskAssignment { task: 2, subject: "a thing".into() };
    let waiting = Agent { waited_incarnation: 2, ..agent("a3", Role::Worker, Life::Down) };
    let member = Agent { runtime: Runtime::Terminal, ..agent("a3", Role::Worker, Life::Down) };
    let a9 = AgentId("a9".into());
    let arguments = vec![String::from("--model"), String::from("opus")];
    let pty =
        Pty { wanted: false, arguments, ended: Some(Ended { status: 130, said: "bye".into() }) };
    let wanted = Pty { wanted: true, ..Pty::default() };
    let ours = Agent {
        runtime: Runtime::Terminal,
        pty: Some(wanted),
        ..agent("a9", Role::Worker, Life::Down)
    };
    vec![
        Record::AgentPut { agent: Box::new(waiting) },
        Record::AgentPut { agent: Box::new(member) },
        Record::TerminalSeen { agent: a3.clone(), process: Some(process()) },
        message(30, "a1", Sender::Agent(a3.clone()), plan, State::Accepted),
        Record::RequestAnswered { message: MessageId(30) },
        message(31, "a3", Sender::User, approval, State::Accepted),
        Record::TerminalSeen { agent: a3.clone(), process: None },
        message(32, "a3", Sender::User, assignment, State::Accepted),
        Record::RunEnded { agent: a3, run: 2, outcome, at_ms: 1_700_000_100_001, thin: false },
        Record::AgentPut { agent: Box::new(ours) },
        Record::PtySet { agent: a9, pty },
    ]
}

/// The golden lines are these records; when a field is added, add a line to the file and leave the old ones.
#[test]
fn d24_the_golden_file_is_what_it_says() {
    let lines: Vec<_> =
        every_record().iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let text = lines.join("\n") + "\n";
    assert!(text == JOURNAL, "{text}");
}

/// What is written after a clean-up is the same state.
#[test]
fn invariant_2_a_snapshot_of_everything_reads_back_equal() {
    let durable = applied(&parsed(JOURNAL));
    let lines: Vec<_> =
        durable.snapshot().iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let again = applied(&parsed(&lines.join("\n")));
    assert!(again == durable, "{again:#?}");
    assert_eq!(MessageId(5).to_string(), "m5");
}
