//! `Read`: lines of a text file, numbered.
//!
//! It reads in pieces: neither a long line nor a long file makes it hold more than what it returns.
//! It must not open what is no regular file.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::bounded::visible;
use super::context::ToolContext;
use super::files::{FileError, WHOLE_LEN_MAX, open_regular};
use super::input::number;
use super::paths;
use super::seen::{ContentHash, Fingerprint};

/// Most source files are shorter, and lines that are longer are minified or generated.
const LINES_DEFAULT: u64 = 2_000;
const LINE_LEN_MAX: usize = 2_000;

/// Longest text of one call: about 25,000 tokens. A model's context is better filled in parts.
const TEXT_LEN_MAX: usize = 100_000;

/// How far into a file it looks for a line. Beyond that, Bash has better means.
const SCAN_LEN_MAX: u64 = 128 * 1024 * 1024;

/// How much of a file is looked at for a NUL byte, which no text has.
const BINARY_PROBE_LEN: usize = 8 * 1024;

pub(super) const DESCRIPTION: &str = "Reads a text file. Lines come with their numbers and a tab in front; neither is part of \
the file. Without `offset` and `limit` it returns the first 2000 lines, and says if there are more. Lines longer than 2000 \
characters are cut. It reads no folders, no binary files and no devices. Give an absolute path. A file must be read before it \
can be edited or overwritten.";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    file_path: String,
    #[serde(default, deserialize_with = "number")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    File(FileError),
    #[error("{} is hidden by a rule of the user. Work without it, or ask the user.", path.display())]
    Hidden { path: PathBuf },
    #[error(
        "{} is a binary file of {len} bytes. Look at it with a program in Bash, for example `file` or `od`.",
        path.display()
    )]
    Binary { path: PathBuf, len: u64 },
    #[error("{} has {lines} lines, so there is no line {offset}. Give a smaller offset.", path.display())]
    BehindEnd { path: PathBuf, lines: u64, offset: u64 },
    #[error(
        "Line {offset} of {} lies too far inside for Read. Use `sed -n` in Bash.",
        path.display()
    )]
    TooFar { path: PathBuf, offset: u64 },
    #[error("The limit is 0 lines. Give at least 1, or leave it out.")]
    NoLines,
    #[error("{} could not be read to the end", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Absolute path of the file." },
            "offset": { "type": "integer", "description": "First line to return; lines count from 1." },
            "limit": { "type": "integer", "description": "How many lines to return." }
        },
        "required": ["file_path"],
        "additionalProperties": false
    })
}

pub(super) fn run(input: &Input, context: &ToolContext) -> Result<String, ReadError> {
    let offset = input.offset.unwrap_or(1).max(1);
    let limit = input.limit.unwrap_or(LINES_DEFAULT);
    if limit == 0 {
        return Err(ReadError::NoLines);
    }
    let path = resolved(&input.file_path, context).map_err(ReadError::File)?;
    if context.hides(&path) {
        return Err(ReadError::Hidden { path });
    }
    let (file, metadata) = open_regular(&path).map_err(ReadError::File)?;
    let mut window = Window::new(offset, limit);
    // Small files are read to their end, so that their content is known and their lines are
    // counted.
    let to_the_end = metadata.len() <= WHOLE_LEN_MAX;
    let mut hash = ContentHash::new();
    let complete = scan(file, &mut window, to_the_end, &mut hash, context, &metadata)
        .map_err(|fault| fault.explain(&path, &metadata, offset))?;
    if offset > 1 && window.returned == 0 && complete {
        return Err(ReadError::BehindEnd { path, lines: window.line, offset });
    }
    let len = if complete { window.bytes } else { metadata.len() };
    let hash = (complete && len <= WHOLE_LEN_MAX).then(|| hash.value());
    context.seen.note(path, Fingerprint { len, modified: metadata.modified().ok(), hash });
    Ok(window.into_text(complete))
}

/// The resolved path of a file that a call names: the one that was judged, where it was.
pub(super) fn resolved(path: &str, context: &ToolContext) -> Result<PathBuf, FileError> {
    if let Some(decided) = &context.decided {
        return Ok(decided.clone());
    }
    let home = context.environment().get(std::ffi::OsStr::new("HOME"));
    let absolute = paths::absolute(path, &context.cwd, home.map(std::ffi::OsString::as_os_str));
    absolute.and_then(|it| paths::resolve(&it)).map_err(FileError::Path)
}

enum Fault {
    Binary,
    TooFar,
    Stopped,
    Io(io::Error),
}

impl Fault {
    fn explain(self, path: &std::path::Path, metadata: &Metadata, offset: u64) -> ReadError {
        let path = path.to_owned();
        match self {
            Self::Binary => ReadError::Binary { path, len: metadata.len() },
            Self::TooFar => ReadError::TooFar { path, offset },
            Self::Stopped => ReadError::Io { path, source: io::ErrorKind::Interrupted.into() },
            Self::Io(source) => ReadError::Io { path, source },
        }
    }
}

