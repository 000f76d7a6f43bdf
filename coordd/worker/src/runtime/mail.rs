//! Messages on their way into the conversation: framed, on disk, and only then acknowledged (M-3).
//!
//! It must not decide when one enters.

use std::path::{Path, PathBuf};

use proto::entry::What;
use proto::request::Request;

use super::{Agent, system_input};
use crate::failpoint;
use crate::framing::{self, Framed, Moment, Reader};
use crate::instructions::{self, Places};
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
        if let Some(text) = self.instructions() {
            what.insert(0, system_input(text));
        }
        self.enter(run, what, ids)?;
        Ok(entered)
    }

    /// Instructions in files that the model has not been told as they are now.
    fn instructions(&self) -> Option<String> {
        let told = self.memory.conversation().instructions();
        instructions::to_tell(&self.places(), told, &|path| self.may_be_told(path))
    }

    /// Those of folders in which files were read or changed.
    pub(super) fn instructions_beside(&self, touched: &[PathBuf]) -> Option<String> {
        let told = self.memory.conversation().instructions();
        instructions::to_tell_of(touched, &self.places(), told, &|path| self.may_be_told(path))
    }

    fn places(&self) -> Places {
        let variable = |name: &str| {
            let value = self.boot.env.get(name).filter(|it| it.starts_with('/'))?;
            Some(PathBuf::from(value))
        };
        let home = variable("HOME");
        let user = variable("CLAUDE_CONFIG_DIR").or_else(|| Some(home.as_ref()?.join(".claude")));
        // Work for another machine is not the user's, and does not see what the user keeps for their own.
        let user = user.filter(|_| !self.boot.folder_only);
        Places { workspace: self.tools.real_cwd().to_owned(), user, home }
    }

    /// Whether the rules let the agent read a file unasked. The user's own instructions are for it.
    fn may_be_told(&self, path: &Path) -> bool {
        let own = self.places().user.and_then(|it| it.canonicalize().ok());
        let is_own = own.is_some_and(|own| path.starts_with(own));
        !self.tools.hides(path) && (is_own || self.approvals.may_read(path))
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
