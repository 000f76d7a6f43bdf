//! Paths as the tools and the permissions see them: absolute, without symlinks, without `..`.
//!
//! The permissions decide about the resolved path and the tools open the resolved path, so both
//! speak of the same file.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use unicode_normalization::UnicodeNormalization as _;

/// Most symlinks on one way, as in the kernel.
const LINKS_MAX: usize = 40;

/// Most names of a folder that are looked through for similar ones.
const NAMES_MAX: usize = 5_000;

/// Longest name that is compared, in characters.
const NAME_LEN_MAX: usize = 100;

/// A path that could not be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("the path is empty; give an absolute path")]
    Empty,
    #[error("the path contains a NUL byte; give it without")]
    Nul,
    #[error("{} goes through too many symlinks; give the path of the file itself", path.display())]
    Loop { path: PathBuf },
    #[error("{} cannot be looked at", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The absolute form of a path that may be relative to the workspace. `~/` is the home folder.
pub(crate) fn absolute(path: &str, cwd: &Path, home: Option<&OsStr>) -> Result<PathBuf, PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Ok(Path::new(home).join(rest)),
        (Some(_) | None, _) => Ok(cwd.join(path)),
    }
}

/// Follows every symlink, also one whose target does not exist, and takes out `.` and `..`. What
/// does not exist yet stays as it is written.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, PathError> {
    let mut pending: VecDeque<OsString> = parts(path).collect();
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = pending.pop_front() {
        if part == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(PathError::Loop { path: path.to_owned() });
                }
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    pending.push_front(part);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                resolved = seeming(&resolved, &part).map_or(next, |name| resolved.join(name));
            }
            Err(error) if is_no_link(&error) => resolved = next,
            Err(source) => return Err(PathError::Unreadable { path: next, source }),
        }
    }
    Ok(resolved)
}

/// The name in a folder that is shown as this one, where there is no such name but exactly one that looks so: one that is no UTF-8,
/// or whose letters have their accents in the other of two forms (fT33).
fn seeming(folder: &Path, name: &OsStr) -> Option<OsString> {
    let wanted = name.to_str().filter(|it| !it.is_ascii())?;
    let wanted: String = wanted.nfc().collect();
    let mut found = None;
    for entry in std::fs::read_dir(folder).ok()?.take(NAMES_MAX).flatten() {
        let there = entry.file_name();
        if there.to_string_lossy().nfc().eq(wanted.chars()) && found.replace(there).is_some() {
            return None;
        }
    }
    found
}

/// Takes out `.` and `..` by the letters alone.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for part in parts(path) {
        if part == ".." {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

fn is_no_link(error: &io::Error) -> bool {
    // EINVAL: exists and is no symlink.
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound)
        || error.kind() == io::ErrorKind::NotADirectory
}

/// Names in the same folder that could have been meant, best first; or the nearest folder that
/// exists.
pub(crate) fn suggestion(path: &Path) -> String {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return String::new();
    };
    let Ok(entries) = std::fs::read_dir(parent) else {
        let exists = parent.ancestors().find(|folder| folder.is_dir());
        return exists
            .map(|it| {
                format!(" Its folder does not exist; the nearest that does is {}.", it.display())
            })
            .unwrap_or_default();
    };
    let wanted = name.to_string_lossy();
    let mut near: Vec<(usize, String)> = entries
        .take(NAMES_MAX)
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter_map(|name| Some((distance(&wanted, &name)?, name)))
        .collect();
    near.sort();
    let names: Vec<String> =
        near.into_iter().take(3).map(|(_, name)| parent.join(name).display().to_string()).collect();
    if names.is_empty() { String::new() } else { format!(" Did you mean {}?", names.join(" or ")) }
}

/// How far two names are apart, if they are near each other.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let (one, two) = (wanted.to_lowercase(), name.to_lowercase());
    if one.chars().count().max(two.chars().count()) > NAME_LEN_MAX {
        return None;
    }
    if one == two {
        return Some(0);
    }
    let stem = |it: &str| it.split_once('.').map_or(it, |(stem, _)| stem).to_owned();
    if stem(&one) == stem(&two) && !stem(&one).is_empty() {
        return Some(1);
    }
    let edits = edit_distance(&one, &two);
    (edits <= 1 + one.chars().count() / 4).then_some(1 + edits)
}