/// Reads until the window is full, or to the end. Returns whether it was the end.
fn scan(
    file: File,
    window: &mut Window,
    to_the_end: bool,
    hash: &mut ContentHash,
    context: &ToolContext,
    metadata: &Metadata,
) -> Result<bool, Fault> {
    let mut reader = BufReader::with_capacity(BINARY_PROBE_LEN.max(64 * 1024), file);
    let mut first = true;
    loop {
        let piece = reader.fill_buf().map_err(Fault::Io)?;
        if piece.is_empty() {
            window.finish();
            return Ok(true);
        }
        if std::mem::take(&mut first) && piece.iter().take(BINARY_PROBE_LEN).any(|it| *it == 0) {
            return Err(Fault::Binary);
        }
        if to_the_end {
            hash.feed(piece);
        }
        window.feed(piece);
        let len = piece.len();
        reader.consume(len);
        if window.is_full() && (!to_the_end || window.bytes > WHOLE_LEN_MAX.max(metadata.len())) {
            return Ok(false);
        }
        if window.bytes > SCAN_LEN_MAX {
            return Err(Fault::TooFar);
        }
        if context.stop.is_stopped() {
            return Err(Fault::Stopped);
        }
    }
}

/// The lines that are returned, collected while the file goes by.
struct Window {
    first: u64,
    limit: u64,
    /// Complete lines so far.
    line: u64,
    bytes: u64,
    returned: u64,
    current: Vec<u8>,
    current_len: u64,
    text: String,
    /// The text is as long as it may be.
    cut: bool,
}

impl Window {
    fn new(first: u64, limit: u64) -> Self {
        let (current, text) = (Vec::new(), String::new());
        Self {
            first,
            limit,
            line: 0,
            bytes: 0,
            returned: 0,
            current,
            current_len: 0,
            text,
            cut: false,
        }
    }

    fn is_full(&self) -> bool {
        self.cut || self.returned >= self.limit
    }

