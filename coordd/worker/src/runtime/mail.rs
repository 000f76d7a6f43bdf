//! Messages on their way into the conversation: framed, on disk, and only then acknowledged (M-3).
//!
//! It must not decide when one enters.

use proto::entry::What;
use proto::request::Request;

use super::{Agent, system_input};
use crate::failpoint;
use crate::framing::{self, Framed, Moment, Reader};
use crate::link::Delivered;
use crate::transcript::TranscriptError;

/// What entered the conversation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entered {
    pub(super) messages: usize,
    /// One of them asks the agent to end.
    pub(super) shutdown: bool,
}

impl Agent {
    /// Puts the waiting messages into the conversation, each once, and acknowledges them when they
    /// are on disk (M-3).
    pub(super) fn take_in(
        &mut self,
        run: u32,
        mut moment: Moment,
    ) -> Result<Entered, TranscriptError> {
        let mut entered = Entered::default();
        let (mut what, mut ids) = (Vec::new(), Vec::new());
        for mail in self.orders.take_mail() {
            if self.acknowledge_known(&mail)? {
                continue;
            }
            entered.messages += 1;
            entered.shutdown |= mail.shutdown;
            ids.push(mail.message.clone());
            what.extend(self.entries_of(mail, &mut moment));
        }
        if what.is_empty() {
            return Ok(entered);
        }
        if let Some(text) = self.memory.take_notice() {
            what.insert(0, system_input(text));
        }
        self.enter(run, what, ids)?;
        Ok(entered)
    }

    /// Acknowledges again what is in the conversation already. False when it is not.
    pub(super) fn acknowledge_known(&mut self, mail: &Delivered) -> Result<bool, TranscriptError> {
        let Some(run) = self.memory.conversation().run_of(&mail.message) else { return Ok(false) };
        // The message is remembered, but may not be on disk yet.
        self.memory.sync()?;
        self.link.post(Request::Acknowledge { messages: vec![mail.message.clone()], run });
        Ok(true)
    }

    /// Leaves only messages that are new.
    pub(super) fn drop_known_mail(&mut self) -> Result<(), TranscriptError> {
        let mut new = Vec::new();
        for mail in self.orders.take_mail() {
            if !self.acknowledge_known(&mail)? {
                new.push(mail);
            }
        }
        self.orders.put_back(new);
        Ok(())
    }

    /// A message as it enters the conversation, coordd's own words about it first.
    pub(super) fn entries_of(&self, mail: Delivered, moment: &mut Moment) -> Vec<What> {
        let reader = Reader { role: self.boot.role, mode: self.boot.mode };
        let Framed { before, text } = framing::frame(&mail, moment, reader);
        if matches!(moment, Moment::Task | Moment::Resumed(_)) {
            *moment = Moment::Midway;
        }
        let input = What::Input { origin: mail.origin, message: Some(mail.message), text };
        before.map(system_input).into_iter().chain([input]).collect()
    }

    /// Records messages and acknowledges them.
    pub(super) fn enter(
        &mut self,
        run: u32,
        what: Vec<What>,
        messages: Vec<String>,
    ) -> Result<(), TranscriptError> {
        // A crash must not leave coordd's words behind without the message that they are about.
        self.memory.record_whole(run, what)?;
        self.memory.sync()?;
        failpoint::reach(failpoint::IN_TRANSCRIPT);
        self.link.post(Request::Acknowledge { messages, run });
        Ok(())
    }
}
