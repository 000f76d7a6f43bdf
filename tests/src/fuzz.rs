//! What must hold for any bytes: one function for each thing that is read from outside. They are
//! used three times: on the saved corpus and on arbitrary bytes in the normal tests, and by `cargo
//! fuzz` (`tests/fuzz`).

use proto::entry::Entry;
use proto::frame::{self, FRAME_LEN_MAX, FrameDecoder};
use proto::line::{self, LineDecoder};
use proto::notification::{Notification, RunStatus, Usage, render, render_agent_message, visible};
use proto::team::{TaskFile, TeamFile};
use proto::{FromDaemon, ToDaemon};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A function that must come back from whatever it is given.
pub type Target = fn(&[u8]);

/// All of them, by the names of their corpora.
pub const TARGETS: [(&str, Target); 5] = [
    ("frame", frame),
    ("line", line),
    ("team_file", team_file),
    ("notification", notification),
    ("entry", entry),
];

/// Where the bytes are cut into two pieces: a decoder must not care.
fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.first().map_or(0, |byte| usize::from(*byte)).min(bytes.len());
    bytes.split_at(at)
}

/// Frames: a decoder comes to an end, buffers no more than it was given, and what it takes for a
/// message is one.
pub fn frame(bytes: &[u8]) {
    let mut whole = FrameDecoder::default();
    whole.feed(bytes);
    let mut pieces = FrameDecoder::default();
    let (first, second) = cut(bytes);
    pieces.feed(first);
    let mut fed = false;
    loop {
        let expected = whole.next_frame();
        let mut found = pieces.next_frame();
        if !fed && matches!(found, Ok(None)) {
            pieces.feed(second);
            fed = true;
            found = pieces.next_frame();
        }
        match (expected, found) {
            (Ok(Some(one)), Ok(Some(other))) => {
                assert_eq!(one, other);
                assert!(one.len() <= FRAME_LEN_MAX);
                frame_body::<ToDaemon>(&one);
                frame_body::<FromDaemon>(&one);
            }
            (Ok(None), Ok(None)) | (Err(_), Err(_)) => return,
            (one, other) => panic!("{one:?}, but in pieces {other:?}"),
        }
    }
}

fn frame_body<T: Serialize + DeserializeOwned>(body: &[u8]) {
    let Ok(message) = frame::decode::<T>(body) else { return };
    // What is read can be larger when it is written only where numbers were written in more bytes
    // than they need.
    let Ok(again) = frame::encode(&message) else { return };
    let message: T = frame::decode(&again[4..]).expect("what we write, we read");
    assert_eq!(frame::encode(&message).expect("it was written before"), again);
}

/// JSON lines: the same.
pub fn line(bytes: &[u8]) {
    let mut whole = LineDecoder::default();
    whole.feed(bytes);
    let mut pieces = LineDecoder::default();
    let (first, second) = cut(bytes);
    pieces.feed(first);
    let mut fed = false;
    loop {
        let expected = whole.next_line();
        let mut found = pieces.next_line();
        if !fed && matches!(found, Ok(None)) {
            pieces.feed(second);
            fed = true;
            found = pieces.next_line();
        }
        match (expected, found) {
            (Ok(Some(one)), Ok(Some(other))) => {
                assert_eq!(one, other);
                line_body::<ToDaemon>(&one);
                line_body::<FromDaemon>(&one);
            }
            (Ok(None), Ok(None)) | (Err(_), Err(_)) => return,
            (one, other) => panic!("{one:?}, but in pieces {other:?}"),
        }
    }
}

fn line_body<T: Serialize + DeserializeOwned>(text: &[u8]) {
    let Ok(message) = line::decode::<T>(text) else { return };
    let Ok(again) = line::encode(&message) else { return };
    assert!(again.ends_with(b"\n") && !again[..again.len() - 1].contains(&b'\n'), "one line");
    let message: T = line::decode(again.trim_ascii_end()).expect("what we write, we read");
    assert_eq!(line::encode(&message).expect("it was written before"), again);
}

/// Files of teams and tasks, which others write too: what is taken is written back with all that it
/// holds.
pub fn team_file(bytes: &[u8]) {
    kept::<TeamFile>(bytes);
    kept::<TaskFile>(bytes);
}

/// A line of a transcript.
pub fn entry(bytes: &[u8]) {
    kept::<Entry>(bytes);
}

fn kept<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return };
    let again = serde_json::to_vec(&read).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<T>(&again).expect("what we write, we read"), read);
}

/// A worker's words, in every field that takes some: whatever they are, there is one notification,
/// and one of each tag.
pub fn notification(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let empty = Notification {
        task_id: String::new(),
        status: RunStatus::Completed,
        summary: String::new(),
        result: String::new(),
        usage: Usage::default(),
    };
    let full = Notification {
        task_id: text.to_string(),
        summary: text.to_string(),
        result: text.to_string(),
        ..empty.clone()
    };
    same_tags(&render(&empty), &render(&full));
    let told = proto::notification::parse(&render(&full)).unwrap();
    assert_eq!([&told.task_id, &told.summary, &told.result], [&visible(&text); 3]);
    same_tags(&render_agent_message("", "x", ""), &render_agent_message(&text, &text, &text));
    same_tags(&render_agent_message("", "x", ""), &render_agent_message(&text, "x", &text));
    let shown = visible(&text);
    assert_eq!(visible(&shown), shown, "once is enough");
    let hidden = |it: char| {
        (it.is_control() && it != '\n' && it != '\t') || ('\u{e0000}'..='\u{e007f}').contains(&it)
    };
    assert!(!shown.contains(hidden), "{shown:?}");
}

fn same_tags(empty: &str, full: &str) {
    let count = |text: &str, of: char| text.matches(of).count();
    assert_eq!(count(empty, '<'), count(full, '<'), "{full}");
    assert_eq!(count(full, '<'), count(full, '>'), "{full}");
    for tag in ["<task-notification>", "</task-notification>", "<agent-message", "</agent-message>"]
    {
        assert_eq!(empty.matches(tag).count(), full.matches(tag).count(), "{full}");
    }
}
