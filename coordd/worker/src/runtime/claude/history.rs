//! The agent's conversation in Claude Code, and Claude Code's record of it.
//!
//! ```text
//!   state folder/claude.json   the id, on disk before the first use
//!   ~/.claude/projects/*/ID.jsonl   Claude Code's own record: read, never written
//! ```
//!
//! Observed with Claude Code 2.1.332. A message is in its record under the id that its line had, as
//! `uuid`, or as `source_uuid` if it entered in the middle of a turn. Claude Code itself takes a
//! line of the first kind only once, and one of the second kind again and again; and it shows one
//! that it has not written down yet. So its record is asked.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file in the agent's state folder.
const FILE: &str = "claude.json";
/// Longest such file: two short words.
const FILE_LEN_MAX: u64 = 4_096;
/// The most bytes of a record that are searched: more than a conversation fills before it is
/// compacted.
const RECORD_LEN_MAX: u64 = 256 * 1024 * 1024;
/// Longest line of it that is kept in memory while it is looked at.
const LINE_LEN_MAX: u64 = 32 * 1024 * 1024;

/// Why the conversation cannot be named.
#[derive(Debug, thiserror::Error)]
pub(super) enum HistoryError {
    #[error("cannot write {}: check that the disk is not full", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the system gives no random numbers")]
    Random,
}

/// The file's content.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    session: String,
}

/// The conversation of this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct History {
    /// Claude Code's id of it.
    pub(super) session: String,
    /// Where Claude Code keeps its own.
    projects: Option<PathBuf>,
}

impl History {
    /// The agent's conversation: the one that it has, or a new one. `config` is the folder of
    /// Claude Code's settings.
    pub(super) fn open(state_dir: &Path, config: Option<PathBuf>) -> Result<Self, HistoryError> {
        let projects = config.map(|config| config.join("projects"));
        match read(state_dir) {
            Some(session) => Ok(Self { session, projects }),
            None => Self::begin(state_dir, projects),
        }
    }

    /// A new conversation in place of one that is lost.
    pub(super) fn begin_again(self, state_dir: &Path) -> Result<Self, HistoryError> {
        Self::begin(state_dir, self.projects)
    }

    fn begin(state_dir: &Path, projects: Option<PathBuf>) -> Result<Self, HistoryError> {
        let session = random_uuid().ok_or(HistoryError::Random)?;
        let path = state_dir.join(FILE);
        let bytes = serde_json::to_vec(&Stored { session: session.clone() }).unwrap_or_default();
        coordd_common::files::replace(&path, &bytes, 0o600)
            .map_err(|source| HistoryError::Write { path, source })?;
        Ok(Self { session, projects })
    }

    /// Whether Claude Code has a record of it.
    pub(super) fn exists(&self) -> bool {
        self.record().is_some()
    }

    /// Which of these lines Claude Code has written down, by their ids.
    pub(super) fn holds(&self, uuids: &[String]) -> Vec<String> {
        if uuids.is_empty() {
            return Vec::new();
        }
        let Some(record) = self.record() else { return Vec::new() };
        let mut held = Vec::new();
        let mut reader = BufReader::new(record.take(RECORD_LEN_MAX));
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut reader).take(LINE_LEN_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return held,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line);
            for uuid in uuids {
                let kept = [format!("\"uuid\":\"{uuid}\""), format!("\"source_uuid\":\"{uuid}\"")];
                if !held.contains(uuid) && kept.iter().any(|it| line.contains(it)) {
                    held.push(uuid.clone());
                }
            }
        }
    }

    fn record(&self) -> Option<File> {
        let name = format!("{}.jsonl", self.session);
        let folders = std::fs::read_dir(self.projects.as_ref()?).ok()?;
        // The folder's name is made of the working directory in an undocumented way, so all are
        // searched.
        let found = folders
            .filter_map(|folder| Some(folder.ok()?.path().join(&name)))
            .find(|it| it.is_file());
        File::open(found?).ok()
    }
}

fn read(state_dir: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(state_dir.join(FILE)).ok()?.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
    let stored: Stored = serde_json::from_slice(&bytes).ok()?;
    (!stored.session.is_empty()).then_some(stored.session)
}

/// The id of the line that carries a message: the same each time that it is written, so that it
/// enters once.
pub(super) fn line_uuid(agent: &str, message: &str) -> String {
    let text = format!("{agent}/{message}");
    let mut bytes = [0; 16];
    let (high, low) = bytes.split_at_mut(8);
    high.copy_from_slice(&fnv(0xcbf2_9ce4_8422_2325, text.as_bytes()).to_be_bytes());
    low.copy_from_slice(&fnv(0x6c62_272e_07bb_0142, text.as_bytes()).to_be_bytes());
    uuid_of(bytes)
}

/// An id that there was not before.
pub(super) fn random_uuid() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(uuid_of(bytes))
}

fn uuid_of(bytes: [u8; 16]) -> String {
    let number = u128::from_be_bytes(bytes);
    // Version and variant, where readers look for them.
    let number = number & !(0xf000 << 64) & !(0xc000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// FNV-1a: ids need no secrecy here, only to differ.
fn fnv(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-2: the id is on disk before it is used, and the same in the next process.
    #[test]
    fn r2_the_conversation_is_the_same_in_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let first = History::open(folder.path(), None).unwrap();
        assert_eq!(History::open(folder.path(), None).unwrap(), first);
        let again = first.clone().begin_again(folder.path()).unwrap();
        assert_ne!(again.session, first.session);
        assert_eq!(History::open(folder.path(), None).unwrap(), again);
        std::fs::write(folder.path().join(FILE), "{\"session\":").unwrap();
        assert_ne!(History::open(folder.path(), None).unwrap(), again);
    }

    /// Case A27: what Claude Code only showed is not what it has kept.
    #[test]
    fn a27_only_what_is_written_down_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path(), Some(folder.path().to_owned())).unwrap();
        let [one, two, three] = ["m1", "m2", "m3"].map(|it| line_uuid("a1", it));
        let all = [one.clone(), two.clone(), three.clone()];
        assert!(!history.exists() && history.holds(&all).is_empty());
        let project = folder.path().join("projects/-home-me");
        std::fs::create_dir_all(&project).unwrap();
        let record = format!(
            "{{\"type\":\"queue-operation\",\"content\":\"{three}\"}}\n{{\"uuid\":\"{one}\"}}\n\
             {{\"attachment\":{{\"source_uuid\":\"{two}\"}}}}\n"
        );
        std::fs::write(project.join(format!("{}.jsonl", history.session)), record).unwrap();
        assert!(history.exists());
        assert_eq!(history.holds(&all), [one, two]);
    }

    #[test]
    fn ids_of_lines_follow_from_the_message_and_are_uuids() {
        let one = line_uuid("a1", "m1");
        assert_eq!(one, line_uuid("a1", "m1"));
        assert!(one != line_uuid("a1", "m2") && one != line_uuid("a2", "m1"));
        for uuid in [one, random_uuid().unwrap()] {
            let lens: Vec<_> = uuid.split('-').map(str::len).collect();
            assert_eq!(lens, [8, 4, 4, 4, 12]);
            assert!(
                uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]),
                "{uuid}"
            );
        }
    }
}
