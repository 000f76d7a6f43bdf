//! The files of tasks: written with what others added to them, and compared with what was last
//! right.
//!
//! What stands in a file is ours, or an edit of one that we know, or new, or no task file. It must
//! not decide what an edit means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proto::team::TaskFile;

use super::judge::{Outside, Verdict};
use super::{TeamFiles, TeamFilesError, pretty, set_aside, team_name, write};
use crate::dir::{Content, Dir, FileError};

/// Longest task file that is read: what the core takes, with every character escaped, and as much
/// again for what it does not know.
const TASK_BYTES_MAX: usize = 512 * 1024;

/// Files in a team's folder of tasks that are looked at: four times as many as a team has tasks.
const ENTRIES_MAX: usize = 4_000;

/// Files of others that are no tasks of the team and are remembered, so that each is told of once.
const STRANGERS_MAX: usize = 1_000;

/// The last right states of a team's task files, by number.
pub(super) type KnownTasks = BTreeMap<u32, KnownTask>;

#[derive(Clone, Debug)]
pub(super) struct KnownTask {
    bytes: Vec<u8>,
    task: TaskFile,
    /// Whether we have written it, and write it again when it is gone.
    is_ours: bool,
}

/// What others made of a task's file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskEdit {
    pub(crate) team: String,
    pub(crate) number: u32,
    /// As it was; none for a task that others made.
    pub(crate) before: Option<TaskFile>,
    pub(crate) now: TaskFile,
}

/// What stood where a task's file was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TaskReplaced {
    /// Nothing, or what we had written.
    Ours,
    /// What somebody else had made of it, unseen until now. It is to be merged and written again.
    Edited(Box<TaskEdit>),
    /// The same task in another state, from before this daemon: a write that a crash prevented, or
    /// an edit that nobody saw.
    Behind(Box<TaskFile>),
    /// A task of others under the same number. It is kept under this name.
    Another(PathBuf),
    /// What was no task file. It is kept under this name.
    Damaged(PathBuf),
}

impl TeamFiles {
    /// Writes a task's file, with the fields that others added and this build does not know. The
    /// same again changes nothing.
    pub(crate) fn write_task(
        &self,
        team: &str,
        task: &TaskFile,
    ) -> Result<TaskReplaced, TeamFilesError> {
        let team = team_name(team)?;
        let bad = || TeamFilesError::BadTask { id: task.id.chars().take(64).collect() };
        let number = number_of(&task.id).ok_or_else(bad)?;
        let name = file_name(number);
        let mut state = self.lock();
        let folder = self.folder("tasks", team)?;
        let tasks = state.tasks.entry(team.to_owned()).or_default();
        let known = tasks.get(&number);
        let found = match folder.read(Path::new(&name), TASK_BYTES_MAX) {
            Ok(content) => Some(parse(&content, number).map(|it| (it, content.bytes))),
            Err(FileError::Missing { .. }) => None,
            Err(_) => Some(None),
        };
        let mut whole = task.clone();
        let theirs = found.as_ref().and_then(|it| it.as_ref()).map(|(it, _)| it);
        keep_unknown(&mut whole, theirs.or(known.map(|it| &it.task)));
        let replaced = match found {
            None => TaskReplaced::Ours,
            Some(None) => TaskReplaced::Damaged(set_aside(&folder, team, &name)?),
            Some(Some((found, _))) if says_the_same(&found, &whole) => TaskReplaced::Ours,
            // One of ours, or one that others made and the core has taken in.
            Some(Some((found, bytes))) => match known
                .filter(|it| it.is_ours || is_about_the_same(&it.task, &whole))
            {
                Some(known) if known.bytes == bytes => TaskReplaced::Ours,
                Some(known) if says_the_same(&known.task, &found) => TaskReplaced::Ours,
                Some(known) => TaskReplaced::Edited(Box::new(TaskEdit {
                    team: team.to_owned(),
                    number,
                    before: Some(known.task.clone()),
                    now: found,
                })),
                None if is_about_the_same(&found, &whole) => TaskReplaced::Behind(Box::new(found)),
                None => {
                    whole.unknown.clone_from(&task.unknown);
                    TaskReplaced::Another(set_aside(&folder, team, &name)?)
                }
            },
        };
        let bytes = pretty(team, &whole)?;
        // Remembered first: a crash between the two is repaired by the next write.
        let known = KnownTask { bytes: bytes.clone(), task: whole, is_ours: true };
        tasks.insert(number, known);
        write(&folder, team, &name, &bytes)?;
        Ok(replaced)
    }

