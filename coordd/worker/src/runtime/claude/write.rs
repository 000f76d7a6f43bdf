//! Lines to Claude Code, and when they count as read.
//!
//! ```text
//!   mail --line with an id--> sent --taken up, or echoed and answered--> in the transcript --> acknowledged
//!                               \--the process ended, the run ended--> back to the mail
//! ```
//!
//! A line that begins a turn is heard when it is taken up. One that enters in the middle of a turn
//! is shown a moment before it is written down, so it is heard when the model has answered after
//! it.

use proto::entry::What;

use super::super::system_input;
use super::child::Child;
use super::expansion;
use super::history;
use super::wire;
use super::{Halt, Run, SENT_MAX, SHUTDOWN_TURNS};
use crate::framing::Moment;
use crate::link::Delivered;

/// A line that was written.
pub(super) struct Sent {
    pub(super) uuid: String,
    /// The line's message; none for text that is already recorded.
    mail: Option<Delivered>,
    /// What is to be recorded.
    what: Vec<What>,
    /// It was written when no turn was going on.
    opens: bool,
    is_echoed: bool,
    is_dropped: bool,
}

impl Run<'_> {
    /// Writes the waiting mail. At the first time Claude Code's record is asked for what an earlier
    /// process had.
    pub(super) fn send_mail(&mut self, child: &mut Child, is_first: bool) -> Result<(), Halt> {
        let mails = self.agent.orders.take_mail();
        let uuids: Vec<String> = mails
            .iter()
            .map(|mail| history::line_uuid(&self.agent.boot.agent, &mail.message))
            .collect();
        let held = if is_first { self.history.holds(&uuids) } else { Vec::new() };
        for (mail, uuid) in mails.into_iter().zip(uuids) {
            if self.agent.acknowledge_known(&mail)? {
                continue;
            }
            if self.sent.iter().any(|it| it.uuid == uuid) {
                continue;
            }
            let mut moment = if self.is_open() || !self.sent.is_empty() {
                Moment::Midway
            } else {
                self.agent.first_moment()
            };
            if mail.shutdown {
                self.turns_left.get_or_insert(SHUTDOWN_TURNS);
            }
            let mut what = self.agent.entries_of(mail.clone(), &mut moment);
            if held.contains(&uuid) {
                // Claude Code has the message from a process that died before it could acknowledge
                // it.
                self.agent.enter(self.number, what, vec![mail.message])?;
                continue;
            }
            let words = std::mem::take(&mut self.words);
            if !words.is_empty() {
                what.insert(0, system_input(words));
            }
            let opens = std::mem::take(&mut self.is_quiet);
            child.write(wire::user_line(&uuid, &text_of(&what)));
            self.sent.push(Sent {
                uuid,
                mail: Some(mail),
                what,
                opens,
                is_echoed: false,
                is_dropped: false,
            });
        }
        debug_assert!(self.sent.len() <= 2 * SENT_MAX);
        Ok(())
    }

    /// Writes what is recorded already, after the words that wait to be said.
    pub(super) fn write_again(
        &mut self,
        child: &mut Child,
        uuid: String,
        text: &str,
    ) -> Result<(), Halt> {
        let words = std::mem::take(&mut self.words);
        // Whose text it was is not known any more.
        let both = expansion::plain(&[words.as_str(), text].join("\n\n")).into_owned();
        let opens = std::mem::take(&mut self.is_quiet);
        child.write(wire::user_line(&uuid, both.trim_matches('\n')));
        self.sent.push(Sent {
            uuid,
            mail: None,
            what: Vec::new(),
            opens,
            is_echoed: false,
            is_dropped: false,
        });
        if words.is_empty() {
            return Ok(());
        }
        self.record(vec![system_input(words)])
    }

    pub(super) fn started(&mut self, uuid: &str) -> Result<(), Halt> {
        self.hear(|it| it.uuid == uuid && it.opens)
    }

    pub(super) fn echoed(&mut self, uuid: &str) -> Result<(), Halt> {
        for it in self.sent.iter_mut().filter(|it| it.uuid == uuid) {
            it.is_echoed = true;
        }
        self.hear(|it| it.uuid == uuid && it.opens)
    }

    /// Claude Code has finished with a line. A line that it dropped before showing it is for the
    /// next run.
    pub(super) fn through_with(&mut self, uuid: &str, is_dropped: bool) -> Result<(), Halt> {
        for it in self.sent.iter_mut().filter(|it| it.uuid == uuid && is_dropped) {
            it.is_dropped = !it.is_echoed;
        }
        self.hear(|it| it.uuid == uuid && !it.is_dropped)
    }

    /// Whether every written line has entered the conversation.
    pub(super) fn is_all_heard(&self) -> bool {
        self.sent.iter().all(|it| it.is_dropped)
    }

    /// The model has answered: it has read what was shown before.
    pub(super) fn heard_what_was_echoed(&mut self) -> Result<(), Halt> {
        self.hear(|it| it.is_echoed)
    }

    /// Counts every written line as read, so that the end of the run can be reported.
    pub(super) fn hear_all(&mut self) -> Result<(), Halt> {
        self.hear(|_| true)
    }

    fn hear(&mut self, is_heard: impl Fn(&Sent) -> bool) -> Result<(), Halt> {
        let (heard, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sent).into_iter().partition(is_heard);
        self.sent = rest;
        let (mut what, mut messages) = (Vec::new(), Vec::new());
        for it in heard {
            what.extend(it.what);
            messages.extend(it.mail.map(|mail| mail.message));
        }
        if what.is_empty() {
            return Ok(());
        }
        Ok(self.agent.enter(self.number, what, messages)?)
    }

    /// What did not enter is mail again.
    pub(super) fn give_back(&mut self) {
        let mail = std::mem::take(&mut self.sent).into_iter().filter_map(|it| it.mail).collect();
        self.agent.orders.put_back(mail);
    }
}

/// The line's text: coordd's own words first, as the model reads them in the transcript.
fn text_of(what: &[What]) -> String {
    let texts = what.iter().filter_map(|it| match it {
        What::Input { origin, text, .. } => Some(expansion::as_handed_over(origin, text)),
        What::Text { .. }
        | What::ToolCall { .. }
        | What::ToolResult { .. }
        | What::Turn { .. }
        | What::Reasoning { .. }
        | What::RunEnded { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}
