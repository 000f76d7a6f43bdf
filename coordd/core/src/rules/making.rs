//! How agents are made: their names, and what each begins with.

use alloc::borrow::ToOwned as _;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};

use crate::state::agent::{Agent, Life, Runtime, Usage};
use crate::state::denial::Denial;
use crate::state::id::{AgentId, SessionId};
use crate::state::name::Name;
use crate::state::role::Role;
use crate::state::terminal::share_an_inbox;
use crate::state::{Durable, Moment, limits};

/// The one definition of coordinator mode (G-5).
pub(crate) const WORKER: &str = "worker";
/// The definition that a Claude Code terminal is started with.
pub(crate) const MEMBER_TYPE: &str = "general-purpose";

/// The name, or the first of `name-2`, `name-3`, … that is not taken.
pub(crate) fn free(stem: &Name, taken: impl Fn(&Name) -> bool) -> Name {
    if !taken(stem) {
        return stem.clone();
    }
    // Bounded by the number of names that there can be: one of them is free.
    let found = (2..=limits::SESSIONS_MAX + 2).map(|n| stem.numbered(n)).find(|name| !taken(name));
    found.unwrap_or_else(|| stem.clone())
}

/// Whether the session may have one more agent.
pub(crate) fn has_room(agents: &[&Agent]) -> Result<(), Denial> {
    let max = limits::AGENTS_PER_SESSION_MAX;
    if agents.len() < max {
        Ok(())
    } else {
        Err(Denial::Full { what: "agents in the session", max })
    }
}

/// A name that was chosen, which nobody in the session may ever have had.
pub(crate) fn free_name(
    durable: &Durable,
    session: &SessionId,
    given: &str,
) -> Result<Name, Denial> {
    let agents = durable.agents_of(session);
    has_room(&agents)?;
    let taken = |name: &Name| agents.iter().any(|it| it.name.is(name.as_str()));
    let name = Name::for_agent(given)
        .map_err(|why| Denial::Invalid { field: "name", why: why.to_owned() })?;
    if taken(&name) {
        return Err(Denial::NameTaken { what: "agent", name: name.to_string() });
    }
    Ok(name)
}

/// Refuses a name whose inbox file would be another's.
pub(crate) fn check_inbox(agents: &[&Agent], name: &Name) -> Result<(), Denial> {
    match agents.iter().find(|it| share_an_inbox(&it.name, name)) {
        None => Ok(()),
        Some(other) => {
            Err(Denial::InboxShared { name: name.to_string(), other: other.name.to_string() })
        }
    }
}

/// Refuses what drives no agent of ours, and a native one without a model.
pub(crate) fn check_runtime(
    field: &'static str,
    runtime: Runtime,
    has_model: bool,
) -> Result<(), Denial> {
    match runtime {
        Runtime::External => {
            let why = "cannot be `external`: such a program joins by itself".to_owned();
            Err(Denial::Invalid { field, why })
        }
        Runtime::Native if !has_model => {
            let why = "is missing: a native agent needs one".to_owned();
            Err(Denial::Invalid { field: "model", why })
        }
        Runtime::Native | Runtime::Claude => Ok(()),
        Runtime::Bridged => {
            let why = "cannot be `bridged`: `host` says on which machine it runs".to_owned();
            Err(Denial::Invalid { field, why })
        }
        Runtime::Terminal => {
            let why = "cannot be `terminal`: that is for single members of a team";
            Err(Denial::Invalid { field, why: why.to_owned() })
        }
    }
}

/// An agent that has done nothing yet.
pub(crate) fn fresh(now: &Moment, session: &SessionId, name: Name, role: Role) -> Agent {
    Agent {
        id: AgentId::from_random(&now.random),
        session: session.clone(),
        name,
        role,
        runtime: Runtime::Native,
        agent_type: match role {
            Role::Coordinator => "coordinator",
            Role::Lead => "lead",
            Role::Worker => WORKER,
            Role::Peer => "peer",
        }
        .to_owned(),
        description: String::new(),
        phase: String::new(),
        created_ms: now.wall_ms,
        waited_for: false,
        waited_run: 0,
        waited_incarnation: 0,
        life: Life::Down,
        incarnation: 0,
        token: String::new(),
        process: None,
        runs: 0,
        run_opened_ms: None,
        crashes: 0,
        queued: 0,
        usage: Usage::default(),
        last: None,
        mailbox: VecDeque::new(),
        mailbox_bytes: 0,
        far: None,
        far_runtime: None,
        pty: None,
        parked: false,
    }
}
