//! One line that is being typed: its text, its cursor, the lines before it, and how it is drawn on one row.

use unicode_width::UnicodeWidthChar as _;

use super::keys::Key;
use crate::question::desk::Typed;
use crate::terminal::{Paint, Style, is_shown, width};

/// Earlier lines that Up brings back.
const HISTORY_LEN_MAX: usize = 200;
/// Characters of one line: what a message holds, and no character takes less than a byte.
const LEN_MAX: usize = proto::message::BODY_LEN_MAX;
/// Room for typing even where a prompt is long.
const ROOM_MIN: usize = 10;

/// The line.
#[derive(Debug, Default)]
pub(crate) struct Line {
    chars: Vec<char>,
    cursor: usize,
    has_paste: bool,
    /// The question that was drawn when it was begun.
    about: Option<String>,
    history: Vec<String>,
    /// Which earlier line is shown, and what was typed before that.
    looking_at: Option<usize>,
    put_aside: Vec<char>,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    pub(crate) fn apply(&mut self, key: Key, about: Option<&str>) {
        if self.chars.is_empty() {
            self.has_paste = false;
            self.about = about.map(str::to_owned);
        }
        match key {
            Key::Char(c) => self.insert(&[c]),
            Key::Paste(text) => {
                self.has_paste = true;
                let text: Vec<char> = text.chars().collect();
                self.insert(&text);
            }
            Key::Back if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            Key::Delete | Key::EndOfInput if self.cursor < self.chars.len() => {
                self.chars.remove(self.cursor);
            }
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.chars.len(),
            Key::CutStart => {
                self.chars.drain(..self.cursor);
                self.cursor = 0;
            }
            Key::CutEnd => self.chars.truncate(self.cursor),
            Key::CutWord => self.cut_word(),
            Key::Up => self.look(true),
            Key::Down => self.look(false),
            Key::Back | Key::Delete | Key::EndOfInput | Key::Enter => {}
        }
    }

    fn insert(&mut self, text: &[char]) {
        let room = LEN_MAX.saturating_sub(self.chars.len());
        let text = text.iter().take(room).copied();
        let count = text.len();
        self.chars.splice(self.cursor..self.cursor, text);
        self.cursor += count;
    }

    fn cut_word(&mut self) {
        let before = self.chars.get(..self.cursor).unwrap_or_default();
        let words = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
        let start = before.get(..words).unwrap_or_default();
        let from = start.iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
        self.chars.drain(from..self.cursor);
        self.cursor = from;
    }

    fn look(&mut self, back: bool) {
        let at = match (self.looking_at, back) {
            (None, true) => self.history.len().checked_sub(1),
            (Some(at), true) => Some(at.saturating_sub(1)),
            (Some(at), false) => Some(at + 1),
            (None, false) => None,
        };
        let Some(at) = at else { return };
        if self.looking_at.is_none() {
            self.put_aside = std::mem::take(&mut self.chars);
        }
        if let Some(line) = self.history.get(at) {
            self.chars = line.chars().collect();
            self.looking_at = Some(at);
        } else {
            self.chars = std::mem::take(&mut self.put_aside);
            self.looking_at = None;
        }
        self.cursor = self.chars.len();
    }

    /// The line, whole; nothing when it is empty.
    pub(crate) fn submit(&mut self) -> Option<Typed> {
        let text: String = std::mem::take(&mut self.chars).into_iter().collect();
        (self.cursor, self.looking_at) = (0, None);
        let (is_paste, about) = (std::mem::take(&mut self.has_paste), self.about.take());
        if text.trim().is_empty() {
            return None;
        }
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        if self.history.len() > HISTORY_LEN_MAX {
            self.history.remove(0);
        }
        Some(Typed { text, is_paste, about })
    }