    /// Compares a task's file with its last right state.
    pub(super) fn judge_task(
        &self,
        team: &str,
        number: u32,
        is_final: bool,
    ) -> Result<Verdict, TeamFilesError> {
        let mut state = self.lock();
        let Some(tasks) = state.tasks.get_mut(team) else { return Ok(Verdict::Same) };
        let folder = self.folder("tasks", team)?;
        let name = file_name(number);
        let content = match folder.read(Path::new(&name), TASK_BYTES_MAX) {
            Ok(content) if tasks.get(&number).is_some_and(|task| task.bytes == content.bytes) => {
                return Ok(Verdict::Same);
            }
            Ok(content) => Some(content),
            Err(FileError::Missing { .. }) => {
                return gone(&folder, team, number, tasks, is_final);
            }
            Err(_) => None,
        };
        let Some(found) = content.as_ref().and_then(|it| parse(it, number)) else {
            if !is_final {
                return Ok(Verdict::Unsettled);
            }
            let aside = set_aside(&folder, team, &name)?;
            let restored = match tasks.get(&number).filter(|task| task.is_ours) {
                Some(known) => write(&folder, team, &name, &known.bytes).map(|()| true)?,
                None => false,
            };
            let team = team.to_owned();
            return Ok(Verdict::Outside(Outside::TaskDamaged { team, number, aside, restored }));
        };
        let bytes = content.map(|it| it.bytes).unwrap_or_default();
        if !tasks.contains_key(&number)
            && tasks.values().filter(|task| !task.is_ours).count() >= STRANGERS_MAX
        {
            tracing::warn!(
                team,
                number,
                "too many files of tasks that are none; one is passed over"
            );
            return Ok(Verdict::Same);
        }
        let is_ours = tasks.get(&number).is_some_and(|task| task.is_ours);
        let known = KnownTask { bytes, task: found.clone(), is_ours };
        let before = tasks.insert(number, known).map(|task| task.task);
        if before.as_ref().is_some_and(|it| says_the_same(it, &found)) {
            return Ok(Verdict::Same);
        }
        // A stranger that changes is as new as it was.
        let before = before.filter(|_| is_ours);
        let edit = TaskEdit { team: team.to_owned(), number, before, now: found };
        Ok(Verdict::Outside(Outside::TaskEdited(Box::new(edit))))
    }

