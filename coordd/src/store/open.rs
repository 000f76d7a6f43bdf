//! Opening a store: whole, of an older schema, of a newer one, or damaged.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, open as open_file, statfs};
use rustix::io::Errno;

use super::rescue::{rescue, set_aside, with};
use super::sqlite::{SqliteStore, Stopped, connect, read_rows};
use super::wal::{WalState, look};
use super::{Store as _, StoreError};
use crate::dir::euid;

/// Marks the file as coordd's: "crdd".
const APPLICATION_ID: i64 = 0x6372_6464;

const SCHEMA: &str = "CREATE TABLE record(seq INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body TEXT NOT NULL) STRICT;";

/// What makes a schema into the next one, from the first on. The schema's number is one more than
/// there are steps.
const MIGRATIONS: &[&str] = &[];

/// File systems whose locks and fsyncs reach no further than this machine believes: NFS, SMB, CIFS,
/// SMB2, 9P, AFS.
const NETWORK_FILE_SYSTEMS: [u64; 6] =
    [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x5346_414F];

/// A store that can be used, and what it took.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: SqliteStore,
    /// Set when the store on disk was damaged. The user must be told.
    pub(crate) damage: Option<Damage>,
}

/// What became of a damaged store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Where its files are now.
    pub(crate) set_aside: PathBuf,
    /// How many records could be carried over. What came after the damage is lost.
    pub(crate) rescued: usize,
    /// What was wrong, for people.
    pub(crate) cause: String,
}

/// Why a store was not whole.
enum Fault {
    Damaged(String),
    Failed(StoreError),
}

/// Opens the store at `path`, or makes it. The caller holds the lock of the folder.
pub(crate) fn open(path: &Path) -> Result<Opened, StoreError> {
    open_with(path, MIGRATIONS)
}

fn open_with(path: &Path, migrations: &[&str]) -> Result<Opened, StoreError> {
    match open_whole(path, migrations) {
        Ok(store) => Ok(Opened { store, damage: None }),
        Err(Fault::Failed(error)) => Err(error),
        Err(Fault::Damaged(cause)) => {
            let aside = set_aside(path)?;
            tracing::warn!(path = %aside.display(), cause, "the damaged store was set aside");
            let records = rescue(&aside);
            let mut store = open_whole(path, migrations).map_err(|fault| match fault {
                Fault::Failed(error) => error,
                Fault::Damaged(_) => StoreError::Broken { path: path.into() },
            })?;
            store.replace(&records)?;
            let damage = Damage { set_aside: aside, rescued: records.len(), cause };
            Ok(Opened { store, damage: Some(damage) })
        }
    }
}

fn open_whole(path: &Path, migrations: &[&str]) -> Result<SqliteStore, Fault> {
    if !check_file(path).map_err(Fault::Failed)? {
        create(path, migrations)?;
    }
    check_header(path)?;
    let wal = look(&with(path, "-wal")).map_err(|source| {
        Fault::Failed(StoreError::Io { action: "read", path: with(path, "-wal"), source })
    })?;
    if wal == WalState::Damaged {
        return Err(Fault::Damaged("its write-ahead log is damaged".to_owned()));
    }
    let connection = connect(path).map_err(judge)?;
    let failed = |action| {
        let path = path.to_path_buf();
        move |source| judge(StoreError::Sqlite { action, path, source })
    };
    settle_schema(path, &connection, migrations)?;
    if wal != WalState::Absent {
        // It did not end cleanly.
        let verdict: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(failed("check"))?;
        if verdict != "ok" {
            return Err(Fault::Damaged(verdict));
        }
    }
    let rows = read_rows(&connection);
    match rows.stopped {
        Stopped::AtEnd => {
            SqliteStore::new(path, connection, rows.bodies, rows.seq_next).map_err(judge)
        }
        Stopped::AtDamage(Some(error)) => Err(failed("read")(error)),
        Stopped::AtDamage(None) => {
            Err(Fault::Damaged(format!("the record after number {} is damaged", rows.bodies.len())))
        }
    }
}

/// Makes a new store under another name first, so that a file without contents is never a store
/// that was just made.
fn create(path: &Path, migrations: &[&str]) -> Result<(), Fault> {
    if with(path, "-wal").exists() {
        return Err(Fault::Damaged("its main file is gone".to_owned()));
    }
    let half = with(path, ".half");
    for part in ["", "-wal", "-shm"] {
        // Left over by a start that was cut off; as a rule it is not there.
        drop(fs::remove_file(with(&half, part)));
    }
    let io = |action| {
        let path = path.to_path_buf();
        move |source| Fault::Failed(io_error(action, &path, source))
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = open_file(&half, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| io("create")(error.into()))?;
    let connection = connect(&half).map_err(judge)?;
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX - 1) + 1;
    let steps = std::iter::once(SCHEMA).chain(migrations.iter().copied());
    let failed = |source| judge(StoreError::Sqlite { action: "create", path: path.into(), source });
    migrate(&connection, steps, known).map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    rustix::fs::fsync(fd).map_err(|error| io("sync")(error.into()))?;
    fs::rename(&half, path).map_err(io("create"))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|it| it.sync_all()).map_err(io("sync the folder of"))
}

