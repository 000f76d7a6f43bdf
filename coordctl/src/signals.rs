//! Ctrl-C as something to wait for, without a signal handler: SIGINT is blocked, and a thread takes it with `sigwait`.
//!
//! A blocked signal stays blocked in programs that are started, so those are started through [`unblocked`].

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

fn interrupt() -> SigSet {
    SigSet::from(Signal::SIGINT)
}

/// From now on Ctrl-C calls `on_interrupt` in a thread of its own. When that returns false, because nobody
/// listens any more, it ends this program. To be called before other threads are started.
pub(crate) fn watch_interrupts(mut on_interrupt: impl FnMut() -> bool + Send + 'static) {
    if interrupt().thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        while interrupt().wait().is_ok() {
            if !on_interrupt() {
                let own = rustix::process::getpid();
                let _ends_us = rustix::process::kill_process(own, rustix::process::Signal::TERM);
            }
        }
    });
}

/// Runs `start` with SIGINT as a program expects it, for starting one.
pub(crate) fn unblocked<T>(start: impl FnOnce() -> T) -> T {
    let before = interrupt().thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let started = start();
    if let Ok(before) = before {
        let _restored = before.thread_set_mask();
    }
    started
}
