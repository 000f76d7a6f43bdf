//! What coordd told the agent to do and the agent has not done yet.
//!
//! Mail is a queue, each message once. Stop, interrupt and exit are states, so that they never wait behind mail.

use std::cell::RefCell;
use std::collections::VecDeque;

use proto::agent::Order;
use proto::entry::Origin;
use tokio::sync::{Notify, watch};

/// Most messages that wait for the agent. coordd keeps at most 1,000 for one receiver, and each is here once.
const MAIL_MAX: usize = 1_200;

/// Most messages that enter the conversation together, and most bytes of them: two of the longest. The rest follows at the
/// next tool round.
const TAKEN_MAX: usize = 100;
const TAKEN_LEN_MAX: usize = 512 * 1024;

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
    /// The run.
    pub(crate) interrupt: bool,
    /// The process.
    pub(crate) exit: bool,
}

impl Control {
    /// Whether the current run is to end now.
    pub(crate) fn ends_run(&self) -> bool {
        self.stop.is_some() || self.interrupt || self.exit
    }
}

/// Orders that wait.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    mail: RefCell<VecDeque<Delivered>>,
    mail_changed: Notify,
    control: watch::Sender<Control>,
}

impl Orders {
    /// Takes an order in. False when there is no room: the connection is then given up, and the message comes again.
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
            Order::Stop { reason } => self.stop(reason),
            Order::Interrupt {} => self.control.send_modify(|it| it.interrupt = true),
            Order::Exit {} => self.control.send_modify(|it| it.exit = true),
        }
        true
    }

    /// Ends the run and the process.
    pub(crate) fn stop(&self, reason: String) {
        self.control.send_modify(|it| {
            it.stop.get_or_insert(reason);
        });
    }

    /// What waits, in its order, as much as fits into one turn.
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
        self.wait(|it| it.stop.is_some() || it.exit).await;
    }

    async fn wait(&self, condition: impl FnMut(&Control) -> bool) {
        // The sender is ours, so the channel stays open.
        drop(self.control.subscribe().wait_for(condition).await);
    }
}
