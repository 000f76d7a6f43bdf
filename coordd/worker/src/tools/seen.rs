//! Which files the agent has seen, and as what.
//!
//! `Edit` and an overwriting `Write` work on a file only as the agent last saw it: what a person or
//! another agent changed since would be lost otherwise.
//!
//! What was seen is kept in a file of the agent's folder, a line each, so that a worker that is continued need not read again what
//! its conversation holds (fT34). It is no promise: a line that is lost costs one Read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Its name in an agent's folder.
pub(crate) const FILE_NAME: &str = "seen.jsonl";

/// As much of the file is read: [`FILES_MAX`] lines of long paths are shorter.
const FILE_LEN_MAX: u64 = 32 * 1024 * 1024;

/// Most files that are remembered. The one seen longest ago is forgotten, and then has to be read
/// again.
const FILES_MAX: usize = 4096;

/// What a file was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) len: u64,
    pub(crate) modified: Option<SystemTime>,
    /// Of the whole content; none if the file was too large to be read whole.
    pub(crate) hash: Option<u64>,
}

impl Fingerprint {
    /// What counts is the content. The times only decide where the content was not read.
    pub(crate) fn is_same_content(&self, other: &Self) -> bool {
        match (self.hash, other.hash) {
            (Some(one), Some(two)) => one == two && self.len == other.len,
            (None, _) | (_, None) => self.len == other.len && self.modified == other.modified,
        }
    }
}

/// A hash that may be fed in pieces of any size (FNV-1a, 64 bits). It finds changes; it is no proof
/// against forgery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentHash(u64);

impl ContentHash {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }

    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::new();
        hash.feed(bytes);
        hash.value()
    }
}

#[derive(Debug, Default)]
struct Ledger {
    files: BTreeMap<PathBuf, (u64, Fingerprint)>,
    clock: u64,
    /// Where it is kept; none keeps nothing.
    kept: Option<File>,
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    path: PathBuf,
    len: u64,
    /// Nanoseconds since 1970.
    modified: Option<u64>,
    hash: Option<u64>,
}

impl Line {
    fn of(path: &Path, it: &Fingerprint) -> Self {
        let modified = it.modified.and_then(|it| it.duration_since(SystemTime::UNIX_EPOCH).ok());
        let modified = modified.and_then(|it| u64::try_from(it.as_nanos()).ok());
        Self { path: path.to_owned(), len: it.len, modified, hash: it.hash }
    }

    fn read(self) -> (PathBuf, Fingerprint) {
        let modified = self.modified.map(Duration::from_nanos);
        let modified = modified.and_then(|it| SystemTime::UNIX_EPOCH.checked_add(it));
        (self.path, Fingerprint { len: self.len, modified, hash: self.hash })
    }
}

/// The files that the agent has seen, by resolved path.
#[derive(Debug, Default)]
pub(crate) struct SeenFiles(Mutex<Ledger>);

impl SeenFiles {
    /// What an earlier process of the agent has seen, and from now on what this one sees.
    pub(crate) fn kept_in(path: &Path) -> Self {
        let seen = Self::default();
        let mut text = String::new();
        if let Ok(file) = File::open(path) {
            // What cannot be read was not seen.
            let _lost = file.take(FILE_LEN_MAX).read_to_string(&mut text);
        }
        for line in text.lines().filter_map(|it| serde_json::from_str::<Line>(it).ok()) {
            let (path, fingerprint) = line.read();
            seen.note(path, fingerprint);
        }
        let begin = || -> std::io::Result<File> {
            let mut lines = String::new();
            for (path, (_, fingerprint)) in &seen.ledger().files {
                lines.push_str(&serde_json::to_string(&Line::of(path, fingerprint))?);
                lines.push('\n');
            }
            coordd_common::files::replace(path, lines.as_bytes(), 0o600)?;
            File::options().append(true).open(path)
        };
        match begin() {
            Ok(file) => seen.ledger().kept = Some(file),
            Err(error) => tracing::warn!(%error, "what was read is not kept"),
        }
        seen
    }

    pub(crate) fn note(&self, path: PathBuf, fingerprint: Fingerprint) {
        let mut ledger = self.ledger();
        if let Some(file) = &mut ledger.kept
            && let Ok(mut line) = serde_json::to_string(&Line::of(&path, &fingerprint))
        {
            line.push('\n');
            let _lost = file.write_all(line.as_bytes());
        }
        ledger.clock += 1;
        let clock = ledger.clock;
        ledger.files.insert(path, (clock, fingerprint));
        if ledger.files.len() > FILES_MAX {
            let oldest = ledger.files.iter().min_by_key(|(_, (clock, _))| *clock);
            if let Some(path) = oldest.map(|(path, _)| path.clone()) {
                ledger.files.remove(&path);
            }
        }
    }

    pub(crate) fn get(&self, path: &Path) -> Option<Fingerprint> {
        self.ledger().files.get(path).map(|(_, fingerprint)| *fingerprint)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Each change is one insertion: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(hash: Option<u64>, seconds: u64) -> Fingerprint {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        Fingerprint { len: 3, modified: Some(modified), hash }
    }

    #[test]
    fn touching_a_file_does_not_change_it_and_a_change_in_the_same_tick_does() {
        assert!(fingerprint(Some(1), 1).is_same_content(&fingerprint(Some(1), 2)));
        assert!(!fingerprint(Some(1), 1).is_same_content(&fingerprint(Some(2), 1)));
        assert!(!fingerprint(None, 1).is_same_content(&fingerprint(Some(2), 2)));
        assert!(fingerprint(None, 1).is_same_content(&fingerprint(Some(2), 1)));
    }

    /// fT34: another process of the agent goes on with what the one before it had seen.
    #[test]
    fn ft34_what_was_seen_outlives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE_NAME);
        let one = SeenFiles::kept_in(&file);
        one.note("/a".into(), fingerprint(Some(1), 1));
        one.note("/a".into(), fingerprint(Some(u64::MAX), 2));
        one.note("/b".into(), fingerprint(None, 3));
        drop(one);
        std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"pa").unwrap();
        let two = SeenFiles::kept_in(&file);
        assert_eq!(two.get(Path::new("/a")), Some(fingerprint(Some(u64::MAX), 2)));
        assert_eq!(two.get(Path::new("/b")), Some(fingerprint(None, 3)));
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
        two.note("/c".into(), fingerprint(None, 3));
        assert!(SeenFiles::kept_in(&file).get(Path::new("/c")).is_some());
    }

    #[test]
    fn the_hash_does_not_depend_on_the_pieces() {
        let mut hash = ContentHash::new();
        hash.feed(b"ab");
        hash.feed(b"");
        hash.feed(b"cde");
        assert_eq!(hash.value(), ContentHash::of(b"abcde"));
        assert_ne!(hash.value(), ContentHash::of(b"abcdf"));
    }

    #[test]
    fn the_ledger_is_bounded_and_forgets_what_was_seen_longest_ago() {
        let seen = SeenFiles::default();
        for number in 0..=FILES_MAX {
            seen.note(PathBuf::from(number.to_string()), fingerprint(None, 1));
        }
        assert_eq!(seen.get(Path::new("0")), None);
        assert!(seen.get(Path::new("1")).is_some());
        assert_eq!(seen.ledger().files.len(), FILES_MAX);
    }
}
