//! `Glob`: finds files by their path.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::ToolContext;
use super::files::FileError;
use super::paths;
use super::read::resolved;
use super::walk::{FileGlob, Files, LeavesOut, WalkError, left_out, notes};

/// Most paths that are returned: the newest.
const PATHS_MAX: usize = 200;

/// Most paths that are sorted. Beyond that the walk ends.
const FOUND_MAX: usize = 200_000;

pub(super) const DESCRIPTION: &str = "Finds files by a glob such as `**/*.rs` or `src/*.{ts,tsx}`, and returns their paths, \
newest first, at most 200. The pattern is about the path below the working directory, or below `path`; `*` does not cross a \
slash, `**` does. Files that .gitignore names are left out, and hidden ones too unless the pattern names them with their dot.";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum GlobError {
    #[error("The folder cannot be used")]
    File(#[source] FileError),
    #[error(transparent)]
    Walk(WalkError),
    #[error("{} is a file, not a folder. Leave `path` out or name a folder.", path.display())]
    NoFolder { path: PathBuf },
    #[error("The pattern is empty or goes up with `..`. Name the folder in `path` instead.")]
    BadPattern,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": { "type": "string", "description": "The glob." },
            "path": { "type": "string", "description": "The folder to look in. The working directory if left out." }
        },
        "required": ["pattern"],
        "additionalProperties": false
    })
}

pub(super) fn run(input: &Input, context: &ToolContext) -> Result<String, GlobError> {
    if input.pattern.is_empty() || input.pattern.split('/').any(|part| part == "..") {
        return Err(GlobError::BadPattern);
    }
    let folder = input.path.as_deref().filter(|it| !it.is_empty()).unwrap_or(".");
    let (prefix, pattern) = split_literal(&input.pattern);
    let root = resolved(folder, context).map_err(GlobError::File)?;
    check_folder(&root)?;
    let glob = FileGlob::new(pattern, false).map_err(GlobError::Walk)?;
    // `join` with an absolute prefix is that prefix.
    let start = paths::resolve(&root.join(prefix))
        .map_err(|error| GlobError::File(FileError::Path(error)))?;
    if !start.is_dir() {
        return Ok("No files found.".to_owned());
    }
    let leaves_out = LeavesOut::of(glob.names_hidden);
    let mut files = Files::below(&start, leaves_out, None, context);
    let mut found: Vec<(SystemTime, PathBuf)> = files
        .by_ref()
        .filter(|path| glob.accepts(path, &start, &start))
        .take(FOUND_MAX)
        .map(|path| (modified(&path), path))
        .collect();
    let mut notes = notes(files.cut || found.len() == FOUND_MAX, files.unreadable);
    if found.is_empty() {
        let fits = |path: &Path| glob.accepts(path, &start, &start);
        notes.push_str(&left_out(&start, leaves_out, None, context, fits).note());
    }
    found.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
    Ok(show(&found, context) + &notes)
}

fn check_folder(root: &Path) -> Result<(), GlobError> {
    if root.is_dir() {
        return Ok(());
    }
    let path = root.to_owned();
    if root.exists() {
        return Err(GlobError::NoFolder { path });
    }
    let suggestion = paths::suggestion(root);
    Err(GlobError::Walk(WalkError::Missing { path, suggestion }))
}

fn show(found: &[(SystemTime, PathBuf)], context: &ToolContext) -> String {
    if found.is_empty() {
        return "No files found.".to_owned();
    }
    let mut text = String::new();
    let mut shown = 0;
    for (_, path) in found.iter().take(PATHS_MAX) {
        let line = format!("{}\n", context.shown(path).display());
        if text.len() + line.len() > context.output_len_max {
            break;
        }
        text.push_str(&line);
        shown += 1;
    }
    let left = found.len() - shown;
    if left > 0 {
        text = format!("{text}[{left} older files not shown: narrow the pattern or `path`]");
    }
    text.trim_end().to_owned()
}

