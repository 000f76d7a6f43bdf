//! What a call would change in a file, as a diff for the person who is asked about it.
//!
//! It reads at most the one file that the call names, and changes nothing. Where it cannot tell it says why, or nothing: then the
//! call's own texts are shown. What a rule hides, or the daemon keeps sealed, does not go into a question.

use std::path::Path;
use std::time::Duration;

use proto::agent::Change;
use serde_json::Value;
use similar::{Algorithm, ChangeTag, TextDiff};

use super::context::ToolContext;
use super::files::{self, FileError};
use super::read::resolved;

/// Largest file, and largest new text, that is compared: a person reads no more, and it takes no time.
const COMPARED_LEN_MAX: usize = 1024 * 1024;
/// How long the search for the smallest difference may take; what is found by then is as true.
const COMPARING_MAX: Duration = Duration::from_millis(200);
/// Bytes of a diff that a question carries.
const DIFF_LEN_MAX: usize = 32 * 1024;
/// Bytes of one line of it: some files have a single one.
const LINE_LEN_MAX: usize = 2 * 1024;
/// Lines around a change.
const AROUND: usize = 3;

/// The change that a call makes; none if it makes none that can be told. The diff takes at most `room` bytes.
pub(crate) fn of(tool: &str, input: &Value, context: &ToolContext, room: usize) -> Option<Change> {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let path = resolved(text("file_path")?, context).ok()?;
    let is_secret = |path: &Path| {
        context.hides(path) || context.withheld.as_ref().is_some_and(|withholds| withholds(path))
    };
    let edit = match tool {
        "Write" => Edit::Whole(text("content")?),
        "Edit" => Edit::Part {
            old: text("old_string")?,
            new: text("new_string")?,
            all: input.get("replace_all").and_then(Value::as_bool).unwrap_or(false),
        },
        _ => return None,
    };
    if is_secret(&path) {
        return None;
    }
    let (before, is_new) = match files::read_whole(&path) {
        Ok((bytes, _)) if bytes.len() > COMPARED_LEN_MAX => return None,
        Ok((bytes, _)) => (String::from_utf8(bytes).ok()?, false),
        Err(FileError::Missing { .. }) => (String::new(), true),
        // The call will say what is the matter.
        Err(_) => return None,
    };
    // Line ends of the file may be others than those of the call: then its own texts tell more than a wrong diff.
    if matches!(edit, Edit::Part { .. }) && before.contains("\r\n") {
        return None;
    }
    let (after, note) = edit.applied(&before);
    if after.len() > COMPARED_LEN_MAX {
        return None;
    }
    let mut change = compared(&before, &after, room.min(DIFF_LEN_MAX));
    change.is_new = is_new;
    note.clone_into(&mut change.note);
    Some(change)
}

enum Edit<'a> {
    Whole(&'a str),
    Part { old: &'a str, new: &'a str, all: bool },
}

impl Edit<'_> {
    /// The content afterwards, and what is to be known about it.
    fn applied(&self, before: &str) -> (String, &'static str) {
        match self {
            Self::Whole(content) => ((*content).to_owned(), ""),
            Self::Part { old: "", new, .. } if before.is_empty() => ((*new).to_owned(), ""),
            Self::Part { old, new, all } => {
                let count = if old.is_empty() { 0 } else { before.matches(old).count() };
                match (count, all) {
                    // The file stays as it is.
                    (0, _) => (
                        before.to_owned(),
                        "the text to replace is not in the file as it is now: the call will fail",
                    ),
                    (1, _) | (_, true) => (before.replace(old, new), ""),
                    (_, false) => (
                        before.replacen(old, new, 1),
                        "the text to replace is in the file more than once: the call will fail",
                    ),
                }
            }
        }
    }
}

