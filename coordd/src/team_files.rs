//! Teams and tasks as files, where Claude Code has them: a projection of what the core knows.
//!
//! ```text
//! <home>/.claude/teams/<team>/config.json, inboxes/
//! <home>/.claude/tasks/<team>/<n>.json
//! ```
//!
//! Each file is replaced in one step, a team's under the lock that Claude Code takes too. What
//! others change in them is noticed by [`watch`]; here only the last state that was right is kept,
//! so that an edit can be told from a write of our own and damage can be undone. What others wrote
//! into a team's file and we have not merged yet is never written over. It must not decide what an
//! edit means.

pub(crate) mod assigned;
pub(crate) mod events;
pub(crate) mod inbox;
mod judge;
mod lock;
pub(crate) mod tasks;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use proto::team::TeamFile;

use self::lock::{Lock, LockError};
use self::tasks::KnownTasks;
use crate::dir::{Content, Demand, Dir, DirError, FileError, Kept, Renamed, Replacement};

const CONFIG: &str = "config.json";

/// Longest team file that is read. A member takes a few hundred bytes.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Longest name of a team.
const NAME_BYTES_MAX: usize = 64;

/// Why a team's files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TeamFilesError {
    #[error(
        "{name:?} cannot be the name of a team; use at most {NAME_BYTES_MAX} of `a-z`, `0-9` and `-`, beginning with a letter or digit"
    )]
    BadTeam { name: String },
    #[error("{id:?} cannot be the number of a task; use a number from 1, without zeros before it")]
    BadTask { id: String },
    #[error("the folder for team files cannot be used; fix what is named")]
    Folder { source: DirError },
    #[error("the file of team {team} cannot be locked; fix what is named")]
    Lock { team: String, source: LockError },
    #[error("a file of team {team} cannot be written; fix what is named")]
    File { team: String, source: FileError },
    #[error(
        "a file of team {team} cannot be written as JSON; this is a bug in coordd, please report it"
    )]
    Unserialisable { team: String, source: serde_json::Error },
}

/// The files of all teams of a user.
#[derive(Debug)]
pub(crate) struct TeamFiles {
    home: PathBuf,
    /// Held while a file is read or written, so that no write of ours looks like one of others.
    known: Mutex<State>,
}

/// The last right states, by team.
#[derive(Debug, Default)]
struct State {
    teams: BTreeMap<String, Known>,
    tasks: BTreeMap<String, KnownTasks>,
}

/// The last right state of a team file.
#[derive(Clone, Debug)]
struct Known {
    bytes: Vec<u8>,
    team: TeamFile,
    /// What we wrote last.
    written: Vec<u8>,
}

/// What stood where a team file was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Replaced {
    /// Nothing, or what we had written.
    Ours,
    /// What somebody else made of it, which is not in what was to be written. It stands there
    /// still, and is to be merged first.
    Edited(TeamFile),
    /// What was no team file. It is kept under this name.
    Damaged(PathBuf),
    /// What another program is about to change. Nothing was written.
    Held,
}

/// What became of a team's folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) removed: Vec<PathBuf>,
    pub(crate) kept: Vec<Kept>,
}

impl TeamFiles {
    /// The files below `<home>/.claude`. Nothing is made before something is written.
    pub(crate) fn new(home: &Path) -> Self {
        Self { home: home.into(), known: Mutex::default() }
    }

    #[cfg(test)]
    fn config_path(&self, team: &str) -> PathBuf {
        self.path("teams").join(team).join(CONFIG)
    }

