//! Hears from the kernel that something was removed or moved away, so that it is looked at before the next tick.
//!
//! What is watched is a name in a folder: the kernel tells the removal of a folder that is held open only to who watches the
//! folder above. Each name is told of once, and is watched again when it was made again. Where the kernel has no room for
//! another watch (rel-95), the tick has to do.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of events that are read at once: tens of the longest.
const READ_LEN: usize = 16 * 1024;

/// The names that are watched, by the kernel's number of the folder that they are in.
type Names = HashMap<i32, BTreeSet<OsString>>;

/// Names that are watched. There are as many as there are things to lose: a few for the daemon and for each session.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: Option<AsyncFd<OwnedFd>>,
    names: Mutex<Names>,
}

impl Watch {
    /// Call it within the runtime that [`Self::changed`] is awaited in.
    pub(crate) fn new() -> Self {
        let made = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(std::io::Error::from);
        let registered = made.and_then(|inotify| {
            // SAFETY: `OwnedFd` keeps its number until it is dropped, and it is dropped after its registration.
            let registered =
                unsafe { AsyncFd::register_with_interest(inotify, Interest::READABLE) };
            registered.map_err(std::io::Error::from)
        });
        if let Err(error) = &registered {
            tracing::warn!(%error, "nothing can be watched; it is looked at now and then");
        }
        Self { inotify: registered.ok(), names: Mutex::default() }
    }

    /// Watches a name in a folder from now on, until it is gone.
    pub(crate) fn name(&self, folder: impl AsFd, name: &OsStr) {
        let Some(inotify) = &self.inotify else { return };
        // By descriptor: a path could lead elsewhere by now.
        let folder = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        let flags = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
        match add_watch(inotify.get_ref(), folder, flags) {
            Ok(number) => {
                let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                names.entry(number).or_default().insert(name.to_owned());
            }
            Err(error) => tracing::debug!(%error, "a folder cannot be watched"),
        }
    }

    /// Watches a folder itself, in the one above it.
    pub(crate) fn folder(&self, path: &Path) {
        if let (Some(above), Some(name)) = (path.parent(), path.file_name())
            && let Ok(above) = std::fs::File::open(above)
        {
            self.name(above, name);
        }
    }

    /// Returns when a watched name is gone. Never, where nothing can be watched.
    pub(crate) async fn changed(&self) {
        let Some(inotify) = &self.inotify else { return std::future::pending().await };
        loop {
            let Ok(mut ready) = inotify.readable().await else {
                return std::future::pending().await;
            };
            if self.read(inotify.get_ref()) {
                return;
            }
            ready.clear_ready();
        }
    }

    /// Takes all events, and says whether one is about a watched name.
    fn read(&self, inotify: &OwnedFd) -> bool {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [std::mem::MaybeUninit::uninit(); READ_LEN];
        let mut reader = Reader::new(inotify, &mut buffer);
        let mut is_one = false;
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => is_one = true,
                Ok(event) if event.events().contains(ReadFlags::IGNORED) => {
                    // The folder itself is gone, with all that was in it.
                    is_one |= names.remove(&event.wd()).is_some_and(|left| !left.is_empty());
                }
                Ok(event) => {
                    let name = event.file_name().map(|it| OsStr::from_bytes(it.to_bytes()));
                    let watched = names.get_mut(&event.wd());
                    is_one |= name.zip(watched).is_some_and(|(name, all)| all.remove(name));
                }
                Err(Errno::INTR) => {}
                Err(_) => return is_one,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    async fn is_told(watch: &Watch) -> bool {
        tokio::time::timeout(Duration::from_millis(300), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn fr5_a_watched_name_that_goes_is_told_once_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let watch = Watch::new();
        for name in ["ours", "other", "held"] {
            fs::create_dir(at(name)).unwrap();
        }
        // A folder that is held open is told of too.
        let _held = fs::File::open(at("held")).unwrap();
        let dir = fs::File::open(folder.path()).unwrap();
        watch.name(&dir, OsStr::new("ours"));
        watch.name(&dir, OsStr::new("held"));
        fs::remove_dir(at("other")).unwrap();
        fs::write(at("ours/x"), "x").unwrap();
        assert!(!is_told(&watch).await);
        fs::rename(at("ours"), at("aside")).unwrap();
        assert!(is_told(&watch).await);
        fs::rename(at("aside"), at("ours")).unwrap();
        fs::remove_dir_all(at("ours")).unwrap();
        assert!(!is_told(&watch).await, "it has been told, and nobody has watched it since");
        fs::remove_dir(at("held")).unwrap();
        assert!(is_told(&watch).await);
    }

    #[tokio::test]
    async fn fr5_a_folder_that_goes_takes_its_names_along() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        fs::create_dir(&path).unwrap();
        let watch = Watch::new();
        watch.name(fs::File::open(&path).unwrap(), OsStr::new("never made"));
        fs::remove_dir(&path).unwrap();
        assert!(is_told(&watch).await);
    }
}
