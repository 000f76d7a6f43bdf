//! Teams (T-1, T-3).

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};

use super::control;
use super::sending::own_session;
use crate::rules::call::{Call, Said, Verdict};
use crate::rules::turn::Turn;
use crate::rules::{lifecycle, making, pty, route};
use crate::state::agent::{Agent, Life, Runtime};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::live::Caller;
use crate::state::name::Name;
use crate::state::record::Keyed;
use crate::state::request::Invite;
use crate::state::role::Role;
use crate::state::session::SessionState;
use crate::state::team::{Team, folder_name};
use crate::state::{Durable, Effect, Record, limits};

pub(super) fn create(
    call: &Call,
    turn: &mut Turn<'_>,
    session: &str,
    name: &str,
    description: String,
    agent_type: String,
) -> Verdict {
    let id = own_session(call, turn, session)?;
    let session = turn.durable.sessions.get(&id).ok_or(Denial::BadCredentials)?;
    if let Some(team) = turn.durable.team_of(&id) {
        return Err(Denial::HasTeam { name: team.name.to_string() });
    }
    if description.len() > limits::REASON_LEN_MAX || agent_type.len() > limits::DESCRIPTION_LEN_MAX
    {
        return Err(Denial::TooLarge {
            field: "description",
            len: description.len(),
            max: limits::REASON_LEN_MAX,
        });
    }
    let random =
        format!("team-{}", crate::state::id::hex(turn.now.random.get(24..28).unwrap_or_default()));
    let wanted = if name.is_empty() { random.as_str() } else { name };
    let wanted = folder_name(wanted).ok_or_else(|| Denial::Invalid {
        field: "team_name",
        why: "must hold at least one ASCII letter or digit".to_owned(),
    })?;
    // T-1: a taken name gets a fresh one.
    let name = making::free(&wanted, |name| turn.durable.teams.contains_key(name));
    let team = Team {
        name: name.clone(),
        description,
        session: id.clone(),
        agent_type: if agent_type.is_empty() {
            session.mode.as_str().to_owned()
        } else {
            agent_type
        },
        created_ms: turn.now.wall_ms,
        deleting: false,
        tasks: BTreeMap::new(),
        last_task: 0,
        outside: String::new(),
    };
    turn.record(Record::TeamPut { team: Box::new(team) });
    call.remember(turn, Keyed::Team(name.clone()));
    turn.effect(Effect::WriteTeam { team: name.clone() });
    Ok(Said::Now(Answer::Team(name)))
}

pub(super) fn delete(call: &Call, turn: &mut Turn<'_>, given: &str) -> Verdict {
    let team = match &call.caller {
        Caller::User | Caller::Bridge | Caller::ProgramOf(_) => find(turn.durable, given)?,
        Caller::Agent(_) => {
            turn.durable.team_of(&own_session(call, turn, given)?).ok_or(Denial::NoTeam)?
        }
    };
    control::none_works(turn.durable, &team.session)?;
    let agents = turn.durable.agents_of(&team.session);
    // Without it they have no mail.
    for agent in agents.iter().filter(|it| it.has_pty()) {
        lifecycle::stop(turn, agent, "the end of its team", false);
    }
    turn.record(Record::TeamDeleting { team: team.name.clone() });
    let (name, session) = (team.name.clone(), team.session.clone());
    turn.effect(Effect::RemoveTeam { team: name, session, peer: call.peer, call: call.id });
    Ok(Said::ByShell)
}

/// The team that is meant, by its name or by its session.
pub(super) fn find<'a>(durable: &'a Durable, given: &str) -> Result<&'a Team, Denial> {
    if let Some(named) = durable.teams.values().find(|it| it.name.is(given)) {
        return Ok(named);
    }
    match route::session(durable, given) {
        Ok(session) => durable.team_of(&session.id).ok_or(Denial::NoTeam),
        Err(_) => Err(Denial::NoSuch { what: "team", given: given.to_owned() }),
    }
}

pub(super) fn show(turn: &Turn<'_>, given: &str) -> Verdict {
    find(turn.durable, given).map(|it| Said::Now(Answer::Team(it.name.clone())))
}

