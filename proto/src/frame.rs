//! The binary codec: length-delimited bincode frames between programs of one revision.
//!
//! ```text
//! preamble  | 00 63 6f 6f 72 64 64 00 | revision, u32 big-endian |      once, each way
//! frame     | length, u32 big-endian  | bincode                  |      again and again
//! ```
//!
//! The first byte of the preamble is zero, that of a JSON line never is: so one socket serves both
//! codecs. The daemon answers a preamble with its own. When the revisions differ it then closes,
//! and the client comes back with JSON Lines. This module alone knows bincode.

use serde::{Serialize, de::DeserializeOwned};

/// The longest frame body in bytes, 1 MiB: one message of 256 KiB with room for escaping, or one
/// page of a listing.
pub const FRAME_LEN_MAX: usize = 1 << 20;
/// Bytes of a frame's length field.
const HEADER_LEN: usize = 4;
/// Bytes of a preamble.
pub const PREAMBLE_LEN: usize = 12;
const MAGIC: &[u8; 8] = b"\0coordd\0";

/// Why bytes are no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length field is over the limit; nothing was buffered.
    #[error("a frame of {len} bytes is longer than the {FRAME_LEN_MAX} allowed")]
    TooLong {
        /// What the length field said.
        len: usize,
    },
    /// The body does not decode as the type that was expected.
    #[error("the frame does not decode: {reason}")]
    Malformed {
        /// The decoder's words.
        reason: String,
    },
    /// The body holds more than one message.
    #[error("{extra} bytes follow the message in its frame")]
    Trailing {
        /// How many.
        extra: usize,
    },
}

/// The preamble of a program of this revision.
pub fn preamble(revision: u32) -> [u8; PREAMBLE_LEN] {
    let mut bytes = [0; PREAMBLE_LEN];
    let (magic, number) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    number.copy_from_slice(&revision.to_be_bytes());
    bytes
}

/// The revision in a preamble, or nothing if it is none.
pub fn read_preamble(bytes: &[u8; PREAMBLE_LEN]) -> Option<u32> {
    let (magic, number) = bytes.split_first_chunk::<8>()?;
    (magic == MAGIC).then_some(())?;
    Some(u32::from_be_bytes(*number.first_chunk::<4>()?))
}

/// One message as a frame, length field included.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER_LEN];
    let len = bincode::serde::encode_into_std_write(message, &mut bytes, config())
        .map_err(|error| FrameError::Malformed { reason: error.to_string() })?;
    if len > FRAME_LEN_MAX {
        return Err(FrameError::TooLong { len });
    }
    let header = u32::try_from(len).map_err(|_| FrameError::TooLong { len })?.to_be_bytes();
    if let Some(start) = bytes.first_chunk_mut::<HEADER_LEN>() {
        *start = header;
    }
    Ok(bytes)
}

/// The message in a frame's body.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let (message, used) = bincode::serde::decode_from_slice(body, config())
        .map_err(|error| FrameError::Malformed { reason: error.to_string() })?;
    match body.len() - used {
        0 => Ok(message),
        extra => Err(FrameError::Trailing { extra }),
    }
}

/// What a body may make the decoder allocate. It counts what collections take in memory, which is
/// more than what they take in a frame: the smallest things are one byte there and some hundred
/// here.
const DECODED_LEN_MAX: usize = 256 * FRAME_LEN_MAX;

/// The frame's own length was checked before; the limit bounds what a length inside the body may
/// claim.
fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<DECODED_LEN_MAX>()
}

/// Cuts a byte stream into frames. It is fed bytes and never reads any.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buf: Vec<u8>,
    start: usize,
}

impl FrameDecoder {
    /// Takes what arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buf.drain(..self.start);
            self.start = 0;
        }
        self.buf.extend_from_slice(bytes);
    }

    /// The next whole frame's body, or nothing until more arrives.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let ready = self.buf.get(self.start..).unwrap_or_default();
        let Some((header, rest)) = ready.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let len = u32::from_be_bytes(*header) as usize;
        if len > FRAME_LEN_MAX {
            return Err(FrameError::TooLong { len });
        }
        let Some(body) = rest.get(..len) else { return Ok(None) };
        let body = body.to_vec();
        self.start += HEADER_LEN + len;
        Ok(Some(body))
    }

    /// Whether a frame has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.buf.len() > self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_reads_back_and_never_looks_like_json() {
        assert_eq!(read_preamble(&preamble(7)), Some(7));
        assert_eq!(preamble(7)[0], 0);
        let mut other = preamble(7);
        other[3] = b'x';
        assert_eq!(read_preamble(&other), None);
    }

    #[test]
    fn frames_come_out_whole_whatever_the_chunks() {
        let mut stream = encode(&"one".to_owned()).unwrap();
        stream.extend(encode(&"two".to_owned()).unwrap());
        for chunk in 1..stream.len() {
            let mut decoder = FrameDecoder::default();
            let mut seen = Vec::new();
            for bytes in stream.chunks(chunk) {
                decoder.feed(bytes);
                while let Some(body) = decoder.next_frame().unwrap() {
                    seen.push(decode::<String>(&body).unwrap());
                }
            }
            assert_eq!(seen, ["one", "two"], "chunks of {chunk}");
            assert!(!decoder.is_inside());
        }
    }

    #[test]
    fn rel26_a_huge_length_is_refused_before_its_body() {
        let mut decoder = FrameDecoder::default();
        decoder.feed(&u32::MAX.to_be_bytes());
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong { len: u32::MAX as usize }));
        // A length inside the body claims what is not there.
        let body = [253, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(matches!(decode::<String>(&body), Err(FrameError::Malformed { .. })));
    }

    #[test]
    fn d10_trailing_bytes_are_refused() {
        let mut frame = encode(&5_u64).unwrap();
        frame.push(0);
        assert_eq!(decode::<u64>(&frame[4..]), Err(FrameError::Trailing { extra: 1 }));
    }

    #[test]
    fn whatever_is_encoded_is_decoded() {
        let many: Vec<Vec<u64>> = vec![vec![1; 2]; FRAME_LEN_MAX / 4];
        assert_eq!(decode::<Vec<Vec<u64>>>(&encode(&many).unwrap()[HEADER_LEN..]), Ok(many));
        let empty = vec![String::new(); FRAME_LEN_MAX - 100];
        assert_eq!(decode::<Vec<String>>(&encode(&empty).unwrap()[HEADER_LEN..]), Ok(empty));
    }

    #[test]
    fn a_message_over_the_limit_is_not_encoded() {
        let big = "x".repeat(FRAME_LEN_MAX + 1);
        assert!(encode(&big).is_err());
    }
}
