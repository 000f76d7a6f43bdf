//! One daemon for a folder: a lock that the kernel drops with its holder, however that ends.
//!
//! The lock is the flock on the file. The pid inside is for people and decides nothing.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, ftruncate, openat};
use rustix::io::Errno;

use crate::dir::{Dir, FileError, FileId};

/// The lock's file, in each of the folders.
pub(crate) const NAME: &str = "coordd.lock";

/// How often a lock file that was removed meanwhile is made again before somebody is doing it on
/// purpose.
const ATTEMPTS_MAX: usize = 10;

/// Why the lock could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("coordd is already running{} for {}; use it, or stop it with: coordctl daemon stop", pid_text(*pid), folder.display())]
    Busy { pid: Option<u32>, folder: PathBuf },
    #[error("the lock file {} cannot be used; remove it", path.display())]
    File { path: PathBuf, source: FileError },
}

/// Held for as long as the daemon runs.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    file: File,
}

impl InstanceLock {
    /// Whether the lock's file still stands in the folder at this path: without it the lock keeps nobody out.
    pub(crate) fn is_in_place(&self, folder: &Path) -> bool {
        let held = FileId::held(&self.file);
        held.is_some() && FileId::at(&folder.join(NAME)) == held
    }

    /// Takes the lock of a folder, or says who has it.
    pub(crate) fn take(dir: &Dir) -> Result<Self, LockError> {
        let path = dir.path().join(NAME);
        let failed = |source| LockError::File { path: path.clone(), source };
        let io = |action, error| failed(FileError::io(action, &path, error));
        for _ in 0..ATTEMPTS_MAX {
            let flags = OFlags::RDWR
                | OFlags::CREATE
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::CLOEXEC;
            let fd = openat(dir, NAME, flags, Mode::RUSR | Mode::WUSR)
                .map_err(|error| io("open", error))?;
            let held = fstat(&fd).map_err(|error| io("look at", error))?;
            let mut file = File::from(fd);
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(LockError::Busy {
                        pid: read_pid(&mut file),
                        folder: dir.path().into(),
                    });
                }
                Err(error) => return Err(io("lock", error)),
            }
            // A lock on a file that was removed meanwhile would keep nobody out.
            let found = rustix::fs::statat(dir, NAME, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            if found.is_ok_and(|it| it.st_ino == held.st_ino && it.st_dev == held.st_dev) {
                write_pid(&mut file).map_err(|source| {
                    failed(FileError::Io { action: "write", path: path.clone(), source })
                })?;
                return Ok(Self { file });
            }
        }
        Err(LockError::Busy { pid: None, folder: dir.path().into() })
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    // More digits than a pid has are no pid.
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    ftruncate(&*file, 0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::dir::Demand;

    fn folder() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        let (dir, _) = Dir::base(folder.path()).unwrap().enter("run", Demand::Strict).unwrap();
        (folder, dir)
    }

    #[test]
    fn rel22_the_second_is_told_who_the_first_is() {
        let (_folder, dir) = folder();
        let first = InstanceLock::take(&dir).unwrap();
        let error = InstanceLock::take(&dir).unwrap_err();
        assert!(matches!(error, LockError::Busy { pid: Some(it), .. } if it == std::process::id()));
        assert!(error.to_string().contains("already running"), "{error}");
        drop(first);
        InstanceLock::take(&dir).unwrap();
    }

    /// fR5: a lock whose file was removed, or whose folder was, keeps nobody out, and that is seen.
    #[test]
    fn fr5_a_lock_whose_file_is_gone_is_not_in_place() {
        let (folder, dir) = folder();
        let path = folder.path().join("run");
        let lock = InstanceLock::take(&dir).unwrap();
        assert!(lock.is_in_place(&path));
        std::fs::rename(path.join(NAME), path.join("aside")).unwrap();
        assert!(!lock.is_in_place(&path));
        let second = InstanceLock::take(&dir).unwrap();
        assert!(!lock.is_in_place(&path) && second.is_in_place(&path));
    }

    #[test]
    fn rel22_of_many_that_start_together_one_has_it() {
        let (folder, _) = folder();
        let path: &Path = &folder.path().join("run");
        let taken: Vec<_> = std::thread::scope(|scope| {
            let start = || InstanceLock::take(&Dir::base(path).unwrap()).ok();
            let threads: Vec<_> = (0..50).map(|_| scope.spawn(start)).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn rel22_a_child_does_not_keep_the_lock() {
        let (_folder, dir) = folder();
        let lock = InstanceLock::take(&dir).unwrap();
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Its answer shows that it has got rid of what it inherited.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        drop(lock);
        InstanceLock::take(&dir).unwrap();
        drop(stdin);
        child.wait().unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let (folder, dir) = folder();
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join("run/coordd.lock")).unwrap();
        assert!(matches!(InstanceLock::take(&dir), Err(LockError::File { .. })));
        assert!(!target.exists());
    }
}
