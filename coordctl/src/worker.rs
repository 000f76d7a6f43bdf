//! Asks `coordd-worker` whether what an agent is to be given can be used, before there is an agent.
//!
//! The agent process alone knows what a script or a rule means. It must not decide anything itself:
//! where the program is not found or does not know the question, the answer is left to the agent.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::paths::{self, Vars};

/// How an agent process says that what it was shown cannot be used.
const UNUSABLE: i32 = 1;
/// What is kept of its words.
const WORDS_LEN_MAX: usize = 4096;

/// What is wrong, in the agent process's own words.
pub(crate) fn check(vars: &Vars, flag: &str, args: &[&OsStr]) -> Result<(), String> {
    let Some(program) = paths::program(vars, "COORDD_WORKER", "coordd-worker") else {
        return Ok(());
    };
    let mut command = Command::new(program);
    command.arg(flag).args(args).stdin(Stdio::null()).stdout(Stdio::null());
    let Ok(output) = crate::signals::unblocked(|| command.output()) else { return Ok(()) };
    if output.status.code() != Some(UNUSABLE) {
        return Ok(());
    }
    let words = output.stderr.get(..WORDS_LEN_MAX).unwrap_or(&output.stderr);
    let words = String::from_utf8_lossy(words).trim().to_owned();
    Err(if words.is_empty() { "it cannot be used".to_owned() } else { words })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    /// A program that stands in for the agent process.
    pub(crate) fn stand_in(folder: &Path, script: &str) -> (String, String) {
        let path = folder.join("coordd-worker");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        ("COORDD_WORKER".to_owned(), path.to_str().unwrap().to_owned())
    }

    #[test]
    fn only_a_plain_no_counts() {
        let folder = tempfile::tempdir().unwrap();
        let said = |script: &str| {
            let vars = Vars::from([stand_in(folder.path(), script)]);
            check(&vars, "--check-rules", &[OsStr::new("a b")])
        };
        assert_eq!(said("echo \"$1 $2: bad\" >&2; exit 1"), Err("--check-rules a b: bad".into()));
        assert_eq!(said("exit 1"), Err("it cannot be used".into()));
        assert_eq!(said("exit 0"), Ok(()));
        // An older one, that does not know the question.
        assert_eq!(said("echo 'takes no arguments' >&2; exit 2"), Ok(()));
        let missing = Vars::from([("COORDD_WORKER".to_owned(), "/nonexistent/w".to_owned())]);
        assert_eq!(check(&missing, "--check-rules", &[]), Ok(()));
    }
}
