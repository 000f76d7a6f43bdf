//! What is on disk: the records that make up the daemon's durable state, in order.
//!
//! ```text
//! lock --> open --whole--> load --> commit, commit, … replace …
//!            \--damaged--> set aside, rescue what can be read, say so
//!            \--written by a newer coordd--> refuse
//! ```
//!
//! A commit is one transaction and one fsync; when it returns, the records are on disk. The store
//! knows nothing of what a record says. It must never begin empty in silence, and never write where
//! it could not read.

mod checkpoint;
mod crc;
pub(crate) mod lock;
mod open;
mod rescue;
pub(crate) mod reserve;
pub(crate) mod sqlite;
mod wal;

use std::path::PathBuf;

pub(crate) use open::open;
pub(crate) use sqlite::SqliteStore;

/// Longest record. The largest that the core makes is a message of 256 KiB.
pub(crate) const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Records on disk.
pub(crate) trait Store {
    /// All records, in the order in which they were committed. Each is JSON text.
    fn load(&mut self) -> Result<Vec<String>, StoreError>;

    /// Adds records: all of them or none, on disk when this returns.
    fn commit(&mut self, records: &[String]) -> Result<(), StoreError>;

    /// Puts a snapshot in place of all records: wholly or not at all, on disk when this returns.
    fn replace(&mut self, records: &[String]) -> Result<(), StoreError>;

    /// Whether the next start would find what was committed: the files at the store's path are still the ones that are open.
    fn look(&self) -> Result<(), StoreError>;
}

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// Nothing was written, and it may be tried again.
    #[error("there is no space left for {}; free some, and coordd continues", path.display())]
    DiskFull { path: PathBuf },
    #[error(
        "{p} was written by a newer coordd (schema {found}, this one knows {known}); update coordd, or move {p} away to \
         start afresh",
        p = path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("{} is on a network file system, where a crash could lose data; set COORDD_STATE_DIR to a local folder", path.display())]
    NetworkFileSystem { path: PathBuf },
    #[error("{} is {found}, not a file of coordd; move it away", path.display())]
    NotAFile { path: PathBuf, found: &'static str },
    #[error("{} belongs to user {uid}, not to you; move it away", path.display())]
    ForeignOwner { path: PathBuf, uid: u32 },
    #[error("{} is in use by another process; end it", path.display())]
    InUse { path: PathBuf },
    #[error(
        "a record of {len} bytes is longer than {RECORD_BYTES_MAX}; this is a bug in coordd, please report it"
    )]
    RecordTooLong { len: usize },
    /// After a failed fsync nobody knows what is on disk, so nothing more is written (rel-40).
    #[error("writing to {} failed before, so nothing more is written; check the disk and restart coordd", path.display())]
    Broken { path: PathBuf },
    /// What is committed from now on, and all that was, is not where the next start looks for it.
    #[error(
        "{} was removed, moved or replaced while coordd ran, so what coordd keeps is no longer there; what is wanted \
         back must be put there before coordd starts again",
        path.display()
    )]
    Gone { path: PathBuf },
    #[error("{} does not keep the setting {pragma}: it is {found}; move the folder to a local file system", path.display())]
    PragmaRefused { path: PathBuf, pragma: &'static str, found: String },
    #[error("could not {action} the store {}; check the disk", path.display())]
    Sqlite { action: &'static str, path: PathBuf, source: rusqlite::Error },
    #[error("could not {action} {}; check the disk and its permissions", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
}