    /// Writes a team's file and makes its folders. The same again changes nothing. `merged` is what
    /// others wrote last of what is in it, as JSON: where something else stands, nothing is
    /// written. It waits for nobody.
    pub(crate) fn write_team(
        &self,
        team: &TeamFile,
        merged: &str,
    ) -> Result<Replaced, TeamFilesError> {
        let name = team_name(&team.name)?;
        let bytes = pretty(name, team)?;
        let mut state = self.lock();
        state.tasks.entry(name.to_owned()).or_default();
        self.folder("tasks", name)?;
        let folder = self.folder("teams", name)?;
        let failed = |source| TeamFilesError::Folder { source };
        folder.enter("inboxes", Demand::Repaired).map_err(failed)?;
        // Prepared before the lock is taken: Claude Code gives a change up that has waited for the lock for some 0.7 s,
        // and a disk may take longer than that.
        let prepared = replacement(&folder, name, CONFIG, &bytes)?;
        let Some(lock) = try_lock(&folder, name)? else { return Ok(Replaced::Held) };
        if prepared.is_none() && !stands(&folder, CONFIG, &bytes) {
            // Another program was quicker.
            return Ok(Replaced::Held);
        }
        let known = state.teams.get(name);
        let replaced = match folder.read(Path::new(CONFIG), FILE_BYTES_MAX) {
            Ok(content) => {
                // What we wrote may be another's by now: it changed, and came back to the same text.
                let ours = known
                    .is_some_and(|it| it.written == content.bytes && it.bytes == content.bytes);
                match parse(&content, name) {
                    _ if ours => Replaced::Ours,
                    Some(found) if found == *team || is_text_of(merged, &found) => Replaced::Ours,
                    Some(found) => {
                        let written = known.map(|it| it.written.clone()).unwrap_or_default();
                        let known = Known { bytes: content.bytes, team: found.clone(), written };
                        state.teams.insert(name.to_owned(), known);
                        return Ok(Replaced::Edited(found));
                    }
                    None => Replaced::Damaged(set_aside(&folder, name, CONFIG)?),
                }
            }
            Err(FileError::Missing { .. }) => Replaced::Ours,
            Err(_) => Replaced::Damaged(set_aside(&folder, name, CONFIG)?),
        };
        if !lock.is_held() {
            return Ok(Replaced::Held);
        }
        // Remembered first: a crash between the two is repaired by the next write.
        let known = Known { bytes: bytes.clone(), team: team.clone(), written: bytes.clone() };
        state.teams.insert(name.to_owned(), known);
        let Some(prepared) = prepared else { return Ok(replaced) };
        let failed = |source| TeamFilesError::File { team: name.to_owned(), source };
        let done = prepared.take_place().map_err(failed)?;
        drop(lock);
        done.sync().map_err(failed)?;
        Ok(replaced)
    }

    /// Removes a team's folders. What is not there is fine; what cannot be removed is named, and a
    /// second call goes on.
    pub(crate) fn remove(&self, team: &str) -> Result<Removed, TeamFilesError> {
        let team = team_name(team)?;
        let mut state = self.lock();
        state.teams.remove(team);
        state.tasks.remove(team);
        let mut result = Removed::default();
        let Some(claude) = self.claude(false)? else { return Ok(result) };
        for kind in ["teams", "tasks"] {
            let path = claude.path().join(kind).join(team);
            let parent = match claude.existing(kind, Demand::Shared) {
                Ok(Some(parent)) => parent,
                Ok(None) => continue,
                Err(error) => {
                    result.kept.push(Kept { path, reason: error.to_string() });
                    continue;
                }
            };
            match parent.remove_tree(team) {
                Ok(removal) if !removal.is_complete() => result.kept.extend(removal.kept),
                Ok(removal) if removal.removed > 0 => result.removed.push(path),
                Ok(_) => {}
                Err(error) => result.kept.push(Kept { path, reason: error.to_string() }),
            }
        }
        Ok(result)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in it is ever half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.home.join(".claude").join(kind)
    }

