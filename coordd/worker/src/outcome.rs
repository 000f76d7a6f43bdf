//! How a run ended, on disk before anybody is told (rel-31).
//!
//! `outcome-<run>.json` in the agent's folder, written whole or not at all. It must not decide how
//! a run ended.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use coordd_common::files::replace;
use proto::agent::{RunOutcome, WrittenOutcome};
use proto::notification::{FailureClass, RunStatus, Usage};
use proto::text::{head, tail};
use rustix::fs::{Mode, OFlags};

/// Longest result that is passed on, in bytes: a report that a lead can still read. In a frame,
/// escaped, it stays below the frame's limit.
const RESULT_LEN_MAX: usize = 128 * 1024;

/// Longest outcome file that is read: one result with every character escaped.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// Why an outcome is not on disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutcomeError {
    #[error("cannot write {}: check that the disk is not full", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("an outcome cannot be written as JSON")]
    Encode {
        #[source]
        source: serde_json::Error,
    },
}

fn file_path(state_dir: &Path, run: u32) -> PathBuf {
    state_dir.join(format!("outcome-{run}.json"))
}

/// Writes the outcome of a run.
pub(crate) fn write(state_dir: &Path, run: u32, outcome: &RunOutcome) -> Result<(), OutcomeError> {
    let path = file_path(state_dir, run);
    let stored = WrittenOutcome { run, outcome: outcome.clone() };
    let bytes = serde_json::to_vec(&stored).map_err(|source| OutcomeError::Encode { source })?;
    replace(&path, &bytes, 0o600).map_err(|source| OutcomeError::Write { path, source })
}

/// The outcome of a run, if it is on disk and whole.
pub(crate) fn read(state_dir: &Path, run: u32) -> Option<RunOutcome> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(file_path(state_dir, run), flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
    match serde_json::from_slice::<WrittenOutcome>(&bytes) {
        Ok(stored) if stored.run == run => Some(stored.outcome),
        Ok(_) | Err(_) => {
            tracing::warn!(run, "an outcome file cannot be read and is passed over");
            None
        }
    }
}

/// Why a run did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) status: RunStatus,
    pub(crate) class: Option<FailureClass>,
    pub(crate) reason: String,
}

impl Shortfall {
    pub(crate) fn failed(class: FailureClass, reason: impl Into<String>) -> Self {
        Self { status: RunStatus::Failed, class: Some(class), reason: reason.into() }
    }

    pub(crate) fn killed(reason: impl Into<String>) -> Self {
        Self { status: RunStatus::Killed, class: None, reason: reason.into() }
    }
}

/// The outcome of a run that came to its own end.
pub(crate) fn completed(result: &str, usage: Usage) -> RunOutcome {
    RunOutcome {
        status: RunStatus::Completed,
        class: None,
        reason: String::new(),
        result: bounded(result),
        usage,
    }
}

/// The outcome of a run that was cut off. `result` is the partial report (W-9).
pub(crate) fn fell_short(shortfall: Shortfall, result: &str, usage: Usage) -> RunOutcome {
    let Shortfall { status, class, reason } = shortfall;
    RunOutcome { status, class, reason, result: bounded(result), usage }
}

/// Cuts the middle of a text that is too long, since reports begin with the outcome and end with
/// open points.
fn bounded(text: &str) -> String {
    if text.len() <= RESULT_LEN_MAX {
        return text.to_owned();
    }
    let half = RESULT_LEN_MAX / 2;
    let (head, tail) = (head(text, half), tail(text, half));
    let left_out = text.len() - head.len() - tail.len();
    format!("{head}\n[coordd: {left_out} bytes left out here]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel39_an_outcome_is_read_back_and_a_broken_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = completed("done", Usage { tool_uses: 3, ..Usage::default() });
        assert_eq!(read(folder.path(), 2), None);
        write(folder.path(), 2, &outcome).unwrap();
        assert_eq!(read(folder.path(), 2), Some(outcome));
        let names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["outcome-2.json"]);
        let path = folder.path().join("outcome-2.json");
        let bytes = std::fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert_eq!(read(folder.path(), 2), None, "cut at {end}");
        }
    }

    #[test]
    fn w9_a_result_keeps_its_beginning_and_its_end() {
        let long = format!("first {} last", "ä".repeat(RESULT_LEN_MAX));
        let result = completed(&long, Usage::default()).result;
        assert!(result.starts_with("first ä") && result.ends_with("ä last"));
        assert!(result.contains("bytes left out here") && result.len() < RESULT_LEN_MAX + 100);
    }
}
