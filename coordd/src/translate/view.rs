//! Sessions, agents and the rest, as clients see them.

use coordd_core::agent::{Agent, Life, Runtime};
use coordd_core::permission::{Denied, Permission};
use coordd_core::role::Role;
use coordd_core::session::{Inbound, Session, SessionState};
use coordd_core::settings::Provider;
use coordd_core::task::{Task, TaskStatus};
use coordd_core::team::Team;
use coordd_core::{Core, message};
use proto::address::Address;
use proto::agent as wire;
use proto::json::Json;
use proto::view::{
    AgentState, AgentView, DaemonView, DeniedView, HeldView, LastRun, MemberView, PeerKind,
    PeerView, PermissionView, SessionView, TaskView, TeamView,
};

use super::Facts;

/// How much of a task's description a list shows.
const DESCRIPTION_CHARS_MAX: usize = 200;
/// How many earlier denials a question shows: enough to see a pattern.
const DENIED_SHOWN_MAX: usize = 3;
/// How much of a message that waits for the user a view shows.
const HELD_CHARS_MAX: usize = 2_000;
/// How much of a result a view shows.
const RESULT_CHARS_MAX: usize = 1_000;

/// The model that a session's settings name; none where there is none that this build can read.
pub(crate) fn model(session: &Session) -> Option<wire::Model> {
    session.model.read().ok().flatten().map(|it| wire::Model {
        provider: match it.provider {
            Provider::Anthropic => wire::Provider::Anthropic,
            Provider::Openai => wire::Provider::Openai,
            Provider::Rehearsal => wire::Provider::Rehearsal,
            Provider::Responses => wire::Provider::Responses,
        },
        name: it.name.clone(),
        base_url: it.base_url.clone(),
        rehearsal_file: it.rehearsal_file.clone(),
    })
}

pub(crate) fn session(core: &Core, it: &Session) -> SessionView {
    let agents = core.durable.agents_of(&it.id);
    let count = |wanted: &dyn Fn(&Agent) -> bool| {
        u32::try_from(agents.iter().filter(|agent| wanted(agent)).count()).unwrap_or(u32::MAX)
    };
    let mut used = coordd_core::agent::Usage::default();
    for agent in &agents {
        used.add(&agent.usage);
    }
    let open = core
        .durable
        .permissions
        .values()
        .filter(|p| p.session == it.id && p.answer.is_none())
        .count();
    SessionView {
        id: it.id.to_string(),
        name: it.name.to_string(),
        mode: it.mode,
        cwd: it.cwd.clone(),
        state: it.state,
        created_ms: it.created_ms,
        lead: it.lead.to_string(),
        model: model(it),
        runtime: it.runtime,
        scratchpad: it.scratchpad.clone().filter(|path| !path.is_empty()),
        team: core.durable.team_of(&it.id).map(|team| team.name.to_string()),
        running: count(&|agent| agent.is_active() && (agent.has_process() || agent.is_hosted())),
        waiting: count(&|agent| agent.life == Life::Waiting),
        agents: count(&|_| true),
        questions: u32::try_from(open).unwrap_or(u32::MAX),
        usage: used,
        output: it.output.as_ref().and_then(|text| serde_json::from_str(text).ok()).map(Json),
        cross_session_inbound: inbound(it.inbound).to_owned(),
        held: u32::try_from(held_in(core, it)).unwrap_or(u32::MAX),
        host_for: it.host_for.as_deref().map(|it| machine(core, it)).unwrap_or_default(),
    }
}

/// What the user calls another daemon, as far as the bridge has said, else its fingerprint.
fn machine(core: &Core, fingerprint: &str) -> String {
    let peers = &core.live.bridge.report.peers;
    let known = peers.iter().find(|it| it.fingerprint == fingerprint);
    known.map_or_else(|| fingerprint.to_owned(), |it| it.name.clone())
}

fn held_in(core: &Core, it: &Session) -> usize {
    let is_held = |m: &&message::Message| m.state == message::State::Held && m.session == it.id;
    core.durable.messages.values().filter(is_held).count()
}

fn inbound(it: Option<Inbound>) -> &'static str {
    match it {
        None => "auto",
        Some(Inbound::Accept) => "accept",
        Some(Inbound::Hold) => "hold",
        Some(Inbound::Refuse) => "refuse",
    }
}

