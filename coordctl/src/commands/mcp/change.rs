//! A change to a file of another program: shown before it is written, written whole or not at all,
//! and with a copy for undo.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::terminal;

/// The longest file that is read. Claude Code's settings grow with use, to some megabytes.
const FILE_LEN_MAX: u64 = 32 * 1024 * 1024;
/// Lines around a change that are shown.
const AROUND: usize = 2;
/// How much of a line is shown: some files are one line.
const SHOWN_COLUMNS_MAX: usize = 160;

/// A file with its text, as it was read.
#[derive(Debug)]
pub(super) struct Found {
    /// The file itself, behind any link.
    pub(super) path: PathBuf,
    /// None where there is no file yet.
    pub(super) text: Option<String>,
    mode: u32,
}

/// What is needed to undo a change.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    path: PathBuf,
    pub(super) before: Option<String>,
    after: String,
}

impl Found {
    /// A file that is not there would be made with `new_mode`.
    pub(super) fn read(path: &Path, new_mode: u32) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("{} cannot be read: {error}", path.display()))
                .hint("nothing was changed; fix the file's permissions and try again")
        };
        // A link, as programs for dotfiles make them, stays a link.
        let path_found = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.symlink_metadata().is_ok() {
                    return Err(failed(&"it is a link whose target is missing"));
                }
                return Ok(Self { path: path.to_owned(), text: None, mode: new_mode });
            }
            Err(error) => return Err(failed(&error)),
        };
        let file = File::open(&path_found).map_err(|error| failed(&error))?;
        let metadata = file.metadata().map_err(|error| failed(&error))?;
        if !metadata.is_file() {
            return Err(failed(&"it is not a file"));
        }
        let mut bytes = Vec::new();
        file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        if bytes.len() as u64 > FILE_LEN_MAX {
            return Err(failed(&"it is longer than 32 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8 text"))?;
        let mode = metadata.permissions().mode() & 0o7777;
        Ok(Self { path: path_found, text: Some(text), mode })
    }

    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Replaces what was read by the new text; with none, the file is removed.
    pub(super) fn write(&self, text: Option<&str>) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("{} cannot be written: {error}", self.path.display()))
                .hint("nothing was changed; fix the file's permissions and try again")
        };
        let folder = self.path.parent().ok_or_else(|| failed(&"its folder is unknown"))?;
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        let mut new = tempfile::Builder::new()
            .prefix(".coordd-")
            .tempfile_in(folder)
            .map_err(|error| failed(&error))?;
        new.write_all(text.unwrap_or_default().as_bytes()).map_err(|error| failed(&error))?;
        let permissions = Permissions::from_mode(self.mode);
        new.as_file().set_permissions(permissions).map_err(|error| failed(&error))?;
        new.as_file().sync_all().map_err(|error| failed(&error))?;
        // The file's owner may have written it meanwhile; that must not be lost.
        if Self::read(&self.path, self.mode)?.text != self.text {
            return Err(Failure::failed(format!(
                "{} was changed by another program at the same time",
                self.path.display()
            ))
            .hint("nothing was changed; try again"));
        }
        if text.is_none() {
            return fs::remove_file(&self.path).map_err(|error| failed(&error));
        }
        new.persist(&self.path).map(drop).map_err(|error| failed(&error.error))
    }
}

impl Kept {
    /// Keeps what a file was and what it is now, in a file of our own.
    pub(super) fn keep(at: &Path, found: &Found, after: &str) -> Result<(), Failure> {
        let kept = Self {
            path: found.path.clone(),
            // The oldest copy that leads to the present file: undo takes back two installs
            // together.
            before: match Self::of(at, found) {
                Some(kept) => kept.before,
                None => found.text.clone(),
            },
            after: after.to_owned(),
        };
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("a copy for undo cannot be kept at {}: {error}", at.display()))
                .hint("nothing was changed; free some space, or fix the folder's permissions")
        };
        let folder = at.parent().ok_or_else(|| failed(&"its folder is unknown"))?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder).map_err(|error| failed(&error))?;
        let text = serde_json::to_vec(&kept).map_err(|error| failed(&error))?;
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        new.write_all(&text).map_err(|error| failed(&error))?;
        new.persist(at).map(drop).map_err(|error| failed(&error.error))
    }

    /// The copy of this file, if nobody has changed the file since.
    pub(super) fn of(at: &Path, found: &Found) -> Option<Self> {
        let file = File::open(at).ok()?;
        let kept: Self = serde_json::from_reader(file.take(3 * FILE_LEN_MAX)).ok()?;
        (kept.path == found.path && Some(&kept.after) == found.text.as_ref()).then_some(kept)
    }
}

