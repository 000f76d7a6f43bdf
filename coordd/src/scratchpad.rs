//! The folder that the agents of one session share.
//!
//! ```text
//! ${CLAUDE_CODE_TMPDIR:-/tmp} / claude-<uid> / <sanitized cwd> / <session id> / scratchpad
//!        the user's or the system's        \------- ours, 0700, never a link -------/
//! ```
//!
//! The last folder is held by descriptor and carries a lock for as long as the session lives, so
//! that a cleaner of temporary files leaves it alone. Everything done in it goes through the
//! descriptor. It must not follow a link that an agent, or somebody else, put there.

mod sanitize;

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, flock, statat};
use rustix::io::Errno;
pub(crate) use sanitize::sanitize;

use crate::dir::{Content, Demand, Dir, DirError, FileError, Found, Removal, euid};
use crate::paths;

/// Most entries that are listed. A scratchpad is read by people and models.
pub(crate) const LISTED_MAX: usize = 1000;

/// Most of a file that is read: what fits into a frame with room to spare.
pub(crate) const READ_BYTES_MAX: usize = 512 * 1024;

/// Deepest folder that is listed.
const DEPTH_MAX: usize = 16;

/// The last folder's name.
const NAME: &str = "scratchpad";

/// Why there is no scratchpad, or not the one that was there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScratchpadError {
    #[error(
        "the scratchpad of session {session} cannot be used; fix what is named, or set CLAUDE_CODE_TMPDIR to another folder"
    )]
    Refused { session: String, source: DirError },
    #[error(
        "no scratchpad can be created; fix what is named, or set CLAUDE_CODE_TMPDIR to another folder"
    )]
    NoRoot { source: DirError },
    #[error(
        "{} is no longer the folder that session {session} used: another one was put in its place; move that one away",
        path.display()
    )]
    Replaced { session: String, path: PathBuf },
    #[error("{} is locked by another process; end it", path.display())]
    Locked { path: PathBuf },
    #[error("{session:?} is not a session id")]
    BadSession { session: String, source: paths::PathsError },
    #[error("the file in the scratchpad cannot be read")]
    File { source: FileError },
}

/// A session's scratchpad, held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Scratchpad {
    session: String,
    tmp: PathBuf,
    /// The folders below `tmp`, the last one is the scratchpad.
    names: [String; 4],
    dir: Dir,
}

/// A scratchpad, and how it was come by.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) scratchpad: Scratchpad,
    /// False when it stood already. For a session that had one, true means that what was in it is
    /// lost.
    pub(crate) is_new: bool,
    /// Folders that stood open to others and were closed. The user should know.
    pub(crate) repaired: Vec<Repair>,
}

/// A folder that stood open to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) path: PathBuf,
    /// Entries that others could have put there, now in `.quarantine-<time>` inside it.
    pub(crate) quarantined: usize,
}

/// What the user is told.
impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} was open to other users; its permissions were fixed, and {} entries in it were moved to a .quarantine folder there",
            self.path.display(),
            self.quarantined
        )
    }
}

/// What [`Scratchpad::check`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// The path leads to the folder that is held.
    Same,
    /// The folder was gone, with all that was in it. A new one stands in its place.
    Lost,
}

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Relative to the scratchpad. Characters that are no text are replaced.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) modified_ms: u64,
    /// Whether [`Scratchpad::read`] would take it: a file of ours with one name.
    pub(crate) readable: bool,
}

/// The files of a scratchpad, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Listed>,
    /// Whether there are more.
    pub(crate) cut: bool,
}

/// Whether scratchpads can be made below `tmp` at all, so that a session is refused with the reason
/// and not made without one.
pub(crate) fn check_root(tmp: &Path) -> Result<Option<Repair>, ScratchpadError> {
    let root = format!("claude-{}", euid());
    let refused = |source| ScratchpadError::NoRoot { source };
    let base = Dir::base(tmp).map_err(refused)?;
    let (dir, found) = base.enter(&root, Demand::Repaired).map_err(refused)?;
    Ok(match found {
        Found::Repaired { quarantined } => Some(Repair { path: dir.path().into(), quarantined }),
        Found::Created | Found::Existing => None,
    })
}

