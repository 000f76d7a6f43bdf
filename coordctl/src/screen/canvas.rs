//! What is to be seen, and what the user's terminal shows of it.
//!
//! If both have the same size, only differences are drawn; otherwise another viewer's size counts,
//! and the corner that fits is drawn. Everything is drawn from a model: a sequence that the model
//! does not know reaches no terminal (rel-85).

use std::fmt::Write as _;
use std::num::NonZeroU16;

use proto::screen::Size;
use unicode_width::UnicodeWidthChar as _;
use vt100::{Parser, Screen};

use super::raw;

pub(super) struct Canvas {
    /// What is to be seen.
    parser: Parser,
    /// The size of the user's terminal.
    own: Size,
    /// What that shows; none when that is not known.
    shown: Option<Screen>,
    /// The line that lies over the last one.
    over: Option<String>,
    /// Whether it lies there.
    is_over: bool,
    is_stale: bool,
}

fn parser(size: Size) -> Parser {
    let cell = |it: u16| NonZeroU16::new(it).unwrap_or(NonZeroU16::MIN);
    Parser::new(cell(size.rows), cell(size.columns), 0)
}

/// The text on a whole picture, without the empty lines at its end.
pub(super) fn text(size: Size, picture: &[u8]) -> String {
    let mut parser = parser(size);
    parser.process(picture);
    let rows: Vec<String> =
        parser.screen().rows(0, size.columns).map(|row| row.trim_end().to_owned()).collect();
    let text = rows.join("\n");
    format!("{}\n", text.trim_end_matches('\n'))
}

impl Canvas {
    pub(super) fn new(own: Size, over: String) -> Self {
        let over = Some(over);
        Self { parser: parser(own), own, shown: None, over, is_over: false, is_stale: true }
    }

    pub(super) fn own(&self) -> Size {
        self.own
    }

    /// A picture, as the terminal of this size would draw it.
    pub(super) fn take(&mut self, size: Size, picture: &[u8]) {
        if self.size() != size {
            self.parser = parser(size);
            self.shown = None;
        }
        self.parser.process(picture);
        self.is_stale = true;
    }

    fn size(&self) -> Size {
        let (rows, columns) = self.parser.screen().size();
        Size { rows: rows.get(), columns: columns.get() }
    }

    pub(super) fn resize(&mut self, own: Size) {
        self.own = own;
        self.forget();
    }

    /// The user's terminal shows something else than we know.
    pub(super) fn forget(&mut self) {
        self.shown = None;
        self.is_stale = true;
    }

    pub(super) fn has_hint(&self) -> bool {
        self.over.is_some()
    }

    pub(super) fn drop_hint(&mut self) {
        if self.over.take().is_some() {
            self.is_stale = true;
        }
    }

    pub(super) fn say(&mut self, text: &str) {
        self.over = Some(text.to_owned());
        self.is_stale = true;
    }

    /// Draws what differs.
    pub(super) fn draw(&mut self) -> std::io::Result<()> {
        if !std::mem::take(&mut self.is_stale) {
            return Ok(());
        }
        let text = self.drawing();
        if text.is_empty() { Ok(()) } else { raw::write(&text) }
    }

    fn drawing(&mut self) -> String {
        let now = self.parser.screen();
        let is_same_size = self.size() == self.own;
        // What lay over a line is not in the model.
        let before = self.shown.take().filter(|_| is_same_size && !self.is_over);
        let mut text = match &before {
            Some(before) => now.state_diff(before),
            None if is_same_size => now.state_formatted(),
            None => clipped(now, self.own),
        };
        self.is_over = self.over.is_some();
        if let Some(line) = &self.over {
            let line: String = fitting(line, self.own.columns);
            // The cursor and the colours go back to where the model has them.
            let _fits = write!(text, "\x1b7\x1b[{};1H\x1b[0;7m{line}\x1b[0m\x1b8", self.own.rows);
        }
        self.shown = Some(now.clone());
        text
    }
}

