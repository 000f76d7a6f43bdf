//! One queue for all that can happen to a live view: the daemon, the keyboard, Ctrl-C.

use crate::client::{Client, Forwarded};
use proto::error::ErrorBody;
use proto::event::Numbered;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Inputs that may wait. When the queue is full its reader waits too, and the daemon then reports
/// what it left out.
const QUEUE_LEN_MAX: usize = 1024;

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
    Line(String),
    EndOfLines,
    Interrupt,
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
    pub(crate) fn new(takes_input: bool) -> Self {
        let (sender, queue) = sync_channel(QUEUE_LEN_MAX);
        let unheard = Arc::new(AtomicUsize::new(0));
        let (interrupts, count) = (sender.clone(), Arc::clone(&unheard));
        crate::signals::watch_interrupts(move || {
            count.fetch_add(1, Ordering::Relaxed) < UNHEARD_MAX
                && !matches!(
                    interrupts.try_send(Input::Interrupt),
                    Err(TrySendError::Disconnected(_))
                )
        });
        if takes_input {
            let lines = sender.clone();
            std::thread::spawn(move || read_lines(&lines));
        }
        Self { queue, sender, connection: 0, unheard }
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

fn read_lines(lines: &SyncSender<Input>) {
    let mut stdin = std::io::stdin().lock();
    let mut buf = Vec::new();
    loop {
        buf.clear();
        let Ok(1..) = stdin.read_until(b'\n', &mut buf) else {
            let _nobody_listens = lines.send(Input::EndOfLines);
            return;
        };
        let text = String::from_utf8_lossy(&buf);
        let input = Input::Line(text.trim_end_matches(['\n', '\r']).to_owned());
        if lines.send(input).is_err() {
            return;
        }
    }
}
