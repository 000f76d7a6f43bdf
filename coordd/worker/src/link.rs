//! The connection to coordd, and what survives its loss.
//!
//! ```text
//!   call ----> open calls ---> connection ---> coordd        sent again after each loss, until answered
//!   report --> bounded queue ---^   |                        dropped when full or disconnected
//!   orders <------------------------+                        mail is queued by id, stop and exit are states
//! ```
//!
//! An agent outlives its daemon: it reconnects for as long as it takes, unless a limit is set. The
//! link knows nothing of conversations; it must never wait for the agent, and the agent waits for
//! it in calls alone.

mod backoff;
mod connection;
mod orders;
mod reports;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use proto::agent::Report;
use proto::error::{ErrorBody, ErrorCode};
use proto::hello::Credentials;
use proto::request::Request;
use proto::response::Response;
use proto::{Call, Outcome, Reply};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep};

use self::backoff::Backoff;
use self::connection::Ended;
pub(crate) use self::orders::{Delivered, Orders, TerminalOrder};
use self::reports::Reports;

/// Most calls that wait for an answer: every tool call of one message, its approvals, and a mailbox
/// of acknowledgements.
const OPEN_CALLS_MAX: usize = 2048;

/// A connection that lasted this long resets the back-off.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// Where coordd is, and who is calling.
#[derive(Debug)]
pub(crate) struct LinkConfig {
    pub(crate) socket: PathBuf,
    /// None for the user, in whose name a program joins.
    pub(crate) credentials: Option<Credentials>,
    /// How long to go on without a daemon; without bound when missing (D-7).
    pub(crate) orphan_limit: Option<Duration>,
    /// Without this folder the session is gone, and the agent with it. A program that joined has
    /// none.
    pub(crate) state_dir: Option<PathBuf>,
}

/// Why a call has no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// coordd refused.
    #[error("{}", denial_text(.0))]
    Denied(ErrorBody),
    /// There will be no answer any more.
    #[error("coordd no longer knows this agent")]
    Gone,
}

/// Message and hint as one text.
pub(crate) fn denial_text(denial: &ErrorBody) -> String {
    if denial.hint.is_empty() {
        denial.message.clone()
    } else {
        format!("{}. {}", denial.message, denial.hint)
    }
}

/// How the connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Not connected at the moment.
    Away,
    /// coordd has welcomed this agent.
    Welcomed,
    /// The end: refused for good, or alone for too long.
    Gone(String),
}

/// The agent's end of the connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Rc<Shared>,
}

struct Shared {
    config: LinkConfig,
    calls: RefCell<Calls>,
    reports: RefCell<Reports>,
    orders: Rc<Orders>,
    /// Something is there to be sent.
    wake: Notify,
    state: watch::Sender<LinkState>,
}

#[derive(Default)]
struct Calls {
    last_id: u64,
    open: BTreeMap<u64, OpenCall>,
    /// The first call id that this connection has not sent.
    unsent_from: u64,
}

struct OpenCall {
    key: Option<String>,
    request: Request,
    /// None for calls whose answer nobody waits for.
    answer: Option<oneshot::Sender<Result<Response, CallError>>>,
}

impl Link {
    pub(crate) fn new(config: LinkConfig) -> Self {
        let shared = Shared {
            config,
            calls: RefCell::default(),
            reports: RefCell::default(),
            orders: Rc::default(),
            wake: Notify::new(),
            state: watch::Sender::new(LinkState::Away),
        };
        Self { shared: Rc::new(shared) }
    }

    pub(crate) fn orders(&self) -> Rc<Orders> {
        Rc::clone(&self.shared.orders)
    }

    /// Asks coordd for something. The call is open from now on, in the order of the calls, whenever
    /// the answer is waited for; it is repeated over lost connections. Dropping the future
    /// withdraws interest, not the request.
    pub(crate) fn call(
        &self,
        request: Request,
        key: Option<String>,
    ) -> impl Future<Output = Result<Response, CallError>> + use<> {
        let (sender, receiver) = oneshot::channel();
        let refused = self.open(OpenCall { key, request, answer: Some(sender) });
        async move {
            match refused {
                Some(error) => Err(error),
                None => receiver.await.unwrap_or(Err(CallError::Gone)),
            }
        }
    }

    /// Sends a call that is repeated until it is answered, without waiting.
    pub(crate) fn post(&self, request: Request) {
        if let Some(error) = self.open(OpenCall { key: None, request, answer: None }) {
            tracing::warn!(%error, "a call was given up");
        }
    }

    /// Says something that may be lost.
    pub(crate) fn report(&self, report: Report) {
        if self.shared.reports.borrow_mut().push(report, Instant::now()) {
            self.shared.wake.notify_one();
        }
    }

    /// Reports a piece of the answer that the model is writing.
    pub(crate) fn delta(&self, text: &str) {
        if self.shared.reports.borrow_mut().push_delta(text, Instant::now()) {
            self.shared.wake.notify_one();
        }
    }

