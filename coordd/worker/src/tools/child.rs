//! What every program is given that an agent starts: no descriptor and no signal setting of ours,
//! and what it starts stays below it.
//!
//! It must do nothing between fork and exec that takes a lock or memory.

use std::io;
use std::os::fd::BorrowedFd;

use tokio::process::Command;

/// Makes a command start so.
pub(crate) fn prepare(command: &mut Command) {
    keep_descriptors();
    // SAFETY: `prepare_child` only makes system calls that are async-signal-safe: it takes no lock
    // and no memory.
    unsafe {
        command.pre_exec(prepare_child);
    }
}

/// rel-35: descriptors that this process was started with are not for its tools. Ours close by
/// themselves.
fn keep_descriptors() {
    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2) {
        // SAFETY: the number is only used for these two calls. Were it closed meanwhile, they would
        // fail; were it opened anew, the flag would be set already, as on all that Rust opens.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            let _: Result<_, _> = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}

/// Runs in the child, between fork and exec.
fn prepare_child() -> io::Result<()> {
    use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
    // rel-36: an ignored or blocked signal of ours would be inherited, and then TERM or a closed
    // pipe would not end it.
    for number in Signal::iterator() {
        // SAFETY: the default action runs no code of ours. For KILL and STOP it fails, as it
        // should.
        let _: Result<_, _> = unsafe { signal(number, SigHandler::SigDfl) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    // What loses its parent while the shell runs stays below it, where it is found at the end.
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}