fn edit_distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (line, a) in one.chars().enumerate() {
        let mut next = vec![line + 1];
        let mut left = line + 1;
        for (b, pair) in two.iter().zip(row.windows(2)) {
            let [diagonal, above] = *pair else { continue };
            left = (diagonal + usize::from(a != *b)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    /// A symlink to something that does not exist yet would be created outside, so it is outside.
    #[test]
    fn symlinks_are_followed_even_to_nowhere() {
        let (_folder, path) = folder();
        std::fs::create_dir(path.join("inside")).unwrap();
        symlink("/nowhere/at/all", path.join("inside/dangling")).unwrap();
        symlink("..", path.join("inside/up")).unwrap();
        symlink("inside", path.join("link")).unwrap();
        assert_eq!(
            resolve(&path.join("inside/dangling/x")).unwrap(),
            Path::new("/nowhere/at/all/x")
        );
        assert_eq!(resolve(&path.join("inside/up/new")).unwrap(), path.join("new"));
        assert_eq!(resolve(&path.join("link/../x/./y")).unwrap(), path.join("x/y"));
        assert_eq!(resolve(&path.join("inside/new/dir")).unwrap(), path.join("inside/new/dir"));
    }

    /// fT33: a name is found as it is shown, unless two are shown so.
    #[test]
    fn ft33_a_name_is_found_as_it_is_shown() {
        use std::os::unix::ffi::OsStrExt as _;
        let (_folder, path) = folder();
        let latin = OsStr::from_bytes(b"caf\xe9.txt");
        std::fs::write(path.join(latin), "").unwrap();
        std::fs::create_dir(path.join("re\u{301}sume\u{301}")).unwrap();
        assert_eq!(resolve(&path.join("caf\u{fffd}.txt")).unwrap(), path.join(latin));
        let inside = resolve(&path.join("r\u{e9}sum\u{e9}/new")).unwrap();
        assert_eq!(inside, path.join("re\u{301}sume\u{301}/new"));
        assert_eq!(resolve(&path.join("other\u{e9}")).unwrap(), path.join("other\u{e9}"));
        std::fs::write(path.join(OsStr::from_bytes(b"caf\xe8.txt")), "").unwrap();
        let unclear = path.join("caf\u{fffd}.txt");
        assert_eq!(resolve(&unclear).unwrap(), unclear);
    }

    /// `link/..` is the parent of the link's target, which the letters alone do not tell.
    #[test]
    fn dot_dot_behind_a_symlink_leads_to_where_the_kernel_goes() {
        let (_folder, path) = folder();
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        symlink("a/b", path.join("link")).unwrap();
        assert_eq!(resolve(&path.join("link/../x")).unwrap(), path.join("a/x"));
        assert_eq!(normalize(&path.join("link/../x")), path.join("x"));
    }

    #[test]
    fn a_circle_of_symlinks_is_an_error() {
        let (_folder, path) = folder();
        symlink("b", path.join("a")).unwrap();
        symlink("a", path.join("b")).unwrap();
        assert!(matches!(resolve(&path.join("a/x")), Err(PathError::Loop { .. })));
    }

    #[test]
    fn relative_and_home_paths_become_absolute() {
        let cwd = Path::new("/w");
        let home = Some(OsStr::new("/home/me"));
        assert_eq!(absolute("a/b", cwd, home).unwrap(), Path::new("/w/a/b"));
        assert_eq!(absolute("/a", cwd, home).unwrap(), Path::new("/a"));
        assert_eq!(absolute("~/a", cwd, home).unwrap(), Path::new("/home/me/a"));
        assert!(matches!(absolute("", cwd, home), Err(PathError::Empty)));
        assert!(matches!(absolute("a\0", cwd, home), Err(PathError::Nul)));
    }

    #[test]
    fn near_names_are_suggested() {
        let (_folder, path) = folder();
        for name in ["parser.rs", "lexer.rs", "Readme.md"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        assert!(suggestion(&path.join("parsre.rs")).contains("parser.rs"));
        assert!(suggestion(&path.join("README.md")).contains("Readme.md"));
        assert!(suggestion(&path.join("parser.py")).contains("parser.rs"));
        assert_eq!(suggestion(&path.join("something_else.txt")), "");
        let missing = suggestion(&path.join("gone/x.rs"));
        assert!(missing.contains(&format!("the nearest that does is {}.", path.display())));
    }

    #[test]
    fn edit_distances() {
        for (one, two, edits) in
            [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(edit_distance(one, two), edits, "{one} {two}");
        }
    }
}
