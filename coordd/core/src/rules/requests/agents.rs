//! Starting, stopping and showing agents.

use super::sessions::{free, wait_for};
use super::{Call, Said, Verdict, sending, teams};
use crate::rules::{Step, host, lifecycle, route, settle};
use crate::state::agent::{Agent, Life, Pty, Runtime, Usage};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::far::Far;
use crate::state::id::{AgentId, SessionId};
use crate::state::live::{Caller, Waiter};
use crate::state::mode::Mode;
use crate::state::name::Name;
use crate::state::record::Keyed;
use crate::state::request::NewAgent;
use crate::state::role::Role;
use crate::state::session::{Session, SessionState};
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

/// The one definition of coordinator mode (G-5).
const WORKER: &str = "worker";
/// The built-in definitions of the other modes.
const BUILT_IN: [&str; 3] = ["explore", "general-purpose", "plan"];
/// What `phase` may say (W-11).
const PHASES: [&str; 4] = ["research", "synthesis", "implementation", "verification"];

pub(super) fn spawn(call: &Call<'_>, live: &mut Live, step: &mut Step, new: NewAgent) -> Verdict {
    let caller = call.durable.agents.get(call.agent()?).ok_or(Denial::BadCredentials)?;
    let session = call.durable.sessions.get(&caller.session).ok_or(Denial::BadCredentials)?;
    if live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    if session.state == SessionState::Stopped {
        return Err(Denial::SessionStopped { name: session.name.to_string() });
    }
    check(&new)?;
    let agent_type = definition(session, &new.subagent_type)?;
    let name = name(call.durable, &session.id, &new)?;
    let mut agent = fresh(call.now, &session.id, name, Role::Worker);
    if new.host.is_empty() {
        agent.runtime = new.runtime.unwrap_or(session.runtime);
        if agent.runtime != Runtime::Terminal {
            check_runtime("runtime", agent.runtime, &session.model)?;
        }
    } else {
        agent.far = Some(host(call, live, session, &new)?);
        agent.runtime = Runtime::Bridged;
        agent.far_runtime = new.runtime;
    }
    agent.agent_type = agent_type;
    if agent.runtime == Runtime::Terminal {
        put_in_terminal(call, session, &mut agent)?;
    }
    agent.description.clone_from(&new.description);
    agent.phase.clone_from(&new.phase);
    agent.waited_for = new.wait;
    agent.waited_run = caller.runs + 1;
    agent.waited_incarnation = if new.wait { caller.incarnation } else { 0 };
    step.record(Record::AgentPut { agent: Box::new(agent.clone()) });
    call.remember(step, Keyed::Agent(agent.id.clone()));
    let event = Event::AgentCreated(agent.id.clone());
    step.effect(Effect::Publish { session: session.id.clone(), event });
    if let Some(team) = call.durable.team_of(&session.id).filter(|it| !it.deleting) {
        step.effect(Effect::WriteTeam { team: team.name.clone() });
    }
    sending::first_prompt(call, live, step, &agent, new.prompt)?;
    if new.wait {
        return Ok(Said::Later(Waiter::Ran(agent.id)));
    }
    let running = live.running_workers(call.durable, &session.id);
    let waits_for = if agent.is_hosted() {
        None
    } else if running >= session.workers_running_max {
        Some(format!("a place: {running} of {} workers run", session.workers_running_max))
    } else {
        settle::starts_used_up(live, call.now)
    };
    let note = if session.mode == Mode::Coordinator && !new.model.is_empty() {
        "`model` was ignored: in coordinator mode all workers use the session's model".to_owned()
    } else {
        String::new()
    };
    Ok(Said::Now(Answer::Spawned { agent: agent.id, waits_for, note }))
}

/// Where a worker is to run that does not run here. What it is there is for that machine to say.
fn host(call: &Call<'_>, live: &Live, session: &Session, new: &NewAgent) -> Result<Far, Denial> {
    if call.durable.bridge.is_none_or(|it| !it.on) {
        return Err(Denial::BridgeOff);
    }
    let plain = ["", WORKER, "general-purpose"];
    if !plain.iter().any(|it| new.subagent_type.eq_ignore_ascii_case(it)) {
        let why = "cannot be given together with `host`: definitions are this machine's".to_owned();
        return Err(Denial::Invalid { field: "subagent_type", why });
    }
    host::find(live, session, &new.host)
}

/// What an agent needs whose terminal coordd runs: the team of which it is a member, and an inbox of its own.
fn put_in_terminal(call: &Call<'_>, session: &Session, agent: &mut Agent) -> Result<(), Denial> {
    let team = call.durable.team_of(&session.id).filter(|it| !it.deleting);
    if team.is_none() {
        return Err(Denial::NeedsTeam { session: session.name.to_string() });
    }
    teams::check_inbox(&call.durable.agents_of(&session.id), &agent.name)?;
    teams::MEMBER_TYPE.clone_into(&mut agent.agent_type);
    agent.pty = Some(Pty { wanted: true, ..Pty::default() });
    Ok(())
}

