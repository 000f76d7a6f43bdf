//! Replacing a file so that a reader, or a crash, finds the old one or the new one and nothing
//! between.

use std::path::PathBuf;

use coordd_common::files::Draft;
use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::{Dir, FileError};

/// What a temporary file's name begins with. A left-over one is replaced by the next write of the
/// same file.
const TEMPORARY: &str = ".tmp-coordd-";

impl Dir {
    /// Writes a file, 0600, in one step that is durable when this returns (rel-39).
    pub(crate) fn write_atomic(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let replacement = self.replacement(name, bytes)?;
        replacement.take_place()?.sync()
    }

    /// Writes what is to replace a file, 0600, without touching the file. It is removed again if it is dropped before
    /// it has taken its place.
    pub(crate) fn replacement(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<Replacement<'_>, FileError> {
        let path = self.path.join(name);
        if !super::is_plain_name(name.as_ref()) {
            return Err(FileError::Outside { path });
        }
        let draft = self.draft(format!("{TEMPORARY}{name}"), bytes)?;
        Ok(Replacement { draft, name: name.to_owned(), path })
    }

    /// Writes a file, 0600, under a name of its own, for [`Dir::put_in_place`]. It is durable once
    /// its folder is synced.
    pub(crate) fn prepare(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        if !super::is_plain_name(name.as_ref()) {
            return Err(FileError::Outside { path: self.path.join(name) });
        }
        self.draft(name.to_owned(), bytes)?.keep();
        Ok(())
    }

    /// Renames a prepared file into its place. The rename is durable when this returns.
    pub(crate) fn put_in_place(&self, prepared: &str, name: &str) -> Result<(), FileError> {
        let shown = self.path.join(name);
        renameat(self, prepared, self, name)
            .map_err(|error| FileError::io("replace", &shown, error))?;
        rustix::fs::fsync(self).map_err(|error| FileError::io("sync the folder of", &shown, error))
    }

    /// Whether there is something of this name.
    pub(crate) fn has(&self, name: &str) -> Result<bool, FileError> {
        match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(FileError::io("look at", &self.path.join(name), error)),
        }
    }

    /// Removes a file. A missing file is no error.
    pub(crate) fn discard(&self, name: &str) -> Result<(), FileError> {
        match unlinkat(self, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FileError::io("remove", &self.path.join(name), error)),
        }
    }

    /// Sets aside a file that is not valid: renames it, and returns the new name, which has the
    /// time in it.
    pub(crate) fn set_damage_aside(&self, name: &str) -> Result<String, FileError> {
        self.set_aside(name, &format!("{name}.corrupt-{}", crate::clock::wall_ms() / 1000))
    }

    /// Renames a file to the first free name of `<new>`, `<new>-2`, … and returns it.
    pub(crate) fn set_aside(&self, name: &str, new: &str) -> Result<String, FileError> {
        let shown = self.path.join(name);
        for number in 1..=100_u32 {
            let new_name = if number == 1 { new.to_owned() } else { format!("{new}-{number}") };
            match renameat_with(self, name, self, &*new_name, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(new_name),
                Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => return Err(FileError::Missing { path: shown }),
                Err(error) => return Err(FileError::io("set aside", &shown, error)),
            }
        }
        Err(FileError::io("set aside", &shown, Errno::EXIST))
    }

    /// A whole file under a name of its own, on the disk.
    fn draft(&self, name: String, bytes: &[u8]) -> Result<Draft<&Self>, FileError> {
        let path = self.path.join(&name);
        let failed = |action| {
            let path = &path;
            move |source| FileError::of(action, path, source)
        };
        let mut draft = Draft::create(self, name, 0o600).map_err(failed("create"))?;
        draft.write(bytes).map_err(failed("write"))?;
        Ok(draft)
    }
}

/// What is to replace a file: on the disk already, and still under a name of its own.
#[derive(Debug)]
pub(crate) struct Replacement<'a> {
    draft: Draft<&'a Dir>,
    name: String,
    path: PathBuf,
}

/// A file that has been replaced, perhaps not yet on the disk.
#[derive(Debug)]
#[must_use]
pub(crate) struct Renamed<'a> {
    replacement: Replacement<'a>,
}

impl<'a> Replacement<'a> {
    /// Takes the place of the file, in one step that waits for no disk.
    pub(crate) fn take_place(mut self) -> Result<Renamed<'a>, FileError> {
        let renamed = self.draft.rename(&self.name);
        renamed.map_err(|source| FileError::of("replace", &self.path, source))?;
        Ok(Renamed { replacement: self })
    }
}

impl Renamed<'_> {
    /// Waits until the new file is what a crash leaves (rel-39).
    pub(crate) fn sync(self) -> Result<(), FileError> {
        let Replacement { draft, path, .. } = &self.replacement;
        draft.sync_folder().map_err(|source| FileError::of("sync the folder of", path, source))
    }
}
