//! A team's task list (T-4).

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::sending::sender;
use super::teams::find;
use crate::rules::call::{Call, Said, Verdict};
use crate::rules::mailbox::{self, Draft};
use crate::rules::turn::Turn;
use crate::rules::{route, task};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::message::{Kind, Sender};
use crate::state::name::Name;
use crate::state::record::Keyed;
use crate::state::task::{Edit, Task, TaskStatus};
use crate::state::team::Team;
use crate::state::{Durable, Effect, Record, limits};

pub(super) fn create(
    call: &Call,
    turn: &mut Turn<'_>,
    team: &str,
    subject: String,
    description: String,
    blocked_by: Vec<u32>,
) -> Verdict {
    let team = find(turn.durable, team)?;
    fits(&subject, &description)?;
    has_room(team)?;
    let len = subject.len() + description.len();
    let bytes: usize = team.tasks.values().map(|it| it.subject.len() + it.description.len()).sum();
    if bytes + len > limits::TASKS_BYTES_MAX {
        return Err(Denial::TooLarge {
            field: "all tasks",
            len: bytes + len,
            max: limits::TASKS_BYTES_MAX,
        });
    }
    let blocked_by = blockers(team, blocked_by)?;
    let task = Task {
        id: team.last_task + 1,
        subject,
        description,
        status: TaskStatus::Pending,
        owner: None,
        blocked_by,
    };
    call.remember(turn, Keyed::Task(team.name.clone(), task.id));
    Ok(put(turn, team, task))
}

fn fits(subject: &str, description: &str) -> Result<(), Denial> {
    if subject.trim().is_empty() {
        return Err(Denial::Invalid { field: "subject", why: String::from("is empty") });
    }
    let len = subject.len() + description.len();
    if len > limits::SETTINGS_LEN_MAX {
        return Err(Denial::TooLarge { field: "description", len, max: limits::SETTINGS_LEN_MAX });
    }
    Ok(())
}

fn has_room(team: &Team) -> Result<(), Denial> {
    if team.tasks.len() >= limits::TASKS_PER_TEAM_MAX {
        return Err(Denial::Full { what: "tasks in the team", max: limits::TASKS_PER_TEAM_MAX });
    }
    Ok(())
}

/// The tasks that are to be done first: each once, and each there is.
fn blockers(team: &Team, mut given: Vec<u32>) -> Result<Vec<u32>, Denial> {
    given.sort_unstable();
    given.dedup();
    match given.iter().find(|id| !team.tasks.contains_key(*id)) {
        Some(missing) => Err(Denial::NoSuch { what: "task", given: missing.to_string() }),
        None => Ok(given),
    }
}

/// Records a task, and answers with it.
fn put(turn: &mut Turn<'_>, team: &Team, task: Task) -> Said {
    let (name, id) = (team.name.clone(), task.id);
    turn.record(Record::TaskPut { team: name.clone(), task });
    turn.effect(Effect::WriteTeam { team: name.clone() });
    Said::Now(Answer::Task { team: name, task: id })
}

pub(super) fn list(turn: &Turn<'_>, team: &str) -> Verdict {
    find(turn.durable, team).map(|it| Said::Now(Answer::Tasks(it.name.clone())))
}

fn one(team: &Team, id: u32) -> Result<&Task, Denial> {
    team.tasks.get(&id).ok_or_else(|| Denial::NoSuch {
        what: "task",
        given: format!("{id} in team {}", team.name),
    })
}

pub(super) fn get(turn: &Turn<'_>, team: &str, id: u32) -> Verdict {
    let team = find(turn.durable, team)?;
    one(team, id).map(|it| Said::Now(Answer::Task { team: team.name.clone(), task: it.id }))
}

/// What is to be different about a task.
pub(super) struct Update {
    pub(super) status: Option<TaskStatus>,
    /// By name; empty gives it back.
    pub(super) owner: Option<String>,
    pub(super) blocked_by: Option<Vec<u32>>,
}

pub(super) fn update(
    call: &Call,
    turn: &mut Turn<'_>,
    team: &str,
    id: u32,
    update: Update,
) -> Verdict {
    let Update { status, owner, blocked_by } = update;
    let team = find(turn.durable, team)?;
    let blocked_by = blocked_by.map(|given| blockers(team, given)).transpose()?;
    let owner = match owner.as_deref() {
        None | Some("") => owner,
        Some(name) => Some(route::agent_in(turn.durable, &team.session, name)?.name.to_string()),
    };
    let before = one(team, id)?;
    let task = task::updated(team, before, status, owner.as_deref(), blocked_by)?;
    let owner_before = before.owner.as_deref();
    tell_owner(turn, team, owner_before, &task, sender(call))?;
    Ok(put(turn, team, task))
}

