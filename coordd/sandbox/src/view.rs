//! What the command sees of files: all of the machine read-only, few folders writable, secrets covered.
//!
//! ```text
//! hold what is writable -> make all read-only -> /dev, /proc, and then from the root down:
//!    writable put back | overlays | read-only and pinned parts bound onto themselves | covers over what is hidden
//! ```
//!
//! Paths are held by descriptor and never followed through a link, so that nobody can put another place under a name while the
//! box is built. It must not make a file in a real folder.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use coordd_sandbox::{Overlay, Policy};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount, mount_change,
};

use crate::error::BoxError;
use crate::kernel::{self, Walls};

/// What a command needs of `/dev`.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Bytes of a tmpfs that holds nothing but names.
const NAMES_BYTES: &str = "1m";
/// Bytes of shared memory between the processes of a command.
const SHARED_BYTES: &str = "512m";

/// Where sockets of the machine's services are, and devices.
const SERVICES: &str = "/run";

/// One change of the view.
enum Change {
    /// Put this here.
    Put(OwnedFd),
    ReadOnly,
    Pin,
    /// Cover it; names below it that are to be seen are made in the cover.
    Hide,
}

/// Builds the view. The process is in its own namespaces, and the first of its process namespace.
pub(crate) fn build(policy: &Policy) -> Result<(), BoxError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(BoxError::step("mounts of its own"))?;
    let changes = changes(policy)?;
    let devices = DEVICES
        .into_iter()
        .filter_map(|name| {
            Some((name, kernel::copy(kernel::hold(&Path::new("/dev").join(name)).ok()?).ok()?))
        })
        .collect::<Vec<_>>();
    let root = kernel::hold(Path::new("/")).map_err(BoxError::step("root folder"))?;
    kernel::set(root.as_fd(), Walls::ReadOnly, true)
        .map_err(BoxError::step("read-only view of the machine"))?;
    let covers = make_devices(&devices)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("proc", "/proc", "proc", flags, None)
        .map_err(BoxError::step("process table of its own (/proc)"))?;
    for (path, change) in changes {
        apply(&path, change, policy, &covers)?;
    }
    std::env::set_current_dir(&policy.cwd.0).map_err(|source| BoxError::Path {
        path: policy.cwd.0.clone(),
        done: "worked in",
        source,
    })
}

/// All changes with their places, a folder before what is in it. What is writable is held before anything is changed.
fn changes(policy: &Policy) -> Result<Vec<(PathBuf, Change)>, BoxError> {
    let mut changes = Vec::new();
    for bind in &policy.writable {
        let held = kernel::hold(&bind.from.0).and_then(kernel::copy);
        let held = held.map_err(|errno| failed(&bind.from.0, "made writable", errno))?;
        kernel::set(held.as_fd(), Walls::Plain, true)
            .map_err(|errno| failed(&bind.from.0, "made writable", errno))?;
        changes.push((bind.at.0.clone(), Change::Put(held)));
    }
    for overlay in &policy.overlays {
        // Where the kernel or the file system cannot do it, the folder stays as read-only as all else.
        if let Ok(mount) = overlay_of(overlay) {
            changes.push((overlay.at.0.clone(), Change::Put(mount)));
        }
    }
    changes.extend(policy.pinned.iter().map(|it| (it.0.clone(), Change::Pin)));
    changes.extend(policy.read_only.iter().map(|it| (it.0.clone(), Change::ReadOnly)));
    changes.extend(policy.hidden.iter().map(|it| (it.0.clone(), Change::Hide)));
    changes.push((SERVICES.into(), Change::Hide));
    // A stable sort: of two changes of one place the later list wins.
    changes.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(changes)
}

fn apply(path: &Path, change: Change, policy: &Policy, covers: &Covers) -> Result<(), BoxError> {
    let done = match change {
        Change::Put(_) => "made writable",
        Change::ReadOnly | Change::Pin => "protected",
        Change::Hide => "covered",
    };
    let failed = |errno| failed(path, done, errno);
    let there = kernel::hold(path);
    match change {
        Change::Put(mount) => {
            let onto = match there {
                Err(Errno::NOENT) => make_place(path, &mount).map_err(failed)?,
                held => held.map_err(failed)?,
            };
            kernel::put(mount, onto).map_err(failed)
        }
        Change::ReadOnly | Change::Pin => {
            let held = match there {
                Err(Errno::NOENT) => return Ok(()),
                held => held.map_err(failed)?,
            };
            let mount = kernel::copy(&held).map_err(failed)?;
            if matches!(change, Change::ReadOnly) {
                kernel::set(mount.as_fd(), Walls::ReadOnly, true).map_err(failed)?;
            }
            kernel::put(mount, held).map_err(failed)
        }
        Change::Hide => match there {
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            held => hide(path, &held.map_err(failed)?, policy, covers).map_err(failed),
        },
    }
}