    /// The numbers of all tasks of a team that are known, or have a file. Makes the folder where it
    /// is missing.
    pub(super) fn task_numbers(&self, team: &str) -> Result<Vec<u32>, TeamFilesError> {
        let state = self.lock();
        let Some(tasks) = state.tasks.get(team) else { return Ok(Vec::new()) };
        let mut numbers: Vec<u32> = tasks.keys().copied().collect();
        let folder = self.folder("tasks", team)?;
        let (names, cut) =
            folder.names(ENTRIES_MAX).map_err(|source| TeamFilesError::Folder { source })?;
        if cut {
            tracing::warn!(team, "there are too many files in a folder of tasks to look at all");
        }
        numbers.extend(names.iter().filter_map(|name| number_in(name.to_str()?)));
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}

/// A writer that replaces a file may be between two steps; later it is gone, and ours is written
/// again.
fn gone(
    folder: &Dir,
    team: &str,
    number: u32,
    tasks: &mut KnownTasks,
    is_final: bool,
) -> Result<Verdict, TeamFilesError> {
    match tasks.get(&number) {
        None => Ok(Verdict::Same),
        Some(known) if known.is_ours && !is_final => Ok(Verdict::Unsettled),
        Some(known) if known.is_ours => {
            write(folder, team, &file_name(number), &known.bytes)?;
            Ok(Verdict::Outside(Outside::TasksDeleted {
                team: team.to_owned(),
                numbers: vec![number],
            }))
        }
        Some(_) => {
            tasks.remove(&number);
            Ok(Verdict::Same)
        }
    }
}

/// Adds what others wrote and the task itself says nothing about.
fn keep_unknown(task: &mut TaskFile, from: Option<&TaskFile>) {
    for (key, value) in from.into_iter().flat_map(|it| &it.unknown) {
        if !task.unknown.contains_key(key) {
            task.unknown.insert(key.clone(), value.clone());
        }
    }
}

/// Whether two states differ at most in what this build does not know.
fn says_the_same(one: &TaskFile, other: &TaskFile) -> bool {
    is_about_the_same(one, other)
        && (&one.status, owner(one)) == (&other.status, owner(other))
        && (&one.blocks, &one.blocked_by) == (&other.blocks, &other.blocked_by)
}

/// Whether two states are of one task: only others change what it is about.
fn is_about_the_same(one: &TaskFile, other: &TaskFile) -> bool {
    (&one.id, &one.subject, &one.description) == (&other.id, &other.subject, &other.description)
}

fn owner(task: &TaskFile) -> &str {
    task.owner.as_deref().unwrap_or_default()
}

/// A task file under its own number that makes sense. None for anything else.
fn parse(content: &Content, number: u32) -> Option<TaskFile> {
    if content.cut {
        return None;
    }
    let task: TaskFile = serde_json::from_slice(&content.bytes).ok()?;
    let makes_sense = number_of(&task.id) == Some(number)
        && matches!(task.status.as_str(), "pending" | "in_progress" | "completed")
        && task.blocked_by.iter().all(|it| number_of(it).is_some());
    makes_sense.then_some(task)
}

fn file_name(number: u32) -> String {
    format!("{number}.json")
}

/// The task whose file has this name.
pub(super) fn number_in(file_name: &str) -> Option<u32> {
    number_of(file_name.strip_suffix(".json")?)
}

/// A task's number as it is written: from 1, without zeros before it.
pub(crate) fn number_of(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{task, team};
    use super::*;

    struct Fixture {
        home: tempfile::TempDir,
        files: TeamFiles,
    }

    impl Fixture {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let files = TeamFiles::new(home.path());
            files.write_team(&team("alpha", "one"), "").unwrap();
            Self { home, files }
        }

        fn path(&self, number: u32) -> PathBuf {
            self.home.path().join(format!(".claude/tasks/alpha/{number}.json"))
        }

        fn put(&self, number: u32, text: &str) {
            fs::write(self.path(number), text).unwrap();
        }

        fn text(&self, number: u32) -> String {
            fs::read_to_string(self.path(number)).unwrap()
        }

        fn write(&self, task: &TaskFile) -> TaskReplaced {
            self.files.write_task("alpha", task).unwrap()
        }

        fn judge(&self, number: u32, is_final: bool) -> Verdict {
            self.files.judge_task("alpha", number, is_final).unwrap()
        }

        fn outside(&self, number: u32) -> Outside {
            match self.judge(number, true) {
                Verdict::Outside(outside) => outside,
                Verdict::Same | Verdict::Unsettled => panic!("{}", self.text(number)),
            }
        }
    }

    fn edit(number: u32, before: Option<&TaskFile>, now: &TaskFile) -> TaskEdit {
        let (before, now) = (before.cloned(), now.clone());
        TaskEdit { team: "alpha".to_owned(), number, before, now }
    }

    fn json(task: &TaskFile) -> String {
        serde_json::to_string(task).unwrap()
    }

    const WITH_MORE: &str =
        r#"{"id":"1","subject":"x","status":"pending","activeForm":"doing x","metadata":{"k":1}}"#;

