//! The agent's memory: the transcript on disk and the conversation made of it, always in step.
//!
//! An entry is on its way to disk before it is part of the conversation or told to anybody. It must
//! not decide what to record.

use std::path::Path;

use proto::agent::Report;
use proto::entry::{Entry, What};

use crate::conversation::Conversation;
use crate::link::Link;
use crate::transcript::{Opened, Transcript, TranscriptError};

/// Transcript and conversation.
pub(crate) struct Memory {
    transcript: Transcript,
    conversation: Conversation,
    link: Link,
    /// What the model is to be told about damage, once.
    notice: Option<String>,
}

impl Memory {
    /// Reads back what there is.
    pub(crate) fn open(state_dir: &Path, link: Link) -> Result<Self, TranscriptError> {
        let Opened { transcript, entries, set_aside } =
            Transcript::open(state_dir, coordd_common::wall_ms())?;
        let mut conversation = Conversation::default();
        for entry in &entries {
            conversation.push(entry);
        }
        let notice = set_aside.map(|path| {
            format!(
                "[coordd: the record of this conversation was damaged. What came after this point is lost to you; the \
                 whole file is kept as {}. Look again before you rely on what you remember.]",
                path.display()
            )
        });
        Ok(Self { transcript, conversation, link, notice })
    }

    /// Appends what happened in a run, all or a beginning of it, and tells the viewers.
    pub(crate) fn record(&mut self, run: u32, what: Vec<What>) -> Result<(), TranscriptError> {
        let entries = self.transcript.append(run, coordd_common::wall_ms(), what)?;
        self.take_in(entries);
        Ok(())
    }

    /// Appends what happened in a run, all or nothing of it.
    pub(crate) fn record_whole(
        &mut self,
        run: u32,
        what: Vec<What>,
    ) -> Result<(), TranscriptError> {
        let entries = self.transcript.append_whole(run, coordd_common::wall_ms(), what)?;
        self.take_in(entries);
        Ok(())
    }

    fn take_in(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.conversation.push(&entry);
            self.link.report(Report::Entry { entry });
        }
    }

    /// Everything recorded is on disk afterwards.
    pub(crate) fn sync(&mut self) -> Result<(), TranscriptError> {
        self.transcript.sync()
    }

    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// How long ago the last run began.
    pub(crate) fn run_age_ms(&self) -> u64 {
        coordd_common::wall_ms().saturating_sub(self.conversation.so_far().began_ms)
    }

    /// What the model has to be told first, if anything.
    pub(crate) fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }
}
