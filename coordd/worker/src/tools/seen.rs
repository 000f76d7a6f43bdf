//! Which files the agent has seen, and as what.
//!
//! `Edit` and an overwriting `Write` work on a file only as the agent last saw it: what a person or
//! another agent changed since would be lost otherwise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

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
}

/// The files that the agent has seen, by resolved path.
#[derive(Debug, Default)]
pub(crate) struct SeenFiles(Mutex<Ledger>);

impl SeenFiles {
    pub(crate) fn note(&self, path: PathBuf, fingerprint: Fingerprint) {
        let mut ledger = self.ledger();
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
        let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        Fingerprint { len: 3, modified: Some(modified), hash }
    }

    #[test]
    fn touching_a_file_does_not_change_it_and_a_change_in_the_same_tick_does() {
        assert!(fingerprint(Some(1), 1).is_same_content(&fingerprint(Some(1), 2)));
        assert!(!fingerprint(Some(1), 1).is_same_content(&fingerprint(Some(2), 1)));
        assert!(!fingerprint(None, 1).is_same_content(&fingerprint(Some(2), 2)));
        assert!(fingerprint(None, 1).is_same_content(&fingerprint(Some(2), 1)));
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
