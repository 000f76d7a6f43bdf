//! The outcome of a run that an agent process wrote before it reported it.
//!
//! `outcome-<run>.json` in the agent's state folder: `{"run":3,"outcome":{…}}`. It stands when the
//! process could not report.

use std::path::{Path, PathBuf};

use proto::agent::WrittenOutcome;

use crate::dir::{Dir, DirError, FileError};

/// Longest file that is read. A result is bounded by what a notification carries, with room for
/// escapes.
const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most files of an agent's folder that are looked at: one a run, and a few others.
const FILES_MAX: usize = 10_000;

/// Why an outcome that was written cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutcomeError {
    #[error("the agent's folder cannot be listed; check its permissions")]
    Folder { source: DirError },
    #[error("the outcome of run {run} cannot be read; check its permissions")]
    File { run: u32, source: FileError },
    #[error("{} does not say how run {run} ended; look at the agent's log", path.display())]
    NotAnOutcome { run: u32, path: PathBuf, source: Option<serde_json::Error> },
}

/// The outcome of the last run that has one.
pub(crate) fn last(folder: &Dir) -> Result<Option<WrittenOutcome>, OutcomeError> {
    let (names, _) = folder.names(FILES_MAX).map_err(|source| OutcomeError::Folder { source })?;
    let Some(run) = names.iter().filter_map(|name| run_of(name.to_str()?)).max() else {
        return Ok(None);
    };
    let name = format!("outcome-{run}.json");
    let path = folder.path().join(&name);
    let content = folder
        .read(Path::new(&name), FILE_BYTES_MAX)
        .map_err(|source| OutcomeError::File { run, source })?;
    if content.cut {
        return Err(OutcomeError::NotAnOutcome { run, path, source: None });
    }
    match serde_json::from_slice::<WrittenOutcome>(&content.bytes) {
        Ok(found) if found.run == run => Ok(Some(found)),
        Ok(_) => Err(OutcomeError::NotAnOutcome { run, path, source: None }),
        Err(source) => Err(OutcomeError::NotAnOutcome { run, path, source: Some(source) }),
    }
}

/// Sets aside an invalid outcome file, and returns its new name.
pub(crate) fn set_aside(folder: &Dir, error: &OutcomeError) -> Option<PathBuf> {
    let OutcomeError::NotAnOutcome { run, .. } = error else { return None };
    let name = format!("outcome-{run}.json");
    folder.set_damage_aside(&name).ok().map(|it| folder.path().join(it))
}

/// The run in a file's name. Only the one way to write a number counts.
fn run_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("outcome-")?.strip_suffix(".json")?;
    digits.parse().ok().filter(|it: &u32| it.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proto::notification::RunStatus;

    use super::*;
    use crate::dir::Demand;

    fn folder() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        let (dir, _) = Dir::base(folder.path()).unwrap().enter("a", Demand::Strict).unwrap();
        (folder, dir)
    }

    #[test]
    fn rel31_the_last_outcome_is_read_by_number() {
        let (_folder, dir) = folder();
        assert_eq!(last(&dir).unwrap(), None);
        for (run, result) in [(9, "nine"), (10, "ten"), (2, "two")] {
            let text = format!(
                r#"{{"run":{run},"outcome":{{"status":"completed","result":"{result}"}}}}"#
            );
            dir.write_atomic(&format!("outcome-{run}.json"), text.as_bytes()).unwrap();
        }
        dir.write_atomic("outcome-011.json", b"x").unwrap();
        dir.write_atomic("outcome-12.json.tmp", b"x").unwrap();
        let written = last(&dir).unwrap().unwrap();
        assert_eq!((written.run, written.outcome.result.as_str()), (10, "ten"));
        assert_eq!(written.outcome.status, RunStatus::Completed);
    }

    #[test]
    fn rel41_what_is_no_outcome_is_an_error_and_never_an_older_one() {
        let (folder, dir) = folder();
        dir.write_atomic("outcome-1.json", br#"{"run":1,"outcome":{"status":"failed"}}"#).unwrap();
        for text in ["", "{", r#"{"run":3,"outcome":{"status":"failed"}}"#] {
            dir.write_atomic("outcome-2.json", text.as_bytes()).unwrap();
            assert!(matches!(last(&dir), Err(OutcomeError::NotAnOutcome { run: 2, .. })), "{text}");
        }
        fs::remove_file(folder.path().join("a/outcome-2.json")).unwrap();
        std::os::unix::fs::symlink("outcome-1.json", folder.path().join("a/outcome-2.json"))
            .unwrap();
        assert!(matches!(last(&dir), Err(OutcomeError::File { run: 2, .. })));
    }
}
