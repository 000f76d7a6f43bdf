//! `Grep`: finds lines by a regular expression, with the libraries of ripgrep.
//!
//! It returns what fits and says what is missing; it must not hold a whole file in memory unless
//! asked to match across lines.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ::grep::regex::{RegexMatcher, RegexMatcherBuilder};
use ::grep::searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bounded::visible;
use super::context::{Stop, ToolContext};
use super::files::{self, FileError};
use super::input::{flag, number};
use super::paths;
use super::read::resolved;
use super::walk::{FileGlob, Files, LeavesOut, WalkError, left_out, notes};

/// Lines or paths that are returned unless the call says otherwise.
const HEAD_LIMIT_DEFAULT: u64 = 250;

/// Longest line that is shown, in characters: longer ones are minified or generated.
const LINE_LEN_MAX: usize = 500;

/// Lines around a match: with more, reading the file is the better way.
const CONTEXT_LINES_MAX: u64 = 100;

/// Most memory for one file: it holds one line, or the whole file when matching across lines.
const HEAP_LEN_MAX: usize = 64 * 1024 * 1024;

pub(super) const DESCRIPTION: &str = "Searches the contents of files with a regular expression (Rust's syntax: no \
look-around, no back-references; escape braces that are meant as such). `path` is a file or a folder, the working directory if \
left out. `glob` or `type` chooses the files. `output_mode` is `files_with_matches` (paths, newest first; the default), \
`content` (the lines) or `count`. Files that .gitignore names, hidden and binary files are left out, unless `path` or `glob` \
names a hidden one with its dot. Set `multiline` for a pattern that goes over several lines.";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default, rename = "type")]
    file_type: Option<String>,
    #[serde(default)]
    output_mode: OutputMode,
    #[serde(default, rename = "-i", deserialize_with = "flag")]
    ignore_case: bool,
    /// Line numbers: on, unless the call says no.
    #[serde(default = "yes", rename = "-n", deserialize_with = "flag")]
    line_numbers: bool,
    #[serde(default, rename = "-A", deserialize_with = "number")]
    after: Option<u64>,
    #[serde(default, rename = "-B", deserialize_with = "number")]
    before: Option<u64>,
    #[serde(default, rename = "-C", deserialize_with = "number")]
    around: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    head_limit: Option<u64>,
    #[serde(default, deserialize_with = "flag")]
    multiline: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, thiserror::Error)]
pub(super) enum GrepError {
    #[error("The path cannot be used")]
    File(#[source] FileError),
    #[error(transparent)]
    Walk(WalkError),
    #[error("The pattern is empty. Give one, or use Glob to list files.")]
    Empty,
    #[error("The pattern cannot be read (for a line break in it, set multiline). Correct it")]
    BadPattern(#[source] ::grep::regex::Error),
    #[error("There is no file type {name:?}. Use `glob`, for example \"*.{name}\".")]
    NoType { name: String },
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": { "type": "string", "description": "The regular expression." },
            "path": { "type": "string", "description": "File or folder to search." },
            "glob": { "type": "string", "description": "Only files that match, for example *.{ts,tsx}. A leading ! excludes them." },
            "type": { "type": "string", "description": "Only files of this kind: rust, py, js, go, …" },
            "output_mode": { "type": "string", "enum": ["content", "files_with_matches", "count"] },
            "-i": { "type": "boolean", "description": "Ignore case." },
            "-n": { "type": "boolean", "description": "Line numbers, in mode content. True if left out." },
            "-A": { "type": "integer", "description": "Lines to show after each match, in mode content." },
            "-B": { "type": "integer", "description": "Lines to show before each match." },
            "-C": { "type": "integer", "description": "Lines to show before and after each match." },
            "head_limit": { "type": "integer", "description": "Most lines or paths to return: 250 if left out, 0 for as many as fit." },
            "multiline": { "type": "boolean", "description": "Let the pattern, and `.` in it, match line breaks." }
        },
        "required": ["pattern"],
        "additionalProperties": false
    })
}

