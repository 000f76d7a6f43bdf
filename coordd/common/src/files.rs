//! Small files that are replaced as a whole, and logs that do not grow without end.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;

/// A file that is being made under a name of its own. It is removed unless it takes its place.
#[derive(Debug)]
pub struct Draft<F: AsFd> {
    folder: F,
    temporary: String,
    file: File,
    is_kept: bool,
}

impl<F: AsFd> Draft<F> {
    /// Makes an empty file in a folder, under a name that is used for nothing else. What a crash left there is replaced.
    pub fn create(folder: F, temporary: String, mode: u32) -> io::Result<Self> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || openat(&folder, &*temporary, flags, Mode::from_raw_mode(mode));
        let fd = create().or_else(|error| {
            if error != Errno::EXIST {
                return Err(error);
            }
            unlinkat(&folder, &*temporary, AtFlags::empty())?;
            create()
        });
        let file = File::from(fd?);
        Ok(Self { folder, temporary, file, is_kept: false })
    }

    /// The file itself, for its owner and mode.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes the content. It is on the disk when this returns.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()
    }

    /// Leaves the file under the name that it has.
    pub fn keep(mut self) {
        self.is_kept = true;
    }

    /// Puts the file in the place of another one of its folder, in one step that is durable when this returns.
    pub fn take_place(mut self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.rename(name)?;
        self.sync_folder()
    }

    /// Puts the file in the place of another one of its folder, in one step that waits for no disk. It is durable
    /// after [`Draft::sync_folder`].
    pub fn rename(&mut self, name: impl AsRef<OsStr>) -> io::Result<()> {
        renameat(&self.folder, &*self.temporary, &self.folder, name.as_ref())?;
        self.is_kept = true;
        Ok(())
    }

    /// Waits until a rename is on the disk.
    pub fn sync_folder(&self) -> io::Result<()> {
        Ok(fsync(&self.folder)?)
    }
}

impl<F: AsFd> Drop for Draft<F> {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is left over is replaced by the next draft of this name.
            let _gone = unlinkat(&self.folder, &*self.temporary, AtFlags::empty());
        }
    }
}

/// Replaces a file so that a reader, or a crash, finds the old one or the new one and nothing between. The new one is
/// durable when this returns.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::ISDIR.into());
    };
    let temporary = format!(".{}.{}.new", name.to_string_lossy(), std::process::id());
    let mut draft = Draft::create(File::open(folder)?, temporary, mode)?;
    draft.write(bytes)?;
    draft.take_place(name)
}

/// Makes a folder and those above it where they are missing, closed to others.
pub fn make_closed_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a log to add to it, 0600, never through a link. One of more than `bytes_max` bytes is put aside first, over the one
/// that was put aside before.
pub fn open_log(path: &Path, bytes_max: u64, aside: &Path) -> io::Result<File> {
    let open = || {
        let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits();
        let flags = i32::try_from(flags).unwrap_or_default();
        File::options().create(true).append(true).mode(0o600).custom_flags(flags).open(path)
    };
    let file = open()?;
    if file.metadata()?.len() <= bytes_max {
        return Ok(file);
    }
    std::fs::rename(path, aside)?;
    open()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn rel39_a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let own = format!(".file.{}.new", std::process::id());
        std::fs::write(folder.path().join(&own), "left by a crash").unwrap();
        replace(&path, b"old", 0o600).unwrap();
        replace(&path, b"new", 0o600).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn rel39_one_that_cannot_take_its_place_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("taken")).unwrap();
        assert!(replace(&folder.path().join("taken"), b"x", 0o600).is_err());
        assert!(replace(Path::new("/"), b"x", 0o600).is_err());
        assert_eq!(names(folder.path()), ["taken"]);
    }

    #[test]
    fn rel4_no_link_is_followed_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(open_log(&link, 10, &folder.path().join("old")).is_err());
        replace(&link, b"new", 0o600).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"kept");
        assert!(!link.symlink_metadata().unwrap().is_symlink());
    }

    #[test]
    fn a_log_that_is_too_long_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("log"), folder.path().join("log.1"));
        for (line, kept, put_aside) in [
            ("one\n", "one\n", None),
            ("two\n", "one\ntwo\n", None),
            ("x", "x", Some("one\ntwo\n")),
        ] {
            open_log(&path, 7, &aside).unwrap().write_all(line.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), kept);
            assert_eq!(std::fs::read_to_string(&aside).ok().as_deref(), put_aside);
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
