//! Folders that are held by file descriptor, so that a changed path cannot lead elsewhere.
//!
//! A path is walked once. Each step is opened without following a link, and what was opened is what
//! gets checked: a folder, ours, closed to others. From then on everything goes through the
//! descriptor.
//!
//! ```text
//! base (the user's choice, links followed) --name--> private 0700 --name--> private 0700 ...
//! ```
//!
//! It must not change a folder by its path, and must not open a name that contains a separator.

mod atomic;
mod beneath;
mod error;
mod file;
mod remove;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

pub(crate) use atomic::{Renamed, Replacement};
pub(crate) use coordd_common::processes::euid;
pub(crate) use error::{DirError, FileError};
pub(crate) use file::Content;
pub(crate) use remove::{Kept, Removal};
use rustix::fs::{
    AtFlags, Dir as DirStream, FileType, Mode, OFlags, Stat, fchmod, fgetxattr_query, fstat, fsync,
    mkdirat, open, openat, renameat_with, statat,
};
use rustix::io::Errno;

/// Longest name of a file that common file systems take.
const NAME_BYTES_MAX: usize = 255;

/// Most entries of a loose folder that are moved aside one by one before it is refused instead.
const QUARANTINE_ENTRIES_MAX: usize = 10_000;

/// A folder that was checked when it was opened.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    /// The path by which the folder was found. For messages, never for opening.
    path: PathBuf,
}

/// What is demanded of a folder that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Ours and 0700; a looser one of ours is closed, and what others could have put there is moved
    /// aside.
    Repaired,
    /// Ours and 0700; a looser one is refused. For folders that the user named.
    Strict,
    /// Ours and not writable by others; left as it is. For folders that are shared with other
    /// programs.
    Shared,
}

/// How a folder was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It was made now.
    Created,
    /// It stood already.
    Existing,
    /// It stood open to others and was closed.
    Repaired {
        /// The number of entries that were moved aside, because other users could have put them
        /// there.
        quarantined: usize,
    },
}

/// Tells one file or folder from any other on this machine, for as long as somebody holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    /// Of what stands at a path now; a link counts as itself. None when nothing can be seen there.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        rustix::fs::lstat(path).ok().map(|it| Self::of(&it))
    }

    /// Of what is open.
    pub(crate) fn held(file: impl AsFd) -> Option<Self> {
        fstat(file).ok().map(|it| Self::of(&it))
    }

    fn of(stat: &Stat) -> Self {
        Self { dev: stat.st_dev, ino: stat.st_ino }
    }
}

