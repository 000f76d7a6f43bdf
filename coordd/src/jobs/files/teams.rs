//! The files of teams: written, removed, and what others do to them.

use std::path::Path;
use std::time::Duration;

use coordd_common::chain;
use coordd_core::Input;
use coordd_core::id::SessionId;
use coordd_core::name::Name;
use coordd_core::task::{Edit, TaskStatus};
use proto::response::Response;
use proto::team::{TaskFile, TeamFile};

use super::super::{ReplyTo, TeamWrite, answer_call};
use super::{Thread, remove_scratchpad};
use crate::reactor::Arrival;
use crate::team_files::Replaced;
use crate::team_files::tasks::{TaskEdit, TaskReplaced, number_of};
use crate::team_files::watch::Outside;

/// The time until a team's file that another program has locked is tried again. Locks are held for
/// some milliseconds.
const HELD_MS: u64 = 25;

/// Tasks that one warning names.
const TASKS_NAMED_MAX: usize = 20;

impl Thread {
    pub(super) fn remove_team_files(
        &self,
        team: &Name,
        removed: &mut Vec<String>,
        kept: &mut Vec<String>,
    ) {
        if let Some(watch) = &self.watch {
            watch.remove(team.as_str());
        }
        match self.files.remove(team.as_str()) {
            Ok(gone) => {
                removed.extend(gone.removed.iter().map(|it| it.display().to_string()));
                kept.extend(
                    gone.kept.iter().map(|it| format!("{}: {}", it.path.display(), it.reason)),
                );
            }
            Err(error) => kept.push(chain(&error)),
        }
    }

    /// T-3: the team's folders, then the scratchpad; a step that fails does not stop the rest.
    pub(super) fn remove_team(
        &mut self,
        team: &Name,
        session: &SessionId,
        (cwd, tmp): (&str, Option<String>),
        reply: Option<&ReplyTo>,
    ) {
        let (mut removed, mut kept) = (Vec::new(), Vec::new());
        self.remove_team_files(team, &mut removed, &mut kept);
        if let Some(held) = self.scratchpads.remove(session).map(|it| it.scratchpad) {
            remove_scratchpad(held, &mut removed, &mut kept);
            // The session goes on, and its agents know the path.
            self.open(session, cwd, tmp, true);
        }
        self.tell(Input::TeamRemoved { team: team.clone(), all: kept.is_empty() });
        if let Some(reply) = reply {
            answer_call(reply, Ok(Response::TeamDeleted { name: team.to_string(), removed, kept }));
        }
    }

    pub(super) fn write_team(&self, write: TeamWrite) {
        let TeamWrite { team, file, merged, tasks } = write;
        let mut is_held = false;
        match self.files.write_team(&file, &merged) {
            Ok(Replaced::Ours) => {}
            Ok(Replaced::Held) => is_held = true,
            Ok(Replaced::Edited(theirs)) => self.edited(Outside::Edited(theirs)),
            Ok(Replaced::Damaged(aside)) => {
                self.edited(Outside::Damaged { team: file.name.clone(), aside });
            }
            Err(error) => self.warn(&file.lead_session_id, chain(&error)),
        }
        for task in &tasks {
            match self.files.write_task(&file.name, task) {
                Ok(replaced) => self.task_replaced(&file, task, replaced),
                Err(error) => self.warn(&file.lead_session_id, chain(&error)),
            }
        }
        if let Some(watch) = &self.watch {
            watch.add(&file.name);
        }
        if is_held { self.again_later(team) } else { self.team_written(team) }
    }

    fn team_written(&self, team: Name) {
        // Fails only when the reactor has ended.
        let _told = self.world.reactor.blocking_send(Arrival::TeamWritten(team));
    }

