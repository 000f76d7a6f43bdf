//! Looks whether SQLite's write-ahead log is whole, before SQLite does.
//!
//! SQLite takes the first frame that does not fit for the end of the log, and drops it and all that
//! follows without a word. Where a bit flipped, commits that were acknowledged are then gone in
//! silence. A frame that carries the log's salts was written in this round: if its checksum does
//! not fit, that is said. A power cut in the middle of a commit can look the same; then it is said
//! too, and nothing that was acknowledged is lost.
//!
//! Format: <https://sqlite.org/fileformat2.html#the_write_ahead_log>. Nothing is ever changed here.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Result};
use std::path::Path;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The first word of a log whose checksums are little-endian; one more means big-endian.
const MAGIC: u32 = 0x377F_0682;

/// Whether a log can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalState {
    /// There is none, or an empty one: the last user closed the store.
    Absent,
    /// All of it fits together, or it breaks off within a frame.
    Whole,
    /// There are frames in it that SQLite would not see.
    Damaged,
}

/// Reads a log through once.
pub(super) fn look(path: &Path) -> Result<WalState> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(WalState::Absent),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() == 0 {
        return Ok(WalState::Absent);
    }
    judge(&mut BufReader::with_capacity(256 * 1024, file))
}

fn judge(log: &mut impl Read) -> Result<WalState> {
    let mut header = [0; HEADER_BYTES];
    if !fill(log, &mut header)? {
        // It ends within the header: nothing was ever committed to it.
        return Ok(WalState::Whole);
    }
    let word = |at: usize| word_at(&header, at);
    let big_endian = word(0) & 1 == 1;
    let page_bytes = word(8) as usize;
    let salts = (word(16), word(20));
    let mut sums = Sums { big_endian, first: 0, second: 0 };
    sums.add(header.get(..24).unwrap_or_default());
    let whole = word(0) & !1 == MAGIC && sums.are(word(24), word(28));
    if !whole || !page_bytes.is_power_of_two() || !(512..=65_536).contains(&page_bytes) {
        // The header is synced before the first frame, so a frame behind a bad header was
        // committed.
        let mut frame = [0; FRAME_HEADER_BYTES];
        return Ok(if fill(log, &mut frame)? { WalState::Damaged } else { WalState::Whole });
    }
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut ended = false;
    while fill(log, &mut frame)? {
        let word = |at: usize| word_at(&frame, at);
        // Frames of an earlier round have other salts.
        let ours = (word(8), word(12)) == salts;
        if !ended {
            sums.add(frame.get(..8).unwrap_or_default());
            sums.add(frame.get(FRAME_HEADER_BYTES..).unwrap_or_default());
        }
        let fits = !ended && sums.are(word(16), word(20));
        if ours != fits {
            return Ok(WalState::Damaged);
        }
        ended |= !ours;
    }
    Ok(WalState::Whole)
}

/// The running checksum of the log: two sums that go over pairs of words.
struct Sums {
    big_endian: bool,
    first: u32,
    second: u32,
}

impl Sums {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks_exact(8) {
            let (one, two) = (self.word(pair, 0), self.word(pair, 4));
            self.first = self.first.wrapping_add(one).wrapping_add(self.second);
            self.second = self.second.wrapping_add(two).wrapping_add(self.first);
        }
    }

    fn are(&self, first: u32, second: u32) -> bool {
        (self.first, self.second) == (first, second)
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word = word_at(bytes, at);
        if self.big_endian { word } else { word.swap_bytes() }
    }
}

/// A big-endian word, as all fields of the log are.
fn word_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|byte| byte.try_into().ok());
    u32::from_be_bytes(word.unwrap_or_default())
}

/// Fills the buffer, or tells that the log ends before.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rusqlite::Connection;

    use super::*;

    /// The log of three commits, as a crash leaves it.
    fn log() -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "PRAGMA page_size=512; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; \
                 CREATE TABLE t(x); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2);",
            )
            .unwrap();
        let log = fs::read(folder.path().join("db-wal")).unwrap();
        (folder, log)
    }

    fn judge_bytes(bytes: &[u8]) -> WalState {
        judge(&mut &*bytes).unwrap()
    }

    #[test]
    fn rel42_a_log_as_sqlite_leaves_it_is_whole() {
        let (_folder, log) = log();
        assert!(log.len() > 3 * 512);
        assert_eq!(judge_bytes(&log), WalState::Whole);
    }

    #[test]
    fn rel42_a_log_that_was_cut_off_anywhere_is_a_torn_end() {
        let (_folder, log) = log();
        for len in 0..log.len() {
            assert_eq!(judge_bytes(&log[..len]), WalState::Whole, "cut at {len}");
        }
    }

    /// rel-41: no bit can flip so that a commit is dropped in silence.
    #[test]
    fn rel41_any_flipped_bit_is_seen() {
        let (_folder, log) = log();
        for at in 0..log.len() {
            for bit in 0..8 {
                let mut flipped = log.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(judge_bytes(&flipped), WalState::Damaged, "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn frames_of_an_earlier_round_are_no_damage() {
        let (_folder, mut log) = log();
        let frame = 24 + 512;
        let last = log.len() - frame;
        // Other salts, and sums that do not go on from the frame before.
        let old: Vec<u8> = log[last..]
            .iter()
            .enumerate()
            .map(|(at, it)| if (8..24).contains(&at) { !it } else { *it })
            .collect();
        log.extend(old);
        assert_eq!(judge_bytes(&log), WalState::Whole);
    }
}