pub(super) fn run(input: &Input, context: &ToolContext) -> Result<String, GrepError> {
    if input.pattern.is_empty() {
        return Err(GrepError::Empty);
    }
    let matcher = matcher(input)?;
    let mut searcher = searcher(input);
    let glob = input.glob.as_deref().filter(|it| !it.is_empty());
    let glob = glob.map(|glob| FileGlob::new(glob, true)).transpose().map_err(GrepError::Walk)?;
    let types = input.file_type.as_deref().filter(|it| !it.is_empty()).map(types).transpose()?;
    let path = input.path.as_deref().filter(|it| !it.is_empty()).unwrap_or(".");
    let root = resolved(path, context).map_err(GrepError::File)?;
    let Ok(metadata) = std::fs::symlink_metadata(&root) else {
        let suggestion = paths::suggestion(&root);
        return Err(GrepError::Walk(WalkError::Missing { path: root, suggestion }));
    };
    let mut results = Results::new(input, context);
    if !metadata.is_dir() {
        if !context.hides(&root) {
            // Said aloud, because this one file is what the call is about.
            files::open_regular(&root).map_err(GrepError::File)?;
            results.search(&mut searcher, &matcher, &root, context);
        }
        return Ok(results.into_text(context, ""));
    }
    let leaves_out = LeavesOut::of(glob.as_ref().is_some_and(|glob| glob.names_hidden));
    let fits = |path: &Path| {
        glob.as_ref().is_none_or(|glob| glob.accepts(path, &root, context.real_cwd()))
    };
    let mut files = Files::below(&root, leaves_out, types.clone(), context);
    while !results.is_full()
        && let Some(path) = files.next()
    {
        if fits(&path) {
            results.search(&mut searcher, &matcher, &path, context);
        }
    }
    let mut notes = notes(files.cut, files.unreadable + results.unreadable);
    if results.is_empty() {
        notes.push_str(&left_out(&root, leaves_out, types, context, fits).note());
    }
    Ok(results.into_text(context, &notes))
}

fn matcher(input: &Input) -> Result<RegexMatcher, GrepError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(input.ignore_case).multi_line(true);
    if input.multiline {
        builder.dot_matches_new_line(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&input.pattern).map_err(GrepError::BadPattern)
}

fn searcher(input: &Input) -> Searcher {
    let lines = |own: Option<u64>| {
        let wanted = own.or(input.around).unwrap_or(0).min(CONTEXT_LINES_MAX);
        let shown = input.output_mode == OutputMode::Content;
        if shown { usize::try_from(wanted).unwrap_or(0) } else { 0 }
    };
    SearcherBuilder::new()
        .line_number(true)
        .before_context(lines(input.before))
        .after_context(lines(input.after))
        .multi_line(input.multiline)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP_LEN_MAX))
        .build()
}

fn types(name: &str) -> Result<Types, GrepError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(name);
    builder.build().map_err(|_| GrepError::NoType { name: name.to_owned() })
}

/// What was found so far, within the bounds.
struct Results {
    mode: OutputMode,
    line_numbers: bool,
    limit: usize,
    len_max: usize,
    stop: Stop,
    lines: Vec<String>,
    len: usize,
    files: Vec<(SystemTime, PathBuf)>,
    matches: u64,
    unreadable: usize,
    /// Something was left out for want of room.
    full: bool,
}