/// Where the scratchpad of a session is made. Nothing is made or looked at.
pub(crate) fn path(session: &str, cwd: &str, tmp: &str) -> String {
    let mut path = tmp.trim_end_matches('/').to_owned();
    for name in names(session, cwd) {
        path.push('/');
        path.push_str(&name);
    }
    path
}

/// The folders on the way, the last one is the scratchpad.
fn names(session: &str, cwd: &str) -> [String; 4] {
    [format!("claude-{}", euid()), sanitize(cwd), session.to_owned(), NAME.to_owned()]
}

impl Scratchpad {
    /// Makes the scratchpad of a session, or takes up the one that stands.
    pub(crate) fn create(
        session: &str,
        cwd: &Path,
        tmp: &Path,
    ) -> Result<Created, ScratchpadError> {
        paths::id(session).map_err(|source| ScratchpadError::BadSession {
            session: session.chars().take(64).collect(),
            source,
        })?;
        let names = names(session, &cwd.to_string_lossy());
        let refused = |source| ScratchpadError::Refused { session: session.to_owned(), source };
        let mut dir = Dir::base(tmp).map_err(refused)?;
        let mut is_new = false;
        let mut repaired = Vec::new();
        for name in &names {
            let (next, found) = dir.enter(name, Demand::Repaired).map_err(refused)?;
            is_new = found == Found::Created;
            if let Found::Repaired { quarantined } = found {
                repaired.push(Repair { path: next.path().into(), quarantined });
            }
            dir = next;
        }
        lock(&dir)?;
        let scratchpad = Self { session: session.to_owned(), tmp: tmp.to_path_buf(), names, dir };
        Ok(Created { scratchpad, is_new, repaired })
    }

    /// Where it is, for agents and people.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Looks whether the path still leads to the folder that is held, and makes a new one where it
    /// is gone (rel-3, rel-7).
    pub(crate) fn check(&mut self) -> Result<Checked, ScratchpadError> {
        let found = self.walk()?;
        let ours = self.dir.id().map_err(|source| self.refused(source))?;
        if let Some(found) = found {
            let id = found.id().map_err(|source| self.refused(source))?;
            if id == ours {
                return Ok(Checked::Same);
            }
            if !self.dir.is_removed().map_err(|source| self.refused(source))? {
                return Err(ScratchpadError::Replaced {
                    session: self.session.clone(),
                    path: self.path().into(),
                });
            }
            lock(&found)?;
            self.dir = found;
            return Ok(Checked::Lost);
        }
        let mut dir = Dir::base(&self.tmp).map_err(|source| self.refused(source))?;
        for name in &self.names {
            dir = dir.enter(name, Demand::Repaired).map_err(|source| self.refused(source))?.0;
        }
        lock(&dir)?;
        self.dir = dir;
        Ok(Checked::Lost)
    }

    /// How many things are in it, at most so many. None can be seen where it cannot be read.
    pub(crate) fn things(&self, limit: usize) -> usize {
        self.dir.names(limit).map_or(0, |(names, _)| names.len())
    }

    /// The files in it, by path.
    pub(crate) fn list(&self) -> Result<Listing, ScratchpadError> {
        let mut listing = Listing::default();
        list_into(&self.dir, Path::new(""), DEPTH_MAX, &mut listing)
            .map_err(|source| self.refused(source))?;
        listing.entries.sort_by(|one, two| one.path.cmp(&two.path));
        Ok(listing)
    }

    /// The beginning of a file in it.
    pub(crate) fn read(&self, path: &Path) -> Result<Content, ScratchpadError> {
        self.dir.read(path, READ_BYTES_MAX).map_err(|source| ScratchpadError::File { source })
    }