fn check(new: &NewAgent) -> Result<(), Denial> {
    if new.prompt.trim().is_empty() {
        let why =
            "is empty: the worker sees nothing else, so it must hold the whole task".to_owned();
        return Err(Denial::Invalid { field: "prompt", why });
    }
    let bounds = [
        ("prompt", new.prompt.len(), limits::BODY_LEN_MAX),
        ("description", new.description.len(), limits::DESCRIPTION_LEN_MAX),
    ];
    if let Some((field, len, max)) = bounds.into_iter().find(|(_, len, max)| len > max) {
        return Err(Denial::TooLarge { field, len, max });
    }
    if !new.phase.is_empty() && !PHASES.contains(&new.phase.as_str()) {
        return Err(Denial::NoSuchPhase { given: new.phase.clone() });
    }
    Ok(())
}

/// Refuses what drives no agent of ours, and a native one without a model.
pub(crate) fn check_runtime(
    field: &'static str,
    runtime: Runtime,
    model: &str,
) -> Result<(), Denial> {
    match runtime {
        Runtime::External => {
            let why = "cannot be `external`: such a program joins by itself".to_owned();
            Err(Denial::Invalid { field, why })
        }
        Runtime::Native if model.is_empty() => {
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

/// The definition that is meant (G-5). Case does not matter, since the models that ask for `Explore` mean `explore`.
fn definition(session: &Session, given: &str) -> Result<String, Denial> {
    let mut known: Vec<&str> = match session.mode {
        Mode::Coordinator => [WORKER].to_vec(),
        Mode::Fork | Mode::Normal => {
            BUILT_IN.into_iter().chain(session.definitions.iter().map(String::as_str)).collect()
        }
    };
    known.sort_unstable();
    known.dedup();
    let default = if session.mode == Mode::Coordinator { WORKER } else { "general-purpose" };
    let wanted = if given.is_empty() { default } else { given };
    let found = known.iter().find(|it| it.eq_ignore_ascii_case(wanted)).map(|it| (*it).to_owned());
    found.ok_or_else(|| Denial::NoSuchDefinition {
        given: given.to_owned(),
        known: known.iter().map(|it| (*it).to_owned()).collect(),
    })
}

/// The given name, which nobody in the session may ever have had, or one made of the description.
fn name(durable: &Durable, session: &SessionId, new: &NewAgent) -> Result<Name, Denial> {
    if new.name.is_empty() {
        let agents = durable.agents_of(session);
        has_room(&agents)?;
        let taken = |name: &Name| agents.iter().any(|it| it.name.is(name.as_str()));
        return Ok(free(&Name::from_words(&new.description, WORKER), taken));
    }
    free_name(durable, session, &new.name)
}

fn has_room(agents: &[&Agent]) -> Result<(), Denial> {
    let max = limits::AGENTS_PER_SESSION_MAX;
    if agents.len() < max {
        Ok(())
    } else {
        Err(Denial::Full { what: "agents in the session", max })
    }
}

/// A name that was chosen, which nobody in the session may ever have had.
pub(super) fn free_name(
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

pub(super) fn stop(call: &Call<'_>, live: &mut Live, step: &mut Step, given: &str) -> Verdict {
    let agent = route::agent(call.durable, &call.caller, given)?;
    if agent.is_in_terminal() && !agent.has_pty() {
        return Err(Denial::InTerminal { name: agent.name.to_string() });
    }
    let by = match &call.caller {
        Caller::User => "the user".to_owned(),
        Caller::Bridge => "the bridge".to_owned(),
        Caller::Agent(id) if *id == agent.id => return Err(Denial::ToSelf),
        Caller::Agent(id) => {
            call.durable.agents.get(id).map(|it| it.name.to_string()).unwrap_or_default()
        }
    };
    if agent.is_hosted() {
        let answer = if host::stop(call.durable, step, call.now, agent, &by) {
            Answer::StopAsked { agent: agent.name.to_string() }
        } else {
            Answer::Stopped { agents: Vec::new(), bounced: 0 }
        };
        return Ok(Said::Now(answer));
    }
    let (has_process, bounced) =
        lifecycle::stop(call.durable, live, step, call.now, agent, &by, false);
    if !has_process {
        return Ok(Said::Now(Answer::Stopped { agents: Vec::new(), bounced }));
    }
    Ok(Said::Later(wait_for(&[agent], bounced, None)))
}

/// Refuses what is for when no worker of the session is at work, and names those that are.
pub(super) fn none_works(call: &Call<'_>, session: &SessionId) -> Result<(), Denial> {
    let agents = call.durable.agents_of(session);
    let works = agents.iter().filter(|it| it.role == Role::Worker && it.has_work());
    let names: Vec<_> = works.map(|it| it.name.to_string()).collect();
    if names.is_empty() { Ok(()) } else { Err(Denial::WorkersRun { names }) }
}

pub(super) fn show(call: &Call<'_>, given: &str) -> Verdict {
    route::agent(call.durable, &call.caller, given)
        .map(|it| Said::Now(Answer::Agent(it.id.clone())))
}

pub(super) fn transcript(
    call: &Call<'_>,
    step: &mut Step,
    given: &str,
    from: u64,
    limit: u32,
) -> Verdict {
    let agent = route::agent(call.durable, &call.caller, given)?.id.clone();
    step.effect(Effect::ReadTranscript { agent, from, limit, peer: call.peer, call: call.id });
    Ok(Said::ByShell)
}
