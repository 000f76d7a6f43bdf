//! What is typed into a live view: the line below the output, and the answers that it gives.

use proto::request::Request;

use super::{Live, Sink};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::output;
use crate::question::answer::{Given, Verdict};
use crate::question::desk::{self, Reading, Typed};
use crate::terminal::line;

impl Live {
    /// Says something on stderr, above the line that is typed.
    pub(crate) fn note(&mut self, text: &str) -> Result<(), Failure> {
        let gone = |_| Failure::new(Exit::Done, "the output was closed");
        if let Some(input) = &mut self.input {
            output::print(&input.clear()).map_err(gone)?;
        }
        output::note(text);
        self.redraw()
    }

    /// Nothing is typed any more: the terminal is as it was, and whatever is said now stands alone.
    pub(crate) fn give_back(&mut self) {
        self.input = None;
    }

    /// The line that is typed, as it is now.
    pub(super) fn redraw(&mut self) -> Result<(), Failure> {
        let prompt = self.prompt();
        let Some(input) = &mut self.input else { return Ok(()) };
        let written = output::print(&input.above("", &prompt));
        written.map_err(|_| Failure::new(Exit::Done, "the output was closed"))
    }

    pub(super) fn prompt(&self) -> String {
        match self.view.desk.drawn() {
            Some(it) if it.question.rule.is_empty() => format!("{} y/n › ", line(&it.id)),
            Some(it) => format!("{} y/a/n › ", line(&it.id)),
            None => "› ".to_owned(),
        }
    }

    /// Takes over the width of the terminal. The last column is left alone: a row that fills it is not at its end yet.
    pub(super) fn fit(&mut self) {
        if self.options.sink != Sink::Stdout {
            return;
        }
        let columns = crate::terminal::columns(std::io::stdout());
        if let Some(input) = &mut self.input {
            input.fit(columns);
            self.view.fit(columns.map(|columns| columns.saturating_sub(1)));
        } else {
            self.view.fit(columns);
        }
    }

    /// What was typed: an answer to the question that is drawn is given; words come back.
    pub(crate) fn read(
        &mut self,
        context: &mut Context,
        typed: &Typed,
    ) -> Result<Option<String>, Failure> {
        match self.view.desk.read(typed, crate::format::now_ms()) {
            Reading::Words => Ok(Some(typed.text.clone())),
            Reading::Refused(why) => {
                self.note(&why)?;
                Ok(None)
            }
            Reading::Answer { id, given } => {
                self.answer(context, &id, &given)?;
                Ok(None)
            }
        }
    }

    /// Answers a question, and says what that did; that somebody else was first is only said.
    pub(crate) fn answer(
        &mut self,
        context: &mut Context,
        id: &str,
        given: &Given,
    ) -> Result<(), Failure> {
        let request = Request::PermissionAnswer {
            id: id.to_owned(),
            allow: given.verdict != Verdict::No,
            always: given.verdict == Verdict::Always,
            reason: given.note.clone(),
        };
        if let Err(body) = context.call_or_denied(request)? {
            return self.note(&body.message);
        }
        let said = match self.view.desk.find(id) {
            Some(question) => desk::echo(question, given),
            None => format!("{} answered", line(id)),
        };
        let next = self.view.answered(id, crate::format::now_ms());
        self.print(&format!("  {said}\n{next}"))
    }
}
