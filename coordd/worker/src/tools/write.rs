//! `Write`: makes a file, or replaces the content of one that the agent has seen.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::ToolContext;
use super::files::{self, FileError};
use super::read::resolved;

pub(super) const DESCRIPTION: &str = "Writes a file: makes it, with the folders that it needs, or replaces its whole content. \
A file that exists must have been read with Read before, and not have changed since; otherwise nothing is written. For a \
change in a file prefer Edit. Give an absolute path.";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    file_path: String,
    content: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    File(FileError),
    #[error("{} exists and you have not read it. Read it first, then write.", path.display())]
    NotRead { path: PathBuf },
    #[error("{} has changed since you read it. Read it again, then write.", path.display())]
    Changed { path: PathBuf },
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Absolute path of the file." },
            "content": { "type": "string", "description": "The whole content." }
        },
        "required": ["file_path", "content"],
        "additionalProperties": false
    })
}

pub(super) fn run(input: &Input, context: &ToolContext) -> Result<String, WriteError> {
    let path = resolved(&input.file_path, context).map_err(WriteError::File)?;
    let now = files::fingerprint(&path).map_err(WriteError::File)?;
    let done = match (now, context.seen.get(&path)) {
        (None, _) => "Made",
        (Some(_), None) => return Err(WriteError::NotRead { path }),
        (Some(now), Some(seen)) if !seen.is_same_content(&now) => {
            return Err(WriteError::Changed { path });
        }
        (Some(_), Some(_)) => "Replaced",
    };
    let written = files::replace(&path, input.content.as_bytes()).map_err(WriteError::File)?;
    let text = format!("{done} {} ({} bytes).", path.display(), written.len);
    context.seen.note(path, written);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::super::read;
    use super::*;

    fn folder() -> (tempfile::TempDir, ToolContext) {
        let dir = tempfile::tempdir().unwrap();
        let context = ToolContext::new(dir.path().canonicalize().unwrap(), BTreeMap::new());
        (dir, context)
    }

    fn write(context: &ToolContext, path: &str, text: &str) -> Result<String, WriteError> {
        run(&Input { file_path: path.to_owned(), content: text.to_owned() }, context)
    }

    fn look(context: &ToolContext, path: &str) {
        let input = serde_json::from_value(json!({ "file_path": path })).unwrap();
        read::run(&input, context).unwrap();
    }

    fn content(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_new_file_gets_its_folders_and_may_be_written_again() {
        let (_dir, context) = folder();
        let text = write(&context, "a/b/c.txt", "one").unwrap();
        assert!(text.starts_with("Made /") && text.ends_with("a/b/c.txt (3 bytes)."), "{text}");
        assert!(write(&context, "a/b/c.txt", "two").unwrap().starts_with("Replaced"));
        assert_eq!(content(&context.cwd.join("a/b/c.txt")), "two");
    }

    #[test]
    fn a_file_that_was_not_read_is_not_overwritten() {
        let (_dir, context) = folder();
        let path = context.cwd.join("a");
        std::fs::write(&path, "theirs").unwrap();
        assert!(matches!(write(&context, "a", "mine"), Err(WriteError::NotRead { .. })));
        look(&context, "a");
        write(&context, "a", "mine").unwrap();
        assert_eq!(content(&path), "mine");
    }

    /// A change of the same length within the same tick of the clock counts as well.
    #[test]
    fn a_file_that_changed_is_not_overwritten() {
        let (_dir, context) = folder();
        let path = context.cwd.join("a");
        std::fs::write(&path, "abc").unwrap();
        look(&context, "a");
        let modified = path.metadata().unwrap().modified().unwrap();
        std::fs::write(&path, "abd").unwrap();
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert!(matches!(write(&context, "a", "mine"), Err(WriteError::Changed { .. })));
        assert_eq!(content(&path), "abd");
    }

    #[test]
    fn a_symlink_stays_and_its_target_is_written() {
        let (_dir, context) = folder();
        std::fs::write(context.cwd.join("target"), "x").unwrap();
        std::os::unix::fs::symlink("target", context.cwd.join("link")).unwrap();
        look(&context, "link");
        write(&context, "link", "y").unwrap();
        assert!(context.cwd.join("link").is_symlink());
        assert_eq!(content(&context.cwd.join("target")), "y");
    }

    #[test]
    fn a_folder_or_a_file_in_the_way_is_an_error() {
        let (_dir, context) = folder();
        std::fs::write(context.cwd.join("file"), "x").unwrap();
        assert!(matches!(
            write(&context, ".", "y"),
            Err(WriteError::File(FileError::Folder { .. }))
        ));
        assert!(write(&context, "file/below", "y").is_err());
        assert_eq!(content(&context.cwd.join("file")), "x");
    }
}
