//! Orders of coordd that the agent has not carried out yet.
//!
//! Mail is a queue, each message once. Stop and interrupt are states, so that they never wait
//! behind mail.

use std::cell::RefCell;
use std::collections::VecDeque;

use proto::agent::Order;
use proto::entry::Origin;
use proto::screen::Size;
use tokio::sync::{Notify, watch};

/// Most messages that wait for the agent. coordd keeps at most 1,000 for one receiver and hands all
/// of them over on a new connection. When those turn out to be acknowledged already, as many others
/// may follow before the agent looks.
const MAIL_MAX: usize = 2_100;

/// Most rules that wait until the agent looks; a session learns at most 200. A rule more is asked about.
const LEARNED_MAX: usize = 256;

/// Most messages that enter the conversation together, and most bytes of them: two of the longest.
/// The rest follows at the next tool round.
const TAKEN_MAX: usize = 100;
const TAKEN_LEN_MAX: usize = 512 * 1024;

/// Bytes of what is typed and waits for the terminal: it is taken at once, unless the process
/// hangs.
const TERMINAL_LEN_MAX: usize = 4 * 1024 * 1024;

/// A message that was handed over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delivered {
    pub(crate) message: String,
    pub(crate) origin: Origin,
    pub(crate) text: String,
    /// Set on a request to finish and end.
    pub(crate) shutdown: bool,
}

/// What is to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// The run and the process; the reason is for the transcript.
    pub(crate) stop: Option<String>,
    /// With a stop: the run stays open.
    pub(crate) keep_run: bool,
    /// The run.
    pub(crate) interrupt: bool,
}

impl Control {
    /// Whether the current run is to end now.
    pub(crate) fn ends_run(&self) -> bool {
        self.stop.is_some() || self.interrupt
    }
}

/// Something for a terminal, in the order in which it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TerminalOrder {
    /// Somebody looks, or nobody any more. Said again, a whole picture is wanted.
    Shown(bool),
    /// Somebody types, or has another size.
    Input { size: Option<Size>, bytes: Vec<u8> },
}

impl TerminalOrder {
    /// What it counts for, its own weight with it.
    fn len(&self) -> usize {
        match self {
            Self::Shown(_) => 64,
            Self::Input { bytes, .. } => 64 + bytes.len(),
        }
    }
}

/// Orders that wait.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    mail: RefCell<VecDeque<Delivered>>,
    mail_changed: Notify,
    control: watch::Sender<Control>,
    learned: RefCell<Vec<String>>,
    terminal: RefCell<VecDeque<TerminalOrder>>,
    terminal_changed: Notify,
}

impl Orders {
    /// Takes an order in. False when there is no room: the connection is then given up, and the
    /// message comes again.
    pub(super) fn push(&self, order: Order) -> bool {
        match order {
            Order::Deliver { message, origin, text, shutdown } => {
                let mut mail = self.mail.borrow_mut();
                if mail.iter().any(|it| it.message == message) {
                    return true;
                }
                if mail.len() >= MAIL_MAX {
                    return false;
                }
                mail.push_back(Delivered { message, origin, text, shutdown });
                self.mail_changed.notify_one();
            }
            Order::Stop { reason, keep_run } => {
                self.control.send_modify(|it| it.keep_run |= keep_run && it.stop.is_none());
                self.stop(reason);
            }
            Order::Learned { rule } => {
                let mut learned = self.learned.borrow_mut();
                if learned.len() < LEARNED_MAX && !learned.contains(&rule) {
                    learned.push(rule);
                }
            }
            Order::Interrupt {} => self.control.send_modify(|it| it.interrupt = true),
            Order::Screen { shown } => return self.push_terminal(TerminalOrder::Shown(shown)),
            Order::ScreenInput { size, bytes } => {
                return self.push_terminal(TerminalOrder::Input { size, bytes: bytes.0 });
            }
        }
        true
    }

    /// The rules that the session has learned since this was last asked.
    pub(crate) fn take_learned(&self) -> Vec<String> {
        self.learned.take()
    }