/// A session of ours, as one that can be written to.
pub(crate) fn peer(core: &Core, it: &Session) -> PeerView {
    PeerView {
        id: it.id.to_string(),
        name: it.name.to_string(),
        kind: PeerKind::Session,
        address: Address::Bridge(it.id.to_string()).to_string(),
        state: state_word(core, it).to_owned(),
        cwd: it.cwd.clone(),
        heard_ms: 0,
    }
}

/// What a session is at, in the words that other programs use.
pub(crate) fn state_word(core: &Core, it: &Session) -> &'static str {
    if it.state == SessionState::Stopped {
        return "stopped";
    }
    let busy = |lead: &Agent| lead.run_is_open() || !lead.mailbox.is_empty();
    if core.durable.lead_of(&it.id).is_some_and(busy) { "busy" } else { "idle" }
}

/// What an agent is at, in one word.
pub(crate) fn agent_state(core: &Core, it: &Agent) -> AgentState {
    let asks = core.durable.open_questions(&it.id).next().is_some();
    let connected = core.live.links.get(&it.id).is_some_and(|link| link.peer.is_some());
    match it.life {
        Life::Down if it.runtime == Runtime::Terminal && !it.has_pty() => {
            match (&it.process, it.run_is_open()) {
                (_, true) => AgentState::Running,
                (Some(_), false) => AgentState::Idle,
                (None, false) => AgentState::Stopped,
            }
        }
        Life::Down if it.is_hosted() && it.run_is_open() => AgentState::Running,
        Life::Down if it.is_hosted() && it.is_active() => AgentState::Waiting,
        Life::Down => AgentState::Stopped,
        Life::Waiting => AgentState::Waiting,
        Life::Stopping { .. } => AgentState::Stopping,
        // What it does is not known, only that it is there.
        Life::Up if it.is_external() && connected => AgentState::Idle,
        Life::Up if asks => AgentState::NeedsInput,
        Life::Up if !connected => AgentState::Starting,
        Life::Up if it.run_is_open() => AgentState::Running,
        // It may be there without anything to do.
        Life::Up if it.has_pty() => AgentState::Idle,
        Life::Up if it.role == Role::Worker || !it.mailbox.is_empty() => AgentState::Running,
        Life::Up => AgentState::Idle,
    }
}

pub(crate) fn agent(core: &Core, facts: &Facts, it: &Agent) -> AgentView {
    AgentView {
        id: it.id.to_string(),
        name: it.name.to_string(),
        session: it.session.to_string(),
        role: it.role,
        runtime: it.runtime,
        host: it
            .far
            .as_ref()
            .filter(|_| it.is_hosted())
            .map(|it| machine(core, &it.peer))
            .unwrap_or_default(),
        agent_type: it.agent_type.clone(),
        description: it.description.clone(),
        phase: it.phase.clone(),
        state: agent_state(core, it),
        runs: it.runs,
        pid: it
            .process
            .as_ref()
            .filter(|_| it.has_process() || it.runtime == Runtime::Terminal)
            .map(|process| process.pid),
        incarnation: it.incarnation,
        run_started_ms: it.run_opened_ms,
        activity: None,
        usage: it.usage,
        last: it.last.as_ref().map(|last| LastRun {
            status: last.outcome.status,
            class: last.outcome.class,
            reason: last.outcome.reason.clone(),
            result: last.outcome.result.chars().take(RESULT_CHARS_MAX).collect(),
            ended_ms: last.ended_ms,
            thin: last.thin,
        }),
        mail: u32::try_from(it.mailbox.len()).unwrap_or(u32::MAX),
        transcript: facts.transcript(it),
        screen: it.has_pty(),
        ended: it.pty.as_ref().and_then(|pty| pty.ended.clone()),
    }
}

pub(crate) fn permission(core: &Core, it: &Permission) -> PermissionView {
    PermissionView {
        id: it.id.to_string(),
        session: core
            .durable
            .sessions
            .get(&it.session)
            .map(|of| of.name.to_string())
            .unwrap_or_default(),
        agent: core.durable.agents.get(&it.agent).map(|of| of.name.to_string()).unwrap_or_default(),
        cwd: core.durable.sessions.get(&it.session).map(|of| of.cwd.clone()).unwrap_or_default(),
        question: wire::Question {
            tool: it.question.tool.clone(),
            input: Json(serde_json::from_str(&it.question.input).unwrap_or_default()),
            reason: it.question.reason.clone(),
            rule: it.question.rule.clone(),
            about: it.question.about.clone(),
            shown: serde_json::from_str(&it.question.shown).unwrap_or_default(),
        },
        asked_ms: it.asked_ms,
        allowed: it.answer.as_ref().map(|answer| answer.allow),
        covers: it.covers(&core.durable).map(|other| other.id.to_string()).collect(),
        denied: it
            .denied_before(&core.durable)
            .take(DENIED_SHOWN_MAX)
            .map(|it| denied(core, &it))
            .collect(),
    }
}

