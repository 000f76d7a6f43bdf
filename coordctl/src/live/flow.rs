//! Text broken at words to the terminal's columns, also while it is still being written.
//!
//! It takes cleaned text only. The last word is held back until it is whole, so that no word is cut
//! in two by the end of a piece or by a line of something else.

use crate::terminal::width;

/// Below this many columns, wrapping does not help.
const COLUMNS_MIN: usize = 20;

/// A text on its way to the screen.
#[derive(Debug)]
pub(crate) struct Flow {
    /// What each line but the first begins with.
    prefix: String,
    columns: usize,
    /// Columns used of the current line, without its beginning.
    used: usize,
    /// A new line was begun and is still empty.
    begins: bool,
    /// Spaces before the next word.
    gap: usize,
    word: String,
}

impl Flow {
    /// For a terminal of so many columns, 0 for none, of which `taken` stand before every line.
    pub(crate) fn new(prefix: impl Into<String>, taken: usize, columns: usize) -> Self {
        let columns = columns.checked_sub(taken).filter(|it| *it >= COLUMNS_MIN);
        Self {
            prefix: prefix.into(),
            columns: columns.unwrap_or(usize::MAX),
            used: 0,
            begins: false,
            gap: 0,
            word: String::new(),
        }
    }

    /// A whole text.
    pub(crate) fn whole(mut self, text: &str) -> String {
        let mut out = self.feed(text);
        out.push_str(&self.finish());
        out
    }

    /// What can be shown with the next piece.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                ' ' => {
                    self.put_word(&mut out);
                    self.gap += 1;
                }
                '\n' => {
                    self.put_word(&mut out);
                    self.new_line(&mut out);
                }
                c => self.word.push(c),
            }
        }
        out
    }

    /// The rest.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.put_word(&mut out);
        out
    }

    /// Other text was printed; the next piece begins a new line.
    pub(crate) fn resume(&mut self) {
        (self.used, self.begins, self.gap) = (0, false, 0);
    }

    fn new_line(&mut self, out: &mut String) {
        out.push('\n');
        (self.used, self.begins, self.gap) = (0, true, 0);
    }

    fn put_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if self.used > 0 && self.used + self.gap + width(&word) > self.columns {
            self.new_line(out);
        }
        if std::mem::take(&mut self.begins) {
            out.push_str(&self.prefix);
        }
        out.push_str(&" ".repeat(self.gap));
        self.used += std::mem::take(&mut self.gap);
        let mut buffer = [0; 4];
        for c in word.chars() {
            let wide = width(c.encode_utf8(&mut buffer));
            // A word that is longer than a line, as a path may be.
            if self.used > 0 && self.used + wide > self.columns {
                self.new_line(out);
                self.begins = false;
                out.push_str(&self.prefix);
            }
            out.push(c);
            self.used += wide;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(columns: usize) -> Flow {
        Flow::new("| ", 2, columns)
    }

    #[test]
    fn lines_break_at_words_and_long_words_where_they_must() {
        let text = "one two three four five six\n\n    if x\nend";
        assert_eq!(flow(22).whole(text), "one two three four\n| five six\n\n|     if x\n| end");
        let path = "/a/long/path/without/a/space/in/it";
        assert_eq!(
            flow(22).whole(&format!("in {path}")),
            "in\n| /a/long/path/without\n| /a/space/in/it"
        );
        assert_eq!(flow(22).whole("日本語日本語日本語日本語"), "日本語日本語日本語日\n| 本語");
    }

    #[test]
    fn without_a_terminal_or_on_a_tiny_one_nothing_is_broken() {
        let text = "word ".repeat(50) + "\n  end";
        let want = format!("{}\n|   end", ["word"; 50].join(" "));
        for columns in [0, 1, 21] {
            assert_eq!(flow(columns).whole(&text), want);
        }
    }

    #[test]
    fn pieces_make_the_same_lines_as_the_whole() {
        let text = "one two three four five\n six seven eight nine ten eleven";
        let whole = flow(22).whole(text);
        for cut in 0..text.len() {
            let mut flow = flow(22);
            let (first, second) = text.split_at(cut);
            let shown = flow.feed(first);
            // No word is torn.
            assert!(whole.starts_with(&shown), "{shown}");
            assert_eq!(shown + &flow.feed(second) + &flow.finish(), whole, "cut at {cut}");
        }
    }
}