/// A member in a terminal learns from its inbox that a task is its own now; agents of ours hear of tasks by asking.
fn tell_owner(
    turn: &mut Turn<'_>,
    team: &Team,
    before: Option<&str>,
    task: &Task,
    from: Sender,
) -> Result<(), Denial> {
    let Some(owner) = task.owner.as_deref().filter(|it| before != Some(*it)) else { return Ok(()) };
    let Ok(owner) = route::agent_in(turn.durable, &team.session, owner) else { return Ok(()) };
    if !owner.is_in_terminal() || task.status == TaskStatus::Completed {
        return Ok(());
    }
    mailbox::check(owner, &task.description)?;
    let kind = Kind::TaskAssignment { task: task.id, subject: task.subject.clone() };
    let summary = format!("task {} is yours", task.id);
    let draft = Draft { from, kind, text: task.description.clone(), summary };
    mailbox::accept(turn, owner, draft);
    Ok(())
}

/// Takes over what others wrote into a task's file (T-2), by the same rules as what is asked for. What is against them is said
/// instead. Either way the files are written again, since they are ours.
pub(crate) fn edited(turn: &mut Turn<'_>, name: &Name, id: u32, edit: Edit) {
    let Some(team) = turn.durable.teams.get(name).filter(|it| !it.deleting) else { return };
    let before = team.tasks.get(&id);
    let owner_before = before.and_then(|it| it.owner.as_deref());
    let edited = as_edited(turn.durable, turn.live.disk_full, team, id, edit).and_then(|task| {
        tell_owner(turn, team, owner_before, &task, Sender::System)?;
        Ok(task)
    });
    match edited {
        Ok(task) if before == Some(&task) => {}
        Ok(task) => turn.record(Record::TaskPut { team: name.clone(), task }),
        Err(why) => {
            let event = Event::EditRefused { team: name.clone(), task: id, why };
            turn.publish(&team.session, event);
        }
    }
    turn.effect(Effect::WriteTeam { team: name.clone() });
}

fn as_edited(
    durable: &Durable,
    disk_full: bool,
    team: &Team,
    id: u32,
    edit: Edit,
) -> Result<Task, Denial> {
    let mut task = match team.tasks.get(&id) {
        Some(task) => task.clone(),
        None if disk_full => return Err(Denial::DiskFull),
        None => from_outside(team, id)?,
    };
    let Edit { subject, description, status, owner, blocked_by } = edit;
    task.subject = subject.unwrap_or(task.subject);
    task.description = description.unwrap_or(task.description);
    fits(&task.subject, &task.description)?;
    let blocked_by = blocked_by.map(|given| blockers(team, given)).transpose()?;
    let owner = owner.map(|given| owner_outside(durable, team, given)).transpose()?;
    task::updated(team, &task, status, owner.as_deref(), blocked_by)
}

/// A task that others made, before anything is known of it.
fn from_outside(team: &Team, id: u32) -> Result<Task, Denial> {
    has_room(team)?;
    let first = team.last_task.saturating_add(1);
    let last = team.last_task.saturating_add(limits::TASK_GAP_MAX);
    if !(first..=last).contains(&id) {
        let why = format!("must be from {first} to {last} for a new task");
        return Err(Denial::Invalid { field: "id", why });
    }
    Ok(Task {
        id,
        subject: String::new(),
        description: String::new(),
        status: TaskStatus::Pending,
        owner: None,
        blocked_by: Vec::new(),
    })
}

/// An owner as others name it: an agent under its own name, or somebody whom only they know.
fn owner_outside(durable: &Durable, team: &Team, given: String) -> Result<String, Denial> {
    let (len, max) = (given.len(), limits::OWNER_LEN_MAX);
    if len > max {
        return Err(Denial::TooLarge { field: "owner", len, max });
    }
    if given.chars().any(char::is_control) {
        return Err(Denial::Invalid {
            field: "owner",
            why: String::from("has control characters"),
        });
    }
    Ok(match route::agent_in(durable, &team.session, &given) {
        Ok(agent) => agent.name.to_string(),
        Err(_) => given,
    })
}
