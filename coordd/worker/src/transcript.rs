//! The agent's memory on disk: one [`Entry`] a line, appended and never changed.
//!
//! ```text
//!   open --lock--> read --> a torn last line is cut off
//!                      \--> a bad line in the middle: the file is set aside, its readable beginning is kept
//!   append ... append --> sync --> acknowledge
//! ```
//!
//! It must not interpret what it holds; that is [`crate::conversation`]'s. Two processes never write the same file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use proto::entry::{Entry, What};
use rustix::fs::{FlockOperation, Mode, OFlags};

/// The file's name in the agent's folder.
pub(crate) const FILE_NAME: &str = "transcript.jsonl";

/// Longest transcript that is read back. A conversation ends long before at its model's context.
const TRANSCRIPT_LEN_MAX: u64 = 256 * 1024 * 1024;

/// Why the transcript cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TranscriptError {
    #[error("cannot open the transcript {}: check the folder's owner and mode", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("another process of this agent has the transcript {}: stop that one first", path.display())]
    Locked { path: PathBuf },
    #[error("the transcript {} is longer than {TRANSCRIPT_LEN_MAX} bytes: start a new agent", path.display())]
    TooLong { path: PathBuf },
    #[error("cannot read the transcript {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot set the damaged transcript {} aside", path.display())]
    SetAside {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write the transcript {}: check that the disk is not full", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("an entry cannot be written as JSON")]
    Encode {
        #[source]
        source: serde_json::Error,
    },
}

/// An open transcript, locked for as long as it lives.
#[derive(Debug)]
pub(crate) struct Transcript {
    file: File,
    path: PathBuf,
    next_seq: u64,
    /// Appended and not yet on disk.
    dirty: bool,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) transcript: Transcript,
    pub(crate) entries: Vec<Entry>,
    /// Where a damaged file lies now.
    pub(crate) set_aside: Option<PathBuf>,
}

impl Transcript {
    /// Opens the transcript in an agent's folder, or begins it.
    pub(crate) fn open(state_dir: &Path, now_ms: u64) -> Result<Opened, TranscriptError> {
        let path = state_dir.join(FILE_NAME);
        let mut file = open_locked(&path, OFlags::CREATE)?;
        let bytes = read_all(&mut file, &path)?;
        let found = read_entries(&bytes);
        let next_seq = found.entries.last().map_or(1, |it| it.seq + 1);
        let entries = found.entries;
        let mut set_aside = None;
        match found.rest {
            Rest::None => {}
            Rest::Torn => {
                tracing::warn!(
                    kept_len = found.kept_len,
                    cut_len = bytes.len() - found.kept_len,
                    "the transcript's last line was torn and is cut off"
                );
                file.set_len(found.kept_len as u64)
                    .and_then(|()| file.sync_data())
                    .map_err(|source| TranscriptError::Write { path: path.clone(), source })?;
            }
            Rest::Damaged => {
                let kept = bytes.get(..found.kept_len).unwrap_or_default();
                let (fresh, aside) = replace_damaged(&path, kept, now_ms)?;
                tracing::error!(path = %aside.display(), "the transcript was damaged and is set aside");
                file = fresh;
                set_aside = Some(aside);
            }
        }
        let transcript = Self { file, path, next_seq, dirty: false };
        Ok(Opened { transcript, entries, set_aside })
    }

    /// Appends entries of a run in one write, so that a crash keeps all or a beginning of them.
    pub(crate) fn append(
        &mut self,
        run: u32,
        at_ms: u64,
        what: Vec<What>,
    ) -> Result<Vec<Entry>, TranscriptError> {
        let mut lines = Vec::new();
        let mut entries = Vec::with_capacity(what.len());
        for (what, seq) in what.into_iter().zip(self.next_seq..) {
            let entry = Entry { seq, at_ms, run, what };
            serde_json::to_writer(&mut lines, &entry)
                .map_err(|source| TranscriptError::Encode { source })?;
            lines.push(b'\n');
            entries.push(entry);
        }
        let before = self.file.metadata().map(|it| it.len());
        if let Err(source) = self.file.write_all(&lines) {
            // Half a line must not stand in front of the next one.
            if let Ok(len) = before {
                drop(self.file.set_len(len));
            }
            return Err(TranscriptError::Write { path: self.path.clone(), source });
        }
        self.next_seq += entries.len() as u64;
        self.dirty = true;
        Ok(entries)
    }