impl Dir {
    /// Opens a folder that the user or the system chose, following links. Nobody else may be able
    /// to exchange what is in it: writable by others only with the sticky bit.
    pub(crate) fn base(path: &Path) -> Result<Self, DirError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => DirError::Missing { path: path.into() },
            Errno::NOTDIR => DirError::NotADirectory { path: path.into(), found: "something else" },
            Errno::LOOP => DirError::Loop { path: path.into() },
            Errno::NAMETOOLONG => DirError::NameTooLong { path: path.into() },
            error => DirError::io("open", path, error),
        })?;
        let stat = fstat(&fd).map_err(|error| DirError::io("look at", path, error))?;
        let mode = stat.st_mode & 0o7777;
        let uid = euid();
        let trusted_owner = stat.st_uid == uid || stat.st_uid == 0;
        let sticky = mode & 0o1000 != 0;
        if !trusted_owner || (others_can_write(&stat) && !sticky) {
            return Err(DirError::UnsafeParent { path: path.into(), mode, uid: stat.st_uid });
        }
        Ok(Self { fd, path: path.into() })
    }

    /// Opens a folder below this one as the demand says, and makes it, 0700, when it is not there.
    pub(crate) fn enter(&self, name: &str, demand: Demand) -> Result<(Self, Found), DirError> {
        let path = self.child_path(name)?;
        let created = match mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(Errno::NAMETOOLONG) => return Err(DirError::NameTooLong { path }),
            Err(error) => return Err(DirError::io("create", &path, error)),
        };
        match self.open_checked(name, &path, demand)? {
            Some((dir, _)) if created => {
                // The folder's name must be on disk before anything in it counts as durable.
                fsync(&self.fd).map_err(|error| DirError::io("write", &self.path, error))?;
                Ok((dir, Found::Created))
            }
            Some((dir, found)) => Ok((dir, found)),
            None => Err(DirError::Missing { path }),
        }
    }

    /// Opens a folder below this one as the demand says. None when it is not there.
    pub(crate) fn existing(&self, name: &str, demand: Demand) -> Result<Option<Self>, DirError> {
        let path = self.child_path(name)?;
        Ok(self.open_checked(name, &path, demand)?.map(|(dir, _)| dir))
    }

    /// The path by which the folder was found, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn id(&self) -> Result<FileId, DirError> {
        let stat = self.stat()?;
        Ok(FileId::of(&stat))
    }

    /// What stands in it under a name now; a link counts as itself.
    pub(crate) fn id_of(&self, name: &OsStr) -> Option<FileId> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|it| FileId::of(&it))
    }

    /// Removes a file from it if it is still the one that is meant: what somebody else has put under its name stays.
    pub(crate) fn unlink_own(&self, name: &OsStr, own: FileId) -> rustix::io::Result<()> {
        match self.id_of(name) {
            Some(found) if found == own => rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether it was removed while it was held.
    pub(crate) fn is_removed(&self) -> Result<bool, DirError> {
        Ok(self.stat()?.st_nlink == 0)
    }

    /// At most `limit` names in it, in no order, and whether there are more.
    pub(crate) fn names(&self, limit: usize) -> Result<(Vec<OsString>, bool), DirError> {
        let failed = |error| DirError::io("list", &self.path, error);
        let mut names = Vec::new();
        for entry in DirStream::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == limit {
                return Ok((names, true));
            }
            names.push(OsString::from_vec(name.to_vec()));
        }
        Ok((names, false))
    }

    fn stat(&self) -> Result<Stat, DirError> {
        fstat(&self.fd).map_err(|error| DirError::io("look at", &self.path, error))
    }

    fn child_path(&self, name: &str) -> Result<PathBuf, DirError> {
        if is_plain_name(OsStr::new(name)) {
            Ok(self.path.join(name))
        } else {
            Err(DirError::BadName { name: name.chars().take(80).collect() })
        }
    }

    fn open_checked(
        &self,
        name: &str,
        path: &Path,
        demand: Demand,
    ) -> Result<Option<(Self, Found)>, DirError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.why_not(name, path, error)),
        };
        let dir = Self { fd, path: path.into() };
        let stat = dir.stat()?;
        if stat.st_uid != euid() {
            return Err(DirError::ForeignOwner { path: path.into(), uid: stat.st_uid });
        }
        let mode = stat.st_mode & 0o7777;
        let found = match demand {
            Demand::Shared if !others_can_write(&stat) => Found::Existing,
            Demand::Repaired | Demand::Strict if mode & 0o777 == 0o700 => Found::Existing,
            // The group bits are the mask of an access control list where there is one.
            Demand::Shared | Demand::Strict | Demand::Repaired
                if mode & 0o070 != 0 && has_access_list(&dir.fd) =>
            {
                return Err(DirError::Acl { path: path.into() });
            }
            Demand::Shared | Demand::Strict => {
                return Err(DirError::BadMode { path: path.into(), mode });
            }
            Demand::Repaired => dir.repair(mode)?,
        };
        Ok(Some((dir, found)))
    }

    /// Says why a name could not be opened as a folder.
    fn why_not(&self, name: &str, path: &Path, error: Errno) -> DirError {
        let Ok(stat) = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return DirError::io("open", path, error);
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => DirError::Symlink { path: path.into() },
            FileType::Directory if stat.st_uid != euid() => {
                DirError::ForeignOwner { path: path.into(), uid: stat.st_uid }
            }
            FileType::Directory if matches!(error, Errno::ACCESS | Errno::PERM) => {
                DirError::BadMode { path: path.into(), mode: stat.st_mode & 0o7777 }
            }
            FileType::Directory => DirError::io("open", path, error),
            kind @ (FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown) => {
                DirError::NotADirectory { path: path.into(), found: kind_name(kind) }
            }
        }
    }

    /// Closes a folder of ours to others, and moves aside what they could have put there (rel-2).
    fn repair(&self, mode: u32) -> Result<Found, DirError> {
        fchmod(&self.fd, Mode::RWXU)
            .map_err(|_| DirError::BadMode { path: self.path.clone(), mode })?;
        let quarantined = if mode & 0o022 == 0 { 0 } else { self.quarantine()? };
        Ok(Found::Repaired { quarantined })
    }

    fn quarantine(&self) -> Result<usize, DirError> {
        let (names, more) = self.names(QUARANTINE_ENTRIES_MAX)?;
        if more {
            let path = self.path.clone();
            return Err(DirError::TooManyEntries { path, limit: QUARANTINE_ENTRIES_MAX });
        }
        if names.is_empty() {
            return Ok(0);
        }
        let mark = format!(".quarantine-{}", crate::clock::wall_ms() / 1000);
        let failed =
            |error| DirError::io("move aside what others could have put into", &self.path, error);
        match mkdirat(&self.fd, &*mark, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let aside = openat(&self.fd, &*mark, flags, Mode::empty()).map_err(failed)?;
        let mut moved = 0;
        for (number, name) in names.iter().enumerate().filter(|(_, it)| **it != *mark) {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            let result = match renameat_with(&self.fd, name, &aside, name, flags) {
                // A folder of somebody else cannot change its parent, but its name can be changed.
                Err(Errno::ACCESS | Errno::PERM | Errno::EXIST) => {
                    let new_name = format!("{mark}.{number}");
                    renameat_with(&self.fd, name, &self.fd, &*new_name, flags)
                }
                result => result,
            };
            match result {
                Ok(()) => moved += 1,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(moved)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_plain_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= NAME_BYTES_MAX
        && bytes != b"."
        && bytes != b".."
        && !bytes.contains(&b'/')
        && !bytes.contains(&0)
}

fn others_can_write(stat: &Stat) -> bool {
    // A group that has the user's own number holds only the user, by convention.
    let group_is_user = stat.st_uid == euid() && stat.st_gid == stat.st_uid;
    stat.st_mode & 0o002 != 0 || (stat.st_mode & 0o020 != 0 && !group_is_user)
}

fn has_access_list(fd: &OwnedFd) -> bool {
    fgetxattr_query(fd, "system.posix_acl_access").is_ok()
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something else",
    }
}

#[cfg(test)]
mod tests;
