//! A team's task list (T-4).

use super::teams::find;
use super::{Call, Said, Verdict};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::Event;
use crate::record::Keyed;
use crate::task::{self, Task, TaskStatus};
use crate::team::Team;
use crate::{Effect, Record, Step, limits, route};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

pub(super) fn create(
    call: &Call<'_>,
    step: &mut Step,
    team: &str,
    subject: String,
    description: String,
    blocked_by: Vec<u32>,
) -> Verdict {
    let team = find(call.durable, team)?;
    if subject.trim().is_empty() {
        return Err(Denial::Invalid { field: "subject", why: String::from("is empty") });
    }
    let len = subject.len() + description.len();
    if len > limits::SETTINGS_LEN_MAX {
        return Err(Denial::TooLarge { field: "description", len, max: limits::SETTINGS_LEN_MAX });
    }
    if team.tasks.len() >= limits::TASKS_PER_TEAM_MAX {
        return Err(Denial::Full { what: "tasks in the team", max: limits::TASKS_PER_TEAM_MAX });
    }
    if let Some(missing) = blocked_by.iter().find(|id| !team.tasks.contains_key(*id)) {
        return Err(Denial::NoSuch { what: "task", given: missing.to_string() });
    }
    let task = Task {
        id: team.last_task + 1,
        subject,
        description,
        status: TaskStatus::Pending,
        owner: None,
        blocked_by,
    };
    call.remember(step, Keyed::Task(team.name.clone(), task.id));
    Ok(put(step, team, task))
}

/// Records a task, and answers with it.
fn put(step: &mut Step, team: &Team, task: Task) -> Said {
    let (name, id) = (team.name.clone(), task.id);
    step.record(Record::TaskPut { team: name.clone(), task });
    step.effect(Effect::WriteTeam { team: name.clone() });
    let event = Event::TaskChanged { team: name.clone(), task: id };
    step.effect(Effect::Publish { session: team.session.clone(), event });
    Said::Now(Answer::Task { team: name, task: id })
}

pub(super) fn list(call: &Call<'_>, team: &str) -> Verdict {
    find(call.durable, team).map(|it| Said::Now(Answer::Tasks(it.name.clone())))
}

fn one(team: &Team, id: u32) -> Result<&Task, Denial> {
    team.tasks.get(&id).ok_or_else(|| Denial::NoSuch {
        what: "task",
        given: format!("{id} in team {}", team.name),
    })
}

pub(super) fn get(call: &Call<'_>, team: &str, id: u32) -> Verdict {
    let team = find(call.durable, team)?;
    one(team, id).map(|it| Said::Now(Answer::Task { team: team.name.clone(), task: it.id }))
}

pub(super) fn update(
    call: &Call<'_>,
    step: &mut Step,
    team: &str,
    id: u32,
    status: Option<TaskStatus>,
    owner: Option<&str>,
) -> Verdict {
    let team = find(call.durable, team)?;
    let owner = match owner {
        None | Some("") => owner.map(String::from),
        Some(name) => Some(route::agent_in(call.durable, &team.session, name)?.name.to_string()),
    };
    let task = task::updated(team, one(team, id)?, status, owner.as_deref())?;
    Ok(put(step, team, task))
}
