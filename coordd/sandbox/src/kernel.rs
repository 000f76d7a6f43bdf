//! System calls that no library at hand has, or that need their errors named.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::error::BoxError;

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;

/// What a mount is to be from now on. Nothing is ever taken off: the kernel has locked what came from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walls {
    /// Nothing can be changed.
    ReadOnly,
    /// No privilege comes out of a file.
    Plain,
}

/// The argument of `mount_setattr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// A file or folder as it is now, held. No part of the path may be a link: it was resolved by whoever named it.
pub(crate) fn hold(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// A mount of its own of what is held, with all that is mounted below it.
pub(crate) fn copy(held: impl AsFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(held, "", flags)
}

/// Puts a mount over what is held.
pub(crate) fn put(mount: impl AsFd, onto: impl AsFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", onto, "", flags)
}

/// Changes a mount, or it and all below.
pub(crate) fn set(mount: BorrowedFd<'_>, walls: Walls, all_below: bool) -> rustix::io::Result<()> {
    let set = match walls {
        Walls::ReadOnly => MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        Walls::Plain => MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
    };
    let attributes = MountAttributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    let mut flags = libc::AT_EMPTY_PATH;
    if all_below {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: the path is an empty C string, and the structure is of the size that is given; both live during the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Makes the loopback interface of the network namespace usable.
pub(crate) fn bring_loopback_up() -> rustix::io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all zeroes is a valid value of this structure of plain numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: the request has a name that ends with a zero and the member that this call reads.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The version of Landlock, or why there is none.
pub(crate) fn landlock_version() -> rustix::io::Result<i64> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no structure.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    if version > 0 { Ok(version) } else { Err(last_errno()) }
}

/// Gives up all privileges of the user namespace, for this process and what it runs.
pub(crate) fn drop_privileges() -> Result<(), BoxError> {
    use rustix::thread::{
        CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
        remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
        set_no_new_privs,
    };
    let step = BoxError::step("giving up of privileges");
    let all = || {
        // An ordinary user has none outside of a namespace.
        if capabilities(None)?.permitted.is_empty() {
            return set_no_new_privs(true);
        }
        for capability in CapabilitySet::all().iter() {
            match remove_capability_from_bounding_set(capability) {
                // A kernel that does not know it does not give it.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        set_capabilities_secure_bits(bits)?;
        let none = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets { effective: none, permitted: none, inheritable: none },
        )?;
        set_no_new_privs(true)
    };
    all().map_err(step)
}

/// Runs a program in place of this one. It returns only when that fails.
pub(crate) fn exec(program: &std::ffi::OsStr, arguments: &[std::ffi::OsString]) -> BoxError {
    let failed = |source| BoxError::Exec { program: program.into(), source };
    let c_string = |it: &std::ffi::OsStr| CString::new(it.as_bytes());
    let all: Result<Vec<CString>, _> = std::iter::once(program)
        .chain(arguments.iter().map(std::ffi::OsString::as_os_str))
        .map(c_string)
        .collect();
    match (c_string(program), all) {
        (Ok(program), Ok(all)) => match nix::unistd::execvp(&program, &all) {
            Ok(never) => match never {},
            Err(errno) => failed(errno.into()),
        },
        (Err(error), _) | (_, Err(error)) => failed(error.into()),
    }
}

fn last_errno() -> rustix::io::Errno {
    let error = std::io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
}
