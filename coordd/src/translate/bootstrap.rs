//! What a new agent process is told on its stdin.

use std::collections::BTreeMap;

use coordd_core::Durable;
use coordd_core::agent::Agent;
use coordd_core::permission::Answer;
use coordd_core::record::Keyed;
use coordd_core::role::Role;
use coordd_core::session::Session;
use coordd_core::settings::ApprovalMode;
use proto::agent::{AgentLimits, Bootstrap, InTerminal, Permissions, SandboxChoice};
use proto::teammate;

use super::{Facts, view};

/// The bootstrap of an agent's present incarnation, unless its session has no rules that can be read.
pub(crate) fn bootstrap(
    facts: &Facts,
    session: &Session,
    (agent, token): (&Agent, String),
    env: BTreeMap<String, String>,
) -> Option<Bootstrap> {
    // The core starts nobody in a session whose rules it cannot read. Nobody is to be started without rules either.
    let rules = session.permissions.read().ok().flatten()?;
    // Sessions for another machine's workers were once made with any choice.
    let is_for_guests = session.host_for.is_some();
    let mode = if is_for_guests { ApprovalMode::DontAsk } else { rules.mode };
    let permissions = Permissions {
        mode: mode.as_str().to_owned(),
        allow: rules.allow.iter().chain(&session.rules_learned).cloned().collect(),
        ask: rules.ask.clone(),
        deny: rules.deny.clone(),
        sandbox: SandboxChoice {
            off: rules.sandbox.off && !is_for_guests,
            hosts: rules.sandbox.hosts.clone(),
            outside: if is_for_guests { Vec::new() } else { rules.sandbox.outside.clone() },
        },
    };
    let limits = match agent.role {
        Role::Worker => {
            AgentLimits { turns: session.worker_turns, run_ms: session.worker_run_ms, tokens: 0 }
        }
        // A lead lives as long as its session; the user ends it.
        Role::Coordinator | Role::Lead | Role::Peer => AgentLimits::default(),
    };
    Some(Bootstrap {
        agent: agent.id.to_string(),
        incarnation: agent.incarnation,
        token,
        socket: facts.socket.clone(),
        session: session.id.to_string(),
        name: agent.name.to_string(),
        role: agent.role,
        mode: session.mode,
        agent_type: agent.agent_type.clone(),
        description: agent.description.clone(),
        cwd: session.cwd.clone(),
        state_dir: facts.agent_dir(agent),
        scratchpad: session.scratchpad.clone().map(|path| {
            // Not told yet where it is: it is made before the process is started, at a place that
            // follows from the session.
            if path.is_empty() { facts.scratchpad(session, &env) } else { path }
        }),
        runtime: agent.runtime,
        model: view::model(session),
        simple_tools: session.simple_tools,
        env,
        limits,
        permissions,
        runs_before: agent.runs,
        not_begun: Vec::new(),
        terminal: None,
        worker_runtime: session.runtime,
        folder_only: is_for_guests,
    })
}

/// What the process of a terminal starts in it.
pub(crate) fn in_terminal(durable: &Durable, agent: &Agent) -> Option<InTerminal> {
    let pty = agent.pty.as_ref()?;
    let team = durable.team_of(&agent.session)?;
    let start = super::response::start(team.name.as_str(), agent.name.as_str(), &agent.session.0);
    let (name, value) = teammate::TEAMS_ON;
    Some(InTerminal {
        // The program is found where it is to run.
        arguments: start
            .command()
            .into_iter()
            .skip(1)
            .chain(teammate::choices(&pty.arguments))
            .collect(),
        env: BTreeMap::from([(name.to_owned(), value.to_owned())]),
    })
}

/// The calls of an agent that the user has not answered, or answered when the process that asked
/// could not hear it. In that case the incarnation that comes next is told, and no other: it may
/// begin them.
pub(crate) fn not_begun(durable: &Durable, agent: &Agent) -> Vec<String> {
    let asked = durable.keys.iter().filter(|((caller, _), _)| *caller == agent.id.0);
    let calls = asked.filter_map(|((_, call), (keyed, _))| {
        let Keyed::Permission(id) = keyed else { return None };
        let question = durable.permissions.get(id)?;
        let unheard = |it: &Answer| it.unheard_by > 0 && it.unheard_by + 1 == agent.incarnation;
        question.answer.as_ref().is_none_or(unheard).then(|| call.clone())
    });
    calls.collect()
}