    /// Removes it with all that is in it, and the folders above that are empty then.
    pub(crate) fn remove(self) -> Result<Removal, ScratchpadError> {
        let same = self.walk()?.map(|it| it.id()).transpose();
        let same = same.map_err(|source| self.refused(source))?;
        let ours = self.dir.id().map_err(|source| self.refused(source))?;
        let mut removal = self.dir.empty().map_err(|source| self.refused(source))?;
        if same != Some(ours) {
            // What is at the path now is not what we had, and so not ours to remove.
            return Ok(removal);
        }
        let [root, cwd, session, name] = &self.names;
        let base = Dir::base(&self.tmp).map_err(|source| self.refused(source))?;
        let enter = |dir: &Dir, name: &str| {
            dir.existing(name, Demand::Strict).map_err(|source| self.refused(source))
        };
        let Some(root) = enter(&base, root)? else { return Ok(removal) };
        let Some(cwd_dir) = enter(&root, cwd)? else { return Ok(removal) };
        let Some(session_dir) = enter(&cwd_dir, session)? else { return Ok(removal) };
        session_dir.remove_empty(name, &mut removal);
        // Others may keep something in these; then they stay, and that is no failure.
        let mut shared = Removal::default();
        cwd_dir.remove_empty(session, &mut shared);
        root.remove_empty(cwd, &mut shared);
        Ok(removal)
    }

    /// Goes the way again, as strictly as the first time. None when a folder on it is gone.
    fn walk(&self) -> Result<Option<Dir>, ScratchpadError> {
        let mut dir = Dir::base(&self.tmp).map_err(|source| self.refused(source))?;
        for name in &self.names {
            let next = dir.existing(name, Demand::Strict).map_err(|source| self.refused(source))?;
            let Some(next) = next else { return Ok(None) };
            dir = next;
        }
        Ok(Some(dir))
    }

    fn refused(&self, source: DirError) -> ScratchpadError {
        ScratchpadError::Refused { session: self.session.clone(), source }
    }
}

/// Keeps cleaners away: they leave a folder alone that somebody has locked (rel-6). Shared, so that
/// an agent process can hold it too, over a restart of the daemon.
fn lock(dir: &Dir) -> Result<(), ScratchpadError> {
    match flock(dir, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(ScratchpadError::Locked { path: dir.path().into() }),
        Err(error) => Err(ScratchpadError::Refused {
            session: String::new(),
            source: DirError::io("lock", dir.path(), error),
        }),
    }
}

