//! Why a folder or a file in it was refused, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirError {
    #[error("{} belongs to user {uid}, not to you; ask its owner to remove it, or choose another place", path.display())]
    ForeignOwner { path: PathBuf, uid: u32 },
    #[error("{} is a symbolic link, and links are not followed here; remove it", path.display())]
    Symlink { path: PathBuf },
    #[error("{} is {found} where a folder is needed; move it out of the way", path.display())]
    NotADirectory { path: PathBuf, found: &'static str },
    #[error("{p} has mode {mode:03o} and is open to others; run: chmod 700 {p}", p = path.display())]
    BadMode { path: PathBuf, mode: u32 },
    #[error("{p} is opened to others by an access control list; run: setfacl -b {p} && chmod 700 {p}", p = path.display())]
    Acl { path: PathBuf },
    #[error(
        "other users can replace files in {} (mode {mode:04o}, user {uid}); remove their write access, set its \
         sticky bit, or choose another place",
        path.display()
    )]
    UnsafeParent { path: PathBuf, mode: u32, uid: u32 },
    #[error("{} does not exist; create it, or choose another place", path.display())]
    Missing { path: PathBuf },
    #[error("{} cannot be reached: its symbolic links form a loop; remove one of them", path.display())]
    Loop { path: PathBuf },
    #[error("the file system allows no name as long as the last one of {}; choose another place", path.display())]
    NameTooLong { path: PathBuf },
    #[error("{name:?} cannot be the name of a folder; use letters, digits, `.`, `_` and `-`")]
    BadName { name: String },
    #[error("{} was open to others and has more than {limit} entries; check its content and remove it", path.display())]
    TooManyEntries { path: PathBuf, limit: usize },
    #[error("could not {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl DirError {
    pub(crate) fn io(action: &'static str, path: &Path, error: Errno) -> Self {
        Self::Io { action, path: path.into(), source: error.into() }
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("{} leads out of its folder or through a symbolic link; name a file below the folder", path.display())]
    Outside { path: PathBuf },
    #[error("{} is {found}, not a file; name a regular file", path.display())]
    NotRegular { path: PathBuf, found: &'static str },
    #[error("{} is a hard link, so it may be a file from elsewhere; copy it and use the copy", path.display())]
    Linked { path: PathBuf },
    #[error("{} belongs to user {uid}, not to you; ask its owner to remove it", path.display())]
    ForeignOwner { path: PathBuf, uid: u32 },
    #[error("there is no space left to write {}; free some space and try again", path.display())]
    DiskFull { path: PathBuf },
    #[error("could not {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl FileError {
    pub(crate) fn io(action: &'static str, path: &Path, error: Errno) -> Self {
        Self::of(action, path, error.into())
    }

    pub(crate) fn of(action: &'static str, path: &Path, source: io::Error) -> Self {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::DiskFull { path: path.into() };
        }
        Self::Io { action, path: path.into(), source }
    }
}