    fn feed(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        for part in piece.split_inclusive(|it| *it == b'\n') {
            self.current_len += part.len() as u64;
            let wanted = self.line + 1 >= self.first && !self.is_full();
            // One more than is shown, in bytes of the longest characters: enough to know that the
            // line is too long.
            let room = (LINE_LEN_MAX * 4 + 4).saturating_sub(self.current.len());
            if wanted {
                self.current.extend(part.iter().take(room));
            }
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn finish(&mut self) {
        if self.current_len > 0 {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        self.line += 1;
        if self.line >= self.first && !self.is_full() {
            let line = self.current.strip_suffix(b"\n").unwrap_or(&self.current);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = if self.line == 1 {
                line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
            } else {
                line
            };
            let text = visible(line);
            let shown: String = text.chars().take(LINE_LEN_MAX).collect();
            let mark = if shown.len() < text.len() { " [… line cut …]" } else { "" };
            let entry = format!("{:>6}\t{shown}{mark}\n", self.line);
            if self.text.len() + entry.len() > TEXT_LEN_MAX {
                self.cut = true;
            } else {
                self.text.push_str(&entry);
                self.returned += 1;
            }
        }
        self.current.clear();
        self.current_len = 0;
    }

    fn into_text(self, complete: bool) -> String {
        if self.bytes == 0 {
            return "(the file is empty)".to_owned();
        }
        let last = self.first + self.returned - u64::from(self.returned > 0);
        if complete && last >= self.line {
            return self.text;
        }
        let of = if complete { format!(" of {}", self.line) } else { String::new() };
        let next = last + 1;
        format!("{}[lines {} to {last}{of}; go on with offset {next}]", self.text, self.first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    struct Folder {
        dir: tempfile::TempDir,
        context: ToolContext,
    }

    impl Folder {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let context = ToolContext::new(dir.path().canonicalize().unwrap(), BTreeMap::new());
            Self { dir, context }
        }

        fn file(&self, name: &str, content: impl AsRef<[u8]>) {
            std::fs::write(self.dir.path().join(name), content).unwrap();
        }

        fn read(&self, input: &Value) -> Result<String, String> {
            let input = serde_json::from_value(input.clone()).unwrap();
            run(&input, &self.context).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn lines_are_numbered() {
        let folder = Folder::new();
        folder.file("a", "\u{feff}one\r\ntwo\n\nlast");
        let text = folder.read(&json!({ "file_path": folder.context.cwd.join("a") })).unwrap();
        assert_eq!(text, "     1\tone\n     2\ttwo\n     3\t\n     4\tlast\n");
        folder.file("b", "");
        assert_eq!(folder.read(&json!({ "file_path": "b" })).unwrap(), "(the file is empty)");
    }

    #[test]
    fn a_window_says_how_to_go_on() {
        let folder = Folder::new();
        folder.file("a", "1\n2\n3\n4\n5\n");
        let text = folder.read(&json!({ "file_path": "a", "offset": 2, "limit": 2 })).unwrap();
        assert_eq!(text, "     2\t2\n     3\t3\n[lines 2 to 3 of 5; go on with offset 4]");
        let text = folder.read(&json!({ "file_path": "a", "offset": 4, "limit": 2 })).unwrap();
        assert_eq!(text, "     4\t4\n     5\t5\n");
        let error = folder.read(&json!({ "file_path": "a", "offset": 9 })).unwrap_err();
        assert!(error.contains("has 5 lines, so there is no line 9"), "{error}");
        assert!(folder.read(&json!({ "file_path": "a", "limit": 0 })).is_err());
    }

    #[test]
    fn long_files_and_long_lines_are_cut() {
        let folder = Folder::new();
        folder.file("lines", "x\n".repeat(2_500));
        let text = folder.read(&json!({ "file_path": "lines" })).unwrap();
        assert!(text.ends_with("[lines 1 to 2000 of 2500; go on with offset 2001]"));
        folder.file("line", "\u{e4}".repeat(5_000));
        let text = folder.read(&json!({ "file_path": "line" })).unwrap();
        assert_eq!(text.matches('\u{e4}').count(), LINE_LEN_MAX);
        assert!(text.ends_with(" [… line cut …]\n"));
        folder.file("wide", format!("{}\n", "y".repeat(1_000)).repeat(1_000));
        let text = folder.read(&json!({ "file_path": "wide" })).unwrap();
        assert!(text.len() < TEXT_LEN_MAX + 100);
        assert!(
            text.ends_with("[lines 1 to 99 of 1000; go on with offset 100]"),
            "{}",
            &text[text.len() - 80..]
        );
    }

    #[test]
    fn a_large_file_is_not_read_to_its_end() {
        let folder = Folder::new();
        let file = File::create(folder.dir.path().join("large")).unwrap();
        io::Write::write_all(&mut &file, "line\n".repeat(20_000).as_bytes()).unwrap();
        file.set_len(40 * 1024 * 1024 * 1024).unwrap();
        let text = folder.read(&json!({ "file_path": "large", "limit": 3 })).unwrap();
        assert!(text.ends_with("     3\tline\n[lines 1 to 3; go on with offset 4]"), "{text}");
        let error = folder.read(&json!({ "file_path": "large", "offset": 30_000 })).unwrap_err();
        assert!(error.contains("too far inside"), "{error}");
    }

    #[test]
    fn what_is_no_text_file_is_refused_with_what_to_do() {
        let folder = Folder::new();
        folder.file("binary", b"ab\0cd");
        folder.file("notes.txt", "x");
        let fifo = folder.dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (path, expected) in [
            ("binary", "is a binary file of 5 bytes"),
            (".", "is a folder"),
            ("fifo", "is a FIFO, not a regular file"),
            ("/dev/zero", "is a device, not a regular file"),
            ("note.txt", "does not exist. Did you mean"),
            ("", "The path cannot be used"),
        ] {
            let error = folder.read(&json!({ "file_path": path })).unwrap_err();
            assert!(error.contains(expected), "{path}: {error}");
        }
    }

    #[test]
    fn a_symlink_is_read_and_noted_under_its_target() {
        let folder = Folder::new();
        folder.file("target", "x\n");
        std::os::unix::fs::symlink("target", folder.dir.path().join("link")).unwrap();
        assert_eq!(folder.read(&json!({ "file_path": "link" })).unwrap(), "     1\tx\n");
        let seen = folder.context.seen.get(&folder.context.cwd.join("target")).unwrap();
        assert_eq!(seen.hash, Some(ContentHash::of(b"x\n")));
    }

    #[test]
    fn a_hidden_file_is_not_read() {
        let mut folder = Folder::new();
        folder.file(".env", "secret");
        folder.context.hidden = Some(std::sync::Arc::new(|path: &Path| path.ends_with(".env")));
        assert!(
            folder.read(&json!({ "file_path": ".env" })).unwrap_err().contains("hidden by a rule")
        );
    }

    #[test]
    fn a_part_of_a_file_is_hashed_as_the_whole() {
        let folder = Folder::new();
        folder.file("a", "1\n2\n3\n");
        folder.read(&json!({ "file_path": "a", "limit": 1 })).unwrap();
        let seen = folder.context.seen.get(&folder.context.cwd.join("a")).unwrap();
        assert_eq!((seen.len, seen.hash), (6, Some(ContentHash::of(b"1\n2\n3\n"))));
    }
}
