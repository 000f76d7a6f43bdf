//! `Edit`: replaces one exact piece of text in a file that the agent has seen.
//!
//! It must not guess: a piece that is not there, or there more than once, changes nothing.

mod nearly;

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::ToolContext;
use super::files::{self, FileError};
use super::input::flag;
use super::read::resolved;

/// Most line numbers that an answer lists.
const LINES_LISTED_MAX: usize = 10;

pub(super) const DESCRIPTION: &str = "Replaces text in a file. `old_string` must be exactly as in the file, with its \
indentation and without the line numbers that Read puts in front, and must occur once; add lines around it to make it unique, \
or set `replace_all` to change every occurrence. The file must have been read with Read before, and not have changed since. \
Line endings stay as they are. An empty `old_string` makes a new file of `new_string`. Give an absolute path.";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default, deserialize_with = "flag")]
    replace_all: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error(transparent)]
    File(FileError),
    #[error("old_string and new_string are the same, so nothing would change. Give another text.")]
    NoChange,
    #[error(
        "old_string is empty, which makes a new file, but {} exists. Read it and give the text to replace.",
        path.display()
    )]
    Exists { path: PathBuf },
    #[error("You have not read {}. Read it first, then edit.", path.display())]
    NotRead { path: PathBuf },
    #[error("{} has changed since you read it. Read it again, then edit.", path.display())]
    Changed { path: PathBuf },
    #[error("{} is not UTF-8 text. Change it with a program in Bash.", path.display())]
    NotText { path: PathBuf },
    #[error("old_string does not occur in {}.{hint} Nothing was changed.", path.display())]
    NotFound { path: PathBuf, hint: String },
    #[error(
        "old_string occurs {count} times in {} (lines {lines}). Add lines around it until it is unique, or set replace_all. \
         Nothing was changed.",
        path.display()
    )]
    NotUnique { path: PathBuf, count: usize, lines: String },
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Absolute path of the file." },
            "old_string": { "type": "string", "description": "The text to replace, exactly as it is in the file." },
            "new_string": { "type": "string", "description": "The text to put there." },
            "replace_all": { "type": "boolean", "description": "Replace every occurrence. False if left out." }
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": false
    })
}

pub(super) fn run(input: &Input, context: &ToolContext) -> Result<String, EditError> {
    let path = resolved(&input.file_path, context).map_err(EditError::File)?;
    if input.old_string == input.new_string {
        return Err(EditError::NoChange);
    }
    if input.old_string.is_empty() {
        return make(path, &input.new_string, context);
    }
    let (whole, now) = files::read_whole(&path).map_err(EditError::File)?;
    match context.seen.get(&path) {
        None => return Err(EditError::NotRead { path }),
        Some(seen) if !seen.is_same_content(&now) => return Err(EditError::Changed { path }),
        Some(_) => {}
    }
    let Ok(whole) = String::from_utf8(whole) else {
        return Err(EditError::NotText { path });
    };
    let (old, new) = fit_line_endings(&whole, input);
    let places: Vec<usize> = whole.match_indices(old.as_str()).map(|(at, _)| at).collect();
    if places.is_empty() {
        let hint = nearly::hint(&whole, &input.old_string);
        return Err(EditError::NotFound { path, hint });
    }
    let lines = lines_of(&whole, &places);
    if places.len() > 1 && !input.replace_all {
        return Err(EditError::NotUnique { path, count: places.len(), lines });
    }
    let changed = whole.replace(old.as_str(), &new);
    let written = files::replace(&path, changed.as_bytes()).map_err(EditError::File)?;
    let count = places.len();
    let what = if count == 1 { "1 occurrence, line" } else { "occurrences, lines" };
    let text = if count == 1 {
        format!("Changed {} ({what} {lines}).", path.display())
    } else {
        format!("Changed {} ({count} {what} {lines}).", path.display())
    };
    context.seen.note(path, written);
    Ok(text)
}

fn make(path: PathBuf, new: &str, context: &ToolContext) -> Result<String, EditError> {
    if files::fingerprint(&path).map_err(EditError::File)?.is_some_and(|error| error.len > 0) {
        return Err(EditError::Exists { path });
    }
    let written = files::replace(&path, new.as_bytes()).map_err(EditError::File)?;
    let text = format!("Made {} ({} bytes).", path.display(), written.len);
    context.seen.note(path, written);
    Ok(text)
}

/// Models write line feeds alone. In a file whose lines end with CRLF, both texts get its ending.
fn fit_line_endings(content: &str, input: &Input) -> (String, String) {
    let as_written = (input.old_string.clone(), input.new_string.clone());
    let lines = content.matches('\n').count();
    let crlf_lines = content.matches("\r\n").count();
    if crlf_lines * 2 <= lines {
        return as_written;
    }
    let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let fitted = crlf(&input.old_string);
    if content.contains(&fitted) { (fitted, crlf(&input.new_string)) } else { as_written }
}