    #[test]
    fn t2_d24_what_others_added_to_a_task_survives_our_writes() {
        let fixture = Fixture::new();
        fixture.write(&task("1", "pending"));
        // Not yet seen, then seen, then gone, then after a start.
        fixture.put(1, WITH_MORE);
        assert_eq!(fixture.write(&task("1", "in_progress")), TaskReplaced::Ours);
        let is_kept = |fixture: &Fixture, status: &str| {
            let text = fixture.text(1);
            assert!(text.contains("doing x") && text.contains("\"k\": 1"), "{text}");
            assert!(text.contains(status), "{text}");
        };
        is_kept(&fixture, "in_progress");
        assert!(matches!(fixture.judge(1, true), Verdict::Same));
        fs::remove_file(fixture.path(1)).unwrap();
        fixture.write(&task("1", "completed"));
        is_kept(&fixture, "completed");
        let files = TeamFiles::new(fixture.home.path());
        files.write_task("alpha", &task("1", "completed")).unwrap();
        is_kept(&fixture, "completed");
    }

    #[test]
    fn t2_only_what_a_task_says_is_an_edit() {
        let fixture = Fixture::new();
        let ours = task("1", "pending");
        fixture.write(&ours);
        assert!(matches!(fixture.judge(1, true), Verdict::Same));
        fixture.put(1, WITH_MORE);
        assert!(matches!(fixture.judge(1, true), Verdict::Same));
        let theirs = task("1", "completed");
        fixture.put(1, &json(&theirs));
        let Outside::TaskEdited(told) = fixture.outside(1) else { panic!() };
        assert_eq!(told.before.as_ref().map(|it| it.status.as_str()), Some("pending"));
        assert_eq!(told.now, theirs);
        assert!(matches!(fixture.judge(1, true), Verdict::Same), "it is told once");
    }

    #[test]
    fn t4_rel46_an_edit_that_was_not_seen_is_handed_over_before_it_is_overwritten() {
        let fixture = Fixture::new();
        let ours = task("1", "pending");
        fixture.write(&ours);
        let theirs = task("1", "completed");
        fixture.put(1, &json(&theirs));
        let told = TaskReplaced::Edited(Box::new(edit(1, Some(&ours), &theirs)));
        assert_eq!(fixture.write(&ours), told);
        assert!(fixture.text(1).contains("pending"));
        assert_eq!(fixture.write(&ours), TaskReplaced::Ours);
    }

    /// The journal is ahead of the file where a crash came between, and looks like an edit; the
    /// journal is right.
    #[test]
    fn t4_what_a_file_says_from_before_a_start_is_told_and_does_not_count() {
        let fixture = Fixture::new();
        fixture.write(&task("1", "pending"));
        let files = TeamFiles::new(fixture.home.path());
        let found = files.write_task("alpha", &task("1", "completed")).unwrap();
        assert!(matches!(found, TaskReplaced::Behind(found) if found.status == "pending"));
        assert!(fixture.text(1).contains("completed"));
    }

    #[test]
    fn t4_a_task_that_others_made_is_told_once_and_becomes_ours_when_it_is_written() {
        let fixture = Fixture::new();
        let theirs: TaskFile = serde_json::from_str(WITH_MORE).unwrap();
        fixture.put(1, WITH_MORE);
        assert_eq!(fixture.files.task_numbers("alpha").unwrap(), [1]);
        assert_eq!(fixture.outside(1), Outside::TaskEdited(Box::new(edit(1, None, &theirs))));
        assert!(matches!(fixture.judge(1, true), Verdict::Same));
        // It changes before it is taken in.
        let later = task("1", "completed");
        fixture.put(1, &json(&later));
        let told = TaskReplaced::Edited(Box::new(edit(1, Some(&theirs), &later)));
        assert_eq!(fixture.write(&task("1", "pending")), told);
        fs::remove_file(fixture.path(1)).unwrap();
        assert!(
            matches!(fixture.outside(1), Outside::TasksDeleted { numbers, .. } if numbers == [1])
        );
        assert!(fixture.text(1).contains("pending"));
    }

