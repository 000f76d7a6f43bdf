//! Bytes of a terminal as keys. A paste is one key, whatever is in it: it is announced by the terminal (`ESC [ 200 ~`), or told by
//! its lines coming all at once.

use super::is_several_lines;

/// Longest sequence of one key; what is longer is none.
const SEQUENCE_LEN_MAX: usize = 32;
/// Longest paste; a message has no room for more.
const PASTE_LEN_MAX: usize = proto::message::BODY_LEN_MAX;
const PASTE_END: &[u8] = b"\x1b[201~";

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Paste(String),
    Enter,
    Back,
    Delete,
    Left,
    Right,
    Home,
    End,
    Up,
    Down,
    /// Ctrl-U: all before the cursor.
    CutStart,
    /// Ctrl-K: all behind it.
    CutEnd,
    /// Ctrl-W: the word before it.
    CutWord,
    /// Ctrl-D: the end on an empty line, else [`Key::Delete`].
    EndOfInput,
}

/// What has come of a key so far.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl Keys {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let is_idle = self.paste.is_none() && self.pending.is_empty();
        // A terminal that announces pastes does so at their beginning; within a chunk of an escape sequence nothing is guessed.
        if is_idle && !bytes.contains(&0x1b) && is_several_lines(bytes) {
            return vec![Key::Paste(text_of(bytes))];
        }
        let mut keys = Vec::new();
        for byte in bytes {
            self.byte(*byte, &mut keys);
        }
        keys
    }

    fn byte(&mut self, byte: u8, keys: &mut Vec<Key>) {
        if let Some(paste) = &mut self.paste {
            paste.push(byte);
            if paste.ends_with(PASTE_END) {
                paste.truncate(paste.len() - PASTE_END.len());
                keys.push(Key::Paste(text_of(paste)));
                self.paste = None;
            } else if paste.len() > PASTE_LEN_MAX + PASTE_END.len() {
                // Its end is still looked for, and what is too long is cut.
                paste.drain(PASTE_LEN_MAX - PASTE_END.len()..paste.len() - PASTE_END.len());
            }
            return;
        }
        self.pending.push(byte);
        match self.pending.as_slice() {
            [0x1b] | [0x1b, b'[' | b'O'] => {}
            [0x1b, b'[', .., b'@'..=b'~'] | [0x1b, b'O', _] => {
                let sequence = std::mem::take(&mut self.pending);
                match sequence.as_slice() {
                    b"\x1b[200~" => self.paste = Some(Vec::new()),
                    sequence => keys.extend(of_sequence(sequence)),
                }
            }
            [0x1b, b'[', ..] if self.pending.len() <= SEQUENCE_LEN_MAX => {}
            // Alt and a key, or nothing that is known.
            [0x1b, ..] => self.pending.clear(),
            pending => match std::str::from_utf8(pending) {
                Ok(text) => {
                    keys.extend(text.chars().filter_map(of_char));
                    self.pending.clear();
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => {
                    keys.push(Key::Char(char::REPLACEMENT_CHARACTER));
                    self.pending.clear();
                }
            },
        }
    }
}

/// A paste with line ends as texts have them.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

fn of_char(c: char) -> Option<Key> {
    Some(match c {
        '\r' | '\n' => Key::Enter,
        '\u{8}' | '\u{7f}' => Key::Back,
        '\u{1}' => Key::Home,
        '\u{2}' => Key::Left,
        '\u{4}' => Key::EndOfInput,
        '\u{5}' => Key::End,
        '\u{6}' => Key::Right,
        '\u{b}' => Key::CutEnd,
        '\u{e}' => Key::Down,
        '\u{10}' => Key::Up,
        '\u{15}' => Key::CutStart,
        '\u{17}' => Key::CutWord,
        '\t' => Key::Char(' '),
        c if c.is_control() => return None,
        c => Key::Char(c),
    })
}

fn of_sequence(sequence: &[u8]) -> Option<Key> {
    Some(match sequence {
        b"\x1b[A" | b"\x1bOA" => Key::Up,
        b"\x1b[B" | b"\x1bOB" => Key::Down,
        b"\x1b[C" | b"\x1bOC" => Key::Right,
        b"\x1b[D" | b"\x1bOD" => Key::Left,
        b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" | b"\x1b[7~" => Key::Home,
        b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" | b"\x1b[8~" => Key::End,
        b"\x1b[3~" => Key::Delete,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(bytes: &[u8]) -> Vec<Key> {
        Keys::default().feed(bytes)
    }

    #[test]
    fn keys_are_told_however_their_bytes_come() {
        let bytes = "aé\x1b[D\x1bOC\x1b[3~\x1bx\x1b[1;5D\u{7f}\r".as_bytes();
        let want = vec![
            Key::Char('a'),
            Key::Char('é'),
            Key::Left,
            Key::Right,
            Key::Delete,
            Key::Back,
            Key::Enter,
        ];
        assert_eq!(fed(bytes), want);
        let mut keys = Keys::default();
        let one_by_one: Vec<_> = bytes.iter().flat_map(|byte| keys.feed(&[*byte])).collect();
        assert_eq!(one_by_one, want);
        assert_eq!(fed(b"\xff"), [Key::Char('\u{fffd}')]);
    }

    /// fA3: announced or not, a paste is one text.
    #[test]
    fn fa3_a_paste_is_one_key() {
        let text = "please also look at f2\ny\nand thanks";
        let raw = text.replace('\n', "\r");
        assert_eq!(fed(raw.as_bytes()), [Key::Paste(text.into())]);
        let announced = format!("\x1b[200~{raw}\x1b[201~\r");
        assert_eq!(fed(announced.as_bytes()), [Key::Paste(text.into()), Key::Enter]);
        let mut keys = Keys::default();
        let one_by_one: Vec<_> = announced.bytes().flat_map(|byte| keys.feed(&[byte])).collect();
        assert_eq!(one_by_one, [Key::Paste(text.into()), Key::Enter]);
        // One line in it is a paste all the same, and so is a sequence.
        assert_eq!(fed(b"\x1b[200~y\x1b[201~"), [Key::Paste("y".into())]);
        assert_eq!(fed(b"\x1b[200~a\x1b[Db\x1b[201~"), [Key::Paste("a\x1b[Db".into())]);
    }

    #[test]
    fn d10_a_paste_and_a_sequence_without_an_end_are_bounded() {
        let mut keys = Keys::default();
        keys.feed(b"\x1b[200~");
        for _ in 0..40 {
            assert!(keys.feed(&[b'x'; 16 * 1024]).is_empty());
        }
        assert!(keys.paste.as_ref().unwrap().len() <= PASTE_LEN_MAX + 2 * PASTE_END.len());
        assert!(
            matches!(&keys.feed(PASTE_END)[..], [Key::Paste(text)] if text.len() <= PASTE_LEN_MAX + 12)
        );
        keys.feed(b"\x1b[");
        keys.feed(&[b'1'; 100]);
        assert!(keys.pending.len() <= SEQUENCE_LEN_MAX);
    }
}
