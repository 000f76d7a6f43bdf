//! Reading transcripts, which the agent processes write. Only for showing: nothing is decided by
//! what they say.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use proto::entry::{Entry, Origin, What};

use crate::limits;

/// Some entries, in order.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    /// The number of the last entry that there is.
    pub(crate) last: u64,
}

/// The last `limit` entries.
pub(crate) fn last(path: &Path, limit: u32) -> io::Result<Page> {
    let mut page = Page::default();
    let mut kept = std::collections::VecDeque::new();
    let mut kept_bytes = 0;
    each(path, |entry, bytes| {
        page.last = page.last.max(entry.seq);
        kept_bytes += bytes;
        kept.push_back((entry, bytes));
        while kept.len() > limit as usize || kept_bytes > limits::HISTORY_BYTES_MAX {
            let Some((_, bytes)) = kept.pop_front() else { break };
            kept_bytes -= bytes;
        }
    })?;
    page.entries = kept.into_iter().map(|(entry, _)| entry).collect();
    Ok(page)
}

/// A page for one reply: from an entry on, or for 0 the last ones; bounded in number and bytes.
pub(crate) fn page(path: &Path, from: u64, limit: u32) -> io::Result<Page> {
    let limit = if limit == 0 { 200 } else { limit }.min(limits::PAGE_LEN_MAX);
    let mut page = if from == 0 { last(path, limit)? } else { since(path, from, limit)? };
    let size = |entry: &Entry| serde_json::to_vec(entry).map_or(0, |bytes| bytes.len());
    let mut bytes: usize = page.entries.iter().map(size).sum();
    while bytes > limits::PAGE_BYTES_MAX && page.entries.len() > 1 {
        // The last ones when the end was asked for, the first ones otherwise.
        let gone = if from == 0 { Some(page.entries.remove(0)) } else { page.entries.pop() };
        bytes -= gone.as_ref().map_or(0, size);
    }
    Ok(page)
}

fn since(path: &Path, from: u64, limit: u32) -> io::Result<Page> {
    let mut page = Page::default();
    each(path, |entry, _| {
        page.last = page.last.max(entry.seq);
        if entry.seq >= from && page.entries.len() < limit as usize {
            page.entries.push(entry);
        }
    })?;
    Ok(page)
}

/// Calls with each entry that can be read, as it is shown, and its length in the file; a line that
/// is none, such as a torn last one, is passed over.
fn each(path: &Path, mut found: impl FnMut(Entry, usize)) -> io::Result<()> {
    let Some(mut file) = open(path)? else { return Ok(()) };
    let len = file.metadata()?.len();
    let skipped = len.saturating_sub(limits::TRANSCRIPT_BYTES_MAX);
    file.seek(SeekFrom::Start(skipped))?;
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        if let Ok(entry) = serde_json::from_slice(&line) {
            found(shown(entry), line.len());
        }
    }
    Ok(())
}

/// An entry as it is shown: what would not fit into a message is cut, and says so. The transcript
/// has it all.
pub(crate) fn shown(mut entry: Entry) -> Entry {
    let cut = |text: &mut String| {
        if text.len() > limits::SHOWN_BYTES_MAX {
            let end = proto::text::head(text, limits::SHOWN_BYTES_MAX).len();
            let left_out = text.len() - end;
            text.truncate(end);
            let _fits = write!(text, "\n[{left_out} more bytes are in the transcript]");
        }
    };
    match &mut entry.what {
        What::Input { origin, text, .. } => {
            if let Origin::Notification { notification } = origin {
                cut(&mut notification.result);
            }
            cut(text);
        }
        What::Text { text } | What::ToolResult { text, .. } => cut(text),
        What::ToolCall { input, .. } => {
            let mut text = input.0.to_string();
            if text.len() > limits::SHOWN_BYTES_MAX {
                cut(&mut text);
                input.0 = serde_json::Value::String(text);
            }
        }
        What::Reasoning { text, raw } => {
            cut(text);
            // Nobody but the model's provider can read it.
            raw.0 = serde_json::Value::Null;
        }
        What::Turn { .. } | What::RunEnded { .. } => {}
    }
    entry
}

/// The file, or nothing when the agent has written none yet. Never through a link, never something
/// that is no file.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Err(io::Error::other("it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn entry(seq: u64, text: &str) -> Entry {
        Entry { seq, at_ms: 0, run: 1, what: What::Text { text: text.to_owned() } }
    }

    fn file(entries: &[Entry], tail: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for it in entries {
            writeln!(file, "{}", serde_json::to_string(it).unwrap()).unwrap();
        }
        file.write_all(tail.as_bytes()).unwrap();
        file
    }

    #[test]
    fn pages_begin_where_they_are_asked_to() {
        let all: Vec<_> = (1..=5).map(|seq| entry(seq, "x")).collect();
        let file = file(&all, "{\"seq\":6,\"torn");
        assert_eq!(page(file.path(), 0, 2).unwrap(), Page { entries: all[3..].to_vec(), last: 5 });
        assert_eq!(page(file.path(), 2, 2).unwrap(), Page { entries: all[1..3].to_vec(), last: 5 });
        assert_eq!(last(file.path(), 0).unwrap(), Page { entries: Vec::new(), last: 5 });
        assert_eq!(page(Path::new("/nonexistent/x"), 0, 0).unwrap(), Page::default());
    }

    #[test]
    fn a_page_fits_into_a_frame() {
        let big = "y".repeat(limits::SHOWN_BYTES_MAX - 100);
        let all: Vec<_> = (1..=8).map(|seq| entry(seq, &big)).collect();
        let file = file(&all, "");
        let seqs = |page: Page| page.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>();
        assert_eq!(seqs(page(file.path(), 1, 10).unwrap()), [1, 2, 3, 4]);
        assert_eq!(seqs(page(file.path(), 0, 10).unwrap()), [5, 6, 7, 8]);
    }

    #[test]
    fn an_entry_that_is_longer_than_a_message_is_shown_cut() {
        let file = file(&[entry(1, &"é".repeat(limits::SHOWN_BYTES_MAX))], "");
        let page = page(file.path(), 0, 0).unwrap();
        let What::Text { text } = &page.entries[0].what else { panic!("no text") };
        assert!(text.ends_with("[131072 more bytes are in the transcript]"), "{}", text.len());
    }

    #[test]
    fn rel4_links_and_pipes_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let target = file(&[entry(1, "secret")], "");
        let link = dir.path().join("transcript.jsonl");
        std::os::unix::fs::symlink(target.path(), &link).unwrap();
        assert!(page(&link, 0, 0).is_err());
        assert!(page(dir.path(), 0, 0).is_err());
    }
}
