//! The open codec: JSON Lines, one message a line, for any program.

use serde::{Serialize, de::DeserializeOwned};

/// The longest line in bytes, without its newline.
pub const LINE_LEN_MAX: usize = crate::frame::FRAME_LEN_MAX;
/// How deep objects and arrays may nest. No message of ours comes near.
pub const DEPTH_MAX: usize = 64;

/// Why a line is no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// No newline within the limit.
    #[error("a line is longer than the {LINE_LEN_MAX} bytes allowed")]
    TooLong,
    /// Not UTF-8, not JSON, or not the message that was expected.
    #[error("the line is not a valid message: {reason}")]
    Malformed {
        /// The parser's words.
        reason: String,
    },
}

/// One message as a line, newline included.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, LineError> {
    let mut bytes = serde_json::to_vec(message)
        .map_err(|error| LineError::Malformed { reason: error.to_string() })?;
    #[cfg(feature = "skew")]
    if crate::skew::is_later() {
        bytes = crate::skew::lines(bytes);
    }
    if bytes.len() > LINE_LEN_MAX {
        return Err(LineError::TooLong);
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// The message in a line. Unknown fields are ignored; a repeated or missing one is an error that
/// names it.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    if depth(line) > DEPTH_MAX {
        let reason = format!("nested deeper than {DEPTH_MAX}");
        return Err(LineError::Malformed { reason });
    }
    serde_json::from_slice(line).map_err(|error| LineError::Malformed { reason: error.to_string() })
}

/// The deepest nesting of brackets outside of strings.
fn depth(line: &[u8]) -> usize {
    let (mut deepest, mut open) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in line {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                open += 1;
                deepest = deepest.max(open);
            }
            (false, b'}' | b']') => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Cuts a byte stream into lines. It is fed bytes and never reads any.
#[derive(Debug, Default)]
pub struct LineDecoder {
    buf: Vec<u8>,
    start: usize,
    /// How far the unfinished line has been searched for its newline.
    searched: usize,
}

impl LineDecoder {
    /// Takes what arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buf.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buf.extend_from_slice(bytes);
    }

    /// The next whole line without its newline, or nothing until more arrives. Empty lines are
    /// passed over.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        loop {
            let rest = self.buf.get(self.searched..).unwrap_or_default();
            let Some(at) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buf.len();
                let long = self.buf.len() - self.start > LINE_LEN_MAX;
                return if long { Err(LineError::TooLong) } else { Ok(None) };
            };
            let end = self.searched + at;
            let line = self.buf.get(self.start..end).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
            self.start = end + 1;
            self.searched = self.start;
            if line.len() > LINE_LEN_MAX {
                return Err(LineError::TooLong);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line));
            }
        }
    }

    /// Whether a line has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.buf.len() > self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_whatever_the_chunks() {
        let stream = b"\"one\"\n\r\n\n\"two\"\r\n";
        for chunk in 1..stream.len() {
            let mut decoder = LineDecoder::default();
            let mut seen = Vec::new();
            for bytes in stream.chunks(chunk) {
                decoder.feed(bytes);
                while let Some(line) = decoder.next_line().unwrap() {
                    seen.push(decode::<String>(&line).unwrap());
                }
            }
            assert_eq!(seen, ["one", "two"], "chunks of {chunk}");
            assert!(!decoder.is_inside());
        }
    }

    #[test]
    fn rel83_depth_and_length_are_bounded() {
        let deep = "[".repeat(100_000);
        assert!(decode::<serde_json::Value>(deep.as_bytes()).is_err());
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(decode::<serde_json::Value>(nested(DEPTH_MAX).as_bytes()).is_ok());
        let refused = decode::<serde_json::Value>(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("nested deeper"), "{refused}");
        let brackets_in_a_string = format!("\"{}\\\"{}\"", "[".repeat(100), "{".repeat(100));
        assert!(decode::<String>(brackets_in_a_string.as_bytes()).is_ok());
        let mut decoder = LineDecoder::default();
        decoder.feed(&vec![b'x'; LINE_LEN_MAX + 1]);
        assert_eq!(decoder.next_line(), Err(LineError::TooLong));
    }

    #[test]
    fn d10_invalid_utf8_is_an_error() {
        assert!(decode::<String>(b"\"\xff\"").is_err());
    }
}