/// Where the copy for this file is kept. Two files never share one: the name has the path's hash
/// (FNV-1a, 64 bits) in it.
pub(super) fn kept_at(state_dir: &Path, client: &str, path: &Path) -> PathBuf {
    let hash =
        path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    state_dir.join(format!("undo/{client}-{hash:016x}.json"))
}

/// The change as a diff with one hunk, which is all that there is to it.
pub(super) fn diff(path: &Path, before: Option<&str>, after: Option<&str>) -> String {
    let old: Vec<&str> = before.unwrap_or_default().lines().collect();
    let new: Vec<&str> = after.unwrap_or_default().lines().collect();
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(same).count();
    let name = |text: Option<&str>| match text {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let from = head.saturating_sub(AROUND);
    let counts = |lines: &[&str]| (lines.len() - tail + AROUND.min(tail)) - from;
    let mut out = format!(
        "--- {}\n+++ {}\n@@ -{},{} +{},{} @@\n",
        terminal::line(&name(before)),
        terminal::line(&name(after)),
        from + usize::from(!old.is_empty()),
        counts(&old),
        from + usize::from(!new.is_empty()),
        counts(&new)
    );
    let mut show = |mark: char, lines: &[&str], range: std::ops::Range<usize>| {
        for line in lines.get(range).unwrap_or_default() {
            let shown = terminal::cut(&terminal::clean(line), SHOWN_COLUMNS_MAX);
            let _fits = writeln!(out, "{mark}{shown}");
        }
    };
    show(' ', &old, from..head);
    show('-', &old, head..old.len() - tail);
    show('+', &new, head..new.len() - tail);
    show(' ', &old, old.len() - tail..(old.len() - tail + AROUND).min(old.len()));
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn l4_a_change_is_shown_with_what_is_around_it() {
        let (before, after) = ("a\nb\nc\nd\ne\n", "a\nb\nc\nNEW\nd\ne\n");
        assert_eq!(
            diff(Path::new("/f"), Some(before), Some(after)),
            "--- /f\n+++ /f\n@@ -2,4 +2,5 @@\n b\n c\n+NEW\n d\n e\n"
        );
        assert_eq!(
            diff(Path::new("/f"), None, Some("x\n")),
            "--- /dev/null\n+++ /f\n@@ -0,0 +1,1 @@\n+x\n"
        );
        let cut = diff(Path::new("/f"), Some("{}"), Some(&"y".repeat(1_000)));
        assert!(cut.lines().all(|line| line.len() < 200), "{cut}");
    }

    #[test]
    fn l4_a_file_is_replaced_whole_keeps_its_mode_and_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let found = Found::read(&link, 0o600).unwrap();
        found.write(Some("new")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        // What was read is not what is there any more.
        let error = found.write(Some("newer")).unwrap_err();
        assert!(error.message.contains("was changed by another program"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
        let missing = Found::read(&folder.path().join("sub/none"), 0o600).unwrap();
        missing.write(Some("x")).unwrap();
        assert_eq!(missing.path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn l4_what_is_kept_takes_back_every_change_until_somebody_else_makes_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "first").unwrap();
        let at = kept_at(folder.path(), "claude", &file);
        for text in ["second", "third"] {
            let found = Found::read(&file, 0o600).unwrap();
            Kept::keep(&at, &found, text).unwrap();
            found.write(Some(text)).unwrap();
        }
        let kept = Kept::of(&at, &Found::read(&file, 0o600).unwrap()).unwrap();
        assert_eq!(kept.before.as_deref(), Some("first"));
        assert_eq!(at.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, "by somebody").unwrap();
        assert_eq!(Kept::of(&at, &Found::read(&file, 0o600).unwrap()), None);
        assert_ne!(
            kept_at(folder.path(), "claude", Path::new("/a")),
            kept_at(folder.path(), "claude", Path::new("/b"))
        );
    }
}