    /// Schedules another write of a team's files, with their content at that time.
    fn again_later(&self, team: Name) {
        let reactor = self.world.reactor.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(HELD_MS)).await;
            // Fails only when the reactor has ended.
            let _told = reactor.send(Arrival::TeamHeld(team)).await;
        });
    }

    pub(super) fn task_replaced(&self, file: &TeamFile, task: &TaskFile, replaced: TaskReplaced) {
        let (id, team) = (&task.id, &file.name);
        match replaced {
            TaskReplaced::Ours => {}
            TaskReplaced::Edited(edit) => self.edited(Outside::TaskEdited(edit)),
            TaskReplaced::Behind(found) => self.warn(
                &file.lead_session_id,
                format!(
                    "the file of task {id} of team {team} said `{}` from before coordd started, coordd knows `{}`; the file was written again. \
                     Changes made while coordd was away have to be made again",
                    found.status, task.status
                ),
            ),
            TaskReplaced::Another(aside) => self.degraded(format!(
                "another program wrote a task with the number {id} of team {team}, which is in use here; its file is kept as {}. \
                 `coordctl task add` adds it under a new number",
                aside.display()
            )),
            TaskReplaced::Damaged(aside) => self.degraded(task_damaged(id, team, &aside, true)),
        }
    }

    /// Another program changed a team file: a valid edit is merged, an invalid one is set aside and
    /// reported (T-2).
    pub(super) fn edited(&self, outside: Outside) {
        match outside {
            Outside::Edited(file) => {
                let (Ok(team), Ok(text)) = (Name::new(&file.name), serde_json::to_string(&file))
                else {
                    return;
                };
                self.tell(Input::TeamEdited { team, description: file.description, outside: text });
            }
            Outside::Damaged { team, aside } => {
                let aside = aside.display();
                self.degraded(format!("the file of team {team} was not a valid team file; it is kept as {aside}, and the last good state was restored"));
            }
            Outside::Deleted { team } => {
                self.warn("", format!("the file of team {team} was deleted; it was written again. `coordctl team delete` removes a team"));
            }
            Outside::TaskEdited(edit) => {
                let Ok(team) = Name::new(&edit.team) else { return };
                let task = edit.number;
                self.tell(Input::TaskEdited { team, task, edit: Box::new(difference(&edit)) });
            }
            Outside::TaskDamaged { team, number, aside, restored } => {
                self.degraded(task_damaged(&number.to_string(), &team, &aside, restored));
            }
            Outside::TasksDeleted { team, numbers } => {
                let count = numbers.len();
                let numbers: Vec<_> =
                    numbers.iter().take(TASKS_NAMED_MAX).map(ToString::to_string).collect();
                let numbers = numbers.join(", ");
                self.warn("", format!("{count} files of tasks of team {team} were deleted ({numbers}); they were written again. Complete a task that is no longer wanted"));
            }
        }
    }
}

fn task_damaged(id: &str, team: &str, aside: &Path, restored: bool) -> String {
    let aside = aside.display();
    let then = if restored { ", and the last good state was restored" } else { "" };
    format!(
        "the file of task {id} of team {team} was not a valid task file; it is kept as {aside}{then}"
    )
}

/// An outside edit of a task, or a whole task that another program created.
fn difference(edit: &TaskEdit) -> Edit {
    let (before, now) = (edit.before.as_ref(), &edit.now);
    let is_new = |is_same: fn(&TaskFile, &TaskFile) -> bool| {
        before.is_none_or(|before| !is_same(before, now))
    };
    let status = match now.status.as_str() {
        "in_progress" => TaskStatus::InProgress,
        "completed" => TaskStatus::Completed,
        _ => TaskStatus::Pending,
    };
    let blocked_by = || now.blocked_by.iter().filter_map(|it| number_of(it)).collect();
    Edit {
        subject: is_new(|a, b| a.subject == b.subject).then(|| now.subject.clone()),
        description: is_new(|a, b| a.description == b.description).then(|| now.description.clone()),
        status: is_new(|a, b| a.status == b.status).then_some(status),
        owner: is_new(|a, b| a.owner == b.owner).then(|| now.owner.clone().unwrap_or_default()),
        blocked_by: is_new(|a, b| a.blocked_by == b.blocked_by).then(blocked_by),
    }
}
