//! The rule that "always" adds: the narrowest one that is of use.

use std::path::Path;

use super::Permissions;
use super::pattern::{allows, escape};
use super::plain::is_plain_assignment;
use super::rule::RULE_LEN_MAX;
use super::shell::Part;

/// Commands that are asked about again and again with other arguments, and whose arguments name what is built, tested or
/// shown. What runs or writes by an option is not covered by these rules either.
const WITH_ANY_ARGUMENTS: [&str; 22] = [
    "cargo test",
    "cargo nextest",
    "cargo build",
    "cargo check",
    "cargo clippy",
    "cargo fmt",
    "cargo doc",
    "git status",
    "git diff",
    "git log",
    "git show",
    "git blame",
    "git add",
    "git commit",
    "go build",
    "go test",
    "go vet",
    "mypy",
    "pytest",
    "ruff check",
    "shellcheck",
    "tsc",
];

/// A rule for one part of a command.
pub(super) fn subject_of_part(part: &Part) -> Option<String> {
    let is_plain = part.assignments.iter().all(is_plain_assignment);
    let pattern = |known: &&str| format!("{known} *");
    let mut patterns = WITH_ANY_ARGUMENTS.iter().map(pattern).filter(|_| is_plain);
    // What the pattern does not cover for its options is about this call alone.
    match patterns.find(|pattern| allows(pattern, part)) {
        Some(pattern) => Some(format!("Bash({pattern})")),
        None => exact_subject(&part.raw_with_assignments()),
    }
}

/// A rule for this very command.
pub(super) fn exact_subject(command: &str) -> Option<String> {
    let subject = format!("Bash({})", escape(command));
    (!command.is_empty() && subject.len() <= RULE_LEN_MAX).then_some(subject)
}

impl Permissions {
    /// A rule for the folder of a path; for the file alone where the folder configures what runs, or holds much more.
    pub(super) fn subject_of_path(&self, tool: &str, path: &Path) -> String {
        let tool = if tool == "Write" { "Edit" } else { tool };
        let (start, path_inside) = match path.strip_prefix(&self.cwd) {
            Ok(inside) => ("/", inside),
            Err(_) => ("//", path.strip_prefix("/").unwrap_or(path)),
        };
        let folder = path.parent().filter(|folder| !self.is_special(path) && !self.is_wide(folder));
        let inside = path_inside.parent().filter(|inside| !inside.as_os_str().is_empty());
        let escaped = |path: &Path| globset::escape(&path.to_string_lossy());
        match (folder, inside) {
            (Some(_), Some(inside)) => format!("{tool}({start}{}/**)", escaped(inside)),
            _ => format!("{tool}({start}{})", escaped(path_inside)),
        }
    }

    /// Whether an answer of "always" is to be about this one file.
    fn is_special(&self, path: &Path) -> bool {
        self.protected_folder(path).is_some()
            || self.guards.configured(path).is_some()
            || self.guards.sealed(path).is_some()
    }

    /// Whether a folder holds the home folder or the workspace, or lies right below the root.
    fn is_wide(&self, folder: &Path) -> bool {
        let holds = |inner: &Path| inner.starts_with(folder);
        self.home.as_deref().is_some_and(holds)
            || holds(&self.cwd)
            || folder.components().count() <= 2
    }
}
