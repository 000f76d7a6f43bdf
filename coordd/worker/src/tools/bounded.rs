//! A capture that keeps the first and the last part of a stream and counts what lies between.
//!
//! Whatever a command prints, the memory for it stays the same. It must not decide how long to
//! read.

use std::collections::VecDeque;

/// First and last part of a stream of bytes.
#[derive(Debug)]
pub(crate) struct BoundedCapture {
    head: Vec<u8>,
    head_len_max: usize,
    tail: VecDeque<u8>,
    tail_len_max: usize,
    left_out: u64,
}

impl BoundedCapture {
    /// Keeps about `len_max` bytes: half from the front, half from the end.
    pub(crate) fn new(len_max: usize) -> Self {
        let head_len_max = len_max / 2;
        Self {
            head: Vec::new(),
            head_len_max,
            tail: VecDeque::new(),
            tail_len_max: len_max - head_len_max,
            left_out: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let free = self.head_len_max - self.head.len();
        let (to_head, rest) = bytes.split_at(free.min(bytes.len()));
        self.head.extend_from_slice(to_head);
        // Only the end of a large piece can stay.
        let skipped = rest.len().saturating_sub(self.tail_len_max);
        let (_, rest) = rest.split_at(skipped);
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_len_max);
        self.tail.drain(..over);
        self.tail.extend(rest);
        self.left_out += (skipped + over) as u64;
    }

    /// The text for a reader, with a mark where bytes were left out.
    pub(crate) fn into_text(self) -> String {
        let tail: Vec<u8> = self.tail.into();
        if self.left_out == 0 {
            let mut all = self.head;
            all.extend_from_slice(&tail);
            return visible(&all);
        }
        let head = whole_characters_front(&self.head);
        let tail_whole = whole_characters_back(&tail);
        let cut = (self.head.len() - head.len()) + (tail.len() - tail_whole.len());
        let left_out = self.left_out + cut as u64;
        format!("{}\n[… {left_out} bytes left out …]\n{}", visible(head), visible(tail_whole))
    }
}

/// Cuts a character that is only half there off the end.
fn whole_characters_front(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        // A character that breaks off behind bytes that are no text at all is shown as broken as
        // well.
        Ok(_) | Err(_) => bytes,
    }
}

/// Cuts the rest of a character whose beginning is lost off the front.
fn whole_characters_back(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    bytes.get(rest..).unwrap_or(bytes)
}

/// Text in which bytes that are no text, and control characters, can be seen.
pub(crate) fn visible(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| match c {
            '\n' | '\t' | '\r' => c,
            '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
            '\u{7f}' => '\u{2421}',
            _ => c,
        })
        .collect()
}

pub(crate) use proto::text::head as cut;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut capture = BoundedCapture::new(10);
        capture.push(b"abc");
        capture.push(b"defghij");
        assert_eq!(capture.into_text(), "abcdefghij");
    }

    /// rel-94: first and last part stay, and the text says how much is missing.
    #[test]
    fn the_middle_of_a_long_stream_is_left_out() {
        let mut capture = BoundedCapture::new(6);
        capture.push(b"abcdefgh");
        capture.push(b"ij");
        assert_eq!(capture.into_text(), "abc\n[… 4 bytes left out …]\nhij");
    }

    #[test]
    fn a_character_that_was_cut_is_counted_as_left_out() {
        let mut capture = BoundedCapture::new(6);
        capture.push("ab\u{e4}xxxxxx\u{e4}cd".as_bytes());
        // "ab" and half an ä; half of the other ä is the first byte of the tail.
        assert_eq!(capture.into_text(), "ab\n[… 10 bytes left out …]\ncd");
    }

    #[test]
    fn bytes_that_are_no_text_can_be_seen() {
        assert_eq!(visible(b"a\xff\0\x1b[1m\n\t"), "a\u{fffd}\u{2400}\u{241b}[1m\n\t");
    }

    proptest! {
        #[test]
        fn nothing_is_counted_twice_or_lost(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            len_max in 0_usize..50,
        ) {
            let mut capture = BoundedCapture::new(len_max);
            for piece in &pieces {
                capture.push(piece);
            }
            let all: Vec<u8> = pieces.concat();
            prop_assert!(capture.head.len() + capture.tail.len() <= len_max);
            prop_assert!(all.starts_with(&capture.head));
            let tail: Vec<u8> = capture.tail.iter().copied().collect();
            prop_assert!(all.ends_with(&tail));
            let kept = (capture.head.len() + tail.len()) as u64;
            prop_assert_eq!(kept + capture.left_out, all.len() as u64);
        }
    }
}
