//! What every program is given that an agent starts: no descriptor and no signal setting of ours,
//! and what it starts stays below it.
//!
//! It must do nothing between fork and exec that takes a lock or memory.

use std::io;

use tokio::process::Command;

/// Makes a command start so.
pub(crate) fn prepare(command: &mut Command) {
    // rel-35: descriptors that this process was started with are not for its tools. Ours close by themselves.
    coordd_common::descriptors::keep_from_children();
    // SAFETY: `prepare_child` only makes system calls that are async-signal-safe: it takes no lock
    // and no memory.
    unsafe {
        command.pre_exec(prepare_child);
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