    /// The user's folder, which may be a link into another place and is left as it is.
    fn claude(&self, make: bool) -> Result<Option<Dir>, TeamFilesError> {
        let failed = |source| TeamFilesError::Folder { source };
        match Dir::base(&self.home.join(".claude")) {
            Ok(dir) => Ok(Some(dir)),
            Err(DirError::Missing { .. }) if make => {
                let home = Dir::base(&self.home).map_err(failed)?;
                Ok(Some(home.enter(".claude", Demand::Shared).map_err(failed)?.0))
            }
            Err(DirError::Missing { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// A team's folder, made where it is missing.
    fn folder(&self, kind: &str, team: &str) -> Result<Dir, TeamFilesError> {
        let failed = |source| TeamFilesError::Folder { source };
        let missing = || DirError::Missing { path: self.home.join(".claude") };
        let claude = self.claude(true)?.ok_or_else(|| failed(missing()))?;
        let (parent, _) = claude.enter(kind, Demand::Shared).map_err(failed)?;
        Ok(parent.enter(team, Demand::Repaired).map_err(failed)?.0)
    }
}

/// Lower case only: Claude Code forms different folders of other names.
fn team_name(name: &str) -> Result<&str, TeamFilesError> {
    let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    if (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(plain)
    {
        Ok(name)
    } else {
        Err(TeamFilesError::BadTeam { name: name.chars().take(NAME_BYTES_MAX).collect() })
    }
}

/// As Claude Code writes it: indented by two, no line end.
fn pretty(team: &str, value: &impl serde::Serialize) -> Result<Vec<u8>, TeamFilesError> {
    serde_json::to_vec_pretty(value)
        .map_err(|source| TeamFilesError::Unserialisable { team: team.to_owned(), source })
}

/// A team file that is about this team. None for anything else.
fn parse(content: &Content, team: &str) -> Option<TeamFile> {
    if content.cut {
        return None;
    }
    serde_json::from_slice(&content.bytes).ok().filter(|it: &TeamFile| it.name == team)
}

/// Compared as text, since it is kept as such: numbers may change a little when they are read once
/// more.
fn is_text_of(text: &str, team: &TeamFile) -> bool {
    serde_json::to_string(team).is_ok_and(|it| it == text)
}

/// The lock of a team's file. None while another program has it.
fn try_lock<'a>(folder: &'a Dir, team: &str) -> Result<Option<Lock<'a>>, TeamFilesError> {
    match Lock::try_take(folder, CONFIG) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held { .. }) => Ok(None),
        Err(source) => Err(TeamFilesError::Lock { team: team.to_owned(), source }),
    }
}

/// Whether this is the content of a file.
fn stands(dir: &Dir, name: &str, bytes: &[u8]) -> bool {
    let found = dir.read(Path::new(name), FILE_BYTES_MAX);
    found.is_ok_and(|found| !found.cut && found.bytes == bytes)
}

/// What is to replace a file. None where the same stands already.
fn replacement<'a>(
    dir: &'a Dir,
    team: &str,
    name: &str,
    bytes: &[u8],
) -> Result<Option<Replacement<'a>>, TeamFilesError> {
    if stands(dir, name, bytes) {
        return Ok(None);
    }
    let prepared = dir.replacement(name, bytes);
    prepared.map(Some).map_err(|source| TeamFilesError::File { team: team.to_owned(), source })
}

fn write(dir: &Dir, team: &str, name: &str, bytes: &[u8]) -> Result<(), TeamFilesError> {
    let Some(prepared) = replacement(dir, team, name, bytes)? else { return Ok(()) };
    let done = prepared.take_place().and_then(Renamed::sync);
    done.map_err(|source| TeamFilesError::File { team: team.to_owned(), source })
}

