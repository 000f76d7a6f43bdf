//! The end of a run: outcome on disk, then the transcript, then coordd, again and again until it
//! has recorded it.

use std::path::Path;
use std::time::Duration;

use proto::agent::{Role, RunOutcome};
use proto::error::ErrorCode;
use proto::notification::{FailureClass, RunStatus, Usage};
use proto::request::Request;
use proto::response::Response;
use tokio::time::sleep;

use super::Agent;
use super::halt::End;
use crate::failpoint;
use crate::framing;
use crate::link::CallError;
use crate::outcome::{self, Shortfall};

/// How long a stopped process waits for coordd to take its last word. It is on disk and is told at
/// the next start.
const LAST_WORD_MAX: Duration = Duration::from_secs(5);
/// The wait before an end that coordd could not record is reported again.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(2);

impl Agent {
    /// Ends a run. True when the process is to exit.
    pub(super) async fn end_run(&mut self, run: u32, end: End) -> bool {
        let outcome = self.outcome_of(end);
        if let Err(error) = outcome::write(Path::new(&self.boot.state_dir), run, &outcome) {
            tracing::error!(error = ?error, run, "the outcome is not on disk");
        }
        failpoint::reach(failpoint::OUTCOME_WRITTEN);
        let unfinished = format!("Not finished: {}", outcome.reason);
        let closed = self.close_run(run, outcome.status, outcome.reason.clone(), &unfinished);
        if let Err(error) = closed {
            tracing::error!(error = ?error, run, "the end of the run is not in the transcript");
        }
        tracing::info!(run, status = outcome.status.as_str(), reason = outcome.reason, "run ended");
        failpoint::reach(failpoint::RUN_CLOSED);
        let may_exit = self.report_end(run, outcome).await;
        failpoint::reach(failpoint::RUN_RECORDED);
        let control = self.orders.control();
        may_exit || control.stop.is_some()
    }

    /// How the last run ended, as far as the transcript says.
    pub(super) fn outcome_of_past(&self) -> RunOutcome {
        let conversation = self.memory.conversation();
        let so_far = conversation.so_far();
        let usage = Usage { duration_ms: so_far.lasted_ms, ..so_far.usage };
        match &so_far.ended {
            Some((RunStatus::Completed, _)) => outcome::completed(conversation.last_text(), usage),
            Some((status, reason)) => {
                let class = (*status == RunStatus::Failed).then_some(FailureClass::Adjust);
                let shortfall = Shortfall { status: *status, class, reason: reason.clone() };
                outcome::fell_short(shortfall, conversation.last_text(), usage)
            }
            None => {
                let shortfall = Shortfall::failed(FailureClass::Adjust, "its end is not known");
                outcome::fell_short(shortfall, conversation.last_text(), usage)
            }
        }
    }

    fn outcome_of(&self, end: End) -> RunOutcome {
        let conversation = self.memory.conversation();
        let usage = Usage { duration_ms: end.lasted_ms, ..conversation.so_far().usage };
        let said = conversation.last_text();
        match end.shortfall {
            None => outcome::completed(said, usage),
            Some(shortfall) if end.reported || self.boot.role != Role::Worker => {
                outcome::fell_short(shortfall, said, usage)
            }
            Some(shortfall) => {
                let result = framing::cut_off(said, reason_of(&shortfall));
                outcome::fell_short(shortfall, &result, usage)
            }
        }
    }

    /// Tells coordd of the end of a run until it is recorded. True when the process may exit.
    pub(super) async fn report_end(&self, run: u32, outcome: RunOutcome) -> bool {
        let key = format!("run-{run}");
        let patience = async {
            self.orders.process_ends().await;
            sleep(LAST_WORD_MAX).await;
        };
        tokio::pin!(patience);
        loop {
            let request = Request::RunEnded { run, outcome: outcome.clone() };
            let answer = tokio::select! {
                biased;
                answer = self.link.call(request, Some(key.clone())) => answer,
                () = &mut patience => return true,
            };
            match answer {
                Ok(Response::RunRecorded { exit }) => return exit,
                Ok(_) => {
                    tracing::warn!(run, "coordd answered the end of a run with something else");
                    return self.boot.role == Role::Worker;
                }
                Err(CallError::Gone) => return true,
                Err(CallError::Denied(denial)) => {
                    tracing::error!(
                        run,
                        error = denial.message,
                        "coordd did not record the end of a run"
                    );
                    let passing = [ErrorCode::DiskFull, ErrorCode::Failed, ErrorCode::Limit];
                    if !passing.contains(&denial.code) {
                        return self.boot.role == Role::Worker;
                    }
                }
            }
            tokio::select! {
                () = sleep(TOLD_AGAIN_AFTER) => {}
                () = &mut patience => return true,
            }
        }
    }
}

/// Why the work stops here, in our own words.
fn reason_of(shortfall: &Shortfall) -> &str {
    if shortfall.reason.is_empty() { shortfall.status.as_str() } else { &shortfall.reason }
}
