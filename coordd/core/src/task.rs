//! A team's task list (T-4).

use crate::denial::Denial;
use crate::team::Team;
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its number.
    pub id: u32,
    /// In a few words.
    pub subject: String,
    /// In full.
    pub description: String,
    /// How far it is.
    pub status: TaskStatus,
    /// Who has it, by name.
    #[serde(default)]
    pub owner: Option<String>,
    /// Tasks that must be done first.
    #[serde(default)]
    pub blocked_by: Vec<u32>,
}

/// How far a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// Done.
    Completed,
}

/// What somebody else changed in a task's file. What is `None` stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edit {
    /// In a few words.
    pub subject: Option<String>,
    /// In full.
    pub description: Option<String>,
    /// How far it is.
    pub status: Option<TaskStatus>,
    /// Who has it, by name; empty gives it back.
    pub owner: Option<String>,
    /// Tasks that must be done first.
    pub blocked_by: Option<Vec<u32>>,
}

/// The unfinished tasks that this one waits for.
pub fn open_blockers(team: &Team, task: &Task) -> Vec<u32> {
    let is_open =
        |id: &&u32| team.tasks.get(id).is_some_and(|it| it.status != TaskStatus::Completed);
    task.blocked_by.iter().filter(is_open).copied().collect()
}

/// The task as an update leaves it, or why it cannot.
pub fn updated(
    team: &Team,
    task: &Task,
    status: Option<TaskStatus>,
    owner: Option<&str>,
    blocked_by: Option<Vec<u32>>,
) -> Result<Task, Denial> {
    let mut new = task.clone();
    if let Some(blocked_by) = blocked_by {
        if leads_to(team, &blocked_by, task.id) {
            return Err(Denial::TaskCycle { task: task.id });
        }
        new.blocked_by = blocked_by;
    }
    match owner {
        Some("") => new.owner = None,
        Some(name) if task.owner.as_deref().is_some_and(|has| has != name) => {
            let owner = task.owner.clone().unwrap_or_default();
            return Err(Denial::TaskTaken { task: task.id, owner });
        }
        Some(name) => new.owner = Some(name.to_owned()),
        None => {}
    }
    new.status = status.unwrap_or(match (owner, task.status) {
        (Some(""), TaskStatus::InProgress) => TaskStatus::Pending,
        (_, status) => status,
    });
    if new.status != TaskStatus::Pending && new.status != task.status {
        let blockers = open_blockers(team, &new);
        if !blockers.is_empty() {
            return Err(Denial::TaskBlocked { task: task.id, by: blockers });
        }
    }
    if new.status == TaskStatus::InProgress && new.owner.is_none() {
        return Err(Denial::TaskWithoutOwner { task: task.id });
    }
    Ok(new)
}

/// Whether waiting for these would in the end be waiting for this one.
fn leads_to(team: &Team, from: &[u32], to: u32) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = from.to_vec();
    while let Some(id) = open.pop() {
        if id == to {
            return true;
        }
        if seen.insert(id) {
            open.extend(
                team.tasks.get(&id).into_iter().flat_map(|it| it.blocked_by.iter().copied()),
            );
        }
    }
    false
}

/// The tasks that a member who died gives back.
pub fn given_back(team: &Team, member: &str) -> Vec<Task> {
    let has = |task: &&Task| {
        task.status == TaskStatus::InProgress && task.owner.as_deref() == Some(member)
    };
    let give = |task: &Task| Task { status: TaskStatus::Pending, owner: None, ..task.clone() };
    team.tasks.values().filter(has).map(give).collect()
}
