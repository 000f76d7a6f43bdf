//! Removing a whole tree that another program may be changing at the same time.
//!
//! Only descriptors are used, never a path: a folder that is exchanged for a link at any moment is
//! not followed. A folder further down is first moved up to the top, so that depth costs neither
//! stack nor descriptors. A mount is left alone.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, chmod, fchmod, fstat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::{Demand, Dir, DirError, beneath, euid, is_plain_name};

/// Names that are read at a time.
const BATCH: usize = 1024;

/// The most left-over entries that are named.
const KEPT_MAX: usize = 100;

/// The longest time for a removal while another program keeps creating files.
const REMOVE_S_MAX: u64 = 60;

/// What a removal did.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// How many files and folders are gone.
    pub(crate) removed: u64,
    /// What could not be removed.
    pub(crate) kept: Vec<Kept>,
}

/// Something that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) path: PathBuf,
    /// Why, for people.
    pub(crate) reason: String,
}

impl Removal {
    pub(crate) fn is_complete(&self) -> bool {
        self.kept.is_empty()
    }

    fn keep(&mut self, path: PathBuf, reason: &str) {
        if self.kept.len() < KEPT_MAX && !self.kept.iter().any(|it| it.path == path) {
            self.kept.push(Kept { path, reason: reason.to_owned() });
        }
    }
}

impl Dir {
    /// Removes the folder `name` with all that is in it. One that is not there is fine.
    pub(crate) fn remove_tree(&self, name: &str) -> Result<Removal, DirError> {
        let Some(top) = self.existing(name, Demand::Repaired)? else {
            return Ok(Removal::default());
        };
        let mut removal = top.empty()?;
        self.remove_empty(name, &mut removal);
        Ok(removal)
    }

    /// Removes a folder that must be empty by now.
    pub(crate) fn remove_empty(&self, name: &str, removal: &mut Removal) {
        match unlinkat(self, name, AtFlags::REMOVEDIR) {
            Ok(()) => removal.removed += 1,
            Err(Errno::NOENT) => {}
            Err(error) => removal.keep(self.path.join(name), &reason(error)),
        }
    }

    /// Removes all that is in it.
    pub(crate) fn empty(&self) -> Result<Removal, DirError> {
        let mut emptying = Emptying {
            top: self,
            removal: Removal::default(),
            moved: 0,
            deadline: Instant::now() + Duration::from_secs(REMOVE_S_MAX),
        };
        loop {
            let before = emptying.progress();
            let (names, _) = self.names(BATCH)?;
            for name in &names {
                emptying.remove(self, name);
            }
            let done = names.is_empty();
            if done {
                // Whatever stood in the way at first is gone.
                emptying.removal.kept.clear();
            }
            if done || emptying.progress() == before || emptying.is_late() {
                return Ok(emptying.removal);
            }
        }
    }
}

struct Emptying<'a> {
    top: &'a Dir,
    removal: Removal,
    /// How many folders were moved up.
    moved: u64,
    deadline: Instant,
}

impl Emptying<'_> {
    fn progress(&self) -> (u64, u64) {
        (self.removal.removed, self.moved)
    }

    fn is_late(&mut self) -> bool {
        let late = Instant::now() >= self.deadline;
        if late {
            self.removal.keep(self.top.path.clone(), "another program keeps creating files in it");
        }
        late
    }

    fn remove(&mut self, dir: &Dir, name: &OsStr) {
        if Instant::now() >= self.deadline || !is_plain_name(name) {
            return;
        }
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) => self.removal.removed += 1,
            Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => self.remove_folder(name),
            Err(error) => self.removal.keep(dir.path.join(name), &reason(error)),
        }
    }

    /// Removes a folder directly in the top one.
    fn remove_folder(&mut self, name: &OsStr) {
        let shown = self.top.path.join(name);
        let dir = match open_folder(self.top, name) {
            Ok(fd) => Dir { fd, path: shown.clone() },
            // The entry is gone or was exchanged; the next round looks again.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return,
            Err(error) => return self.removal.keep(shown, &reason(error)),
        };
        if fstat(&dir).is_ok_and(|stat| stat.st_uid == euid() && stat.st_mode & 0o700 != 0o700) {
            // Fails where the mode cannot be changed; then the entries stay and are named.
            let _ = fchmod(&dir, Mode::RWXU);
        }
        loop {
            let before = self.progress();
            let names = match dir.names(BATCH) {
                Ok((names, _)) => names,
                Err(error) => return self.removal.keep(shown, &error.to_string()),
            };
            for child in &names {
                self.remove_or_move_up(&dir, child);
            }
            if names.is_empty() {
                break;
            }
            if self.progress() == before || Instant::now() >= self.deadline {
                return;
            }
        }
        match unlinkat(self.top, name, AtFlags::REMOVEDIR) {
            Ok(()) => self.removal.removed += 1,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY) => {}
            Err(error) => self.removal.keep(shown, &reason(error)),
        }
    }

    fn remove_or_move_up(&mut self, dir: &Dir, name: &OsStr) {
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) => self.removal.removed += 1,
            Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => self.move_up(dir, name),
            Err(error) => self.removal.keep(dir.path.join(name), &reason(error)),
        }
    }

    fn move_up(&mut self, dir: &Dir, name: &OsStr) {
        // An empty folder needs no detour.
        if unlinkat(dir, name, AtFlags::REMOVEDIR).is_ok() {
            self.removal.removed += 1;
            return;
        }
        let mut may_unlock = true;
        for _ in 0..BATCH {
            let new_name = OsString::from(format!(".removing-{}", self.moved));
            match renameat_with(dir, name, self.top, &*new_name, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.moved += 1;
                    return;
                }
                Err(Errno::EXIST) => self.moved += 1,
                Err(Errno::NOENT) => return,
                // A folder cannot change its parent while it is locked.
                Err(Errno::ACCESS | Errno::PERM) if may_unlock && unlock(dir, name).is_ok() => {
                    may_unlock = false;
                }
                Err(error) => return self.removal.keep(dir.path.join(name), &reason(error)),
            }
        }
    }
}

fn open_folder(top: &Dir, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match beneath::open(top, Path::new(name), flags) {
        Err(Errno::ACCESS) => {
            unlock(top, name)?;
            beneath::open(top, Path::new(name), flags)
        }
        result => result,
    }
}

/// Restores our own permissions on a folder of ours, through its descriptor.
fn unlock(dir: &Dir, name: &OsStr) -> Result<(), Errno> {
    let found = beneath::open(dir, Path::new(name), OFlags::PATH | OFlags::DIRECTORY)?;
    if fstat(&found)?.st_uid != euid() {
        return Err(Errno::ACCESS);
    }
    chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::RWXU)
}

fn reason(error: Errno) -> String {
    match error {
        Errno::XDEV | Errno::BUSY => "something is mounted there; unmount it first".to_owned(),
        Errno::ACCESS | Errno::PERM => "only its owner can remove it".to_owned(),
        Errno::NOTEMPTY => "it is not empty".to_owned(),
        error => std::io::Error::from(error).to_string(),
    }
}
