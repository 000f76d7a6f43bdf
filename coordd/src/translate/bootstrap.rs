//! What a new agent process is told on its stdin.

use super::{Facts, view};
use coordd_core::agent::Agent;
use coordd_core::role::Role;
use coordd_core::session::Session;
use proto::agent::{AgentLimits, Bootstrap, Permissions};
use std::collections::BTreeMap;

/// The bootstrap of an agent's present incarnation.
pub(crate) fn bootstrap(
    facts: &Facts,
    session: &Session,
    agent: &Agent,
    env: BTreeMap<String, String>,
) -> Bootstrap {
    // Unreadable rules allow nothing: the mode falls back to asking.
    let mut permissions: Permissions =
        serde_json::from_str(&session.permissions).unwrap_or_default();
    permissions.allow.extend(session.rules_learned.iter().cloned());
    let limits = match agent.role {
        Role::Worker => {
            AgentLimits { turns: session.worker_turns, run_ms: session.worker_run_ms, tokens: 0 }
        }
        // A lead lives as long as its session; the user ends it.
        Role::Coordinator | Role::Lead => AgentLimits::default(),
    };
    Bootstrap {
        agent: agent.id.to_string(),
        incarnation: agent.incarnation,
        token: agent.token.clone(),
        socket: facts.socket.clone(),
        session: session.id.to_string(),
        name: agent.name.to_string(),
        role: view::role(agent.role),
        mode: view::mode(session.mode),
        agent_type: agent.agent_type.clone(),
        description: agent.description.clone(),
        cwd: session.cwd.clone(),
        state_dir: facts.agent_dir(agent),
        scratchpad: session.scratchpad.clone().map(|path| {
            // Not told yet where it is: it is made before the process is started, at a place that follows from the session.
            if path.is_empty() { facts.scratchpad(session, &env) } else { path }
        }),
        model: view::model(session),
        simple_tools: session.simple_tools,
        env,
        limits,
        permissions,
        runs_before: agent.runs,
    }
}