fn modified(path: &Path) -> SystemTime {
    let metadata = std::fs::symlink_metadata(path).ok();
    metadata.and_then(|metadata| metadata.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Splits off the leading folders that hold no wildcard, so that only what can match is walked.
pub(super) fn split_literal(pattern: &str) -> (&str, &str) {
    let wild = pattern.find(['*', '?', '[', '{', '\\', '!']).unwrap_or(pattern.len());
    match pattern.get(..wild).and_then(|pattern| pattern.rfind('/')) {
        Some(0) => ("/", pattern.get(1..).unwrap_or_default()),
        Some(slash) => {
            let (prefix, rest) = pattern.split_at(slash);
            (prefix, rest.get(1..).unwrap_or_default())
        }
        None => ("", pattern),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::walk::tests::tree;
    use super::*;

    fn glob(context: &ToolContext, pattern: &str, path: Option<&str>) -> Result<String, String> {
        let input = Input { pattern: pattern.to_owned(), path: path.map(str::to_owned) };
        run(&input, context).map_err(|error| error.to_string())
    }

    fn age(context: &ToolContext, path: &str, seconds: u64) {
        let file = std::fs::File::options().append(true).open(context.cwd.join(path)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn the_newest_come_first() {
        let (_dir, context) = tree();
        age(&context, "a.rs", 100);
        age(&context, "src/lib.rs", 50);
        age(&context, "src/deep/er.py", 10);
        assert_eq!(glob(&context, "**/*.rs", None).unwrap(), "src/lib.rs\na.rs");
        assert_eq!(
            glob(&context, "**/*.{rs,py}", None).unwrap(),
            "src/deep/er.py\nsrc/lib.rs\na.rs"
        );
    }

    #[test]
    fn patterns_are_about_the_path_below_the_folder() {
        let (_dir, context) = tree();
        let cwd = context.cwd.display().to_string();
        for (pattern, path, expected) in [
            ("*.rs", None, "a.rs"),
            ("src/*.rs", None, "src/lib.rs"),
            ("./src/*.rs", None, "src/lib.rs"),
            ("*.rs", Some("src"), "src/lib.rs"),
            ("src/deep/**", None, "src/deep/er.py"),
            ("a.rs", None, "a.rs"),
            (&format!("{cwd}/src/*.rs"), None, "src/lib.rs"),
            (".github/*", None, ".github/ci.yml"),
            ("gone/**", None, "No files found."),
            ("**/*.none", None, "No files found."),
            ("target/*.rs", None, "target/out.rs"),
        ] {
            assert_eq!(glob(&context, pattern, path).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn wrong_folders_and_patterns_say_what_to_do() {
        let (_dir, context) = tree();
        assert!(glob(&context, "*", Some("a.rs")).unwrap_err().contains("is a file"));
        assert!(glob(&context, "*", Some("srx")).unwrap_err().contains("Did you mean"));
        assert!(glob(&context, "../*", None).unwrap_err().contains("`path`"));
        assert!(glob(&context, "a[", None).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn many_files_are_counted_and_not_listed() {
        let (_dir, context) = tree();
        std::fs::create_dir(context.cwd.join("many")).unwrap();
        for number in 0..PATHS_MAX + 7 {
            std::fs::write(context.cwd.join(format!("many/{number}")), "").unwrap();
        }
        let text = glob(&context, "many/*", None).unwrap();
        assert_eq!(text.lines().count(), PATHS_MAX + 1);
        assert!(text.ends_with("[7 older files not shown: narrow the pattern or `path`]"));
    }

    /// fT16: as for Grep.
    #[test]
    fn ft16_what_was_named_is_found_though_it_is_ignored() {
        let (_dir, context) = tree();
        std::fs::create_dir(context.cwd.join("scripts")).unwrap();
        std::fs::write(context.cwd.join("scripts/run"), "").unwrap();
        std::fs::write(context.cwd.join(".gitignore"), "scripts/*\n").unwrap();
        let find = |pattern: &str| {
            let input = serde_json::from_value(json!({ "pattern": pattern })).unwrap();
            run(&input, &context).unwrap()
        };
        assert_eq!(find("scripts/*"), "scripts/run");
        let blind = find("**/run");
        assert!(blind.contains("1 that .gitignore names"), "{blind}");
        assert_eq!(find("**/absent"), "No files found.");
    }
}