    #[test]
    fn t4_another_task_under_the_number_of_a_new_one_is_kept() {
        let fixture = Fixture::new();
        let theirs = r#"{"id":"1","subject":"of others","status":"pending"}"#;
        for is_seen in [false, true] {
            fixture.put(1, theirs);
            if is_seen {
                assert!(matches!(fixture.outside(1), Outside::TaskEdited(_)));
            }
            let TaskReplaced::Another(aside) = fixture.write(&task("1", "pending")) else {
                panic!()
            };
            assert_eq!(fs::read_to_string(aside).unwrap(), theirs);
            assert!(fixture.text(1).contains("\"x\""));
            fixture.files.remove("alpha").unwrap();
            fixture.files.write_team(&team("alpha", "one"), "").unwrap();
        }
        // One that is no task of the team may go as it came.
        fixture.put(2, r#"{"id":"2","subject":"of others","status":"pending"}"#);
        assert!(matches!(fixture.outside(2), Outside::TaskEdited(_)));
        fs::remove_file(fixture.path(2)).unwrap();
        assert!(matches!(fixture.judge(2, true), Verdict::Same));
        assert!(!fixture.path(2).exists());
    }

    const NO_TASKS: [&str; 7] = [
        "",
        "{",
        "[1]",
        r#"{"id":"2","subject":"x","status":"pending"}"#,
        r#"{"id":"1","subject":"x","status":"paused"}"#,
        r#"{"id":"1","subject":"x","status":"pending","blockedBy":["a"]}"#,
        r#"{"id":"1","status":"pending"}"#,
    ];

    #[test]
    fn t2_rel41_what_is_no_task_file_is_set_aside_and_the_last_right_state_restored() {
        let fixture = Fixture::new();
        fixture.write(&task("1", "pending"));
        let good = fixture.text(1);
        for bad in NO_TASKS {
            fixture.put(1, bad);
            assert!(matches!(fixture.judge(1, false), Verdict::Unsettled), "{bad}");
            let Outside::TaskDamaged { aside, restored: true, .. } = fixture.outside(1) else {
                panic!("{bad}")
            };
            assert_eq!(fs::read_to_string(&aside).unwrap(), bad);
            assert!(aside.to_str().unwrap().contains("1.json.corrupt-"));
            assert_eq!(fixture.text(1), good);
            // Found by a write.
            fixture.put(1, bad);
            let TaskReplaced::Damaged(aside) = fixture.write(&task("1", "pending")) else {
                panic!("{bad}")
            };
            assert_eq!(fs::read_to_string(aside).unwrap(), bad);
            assert_eq!(fixture.text(1), good);
        }
        fixture.put(2, "{");
        assert!(matches!(fixture.outside(2), Outside::TaskDamaged { restored: false, .. }));
        assert!(!fixture.path(2).exists());
    }

    #[test]
    fn t2_a_task_file_that_is_gone_is_written_again() {
        let fixture = Fixture::new();
        fixture.write(&task("1", "pending"));
        let good = fixture.text(1);
        fs::remove_dir_all(fixture.path(1).parent().unwrap()).unwrap();
        assert!(matches!(fixture.judge(1, false), Verdict::Unsettled));
        let gone = Outside::TasksDeleted { team: "alpha".to_owned(), numbers: vec![1] };
        assert_eq!(fixture.outside(1), gone);
        assert_eq!(fixture.text(1), good);
        // But not once the team is removed.
        fixture.files.remove("alpha").unwrap();
        assert!(matches!(fixture.judge(1, true), Verdict::Same));
        assert!(!fixture.path(1).exists());
    }

    #[test]
    fn only_numbers_are_tasks() {
        assert_eq!(number_in("12.json"), Some(12));
        for name in
            ["0.json", "01.json", "+1.json", ".json", "1", "1.json.lock", ".1.json", "x.json"]
        {
            assert_eq!(number_in(name), None, "{name}");
        }
    }
}
