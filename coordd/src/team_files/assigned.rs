//! Tasks that Claude Code has told their new owner of itself, so that coordd does not tell it once
//! more.
//!
//! Observed with 2.1.150 and 2.1.332: the program that gives a task an owner writes the task's
//! file, and then an entry into the owner's inbox. To coordd the first is an edit of the file by
//! somebody, for which it would write such an entry too. It must not open a file.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proto::teammate::{Entry, Said, Signal};

/// How far apart the edit, as coordd took it over, and the entry may be: a writer makes both in one
/// go, and coordd waits up to 4 s for a file that is half written.
const APART_MS_MAX: u64 = 10_000;

/// Entries that are remembered: more than a team is told in so short a time.
const REMEMBERED_MAX: usize = 1_000;

/// The task that a message for a member assigns to it, where its file was written by somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assigns {
    pub(crate) task: String,
    /// When that was taken over.
    pub(crate) at_ms: u64,
}

impl Assigns {
    /// Whether an entry of others says the same.
    pub(super) fn is_said_by(&self, entry: &Entry) -> bool {
        let said_ms = || {
            let at: jiff::Timestamp = entry.timestamp.parse().ok()?;
            u64::try_from(at.as_millisecond()).ok()
        };
        assigned_by_others(entry).is_some_and(|it| it == self.task)
            && said_ms().is_some_and(|it| it.abs_diff(self.at_ms) <= APART_MS_MAX)
    }
}

/// The task that an entry of others assigns to the owner of the inbox.
pub(super) fn assigned_by_others(entry: &Entry) -> Option<String> {
    if entry.message().is_some() {
        return None;
    }
    match Said::read(&entry.text) {
        Said::Signal(Signal::TaskAssignment { task_id, .. }) => Some(task_id),
        Said::Signal(_) | Said::Text(_) => None,
    }
}

/// What members were told of by others and may have taken out since.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    seen: BTreeMap<(String, String), Instant>,
}

impl Remembered {
    /// These stand in the member's inbox now.
    pub(crate) fn note(&mut self, member: &str, tasks: Vec<String>, now: Instant) {
        self.seen.retain(|_, at| now < *at + Duration::from_millis(APART_MS_MAX));
        for task in tasks {
            if self.seen.len() < REMEMBERED_MAX {
                self.seen.entry((member.to_owned(), task)).or_insert(now);
            }
        }
    }

    /// Whether the member was told of it a moment ago.
    pub(crate) fn was_told(&self, member: &str, assigns: &Assigns, now: Instant) -> bool {
        let key = (member.to_owned(), assigns.task.clone());
        self.seen.get(&key).is_some_and(|at| now < *at + Duration::from_millis(APART_MS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str, timestamp: &str, ours: bool) -> Entry {
        let msg_id = ours.then(|| "coordd-s-m1".to_owned());
        let (text, timestamp) = (text.to_owned(), timestamp.to_owned());
        Entry { from: "m2".to_owned(), text, timestamp, msg_id, ..Entry::default() }
    }

    #[test]
    fn t2_what_others_have_said_of_a_task_is_known_by_its_number_and_its_time() {
        let told = r#"{"type":"task_assignment","taskId":"3","subject":"a","assignedBy":"m2"}"#;
        let at = "2026-11-30T11:59:06.332Z";
        let assigns = |task: &str, at_ms| Assigns { task: task.to_owned(), at_ms };
        let table = [
            ("the same", entry(told, at, false), assigns("3", 1_796_039_946_500), true),
            ("another task", entry(told, at, false), assigns("4", 1_796_039_946_500), false),
            ("long ago", entry(told, at, false), assigns("3", 1_796_039_960_000), false),
            ("of ours", entry(told, at, true), assigns("3", 1_796_039_946_500), false),
            ("words", entry("3", at, false), assigns("3", 1_796_039_946_500), false),
            ("no time", entry(told, "", false), assigns("3", 1_796_039_946_500), false),
        ];
        for (what, entry, assigns, same) in table {
            assert_eq!(assigns.is_said_by(&entry), same, "{what}");
        }
        let mut remembered = Remembered::default();
        let now = Instant::now();
        remembered.note("m1", vec!["3".to_owned()], now);
        let later = now + Duration::from_millis(APART_MS_MAX);
        assert!(remembered.was_told("m1", &assigns("3", 0), now));
        assert!(!remembered.was_told("m2", &assigns("3", 0), now));
        assert!(!remembered.was_told("m1", &assigns("3", 0), later));
    }
}
