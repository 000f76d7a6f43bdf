//! Reading files below a folder that others, or agents, may write to.
//!
//! A file is first opened by name alone, checked (regular, one name, ours), and only then opened
//! for reading through that same descriptor: neither a device nor a pipe is ever opened, and
//! nothing can be exchanged in between.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;

use super::{Dir, FileError, beneath, euid, kind_name};

/// The beginning of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    /// Whether the file is longer than that.
    pub(crate) cut: bool,
}

impl Dir {
    /// Reads at most `bytes_max` of a file below this folder.
    pub(crate) fn read(&self, path: &Path, bytes_max: usize) -> Result<Content, FileError> {
        let shown = self.path.join(path);
        let found = beneath::open(self, path, OFlags::PATH).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => FileError::Missing { path: shown.clone() },
            Errno::XDEV | Errno::LOOP | Errno::INVAL => FileError::Outside { path: shown.clone() },
            error => FileError::io("open", &shown, error),
        })?;
        let file = reopen(&found, &shown)?;
        let mut bytes = Vec::new();
        let limit = bytes_max as u64 + 1;
        File::from(file).take(limit).read_to_end(&mut bytes).map_err(|source| FileError::Io {
            action: "read",
            path: shown,
            source,
        })?;
        let cut = bytes.len() > bytes_max;
        bytes.truncate(bytes_max);
        Ok(Content { bytes, cut })
    }

    /// Opens a file directly in this folder for appending, and makes it, 0600, when it is not
    /// there.
    pub(crate) fn append(&self, name: &str) -> Result<File, FileError> {
        let shown = self.path.join(name);
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let fd =
            openat(self, name, flags, Mode::RUSR | Mode::WUSR).map_err(|error| match error {
                Errno::LOOP => {
                    FileError::NotRegular { path: shown.clone(), found: "a symbolic link" }
                }
                Errno::NXIO => FileError::NotRegular { path: shown.clone(), found: "a named pipe" },
                error => FileError::io("open", &shown, error),
            })?;
        check(&fd, &shown)?;
        Ok(File::from(fd))
    }
}

fn reopen(found: &OwnedFd, shown: &Path) -> Result<OwnedFd, FileError> {
    check(found, shown)?;
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(link, flags, Mode::empty()).map_err(|error| FileError::io("open", shown, error))
}

/// Refuses everything but a regular file of ours with a single link.
pub(super) fn check(fd: &OwnedFd, shown: &Path) -> Result<(), FileError> {
    let stat = fstat(fd).map_err(|error| FileError::io("look at", shown, error))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind == FileType::Symlink {
        return Err(FileError::Outside { path: shown.into() });
    }
    if kind != FileType::RegularFile {
        return Err(FileError::NotRegular { path: shown.into(), found: kind_name(kind) });
    }
    if stat.st_uid != euid() {
        return Err(FileError::ForeignOwner { path: shown.into(), uid: stat.st_uid });
    }
    if stat.st_nlink != 1 {
        return Err(FileError::Linked { path: shown.into() });
    }
    Ok(())
}