/// Somebody else changed the team's file in a way that makes sense.
pub(crate) fn edited(turn: &mut Turn<'_>, team: &Name, description: String, outside: String) {
    let Some(it) = turn.durable.teams.get(team).filter(|it| !it.deleting) else { return };
    // Written again, since the members are ours to say; also when we know what it says, which is not all that is to be there.
    turn.effect(Effect::WriteTeam { team: team.clone() });
    if it.description == description && it.outside == outside {
        return;
    }
    turn.record(Record::TeamEdited { team: team.clone(), description, outside });
}

/// Makes a member in a terminal, which coordd runs or the user. The same again is the same member.
pub(super) fn invite(call: &Call, turn: &mut Turn<'_>, invite: Invite) -> Verdict {
    let given = invite.team.as_str();
    let needs_team = || Denial::NeedsTeam { session: given.to_owned() };
    let team = find(turn.durable, given)
        .map_err(|it| if it == Denial::NoTeam { needs_team() } else { it })?;
    if turn.live.is_ending() || team.deleting {
        return Err(Denial::NoSuch { what: "team", given: given.to_owned() });
    }
    check(turn, team, &invite)?;
    let Invite { name, description, start, arguments, .. } = invite;
    let agents = turn.durable.agents_of(&team.session);
    let is_meant = |it: &&&Agent| it.name.is(&name) && it.is_in_terminal();
    let known = agents.iter().find(is_meant);
    let is_new = known.is_none();
    let agent = match known {
        Some(known) => Agent::clone(known),
        None => Agent { description, ..member(turn, team, &agents, &name)? },
    };
    let id = agent.id.clone();
    if is_new {
        turn.record(Record::AgentPut { agent: Box::new(agent.clone()) });
        call.remember(turn, Keyed::Agent(id.clone()));
        turn.effect(Effect::WriteTeam { team: team.name.clone() });
    }
    if start {
        if let Some(process) = agent.process.as_ref().filter(|_| !agent.has_pty()) {
            let (name, pid) = (agent.name.to_string(), process.pid);
            return Err(Denial::TerminalOpen { name, pid });
        }
        // One that is ending comes back.
        if matches!(agent.life, Life::Down | Life::Stopping { .. }) {
            pty::want(turn, &agent, arguments);
        }
    }
    Ok(Said::Now(Answer::Invited(id)))
}

fn check(turn: &Turn<'_>, team: &Team, invite: &Invite) -> Result<(), Denial> {
    let session = turn.durable.sessions.get(&team.session).ok_or(Denial::NoTeam)?;
    if invite.start && session.state == SessionState::Stopped {
        return Err(Denial::SessionStopped { name: session.name.to_string() });
    }
    if invite.arguments.len() > limits::TERMINAL_ARGUMENTS_MAX {
        let max = limits::TERMINAL_ARGUMENTS_MAX;
        return Err(Denial::Full { what: "arguments", max });
    }
    let bytes = invite.arguments.iter().map(String::len).sum();
    let bounds = [
        ("description", invite.description.len(), limits::DESCRIPTION_LEN_MAX),
        ("arguments", bytes, limits::TERMINAL_ARGUMENTS_BYTES_MAX),
    ];
    match bounds.into_iter().find(|(_, len, max)| len > max) {
        Some((field, len, max)) => Err(Denial::TooLarge { field, len, max }),
        None => Ok(()),
    }
}

/// A new member in a terminal. It has no process until one is seen, or started.
pub(super) fn member(
    turn: &Turn<'_>,
    team: &Team,
    agents: &[&Agent],
    name: &str,
) -> Result<Agent, Denial> {
    let name = making::free_name(turn.durable, &team.session, name)?;
    making::check_inbox(agents, &name)?;
    let mut agent = making::fresh(turn.now, &team.session, name, Role::Worker);
    making::MEMBER_TYPE.clone_into(&mut agent.agent_type);
    agent.runtime = Runtime::Terminal;
    Ok(agent)
}
