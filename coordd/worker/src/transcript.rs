//! The agent's memory on disk: one [`Entry`] a line, appended and never changed.
//!
//! ```text
//!   open --lock--> read --> a torn last line is cut off
//!                      \--> a bad line in the middle: the file is set aside, its readable beginning is kept
//!   append ... append --> sync --> acknowledge
//!                             \--> a failed sync: nothing is appended or said to be on disk any more
//! ```
//!
//! It must not interpret what it holds; that is [`crate::conversation`]'s. Two processes never
//! write the same file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use proto::entry::{Entry, What};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};

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
    #[error(
        "the transcript {} could not be brought to the disk: check the disk, then `coordctl stop` and `coordctl resume` the \
         session",
        path.display()
    )]
    Lost { path: PathBuf },
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
    /// What the file holds is not known any more: after a failed sync the kernel may have dropped
    /// pages and say of the next sync that all is well.
    lost: bool,
}

/// A line of the file: an [`Entry`], and whether the next line belongs to the same step.
#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    at_ms: u64,
    run: u32,
    what: What,
    /// Without the line after it this one counts as torn. Other readers see an entry like any
    /// other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    goes_on: bool,
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
        Self::open_with(state_dir, now_ms, &sync_folder)
    }

    fn open_with(
        state_dir: &Path,
        now_ms: u64,
        sync_folder: &dyn Fn(&Path) -> std::io::Result<()>,
    ) -> Result<Opened, TranscriptError> {
        let path = state_dir.join(FILE_NAME);
        let mut file = open_locked(&path, OFlags::CREATE)?;
        let bytes = read_all(&mut file, &path)?;
        if bytes.is_empty() {
            // A new file is only there after a power cut if its folder says so.
            sync_folder(state_dir)
                .map_err(|source| TranscriptError::Write { path: path.clone(), source })?;
        }
        let found = read_entries(&bytes);
        let next_seq = found.entries.last().map_or(1, |entry| entry.seq + 1);
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
        let transcript = Self { file, path, next_seq, dirty: false, lost: false };
        Ok(Opened { transcript, entries, set_aside })
    }

    /// Appends entries of a run in one write, so that a crash keeps all or a beginning of them.
    pub(crate) fn append(
        &mut self,
        run: u32,
        at_ms: u64,
        what: Vec<What>,
    ) -> Result<Vec<Entry>, TranscriptError> {
        self.write(run, at_ms, what, false)
    }

    /// Appends entries of a run, so that a crash keeps all or none of them.
    pub(crate) fn append_whole(
        &mut self,
        run: u32,
        at_ms: u64,
        what: Vec<What>,
    ) -> Result<Vec<Entry>, TranscriptError> {
        self.write(run, at_ms, what, true)
    }

    fn write(
        &mut self,
        run: u32,
        at_ms: u64,
        what: Vec<What>,
        whole: bool,
    ) -> Result<Vec<Entry>, TranscriptError> {
        if self.lost {
            return Err(TranscriptError::Lost { path: self.path.clone() });
        }
        let mut lines = Vec::new();
        let mut entries = Vec::with_capacity(what.len());
        let mut left = what.len();
        for (what, seq) in what.into_iter().zip(self.next_seq..) {
            left -= 1;
            let line = Line { seq, at_ms, run, what, goes_on: whole && left > 0 };
            serde_json::to_writer(&mut lines, &line)
                .map_err(|source| TranscriptError::Encode { source })?;
            lines.push(b'\n');
            let Line { what, .. } = line;
            entries.push(Entry { seq, at_ms, run, what });
        }
        let before = self.file.metadata().map(|metadata| metadata.len());
        if let Err(source) = self.file.write_all(&lines) {
            // Half a line must not stand in front of the next one.
            self.lost = before.and_then(|len| self.file.set_len(len)).is_err();
            return Err(TranscriptError::Write { path: self.path.clone(), source });
        }
        self.next_seq += entries.len() as u64;
        self.dirty = true;
        Ok(entries)
    }

    /// Everything appended so far is on disk afterwards.
    pub(crate) fn sync(&mut self) -> Result<(), TranscriptError> {
        if self.lost {
            return Err(TranscriptError::Lost { path: self.path.clone() });
        }
        if self.dirty {
            if let Err(source) = self.file.sync_data() {
                self.lost = true;
                return Err(TranscriptError::Write { path: self.path.clone(), source });
            }
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
    /// A piece of a line or of a step, from a write that did not finish.
    Torn,
    /// Good lines follow a bad one.
    Damaged,
}

fn read_entries(bytes: &[u8]) -> Found {
    let mut entries: Vec<Entry> = Vec::new();
    // How far whole steps reach.
    let (mut kept_count, mut kept_len, mut read_len) = (0, 0, 0);
    let mut rest = Rest::None;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    for line in lines.by_ref() {
        let expected = entries.last().map_or(1, |entry| entry.seq + 1);
        match read_line(line) {
            Some(Line { seq, at_ms, run, what, goes_on }) if seq == expected => {
                read_len += line.len();
                entries.push(Entry { seq, at_ms, run, what });
                if !goes_on {
                    (kept_count, kept_len) = (entries.len(), read_len);
                }
            }
            // A whole entry out of its order is no torn write.
            Some(_) => {
                rest = Rest::Damaged;
                break;
            }
            None => {
                let good_follows = lines.any(|line| read_line(line).is_some());
                rest = if good_follows { Rest::Damaged } else { Rest::Torn };
                break;
            }
        }
    }
    if matches!(rest, Rest::None) && kept_count < entries.len() {
        rest = Rest::Torn;
    }
    entries.truncate(kept_count);
    Found { entries, kept_len, rest }
}

fn read_line(line: &[u8]) -> Option<Line> {
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
        sync_folder(folder).map_err(failed)?;
    }
    Ok((file, aside))
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder).and_then(|it| it.sync_all())
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

    /// M-3: the words around a message and the message stay together, wherever a write is cut off.
    #[test]
    fn m3_a_step_of_several_entries_is_kept_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let before = filled(folder.path());
        let path = folder.path().join(FILE_NAME);
        let before_len = std::fs::read(&path).unwrap().len();
        let mut opened = Transcript::open(folder.path(), 1).unwrap();
        let step = vec![text("d"), text("e"), text("f")];
        let step = opened.transcript.append_whole(2, 7, step).unwrap();
        drop(opened);
        let whole = std::fs::read(&path).unwrap();
        for end in before_len..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let opened = Transcript::open(folder.path(), 1).unwrap();
            assert_eq!(opened.entries, before, "cut at {end}");
            assert_eq!(opened.set_aside, None);
            assert_eq!(std::fs::read(&path).unwrap().len(), before_len);
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(Transcript::open(folder.path(), 1).unwrap().entries, [before, step].concat());
        // A reader that knows nothing of steps reads the same entries.
        let read = String::from_utf8(whole).unwrap();
        let read: Vec<Entry> =
            read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read.len(), 6);
    }

    /// M-3: after a failed sync the kernel may have dropped what was written, and the next sync
    /// would know nothing of it.
    #[test]
    fn a_failed_sync_is_not_made_good_by_another_one() {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        let mut transcript = Transcript::open(folder.path(), 1).unwrap().transcript;
        // A device takes writes, and cannot be synced.
        let device = File::options().append(true).open("/dev/null").unwrap();
        let healthy = std::mem::replace(&mut transcript.file, device);
        transcript.append(2, 7, vec![text("lost")]).unwrap();
        assert!(matches!(transcript.sync(), Err(TranscriptError::Write { .. })));
        transcript.file = healthy;
        assert!(matches!(transcript.sync(), Err(TranscriptError::Lost { .. })));
        let refused = transcript.append(2, 8, vec![text("after")]);
        assert!(matches!(refused, Err(TranscriptError::Lost { .. })));
        drop(transcript);
        // Another process sees what there is, and goes on from there.
        assert_eq!(Transcript::open(folder.path(), 1).unwrap().entries.len(), 3);
    }

    /// D-5: a new file outlives a power cut only when its folder is on disk too.
    #[test]
    fn d5_a_new_transcript_is_made_known_to_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let synced = std::cell::RefCell::new(Vec::new());
        let sync = |path: &Path| {
            synced.borrow_mut().push(path.to_owned());
            sync_folder(path)
        };
        let mut opened = Transcript::open_with(folder.path(), 1, &sync).unwrap();
        assert_eq!(*synced.borrow(), [folder.path()]);
        opened.transcript.append(1, 5, vec![text("a")]).unwrap();
        drop(opened);
        Transcript::open_with(folder.path(), 1, &sync).unwrap();
        assert_eq!(synced.borrow().len(), 1, "a file that is known is left alone");
        let failing = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
        let other = tempfile::tempdir().unwrap();
        let refused = Transcript::open_with(other.path(), 1, &failing).unwrap_err();
        assert!(matches!(refused, TranscriptError::Write { .. }), "{refused}");
    }

    #[test]
    fn rel41_a_bad_line_in_the_middle_sets_the_file_aside() {
        let folder = tempfile::tempdir().unwrap();
        let written = filled(folder.path());
        let path = folder.path().join(FILE_NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        let second_at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
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

    /// Invariant 4, E7: at most one process for an agent.
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
