//! Folders whose own settings the user trusts: what a repository's files may switch on counts in these alone (W-14, fP12).
//!
//! ```text
//! # a comment
//! DEVICE INODE PATH        one folder a line
//! ```
//!
//! A folder is its path together with its number in the file system, so that another one at the same path is not trusted. It
//! covers what lies below it. A file that cannot be read trusts nothing.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::files;

/// Its name in coordd's state folder.
pub const FILE_NAME: &str = "trusted";

/// Longest file that is read: [`FOLDERS_MAX`] of the longest paths take less.
const FILE_LEN_MAX: u64 = 5 * 1024 * 1024;

/// Most folders: a person has fewer checkouts.
pub const FOLDERS_MAX: usize = 1_000;

const HEADING: &str =
    "# Folders whose own settings count for agents. `coordctl trust` writes it.\n";

/// Why a folder cannot be trusted, or the list not be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The list cannot be read or written.
    #[error("{} cannot be read or written", path.display())]
    File {
        /// The list.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line of the list is none.
    #[error("line {number} of {} names no folder; correct or remove it", path.display())]
    Line {
        /// The list.
        path: PathBuf,
        /// Counted from 1.
        number: usize,
    },
    /// It is no folder that can be used.
    #[error("{} cannot be used as a folder", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A path that no line can hold.
    #[error("the path of this folder has a line break or is no UTF-8; rename it first")]
    Path,
    /// There is no room.
    #[error(
        "{FOLDERS_MAX} folders are trusted, and no more can be; remove one with `coordctl trust --remove DIR`"
    )]
    Full,
}

/// One folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Folder {
    device: u64,
    inode: u64,
    path: PathBuf,
}

impl Folder {
    fn at(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let found = path.metadata()?;
        if !found.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(Self { device: found.dev(), inode: found.ino(), path })
    }

    fn parse(line: &str) -> Option<Self> {
        let (device, rest) = line.split_once(' ')?;
        let (inode, path) = rest.split_once(' ')?;
        let path = Some(PathBuf::from(path)).filter(|it| it.is_absolute())?;
        Some(Self { device: device.parse().ok()?, inode: inode.parse().ok()?, path })
    }
}

/// The folders that the user trusts.
#[derive(Clone, Debug)]
pub struct Trusted {
    file: PathBuf,
    folders: Vec<Folder>,
}

impl Trusted {
    /// The list in this state folder. One that is not there is empty.
    pub fn load(state_folder: &Path) -> Result<Self, TrustError> {
        let file = state_folder.join(FILE_NAME);
        let failed = |source| TrustError::File { path: file.clone(), source };
        let text = match std::fs::File::open(&file) {
            Ok(open) => {
                let mut text = String::new();
                let mut bounded = io::Read::take(open, FILE_LEN_MAX);
                io::Read::read_to_string(&mut bounded, &mut text).map_err(failed)?;
                text
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut folders = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            let folder = Folder::parse(line)
                .ok_or_else(|| TrustError::Line { path: file.clone(), number })?;
            folders.push(folder);
        }
        Ok(Self { file, folders })
    }

    /// The trusted folder that a folder lies in, or is.
    pub fn covering(&self, folder: &Path) -> Option<&Path> {
        let folder = folder.canonicalize().ok()?;
        let above = folder.ancestors().find_map(|path| {
            let here = self.folders.iter().find(|it| it.path == path)?;
            Folder::at(path).is_ok_and(|now| now == *here).then_some(here)
        })?;
        Some(&above.path)
    }

    /// Those that are on the list, with whether they are still the folders that were trusted.
    pub fn all(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.folders
            .iter()
            .map(|it| (it.path.as_path(), Folder::at(&it.path).is_ok_and(|now| now == *it)))
    }

    /// Trusts a folder from now on.
    pub fn add(&mut self, folder: &Path) -> Result<(), TrustError> {
        let found = Folder::at(folder)
            .map_err(|source| TrustError::Folder { path: folder.to_owned(), source })?;
        if found.path.to_str().is_none_or(|path| path.contains(['\n', '\r'])) {
            return Err(TrustError::Path);
        }
        self.folders.retain(|it| it.path != found.path);
        if self.folders.len() >= FOLDERS_MAX {
            return Err(TrustError::Full);
        }
        self.folders.push(found);
        self.save()
    }

    /// Trusts it no longer. Says whether it was on the list. It may be gone.
    pub fn remove(&mut self, folder: &Path) -> Result<bool, TrustError> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let before = self.folders.len();
        self.folders.retain(|it| it.path != folder);
        let was_there = self.folders.len() < before;
        if was_there {
            self.save()?;
        }
        Ok(was_there)
    }

    fn save(&self) -> Result<(), TrustError> {
        let line = |it: &Folder| format!("{} {} {}\n", it.device, it.inode, it.path.display());
        let text: String =
            std::iter::once(HEADING.to_owned()).chain(self.folders.iter().map(line)).collect();
        let failed = |source| TrustError::File { path: self.file.clone(), source };
        if let Some(folder) = self.file.parent() {
            files::make_closed_folder(folder).map_err(failed)?;
        }
        files::replace(&self.file, text.as_bytes(), 0o600).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-14, fP12: the folder, what is below it, and no other folder that comes to its path.
    #[test]
    fn w14_a_folder_is_trusted_by_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (state, work) = (folder.path().join("state"), folder.path().join("work"));
        std::fs::create_dir_all(work.join("a/b")).unwrap();
        let load = || Trusted::load(&state).unwrap();
        assert!(load().covering(&work).is_none());
        load().add(&work.join("a")).unwrap();
        let real = work.canonicalize().unwrap();
        assert_eq!(load().covering(&work.join("a")), Some(real.join("a").as_path()));
        assert!(load().covering(&work.join("a/b")).is_some());
        assert!(load().covering(&work).is_none());
        std::os::unix::fs::symlink("a", work.join("link")).unwrap();
        assert!(load().covering(&work.join("link/b")).is_some());
        // Another one with its name.
        std::fs::rename(work.join("a"), work.join("c")).unwrap();
        std::fs::create_dir_all(work.join("a/b")).unwrap();
        assert!(load().covering(&work.join("a/b")).is_none());
        assert_eq!(load().all().map(|(_, is_same)| is_same).collect::<Vec<_>>(), [false]);
        assert!(load().covering(&work.join("c")).is_none());
        assert!(
            load().remove(&work.join("a")).unwrap() && !load().remove(&work.join("a")).unwrap()
        );
    }

    /// W-14: a list that cannot be read trusts nothing, and says why.
    #[test]
    fn w14_a_damaged_list_trusts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["nonsense\n", "1 x /a\n", "1 2 relative\n", "1 2\n"] {
            std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
            let error = Trusted::load(folder.path()).unwrap_err();
            assert!(error.to_string().starts_with("line 1 of "), "{error}");
        }
        std::fs::write(folder.path().join(FILE_NAME), "# x\n\n1 2 /a b\n").unwrap();
        let read = Trusted::load(folder.path()).unwrap();
        assert_eq!(read.all().collect::<Vec<_>>(), [(Path::new("/a b"), false)]);
        std::fs::remove_file(folder.path().join(FILE_NAME)).unwrap();
        let mut list = Trusted::load(folder.path()).unwrap();
        assert!(matches!(list.add(Path::new("/nonexistent")), Err(TrustError::Folder { .. })));
        let broken = folder.path().join("a\nb");
        std::fs::create_dir(&broken).unwrap();
        assert!(matches!(list.add(&broken), Err(TrustError::Path)));
    }
}