/// Renames what stands in the place of a file of ours, and returns where it is now.
fn set_aside(dir: &Dir, team: &str, name: &str) -> Result<PathBuf, TeamFilesError> {
    let name = dir
        .set_damage_aside(name)
        .map_err(|source| TeamFilesError::File { team: team.to_owned(), source })?;
    Ok(dir.path().join(name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use proto::team::TaskFile;

    use super::judge::Verdict;
    use super::tasks::TaskReplaced;
    use super::watch::Outside;
    use super::*;

    pub(super) fn team(name: &str, description: &str) -> TeamFile {
        let text = format!(
            r#"{{"name":"{name}","description":"{description}","createdAt":5,"leadAgentId":"team-lead@{name}",
                "leadSessionId":"s","members":[],"leadProcess":{{"pid":7}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    pub(super) fn task(id: &str, status: &str) -> TaskFile {
        serde_json::from_str(&format!(r#"{{"id":"{id}","subject":"x","status":"{status}"}}"#))
            .unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn t2_files_stand_where_claude_code_looks_and_are_closed() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        assert_eq!(files.write_team(&team("alpha", "one"), "").unwrap(), Replaced::Ours);
        assert_eq!(files.write_task("alpha", &task("1", "pending")).unwrap(), TaskReplaced::Ours);
        let config = home.path().join(".claude/teams/alpha/config.json");
        assert_eq!(files.config_path("alpha"), config);
        let text = fs::read_to_string(&config).unwrap();
        assert!(text.starts_with("{\n  \"name\": \"alpha\"") && text.ends_with('}'), "{text}");
        assert!(text.contains("leadProcess"), "unknown fields are kept");
        assert_eq!(mode(&config), 0o600);
        let task = home.path().join(".claude/tasks/alpha/1.json");
        assert_eq!(mode(&task), 0o600);
        for path in ["teams/alpha/inboxes", "teams/alpha", "tasks/alpha"] {
            assert_eq!(mode(&home.path().join(".claude").join(path)), 0o700, "{path}");
        }
    }

    #[test]
    fn t2_the_users_own_folder_is_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let real = tempfile::tempdir().unwrap();
        fs::set_permissions(real.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(real.path().join("teams")).unwrap();
        fs::set_permissions(real.path().join("teams"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink(real.path(), home.path().join(".claude")).unwrap();
        TeamFiles::new(home.path()).write_team(&team("alpha", "one"), "").unwrap();
        assert!(real.path().join("teams/alpha/config.json").exists());
        assert_eq!(mode(real.path()), 0o755);
        assert_eq!(mode(&real.path().join("teams")), 0o755);
    }

    #[test]
    fn rel46_an_edit_that_was_not_seen_is_handed_over_and_stands_until_it_is_merged() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        files.write_team(&team("alpha", "one"), "").unwrap();
        assert_eq!(files.write_team(&team("alpha", "two"), "").unwrap(), Replaced::Ours);
        let path = files.config_path("alpha");
        let write = |files: &TeamFiles, merged: Option<&TeamFile>| {
            let merged = merged.map(|it| serde_json::to_string(it).unwrap()).unwrap_or_default();
            files.write_team(&team("alpha", "three"), &merged).unwrap()
        };
        let by_hand = |text: &str| {
            let edited = team("alpha", text);
            fs::write(&path, serde_json::to_string(&edited).unwrap()).unwrap();
            edited
        };
        let edited = by_hand("by hand");
        for _ in 0..2 {
            assert_eq!(write(&files, None), Replaced::Edited(edited.clone()));
            assert!(fs::read_to_string(&path).unwrap().contains("by hand"), "it stands");
        }
        let again = by_hand("once more");
        assert_eq!(write(&files, Some(&edited)), Replaced::Edited(again.clone()));
        assert_eq!(write(&files, Some(&again)), Replaced::Ours);
        assert!(fs::read_to_string(&path).unwrap().contains("three"));
        // A daemon that has just started knows of no write of its own.
        let edited = by_hand("while it was away");
        let restarted = TeamFiles::new(home.path());
        assert_eq!(write(&restarted, None), Replaced::Edited(edited));
        fs::write(&path, "{").unwrap();
        let Replaced::Damaged(aside) = write(&restarted, None) else { panic!("it was damaged") };
        assert_eq!(fs::read_to_string(aside).unwrap(), "{");
        assert!(fs::read_to_string(path).unwrap().contains("three"));
    }

    /// A member that is at work and rests again leaves the text that we had written once; it is its own word all the same.
    #[test]
    fn t2_a_change_back_to_what_was_written_once_is_a_change() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        let (rests, works) = (team("alpha", "rests"), team("alpha", "works"));
        files.write_team(&rests, "").unwrap();
        let path = files.config_path("alpha");
        let written = fs::read(&path).unwrap();
        fs::write(&path, serde_json::to_string(&works).unwrap()).unwrap();
        let Verdict::Outside(Outside::Edited(seen)) = files.judge("alpha", false).unwrap() else {
            panic!("it was edited")
        };
        assert_eq!(seen, works);
        // Before we could write what follows from that.
        fs::write(&path, &written).unwrap();
        let merged = serde_json::to_string(&works).unwrap();
        let replaced = files.write_team(&works, &merged).unwrap();
        assert_eq!(replaced, Replaced::Edited(rests));
        assert_eq!(fs::read(&path).unwrap(), written, "it stands");
    }

    /// Nothing is written while another program is about to, and it is not waited for.
    #[test]
    fn t2_the_lock_of_another_writer_is_respected() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        files.write_team(&team("alpha", "one"), "").unwrap();
        let path = files.config_path("alpha");
        let lock = path.with_file_name("config.json.lock");
        assert!(!lock.exists(), "it was given back");
        fs::create_dir(&lock).unwrap();
        assert_eq!(files.write_team(&team("alpha", "two"), "").unwrap(), Replaced::Held);
        assert!(fs::read_to_string(&path).unwrap().contains("one"));
        // What its owner left behind is taken away, as Claude Code does it.
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(12);
        fs::File::open(&lock).unwrap().set_modified(old).unwrap();
        assert_eq!(files.write_team(&team("alpha", "two"), "").unwrap(), Replaced::Ours);
        assert!(fs::read_to_string(&path).unwrap().contains("two") && !lock.exists());
    }

    #[test]
    fn rel27_names_cannot_lead_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        let long = "x".repeat(65);
        for name in ["", ".", "..", "a/b", "A", "a_b", "-a", "a\0", &long] {
            let mut team = team("alpha", "x");
            team.name = name.to_owned();
            assert!(
                matches!(files.write_team(&team, ""), Err(TeamFilesError::BadTeam { .. })),
                "{name}"
            );
            assert!(files.remove(name).is_err());
            assert!(files.write_task(name, &task("1", "pending")).is_err());
        }
        for id in ["", "..", "1/2", "x", ".lock", "0", "01", "+1", "4294967296"] {
            let mut task = task("1", "pending");
            task.id = id.to_owned();
            assert!(matches!(
                files.write_task("alpha", &task),
                Err(TeamFilesError::BadTask { .. })
            ));
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn t3_a_team_is_removed_and_a_second_call_has_nothing_to_do() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        assert_eq!(files.remove("alpha").unwrap(), Removed::default());
        files.write_team(&team("alpha", "x"), "").unwrap();
        files.write_team(&team("beta", "x"), "").unwrap();
        assert_eq!(files.write_task("alpha", &task("1", "pending")).unwrap(), TaskReplaced::Ours);
        fs::create_dir(home.path().join(".claude/teams/alpha/config.json.lock")).unwrap();
        let removed = files.remove("alpha").unwrap();
        let claude = home.path().join(".claude");
        assert_eq!(removed.removed, [claude.join("teams/alpha"), claude.join("tasks/alpha")]);
        assert!(removed.kept.is_empty());
        assert!(files.config_path("beta").exists());
        assert_eq!(files.remove("alpha").unwrap(), Removed::default());
    }

    #[test]
    fn t3_what_cannot_be_removed_is_named_and_the_rest_goes() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        files.write_team(&team("alpha", "x"), "").unwrap();
        assert_eq!(files.write_task("alpha", &task("1", "pending")).unwrap(), TaskReplaced::Ours);
        let folder = home.path().join(".claude/teams/alpha");
        fs::remove_dir_all(&folder).unwrap();
        symlink("/", &folder).unwrap();
        let removed = files.remove("alpha").unwrap();
        assert_eq!(removed.kept.len(), 1);
        assert_eq!(removed.kept[0].path, folder);
        assert!(removed.kept[0].reason.contains("symbolic link"));
        assert_eq!(removed.removed, [home.path().join(".claude/tasks/alpha")]);
        fs::remove_file(&folder).unwrap();
        assert!(files.remove("alpha").unwrap().kept.is_empty());
    }
}
