//! Opening and replacing regular files.
//!
//! It must not open what is no regular file (a FIFO would block, a device can act), and must not
//! leave a half-written file: the new content goes into another file of the same folder, which then
//! takes the name.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use coordd_common::files::Draft;
use rustix::fs::{Mode, OFlags};

use super::paths::{self, PathError};
use super::seen::{ContentHash, Fingerprint};

/// Largest file that is held in memory as a whole (by `Edit`, and to tell whether it changed).
pub(crate) const WHOLE_LEN_MAX: u64 = 16 * 1024 * 1024;

/// The kernel's own bound for a list of attributes, and for the value of one.
const ATTRIBUTES_LEN_MAX: usize = 64 * 1024;

/// Why a file could not be read or replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("The path cannot be used")]
    Path(#[source] PathError),
    #[error("{} does not exist.{suggestion}", path.display())]
    Missing { path: PathBuf, suggestion: String },
    #[error("{} is a folder. List it with Glob, or with `ls` in Bash.", path.display())]
    Folder { path: PathBuf },
    #[error("{} is {kind}, not a regular file. Use Bash if you must use it.", path.display())]
    NotRegular { path: PathBuf, kind: &'static str },
    #[error("Access to {} is denied. Choose another file, or tell the user.", path.display())]
    Denied { path: PathBuf },
    #[error(
        "{} is read-only (mode {mode:03o}), so it was not changed. If it is meant to be changed, make it writable first: chmod u+w.",
        path.display()
    )]
    ReadOnly { path: PathBuf, mode: u32 },
    #[error(
        "{} is one of {links} names of the same file (hard links), and a changed copy would take its place under this name alone. \
         If that is meant, part it from the others first: cp -p FILE FILE.new && mv FILE.new FILE. If all of them are to change, \
         write into the file with Bash.",
        path.display()
    )]
    HardLinked { path: PathBuf, links: u64 },
    #[error(
        "{} has {len} bytes, more than the {WHOLE_LEN_MAX} that fit here. Use Bash for it.",
        path.display()
    )]
    TooLarge { path: PathBuf, len: u64 },
    #[error("{} cannot be {done}", path.display())]
    Io {
        path: PathBuf,
        done: &'static str,
        #[source]
        source: io::Error,
    },
}

/// Opens a regular file for reading. The path must be resolved.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata), FileError> {
    // Looked at before it is opened, because opening a device can have an effect, and after, because it may have changed.
    let (folder, name) = place_of(path)?;
    let held = Folder::hold(folder, false).map_err(|source| explain(path, "read", source))?;
    let at = held.at(name);
    let metadata =
        std::fs::symlink_metadata(&at).map_err(|source| explain(path, "read", source))?;
    refuse_irregular(path, &metadata)?;
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&at, flags, Mode::empty())
        .map_err(|errno| explain(path, "opened", errno.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|source| explain(path, "read", source))?;
    refuse_irregular(path, &metadata)?;
    Ok((file, metadata))
}

/// The whole content of a regular file, and its fingerprint.
pub(crate) fn read_whole(path: &Path) -> Result<(Vec<u8>, Fingerprint), FileError> {
    let (file, metadata) = open_regular(path)?;
    let mut content = Vec::new();
    file.take(WHOLE_LEN_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|source| explain(path, "read", source))?;
    let len = content.len() as u64;
    if len > WHOLE_LEN_MAX {
        return Err(FileError::TooLarge { path: path.to_owned(), len: metadata.len().max(len) });
    }
    let hash = Some(ContentHash::of(&content));
    let fingerprint = Fingerprint { len, modified: metadata.modified().ok(), hash };
    Ok((content, fingerprint))
}

/// What a file is like now; none if there is none.
pub(crate) fn fingerprint(path: &Path) -> Result<Option<Fingerprint>, FileError> {
    match read_whole(path) {
        Ok((_, fingerprint)) => Ok(Some(fingerprint)),
        Err(FileError::Missing { .. }) => Ok(None),
        Err(FileError::TooLarge { .. }) => {
            let (_, metadata) = open_regular(path)?;
            let modified = metadata.modified().ok();
            Ok(Some(Fingerprint { len: metadata.len(), modified, hash: None }))
        }
        Err(error) => Err(error),
    }
}