fn denied(core: &Core, it: &Denied<'_>) -> DeniedView {
    let asker = core.durable.agents.get(&it.question.agent);
    DeniedView {
        agent: asker.map(|of| of.name.to_string()).unwrap_or_default(),
        at_ms: it.answer.at_ms,
        reason: it.answer.reason.clone(),
        same: it.same,
    }
}

pub(crate) fn team(core: &Core, facts: &Facts, it: &Team) -> TeamView {
    let members = core.durable.agents_of(&it.session).into_iter().map(|agent| MemberView {
        id: format!("{}@{}", agent.name, it.name),
        name: agent.name.to_string(),
        agent_type: agent.agent_type.clone(),
        state: agent_state(core, agent),
    });
    TeamView {
        name: it.name.to_string(),
        description: it.description.clone(),
        session: core
            .durable
            .sessions
            .get(&it.session)
            .map(|of| of.name.to_string())
            .unwrap_or_default(),
        created_ms: it.created_ms,
        file: format!("{}/.claude/teams/{}/config.json", facts.home, it.name),
        members: members.collect(),
    }
}

/// A task in a list or an event: `task_get` has the whole description.
pub(crate) fn task_row(team: &Team, it: &Task) -> TaskView {
    let mut row = task(team, it);
    if let Some((end, _)) = row.description.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        row.description.truncate(end);
        row.description.push('…');
    }
    row
}

/// A task waits only for what is not done: a finished one blocks nothing any more (T-4).
pub(crate) fn task(team: &Team, it: &Task) -> TaskView {
    let is_open =
        |id: &&u32| team.tasks.get(*id).is_some_and(|it| it.status != TaskStatus::Completed);
    TaskView {
        id: it.id,
        subject: it.subject.clone(),
        description: it.description.clone(),
        status: it.status,
        owner: it.owner.clone(),
        blocked_by: it.blocked_by.iter().filter(is_open).copied().collect(),
    }
}

pub(crate) fn daemon(core: &Core, facts: &Facts) -> DaemonView {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    DaemonView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: facts.pid,
        started_ms: facts.started_ms,
        socket: facts.socket.clone(),
        state_dir: facts.state_dir.clone(),
        sessions: count(core.durable.sessions.len()),
        agents_running: count(core.live.links.len()),
        peers: count(core.live.peers.len()),
        degraded: facts.degraded.clone(),
        under_systemd: facts.under_systemd,
    }
}

/// The name of somebody outside, as it gives it; else its address.
pub(crate) fn outside_name(from: &message::Outside) -> String {
    let name = if from.name.is_empty() { from.address.to_string() } else { from.name.clone() };
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// A message from outside that waits for the user.
pub(crate) fn held(core: &Core, it: &message::Message) -> Option<HeldView> {
    let message::Sender::Outside(from) = &it.from else { return None };
    Some(HeldView {
        id: it.id.to_string(),
        session: core.durable.sessions.get(&it.session)?.name.to_string(),
        from: outside_name(from),
        address: from.address.to_string(),
        verified: from.verified,
        at_ms: it.accepted_ms,
        text: it.text.chars().take(HELD_CHARS_MAX).collect(),
        characters: it.text.chars().count() as u64,
    })
}

/// The name of a message's sender.
pub(crate) fn sender(core: &Core, from: &message::Sender) -> String {
    match from {
        message::Sender::User => "user".to_owned(),
        message::Sender::System => "coordd".to_owned(),
        message::Sender::Outside(from) => outside_name(from),
        message::Sender::Agent(id) => core
            .durable
            .agents
            .get(id)
            .map_or_else(|| id.to_string(), |agent| agent.name.to_string()),
    }
}

/// The end of a worker's run, as the lead and the clients are told of it.
pub(crate) fn notification(agent: &Agent) -> Option<proto::notification::Notification> {
    let last = agent.last.as_ref()?;
    Some(proto::notification::Notification {
        task_id: agent.id.to_string(),
        status: last.outcome.status,
        summary: coordd_core::runs::summary(agent, last),
        result: last.outcome.result.clone(),
        usage: last.outcome.usage,
    })
}
