//! The store in SQLite: one table, one row a record.
//!
//! The settings are read back, because a file system can refuse them without a word. Checkpoints
//! are made by a thread of their own, so that no commit waits for one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use super::checkpoint::Checkpointer;
use super::rescue::with;
use super::{RECORD_BYTES_MAX, Store, StoreError, crc};
use crate::dir::FileId;

/// How long a commit waits for a checkpoint that holds a lock for a moment.
const BUSY_MS: u64 = 5_000;

/// What a setting must read back as.
const PRAGMAS: [(&str, &str); 6] = [
    ("journal_mode", "wal"),
    ("synchronous", "2"),
    ("locking_mode", "normal"),
    ("foreign_keys", "1"),
    ("wal_autocheckpoint", "0"),
    ("cell_size_check", "1"),
];

/// SQLite's code for an fsync that failed: `SQLITE_IOERR_FSYNC`, `SQLITE_IOERR_DIR_FSYNC`.
const FSYNC_FAILED: [i32; 2] = [1034, 1290];

/// An open store.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    path: PathBuf,
    // Before the connection, so that the thread's own connection closes first and this one tidies
    // up.
    checkpointer: Checkpointer,
    connection: Connection,
    held: [Held; 2],
    seq_next: i64,
    /// What opening has read already, for the first load.
    loaded: Option<Vec<String>>,
    broken: bool,
}

/// A file of the store, as it was when the store was opened. The log stands for as long as a connection is open.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    id: Option<FileId>,
}

impl Held {
    fn of(path: PathBuf) -> Self {
        let id = FileId::at(&path);
        Self { path, id }
    }

    fn is_in_place(&self) -> bool {
        self.id.is_some() && FileId::at(&self.path) == self.id
    }
}

impl SqliteStore {
    pub(super) fn new(
        path: &Path,
        connection: Connection,
        rows: Vec<String>,
        seq_next: i64,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            path: path.into(),
            checkpointer: Checkpointer::start(path)?,
            held: [Held::of(path.into()), Held::of(with(path, "-wal"))],
            connection,
            seq_next,
            loaded: Some(rows),
            broken: false,
        })
    }

    fn write(&mut self, clear: bool, records: &[String]) -> Result<(), StoreError> {
        if self.broken {
            return Err(StoreError::Broken { path: self.path.clone() });
        }
        if let Some(record) = records.iter().find(|record| record.len() > RECORD_BYTES_MAX) {
            return Err(StoreError::RecordTooLong { len: record.len() });
        }
        self.loaded = None;
        let first = self.seq_next;
        match transact(&mut self.connection, clear, first, records) {
            Ok(next) => {
                self.seq_next = next;
                let bytes = records.iter().map(String::len).sum();
                self.checkpointer.committed(&self.connection, bytes);
                // Before anybody is told: "accepted" means that the next start finds it.
                self.look()
            }
            Err(error) if is_full(&error, &self.path) => {
                Err(StoreError::DiskFull { path: self.path.clone() })
            }
            Err(source) => {
                self.broken = true;
                Err(StoreError::Sqlite { action: "write to", path: self.path.clone(), source })
            }
        }
    }
}

impl Store for SqliteStore {
    fn load(&mut self) -> Result<Vec<String>, StoreError> {
        if let Some(rows) = self.loaded.take() {
            return Ok(rows);
        }
        let rows = read_rows(&self.connection);
        match rows.stopped {
            Stopped::AtEnd => Ok(rows.bodies),
            Stopped::AtDamage(source) => Err(StoreError::Sqlite {
                action: "read",
                path: self.path.clone(),
                source: source.unwrap_or(rusqlite::Error::InvalidQuery),
            }),
        }
    }

    fn commit(&mut self, records: &[String]) -> Result<(), StoreError> {
        if records.is_empty() { Ok(()) } else { self.write(false, records) }
    }

    fn replace(&mut self, records: &[String]) -> Result<(), StoreError> {
        self.write(true, records)
    }

    fn look(&self) -> Result<(), StoreError> {
        match self.held.iter().find(|file| !file.is_in_place()) {
            Some(file) => Err(StoreError::Gone { path: file.path.clone() }),
            None => Ok(()),
        }
    }
}

