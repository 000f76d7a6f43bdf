//! The end of a run that was cut off: stopped, interrupted, failed, or at a limit.
//!
//! At a limit the turn is ended, and one more turn without tools is for the report (W-9).

use std::time::Duration;

use proto::notification::FailureClass;
use tokio::time::{Instant, timeout};

use super::child::Child;
use super::wire::Line;
use super::{Halt, Run, Stage, until};
use crate::framing;
use crate::outcome::Shortfall;

/// How long Claude Code may take to end an interrupted turn.
const INTERRUPT_MAX: Duration = Duration::from_millis(1_200);
/// How long the report may take after the limit.
const REPORT_MAX: Duration = Duration::from_mins(1);

impl Run<'_> {
    /// Ends the process. How the run ended, and whether a report was written; none when the run
    /// does not end.
    pub(super) async fn wind_down(
        &mut self,
        child: Option<Child>,
        halt: Halt,
    ) -> Option<(Option<Shortfall>, bool)> {
        self.forget_asks();
        let (shortfall, reported) = match (halt, child) {
            (Halt::Left, child) => {
                self.keep_what_there_is();
                end(child).await;
                return None;
            }
            (Halt::Short(shortfall), child) => {
                if let Some(mut child) = child {
                    self.end_turn(&mut child).await;
                    child.end().await;
                }
                (shortfall, false)
            }
            (Halt::Limit { limit, reason }, child) => {
                let shortfall =
                    Shortfall::failed(FailureClass::Adjust, format!("{reason} ({limit})"));
                match child {
                    Some(child) => self.write_report(child, &limit, shortfall).await,
                    None => (shortfall, false),
                }
            }
        };
        self.keep_what_there_is();
        if !self.is_open()
            && let Err(halt) = self.hear_all()
        {
            tracing::error!(?halt, "what the run was for is not in the transcript");
        }
        if !self.is_open() {
            self.enter_waiting_mail();
        }
        Some((Some(shortfall), reported))
    }

    fn keep_what_there_is(&mut self) {
        let what = self.scribe.broke_off();
        if self.is_open()
            && let Err(halt) = self.record(what)
        {
            tracing::error!(?halt, "the last words are not in the transcript");
        }
    }

    /// A run that could not begin is reported as failed, too, so that its lead does not wait for
    /// ever.
    fn enter_waiting_mail(&mut self) {
        let moment = self.agent.first_moment();
        if let Err(error) = self.agent.take_in(self.number, moment) {
            tracing::error!(?error, "what the run was for is not in the transcript");
        }
    }

    /// Ends a turn that goes on, unless the whole process is to end at once.
    async fn end_turn(&mut self, child: &mut Child) {
        if self.is_quiet || self.agent.orders.control().stop.is_some() {
            return;
        }
        self.interrupt(child);
        let quiet = async {
            while !self.is_quiet {
                let Some(line) = child.line().await else { return };
                if let Err(halt) = self.take(child, line) {
                    tracing::warn!(?halt, "the end of a turn is not taken in");
                    return;
                }
            }
        };
        if timeout(INTERRUPT_MAX, quiet).await.is_err() {
            tracing::info!("Claude Code does not end its turn");
        }
    }

    async fn write_report(
        &mut self,
        mut child: Child,
        limit: &str,
        shortfall: Shortfall,
    ) -> (Shortfall, bool) {
        self.end_turn(&mut child).await;
        if !self.is_quiet {
            child.end().await;
            return (shortfall, false);
        }
        let result = self.last_words(&mut child, limit).await;
        match result {
            Ok(reported) => {
                child.finish().await;
                (shortfall, reported)
            }
            Err(Halt::Short(stopped)) if stopped.class.is_none() => {
                child.end().await;
                (stopped, false)
            }
            Err(halt) => {
                tracing::warn!(?halt, "no report could be written");
                child.end().await;
                (shortfall, false)
            }
        }
    }

    /// The turn for the report. True when something was said.
    async fn last_words(&mut self, child: &mut Child, limit: &str) -> Result<bool, Halt> {
        self.close_open_calls()?;
        self.stage = Stage::Reporting;
        self.say(child, &framing::out_of(limit))?;
        let deadline = Instant::now().checked_add(REPORT_MAX);
        let orders = std::rc::Rc::clone(&self.agent.orders);
        let mut reported = false;
        while !self.is_quiet {
            tokio::select! {
                biased;
                () = orders.run_ends() => self.agent.check_control()?,
                () = until(deadline) => return Ok(reported),
                line = child.line() => {
                    let Some(line) = line else { return Ok(reported) };
                    reported |= says_something(&line);
                    self.take(child, line)?;
                }
            }
        }
        Ok(reported)
    }
}

fn says_something(line: &Line) -> bool {
    let Line::Said(parts) = line else { return false };
    parts
        .iter()
        .any(|part| matches!(part, super::wire::Part::Text(text) if !text.trim().is_empty()))
}

async fn end(child: Option<Child>) {
    if let Some(child) = child {
        child.end().await;
    }
}
