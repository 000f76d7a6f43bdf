//! The keys that leave a terminal: a prefix and a second key, as in tmux, or one key alone.

use std::fmt;
use std::str::FromStr;

/// The usual ones.
const DEFAULT: &str = "ctrl-b,d";

/// A key sequence, and how much of it was pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DetachKeys {
    first: u8,
    second: Option<u8>,
    is_open: bool,
}

/// What became of what was pressed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pressed {
    /// What is for the program.
    pub(super) send: Vec<u8>,
    /// Whether the terminal is left.
    pub(super) leaves: bool,
}

impl Default for DetachKeys {
    fn default() -> Self {
        Self { first: ctrl('b').unwrap_or(2), second: Some(b'd'), is_open: false }
    }
}

/// Why a word names no keys.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a key sequence: write `{DEFAULT}`, `ctrl-]` or the like, with a Ctrl key first"
)]
pub(crate) struct KeysError(String);

impl FromStr for DetachKeys {
    type Err = KeysError;

    fn from_str(text: &str) -> Result<Self, KeysError> {
        let wrong = || KeysError(text.to_owned());
        let mut keys = text.split(',').map(|part| key(part.trim()));
        let first = keys.next().flatten().filter(|key| *key < 0x20).ok_or_else(wrong)?;
        let second = match keys.next() {
            None => None,
            Some(key) => Some(key.ok_or_else(wrong)?),
        };
        if keys.next().is_some() {
            return Err(wrong());
        }
        Ok(Self { first, second, is_open: false })
    }
}

/// `ctrl-b`, `^b`, or the key itself.
fn key(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    let control = lower.strip_prefix("ctrl-").or_else(|| lower.strip_prefix('^'));
    let mut letters = control.unwrap_or(text).chars();
    let letter = letters.next().filter(|_| letters.next().is_none())?;
    match control {
        Some(_) => ctrl(letter),
        None => u8::try_from(letter).ok().filter(u8::is_ascii_graphic),
    }
}

/// What a terminal sends for Ctrl and this key.
fn ctrl(letter: char) -> Option<u8> {
    let upper = u8::try_from(letter.to_ascii_uppercase()).ok()?;
    (b'@'..=b'_').contains(&upper).then_some(upper & 0x1f)
}

impl fmt::Display for DetachKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = char::from(self.first + b'@').to_ascii_lowercase();
        write!(f, "Ctrl-{letter}")?;
        match self.second {
            Some(key) if key < 0x20 => {
                write!(f, " Ctrl-{}", char::from(key + b'@').to_ascii_lowercase())
            }
            Some(key) => write!(f, " {}", char::from(key)),
            None => Ok(()),
        }
    }
}

impl DetachKeys {
    /// Takes typed bytes and returns those for the program. The prefix twice sends it once; the
    /// prefix and another key are both passed on.
    pub(super) fn press(&mut self, typed: &[u8]) -> Pressed {
        let mut send = Vec::with_capacity(typed.len());
        for key in typed {
            if !self.is_open {
                match self.second {
                    None if *key == self.first => return Pressed { send, leaves: true },
                    Some(_) if *key == self.first => self.is_open = true,
                    _ => send.push(*key),
                }
                continue;
            }
            self.is_open = false;
            if Some(*key) == self.second {
                return Pressed { send, leaves: true };
            }
            send.push(self.first);
            if *key != self.first {
                send.push(*key);
            }
        }
        Pressed { send, leaves: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(keys: &mut DetachKeys, typed: &[u8]) -> Vec<u8> {
        let pressed = keys.press(typed);
        assert!(!pressed.leaves, "{typed:?}");
        pressed.send
    }

    #[test]
    fn k9_the_keys_leave_wherever_the_reads_are_cut() {
        let mut keys = DetachKeys::default();
        assert_eq!(sent(&mut keys, b"abd"), b"abd");
        assert_eq!(sent(&mut keys, b"x\x02"), b"x");
        assert_eq!(keys.press(b"drest"), Pressed { send: Vec::new(), leaves: true });
        let mut keys = DetachKeys::default();
        assert_eq!(sent(&mut keys, b"\x02\x02d"), b"\x02d", "twice is one, and no beginning");
        assert_eq!(sent(&mut keys, b"\x02x"), b"\x02x", "another key takes nothing away");
        assert_eq!(keys.press(b"y\x02d"), Pressed { send: b"y".to_vec(), leaves: true });
        let mut one: DetachKeys = "ctrl-]".parse().unwrap();
        assert_eq!(one.press(b"a\x1d"), Pressed { send: b"a".to_vec(), leaves: true });
    }

    #[test]
    fn k9_keys_are_read_and_shown() {
        for (text, shown) in [
            ("ctrl-b,d", "Ctrl-b d"),
            ("CTRL-A,d", "Ctrl-a d"),
            ("^\\", "Ctrl-\\"),
            ("ctrl-p,ctrl-q", "Ctrl-p Ctrl-q"),
        ] {
            assert_eq!(text.parse::<DetachKeys>().unwrap().to_string(), shown);
        }
        assert_eq!(DetachKeys::default().to_string(), "Ctrl-b d");
        assert_eq!(DEFAULT.parse(), Ok(DetachKeys::default()));
        for wrong in ["", "d", "ctrl-", "ctrl-b,", "ctrl-b,d,e", "ctrl-ä", "x,d"] {
            let error = wrong.parse::<DetachKeys>().unwrap_err().to_string();
            assert!(error.contains("ctrl-b,d"), "{wrong}: {error}");
        }
    }
}
