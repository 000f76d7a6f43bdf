//! A damaged store: set aside as it is, and what can still be read carried over.
//!
//! The damaged files are only renamed, never changed: reading is done on a copy.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::StoreError;
use super::sqlite::{connect, read_rows};

/// Most set-aside stores of the same second.
const SAME_NAME_MAX: u32 = 100;

/// The files that belong to a store, by what is added to its name.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

/// Renames the files of a store, and returns the new name.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let failed = |error: Errno| StoreError::Io {
        action: "set aside the damaged store",
        path: path.into(),
        source: error.into(),
    };
    let stamp = crate::clock::wall_ms() / 1000;
    for number in 1..=SAME_NAME_MAX {
        let mark = if number == 1 {
            format!(".corrupt-{stamp}")
        } else {
            format!(".corrupt-{stamp}-{number}")
        };
        let aside = with(path, &mark);
        // The log first: a database without its log looks whole, a log without its database looks
        // like nothing.
        let taken = PARTS.iter().any(|part| with(&aside, part).exists());
        if taken {
            continue;
        }
        for part in PARTS.iter().rev() {
            let from = with(path, part);
            match renameat_with(CWD, &from, CWD, with(&aside, part), RenameFlags::NOREPLACE) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        return Ok(aside);
    }
    Err(failed(Errno::EXIST))
}

/// The records of a damaged store up to the first that cannot be read. What fails here only makes
/// it fewer.
pub(super) fn rescue(aside: &Path) -> Vec<String> {
    let copy = with(aside, ".rescue");
    let records = copy_and_read(aside, &copy).unwrap_or_else(|error| {
        tracing::warn!(%error, "nothing could be read from the damaged store");
        Vec::new()
    });
    for part in PARTS {
        // Not there, as a rule.
        drop(fs::remove_file(with(&copy, part)));
    }
    records
}

fn copy_and_read(aside: &Path, copy: &Path) -> Result<Vec<String>, StoreError> {
    for part in ["", "-wal"] {
        let from = with(aside, part);
        if !from.exists() {
            continue;
        }
        fs::copy(&from, with(copy, part)).map_err(|source| StoreError::Io {
            action: "copy",
            path: from,
            source,
        })?;
    }
    let connection = connect(copy)?;
    Ok(read_rows(&connection).bodies)
}

/// A path with something added to its last name.
pub(super) fn with(path: &Path, part: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(part);
    name.into()
}
