//! The process's own folder: small files, each replaced as a whole, whatever their content.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use coordd_common::files::{make_closed_folder, replace};
use rustix::fs::{FlockOperation, flock};

use crate::limits;

/// Why a file of ours cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write {}; free some space, or make it writable for this user", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is open to other users; run: chmod go= {}", path.display(), path.display())]
    Open { path: PathBuf },
    #[error("{} belongs to another user; move it away", path.display())]
    Foreign { path: PathBuf },
    #[error("{} is longer than {} bytes; move it away", path.display(), limits::FILE_LEN_MAX)]
    TooLong { path: PathBuf },
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens the folder, and creates a missing one. It must belong to this user and be closed to
    /// others.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let failed = |source| FileError::Write { path: path.to_owned(), source };
        make_closed_folder(path).map_err(failed)?;
        let found = std::fs::symlink_metadata(path)
            .map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        if !found.is_dir() || found.uid() != coordd_common::processes::euid() {
            return Err(FileError::Foreign { path: path.to_owned() });
        }
        if found.mode() & 0o077 != 0 {
            return Err(FileError::Open { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Where a file of it is.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file's bytes, or none where there is no such file.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FileError> {
        read(&self.path_of(name))
    }

    /// Replaces a file. The new one is on the disk when this returns.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let path = self.path_of(name);
        replace(&path, bytes, 0o600).map_err(|source| FileError::Write { path, source })
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, FileError> {
        let path = self.path_of(name);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(FileError::Write { path, source }),
        }
    }

    /// Takes the lock against other processes that change files here; dropping the result releases
    /// it.
    pub(crate) fn lock(&self, name: &str) -> Result<File, FileError> {
        let path = self.path_of(name);
        let take = || {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(nix::libc::O_NOFOLLOW)
                .open(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        take().map_err(|source| FileError::Write { path: path.clone(), source })
    }
}

/// A file's bytes, if it exists, belongs to this user and is closed to others.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() || found.uid() != coordd_common::processes::euid() {
        return Err(FileError::Foreign { path: path.to_owned() });
    }
    if found.mode() & 0o077 != 0 {
        return Err(FileError::Open { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(limits::FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limits::FILE_LEN_MAX {
        return Err(FileError::TooLong { path: path.to_owned() });
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn rel1_a_folder_or_file_that_others_can_read_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("bridge");
        let folder = Folder::open(&path).unwrap();
        folder.write("a", b"x").unwrap();
        assert_eq!(folder.read("a").unwrap(), Some(b"x".to_vec()));
        assert_eq!(folder.read("b").unwrap(), None);
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        assert_eq!(std::fs::metadata(path.join("a")).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(path.join("a"), mode(0o640)).unwrap();
        assert!(matches!(folder.read("a"), Err(FileError::Open { .. })));
        std::os::unix::fs::symlink(path.join("a"), path.join("link")).unwrap();
        assert!(matches!(folder.read("link"), Err(FileError::Read { .. })));
        std::fs::set_permissions(&path, mode(0o750)).unwrap();
        assert!(matches!(Folder::open(&path), Err(FileError::Open { .. })));
    }
}
