//! The lock that Claude Code takes before it changes a file of a team: a folder `<file>.lock`, made
//! by who has it.
//!
//! Observed with 2.1.100 to 2.1.332: a program that finds it there tries again for a while; one
//! that nobody has touched for 10 s is taken away. Inboxes have one in all of these versions,
//! `config.json` from 2.1.150 on, where it is tried ten times within some 0.7 s and the change is
//! then given up. Ours carry a mark, so that one that a killed daemon of ours left is taken away at
//! once. It must not be held over anything that waits.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, Stat, mkdirat, statat, unlinkat};
use rustix::io::Errno;

use crate::dir::Dir;

/// How long the lock is waited for at once. A reader of ours comes back later.
const WAIT_MS: u64 = 200;

/// How often it is tried meanwhile.
const TRY_EVERY_MS: u64 = 5;

/// A lock that nobody has touched for so long is left over, as it is for Claude Code.
const STALE_S: i64 = 10;

/// The mark of ours: a bit that means nothing for an empty folder, and that others neither set nor
/// look at.
const MARK: Mode = Mode::SVTX;

/// The locks that this process has, by the numbers of their folders. A marked one that is not here
/// is left over.
static HELD: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Why a file could not be locked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("{} is held by another program; it is tried again. If it stays, remove that folder", path.display())]
    Held { path: PathBuf },
    #[error("{} cannot be created; fix its folder's permissions", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// A lock that is held. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    dir: &'a Dir,
    name: String,
    /// Which folder it is: another one is somebody else's.
    inode: u64,
}

impl<'a> Lock<'a> {
    /// Takes the lock of a file, and waits a moment for it.
    pub(crate) fn take(dir: &'a Dir, file: &str) -> Result<Self, LockError> {
        let until = Instant::now() + Duration::from_millis(WAIT_MS);
        loop {
            match Self::try_take(dir, file) {
                Err(LockError::Held { .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(TRY_EVERY_MS));
                }
                done => return done,
            }
        }
    }

    /// Takes the lock of a file, if that can be done at once.
    pub(crate) fn try_take(dir: &'a Dir, file: &str) -> Result<Self, LockError> {
        let name = format!("{file}.lock");
        let try_once = || mkdirat(dir, &*name, Mode::RWXU | MARK);
        let mut made = try_once();
        if made == Err(Errno::EXIST) && is_left_over(dir, &name) {
            // Another program that removes it too finds it gone; then one of the two makes it.
            let _ = unlinkat(dir, &*name, AtFlags::REMOVEDIR);
            made = try_once();
        }
        match made {
            Ok(()) => {
                let inode = inode(dir, &name).map_err(|error| io(dir, &name, error))?;
                held(|it| it.insert(inode));
                Ok(Self { dir, name, inode })
            }
            Err(Errno::EXIST) => Err(LockError::Held { path: dir.path().join(name) }),
            Err(error) => Err(io(dir, &name, error)),
        }
    }

    /// Whether it is still ours: one that is held for long may have been taken away.
    pub(crate) fn is_held(&self) -> bool {
        inode(self.dir, &self.name).is_ok_and(|it| it == self.inode)
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        held(|it| it.remove(&self.inode));
        if self.is_held()
            && let Err(error) = unlinkat(self.dir, &*self.name, AtFlags::REMOVEDIR)
        {
            tracing::warn!(lock = self.name, %error, "a lock was not given back; it goes stale");
        }
    }
}

fn io(dir: &Dir, name: &str, error: Errno) -> LockError {
    LockError::Io { path: dir.path().join(name), source: error.into() }
}

fn inode(dir: &Dir, name: &str) -> Result<u64, Errno> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_ino)
}

fn held<T>(look: impl FnOnce(&mut BTreeSet<u64>) -> T) -> T {
    // Nothing in it is ever half changed.
    look(&mut HELD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes away a lock that an earlier daemon left.
pub(super) fn clear(dir: &Dir, file: &str) {
    let name = format!("{file}.lock");
    if statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_of_an_earlier_one(&stat))
    {
        // Another program that removes it too finds it gone.
        let _ = unlinkat(dir, &*name, AtFlags::REMOVEDIR);
    }
}

fn is_of_an_earlier_one(stat: &Stat) -> bool {
    Mode::from_raw_mode(stat.st_mode).contains(MARK) && !held(|it| it.contains(&stat.st_ino))
}

fn is_left_over(dir: &Dir, name: &str) -> bool {
    let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    if is_of_an_earlier_one(&stat) {
        return true;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(stat.st_mtime) > STALE_S
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{Timespec, Timestamps, utimensat};

    use super::*;

    fn dir() -> (tempfile::TempDir, Dir) {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::base(home.path()).unwrap();
        (home, dir)
    }

    fn make_old(dir: &Dir, name: &str) {
        let old = Timespec { tv_sec: 1_000, tv_nsec: 0 };
        let times = Timestamps { last_access: old, last_modification: old };
        utimensat(dir, name, &times, AtFlags::empty()).unwrap();
    }

    #[test]
    fn t2_a_lock_keeps_others_out_until_it_is_given_back() {
        let (home, dir) = dir();
        let lock = Lock::take(&dir, "m1.json").unwrap();
        assert!(home.path().join("m1.json.lock").is_dir() && lock.is_held());
        assert!(matches!(Lock::take(&dir, "m1.json"), Err(LockError::Held { .. })));
        drop(lock);
        assert!(!home.path().join("m1.json.lock").exists());
        Lock::take(&dir, "m1.json").unwrap();
    }

    #[test]
    fn t2_a_lock_that_was_left_behind_is_taken_away() {
        let (home, dir) = dir();
        fs::create_dir(home.path().join("m1.json.lock")).unwrap();
        make_old(&dir, "m1.json.lock");
        assert!(Lock::take(&dir, "m1.json").unwrap().is_held());
    }

    /// Killed with the lock in its hands: the next daemon does not wait, and members do not lose
    /// what they want to say.
    #[test]
    fn t2_a_lock_of_an_earlier_daemon_is_taken_away_at_once() {
        let (_home, dir) = dir();
        mkdirat(&dir, "m1.json.lock", Mode::RWXU | MARK).unwrap();
        assert!(Lock::take(&dir, "m1.json").unwrap().is_held());
        mkdirat(&dir, "m1.json.lock", Mode::RWXU).unwrap();
        clear(&dir, "m1.json");
        assert!(matches!(Lock::take(&dir, "m1.json"), Err(LockError::Held { .. })), "of others");
        mkdirat(&dir, "m2.json.lock", Mode::RWXU | MARK).unwrap();
        clear(&dir, "m2.json");
        assert!(statat(&dir, "m2.json.lock", AtFlags::empty()).is_err());
        let lock = Lock::take(&dir, "m2.json").unwrap();
        clear(&dir, "m2.json");
        assert!(lock.is_held(), "of our own");
    }

    #[test]
    fn t2_a_lock_that_others_took_away_is_not_given_back_by_us() {
        let (home, dir) = dir();
        let lock = Lock::take(&dir, "m1.json").unwrap();
        // Made before the other one goes, so that its number cannot be given out again.
        fs::create_dir(home.path().join("theirs")).unwrap();
        fs::remove_dir(home.path().join("m1.json.lock")).unwrap();
        fs::rename(home.path().join("theirs"), home.path().join("m1.json.lock")).unwrap();
        assert!(!lock.is_held());
        drop(lock);
        assert!(home.path().join("m1.json.lock").is_dir());
    }
}