    /// False when there is no room: more input has to wait for the next connection.
    fn push_terminal(&self, order: TerminalOrder) -> bool {
        let mut queue = self.terminal.borrow_mut();
        let waiting: usize = queue.iter().map(TerminalOrder::len).sum();
        if waiting + order.len() > TERMINAL_LEN_MAX {
            return false;
        }
        queue.push_back(order);
        self.terminal_changed.notify_one();
        true
    }

    /// The next order for a terminal. One waits at a time, and nothing is lost when the waiting is
    /// given up.
    pub(crate) async fn terminal(&self) -> TerminalOrder {
        loop {
            let next = self.terminal.borrow_mut().pop_front();
            if let Some(order) = next {
                return order;
            }
            self.terminal_changed.notified().await;
        }
    }

    /// A new connection: all unacknowledged mail comes again on it. Without this, the mail of the
    /// last connection would fill the queue, and each new connection would be dropped at once.
    pub(super) fn begin_again(&self) {
        self.mail.borrow_mut().clear();
        // Viewers are told on the new connection.
        self.terminal.borrow_mut().push_back(TerminalOrder::Shown(false));
        self.terminal_changed.notify_one();
    }

    /// Ends the run and the process.
    pub(crate) fn stop(&self, reason: String) {
        self.control.send_modify(|it| {
            it.stop.get_or_insert(reason);
        });
    }

    /// The waiting mail, in order, as much as fits into one turn.
    pub(crate) fn take_mail(&self) -> Vec<Delivered> {
        let mut mail = self.mail.borrow_mut();
        let mut len = 0;
        let fits = mail.iter().take(TAKEN_MAX).take_while(|it| {
            let first = len == 0;
            len += it.text.len();
            first || len <= TAKEN_LEN_MAX
        });
        let count = fits.count();
        mail.drain(..count).collect()
    }

    /// Puts taken mail back that did not enter the conversation.
    pub(crate) fn put_back(&self, taken: Vec<Delivered>) {
        let mut mail = self.mail.borrow_mut();
        for it in taken.into_iter().rev() {
            // It may have come again meanwhile.
            if mail.iter().all(|waiting| waiting.message != it.message) {
                mail.push_front(it);
            }
        }
        if !mail.is_empty() {
            self.mail_changed.notify_one();
        }
    }

    pub(crate) fn has_mail(&self) -> bool {
        !self.mail.borrow().is_empty()
    }

    /// Waits until there is mail. One waits at a time.
    pub(crate) async fn mail(&self) {
        while !self.has_mail() {
            self.mail_changed.notified().await;
        }
    }

    pub(crate) fn control(&self) -> Control {
        self.control.borrow().clone()
    }

    /// An interrupt that came when no run was open means nothing.
    pub(crate) fn forget_interrupt(&self) {
        self.control.send_modify(|it| it.interrupt = false);
    }

    /// Waits until the current run is to end.
    pub(crate) async fn run_ends(&self) {
        self.wait(Control::ends_run).await;
    }

    /// Waits until the process is to end.
    pub(crate) async fn process_ends(&self) {
        self.wait(|it| it.stop.is_some()).await;
    }

    async fn wait(&self, condition: impl FnMut(&Control) -> bool) {
        // The sender is ours, so the channel stays open.
        drop(self.control.subscribe().wait_for(condition).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliver(number: usize) -> Order {
        let (origin, text) = (Origin::User {}, "x".to_owned());
        Order::Deliver { message: format!("m{number}"), origin, text, shutdown: false }
    }

    /// rel-17: an agent that is busy for long, while connections come and go, always has room for a
    /// full mailbox and the next one.
    #[test]
    fn m4_a_mailbox_that_comes_again_on_each_connection_has_room() {
        let orders = Orders::default();
        for connection in 0..5 {
            orders.begin_again();
            for number in 0..2_000 {
                assert!(orders.push(deliver(connection * 1_000 + number)), "{connection} {number}");
            }
        }
        assert_eq!(orders.take_mail().first().unwrap().message, "m4000");
    }
}
