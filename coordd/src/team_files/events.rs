//! From what the kernel says to whose file may have changed. It must not look at a file.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use notify::RecommendedWatcher;
use notify::event::{AccessKind, AccessMode, EventKind, Flag};

use super::tasks::number_in;
use super::{CONFIG, TeamFiles};

/// What the thread that judges is told.
pub(super) enum Signal {
    Add(String),
    Remove(String),
    Changed(String),
    /// A task's file, or the whole folder of tasks.
    TaskChanged(String, Option<u32>),
}

/// Turns events into the names of teams and tasks. It runs on the watcher's own thread and never
/// waits.
pub(super) fn watcher(
    files: &TeamFiles,
    signals: SyncSender<Signal>,
    missed: Arc<AtomicBool>,
) -> notify::Result<RecommendedWatcher> {
    let (teams, tasks) = (files.path("teams"), files.path("tasks"));
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else {
            missed.store(true, Ordering::Relaxed);
            return;
        };
        if event.flag() == Some(Flag::Rescan) {
            missed.store(true, Ordering::Relaxed);
        }
        if !is_change(event.kind) {
            return;
        }
        for path in &event.paths {
            let team = team_of(path, &teams).map(Signal::Changed);
            let signal = team.or_else(|| task_of(path, &tasks));
            if signal.is_some_and(|signal| signals.try_send(signal).is_err()) {
                missed.store(true, Ordering::Relaxed);
            }
        }
    })
}

/// Looking at a file is an event too, and ours would never end.
pub(crate) fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
        EventKind::Access(_) => false,
    }
}

/// The team whose file, or whose whole folder, a path is.
fn team_of(path: &Path, teams: &Path) -> Option<String> {
    let mut names = path.strip_prefix(teams).ok()?.iter();
    let team = names.next()?.to_str()?;
    let concerns = names.next().is_none_or(|name| name == OsStr::new(CONFIG));
    (concerns && names.next().is_none()).then(|| team.to_owned())
}

/// The task whose file, or the team whose whole folder of tasks, a path is.
fn task_of(path: &Path, tasks: &Path) -> Option<Signal> {
    let mut names = path.strip_prefix(tasks).ok()?.iter();
    let team = names.next()?.to_str()?.to_owned();
    match names.next() {
        None => Some(Signal::TaskChanged(team, None)),
        Some(name) if names.next().is_none() => {
            Some(Signal::TaskChanged(team, Some(number_in(name.to_str()?)?)))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_and_the_folder_concern_a_team() {
        let task = |path: &str| task_of(Path::new(path), Path::new("/h/.claude/tasks"));
        let is = |path: &str, wanted: Option<u32>| matches!(task(path), Some(Signal::TaskChanged(team, it)) if team == "alpha" && it == wanted);
        assert!(is("/h/.claude/tasks/alpha", None));
        assert!(is("/h/.claude/tasks/alpha/12.json", Some(12)));
        for path in [
            "/h/.claude/tasks",
            "/h/.claude/tasks/alpha/.lock",
            "/h/.claude/tasks/alpha/1.json/2.json",
        ] {
            assert!(task(path).is_none(), "{path}");
        }
        let of = |path: &str| team_of(Path::new(path), Path::new("/h/.claude/teams"));
        assert_eq!(of("/h/.claude/teams/alpha").as_deref(), Some("alpha"));
        assert_eq!(of("/h/.claude/teams/alpha/config.json").as_deref(), Some("alpha"));
        for path in [
            "/h/.claude/teams",
            "/h/.claude/teams/alpha/inboxes",
            "/h/.claude/teams/alpha/config.json/x",
            "/x",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