    /// Waits until coordd has welcomed the agent. An error means that it never will.
    pub(crate) async fn welcomed(&self) -> Result<(), String> {
        let mut state = self.shared.state.subscribe();
        let Ok(state) = state.wait_for(|it| *it != LinkState::Away).await else {
            return Err("the connection has ended".to_owned());
        };
        match &*state {
            LinkState::Gone(reason) => Err(reason.clone()),
            LinkState::Welcomed | LinkState::Away => Ok(()),
        }
    }

    /// Waits until there is nothing left to wait for, and says why.
    pub(crate) async fn gone(&self) -> String {
        let mut state = self.shared.state.subscribe();
        match state.wait_for(|it| matches!(it, LinkState::Gone(_))).await.as_deref() {
            Ok(LinkState::Gone(reason)) => reason.clone(),
            Ok(_) | Err(_) => "the connection has ended".to_owned(),
        }
    }

    /// Keeps the agent connected until coordd ends that for good. Runs beside the agent.
    pub(crate) async fn keep(self) {
        let mut backoff = Backoff::default();
        let mut alone_since = Instant::now();
        let mut last_reason = String::new();
        loop {
            let began = Instant::now();
            match connection::serve(&self.shared).await {
                Ended::Refused { reason } => return self.give_up(reason),
                Ended::Lost { reason, welcomed } => {
                    // Once for each reason: a daemon can be away for days.
                    if welcomed || reason != last_reason {
                        tracing::info!(reason, "not connected to coordd");
                    }
                    last_reason = reason;
                    if welcomed {
                        alone_since = Instant::now();
                        if began.elapsed() >= SETTLED_AFTER {
                            backoff = Backoff::default();
                        }
                    }
                }
            }
            self.shared.lose();
            if self.shared.config.orphan_limit.is_some_and(|limit| alone_since.elapsed() >= limit) {
                return self.give_up("coordd has been away for too long".to_owned());
            }
            if self.shared.config.state_dir.as_ref().is_some_and(|state_dir| !state_dir.is_dir()) {
                return self.give_up("the agent's folder no longer exists".to_owned());
            }
            sleep(backoff.next()).await;
        }
    }

    fn give_up(self, reason: String) {
        tracing::warn!(reason, "the connection to coordd has ended");
        self.shared.state.send_replace(LinkState::Gone(reason));
        self.shared.calls.borrow_mut().open.clear();
    }

    fn open(&self, call: OpenCall) -> Option<CallError> {
        if matches!(*self.shared.state.borrow(), LinkState::Gone(_)) {
            return Some(CallError::Gone);
        }
        let mut calls = self.shared.calls.borrow_mut();
        calls.open.retain(|_, it| it.answer.as_ref().is_none_or(|answer| !answer.is_closed()));
        if calls.open.len() >= OPEN_CALLS_MAX {
            let body = ErrorBody::new(ErrorCode::Limit, "too many requests wait for an answer");
            return Some(CallError::Denied(body.hint("Wait for some of them, then try again.")));
        }
        calls.last_id += 1;
        let id = calls.last_id;
        calls.open.insert(id, call);
        self.shared.wake.notify_one();
        None
    }
}

impl Shared {
    /// The next call that this connection has not carried yet.
    fn next_unsent(&self) -> Option<Call> {
        let mut calls = self.calls.borrow_mut();
        let from = calls.unsent_from;
        let (id, call) = calls.open.range(from..).next()?;
        let call = Call { id: *id, key: call.key.clone(), request: call.request.clone() };
        calls.unsent_from = call.id + 1;
        Some(call)
    }

    /// Hands an answer to the waiting caller.
    fn answer(&self, reply: Reply) {
        let mut calls = self.calls.borrow_mut();
        let outcome = match reply.outcome {
            Outcome::Ok(response) => Ok(*response),
            // A daemon that is shutting down has decided nothing: the call is repeated to the next
            // one.
            Outcome::Error(body) if body.code == ErrorCode::ShuttingDown => return,
            Outcome::Error(body) => Err(CallError::Denied(body)),
        };
        let Some(call) = calls.open.remove(&reply.id) else { return };
        match (call.answer, outcome) {
            // It fails only when nobody waits any longer.
            (Some(answer), outcome) => drop(answer.send(outcome)),
            (None, Ok(_)) => {}
            (None, Err(error)) => tracing::warn!(%error, "coordd refused what it was told"),
        }
    }

    /// A call that cannot be sent on any connection.
    fn refuse(&self, id: u64, reason: String) {
        let body = ErrorBody::new(ErrorCode::TooLarge, reason).hint("Make it shorter.");
        self.answer(Reply { id, outcome: Outcome::Error(body) });
    }

    fn meet(&self) {
        self.orders.begin_again();
        self.calls.borrow_mut().unsent_from = 0;
        self.reports.borrow_mut().open();
        self.state.send_replace(LinkState::Welcomed);
    }

    fn lose(&self) {
        self.reports.borrow_mut().close();
        self.state.send_replace(LinkState::Away);
    }
}

#[cfg(test)]
mod tests;
