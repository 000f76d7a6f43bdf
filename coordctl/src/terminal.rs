//! What may reach the terminal. Text from agents, and everything else that came over the socket,
//! passes through [`Filter`] first, so that it can neither move the cursor, nor set the clipboard,
//! nor pass for other text.
//!
//! ```text
//! plain --ESC--> escape --[--> csi --final byte--> plain
//!                       --] P X ^ _--> string --BEL or ST--> plain
//! ```
//! A newline always leads back to plain, so that an unterminated sequence hides no more than its
//! own line.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::push;

/// Takes control sequences out of a text that may come in pieces.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte, as in `ESC ( B`.
    Intermediate,
    /// Inside `ESC [ …`.
    Csi,
    /// Inside OSC, DCS, SOS, PM or APC.
    String,
    /// ESC inside of such a string: the next is `\`, or the string was cut off.
    StringEscape,
}

impl Filter {
    /// What remains of the next piece.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.step(c, &mut out);
        }
        out
    }

    fn step(&mut self, c: char, out: &mut String) {
        if c == '\n' {
            self.state = State::Plain;
            out.push(c);
            return;
        }
        self.state = match (self.state, c) {
            (State::String, '\u{1b}') => State::StringEscape,
            (State::String | State::StringEscape, '\u{7}' | '\u{9c}')
            | (State::StringEscape, '\\')
            | (State::Csi, '@'..='~')
            | (State::Intermediate, '0'..='~') => State::Plain,
            // ESC in a string begins a new sequence, unless it ended the string.
            (State::StringEscape | State::Escape, _) => after_escape(c, out),
            (State::Plain | State::Csi | State::Intermediate, '\u{1b}') => State::Escape,
            (State::Plain | State::Csi | State::Intermediate, '\u{9b}')
            | (State::Csi, ' '..='?') => State::Csi,
            (State::String, _) | (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => State::String,
            (State::Intermediate, ' '..='/') => State::Intermediate,
            (State::Plain | State::Csi | State::Intermediate, c) => {
                if is_shown(c) {
                    out.push(c);
                }
                State::Plain
            }
        };
    }
}

fn after_escape(c: char, out: &mut String) -> State {
    match c {
        '\u{1b}' => State::Escape,
        '[' => State::Csi,
        ']' | 'P' | 'X' | '^' | '_' => State::String,
        ' '..='/' => State::Intermediate,
        // A two-byte sequence, as in `ESC c`.
        '0'..='~' => State::Plain,
        other => {
            if is_shown(other) {
                out.push(other);
            }
            State::Plain
        }
    }
}

/// Neither a control character nor one that only serves to disguise others.
pub(crate) fn is_shown(c: char) -> bool {
    match u32::from(c) {
        0x09 | 0x0A => true,
        0x00..=0x1F
        | 0x7F..=0x9F
        | 0xAD
        | 0x061C
        | 0x180E
        | 0x200B..=0x200F
        | 0x2028..=0x202E
        | 0x2060..=0x206F
        | 0xFEFF
        | 0xFFF9..=0xFFFB
        | 0xE0000..=0xE007F => false,
        _ => true,
    }
}

/// A whole text without control sequences; newlines and tabs stay.
pub(crate) fn clean(text: &str) -> String {
    Filter::default().feed(text)
}

/// The same on one line: what stands for a name, a path or a cell of a table.
pub(crate) fn line(text: &str) -> String {
    let cleaned = clean(text);
    let words: Vec<&str> = cleaned.split(['\n', '\t']).map(str::trim).collect();
    words.join(" ").trim().to_owned()
}

/// JSON whose strings hold no raw character that a terminal would obey; it still means the same.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_shown(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                push!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

/// Columns that a cleaned text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The beginning of a cleaned text, in at most so many columns, with `…` where it was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        out.push(c);
        used += wide;
    }
    out.push('…');
    out
}

/// A colour by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Strong,
    Faint,
    Good,
    Bad,
    Warn,
    Who,
}

/// Whether output may be coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: bool,
    /// Columns of the terminal; 0 without one.
    pub(crate) columns: usize,
}

