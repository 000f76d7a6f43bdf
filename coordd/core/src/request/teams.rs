//! Teams (T-1, T-3).

use super::sending::own_session;
use super::{Call, Said, Verdict, agents};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::Event;
use crate::name::Name;
use crate::record::Keyed;
use crate::role::Role;
use crate::team::{Team, folder_name};
use crate::{Durable, Effect, Live, Record, Step, limits, route, terminal};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};

/// The definition that a Claude Code terminal is started with.
const MEMBER_TYPE: &str = "general-purpose";

/// Who is invited.
#[expect(missing_docs, reason = "the fields are those of `proto::request`, documented there")]
#[derive(Clone, PartialEq, Debug)]
pub struct Invite {
    pub team: String,
    pub name: String,
    pub description: String,
}

pub(super) fn create(
    call: &Call<'_>,
    step: &mut Step,
    session: &str,
    name: &str,
    description: String,
    agent_type: String,
) -> Verdict {
    let id = own_session(call, session)?;
    let session = call.durable.sessions.get(&id).ok_or(Denial::BadCredentials)?;
    if let Some(team) = call.durable.team_of(&id) {
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
        format!("team-{}", crate::id::hex(call.now.random.get(24..28).unwrap_or_default()));
    let wanted = if name.is_empty() { random.as_str() } else { name };
    let wanted = folder_name(wanted).ok_or_else(|| Denial::Invalid {
        field: "team_name",
        why: "must hold at least one ASCII letter or digit".to_owned(),
    })?;
    // T-1: a taken name gets a fresh one.
    let name = super::sessions::free(&wanted, |name| call.durable.teams.contains_key(name));
    let team = Team {
        name: name.clone(),
        description,
        session: id.clone(),
        agent_type: if agent_type.is_empty() {
            session.mode.as_str().to_owned()
        } else {
            agent_type
        },
        created_ms: call.now.wall_ms,
        deleting: false,
        tasks: BTreeMap::new(),
        last_task: 0,
        outside: String::new(),
    };
    step.record(Record::TeamPut { team: Box::new(team) });
    call.remember(step, Keyed::Team(name.clone()));
    step.effect(Effect::WriteTeam { team: name.clone() });
    step.effect(Effect::Publish { session: id, event: Event::TeamChanged(name.clone()) });
    Ok(Said::Now(Answer::Team(name)))
}

pub(super) fn delete(call: &Call<'_>, step: &mut Step, given: &str) -> Verdict {
    let team = match &call.caller {
        crate::live::Caller::User | crate::live::Caller::Bridge => find(call.durable, given)?,
        crate::live::Caller::Agent(_) => {
            call.durable.team_of(&own_session(call, given)?).ok_or(Denial::NoTeam)?
        }
    };
    agents::none_works(call, &team.session)?;
    step.record(Record::TeamDeleting { team: team.name.clone() });
    let (name, session) = (team.name.clone(), team.session.clone());
    step.effect(Effect::RemoveTeam { team: name, session, peer: call.peer, call: call.id });
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

pub(super) fn show(call: &Call<'_>, given: &str) -> Verdict {
    find(call.durable, given).map(|it| Said::Now(Answer::Team(it.name.clone())))
}

/// Somebody else changed the team's file in a way that makes sense.
pub(crate) fn edited(
    durable: &Durable,
    step: &mut Step,
    team: Name,
    description: String,
    outside: String,
) {
    let Some(it) = durable.teams.get(&team).filter(|it| !it.deleting) else { return };
    // Written again, since the members are ours to say; also when we know what it says, which is not all that is to be there.
    step.effect(Effect::WriteTeam { team: team.clone() });
    if it.description == description && it.outside == outside {
        return;
    }
    let session = it.session.clone();
    step.record(Record::TeamEdited { team: team.clone(), description, outside });
    step.effect(Effect::Publish { session, event: Event::TeamChanged(team) });
}

/// Makes a member that the user starts in a terminal. The same again is the same member.
pub(super) fn invite(call: &Call<'_>, live: &Live, step: &mut Step, invite: Invite) -> Verdict {
    let Invite { team: given, name, description } = invite;
    let (given, name) = (given.as_str(), name.as_str());
    let needs_team = || Denial::NeedsTeam { session: given.to_owned() };
    let team = find(call.durable, given)
        .map_err(|it| if it == Denial::NoTeam { needs_team() } else { it })?;
    if live.is_ending() || team.deleting {
        return Err(Denial::NoSuch { what: "team", given: given.to_owned() });
    }
    if description.len() > limits::DESCRIPTION_LEN_MAX {
        return Err(Denial::TooLarge {
            field: "description",
            len: description.len(),
            max: limits::DESCRIPTION_LEN_MAX,
        });
    }
    let agents = call.durable.agents_of(&team.session);
    if let Some(known) = agents.iter().find(|it| it.name.is(name) && terminal::is_in_terminal(it)) {
        return Ok(Said::Now(Answer::Invited(known.id.clone())));
    }
    let name = agents::free_name(call.durable, &team.session, name)?;
    if let Some(other) = agents.iter().find(|it| terminal::share_an_inbox(&it.name, &name)) {
        let (name, other) = (name.to_string(), other.name.to_string());
        return Err(Denial::InboxShared { name, other });
    }
    let mut agent = agents::fresh(call.now, &team.session, name, Role::Worker);
    MEMBER_TYPE.clone_into(&mut agent.agent_type);
    agent.description = description;
    let agent = terminal::fresh(agent);
    let id = agent.id.clone();
    step.record(Record::AgentPut { agent });
    call.remember(step, Keyed::Agent(id.clone()));
    step.effect(Effect::Publish {
        session: team.session.clone(),
        event: Event::AgentCreated(id.clone()),
    });
    step.effect(Effect::WriteTeam { team: team.name.clone() });
    Ok(Said::Now(Answer::Invited(id)))
}