fn lines_of(content: &str, places: &[usize]) -> String {
    let mut numbers = Vec::new();
    let (mut line, mut from) = (1, 0);
    for at in places.iter().take(LINES_LISTED_MAX) {
        line += content.get(from..*at).unwrap_or_default().matches('\n').count();
        from = *at;
        numbers.push(line.to_string());
    }
    let more = if places.len() > LINES_LISTED_MAX { ", …" } else { "" };
    format!("{}{more}", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::read;
    use super::*;

    struct File {
        _dir: tempfile::TempDir,
        context: ToolContext,
        path: PathBuf,
    }

    /// A file that the agent has read.
    fn file(content: impl AsRef<[u8]>) -> File {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        let path = cwd.join("a");
        std::fs::write(&path, content).unwrap();
        let file = File { _dir: dir, context: ToolContext::new(cwd, BTreeMap::new()), path };
        file.look();
        file
    }

    impl File {
        fn look(&self) {
            let input = serde_json::from_value(json!({ "file_path": "a" })).unwrap();
            read::run(&input, &self.context).unwrap();
        }

        fn edit(&self, old: &str, new: &str, replace_all: bool) -> Result<String, String> {
            let input = Input {
                file_path: "a".to_owned(),
                old_string: old.to_owned(),
                new_string: new.to_owned(),
                replace_all,
            };
            run(&input, &self.context).map_err(|error| error.to_string())
        }

        fn content(&self) -> String {
            std::fs::read_to_string(&self.path).unwrap()
        }
    }

    #[test]
    fn one_exact_occurrence_is_replaced_and_can_be_edited_again() {
        let file = file("a\nb\nc\n");
        let text = file.edit("b", "x\ny", false).unwrap();
        assert!(text.ends_with("/a (1 occurrence, line 2)."), "{text}");
        file.edit("y", "z", false).unwrap();
        assert_eq!(file.content(), "a\nx\nz\nc\n");
    }

    #[test]
    fn several_occurrences_are_counted_and_need_replace_all() {
        let file = file("b\na b\nb");
        let error = file.edit("b", "c", false).unwrap_err();
        assert!(error.contains("occurs 3 times") && error.contains("(lines 1, 2, 3)"), "{error}");
        assert_eq!(file.content(), "b\na b\nb");
        assert!(file.edit("b", "c", true).unwrap().contains("(3 occurrences, lines 1, 2, 3)"));
        assert_eq!(file.content(), "c\na c\nc");
    }

    #[test]
    fn what_does_not_occur_is_explained() {
        let file = file("fn a() {\n\tbody();\n}\n");
        let error = file.edit("    body();", "x", false).unwrap_err();
        assert!(error.contains("like line 2; compare the whitespace"), "{error}");
        let error = file.edit("     2\tbody();", "x", false).unwrap_err();
        assert!(error.contains("leave them out"), "{error}");
        let error = file.edit("nothing", "x", false).unwrap_err();
        assert!(error.contains("Read the file again"), "{error}");
        assert!(file.edit("a", "a", false).unwrap_err().contains("nothing would change"));
    }

    #[test]
    fn line_endings_stay() {
        let crlf = file("a\r\nb\r\nc\r\n");
        crlf.edit("a\nb", "x\ny\nz", false).unwrap();
        crlf.edit("c", "c\nd", false).unwrap();
        assert_eq!(crlf.content(), "x\r\ny\r\nz\r\nc\r\nd\r\n");
        let lf = file("a\nb\n");
        lf.edit("a", "x\ny", false).unwrap();
        assert_eq!(lf.content(), "x\ny\nb\n");
    }

    #[test]
    fn a_file_must_have_been_read_and_be_unchanged() {
        let file = file("abc");
        std::fs::write(&file.path, "abd").unwrap();
        assert!(file.edit("ab", "x", false).unwrap_err().contains("has changed since you read it"));
        file.look();
        file.edit("ab", "x", false).unwrap();
        let fresh = ToolContext::new(file.context.cwd.clone(), BTreeMap::new());
        let file = File { context: fresh, ..file };
        assert!(file.edit("x", "y", false).unwrap_err().contains("Read it first"));
        assert_eq!(file.content(), "xd");
    }

    #[test]
    fn an_empty_old_string_makes_a_file_but_overwrites_none() {
        let file = file("abc");
        assert!(file.edit("", "x", false).unwrap_err().contains("exists"));
        std::fs::remove_file(&file.path).unwrap();
        assert!(file.edit("a", "x", false).unwrap_err().contains("does not exist"));
        file.edit("", "new", false).unwrap();
        assert_eq!(file.content(), "new");
    }

    #[test]
    fn other_encodings_are_left_alone() {
        let file = file(b"caf\xe9");
        assert!(file.edit("caf", "x", false).unwrap_err().contains("not UTF-8"));
        assert_eq!(std::fs::read(&file.path).unwrap(), b"caf\xe9");
    }
}
