//! The demo's repository: a few shell functions with a real mistake, and a test that shows it.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::Failure;
use crate::paths::Vars;

const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../../demo/README.md")),
    ("src/dates.sh", include_str!("../../../demo/dates.sh")),
    ("tests/run.sh", include_str!("../../../demo/run.sh")),
];
const SCRIPT: &str = include_str!("../../../demo/rehearsal.json");

/// A temporary folder with the repository; gone when dropped.
#[derive(Debug)]
pub(super) struct Project {
    folder: tempfile::TempDir,
    vars: Vars,
}

/// What a run of the tests showed.
#[derive(Debug)]
pub(super) struct Tested {
    pub(super) passed: bool,
    pub(super) exit: String,
    pub(super) output: String,
}

impl Project {
    pub(super) fn make(vars: &Vars) -> Result<Self, Failure> {
        let temp = crate::paths::absolute(vars, "TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        let folder = tempfile::Builder::new().prefix("coordd-demo-").tempdir_in(&temp);
        let folder = folder.map_err(|error| cannot_make(&temp, &error))?;
        let project = Self { folder, vars: vars.clone() };
        for (name, text) in FILES {
            write(&project.repository().join(name), text, 0o644)?;
        }
        write(&project.script(), SCRIPT, 0o600)?;
        project.commit()?;
        Ok(project)
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.folder.path().join("dates")
    }

    /// What the rehearsal model plays.
    pub(super) fn script(&self) -> PathBuf {
        self.folder.path().join("rehearsal.json")
    }

    /// The folder stays; says where.
    pub(super) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    pub(super) fn test(&self) -> Result<Tested, Failure> {
        let output = self.run("sh", &["tests/run.sh"])?;
        let code = output.status.code();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok(Tested {
            passed: output.status.success(),
            exit: code.map_or_else(|| output.status.to_string(), |code| code.to_string()),
            output: text,
        })
    }

    pub(super) fn diff(&self) -> Result<String, Failure> {
        let output = self.run("git", &["--no-pager", "diff", "--no-color", "--no-ext-diff"])?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn commit(&self) -> Result<(), Failure> {
        let steps: [&[&str]; 5] = [
            &["init", "--quiet"],
            // Only in this repository; the user's own settings stay as they are.
            &["config", "user.name", "coordd demo"],
            &["config", "user.email", "demo@localhost"],
            &["add", "."],
            &[
                "-c",
                "commit.gpgsign=false",
                "-c",
                "core.hooksPath=/dev/null",
                "commit",
                "--quiet",
                "-m",
                "Date arithmetic",
            ],
        ];
        for args in steps {
            let output = self.run("git", args)?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Failure::failed(format!("`git {}` failed: {said}", args.join(" ")))
                    .hint("the demo needs git, and a git that can commit in a new repository"));
            }
        }
        Ok(())
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<Output, Failure> {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.repository()).stdin(Stdio::null());
        for name in self.vars.keys().filter(|name| crate::env::is_the_callers_own(name)) {
            command.env_remove(name);
        }
        crate::signals::unblocked(|| command.output()).map_err(|error| {
            Failure::failed(format!("cannot run {program}: {error}"))
                .hint(format!("the demo needs {program} in PATH"))
        })
    }
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let written = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        std::io::Write::write_all(&mut file, text.as_bytes())
    };
    written().map_err(|error| cannot_make(path, &error))
}

fn cannot_make(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot make the demo's repository in {}: {error}", path.display()))
        .hint("set TMPDIR to a folder with room that you can write")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_red_and_turns_green_by_the_scripts_own_edit() {
        let project = Project::make(&crate::env::current()).unwrap();
        let before = project.test().unwrap();
        assert!(!before.passed, "{}", before.output);
        assert!(
            before.output.contains("not ok  1900 is a common year")
                && before.output.contains("2 failed")
        );
        let script: serde_json::Value = serde_json::from_str(SCRIPT).unwrap();
        let calls = script["agents"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|agent| agent["steps"].as_array().unwrap());
        let mut calls = calls.flat_map(|step| step["tools"].as_array().into_iter().flatten());
        let edit = &calls.find(|call| call["name"] == "Edit").unwrap()["input"];
        let path = project.repository().join("src/dates.sh");
        let text = std::fs::read_to_string(&path).unwrap();
        let old = edit["old_string"].as_str().unwrap();
        assert_eq!(text.matches(old).count(), 1);
        std::fs::write(&path, text.replace(old, edit["new_string"].as_str().unwrap())).unwrap();
        let after = project.test().unwrap();
        assert!(after.passed, "{}", after.output);
        let diff = project.diff().unwrap();
        assert!(diff.contains("src/dates.sh") && !diff.contains("tests/run.sh"));
    }

    #[test]
    fn everything_goes_with_the_folder() {
        let project = Project::make(&crate::env::current()).unwrap();
        let folder = project.folder.path().to_owned();
        drop(project);
        assert!(!folder.exists());
    }
}
