//! One queue for all that can happen to a live view: the daemon, the keyboard, Ctrl-C.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use proto::error::ErrorBody;
use proto::event::Numbered;

use crate::client::{Client, Forwarded};
use crate::input::hold;
use crate::question::desk::Typed;
use crate::signals::OfLines;

/// Inputs that may wait. When the queue is full its reader waits too, and the daemon then reports
/// what it left out.
const QUEUE_LEN_MAX: usize = 1024;

/// Bytes read from the keyboard at once: more comes when something is pasted.
const READ_LEN: usize = 64 * 1024;

/// Between two lines of a paste, where a terminal collects lines.
const PASTE_GAP_MS: u8 = 5;

/// When Ctrl-C is pressed more often than this and not handled, as with a stuck daemon, the program
/// ends.
const UNHEARD_MAX: usize = 2;

/// What can happen.
#[derive(Debug)]
pub(crate) enum Input {
    Event {
        of: u64,
        event: Box<Numbered>,
    },
    /// The connection ended, after the daemon had said why or without a word.
    Lost {
        of: u64,
        why: Option<ErrorBody>,
    },
    /// A line of what is no terminal, or of one that collects lines itself.
    Line(Typed),
    /// Keys of the terminal.
    Keys(Vec<u8>),
    Ended,
    Interrupt,
    /// The terminal is to be drawn anew.
    Redraw,
}

/// How the keyboard is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyboard {
    /// Not at all.
    Ignored,
    Lines,
    Keys,
}

/// The queue, and which connection feeds it.
#[derive(Debug)]
pub(crate) struct Feed {
    queue: Receiver<Input>,
    sender: SyncSender<Input>,
    connection: u64,
    /// How often Ctrl-C came since the queue was looked at.
    unheard: Arc<AtomicUsize>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        let (sender, queue) = sync_channel(QUEUE_LEN_MAX);
        let unheard = Arc::new(AtomicUsize::new(0));
        let (signals, count) = (sender.clone(), Arc::clone(&unheard));
        let tell = move |signal| match signal {
            OfLines::Interrupt => {
                count.fetch_add(1, Ordering::Relaxed) < UNHEARD_MAX
                    && !matches!(
                        signals.try_send(Input::Interrupt),
                        Err(TrySendError::Disconnected(_))
                    )
            }
            OfLines::Redraw => signals.try_send(Input::Redraw).is_ok(),
        };
        crate::signals::watch_lines(tell, hold::give_back, hold::again);
        Self { queue, sender, connection: 0, unheard }
    }

    /// From now on, what is typed comes too. Once for each program.
    pub(crate) fn read(&self, keyboard: Keyboard) {
        let inputs = self.sender.clone();
        match keyboard {
            Keyboard::Ignored => {}
            Keyboard::Lines => drop(std::thread::spawn(move || read_lines(&inputs))),
            Keyboard::Keys => drop(std::thread::spawn(move || read_keys(&inputs))),
        }
    }

    /// From now on, events come from this connection.
    pub(crate) fn follow(&mut self, client: Client) {
        self.connection += 1;
        let (of, sender) = (self.connection, self.sender.clone());
        client.forward(move |came| {
            let input = match came {
                Forwarded::Event(event) => Input::Event { of, event },
                Forwarded::Lost(why) => Input::Lost { of, why },
            };
            sender.send(input).is_ok()
        });
    }

    pub(crate) fn is_current(&self, connection: u64) -> bool {
        connection == self.connection
    }

    pub(crate) fn receive(&self, wait: Duration) -> Option<Input> {
        self.unheard.store(0, Ordering::Relaxed);
        self.queue.recv_timeout(wait).ok()
    }
}

fn read_keys(keys: &SyncSender<Input>) {
    let mut stdin = std::io::stdin().lock();
    let mut buffer = vec![0; READ_LEN];
    loop {
        let input = match stdin.read(&mut buffer) {
            Ok(len @ 1..) => Input::Keys(buffer.get(..len).unwrap_or_default().to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => Input::Ended,
        };
        let is_last = matches!(input, Input::Ended);
        if keys.send(input).is_err() || is_last {
            return;
        }
    }
}

/// Lines of a pipe or file, one by one. Of a terminal that collects lines itself, those that are there at once are one paste.
fn read_lines(lines: &SyncSender<Input>) {
    let mut stdin = std::io::stdin().lock();
    let is_terminal = std::io::stdin().is_terminal();
    loop {
        let mut text = String::new();
        let mut count = 0;
        loop {
            let mut buf = Vec::new();
            let Ok(1..) = stdin.read_until(b'\n', &mut buf) else { break };
            text.push_str(&String::from_utf8_lossy(&buf));
            count += 1;
            if !is_terminal || text.len() > proto::message::BODY_LEN_MAX || !more_is_there() {
                break;
            }
        }
        if count == 0 {
            let _nobody_listens = lines.send(Input::Ended);
            return;
        }
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        if lines.send(Input::Line(Typed { text, is_paste: count > 1, about: None })).is_err() {
            return;
        }
    }
}

/// Whether the next line has been typed already, which nobody does by hand.
fn more_is_there() -> bool {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::from(PASTE_GAP_MS)), Ok(1..))
}
