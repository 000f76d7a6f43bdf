//! What may become of a task (T-4).

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::state::denial::Denial;
use crate::state::task::{Task, TaskStatus, open_blockers};
use crate::state::team::Team;

/// The task as an update leaves it, or why it cannot.
pub(super) fn updated(
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
pub(super) fn given_back(team: &Team, member: &str) -> Vec<Task> {
    let has = |task: &&Task| {
        task.status == TaskStatus::InProgress && task.owner.as_deref() == Some(member)
    };
    let give = |task: &Task| Task { status: TaskStatus::Pending, owner: None, ..task.clone() };
    team.tasks.values().filter(has).map(give).collect()
}
