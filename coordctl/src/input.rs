//! The input line under a live view: typed in place, with what is printed above it.
//!
//! ```text
//!   bytes --keys--> Key --line--> typed line        hold: the terminal's settings, given back on every way out
//!   output --Bottom--> the same above the input line
//! ```
//!
//! It reads keys itself, since a terminal that collects lines can tell neither a paste from typing nor what was on the screen
//! when a line was begun. It knows nothing of what a line means.

pub(crate) mod hold;
mod keys;
mod line;

use std::io::IsTerminal as _;

use hold::Hold;
use keys::{Key, Keys};
use line::Line;

use crate::question::desk::Typed;
use crate::terminal::{Style, width};

/// What comes of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Submitted(Typed),
    /// Ctrl-D on an empty line.
    Ended,
}

/// The line that is being typed, and the rows that it is drawn on.
#[derive(Debug)]
pub(crate) struct Input {
    keys: Keys,
    line: Line,
    bottom: Bottom,
    style: Style,
    _hold: Hold,
}

impl Input {
    /// Takes the terminal, where input and output are one that understands it.
    pub(crate) fn take(style: Style) -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if is_dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let hold = Hold::take().ok()?;
        let (keys, line, bottom) = (Keys::default(), Line::default(), Bottom::default());
        Some(Self { keys, line, bottom, style, _hold: hold })
    }

    /// Takes over how wide the terminal is now.
    pub(crate) fn fit(&mut self, columns: Option<usize>) {
        self.style = self.style.with_columns(columns);
    }

    /// Takes bytes in. `about` is the question that is drawn now.
    pub(crate) fn feed(&mut self, bytes: &[u8], about: Option<&str>) -> Vec<Did> {
        let mut did = Vec::new();
        for key in self.keys.feed(bytes) {
            if key == Key::Enter {
                did.extend(self.line.submit().map(Did::Submitted));
            } else if key == Key::EndOfInput && self.line.is_empty() {
                did.push(Did::Ended);
            } else {
                self.line.apply(key, about);
            }
        }
        did
    }

    /// What has to be written so that a text stands above the input line, and the line below it again.
    pub(crate) fn above(&mut self, text: &str, prompt: &str) -> String {
        let row = self.line.row(prompt, self.style);
        self.bottom.above(text, &row, self.style.columns)
    }

    /// What takes the input line away, before something else writes; [`Self::above`] brings it back.
    pub(crate) fn clear(&mut self) -> String {
        self.bottom.clear()
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // Whoever reads our output may be gone.
        let _gone = crate::output::print(&self.bottom.clear());
    }
}

/// What stands at the bottom of the output.
#[derive(Debug, Default)]
struct Bottom {
    /// Columns of a line of output that has not ended yet.
    column: usize,
    is_drawn: bool,
}

impl Bottom {
    fn clear(&mut self) -> String {
        if !std::mem::take(&mut self.is_drawn) {
            return String::new();
        }
        let mut out = String::from("\r\x1b[K");
        if self.column > 0 {
            // Back to where the output goes on.
            crate::push!(out, "\x1b[A\r\x1b[{}C", self.column);
        }
        out
    }

    fn above(&mut self, text: &str, row: &str, columns: usize) -> String {
        let mut out = self.clear();
        out.push_str(text);
        self.column = match text.rsplit_once('\n') {
            Some((_, rest)) => plain_width(rest),
            None => self.column + plain_width(text),
        };
        if columns > 0 && self.column >= columns {
            self.column %= columns;
        }
        if self.column > 0 {
            out.push('\n');
        }
        out.push_str(row);
        self.is_drawn = true;
        out
    }
}

/// Columns of a text without its colours.
fn plain_width(text: &str) -> usize {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = sequence.split_once('m').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    width(&plain)
}

/// Whether what was read at once holds several lines, each with something on it.
pub(crate) fn is_several_lines(text: &[u8]) -> bool {
    let is_end = |byte: &u8| *byte == b'\r' || *byte == b'\n';
    let Some(end) = text.iter().position(is_end) else { return false };
    text.iter().skip(end).any(|byte| *byte >= b' ' && *byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fA11: what is printed stands above what is typed, also when a line of it is not at its end.
    #[test]
    fn fa11_output_stands_above_the_input() {
        let size = |n| std::num::NonZero::new(n).unwrap();
        let mut screen = vt100::Parser::new(size(6), size(20), 0);
        let mut bottom = Bottom::default();
        let mut put = |bottom: &mut Bottom, text: &str, row: &str| {
            let out = bottom.above(text, row, 20);
            screen.process(out.replace('\n', "\r\n").as_bytes());
            screen.screen().contents()
        };
        assert_eq!(put(&mut bottom, "one\n", "> "), "one\n> ");
        assert_eq!(put(&mut bottom, "lead: tw", "> ab"), "one\nlead: tw\n> ab");
        assert_eq!(put(&mut bottom, "\x1b[1mo\x1b[0m", "> abc"), "one\nlead: two\n> abc");
        assert_eq!(put(&mut bottom, "\nthree\n", "> abc"), "one\nlead: two\nthree\n> abc");
        assert_eq!(put(&mut bottom, "", ">"), "one\nlead: two\nthree\n>");
    }

    #[test]
    fn fa3_several_lines_at_once_are_told_from_one() {
        for several in ["a\ry\r", "y\n\n\nx", "\ry", "a\r\nb"] {
            assert!(is_several_lines(several.as_bytes()), "{several:?}");
        }
        for one in ["y\r", "y", "y\r\n", "", "y\r\u{4}", "\r\r"] {
            assert!(!is_several_lines(one.as_bytes()), "{one:?}");
        }
    }
}
