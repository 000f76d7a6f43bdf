//! The mailbox of a client that cannot be interrupted: the tool `WaitForMessages` (L-4).
//!
//! ```text
//!   orders --mail--> taken --answer written to the client--> acknowledged
//!                       \--answer never written--> back, for the next call
//! ```
//!
//! A message is acknowledged only when it was handed to the client, so that a client that dies
//! before gets it again. It is handed over once to each process: repeats on a new connection are
//! recognised by id.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use proto::agent::{Mode, Role};
use proto::entry::Origin;
use proto::request::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Answer;
use crate::framing::{self, Moment, Reader};
use crate::link::{Delivered, Link, Orders};
use crate::model::ToolSpec;
use crate::tools::{ToolOutput, cut, parse_input};

/// The tool's name.
pub(super) const NAME: &str = "WaitForMessages";

const DESCRIPTION: &str = include_str!("../../prompts/tools/WaitForMessages.md");

/// The default wait: less than the minute after which some clients give up a call.
const WAIT_DEFAULT_S: u64 = 50;
/// How long a call may wait.
const WAIT_MAX_S: u64 = 3_600;

/// Bytes of messages in one answer, and of one message in it: clients refuse results of more than
/// 25,000 tokens.
const ANSWER_LEN_MAX: usize = 64 * 1024;

/// Ids that are remembered as handed over. The daemon hands at most 1,000 messages over on one
/// connection, and each of those at most twice: then it has had the acknowledgement.
const HANDED_MAX: usize = 4_096;

/// How long the last acknowledgements may take when the client has gone.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);

/// Messages that wait for the client, and those that it has got.
pub(super) struct Mailbox {
    link: Link,
    orders: Rc<Orders>,
    reader: Reader,
    /// Taken from the orders, and not handed over.
    waiting: RefCell<VecDeque<Delivered>>,
    handed: RefCell<Handed>,
    /// Something came back.
    returned: Notify,
    /// Acknowledgements that are on their way.
    open: Cell<usize>,
    quiet: Notify,
}

