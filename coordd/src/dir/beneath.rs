//! Opening what lies below a folder, without ever leaving it.
//!
//! The kernel does it in one call where it can. Where it cannot (an old kernel, or a filter that
//! forbids the call), each component is opened by itself without following links, which is as safe.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// Deepest path that is opened below a folder. No real project has deeper ones.
pub(super) const DEPTH_MAX: usize = 64;

/// Opens `path` below `dir`. A path that leads out, or over a link or a mount, gives `XDEV` or
/// `LOOP`.
pub(super) fn open(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let names = plain_components(path)?;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let all_flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat2(&dir, path, all_flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => open_by_component(dir, &names, flags),
        result => result,
    }
}

/// What [`open`] does where the kernel has no single call for it.
pub(super) fn open_by_component(
    dir: impl AsFd,
    names: &[&OsStr],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let Some((last, parents)) = names.split_last() else { return Err(Errno::INVAL) };
    let device = fstat(&dir)?.st_dev;
    let mut at: Option<OwnedFd> = None;
    let step = |at: &Option<OwnedFd>, name: &OsStr, flags: OFlags| {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match at {
            Some(fd) => openat(fd, name, flags, Mode::empty()),
            None => openat(&dir, name, flags, Mode::empty()),
        }?;
        if fstat(&fd)?.st_dev == device { Ok(fd) } else { Err(Errno::XDEV) }
    };
    for name in parents {
        let fd = step(&at, name, OFlags::PATH)?;
        match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
            FileType::Directory => at = Some(fd),
            FileType::Symlink => return Err(Errno::LOOP),
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Err(Errno::NOTDIR),
        }
    }
    step(&at, last, flags)
}

/// The components of a relative path, all of which must be names.
pub(super) fn plain_components(path: &Path) -> Result<Vec<&OsStr>, Errno> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if names.len() < DEPTH_MAX => names.push(name),
            Component::Normal(_) => return Err(Errno::NAMETOOLONG),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        }
    }
    if names.is_empty() { Err(Errno::INVAL) } else { Ok(names) }
}