    /// Everything appended so far is on disk afterwards.
    pub(crate) fn sync(&mut self) -> Result<(), TranscriptError> {
        if self.dirty {
            // After a failed sync the kernel may have dropped the pages: it is not tried again.
            self.file
                .sync_data()
                .map_err(|source| TranscriptError::Write { path: self.path.clone(), source })?;
            self.dirty = false;
        }
        Ok(())
    }
}

fn open_locked(path: &Path, more: OFlags) -> Result<File, TranscriptError> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| TranscriptError::Open { path: path.to_owned(), source: errno.into() })?;
    let file = File::from(file);
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| TranscriptError::Locked { path: path.to_owned() })?;
    Ok(file)
}

fn read_all(file: &mut File, path: &Path) -> Result<Vec<u8>, TranscriptError> {
    let failed = |source| TranscriptError::Read { path: path.to_owned(), source };
    let len = file.metadata().map_err(failed)?.len();
    if len > TRANSCRIPT_LEN_MAX {
        return Err(TranscriptError::TooLong { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    file.take(TRANSCRIPT_LEN_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

struct Found {
    entries: Vec<Entry>,
    /// How many bytes the entries take.
    kept_len: usize,
    rest: Rest,
}

enum Rest {
    None,
    /// One piece of a line, from a write that did not finish.
    Torn,
    /// Good lines follow a bad one.
    Damaged,
}

fn read_entries(bytes: &[u8]) -> Found {
    let mut entries: Vec<Entry> = Vec::new();
    let mut kept_len = 0;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    for line in lines.by_ref() {
        let expected = entries.last().map_or(1, |it| it.seq + 1);
        match read_entry(line) {
            Some(entry) if entry.seq == expected => {
                kept_len += line.len();
                entries.push(entry);
            }
            // A whole entry out of its order is no torn write.
            Some(_) => return Found { entries, kept_len, rest: Rest::Damaged },
            None => {
                let good_follows = lines.any(|line| read_entry(line).is_some());
                let rest = if good_follows { Rest::Damaged } else { Rest::Torn };
                return Found { entries, kept_len, rest };
            }
        }
    }
    Found { entries, kept_len, rest: Rest::None }
}

fn read_entry(line: &[u8]) -> Option<Entry> {
    serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
}

/// Keeps the damaged file under another name and begins anew with what could be read of it.
fn replace_damaged(
    path: &Path,
    kept: &[u8],
    now_ms: u64,
) -> Result<(File, PathBuf), TranscriptError> {
    let failed = |source| TranscriptError::SetAside { path: path.to_owned(), source };
    let aside = path.with_file_name(format!("{FILE_NAME}.corrupt-{now_ms}"));
    std::fs::rename(path, &aside).map_err(failed)?;
    let mut file = open_locked(path, OFlags::CREATE | OFlags::EXCL)?;
    file.write_all(kept).and_then(|()| file.sync_all()).map_err(failed)?;
    if let Some(folder) = path.parent() {
        File::open(folder).and_then(|it| it.sync_all()).map_err(failed)?;
    }
    Ok((file, aside))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn text(text: &str) -> What {
        What::Text { text: text.to_owned() }
    }

    fn filled(folder: &Path) -> Vec<Entry> {
        let mut opened = Transcript::open(folder, 1).unwrap();
        let mut entries = opened.transcript.append(1, 5, vec![text("a"), text("b")]).unwrap();
        entries.extend(opened.transcript.append(1, 6, vec![text("c")]).unwrap());
        opened.transcript.sync().unwrap();
        entries
    }

    #[test]
    fn d5_what_was_appended_is_read_back_in_order_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let written = filled(folder.path());
        assert_eq!(written.iter().map(|it| it.seq).collect::<Vec<_>>(), [1, 2, 3]);
        let mut opened = Transcript::open(folder.path(), 1).unwrap();
        assert_eq!(opened.entries, written);
        assert_eq!(opened.transcript.append(2, 7, vec![text("d")]).unwrap()[0].seq, 4);
        let mode = std::fs::metadata(folder.path().join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// D-5: whatever was lost of the last line, the ones before it stay and the next one fits.
    #[test]
    fn d5_a_torn_last_line_is_cut_off_at_any_byte() {
        let folder = tempfile::tempdir().unwrap();
        let written = filled(folder.path());
        let path = folder.path().join(FILE_NAME);
        let whole = std::fs::read(&path).unwrap();
        let last_at = whole[..whole.len() - 1].iter().rposition(|it| *it == b'\n').unwrap() + 1;
        for end in last_at + 1..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let mut opened = Transcript::open(folder.path(), 1).unwrap();
            assert_eq!(opened.entries, written[..2], "cut at {end}");
            assert_eq!(opened.set_aside, None);
            opened.transcript.append(1, 6, vec![text("c")]).unwrap();
            drop(opened);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        // Blocks that were allocated and never written read as zeros.
        std::fs::write(&path, [&whole[..last_at], &[0; 700]].concat()).unwrap();
        assert_eq!(Transcript::open(folder.path(), 1).unwrap().entries, written[..2]);
    }

    #[test]
    fn rel41_a_bad_line_in_the_middle_sets_the_file_aside() {
        let folder = tempfile::tempdir().unwrap();
        let written = filled(folder.path());
        let path = folder.path().join(FILE_NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        let second_at = bytes.iter().position(|it| *it == b'\n').unwrap() + 1;
        bytes[second_at] = b'#';
        std::fs::write(&path, &bytes).unwrap();
        let opened = Transcript::open(folder.path(), 77).unwrap();
        assert_eq!(opened.entries, written[..1]);
        let aside = folder.path().join("transcript.jsonl.corrupt-77");
        assert_eq!(opened.set_aside.as_deref(), Some(&*aside));
        assert_eq!(std::fs::read(aside).unwrap(), bytes);
        drop(opened);
        let again = Transcript::open(folder.path(), 78).unwrap();
        assert_eq!((again.entries.len(), again.set_aside), (1, None));
    }

    #[test]
    fn a_gap_in_the_numbers_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        let path = folder.path().join(FILE_NAME);
        let lines = std::fs::read_to_string(&path).unwrap();
        let gap: Vec<_> = lines.lines().enumerate().filter(|it| it.0 != 1).map(|it| it.1).collect();
        std::fs::write(&path, gap.join("\n") + "\n").unwrap();
        let opened = Transcript::open(folder.path(), 1).unwrap();
        assert_eq!((opened.entries.len(), opened.set_aside.is_some()), (1, true));
    }

    /// Invariant 4: at most one process for an agent.
    #[test]
    fn a_second_process_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let first = Transcript::open(folder.path(), 1).unwrap();
        let second = Transcript::open(folder.path(), 1).unwrap_err();
        assert!(matches!(second, TranscriptError::Locked { .. }), "{second}");
        drop(first);
        assert!(Transcript::open(folder.path(), 1).is_ok());
    }

    #[test]
    fn rel1_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, "x").unwrap();
        symlink(&other, folder.path().join(FILE_NAME)).unwrap();
        let refused = Transcript::open(folder.path(), 1).unwrap_err();
        assert!(matches!(refused, TranscriptError::Open { .. }), "{refused}");
        assert_eq!(std::fs::read(&other).unwrap(), b"x");
    }
}