/// SQLite takes a file that is shorter than a page for a new one, and would write over it.
fn check_header(path: &Path) -> Result<(), Fault> {
    let mut header = [0; 100];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    match read {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => Ok(()),
        Ok(()) => Err(Fault::Damaged("its header is not that of a database".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(Fault::Damaged("it is shorter than its header".to_owned()))
        }
        Err(error) => Err(Fault::Failed(io_error("read", path, error))),
    }
}

/// Brings an older file to today's schema.
fn settle_schema(path: &Path, connection: &Connection, migrations: &[&str]) -> Result<(), Fault> {
    let failed =
        |source| judge(StoreError::Sqlite { action: "open", path: path.to_path_buf(), source });
    let number = |pragma: &str| -> rusqlite::Result<i64> {
        connection.pragma_query_value(None, pragma, |row| row.get(0))
    };
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX - 1) + 1;
    let version = number("user_version").map_err(failed)?;
    let application = number("application_id").map_err(failed)?;
    if application != APPLICATION_ID {
        return Err(Fault::Damaged("it is not a store of coordd".to_owned()));
    }
    if version > known {
        let path = path.into();
        return Err(Fault::Failed(StoreError::Newer { path, found: version, known }));
    }
    if version == known {
        return Ok(());
    }
    let Some(steps) = usize::try_from(version - 1).ok().and_then(|it| migrations.get(it..)) else {
        return Err(Fault::Damaged(format!("its schema has the number {version}")));
    };
    back_up(path, connection, version)?;
    migrate(connection, steps.iter().copied(), known).map_err(failed)
}

fn migrate<'a>(
    connection: &Connection,
    steps: impl Iterator<Item = &'a str>,
    version: i64,
) -> rusqlite::Result<()> {
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    for step in steps {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()?;
    // A store that is only a log would be nothing without it.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// A copy of a store of an older schema, beside it. One that stands already is as good.
fn back_up(path: &Path, connection: &Connection, version: i64) -> Result<(), Fault> {
    let copy = with(path, &format!(".schema-{version}"));
    if copy.exists() {
        return Ok(());
    }
    // Made under another name first, so that half a copy is never taken for one.
    let half = with(&copy, ".half");
    drop(fs::remove_file(&half));
    let name = half.to_string_lossy().into_owned();
    connection.execute("VACUUM INTO ?1", [name]).map_err(|source| {
        judge(StoreError::Sqlite { action: "back up", path: path.into(), source })
    })?;
    let finish = || {
        let file = fs::File::open(&half)?;
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        file.sync_all()?;
        fs::rename(&half, &copy)
    };
    finish().map_err(|source| {
        Fault::Failed(StoreError::Io { action: "back up the store to", path: copy.clone(), source })
    })
}

/// Checks that it is a file of ours on a disk of this machine, and closes it to others. False when
/// it is not there.
fn check_file(path: &Path) -> Result<bool, StoreError> {
    let io = |action, error: Errno| io_error(action, path, error.into());
    let not_a_file = |found| StoreError::NotAFile { path: path.to_path_buf(), found };
    let folder = path.parent().unwrap_or(Path::new("."));
    let system = statfs(folder).map_err(|error| io("look at the folder of", error))?;
    // The kernel's word has another width and sign on each machine; all magic numbers have 32 bits.
    #[expect(clippy::cast_sign_loss, reason = "only the low 32 bits are looked at")]
    let kind = system.f_type as u64 & 0xFFFF_FFFF;
    if NETWORK_FILE_SYSTEMS.contains(&kind) {
        return Err(StoreError::NetworkFileSystem { path: path.into() });
    }
    let flags =
        OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = match open_file(path, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(false),
        Err(Errno::LOOP) => return Err(not_a_file("a symbolic link")),
        Err(Errno::ISDIR) => return Err(not_a_file("a folder")),
        Err(error) => return Err(io("open", error)),
    };
    let stat = fstat(&fd).map_err(|error| io("look at", error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(not_a_file("something else"));
    }
    if stat.st_uid != euid() {
        return Err(StoreError::ForeignOwner { path: path.into(), uid: stat.st_uid });
    }
    // SQLite gives the log the mode of this file.
    fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(|error| io("close to others", error))?;
    Ok(true)
}

fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    let full = matches!(
        source.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    );
    if full {
        StoreError::DiskFull { path: path.into() }
    } else {
        StoreError::Io { action, path: path.into(), source }
    }
}

/// Tells damage from what has nothing to do with the file's contents.
fn judge(error: StoreError) -> Fault {
    let StoreError::Sqlite { path, source, action } = error else { return Fault::Failed(error) };
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Fault::Damaged(source.to_string())
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Fault::Failed(StoreError::InUse { path })
        }
        Some(ErrorCode::DiskFull) => Fault::Failed(StoreError::DiskFull { path }),
        // The rows are not what the schema says.
        _ if is_of_contents(&source) => Fault::Damaged(source.to_string()),
        _ => Fault::Failed(StoreError::Sqlite { action, path, source }),
    }
}

fn is_of_contents(error: &rusqlite::Error) -> bool {
    let no_such_table = error.sqlite_error_code() == Some(ErrorCode::Unknown);
    let bad_value = matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    );
    no_such_table || bad_value
}

#[cfg(test)]
mod tests;