/// Writes in one transaction, and returns the number that comes next.
fn transact(
    connection: &mut Connection,
    clear: bool,
    first: i64,
    records: &[String],
) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut seq = first;
    if clear {
        transaction.execute("DELETE FROM record", [])?;
    }
    {
        let mut insert =
            transaction.prepare_cached("INSERT INTO record(seq, crc, body) VALUES(?1, ?2, ?3)")?;
        for body in records {
            insert.execute(params![seq, crc::of_row(seq, body), body])?;
            seq += 1;
        }
    }
    transaction.commit()?;
    Ok(seq)
}

/// What could be read, and why it ended.
pub(super) struct Rows {
    pub(super) bodies: Vec<String>,
    pub(super) seq_next: i64,
    pub(super) stopped: Stopped,
}

pub(super) enum Stopped {
    AtEnd,
    /// At a row that cannot be read, whose checksum is wrong, or that does not follow the one
    /// before.
    AtDamage(Option<rusqlite::Error>),
}

/// Reads rows in order up to the end or the first that is not whole.
pub(super) fn read_rows(connection: &Connection) -> Rows {
    let mut rows = Rows { bodies: Vec::new(), seq_next: 1, stopped: Stopped::AtEnd };
    if let Err(error) = read_into(connection, &mut rows) {
        rows.stopped = Stopped::AtDamage(Some(error));
    }
    rows
}

fn read_into(connection: &Connection, into: &mut Rows) -> rusqlite::Result<()> {
    let mut query = connection.prepare("SELECT seq, crc, body FROM record ORDER BY seq")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, crc, body): (i64, u32, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let follows = into.bodies.is_empty() || seq == into.seq_next;
        if !follows || crc::of_row(seq, &body) != crc {
            into.stopped = Stopped::AtDamage(None);
            return Ok(());
        }
        into.bodies.push(body);
        into.seq_next = seq.saturating_add(1);
    }
    Ok(())
}

/// Opens a connection with every setting in place.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let failed = |source| StoreError::Sqlite { action: "open", path: path.to_path_buf(), source };
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
        | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX
        | rusqlite::OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(Duration::from_millis(BUSY_MS)).map_err(failed)?;
    for (pragma, wanted) in PRAGMAS {
        // Some settings answer when they are set, and some do not.
        connection.pragma_update(None, pragma, wanted).map_err(failed)?;
        let found: String = connection
            .pragma_query_value(None, pragma, |row| row.get_ref(0).map(as_text))
            .map_err(failed)?;
        if found != wanted {
            return Err(StoreError::PragmaRefused { path: path.into(), pragma, found });
        }
    }
    Ok(connection)
}

fn as_text(value: rusqlite::types::ValueRef<'_>) -> String {
    match value {
        rusqlite::types::ValueRef::Integer(number) => number.to_string(),
        rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        rusqlite::types::ValueRef::Null
        | rusqlite::types::ValueRef::Real(_)
        | rusqlite::types::ValueRef::Blob(_) => "something else".to_owned(),
    }
}

/// Whether a write failed for want of space, so that nothing happened and it may be tried again.
fn is_full(error: &rusqlite::Error, path: &Path) -> bool {
    let Some(code) = error.sqlite_error() else { return false };
    let space = code.code == ErrorCode::DiskFull;
    // SQLite knows a full disk by its name, but not a full quota, and not on every call.
    let io = code.code == ErrorCode::SystemIoFailure && !FSYNC_FAILED.contains(&code.extended_code);
    space || (io && no_space_beside(path))
}

