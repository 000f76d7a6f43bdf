//! Inbox files: what coordd leaves in the inbox of a member in a terminal, and what such members
//! left in those that coordd reads for others.
//!
//! Each change is made under Claude Code's own lock, and replaces the file in one step. Nothing is
//! put in twice, though a reader may take an entry out the moment it is there: before a file with
//! new entries is put in its place it is noted which ones these are. After a crash the note tells,
//! together with whether what was prepared is still there, if they were in it. It must not decide
//! what an entry means.

use std::path::{Path, PathBuf};

use proto::teammate::{Entry, Row, inbox_name};

use super::assigned::{Assigns, assigned_by_others};
use super::lock::{Lock, LockError};
use super::{TeamFiles, TeamFilesError, team_name};
use crate::dir::{Content, Demand, Dir, DirError, FileError, FileId};

/// Longest inbox file that is read: eight of the longest messages, each with all characters
/// escaped.
const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Entries without a reader that stand in a file at once. What is more waits in the mailbox.
const UNREAD_MAX: usize = 100;

/// Entries with a reader that are left in a file. They are taken out when there is nothing else in
/// it: up to 2.1.150 a reader counts entries, and one that marks what it has just read must find it
/// in its place.
const READ_MAX: usize = 50;

/// Longest note about what is put in: ids only.
const NOTE_BYTES_MAX: usize = 64 * 1024;

/// Inbox files of a team that are looked at: as many as a session has agents, and their locks.
const ENTRIES_MAX: usize = 4_000;

/// Why an inbox cannot be served now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboxError {
    #[error("an inbox is in use")]
    Lock(#[source] LockError),
    #[error("the inboxes of a team cannot be used; fix what is named")]
    Folder(#[source] TeamFilesError),
    #[error("an inbox cannot be read or written; fix what is named")]
    File(#[source] FileError),
    #[error("the inbox {} cannot be written as JSON; this is a bug in coordd, please report it", path.display())]
    Unserialisable { path: PathBuf, source: serde_json::Error },
    #[error("the lock of the inbox {} was taken away meanwhile; it is tried again", path.display())]
    LostLock { path: PathBuf },
}

/// A message for a member in a terminal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Letter {
    /// The message.
    pub(crate) message: String,
    /// Whether it is known to have been put in.
    pub(crate) is_written: bool,
    /// What others may have told the member too.
    pub(crate) assigns: Option<Assigns>,
    pub(crate) entry: Entry,
}

/// What became of letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    /// Those that stand in the file, or did.
    pub(crate) written: Vec<String>,
    /// Those of them that the member has read.
    pub(crate) read: Vec<String>,
    /// Tasks that others have told it are its own.
    pub(crate) assigned: Vec<String>,
    /// Where what was no inbox is kept.
    pub(crate) aside: Option<PathBuf>,
    /// Whether the file is half written, and has to be looked at again.
    pub(crate) is_unsettled: bool,
}

/// What stands in an inbox that coordd reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    pub(crate) aside: Option<PathBuf>,
    pub(crate) is_unsettled: bool,
}

/// The inboxes of a team.
#[derive(Debug)]
pub(crate) struct Inboxes {
    dir: Dir,
}

enum Read {
    Rows(Vec<Row>),
    Missing,
    /// Half written, or no inbox.
    Bad,
}

impl TeamFiles {
    /// The inboxes of a team. Makes their folder where it is missing. None for a team that has no
    /// files, or none any more.
    pub(crate) fn inboxes(&self, team: &str) -> Result<Option<Inboxes>, InboxError> {
        // Held until the folder is open: nothing is made that is being removed.
        let state = self.lock();
        if !state.teams.contains_key(team) {
            return Ok(None);
        }
        let folder = team_name(team).and_then(|team_name| self.folder("teams", team_name));
        let inside = folder.map_err(InboxError::Folder)?.enter("inboxes", Demand::Repaired);
        let failed = |source: DirError| InboxError::Folder(TeamFilesError::Folder { source });
        Ok(Some(Inboxes { dir: inside.map_err(failed)?.0 }))
    }
}

impl Inboxes {
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Tells the folder from one that was made in its place.
    pub(crate) fn id(&self) -> Result<FileId, InboxError> {
        let failed = |source| InboxError::Folder(TeamFilesError::Folder { source });
        self.dir.id().map_err(failed)
    }