impl Results {
    fn new(input: &Input, context: &ToolContext) -> Self {
        let limit = match input.head_limit.unwrap_or(HEAD_LIMIT_DEFAULT) {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        Self {
            mode: input.output_mode,
            line_numbers: input.line_numbers,
            limit,
            len_max: context.output_len_max,
            stop: context.stop.clone(),
            lines: Vec::new(),
            len: 0,
            files: Vec::new(),
            matches: 0,
            unreadable: 0,
            full: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.matches == 0 && !self.full
    }

    fn is_full(&self) -> bool {
        self.full
    }

    fn search(
        &mut self,
        searcher: &mut Searcher,
        pattern: &RegexMatcher,
        path: &Path,
        context: &ToolContext,
    ) {
        let Ok((file, metadata)) = files::open_regular(path) else {
            self.unreadable += 1;
            return;
        };
        let shown = context.shown(path).display().to_string();
        let mut sink = FileSink { results: self, shown: &shown, matches: 0 };
        let outcome = searcher.search_file(pattern, &file, &mut sink);
        let count = sink.matches;
        if outcome.is_err() {
            self.unreadable += 1;
        }
        if count == 0 {
            return;
        }
        self.matches += count;
        match self.mode {
            OutputMode::Content => {}
            OutputMode::Count => self.push(format!("{shown}:{count}")),
            OutputMode::FilesWithMatches => {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                self.files.push((modified, path.to_owned()));
            }
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() >= self.limit || self.len + line.len() + 1 > self.len_max {
            self.full = true;
        } else {
            self.len += line.len() + 1;
            self.lines.push(line);
        }
    }

    fn into_text(mut self, context: &ToolContext, notes: &str) -> String {
        let mut files = std::mem::take(&mut self.files);
        files.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
        for (_, path) in &files {
            self.push(context.shown(path).display().to_string());
        }
        if self.lines.is_empty() && !self.full {
            return format!("No matches found.{notes}");
        }
        let mut text = self.lines.join("\n");
        if self.mode == OutputMode::Count && !self.full {
            text = format!("{text}\n{} matches in all", self.matches);
        }
        if self.full {
            text.push_str("\n[there is more: narrow the pattern, `path` or `glob`]");
        }
        text + notes
    }
}

/// Takes what is found in one file.
struct FileSink<'a> {
    results: &'a mut Results,
    shown: &'a str,
    matches: u64,
}

impl FileSink<'_> {
    fn line(&mut self, number: Option<u64>, bytes: &[u8], separator: char) {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = visible(line.strip_suffix(b"\r").unwrap_or(line));
        let shown: String = line.chars().take(LINE_LEN_MAX).collect();
        let mark = if shown.len() < line.len() { " [… line cut …]" } else { "" };
        let path = self.shown;
        let text = match number {
            Some(number) if self.results.line_numbers => {
                format!("{path}{separator}{number}{separator}{shown}{mark}")
            }
            Some(_) | None => format!("{path}{separator}{shown}{mark}"),
        };
        self.results.push(text);
    }

    fn goes_on(&self) -> bool {
        !self.results.full && !self.results.stop.is_stopped()
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        match self.results.mode {
            OutputMode::FilesWithMatches => Ok(false),
            OutputMode::Count => Ok(self.goes_on()),
            OutputMode::Content => {
                for (line, number) in found.lines().zip(0..) {
                    self.line(
                        found.line_number().map(|line_number| line_number + number),
                        line,
                        ':',
                    );
                }
                Ok(self.goes_on())
            }
        }
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.line(around.line_number(), around.bytes(), '-');
        Ok(self.goes_on())
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.results.push("--".to_owned());
        Ok(self.goes_on())
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::tests::tree;
    use super::*;

    fn grep(context: &ToolContext, input: Value) -> Result<String, String> {
        let input: Input = serde_json::from_value(input).map_err(|error| error.to_string())?;
        run(&input, context).map_err(|error| super::super::ToolOutput::from_error(&error).text)
    }

    fn sorted(text: &str) -> Vec<&str> {
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn files_with_matches_leave_out_ignored_hidden_and_binary_ones() {
        let (_dir, context) = tree();
        let text = grep(&context, json!({ "pattern": "needle" })).unwrap();
        assert_eq!(sorted(&text), ["a.rs", "src/deep/er.py", "src/lib.rs"]);
        let text = grep(&context, json!({ "pattern": "nothing" })).unwrap();
        assert!(text.starts_with("No matches found.\n[files that were not searched"), "{text}");
    }

    #[test]
    fn lines_have_numbers_and_context() {
        let (_dir, context) = tree();
        let input =
            json!({ "pattern": "needle", "output_mode": "content", "path": "a.rs", "-C": 1 });
        assert_eq!(grep(&context, input).unwrap(), "a.rs-1-one\na.rs:2:needle one\na.rs-3-three");
        let input = json!({ "pattern": "needle", "output_mode": "content", "glob": "*.rs", "-i": true, "-n": false });
        let expected = "a.rs:needle one\nsrc/lib.rs:Needle\nsrc/lib.rs:    needle();";
        assert_eq!(grep(&context, input).unwrap(), expected);
        let input =
            json!({ "pattern": "needle", "output_mode": "count", "path": "src", "-i": true });
        assert_eq!(
            grep(&context, input).unwrap(),
            "src/deep/er.py:1\nsrc/lib.rs:2\n3 matches in all"
        );
    }

    #[test]
    fn files_are_chosen_by_glob_type_and_path() {
        let (_dir, context) = tree();
        for (mut input, expected) in [
            (json!({ "glob": "*.py" }), vec!["src/deep/er.py"]),
            (json!({ "glob": "!*.py" }), vec!["a.rs", "src/lib.rs"]),
            (json!({ "glob": "src/**/*.rs" }), vec!["src/lib.rs"]),
            (json!({ "type": "py" }), vec!["src/deep/er.py"]),
            (json!({ "glob": ".github/**" }), vec![".github/ci.yml"]),
            (json!({ "path": ".github" }), vec![".github/ci.yml"]),
            (json!({ "path": "x.log" }), vec!["x.log"]),
        ] {
            input["pattern"] = json!("needle");
            let text = grep(&context, input.clone()).unwrap();
            assert_eq!(sorted(&text), expected, "{input}");
        }
    }

    #[test]
    fn a_pattern_can_go_over_lines() {
        let (_dir, context) = tree();
        let input =
            json!({ "pattern": "fn b.*needle", "multiline": true, "output_mode": "content" });
        let expected = "src/lib.rs:2:fn b() {\nsrc/lib.rs:3:    needle();";
        assert_eq!(grep(&context, input).unwrap(), expected);
        let error = grep(&context, json!({ "pattern": "a\nb" })).unwrap_err();
        assert!(error.contains("set multiline"), "{error}");
    }

    #[test]
    fn results_are_bounded_and_say_so() {
        let (_dir, mut context) = tree();
        let more = "\n[there is more: narrow the pattern, `path` or `glob`]";
        std::fs::write(context.cwd.join("many"), "needle\n".repeat(10_000)).unwrap();
        let input = json!({ "pattern": "needle", "output_mode": "content", "path": "many" });
        let text = grep(&context, input.clone()).unwrap();
        assert_eq!(text.lines().count(), 251);
        assert!(text.ends_with(more));
        context.output_len_max = 1_000;
        let mut all = input;
        all["head_limit"] = json!(0);
        let text = grep(&context, all).unwrap();
        assert!(text.len() <= 1_000 + more.len() && text.ends_with(more));
        let text = grep(&context, json!({ "pattern": "needle", "head_limit": 2 })).unwrap();
        assert_eq!(text.lines().count(), 3);
        std::fs::write(context.cwd.join("long"), "needle".repeat(200)).unwrap();
        let input = json!({ "pattern": "needle", "output_mode": "content", "path": "long" });
        assert!(grep(&context, input).unwrap().ends_with(" [… line cut …]"));
    }

    #[test]
    fn wrong_input_says_what_to_do() {
        let (_dir, context) = tree();
        for (input, expected) in [
            (json!({ "pattern": "a(" }), "The pattern cannot be read"),
            (json!({ "pattern": "" }), "The pattern is empty"),
            (json!({ "pattern": "a", "type": "nope" }), "There is no file type \"nope\""),
            (json!({ "pattern": "a", "path": "srx" }), "Did you mean"),
            (json!({ "pattern": "a", "path": "/dev/zero" }), "is a device"),
            (json!({ "pattern": "a", "glob": "a[" }), "cannot be read"),
        ] {
            let error = grep(&context, input.clone()).unwrap_err();
            assert!(error.contains(expected), "{input} {error}");
        }
    }

    #[test]
    fn a_stop_ends_the_search() {
        let (_dir, context) = tree();
        let (switch, stop) = super::super::StopSwitch::new();
        switch.stop();
        let text = grep(&context.with_stop(stop), json!({ "pattern": "needle" })).unwrap();
        assert!(text.contains("ended before its end"), "{text}");
    }

    /// fT16: a folder that the call names is searched although an ignore file names all of it; what was not searched is counted.
    #[test]
    fn ft16_absence_and_blindness_do_not_look_the_same() {
        let (_dir, context) = tree();
        std::fs::create_dir(context.cwd.join("scripts")).unwrap();
        std::fs::write(context.cwd.join("scripts/run"), "only here\n").unwrap();
        std::fs::write(context.cwd.join("scripts/.hidden"), "only here\n").unwrap();
        std::fs::write(context.cwd.join(".gitignore"), "/target/\n*.log\nscripts/*\n").unwrap();
        let search = |input: Value| run(&serde_json::from_value(input).unwrap(), &context).unwrap();
        assert_eq!(search(json!({ "pattern": "only here", "path": "scripts" })), "scripts/run");
        let whole = search(json!({ "pattern": "only here" }));
        assert!(whole.starts_with("No matches found."), "{whole}");
        assert!(whole.contains("3 that .gitignore names, 3 hidden"), "{whole}");
        let nothing = search(json!({ "pattern": "nowhere", "path": "src/deep" }));
        assert_eq!(nothing, "No matches found.");
        let typed = search(json!({ "pattern": "nowhere", "glob": "*.log" }));
        assert!(typed.contains("1 that .gitignore names;"), "{typed}");
    }

    #[test]
    fn hidden_by_a_rule_is_not_searched() {
        let (_dir, mut context) = tree();
        context.hidden = Some(std::sync::Arc::new(|path: &Path| path.ends_with("a.rs")));
        let input = json!({ "pattern": "needle", "path": "a.rs" });
        assert_eq!(grep(&context, input).unwrap(), "No matches found.");
    }
}