fn no_space_beside(path: &Path) -> bool {
    let Some(folder) = path.parent() else { return false };
    let probe = folder.join(".coordd-space");
    let tried = File::create(&probe).and_then(|mut file| {
        use std::io::Write as _;
        // As much as SQLite asks for in one piece.
        file.write_all(&vec![0; 64 * 1024])?;
        file.sync_all()
    });
    // Only a probe: if it stays, the next one replaces it.
    drop(std::fs::remove_file(&probe));
    tried.is_err_and(|error| {
        matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::open::open;

    fn text(records: &[&str]) -> Vec<String> {
        records.iter().map(|record| (*record).to_owned()).collect()
    }

    fn store() -> (tempfile::TempDir, PathBuf, SqliteStore) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordd.db");
        let store = open(&path).unwrap().store;
        (folder, path, store)
    }

    #[test]
    fn d5_what_was_committed_is_there_in_order_after_a_restart() {
        let (_folder, path, mut store) = store();
        assert!(store.load().unwrap().is_empty());
        store.commit(&text(&["a", "b"])).unwrap();
        store.commit(&[]).unwrap();
        store.commit(&text(&["c"])).unwrap();
        assert_eq!(store.load().unwrap(), ["a", "b", "c"]);
        drop(store);
        let mut opened = open(&path).unwrap();
        assert!(opened.damage.is_none());
        assert_eq!(opened.store.load().unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn a_snapshot_replaces_everything_and_the_order_goes_on() {
        let (_folder, path, mut store) = store();
        store.commit(&text(&["a", "b"])).unwrap();
        store.replace(&text(&["s"])).unwrap();
        store.commit(&text(&["c"])).unwrap();
        assert_eq!(store.load().unwrap(), ["s", "c"]);
        drop(store);
        assert_eq!(open(&path).unwrap().store.load().unwrap(), ["s", "c"]);
    }

    #[test]
    fn rel42_every_setting_reads_back() {
        let (_folder, path, _store) = store();
        let connection = connect(&path).unwrap();
        let value = |pragma| {
            connection.pragma_query_value(None, pragma, |row| row.get_ref(0).map(as_text)).unwrap()
        };
        assert_eq!(value("journal_mode"), "wal");
        assert_eq!(value("synchronous"), "2");
        assert_eq!(value("busy_timeout"), "5000");
        assert_eq!(value("wal_autocheckpoint"), "0");
    }

    #[test]
    fn rel44_a_full_disk_refuses_the_commit_and_nothing_else() {
        let (_folder, path, mut store) = store();
        store.commit(&text(&["a"])).unwrap();
        store.connection.pragma_update(None, "max_page_count", 6).unwrap();
        let big = vec!["x".repeat(100_000)];
        assert!(matches!(store.commit(&big), Err(StoreError::DiskFull { .. })));
        assert_eq!(store.load().unwrap(), ["a"]);
        store.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
        store.commit(&text(&["b"])).unwrap();
        drop(store);
        assert_eq!(open(&path).unwrap().store.load().unwrap(), ["a", "b"]);
    }

    #[test]
    fn rel40_after_a_failed_write_nothing_more_is_written() {
        let (_folder, path, mut store) = store();
        store.connection.pragma_update(None, "query_only", true).unwrap();
        assert!(matches!(store.commit(&text(&["a"])), Err(StoreError::Sqlite { .. })));
        store.connection.pragma_update(None, "query_only", false).unwrap();
        assert!(matches!(store.commit(&text(&["a"])), Err(StoreError::Broken { .. })));
        drop(store);
        assert!(open(&path).unwrap().store.load().unwrap().is_empty());
    }

    /// fR8: each file of the store, and its folder, removed, moved or replaced by another one.
    #[test]
    fn fr8_a_commit_that_no_later_start_would_find_has_failed() {
        let moves: [fn(&Path); 4] = [
            |db| std::fs::remove_file(db).unwrap(),
            |db| std::fs::remove_file(with(db, "-wal")).unwrap(),
            |db| {
                std::fs::rename(db.parent().unwrap(), db.parent().unwrap().with_extension("x"))
                    .unwrap();
            },
            |db| {
                let copy = with(db, ".copy");
                std::fs::copy(db, &copy).unwrap();
                std::fs::rename(copy, db).unwrap();
            },
        ];
        for (number, change) in moves.into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("s")).unwrap();
            let path = folder.path().join("s/coordd.db");
            let mut store = open(&path).unwrap().store;
            store.commit(&text(&["a"])).unwrap();
            store.look().unwrap();
            change(&path);
            assert!(matches!(store.look(), Err(StoreError::Gone { .. })), "{number}");
            let told = store.commit(&text(&["b"]));
            assert!(matches!(told, Err(StoreError::Gone { .. })), "{number}: {told:?}");
        }
    }

    #[test]
    fn a_record_without_bound_is_refused_before_anything_is_written() {
        let (_folder, _path, mut store) = store();
        let records = vec!["a".to_owned(), "x".repeat(RECORD_BYTES_MAX + 1)];
        assert!(matches!(store.commit(&records), Err(StoreError::RecordTooLong { .. })));
        assert!(store.load().unwrap().is_empty());
    }
}
