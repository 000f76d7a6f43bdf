//! Ctrl-C and the like as something to wait for, without a signal handler: they are blocked, and a thread takes them with `sigwait`.
//!
//! A blocked signal stays blocked in programs that are started, so those are started through
//! [`unblocked`].

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// What is to be known of while lines are typed into a terminal.
fn of_lines() -> SigSet {
    let signals = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
        Signal::SIGCONT,
        Signal::SIGWINCH,
    ];
    signals.into_iter().collect()
}

/// What a signal means to a view of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfLines {
    /// Ctrl-C.
    Interrupt,
    /// The terminal has another size, or is ours again after we were stopped.
    Redraw,
}

/// From now on Ctrl-C and changes of the terminal call `tell` in a thread of its own. When that returns false, because nobody
/// listens any more, it ends this program. Whatever ends or stops it, `give_back` is called first, and `again` when it goes on. To be
/// called before other threads are started.
pub(crate) fn watch_lines(
    mut tell: impl FnMut(OfLines) -> bool + Send + 'static,
    give_back: fn(),
    again: fn(),
) {
    if of_lines().thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        while let Ok(signal) = of_lines().wait() {
            let mut goes_on = true;
            if signal == Signal::SIGINT {
                goes_on = tell(OfLines::Interrupt);
            } else if signal == Signal::SIGWINCH {
                tell(OfLines::Redraw);
            } else if signal == Signal::SIGCONT {
                again();
                tell(OfLines::Redraw);
            } else if signal == Signal::SIGTSTP {
                give_back();
                let _stops_us = send_self(rustix::process::Signal::STOP);
            } else {
                give_back();
                die_of(signal);
            }
            if !goes_on {
                give_back();
                die_of(Signal::SIGTERM);
            }
        }
    });
}

/// Ends this program as the signal does by itself.
fn die_of(signal: Signal) {
    let _unblocked = SigSet::from(signal).thread_unblock();
    let number = if signal == Signal::SIGHUP {
        rustix::process::Signal::HUP
    } else if signal == Signal::SIGQUIT {
        rustix::process::Signal::QUIT
    } else {
        rustix::process::Signal::TERM
    };
    let _ends_us = send_self(number);
}

fn send_self(signal: rustix::process::Signal) -> rustix::io::Result<()> {
    rustix::process::kill_process(rustix::process::getpid(), signal)
}

/// What is to be known of while a terminal is in our hands: its size, its return to us, and that we are to end.
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
    let all: SigSet = of_terminal().into_iter().chain(of_lines().iter()).collect();
    let before = all.thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let started = start();
    if let Ok(before) = before {
        let _restored = before.thread_set_mask();
    }
    started
}
