//! What the terminal shows, and how one picture of it becomes the next.
//!
//! Pictures are drawn anew from what is on the screen (case K4); nothing that the program wrote
//! goes on as it was. It answers the questions that programs ask their terminal, since there may be
//! several viewers, or none.

use std::num::NonZeroU16;

use proto::screen::{Bytes, Frame, PART_LEN_MAX, PARTS_MAX, Size};
use tokio::time::Instant;
use vt100::Parser;

/// Bytes of answers to one piece of output: a program asks a few things, once.
const ANSWERS_LEN_MAX: usize = 1_024;
/// Longest line of the screen that is told as the last words of a program.
const LINE_CHARS_MAX: usize = 200;

/// The screen.
pub(super) struct Screen {
    pub(super) incarnation: u32,
    pub(super) parser: Parser<Asked>,
    size: Size,
    /// The picture that was sent last.
    sent: Option<vt100::Screen>,
    number: u64,
    drawn: Instant,
    /// Whether the picture is to be drawn from nothing, as after a change of the size.
    afresh: bool,
}

/// What the program asked, answered.
#[derive(Default)]
pub(super) struct Asked {
    answers: Vec<u8>,
}

impl Screen {
    pub(super) fn new(size: Size) -> Self {
        let (rows, columns) = cells(size);
        Self {
            incarnation: 0,
            parser: Parser::new_with_callbacks(rows, columns, 0, Asked::default()),
            size,
            sent: None,
            number: 0,
            drawn: Instant::now(),
            afresh: false,
        }
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// When a picture was drawn last.
    pub(super) fn drawn(&self) -> Instant {
        self.drawn
    }

    /// Takes in what the program wrote. Returns what the terminal answers.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.parser.process(bytes);
        std::mem::take(&mut self.parser.callbacks_mut().answers)
    }

    /// Gives it another size. False where it has that one.
    pub(super) fn resize(&mut self, size: Size) -> bool {
        let size = size.clamped();
        if size == self.size {
            return false;
        }
        self.size = size;
        let (rows, columns) = cells(size);
        self.parser.set_size(rows, columns);
        self.afresh = true;
        true
    }

    /// From here on pictures follow no earlier one, and viewers notice that.
    pub(super) fn skip(&mut self) {
        self.number += 2;
        self.sent = None;
    }

    /// How the picture that was sent last becomes the one that there is. Nothing where it is the
    /// same.
    pub(super) fn change(&mut self) -> Vec<Frame> {
        self.drawn = Instant::now();
        let now = self.parser.screen();
        let Some(before) = self.sent.take() else { return Vec::new() };
        let bytes = if std::mem::take(&mut self.afresh) {
            now.state_formatted()
        } else {
            now.state_diff(&before)
        };
        if bytes.is_empty() {
            self.sent = Some(before);
            return Vec::new();
        }
        self.number += 1;
        self.sent = Some(now.clone());
        self.cut(bytes.into_bytes(), false)
    }

    /// The whole picture, for a viewer that has none. Pending changes are told before.
    pub(super) fn whole(&mut self) -> Vec<Frame> {
        let now = self.parser.screen();
        let bytes = now.state_formatted().into_bytes();
        let is_first = self.sent.is_none();
        self.sent = Some(now.clone());
        self.afresh = false;
        let mut frames = self.cut(bytes, true);
        if is_first {
            // A viewer with an older picture notices by the number that this one does not follow
            // it.
            self.number += 1;
            frames.extend(self.cut(Vec::new(), false));
        }
        frames
    }

    fn cut(&self, mut bytes: Vec<u8>, whole: bool) -> Vec<Frame> {
        // More than any screen has; what is left out is drawn again with its next change.
        let max = PART_LEN_MAX * usize::try_from(PARTS_MAX).unwrap_or(1);
        bytes.truncate(max);
        let parts = u32::try_from(bytes.len().div_ceil(PART_LEN_MAX).max(1)).unwrap_or(PARTS_MAX);
        let piece = |part: u32| {
            let from = usize::try_from(part).unwrap_or(0) * PART_LEN_MAX;
            let to = bytes.len().min(from + PART_LEN_MAX);
            bytes.get(from..to).unwrap_or_default().to_vec()
        };
        let (incarnation, number, size) = (self.incarnation, self.number, self.size);
        (0..parts)
            .map(|part| {
                let bytes = Bytes(piece(part));
                Frame { incarnation, number, whole, size, part, parts, bytes }
            })
            .collect()
    }

    /// The last line that has something on it: why a program ended, as a rule.
    pub(super) fn last_line(&self) -> String {
        let (_, columns) = self.parser.screen().size();
        let rows = self.parser.screen().rows(0, columns.get());
        let lines: Vec<String> = rows.collect();
        let line = lines.iter().rev().find(|line| !line.trim().is_empty());
        line.map(|line| line.trim().chars().take(LINE_CHARS_MAX).collect()).unwrap_or_default()
    }
}

fn cells(size: Size) -> (NonZeroU16, NonZeroU16) {
    let cell = |it: u16| NonZeroU16::new(it).unwrap_or(NonZeroU16::MIN);
    (cell(size.rows), cell(size.columns))
}

impl Asked {
    fn answer(&mut self, text: &str) {
        if self.answers.len() + text.len() <= ANSWERS_LEN_MAX {
            self.answers.extend_from_slice(text.as_bytes());
        }
    }
}

impl vt100::Callbacks for Asked {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        second: Option<u8>,
        params: &[&[u16]],
        last: char,
    ) {
        let asked = params.first().and_then(|param| param.first()).copied().unwrap_or(0);
        match (first, second, last, asked) {
            // What are you? A terminal with the usual.
            (None, None, 'c', 0) => self.answer("\x1b[?1;2c"),
            (Some(b'>'), None, 'c', 0) => self.answer("\x1b[>0;95;0c"),
            // How are you, and where is the cursor?
            (None, None, 'n', 5) => self.answer("\x1b[0n"),
            (None, None, 'n', 6) => {
                let (row, column) = screen.cursor_position();
                self.answer(&format!("\x1b[{};{}R", row + 1, column + 1));
            }
            _ => {}
        }
    }
}
