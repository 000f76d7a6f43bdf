//! The daemon's socket: found again at its path, or made anew there; and taken away at the end if it is still ours.

use std::ffi::OsString;
use std::path::PathBuf;

use interprocess::local_socket::tokio::Listener;

use crate::dir::{Dir, FileId};
use crate::listener;
use crate::paths::{self, Paths, PathsError};
use crate::store::lock::{InstanceLock, LockError};

/// Why clients do not find the socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("the folder of the socket is not what it was")]
    Folder { source: PathsError },
    #[error("another coordd has taken the place of the socket")]
    Taken { source: LockError },
    #[error("the socket cannot be made anew")]
    Bind { source: anyhow::Error },
}

/// The socket, with the folder that it was made in and the lock there.
#[derive(Debug)]
pub(crate) struct Socket {
    paths: Paths,
    folder: Dir,
    lock: InstanceLock,
    name: OsString,
    /// What stands at the path when all is well. None when the service manager's was gone already.
    id: Option<FileId>,
    /// Whether the service manager made it: then it is not ours to remove.
    is_the_managers: bool,
}

impl Socket {
    /// One that was made by us.
    pub(crate) fn bound(paths: Paths, folder: Dir, lock: InstanceLock, id: FileId) -> Self {
        let name = paths.socket.file_name().unwrap_or_default().to_owned();
        Self { paths, folder, lock, name, id: Some(id), is_the_managers: false }
    }

    /// One that the service manager handed over.
    pub(crate) fn handed(paths: Paths, folder: Dir, lock: InstanceLock) -> Self {
        let name = paths.socket.file_name().unwrap_or_default().to_owned();
        let id = FileId::at(&paths.socket);
        Self { paths, folder, lock, name, id, is_the_managers: true }
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.paths.socket
    }

    /// Whether the service manager listens at the path.
    pub(super) fn is_the_managers(&self) -> bool {
        self.is_the_managers
    }

    /// The folder that it is in, and its name there.
    pub(super) fn watched(&self) -> (&Dir, &OsString) {
        (&self.folder, &self.name)
    }

    /// Looks whether clients find it. A new one is returned where it was gone.
    pub(super) fn look(&mut self) -> Result<Option<Listener>, SocketError> {
        if self.is_there() && self.lock.is_in_place(self.folder.path()) {
            return Ok(None);
        }
        let folder =
            paths::open_runtime(&self.paths).map_err(|source| SocketError::Folder { source })?;
        if !self.lock.is_in_place(folder.path()) {
            // First: without it somebody else may be about to listen there.
            self.lock =
                InstanceLock::take(&folder).map_err(|source| SocketError::Taken { source })?;
        }
        if self.is_there() {
            self.folder = folder;
            return Ok(None);
        }
        let bound = listener::bind(&self.paths.socket);
        let (listener, id) = bound.map_err(|source| SocketError::Bind { source })?;
        // It may be in a folder that was only moved away.
        self.remove();
        (self.folder, self.id, self.is_the_managers) = (folder, Some(id), false);
        Ok(Some(listener))
    }

    /// Leaves a word beside it for the next daemon.
    pub(super) fn leave(&self, text: &str) {
        match paths::open_runtime(&self.paths) {
            Ok(folder) => super::note::leave(&folder, text),
            Err(error) => {
                let error = coordd_common::chain(&error);
                tracing::warn!(error, "the next coordd cannot be told what was lost");
            }
        }
    }

    fn is_there(&self) -> bool {
        self.id.is_some() && FileId::at(&self.paths.socket) == self.id
    }

    /// Takes it away, unless the manager made it. What stands in its place by now is somebody else's, and stays (fR6).
    pub(crate) fn remove(&self) {
        let Some(id) = self.id.filter(|_| !self.is_the_managers) else { return };
        if let Err(error) = self.folder.unlink_own(&self.name, id) {
            tracing::warn!(%error, "the socket could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    fn paths(home: &Path) -> Paths {
        let socket = home.join("run/s").into_os_string();
        paths::find(&|name| match name {
            "HOME" => Some(home.into()),
            "COORDD_SOCKET" => Some(socket.clone()),
            _ => None,
        })
        .unwrap()
    }

    fn socket(home: &Path) -> (Socket, Listener) {
        let paths = paths(home);
        let folder = paths::open_runtime(&paths).unwrap();
        let lock = InstanceLock::take(&folder).unwrap();
        let (listener, id) = listener::bind(&paths.socket).unwrap();
        (Socket::bound(paths, folder, lock, id), listener)
    }

    #[tokio::test]
    async fn fr5_a_socket_that_is_gone_is_made_anew_and_one_that_is_there_is_left() {
        let home = tempfile::tempdir().unwrap();
        let (mut socket, _listener) = socket(home.path());
        let path = socket.path().clone();
        assert!(socket.look().unwrap().is_none());
        fs::remove_file(&path).unwrap();
        let _second = socket.look().unwrap().expect("made anew");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let _third = socket.look().unwrap().expect("made anew with its folder");
        assert!(listener::is_served(&path));
        fs::remove_file(path.with_file_name("coordd.lock")).unwrap();
        assert!(socket.look().unwrap().is_none(), "only the lock was gone");
        let taken = InstanceLock::take(&paths::open_runtime(&socket.paths).unwrap());
        assert!(matches!(taken, Err(LockError::Busy { .. })), "it is taken again");
    }

    /// fR6: whoever serves there now keeps its socket, and so does a file that is no socket.
    #[tokio::test]
    async fn fr6_what_somebody_else_has_put_there_stays() {
        let home = tempfile::tempdir().unwrap();
        let (mut socket, _listener) = socket(home.path());
        let path = socket.path().clone();
        let aside = home.path().join("aside");
        fs::rename(path.parent().unwrap(), &aside).unwrap();
        let other = paths::open_runtime(&socket.paths).unwrap();
        let lock = InstanceLock::take(&other).unwrap();
        let _theirs = UnixListener::bind(&path).unwrap();
        let before = FileId::at(&path);
        assert!(matches!(socket.look(), Err(SocketError::Taken { .. })));
        drop(lock);
        assert!(matches!(socket.look(), Err(SocketError::Bind { .. })));
        socket.remove();
        assert_eq!(FileId::at(&path), before);
        assert!(!aside.join("s").exists(), "ours, wherever its folder is now");
    }
}