fn compared(before: &str, after: &str, room: usize) -> Change {
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(COMPARING_MAX)
        .diff_lines(before, after);
    let count = |tag: ChangeTag| {
        let count = diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
    let whole = diff.unified_diff().context_radius(AROUND).to_string();
    let (mut text, mut left_out) = (String::new(), 0);
    for line in whole.lines() {
        let line = cut(line);
        if left_out > 0 || text.len() + line.len() + 1 > room {
            left_out += 1;
            continue;
        }
        text.push_str(&line);
        text.push('\n');
    }
    Change { added, removed, diff: text, left_out, is_new: false, note: String::new() }
}

fn cut(line: &str) -> String {
    if line.len() <= LINE_LEN_MAX {
        return line.to_owned();
    }
    let shown = super::cut(line, LINE_LEN_MAX);
    format!("{shown} [{} bytes of this line are cut]", line.len().saturating_sub(shown.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn folder() -> (tempfile::TempDir, ToolContext) {
        let dir = tempfile::tempdir().unwrap();
        let context = ToolContext::new(dir.path().canonicalize().unwrap(), BTreeMap::new());
        (dir, context)
    }

    fn change(tool: &str, input: &Value, context: &ToolContext) -> Option<Change> {
        of(tool, input, context, usize::MAX)
    }

    /// A-1, fP8: an edit is asked about with what it changes.
    #[test]
    fn fp8_a1_an_edit_is_told_as_a_diff_of_the_file() {
        let (dir, context) = folder();
        std::fs::write(dir.path().join("a"), "1\n2\n3\n4\n5\n6\n7\n").unwrap();
        let input = json!({ "file_path": "a", "old_string": "4\n", "new_string": "four\nand\n" });
        let told = change("Edit", &input, &context).unwrap();
        assert_eq!(told.diff, "@@ -1,7 +1,8 @@\n 1\n 2\n 3\n-4\n+four\n+and\n 5\n 6\n 7\n");
        assert_eq!((told.added, told.removed, told.left_out, told.is_new), (2, 1, 0, false));
        let input = json!({ "file_path": "a", "content": "1\n" });
        assert_eq!(change("Write", &input, &context).unwrap().removed, 6);
        let input = json!({ "file_path": "new", "content": "x\ny\n" });
        let told = change("Write", &input, &context).unwrap();
        assert!(told.is_new && told.diff.ends_with("+x\n+y\n"), "{told:?}");
    }

    /// What cannot be done as it stands is said before somebody allows it.
    #[test]
    fn a1_an_edit_that_will_fail_says_so() {
        let (dir, context) = folder();
        std::fs::write(dir.path().join("a"), "x\nx\n").unwrap();
        let input = json!({ "file_path": "a", "old_string": "y", "new_string": "z" });
        assert!(change("Edit", &input, &context).unwrap().note.contains("not in the file"));
        let input = json!({ "file_path": "a", "old_string": "x", "new_string": "z" });
        assert!(change("Edit", &input, &context).unwrap().note.contains("more than once"));
        let input =
            json!({ "file_path": "a", "old_string": "x", "new_string": "z", "replace_all": true });
        assert_eq!(change("Edit", &input, &context).unwrap().added, 2);
    }

    /// what is long is cut, and counted.
    #[test]
    fn a1_a_long_change_is_cut_and_counted() {
        let (_dir, context) = folder();
        let lines = (0..20_000).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        let told =
            change("Write", &json!({ "file_path": "a", "content": lines }), &context).unwrap();
        assert!(told.diff.len() <= DIFF_LEN_MAX && told.added == 20_000);
        let shown = u32::try_from(told.diff.lines().count()).unwrap();
        assert_eq!(shown + told.left_out, 20_001);
        let long = "x".repeat(10_000);
        let told =
            change("Write", &json!({ "file_path": "a", "content": long }), &context).unwrap();
        assert!(told.diff.contains("bytes of this line are cut"), "{}", told.diff.len());
        let told =
            of("Write", &json!({ "file_path": "a", "content": "x\n" }), &context, 0).unwrap();
        assert_eq!((told.diff.as_str(), told.left_out), ("", 2));
    }

    /// What a rule hides, or what is no text, does not go into a question; nor is anything opened that may block.
    #[test]
    fn a1_nothing_that_is_hidden_is_told() {
        let (dir, mut context) = folder();
        std::fs::write(dir.path().join("a"), "secret\n").unwrap();
        std::fs::write(dir.path().join("bin"), [0xff, 0xfe]).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), rustix::fs::Mode::RWXU)
            .unwrap();
        for path in ["bin", "fifo", "."] {
            let input = json!({ "file_path": path, "content": "x" });
            assert_eq!(change("Write", &input, &context), None, "{path}");
        }
        let input = json!({ "file_path": "a", "content": "x" });
        assert!(change("Write", &input, &context).unwrap().diff.contains("-secret"));
        context.withheld = Some(Arc::new(|path: &Path| path.ends_with("a")));
        assert_eq!(change("Write", &input, &context), None);
        (context.hidden, context.withheld) = (context.withheld.take(), None);
        assert_eq!(change("Write", &input, &context), None);
        assert_eq!(change("Bash", &json!({ "command": "x" }), &context), None);
    }
}