/// Puts something empty over a place.
fn hide(path: &Path, held: &OwnedFd, policy: &Policy, covers: &Covers) -> rustix::io::Result<()> {
    let is_folder = FileType::from_raw_mode(fstat(held)?.st_mode).is_dir();
    let seen_below = policy.writable.iter().any(|it| it.at.0.starts_with(path) && it.at.0 != path);
    let mount = if is_folder && seen_below {
        // Names that lead to what is to be seen are made in it.
        tmpfs(NAMES_BYTES, "0755")?
    } else {
        kernel::copy(if is_folder { &covers.folder } else { &covers.file })?
    };
    kernel::put(mount, held)
}

/// A folder or an empty file for a mount to be put over, in a place that is ours: a real one is read-only.
fn make_place(path: &Path, mount: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let parent = path.parent().ok_or(Errno::NOENT)?;
    let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    std::fs::create_dir_all(parent).map_err(io)?;
    if FileType::from_raw_mode(fstat(mount)?.st_mode).is_dir() {
        std::fs::create_dir(path).map_err(io)?;
    } else {
        std::fs::File::create_new(path).map_err(io)?;
    }
    kernel::hold(path)
}

/// What is put over hidden places: an empty folder and an empty file, nobody's to change.
struct Covers {
    folder: OwnedFd,
    file: OwnedFd,
}

/// `/dev` with the few devices that are harmless, terminals and shared memory of its own.
fn make_devices(devices: &[(&str, OwnedFd)]) -> Result<Covers, BoxError> {
    let step = || BoxError::step("devices of its own (/dev)");
    put_at(&tmpfs(NAMES_BYTES, "0755").map_err(step())?, "/dev").map_err(step())?;
    let make = || -> rustix::io::Result<Covers> {
        let dev = openat(CWD, "/dev", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for (name, device) in devices {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            drop(openat(&dev, *name, flags, Mode::RUSR)?);
            put_at(device, Path::new("/dev").join(name))?;
        }
        for (name, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ] {
            symlinkat(target, &dev, name)?;
        }
        for name in ["pts", "shm", ".hidden"] {
            mkdirat(&dev, name, Mode::from_raw_mode(0o755))?;
        }
        drop(openat(&dev, ".hidden-file", OFlags::CREATE | OFlags::CLOEXEC, Mode::RUSR)?);
        let terminals = c"newinstance,ptmxmode=0666,mode=620";
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("devpts", "/dev/pts", "devpts", flags, Some(terminals))?;
        put_at(&tmpfs(SHARED_BYTES, "1777")?, "/dev/shm")?;
        let covers = Covers {
            folder: kernel::hold(Path::new("/dev/.hidden"))?,
            file: kernel::hold(Path::new("/dev/.hidden-file"))?,
        };
        let held = kernel::hold(Path::new("/dev"))?;
        kernel::set(held.as_fd(), Walls::ReadOnly, false)?;
        Ok(covers)
    };
    make().map_err(step())
}

fn put_at(mount: &OwnedFd, path: impl AsRef<Path>) -> rustix::io::Result<()> {
    kernel::put(mount, kernel::hold(path.as_ref())?)
}

fn tmpfs(bytes: &str, mode: &str) -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "size", bytes)?;
    fsconfig_set_string(context.as_fd(), "mode", mode)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn overlay_of(overlay: &Overlay) -> rustix::io::Result<OwnedFd> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, path) in
        [("lowerdir", &overlay.at.0), ("upperdir", &overlay.upper.0), ("workdir", &overlay.work.0)]
    {
        fsconfig_set_string(context.as_fd(), key, path)?;
    }
    rustix::mount::fsconfig_set_flag(context.as_fd(), "userxattr")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn failed(path: &Path, done: &'static str, errno: Errno) -> BoxError {
    BoxError::Path { path: path.to_owned(), done, source: errno.into() }
}

/// Writes a setting of this process namespace, over a table that goes with its descriptor.
pub(crate) fn write_setting(name: &str, value: &str) -> rustix::io::Result<()> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let table = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let path = Path::new("sys").join(name);
    let file = openat(&table, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, value.as_bytes()).map(drop)
}
