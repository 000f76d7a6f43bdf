//! Vetting a socket outside before the first byte goes to it (rel-14).
//!
//! ```text
//!   path ─no link, ours, closed to others─▶ socket ─connected by descriptor─▶ listener ─ours, and listed as it─▶ Vetted
//! ```
//!
//! The path is walked once and held, the kernel says who listens, and the list of sessions must
//! name that very process for that very path. Anything else (a container engine, a key agent, a
//! bus) gets nothing.

use std::ffi::OsStr;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::registry::{Entry, Registry};
use crate::dir::euid;
use crate::process::identity::Identity;

/// Steps of a path: those of the longest path of a socket.
const STEPS_MAX: usize = 54;

/// Why nothing is said to a socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{} does not exist; `coordctl peers` lists whom you can message", path.display())]
    Missing { path: PathBuf },
    #[error("{} is a symbolic link; give the path of its target", path.display())]
    Link { path: PathBuf },
    #[error("a socket's path must not contain `.`, `..` or an empty part")]
    NotPlain,
    #[error("{} is not a socket", path.display())]
    NoSocket { path: PathBuf },
    #[error("{} belongs to user {uid}", path.display())]
    Foreign { path: PathBuf, uid: u32 },
    #[error("other users can write to {}, so the socket may be anybody's", path.display())]
    Open { path: PathBuf },
    #[error("it is not in the list of sessions: `coordctl peers` shows those that are")]
    NotListed,
    #[error("nobody listens there any more; `coordctl peers` lists whom you can message")]
    Dead,
    #[error("user {uid} listens there")]
    ForeignListener { uid: u32 },
    #[error("the process that listens there is not the one in the list")]
    OtherProcess,
    #[error("it has too many waiting connections; try again")]
    Busy,
    #[error("{} cannot be examined: {source}", path.display())]
    Io { path: PathBuf, source: Errno },
}

/// A connection to one who is what it says.
#[derive(Debug)]
pub(super) struct Vetted {
    pub(super) stream: UnixStream,
    pub(super) entry: Entry,
}

/// Connects to a socket if it passes the vetting. Not one byte is written.
pub(super) fn connect_to(path: &Path, registry: &Registry) -> Result<Vetted, Refusal> {
    let socket = held(path)?;
    let entries = registry.entries();
    let mut listed = entries.into_iter().filter(|entry| entry.socket == path).peekable();
    if listed.peek().is_none() {
        return Err(Refusal::NotListed);
    }
    let stream = connected(&socket, path)?;
    let listener = rustix::net::sockopt::socket_peercred(&stream)
        .map_err(|source| Refusal::Io { path: path.into(), source })?;
    if listener.uid.as_raw() != euid() {
        return Err(Refusal::ForeignListener { uid: listener.uid.as_raw() });
    }
    let pid = u32::try_from(listener.pid.as_raw_nonzero().get()).unwrap_or_default();
    let now = Identity::of(pid);
    let is_it = |entry: &Entry| {
        let start = now.as_ref().map(|it| it.start_ticks);
        entry.pid == Some(pid) && (entry.start_ticks.is_none() || entry.start_ticks == start)
    };
    let entry = listed.find(is_it).ok_or(Refusal::OtherProcess)?;
    Ok(Vetted { stream: UnixStream::from(stream), entry })
}

/// The socket itself, found without following a link. Each folder on the way is ours or the
/// system's and closed to others, or sticky; the last one is ours alone.
fn held(path: &Path) -> Result<OwnedFd, Refusal> {
    let names = names(path)?;
    let io = |at: &Path, source| match source {
        Errno::NOENT | Errno::NOTDIR => Refusal::Missing { path: at.into() },
        Errno::LOOP => Refusal::Link { path: at.into() },
        source => Refusal::Io { path: at.into(), source },
    };
    let mut at = PathBuf::from("/");
    let root = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut fd = open("/", root, Mode::empty()).map_err(|error| io(&at, error))?;
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for (number, name) in names.iter().enumerate() {
        at.push(name);
        fd = openat(&fd, *name, step, Mode::empty()).map_err(|error| io(&at, error))?;
        let stat = fstat(&fd).map_err(|error| io(&at, error))?;
        let (kind, mode, uid) =
            (FileType::from_raw_mode(stat.st_mode), stat.st_mode & 0o7777, stat.st_uid);
        if kind == FileType::Symlink {
            return Err(Refusal::Link { path: at });
        }
        if number + 1 == names.len() {
            if kind != FileType::Socket {
                return Err(Refusal::NoSocket { path: at });
            }
            if uid != euid() {
                return Err(Refusal::Foreign { path: at, uid });
            }
            continue;
        }
        let is_last_folder = number + 2 == names.len();
        let is_trusted = uid == euid() || (uid == 0 && !is_last_folder);
        if kind == FileType::Directory && !is_trusted {
            return Err(Refusal::Foreign { path: at, uid });
        }
        let is_sticky = mode & 0o1000 != 0 && !is_last_folder;
        if mode & 0o022 != 0 && !is_sticky {
            return Err(Refusal::Open { path: at });
        }
    }
    Ok(fd)
}

fn names(path: &Path) -> Result<Vec<&OsStr>, Refusal> {
    let mut names = Vec::new();
    for component in path.components().skip(1) {
        match component {
            Component::Normal(name) => names.push(name),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => {
                return Err(Refusal::NotPlain);
            }
        }
    }
    // `components` skips `.` and empty parts; a path that has any is another name for the same
    // socket.
    let plain = names.iter().fold(PathBuf::from("/"), |path, name| path.join(name));
    let is_plain = plain.as_os_str() == path.as_os_str() && path.is_absolute();
    // A socket directly in the root folder has no folder that is ours.
    if is_plain && (2..=STEPS_MAX).contains(&names.len()) {
        Ok(names)
    } else {
        Err(Refusal::NotPlain)
    }
}

/// Connects to the socket that is held by descriptor, not to a later one at its path. It never
/// waits.
fn connected(held: &OwnedFd, path: &Path) -> Result<OwnedFd, Refusal> {
    let io = |source| Refusal::Io { path: path.into(), source };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(io)?;
    let by_descriptor = format!("/proc/self/fd/{}", held.as_raw_fd());
    let address = SocketAddrUnix::new(by_descriptor).map_err(io)?;
    match connect(&fd, &address) {
        Ok(()) => Ok(fd),
        Err(Errno::CONNREFUSED) => Err(Refusal::Dead),
        Err(Errno::AGAIN) => Err(Refusal::Busy),
        Err(source) => Err(io(source)),
    }
}

#[cfg(test)]
mod tests;