/// The ids of what was handed over, the oldest first.
#[derive(Default)]
struct Handed {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Handed {
    fn insert(&mut self, id: &str) {
        if self.ids.insert(id.to_owned()) {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > HANDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    fn remove(&mut self, id: &str) {
        self.ids.remove(id);
        self.order.retain(|it| it != id);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    timeout_s: Option<u64>,
}

impl Mailbox {
    pub(super) fn new(link: Link, role: Role, mode: Mode) -> Rc<Self> {
        Rc::new(Self {
            orders: link.orders(),
            link,
            reader: Reader { role, mode },
            waiting: RefCell::default(),
            handed: RefCell::default(),
            returned: Notify::new(),
            open: Cell::new(0),
            quiet: Notify::new(),
        })
    }

    pub(super) fn spec() -> ToolSpec {
        ToolSpec {
            name: NAME.to_owned(),
            description: DESCRIPTION.trim_end().to_owned(),
            input_schema: schema(),
        }
    }

    /// Waits for messages and takes them, as much as fits into one answer.
    pub(super) async fn wait(
        self: &Rc<Self>,
        input: &Value,
        closing: &CancellationToken,
    ) -> Answer {
        let wait_s = match parse_input::<Input>(NAME, &schema(), input) {
            Ok(input) => input.timeout_s.unwrap_or(WAIT_DEFAULT_S).min(WAIT_MAX_S),
            Err(error) => return ToolOutput::error(error.to_string()).into(),
        };
        let deadline = Instant::now() + Duration::from_secs(wait_s);
        loop {
            let taken = self.take();
            if !taken.is_empty() {
                return self.hand_over(taken);
            }
            tokio::select! {
                biased;
                // Nobody would read what is taken now.
                () = closing.cancelled() => return nothing(0),
                () = self.orders.mail() => {}
                () = self.returned.notified() => {}
                () = sleep_until(deadline) => return nothing(wait_s),
            }
        }
    }

    /// Waits until what was handed over is acknowledged, for a moment.
    pub(super) async fn settle(&self) {
        let settled = async {
            while self.open.get() > 0 {
                self.quiet.notified().await;
            }
        };
        if timeout(LAST_WORDS_MAX, settled).await.is_err() {
            tracing::warn!("the last messages were not acknowledged; they will come again");
        }
    }

    fn take(&self) -> Vec<Delivered> {
        let mut waiting = self.waiting.borrow_mut();
        for mail in self.orders.take_mail() {
            let is_known = self.handed.borrow().ids.contains(&mail.message)
                || waiting.iter().any(|it| it.message == mail.message);
            if !is_known {
                waiting.push_back(mail);
            }
        }
        let mut len = 0;
        let fits = waiting.iter().take_while(|it| {
            let first = len == 0;
            len += text_len(it).min(ANSWER_LEN_MAX);
            first || len <= ANSWER_LEN_MAX
        });
        let count = fits.count();
        let taken: Vec<_> = waiting.drain(..count).collect();
        let mut handed = self.handed.borrow_mut();
        for mail in &taken {
            handed.insert(&mail.message);
        }
        taken
    }

    fn hand_over(self: &Rc<Self>, taken: Vec<Delivered>) -> Answer {
        let mut text = String::new();
        for mail in &taken {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            let _fits = write!(text, "{gap}{}", self.framed(mail));
        }
        let more = self.waiting.borrow().len();
        if more > 0 {
            let _fits = write!(text, "\n\n[{more} more wait. Call {NAME} again.]");
        }
        let (written, told) = oneshot::channel();
        let mailbox = Rc::clone(self);
        self.open.set(self.open.get() + 1);
        spawn_local(async move {
            match told.await {
                Ok(()) => mailbox.acknowledge(&taken).await,
                Err(_) => mailbox.take_back(taken),
            }
            mailbox.open.set(mailbox.open.get().saturating_sub(1));
            mailbox.quiet.notify_one();
        });
        Answer { output: ToolOutput::ok(text), written: Some(written) }
    }

    async fn acknowledge(&self, taken: &[Delivered]) {
        let messages = taken.iter().map(|it| it.message.clone()).collect();
        // Who joined has no runs; the number means nothing.
        if let Err(error) = self.link.call(Request::Acknowledge { messages, run: 1 }, None).await {
            tracing::warn!(%error, "messages were not acknowledged; they will come again");
        }
    }

    fn take_back(&self, taken: Vec<Delivered>) {
        let mut waiting = self.waiting.borrow_mut();
        for mail in taken.into_iter().rev() {
            self.handed.borrow_mut().remove(&mail.message);
            waiting.push_front(mail);
        }
        self.returned.notify_one();
    }

    fn framed(&self, mail: &Delivered) -> String {
        let mail = shortened(mail);
        let framed = framing::frame(&mail, &Moment::Idle, self.reader);
        let before = framed.before.or_else(|| match &mail.origin {
            Origin::User {} => Some(format!("From the user, message {}:", mail.message)),
            Origin::System {} => Some(format!("From coordd, message {}:", mail.message)),
            Origin::Agent { .. } | Origin::Outside { .. } | Origin::Notification { .. } => None,
        });
        match before {
            Some(before) => format!("{before}\n\n{}", framed.text),
            None => framed.text,
        }
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "timeout_s": {
                "type": "integer",
                "minimum": 0,
                "maximum": WAIT_MAX_S,
                "description": format!("How long to wait, {WAIT_DEFAULT_S} by default. Longer than your client waits for a tool is no use.")
            }
        },
        "additionalProperties": false
    })
}

fn nothing(wait_s: u64) -> Answer {
    let text = format!(
        "Nothing came within {wait_s} s. Workers may still be working: call {NAME} again when you have nothing else to do."
    );
    ToolOutput::ok(text).into()
}

/// The bytes of a message in an answer. A notification holds its own words.
fn text_len(mail: &Delivered) -> usize {
    match &mail.origin {
        Origin::Notification { notification } => mail.text.len().max(notification.result.len()),
        Origin::User {} | Origin::System {} | Origin::Agent { .. } | Origin::Outside { .. } => {
            mail.text.len()
        }
    }
}

/// A message cut to what clients take, with a note where the rest is.
fn shortened(mail: &Delivered) -> Delivered {
    let mut mail = mail.clone();
    if text_len(&mail) <= ANSWER_LEN_MAX {
        return mail;
    }
    let shorten = |text: &str| {
        let all = text.len();
        format!(
            "{}\n[Cut here, {all} bytes in all. The rest is in the transcript of who wrote it: coordctl logs]",
            cut(text, ANSWER_LEN_MAX)
        )
    };
    if let Origin::Notification { notification } = &mut mail.origin {
        notification.result = shorten(&notification.result);
        // Written again from what it is now.
        mail.text.clear();
    } else {
        mail.text = shorten(&mail.text);
    }
    mail
}

#[cfg(test)]
mod tests;