fn list_into(
    dir: &Dir,
    prefix: &Path,
    depth_left: usize,
    listing: &mut Listing,
) -> Result<(), DirError> {
    let (names, more) = dir.names(LISTED_MAX)?;
    listing.cut |= more;
    for name in names {
        let path = prefix.join(&name);
        let Ok(stat) = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let text = name.to_str();
        if let (FileType::Directory, Some(name)) = (kind, text) {
            if depth_left == 0 {
                listing.cut = true;
                continue;
            }
            // One that is exchanged meanwhile, or is not ours, has nothing to list.
            if let Ok(Some(sub)) = dir.existing(name, Demand::Shared) {
                list_into(&sub, &path, depth_left - 1, listing)?;
            }
            continue;
        }
        if listing.entries.len() == LISTED_MAX {
            listing.cut = true;
            return Ok(());
        }
        let ours = stat.st_uid == euid() && stat.st_nlink == 1 && text.is_some();
        listing.entries.push(Listed {
            path: path.to_string_lossy().into_owned(),
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ms: u64::try_from(stat.st_mtime).unwrap_or(0).saturating_mul(1000),
            readable: kind == FileType::RegularFile && ours,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::{Command, Stdio};

    use super::*;

    const CWD: &str = "/home/me/my project";

    fn create(tmp: &tempfile::TempDir) -> Created {
        Scratchpad::create("s-1", Path::new(CWD), tmp.path()).unwrap()
    }

    #[test]
    fn s1_it_is_where_claude_code_looks_for_it_and_closed() {
        let tmp = tempfile::tempdir().unwrap();
        let created = create(&tmp);
        assert!(created.is_new && created.repaired.is_empty());
        let path = created.scratchpad.path();
        let root = format!("claude-{}", euid());
        assert_eq!(path, tmp.path().join(root).join("-home-me-my-project/s-1/scratchpad"));
        assert_eq!(super::path("s-1", CWD, tmp.path().to_str().unwrap()), path.to_str().unwrap());
        for path in path.ancestors().take(4) {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        fs::write(path.join("notes.md"), "x").unwrap();
        assert!(!create(&tmp).is_new, "one that stands is taken up");
    }

    /// rel-1: each folder on the way, each cause, and a way out in the text.
    #[test]
    fn rel1_what_stands_in_the_way_is_refused_and_not_followed() {
        let victim = tempfile::tempdir().unwrap();
        for depth in 0..4 {
            let tmp = tempfile::tempdir().unwrap();
            let path = create(&tmp).scratchpad.path().to_path_buf();
            let level = path.ancestors().nth(3 - depth).unwrap().to_path_buf();
            fs::remove_dir_all(&level).unwrap();
            let cause = |what: &str| {
                let error = Scratchpad::create("s-1", Path::new(CWD), tmp.path()).unwrap_err();
                assert!(error.to_string().contains("CLAUDE_CODE_TMPDIR"), "{error}");
                let ScratchpadError::Refused { source, .. } = error else { panic!("{what}") };
                source
            };
            symlink(victim.path(), &level).unwrap();
            assert!(matches!(cause("link"), DirError::Symlink { .. }));
            fs::remove_file(&level).unwrap();
            fs::write(&level, "x").unwrap();
            assert!(matches!(cause("file"), DirError::NotADirectory { .. }));
            fs::remove_file(&level).unwrap();
            if euid() == 0 {
                fs::create_dir(&level).unwrap();
                std::os::unix::fs::chown(&level, Some(65534), None).unwrap();
                assert!(matches!(cause("owner"), DirError::ForeignOwner { uid: 65534, .. }));
            }
        }
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
    }

    #[test]
    fn rel2_a_root_that_was_open_is_closed_and_its_contents_moved_aside() {
        let tmp = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        let root = tmp.path().join(format!("claude-{}", euid()));
        fs::create_dir(&root).unwrap();
        symlink(victim.path(), root.join("-home-me-my-project")).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        let created = create(&tmp);
        assert_eq!(created.repaired, [Repair { path: root, quarantined: 1 }]);
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
    }

    #[test]
    fn rel3_another_folder_in_its_place_is_refused_and_left_empty() {
        let tmp = tempfile::tempdir().unwrap();
        let mut scratchpad = create(&tmp).scratchpad;
        assert_eq!(scratchpad.check().unwrap(), Checked::Same);
        let root = tmp.path().join(format!("claude-{}", euid()));
        fs::rename(&root, tmp.path().join("moved")).unwrap();
        let plant = scratchpad.path().to_path_buf();
        fs::create_dir_all(&plant).unwrap();
        for path in plant.ancestors().take(4) {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        assert!(matches!(scratchpad.check(), Err(ScratchpadError::Replaced { .. })));
        scratchpad.remove().unwrap();
        assert_eq!(fs::read_dir(&plant).unwrap().count(), 0);
        assert!(plant.exists(), "what was not ours was not removed");
    }

    #[test]
    fn rel6_a_cleaner_finds_it_locked_until_it_is_let_go() {
        let tmp = tempfile::tempdir().unwrap();
        let scratchpad = create(&tmp).scratchpad;
        let path = scratchpad.path().to_path_buf();
        let cleaner = || {
            let folder = fs::File::open(&path).unwrap();
            flock(&folder, FlockOperation::NonBlockingLockExclusive)
        };
        assert_eq!(cleaner(), Err(Errno::WOULDBLOCK));
        // A child that was started meanwhile does not hold it.
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Its answer shows that it has got rid of what it inherited.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        drop(scratchpad);
        assert_eq!(cleaner(), Ok(()));
        drop(stdin);
        child.wait().unwrap();
    }

    #[test]
    fn rel7_one_that_disappears_is_made_again_and_said() {
        let tmp = tempfile::tempdir().unwrap();
        let mut scratchpad = create(&tmp).scratchpad;
        let path = scratchpad.path().to_path_buf();
        fs::remove_dir_all(tmp.path().join(format!("claude-{}", euid()))).unwrap();
        assert_eq!(scratchpad.check().unwrap(), Checked::Lost);
        fs::write(path.join("f"), "x").unwrap();
        assert_eq!(scratchpad.check().unwrap(), Checked::Same);
        assert_eq!(scratchpad.list().unwrap().entries.len(), 1);
        // An agent that writes there first made it again.
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(scratchpad.check().unwrap(), Checked::Lost);
        assert_eq!(scratchpad.check().unwrap(), Checked::Same);
    }

    #[test]
    fn s1_files_are_listed_by_path_and_links_are_not_followed() {
        let tmp = tempfile::tempdir().unwrap();
        let scratchpad = create(&tmp).scratchpad;
        let path = scratchpad.path();
        fs::create_dir(path.join("sub")).unwrap();
        fs::write(path.join("sub/spec.md"), "12345").unwrap();
        fs::write(path.join("a.md"), "1").unwrap();
        symlink("/", path.join("away")).unwrap();
        let listing = scratchpad.list().unwrap();
        let seen: Vec<_> = listing
            .entries
            .iter()
            .map(|entry| (entry.path.as_str(), entry.bytes, entry.readable))
            .collect();
        assert_eq!(seen, [("a.md", 1, true), ("away", 1, false), ("sub/spec.md", 5, true)]);
        assert!(!listing.cut);
        assert_eq!(scratchpad.read(Path::new("sub/spec.md")).unwrap().bytes, b"12345");
        let error = scratchpad.read(Path::new("away/etc/passwd")).unwrap_err();
        assert!(matches!(error, ScratchpadError::File { source: FileError::Outside { .. } }));
    }

    #[test]
    fn a_listing_and_a_reading_are_bounded() {
        let tmp = tempfile::tempdir().unwrap();
        let scratchpad = create(&tmp).scratchpad;
        for number in 0..=LISTED_MAX {
            fs::write(scratchpad.path().join(number.to_string()), "").unwrap();
        }
        fs::write(scratchpad.path().join("0"), vec![b'x'; READ_BYTES_MAX + 1]).unwrap();
        let listing = scratchpad.list().unwrap();
        assert!(listing.cut && listing.entries.len() == LISTED_MAX);
        let content = scratchpad.read(Path::new("0")).unwrap();
        assert!(content.cut && content.bytes.len() == READ_BYTES_MAX);
    }

    #[test]
    fn rel5_it_goes_with_its_session_and_the_folders_that_are_empty_then() {
        let tmp = tempfile::tempdir().unwrap();
        let other = Scratchpad::create("s-2", Path::new(CWD), tmp.path()).unwrap().scratchpad;
        let scratchpad = create(&tmp).scratchpad;
        let path = scratchpad.path().to_path_buf();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/f"), "x").unwrap();
        assert!(scratchpad.remove().unwrap().is_complete());
        assert!(!path.parent().unwrap().exists());
        let root = tmp.path().join(format!("claude-{}", euid()));
        assert!(other.path().exists());
        assert!(other.remove().unwrap().is_complete());
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    }

    #[test]
    fn rel27_a_session_id_cannot_lead_elsewhere() {
        let tmp = tempfile::tempdir().unwrap();
        for session in ["..", "a/b", ""] {
            let error = Scratchpad::create(session, Path::new(CWD), tmp.path()).unwrap_err();
            assert!(matches!(error, ScratchpadError::BadSession { .. }));
        }
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0);
    }
}