/// The upper left corner of a screen of another size.
fn clipped(screen: &Screen, own: Size) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get().min(own.rows), columns.get().min(own.columns));
    let mut text = String::from("\x1b[?25l\x1b[0m\x1b[2J");
    for (row, line) in (1..=rows).zip(screen.rows_formatted(0, columns)) {
        let _fits = write!(text, "\x1b[{row};1H\x1b[0m{line}");
    }
    text.push_str("\x1b[0m");
    text.push_str(&screen.input_mode_formatted());
    let (row, column) = screen.cursor_position();
    if row < rows && column < columns && !screen.hide_cursor() {
        let _fits = write!(text, "\x1b[{};{}H\x1b[?25h", row + 1, column + 1);
    }
    text
}

/// As much of a message of ours as fits, cleaned of control sequences.
fn fitting(line: &str, columns: u16) -> String {
    let mut left = usize::from(columns);
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    format!(" {} ", crate::terminal::line(line)).chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Size = Size { rows: 4, columns: 20 };

    /// A terminal that gets what is drawn.
    fn drawn(canvas: &mut Canvas, terminal: &mut Parser) -> String {
        terminal.process(canvas.drawing().as_bytes());
        terminal.screen().contents()
    }

    #[test]
    fn k4_what_is_drawn_is_what_is_to_be_seen() {
        let mut canvas = Canvas::new(OWN, "keys".into());
        let mut terminal = parser(OWN);
        terminal.process(b"something of before");
        canvas.take(OWN, b"\x1b[2J\x1b[Hone\r\n\x1b[31mtwo");
        assert_eq!(drawn(&mut canvas, &mut terminal), "one\ntwo\n\n keys ");
        assert_eq!(terminal.screen().cursor_position(), (1, 3), "where the program has it");
        canvas.drop_hint();
        assert_eq!(drawn(&mut canvas, &mut terminal), "one\ntwo");
        canvas.take(OWN, b"\x1b[1;1HONE");
        let change = canvas.drawing();
        assert!(change.len() < 40, "only what differs: {change:?}");
        terminal.process(change.as_bytes());
        assert_eq!(terminal.screen().contents(), "ONE\ntwo");
        canvas.say("coordd is away, and this line is too long for it");
        assert_eq!(drawn(&mut canvas, &mut terminal).lines().last(), Some(" coordd is away, and"));
    }

    /// Two viewers of different sizes: the one that does not count sees the corner.
    #[test]
    fn k1_a_screen_of_another_size_is_clipped() {
        let wide = Size { rows: 6, columns: 30 };
        let mut canvas = Canvas::new(OWN, String::new());
        canvas.drop_hint();
        canvas.take(wide, b"\x1b[2J\x1b[Hthe beginning of a long line\x1b[6;1Hbelow");
        let mut terminal = parser(OWN);
        assert_eq!(drawn(&mut canvas, &mut terminal), "the beginning of a l");
        assert!(terminal.screen().hide_cursor(), "the cursor is out of sight");
        canvas.resize(wide);
        let mut terminal = parser(wide);
        assert!(drawn(&mut canvas, &mut terminal).ends_with("below"));
        canvas.take(Size { rows: 2, columns: 10 }, b"\x1b[2J\x1b[Hsmall");
        assert_eq!(drawn(&mut canvas, &mut terminal), "small", "nothing stays around it");
    }

    /// rel-85: what no picture has to have reaches no terminal of a user's.
    #[test]
    fn rel85_no_sequence_gets_through_a_picture() {
        let mut canvas = Canvas::new(OWN, "\x1b]0;x\x07 keys".into());
        canvas.take(
            OWN,
            b"a\x1b]52;c;ZXZpbA==\x07b\x1b]0;title\x07c\x1bP$q\"p\x1b\\d\x1b[6ne\x1b[?1049hf",
        );
        let text = canvas.drawing();
        for bad in ["\x1b]", "\x1bP", "\x07", "[6n", "1049"] {
            assert!(!text.contains(bad), "{bad:?} in {text:?}");
        }
        assert_eq!(super::text(OWN, b"\x1b[2Jone\x1b[2;3H\x1b[31mtwo\x1b]0;x\x07"), "one\n  two\n");
    }
}
