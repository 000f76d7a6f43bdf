//! Who serves, by the lock that each coordd holds on its folders: the kernel's word, which is there where the socket is not.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::Failure;
use crate::paths::Paths;

/// The lock's file in the folder of the socket, and in that of the state.
const LOCK: &str = "coordd.lock";
/// The kernel's list of locks is not read further than this, 4 MiB.
const LOCKS_LEN_MAX: u64 = 4 << 20;

/// The process that holds the lock of the socket's folder or of the state folder.
pub(crate) fn of(paths: &Paths) -> Option<Pid> {
    let locks = read(Path::new("/proc/locks"), LOCKS_LEN_MAX)?;
    let folders = [paths.socket.parent(), Some(paths.state_dir.as_path())];
    folders.into_iter().flatten().find_map(|folder| {
        let file = folder.join(LOCK);
        let pid = read(&file, 16)?.trim().parse().ok()?;
        let inode = file.symlink_metadata().ok()?.ino();
        // The file's word alone is that of whoever had the lock last.
        is_held(&locks, inode, pid).then(|| Pid::from_raw(pid)).flatten()
    })
}

/// Sends a signal to the owner, if that is who it still is.
pub(crate) fn signal(paths: &Paths, owner: Pid, signal: Signal) -> Result<(), Failure> {
    let Ok(process) = pidfd_open(owner, PidfdFlags::empty()) else { return Ok(()) };
    // Only now: the number could have become another process's.
    if of(paths) != Some(owner) {
        return Ok(());
    }
    pidfd_send_signal(process, signal).map_err(|error| {
        let error = std::io::Error::from(error);
        Failure::failed(format!("coordd (pid {owner}) cannot be signalled: {error}"))
    })
}

/// Whether the kernel lists the lock on this file as this process's, as in `1: FLOCK  ADVISORY  WRITE 710 fe:00:5393076 0 EOF`.
fn is_held(locks: &str, inode: u64, pid: i32) -> bool {
    let (pid, inode) = (pid.to_string(), format!(":{inode}"));
    locks.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.any(|word| word == "FLOCK")
            && words.nth(2) == Some(pid.as_str())
            && words.next().is_some_and(|file| file.ends_with(&inode))
    })
}

fn read(path: &Path, limit: u64) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(limit).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(folder: &Path) -> Paths {
        Paths {
            socket: folder.join("run/s"),
            socket_is_chosen: true,
            state_dir: folder.join("state"),
            config_file: folder.join("config.toml"),
            unit_dir: folder.join("units"),
        }
    }

    #[test]
    fn fr5_the_owner_is_who_holds_the_lock_and_not_who_is_written_there() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(folder.path());
        assert_eq!(of(&paths), None);
        let own = std::process::id();
        for place in ["run", "state"] {
            std::fs::create_dir(folder.path().join(place)).unwrap();
            let path = folder.path().join(place).join(LOCK);
            std::fs::write(&path, format!("{own}\n")).unwrap();
            assert_eq!(of(&paths), None, "{place}: nobody holds it");
            let file = std::fs::File::open(&path).unwrap();
            let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            rustix::fs::flock(&file, exclusive).unwrap();
            assert_eq!(of(&paths), Pid::from_raw(i32::try_from(own).unwrap()), "{place}");
            std::fs::write(&path, "1\n").unwrap();
            assert_eq!(of(&paths), None, "{place}: somebody else holds it");
        }
    }

    #[test]
    fn a_line_of_the_kernels_list_is_compared_word_by_word() {
        let list = "1: FLOCK  ADVISORY  WRITE 710 fe:00:5393076 0 EOF\n\
                    2: POSIX  ADVISORY  WRITE 711 fe:00:77 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 712 fe:00:78 0 EOF\n";
        assert!(is_held(list, 5_393_076, 710));
        assert!(!is_held(list, 393_076, 710) && !is_held(list, 5_393_076, 71));
        assert!(!is_held(list, 77, 711), "another kind of lock");
    }
}
