//! Space that is kept for the moment when the disk is full (rel-44).
//!
//! ```text
//! held --release--> the commit that did not fit is made --take again, and only with room to spare--> held
//! ```
//!
//! A daemon that cannot commit has to end, and with it all that would make room: stops,
//! acknowledgements, ends of runs. So a file without meaning takes up some space from the start,
//! and goes when it is needed. It must not be opened for anything else, and that it is not there
//! means that the disk is, or was, full.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, fstat, openat, unlinkat};
use rustix::io::Errno;

use crate::paths::StateDir;

/// Enough for some thousand acknowledgements and ends of runs, and for the log that they are
/// written to.
pub(crate) const RESERVE_BYTES: u64 = 4 * 1024 * 1024;

/// What must be free besides when it is taken, so that it is not taken and needed by turns.
const SPARE_BYTES: u64 = 1024 * 1024;

const NAME: &str = "reserve";

/// The space, and whether it is held.
#[derive(Debug)]
pub(crate) struct Reserve {
    state: Arc<StateDir>,
    held: bool,
}

/// What came of taking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Held,
    /// There is not enough space.
    Full,
    /// It cannot be taken for another reason, which says nothing about space.
    Refused(Errno),
}

impl Reserve {
    pub(crate) fn new(state: Arc<StateDir>) -> Self {
        Self { state, held: false }
    }

    /// Takes the space, if it is not held.
    pub(crate) fn take(&mut self) -> Taken {
        if self.held {
            return Taken::Held;
        }
        match self.allocate() {
            Ok(()) => {
                self.held = true;
                Taken::Held
            }
            Err(error) => {
                // What was taken of it is needed.
                self.unlink();
                let full = matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::FBIG);
                if full { Taken::Full } else { Taken::Refused(error) }
            }
        }
    }

    /// Gives the reserved space back to the file system. False when there is none to give.
    pub(crate) fn release(&mut self) -> bool {
        self.held = false;
        self.unlink()
    }

    fn unlink(&self) -> bool {
        unlinkat(self.state.dir(), NAME, AtFlags::empty()).is_ok()
    }

    fn allocate(&self) -> Result<(), Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self.state.dir(), NAME, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = fstat(&file)?;
        // Left by an earlier daemon, whole.
        if is_allocated(&stat, RESERVE_BYTES) {
            return Ok(());
        }
        let bytes = RESERVE_BYTES + SPARE_BYTES;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file.try_clone(), bytes)?,
            other => other?,
        }
        rustix::fs::ftruncate(&file, RESERVE_BYTES)
    }
}

fn is_allocated(stat: &rustix::fs::Stat, bytes: u64) -> bool {
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    stat.st_size.cast_unsigned() == bytes && blocks.saturating_mul(512) >= bytes
}

/// For file systems that cannot allocate: they take space when something is written.
fn fill(file: std::io::Result<std::os::fd::OwnedFd>, bytes: u64) -> Result<(), Errno> {
    static PIECE: [u8; 64 * 1024] = [0x55; 64 * 1024];
    let errno = |error: &std::io::Error| Errno::from_io_error(error).unwrap_or(Errno::IO);
    let mut file = File::from(file.map_err(|error| errno(&error))?);
    for _ in 0..bytes.div_ceil(PIECE.len() as u64) {
        file.write_all(&PIECE).map_err(|error| errno(&error))?;
    }
    file.sync_all().map_err(|error| errno(&error))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::paths;

    fn state() -> (tempfile::TempDir, Arc<StateDir>) {
        let folder = tempfile::tempdir().unwrap();
        let home = OsString::from(folder.path());
        let paths = paths::find(&|name| (name == "HOME").then(|| home.clone())).unwrap();
        let state = Arc::new(paths::open_state(&paths).unwrap());
        (folder, state)
    }

    #[test]
    fn rel44_the_space_is_really_taken_and_really_given() {
        let (_folder, state) = state();
        let path = state.dir().path().join(NAME);
        let mut reserve = Reserve::new(Arc::clone(&state));
        assert_eq!(reserve.take(), Taken::Held);
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (RESERVE_BYTES, 0o600));
        assert!(found.blocks() * 512 >= RESERVE_BYTES, "{} blocks", found.blocks());
        // The next daemon finds it.
        assert_eq!(Reserve::new(state).take(), Taken::Held);
        assert!(reserve.release());
        assert!(!path.exists());
        assert!(!reserve.release(), "there is nothing more to give");
        assert_eq!(reserve.take(), Taken::Held);
    }

    #[test]
    fn rel44_a_file_that_only_looks_like_it_is_filled() {
        let (_folder, state) = state();
        let path = state.dir().path().join(NAME);
        File::create(&path).unwrap().set_len(RESERVE_BYTES).unwrap();
        assert_eq!(Reserve::new(state).take(), Taken::Held);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 >= RESERVE_BYTES);
    }

    #[test]
    fn rel44_a_link_in_its_place_is_no_full_disk() {
        let (folder, state) = state();
        std::os::unix::fs::symlink(folder.path().join("x"), state.dir().path().join(NAME)).unwrap();
        assert!(matches!(Reserve::new(state).take(), Taken::Refused(_)));
        assert!(!folder.path().join("x").exists());
    }
}