    /// The row that it is drawn on, with the cursor in its place. What does not fit is to the left and right of it.
    pub(crate) fn row(&self, prompt: &str, style: Style) -> String {
        let columns = if style.columns == 0 { usize::MAX } else { style.columns };
        let room = columns.saturating_sub(width(prompt) + 1).max(ROOM_MIN);
        let shown: Vec<char> = self.chars.iter().map(|c| shown(*c)).collect();
        let wide = |c: &char| c.width().unwrap_or(0);
        // As much before the cursor as fits, then what follows it.
        let mut start = self.cursor;
        let mut used = 0;
        while let Some(c) = start.checked_sub(1).and_then(|at| shown.get(at)) {
            if used + wide(c) > room {
                break;
            }
            used += wide(c);
            start -= 1;
        }
        let before: String = shown.iter().skip(start).take(self.cursor - start).collect();
        let mut after = String::new();
        let mut after_columns = 0;
        for c in shown.iter().skip(self.cursor) {
            if used + after_columns + wide(c) > room {
                break;
            }
            after_columns += wide(c);
            after.push(*c);
        }
        let back = if after_columns > 0 { format!("\x1b[{after_columns}D") } else { String::new() };
        format!("{}{before}{after}{back}", style.paint(Paint::Faint, prompt))
    }
}

/// One character for one: a line end of a paste is seen, and nothing is obeyed.
fn shown(c: char) -> char {
    match c {
        '\n' => '⏎',
        '\t' => ' ',
        c if !is_shown(c) || c.width().unwrap_or(0) == 0 => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &mut Line, text: &str, about: Option<&str>) {
        text.chars().for_each(|c| line.apply(Key::Char(c), about));
    }

    fn text(line: &Line) -> String {
        line.chars.iter().collect()
    }

    #[test]
    fn fa11_a_line_is_edited_and_earlier_ones_come_back() {
        let mut line = Line::default();
        typed(&mut line, "helo world", None);
        for key in
            [Key::Home, Key::Right, Key::Right, Key::Right, Key::Char('l'), Key::End, Key::CutWord]
        {
            line.apply(key, None);
        }
        assert_eq!(text(&line), "hello ");
        typed(&mut line, "you", None);
        assert_eq!(line.submit().unwrap().text, "hello you");
        assert_eq!(line.submit(), None);
        typed(&mut line, "new", None);
        for (key, want) in
            [(Key::Up, "hello you"), (Key::Up, "hello you"), (Key::Down, "new"), (Key::Down, "new")]
        {
            line.apply(key, None);
            assert_eq!(text(&line), want);
        }
        line.apply(Key::CutStart, None);
        line.apply(Key::Back, None);
        line.apply(Key::Delete, None);
        assert!(line.is_empty());
    }

    /// what a line is about is settled by its first key.
    #[test]
    fn a2_a_line_is_about_what_was_drawn_when_it_was_begun() {
        let mut line = Line::default();
        line.apply(Key::Char('y'), Some("p1"));
        line.apply(Key::Char(' '), Some("p2"));
        assert_eq!(line.submit().unwrap().about.as_deref(), Some("p1"));
        line.apply(Key::Char('y'), None);
        line.apply(Key::Back, Some("p2"));
        line.apply(Key::Char('n'), Some("p3"));
        assert_eq!(line.submit().unwrap().about.as_deref(), Some("p3"));
        // Some pasted, some typed: it is a paste until it is empty.
        line.apply(Key::Paste("y".into()), Some("p3"));
        assert!(line.submit().unwrap().is_paste);
        typed(&mut line, "y", Some("p3"));
        assert!(!line.submit().unwrap().is_paste);
    }

    #[test]
    fn a_long_line_is_drawn_on_one_row_with_the_cursor_in_sight() {
        let mut line = Line::default();
        let style = Style { colour: false, columns: 20 };
        typed(&mut line, "0123456789abcdefghij", None);
        assert_eq!(line.row("> ", style), "> 3456789abcdefghij");
        line.apply(Key::Home, None);
        assert_eq!(line.row("> ", style), "> 0123456789abcdefg\x1b[17D");
        let mut line = Line::default();
        line.apply(Key::Paste("a\nb\x1b[2J".into()), None);
        assert_eq!(line.row("> ", style), "> a⏎b\u{fffd}[2J");
    }
}
