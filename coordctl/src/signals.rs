//! Ctrl-C as something to wait for, without a signal handler: SIGINT is blocked, and a thread takes
//! it with `sigwait`.
//!
//! A blocked signal stays blocked in programs that are started, so those are started through
//! [`unblocked`].

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

fn interrupt() -> SigSet {
    SigSet::from(Signal::SIGINT)
}

/// From now on Ctrl-C calls `on_interrupt` in a thread of its own. When that returns false, because
/// nobody listens any more, it ends this program. To be called before other threads are started.
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

/// What is to be known of while a terminal is in our hands: its size, its return to us, and that we
/// are to end.
fn of_terminal() -> SigSet {
    let signals = [
        Signal::SIGWINCH,
        Signal::SIGCONT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
    ];
    signals.into_iter().collect()
}

/// From now on these signals are told, and do nothing by themselves. To be called before other
/// threads are started.
pub(crate) fn watch_terminal(tell: impl Fn(Signal) + Send + 'static) -> bool {
    if of_terminal().thread_block().is_err() {
        return false;
    }
    std::thread::spawn(move || {
        while let Ok(signal) = of_terminal().wait() {
            tell(signal);
        }
    });
    true
}

/// Runs `start` with signals as a program expects them, for starting one.
pub(crate) fn unblocked<T>(start: impl FnOnce() -> T) -> T {
    let before = of_terminal().thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let started = start();
    if let Ok(before) = before {
        let _restored = before.thread_set_mask();
    }
    started
}
