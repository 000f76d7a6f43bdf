//! One queue for all that can happen while a terminal is shown: coordd, the keyboard, signals.

use std::io::Read as _;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use proto::error::ErrorBody;
use proto::event::Event;

use crate::client::{Client, Forwarded};
use crate::error::{Exit, Failure};

/// Inputs that may wait. A reader that is further ahead waits too: coordd then leaves pictures out,
/// and that is noticed.
const QUEUE_LEN_MAX: usize = 64;
/// Bytes read from the keyboard at once: more comes when something is pasted.
const READ_LEN: usize = 64 * 1024;

/// What can happen.
#[derive(Debug)]
pub(super) enum Input {
    Event {
        of: u64,
        event: Box<Event>,
    },
    /// The connection ended, after coordd had said why or without a word.
    Lost {
        of: u64,
        why: Option<ErrorBody>,
    },
    Typed(Vec<u8>),
    Hangup,
    Signal(Signal),
}

/// The queue, and which connection feeds it.
#[derive(Debug)]
pub(super) struct Inputs {
    queue: Receiver<Input>,
    sender: SyncSender<Input>,
    connection: u64,
}

impl Inputs {
    pub(super) fn new() -> Result<Self, Failure> {
        let (sender, queue) = sync_channel(QUEUE_LEN_MAX);
        let signals = sender.clone();
        let watched = crate::signals::watch_terminal(move |signal| {
            // Fails only when nobody listens any more.
            let _told = signals.send(Input::Signal(signal));
        });
        if !watched {
            return Err(Failure::new(Exit::CannotAttach, "cannot watch for signals"));
        }
        let keys = sender.clone();
        std::thread::spawn(move || read_keys(&keys));
        Ok(Self { queue, sender, connection: 0 })
    }

    /// From now on, events come from this connection.
    pub(super) fn follow(&mut self, client: Client) {
        self.connection += 1;
        let (of, sender) = (self.connection, self.sender.clone());
        client.forward(move |came| {
            let input = match came {
                Forwarded::Event(event) => Input::Event { of, event: Box::new(event.event) },
                Forwarded::Lost(why) => Input::Lost { of, why },
            };
            sender.send(input).is_ok()
        });
    }

    pub(super) fn is_current(&self, connection: u64) -> bool {
        connection == self.connection
    }

    pub(super) fn next(&self, wait: Duration) -> Option<Input> {
        self.queue.recv_timeout(wait).ok()
    }
}

fn read_keys(keys: &SyncSender<Input>) {
    let mut stdin = std::io::stdin().lock();
    let mut buffer = vec![0; READ_LEN];
    loop {
        let input = match stdin.read(&mut buffer) {
            Ok(0) => Input::Hangup,
            Ok(len) => Input::Typed(buffer.get(..len).unwrap_or_default().to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => Input::Hangup,
        };
        let is_last = matches!(input, Input::Hangup);
        if keys.send(input).is_err() || is_last {
            return;
        }
    }
}
