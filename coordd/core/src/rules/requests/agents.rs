//! Starting, stopping and showing agents.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::sending;
use crate::rules::call::{Call, Said, Verdict};
use crate::rules::turn::Turn;
use crate::rules::{ending, host, lifecycle, making, route, starting};
use crate::state::agent::{Agent, Pty, Runtime};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::far::Far;
use crate::state::id::SessionId;
use crate::state::live::{Caller, Waiter};
use crate::state::mode::Mode;
use crate::state::name::Name;
use crate::state::record::Keyed;
use crate::state::request::NewAgent;
use crate::state::role::{Asker, Role};
use crate::state::session::{Session, SessionState};
use crate::state::{Durable, Effect, Record, limits};

/// The one definition of coordinator mode (G-5).
const WORKER: &str = "worker";
/// The built-in definitions of the other modes.
const BUILT_IN: [&str; 3] = ["explore", "general-purpose", "plan"];
/// What `phase` may say (W-11).
const PHASES: [&str; 4] = ["research", "synthesis", "implementation", "verification"];

pub(super) fn spawn(call: &Call, turn: &mut Turn<'_>, new: NewAgent) -> Verdict {
    let caller = call.agent(turn.durable)?;
    let session = turn.durable.sessions.get(&caller.session).ok_or(Denial::BadCredentials)?;
    if turn.live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    if session.state == SessionState::Stopped {
        return Err(Denial::SessionStopped { name: session.name.to_string() });
    }
    check(&new)?;
    let agent_type = definition(session, &new.subagent_type)?;
    let name = name(turn.durable, &session.id, &new)?;
    let mut agent = making::fresh(turn.now, &session.id, name, Role::Worker);
    if new.host.is_empty() {
        agent.runtime = new.runtime.unwrap_or(session.runtime);
        if agent.runtime != Runtime::Terminal {
            making::check_runtime("runtime", agent.runtime, !session.model.is_none())?;
        }
    } else {
        agent.far = Some(host(turn, session, &new)?);
        agent.runtime = Runtime::Bridged;
        agent.far_runtime = new.runtime;
    }
    agent.agent_type = agent_type;
    if agent.runtime == Runtime::Terminal {
        put_in_terminal(turn, session, &mut agent)?;
    }
    agent.description.clone_from(&new.description);
    agent.phase.clone_from(&new.phase);
    agent.waited_for = new.wait;
    agent.waited_run = caller.runs + 1;
    agent.waited_incarnation = if new.wait { caller.incarnation } else { 0 };
    turn.record(Record::AgentPut { agent: Box::new(agent.clone()) });
    call.remember(turn, Keyed::Agent(agent.id.clone()));
    if let Some(team) = turn.durable.team_of(&session.id).filter(|it| !it.deleting) {
        turn.effect(Effect::WriteTeam { team: team.name.clone() });
    }
    sending::first_prompt(call, turn, &agent, new.prompt)?;
    if new.wait {
        return Ok(Said::Later(Waiter::Ran(agent.id)));
    }
    let taken = turn.live.places_taken(turn.durable);
    let running = taken.get(&session.id).copied().unwrap_or_default();
    let waits_for = if agent.is_hosted() {
        None
    } else if running >= session.workers_running_max {
        Some(format!("a place: {running} of {} workers are running", session.workers_running_max))
    } else {
        starting::starts_used_up(turn.live, turn.now)
    };
    let note = if session.mode == Mode::Coordinator && !new.model.is_empty() {
        "`model` was ignored: in coordinator mode all workers use the session's model".to_owned()
    } else {
        String::new()
    };
    Ok(Said::Now(Answer::Spawned { agent: agent.id, waits_for, note }))
}

/// Where a worker is to run that does not run here. What it is there is for that machine to say.
fn host(turn: &Turn<'_>, session: &Session, new: &NewAgent) -> Result<Far, Denial> {
    if turn.durable.bridge.is_none_or(|it| !it.on) {
        return Err(Denial::BridgeOff);
    }
    let plain = ["", WORKER, "general-purpose"];
    if !plain.iter().any(|it| new.subagent_type.eq_ignore_ascii_case(it)) {
        let why =
            "cannot be given together with `host`: definitions belong to this machine".to_owned();
        return Err(Denial::Invalid { field: "subagent_type", why });
    }
    host::find(turn.live, session, &new.host)
}

/// What an agent needs whose terminal coordd runs: the team of which it is a member, and an inbox of its own.
fn put_in_terminal(turn: &Turn<'_>, session: &Session, agent: &mut Agent) -> Result<(), Denial> {
    let team = turn.durable.team_of(&session.id).filter(|it| !it.deleting);
    if team.is_none() {
        return Err(Denial::NeedsTeam { session: session.name.to_string() });
    }
    making::check_inbox(&turn.durable.agents_of(&session.id), &agent.name)?;
    making::MEMBER_TYPE.clone_into(&mut agent.agent_type);
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
        making::has_room(&agents)?;
        let taken = |name: &Name| agents.iter().any(|it| it.name.is(name.as_str()));
        return Ok(making::free(&Name::from_words(&new.description, WORKER), taken));
    }
    making::free_name(durable, session, &new.name)
}

pub(super) fn stop(call: &Call, turn: &mut Turn<'_>, given: &str) -> Verdict {
    let agent = route::agent(turn.durable, &call.caller, given)?;
    if agent.is_in_terminal() && !agent.has_pty() {
        return Err(Denial::InTerminal { name: agent.name.to_string() });
    }
    let by = match &call.caller {
        Caller::User => "the user".to_owned(),
        Caller::Bridge => "the bridge".to_owned(),
        Caller::ProgramOf(_) => Asker::Program.as_str().to_owned(),
        Caller::Agent(id) if *id == agent.id => return Err(Denial::ToSelf),
        Caller::Agent(id) => {
            turn.durable.agents.get(id).map(|it| it.name.to_string()).unwrap_or_default()
        }
    };
    if agent.is_hosted() {
        let answer = if host::stop(turn, agent, &by) {
            Answer::StopAsked { agent: agent.name.to_string() }
        } else {
            Answer::Stopped { agents: Vec::new(), bounced: 0 }
        };
        return Ok(Said::Now(answer));
    }
    let (has_process, bounced) = lifecycle::stop(turn, agent, &by, false);
    if !has_process {
        return Ok(Said::Now(Answer::Stopped { agents: Vec::new(), bounced }));
    }
    Ok(Said::Later(ending::wait_for(&[agent], bounced, None)))
}

pub(super) fn show(call: &Call, turn: &Turn<'_>, given: &str) -> Verdict {
    route::agent(turn.durable, &call.caller, given)
        .map(|it| Said::Now(Answer::Agent(it.id.clone())))
}

pub(super) fn transcript(
    call: &Call,
    turn: &mut Turn<'_>,
    given: &str,
    from: u64,
    limit: u32,
) -> Verdict {
    let agent = route::agent(turn.durable, &call.caller, given)?.id.clone();
    turn.effect(Effect::ReadTranscript { agent, from, limit, peer: call.peer, call: call.id });
    Ok(Said::ByShell)
}