impl Style {
    /// Colours only on a terminal, and not when `NO_COLOR` asks for none.
    pub(crate) fn of(is_terminal: bool, no_colour: Option<&str>, term: Option<&str>) -> Self {
        let wanted = no_colour.is_none_or(str::is_empty) && term != Some("dumb");
        Self { colour: is_terminal && wanted, columns: 0 }
    }

    /// The same for a terminal of so many columns.
    pub(crate) fn with_columns(self, columns: Option<usize>) -> Self {
        Self { columns: columns.unwrap_or(0), ..self }
    }

    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Warn => "33",
            Paint::Who => "1;36",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Columns of the terminal behind a stream, if it is one.
pub(crate) fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Rows of the terminal behind a stream, if it is one.
pub(crate) fn rows(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel85_no_sequence_survives() {
        let corpus = [
            ("a\u{1b}]52;c;ZXZpbA==\u{7}b", "ab", "OSC 52 sets the clipboard"),
            (
                "a\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\b",
                "alinkb",
                "OSC 8 disguises a link",
            ),
            ("a\u{1b}]0;title\u{7}b", "ab", "OSC 0 sets the title"),
            ("a\u{1b}P$q\"p\u{1b}\\b", "ab", "DCS"),
            ("a\u{1b}_payload\u{1b}\\b", "ab", "APC"),
            ("a\u{1b}^payload\u{1b}\\b", "ab", "PM"),
            ("a\u{1b}[6nb", "ab", "CSI 6n asks for the cursor"),
            ("a\u{1b}[cb\u{1b}[2Jc", "abc", "CSI c, CSI 2J"),
            ("a\u{1b}[1;31;4mb\u{1b}[0mc", "abc", "colours"),
            ("a\u{1b}]52;c;secret\nnext", "a\nnext", "an unterminated OSC hides one line only"),
            ("a\u{1b}cb", "ab", "ESC c resets the terminal"),
            ("a\u{1b}(0b", "ab", "ESC ( 0 changes the character set"),
            ("a\u{9d}52;c;x\u{7}b", "ab", "C1 OSC, C2 9D in UTF-8"),
            ("a\u{9b}2Jb", "ab", "C1 CSI"),
            ("a\u{85}\u{8e}\u{9c}b", "ab", "other C1"),
            ("a\0\u{8}\r\u{7f}b", "ab", "C0 and DEL"),
            ("a\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}b", "ab", "bidi, zero-width and tags"),
            ("a\u{1b}]0;x\u{1b}[31mb", "ab", "a string that another sequence cuts off"),
            ("a\u{1b}", "a", "a lone ESC at the end"),
            ("é→日本 ok\ttab\nline", "é→日本 ok\ttab\nline", "what is harmless stays"),
        ];
        for (text, want, why) in corpus {
            assert_eq!(clean(text), want, "{why}");
        }
    }

    #[test]
    fn rel85_sequences_cut_over_pieces_do_not_survive() {
        let whole = "a\u{1b}]52;c;ZXZpbA==\u{1b}\\b\u{1b}[2Jc";
        for cut in (0..whole.len()).filter(|at| whole.is_char_boundary(*at)) {
            let mut filter = Filter::default();
            let (first, second) = whole.split_at(cut);
            assert_eq!(filter.feed(first) + &filter.feed(second), "abc", "cut at {cut}");
        }
    }

    #[test]
    fn rel85_json_keeps_its_meaning_without_raw_controls() {
        let value = serde_json::json!({"a": "x\u{9b}2J\u{202e}\u{e0041}\u{7f}y"});
        let text = json(&value.to_string());
        assert!(text.is_ascii());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(line("a\nb\tc\u{1b}[2J"), "a b c");
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        assert!(Style::of(true, None, Some("xterm")).colour);
        assert!(Style::of(true, Some(""), Some("xterm")).colour);
        assert!(!Style::of(true, Some("1"), Some("xterm")).colour);
        assert!(!Style::of(true, None, Some("dumb")).colour);
        assert!(!Style::of(false, None, Some("xterm")).colour);
        assert_eq!(
            Style { colour: true, columns: 0 }.paint(Paint::Good, "ok"),
            "\u{1b}[32mok\u{1b}[0m"
        );
    }
}