    /// The names of all inboxes that have a file, without `.json`.
    pub(crate) fn names(&self) -> Result<Vec<String>, InboxError> {
        let failed = |source| InboxError::Folder(TeamFilesError::Folder { source });
        let (names, cut) = self.dir.names(ENTRIES_MAX).map_err(failed)?;
        if cut {
            tracing::warn!("there are too many files in a folder of inboxes to look at all");
        }
        let name = |it: &std::ffi::OsString| Some(it.to_str()?.strip_suffix(".json")?.to_owned());
        let mut names: Vec<_> =
            names.iter().filter_map(name).filter(|it| inbox_name(it) == *it).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Removes the locks that an earlier daemon left, so that no writer has to wait for them.
    pub(crate) fn clear_locks(&self) -> Result<(), InboxError> {
        for name in self.names()? {
            super::lock::clear(&self.dir, &file_name(&name));
        }
        Ok(())
    }

    /// Puts into a member's inbox what is not in it yet, and tells what of it was read. What is no
    /// inbox is first waited for, since it may be half written, and then set aside.
    pub(crate) fn serve(
        &self,
        member: &str,
        letters: &[Letter],
        is_final: bool,
    ) -> Result<Served, InboxError> {
        let file = file_name(member);
        let lock = Lock::take(&self.dir, &file).map_err(InboxError::Lock)?;
        let mut served = Served::default();
        let (mut rows, is_lost) = match self.read(&file)? {
            Read::Rows(rows) => (rows, false),
            Read::Missing => (Vec::new(), true),
            Read::Bad if !is_final => {
                served.is_unsettled = true;
                return Ok(served);
            }
            Read::Bad => {
                served.aside = Some(self.set_aside(&file)?);
                (Vec::new(), true)
            }
        };
        let noted = self.noted(member)?;
        served.assigned = rows.iter().filter_map(assigned).collect();
        let mut unread = rows.iter().filter(|row| is_unread(row)).count();
        let mut fresh = Vec::new();
        for letter in letters {
            let id = &letter.message;
            match rows.iter().find_map(|row| of(row, letter)) {
                Some(entry) if entry.read => served.read.push(id.clone()),
                Some(_) => {}
                None if !is_lost && (letter.is_written || noted.contains(id)) => {
                    served.read.push(id.clone());
                }
                None if unread >= UNREAD_MAX => continue,
                None => {
                    rows.push(Row::Entry(letter.entry.clone()));
                    fresh.push(id.clone());
                    unread += 1;
                }
            }
            served.written.push(id.clone());
        }
        if !fresh.is_empty() {
            self.post(&lock, member, &rows, &fresh)?;
        } else if unread == 0 && rows.len() > READ_MAX {
            self.replace(&lock, &file, &[])?;
        }
        Ok(served)
    }

    /// What stands in an inbox of one of ours and has no reader.
    pub(crate) fn look(&self, member: &str, is_final: bool) -> Result<Found, InboxError> {
        let file = file_name(member);
        let mut found = Found::default();
        match self.read(&file)? {
            Read::Rows(rows) => {
                found.entries = rows.into_iter().filter_map(unread_entry).collect();
            }
            Read::Missing => {}
            Read::Bad if !is_final => found.is_unsettled = true,
            Read::Bad => {
                let lock = Lock::take(&self.dir, &file).map_err(InboxError::Lock)?;
                // It may have become whole while the lock was waited for.
                if matches!(self.read(&file)?, Read::Bad) {
                    found.aside = Some(self.set_aside(&file)?);
                    self.replace(&lock, &file, &[])?;
                } else {
                    found.is_unsettled = true;
                }
            }
        }
        Ok(found)
    }

    /// Takes entries out of an inbox of one of ours: those that `is_taken` picks.
    pub(crate) fn take(
        &self,
        member: &str,
        is_taken: impl Fn(&Entry) -> bool,
    ) -> Result<(), InboxError> {
        let file = file_name(member);
        let lock = Lock::take(&self.dir, &file).map_err(InboxError::Lock)?;
        let Read::Rows(rows) = self.read(&file)? else { return Ok(()) };
        let before = rows.len();
        let stays = |it: &Row| match it {
            Row::Entry(entry) => !is_taken(entry),
            Row::Strange(_) => true,
        };
        let rows: Vec<_> = rows.into_iter().filter(stays).collect();
        if rows.len() == before { Ok(()) } else { self.replace(&lock, &file, &rows) }
    }

    fn read(&self, file: &str) -> Result<Read, InboxError> {
        match self.dir.read(Path::new(file), FILE_BYTES_MAX) {
            Ok(Content { bytes, cut: false }) => {
                Ok(serde_json::from_slice(&bytes).map_or(Read::Bad, Read::Rows))
            }
            Err(FileError::Missing { .. }) => Ok(Read::Missing),
            // Too long, a link, a pipe, somebody else's file: no inbox.
            Ok(Content { cut: true, .. })
            | Err(
                FileError::Outside { .. }
                | FileError::NotRegular { .. }
                | FileError::Linked { .. }
                | FileError::ForeignOwner { .. },
            ) => Ok(Read::Bad),
            Err(error) => Err(InboxError::File(error)),
        }
    }

    /// Puts a file with fresh entries in its place. See the module's own words for why there is a
    /// note.
    fn post(
        &self,
        lock: &Lock<'_>,
        member: &str,
        rows: &[Row],
        fresh: &[String],
    ) -> Result<(), InboxError> {
        let file = file_name(member);
        let (prepared, note) = (prepared_name(member), note_name(member));
        let bytes = self.pretty(&file, rows)?;
        let ids = self.pretty(&note, fresh)?;
        let result = self
            .dir
            .prepare(&prepared, &bytes)
            .and_then(|()| self.dir.write_atomic(&note, &ids))
            .map_err(InboxError::File)
            .and_then(|()| {
                if !lock.is_held() {
                    return Err(InboxError::LostLock { path: self.dir.path().join(&file) });
                }
                self.dir.put_in_place(&prepared, &file).map_err(InboxError::File)
            });
        if result.is_err() && self.dir.has(&prepared).unwrap_or(true) {
            // The note first: alone it would say that the entries were in the file.
            let undone = self.dir.discard(&note).and_then(|()| self.dir.discard(&prepared));
            if let Err(error) = undone {
                tracing::warn!(member, %error, "what was prepared for an inbox stays; it is written again");
            }
        }
        result
    }

    /// The entries that the last note says were put in, and that were: what was prepared is gone
    /// from its own name.
    fn noted(&self, member: &str) -> Result<Vec<String>, InboxError> {
        if self.dir.has(&prepared_name(member)).map_err(InboxError::File)? {
            return Ok(Vec::new());
        }
        match self.dir.read(Path::new(&note_name(member)), NOTE_BYTES_MAX) {
            Ok(note) => Ok(serde_json::from_slice(&note.bytes).unwrap_or_default()),
            Err(FileError::Missing { .. }) => Ok(Vec::new()),
            Err(error) => Err(InboxError::File(error)),
        }
    }

    fn replace(&self, lock: &Lock<'_>, file: &str, rows: &[Row]) -> Result<(), InboxError> {
        let bytes = self.pretty(file, rows)?;
        if !lock.is_held() {
            return Err(InboxError::LostLock { path: self.dir.path().join(file) });
        }
        self.dir.write_atomic(file, &bytes).map_err(InboxError::File)
    }

    fn set_aside(&self, file: &str) -> Result<PathBuf, InboxError> {
        let name = self.dir.set_damage_aside(file).map_err(InboxError::File)?;
        Ok(self.dir.path().join(name))
    }

    fn pretty<T: serde::Serialize + ?Sized>(
        &self,
        file: &str,
        value: &T,
    ) -> Result<Vec<u8>, InboxError> {
        serde_json::to_vec_pretty(value).map_err(|source| InboxError::Unserialisable {
            path: self.dir.path().join(file),
            source,
        })
    }
}

fn file_name(member: &str) -> String {
    format!("{}.json", inbox_name(member))
}

/// Not ending in `.json`: others would take it for an inbox.
fn note_name(member: &str) -> String {
    format!(".coordd-note-{}", inbox_name(member))
}

fn prepared_name(member: &str) -> String {
    format!(".coordd-post-{}", inbox_name(member))
}

/// The entry that is a letter, or says the same in the words of others.
fn of<'a>(row: &'a Row, letter: &Letter) -> Option<&'a Entry> {
    let Row::Entry(entry) = row else { return None };
    let is_it = entry.message() == Some(&letter.message)
        || letter.assigns.as_ref().is_some_and(|it| it.is_said_by(entry));
    is_it.then_some(entry)
}

fn assigned(row: &Row) -> Option<String> {
    match row {
        Row::Entry(entry) => assigned_by_others(entry),
        Row::Strange(_) => None,
    }
}

fn is_unread(row: &Row) -> bool {
    match row {
        Row::Entry(entry) => !entry.read,
        Row::Strange(_) => false,
    }
}

fn unread_entry(row: Row) -> Option<Entry> {
    match row {
        Row::Entry(entry) if !entry.read => Some(entry),
        Row::Entry(_) | Row::Strange(_) => None,
    }
}

#[cfg(test)]
mod tests;
