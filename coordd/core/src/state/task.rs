//! A team's task list (T-4).

use alloc::string::String;
use alloc::vec::Vec;

pub use proto_words::view::TaskStatus;
use serde::{Deserialize, Serialize};

use crate::state::team::Team;

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