/// Replaces a file's content, or makes the file and its folders. The old content or the new one is
/// there at any time.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<Fingerprint, FileError> {
    let failed = |source| explain(path, "written", source);
    let (folder, name) = place_of(path)?;
    let held = Folder::hold(folder, true).map_err(|source| explain(folder, "made", source))?;
    let at = held.at(name);
    let before = match std::fs::symlink_metadata(&at) {
        Ok(metadata) => {
            refuse_irregular(path, &metadata)?;
            refuse_kept(path, &at, &metadata)?;
            Some(metadata)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let temporary = temporary_name();
    let mut draft =
        Draft::create(File::open(held.at("".as_ref())).map_err(failed)?, temporary, 0o666)
            .map_err(failed)?;
    draft.write(content).map_err(failed)?;
    if let Some(before) = &before {
        keep_attributes(draft.file(), &at);
        keep_owner_and_mode(draft.file(), before).map_err(failed)?;
    }
    let modified = draft.file().metadata().ok().and_then(|it| it.modified().ok());
    draft.take_place(path.file_name().unwrap_or_default()).map_err(failed)?;
    let hash = Some(ContentHash::of(content));
    Ok(Fingerprint { len: content.len() as u64, modified, hash })
}

fn place_of(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    path.parent().zip(path.file_name()).ok_or_else(|| FileError::Folder { path: path.to_owned() })
}

/// A folder that is held while something in it is read or replaced (fP10). The path was resolved when it was judged, so that none
/// of its parts may be a link now: somebody would have put another place under a name.
struct Folder(OwnedFd);

impl Folder {
    fn hold(path: &Path, makes: bool) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut held = rustix::fs::open("/", flags, Mode::empty())?;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            held = match rustix::fs::openat(&held, name, flags, Mode::empty()) {
                Err(rustix::io::Errno::NOENT) if makes => {
                    match rustix::fs::mkdirat(&held, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    rustix::fs::openat(&held, name, flags, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok(Self(held))
    }

    /// A name in it, as long as it is held, whatever becomes of its own name.
    fn at(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(name)
    }
}

fn keep_owner_and_mode(file: &File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        // Only root may give a file away; for anyone else it stays theirs, as any editor does it.
        let owner = rustix::fs::Uid::from_raw(before.uid());
        let group = rustix::fs::Gid::from_raw(before.gid());
        let _: Result<_, _> = rustix::fs::fchown(file, Some(owner), Some(group));
    }
    // After the owner, whose change takes some of them away.
    file.set_permissions(std::fs::Permissions::from_mode(before.mode() & 0o7777))
}

/// What a user keeps from being written, although the folder would let it be replaced (fT14).
fn refuse_kept(path: &Path, at: &Path, metadata: &Metadata) -> Result<(), FileError> {
    let mode = metadata.mode() & 0o777;
    let is_writable = mode & 0o222 != 0
        && rustix::fs::accessat(
            rustix::fs::CWD,
            at,
            rustix::fs::Access::WRITE_OK,
            rustix::fs::AtFlags::EACCESS,
        )
        .is_ok();
    if !is_writable {
        return Err(FileError::ReadOnly { path: path.to_owned(), mode });
    }
    if metadata.nlink() > 1 {
        return Err(FileError::HardLinked { path: path.to_owned(), links: metadata.nlink() });
    }
    Ok(())
}

/// Access lists and a user's own attributes. Where the file system has none, or does not let us, there are none to keep.
fn keep_attributes(file: &File, before: &Path) {
    let mut names = vec![0_u8; ATTRIBUTES_LEN_MAX];
    let Ok(len) = rustix::fs::listxattr(before, &mut names) else { return };
    let mut value = vec![0_u8; ATTRIBUTES_LEN_MAX];
    for name in names.get(..len).unwrap_or_default().split(|byte| *byte == 0) {
        let is_users = name.starts_with(b"user.") || name == b"system.posix_acl_access";
        let name = OsStr::from_bytes(name);
        if !is_users {
            continue;
        }
        if let Ok(len) = rustix::fs::getxattr(before, name, &mut value)
            && let Some(value) = value.get(..len)
        {
            let _: Result<_, _> =
                rustix::fs::fsetxattr(file, name, value, rustix::fs::XattrFlags::empty());
        }
    }
}

/// A name that no other file of ours has at the moment.
fn temporary_name() -> String {
    static FILES: AtomicU64 = AtomicU64::new(1);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    format!(".coordd-{}-{number}.tmp", std::process::id())
}

fn refuse_irregular(path: &Path, metadata: &Metadata) -> Result<(), FileError> {
    let file_type = metadata.file_type();
    let path = || path.to_owned();
    if file_type.is_file() {
        return Ok(());
    }
    if file_type.is_dir() {
        return Err(FileError::Folder { path: path() });
    }
    let kind = if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else if file_type.is_block_device() || file_type.is_char_device() {
        "a device"
    } else {
        "a symlink that changed just now"
    };
    Err(FileError::NotRegular { path: path(), kind })
}

fn explain(path: &Path, done: &'static str, source: io::Error) -> FileError {
    let owned = path.to_owned();
    // No wildcard-free match is possible on a foreign, open enum.
    if source.kind() == io::ErrorKind::NotFound || source.kind() == io::ErrorKind::NotADirectory {
        FileError::Missing { path: owned, suggestion: paths::suggestion(path) }
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        FileError::Denied { path: owned }
    } else {
        FileError::Io { path: owned, done, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_keeps_the_mode_and_leaves_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sh");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
        let fingerprint_written = replace(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o751);
        assert_eq!(fingerprint(&path).unwrap(), Some(fingerprint_written));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// fT14: what its user made read-only is not replaced, and the way is said.
    #[test]
    fn ft14_a_read_only_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        std::fs::write(&path, "old").unwrap();
        for mode in [0o444, 0o400, 0o000, 0o555] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = replace(&path, b"new").unwrap_err().to_string();
            assert!(error.contains("chmod u+w") && error.contains("read-only"), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        replace(&path, b"new").unwrap();
    }

    /// fT35: set-group bits and a user's attributes stay; other names of the same file are not parted from it unasked.
    #[test]
    fn ft35_what_belongs_to_a_file_stays_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2775)).unwrap();
        let has_attributes =
            rustix::fs::setxattr(&path, "user.note", b"mine", rustix::fs::XattrFlags::empty());
        replace(&path, b"new").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o2775);
        if has_attributes.is_ok() {
            let mut value = [0; 8];
            let len = rustix::fs::getxattr(&path, "user.note", &mut value).unwrap();
            assert_eq!(&value[..len], b"mine");
        }
        std::fs::hard_link(&path, folder.path().join("other")).unwrap();
        let error = replace(&path, b"newer").unwrap_err();
        assert!(matches!(error, FileError::HardLinked { links: 2, .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().nlink(), 2);
    }

    #[test]
    fn a_failed_replacement_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(replace(&path, b"x"), Err(FileError::Folder { .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// fP10: a name under which another place was put is not followed, for a file that is there and for one that is to be made.
    #[test]
    fn fp10_a_folder_that_became_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["a/b", "elsewhere/b"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("k"), "as it was").unwrap();
        }
        std::fs::rename(root.join("a"), root.join("old")).unwrap();
        std::os::unix::fs::symlink("elsewhere", root.join("a")).unwrap();
        for path in ["a/b/k", "a/b/new", "a/new/folder/k"] {
            assert!(replace(&root.join(path), b"x").is_err(), "{path}");
            assert!(open_regular(&root.join(path)).is_err(), "{path}");
        }
        assert_eq!(std::fs::read(root.join("elsewhere/b/k")).unwrap(), b"as it was");
        assert_eq!(std::fs::read_dir(root.join("elsewhere")).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(root.join("elsewhere/b")).unwrap().count(), 1);
        replace(&root.join("old/made/k"), b"x").unwrap();
    }

    /// rel-4: what is no regular file is refused without blocking.
    #[test]
    fn fifos_devices_and_symlinks_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        for path in [fifo.as_path(), Path::new("/dev/zero"), &link] {
            assert!(matches!(open_regular(path), Err(FileError::NotRegular { .. })), "{path:?}");
            assert!(matches!(replace(path, b"x"), Err(FileError::NotRegular { .. })), "{path:?}");
        }
        assert!(matches!(open_regular(folder.path()), Err(FileError::Folder { .. })));
    }
}
