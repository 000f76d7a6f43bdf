//! The screen of a terminal that coordd runs, on its way to those who look at it.
//!
//! ```text
//!   whole (number 7) ──▶ change 8 ──▶ change 9 ──▶ …      each in parts of at most 64 KiB
//!          ▲                    \─ one is missing: ask for a whole one
//! ```
//!
//! What travels is never what the program wrote: it is how one picture of the screen becomes the
//! next, drawn anew by the process that holds the terminal. So a slow viewer skips pictures and
//! garbles nothing. It does no I/O and knows no terminal.

pub use proto_words::view::{SIZE_FIRST, SIZE_MAX, SIZE_MIN, Size};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Most bytes in one part, or of input in one request. In base64, with what is around it, it stays
/// far below a frame.
pub const PART_LEN_MAX: usize = 64 * 1024;
/// Most parts of one picture: every cell of the largest screen with colours of its own and long
/// letters.
pub const PARTS_MAX: u32 = 128;

/// A part of a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Which incarnation of the agent draws: its numbers are its own.
    pub incarnation: u32,
    /// The picture's number, rising by one.
    pub number: u64,
    /// Whether it is whole; otherwise it is how the picture before it becomes this one.
    pub whole: bool,
    /// How large the screen is.
    pub size: Size,
    /// Which part, from 0.
    pub part: u32,
    /// How many there are.
    pub parts: u32,
    /// Text and escape sequences, for a terminal of this size that shows the picture before, or,
    /// for a whole one, anything.
    pub bytes: Bytes,
}

/// Bytes: base64 in JSON, themselves in bincode.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// What a person types, and what they see, is in no log.
impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({} of them)", self.0.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            data_encoding::BASE64.encode(&self.0).serialize(serializer)
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            let decoded = data_encoding::BASE64.decode(text.as_bytes());
            decoded.map(Self).map_err(|error| de::Error::custom(format!("no base64: {error}")))
        } else {
            deserializer.deserialize_byte_buf(Buffer)
        }
    }
}

struct Buffer;

impl de::Visitor<'_> for Buffer {
    type Value = Bytes;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes(bytes.to_vec()))
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
        Ok(Bytes(bytes))
    }
}

/// Puts the parts of a picture together, for viewers.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The picture that is shown.
    shown: Option<(u32, u64)>,
    /// The parts of the next one, as far as they came.
    parts: Vec<Frame>,
}

/// What a part comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The rest of it is on its way, or it is of no use any more.
    Nothing,
    /// Something is missing: a whole picture is to be asked for.
    Missed,
    /// A picture.
    Picture {
        /// Whether it is whole.
        whole: bool,
        /// How large it is.
        size: Size,
        /// How it is drawn.
        bytes: Vec<u8>,
    },
}

impl Assembly {
    /// Takes a part in.
    pub fn take(&mut self, frame: Frame) -> Came {
        let of = (frame.incarnation, frame.number);
        let follows = self
            .shown
            .is_some_and(|(incarnation, number)| of == (incarnation, number.saturating_add(1)));
        if !frame.whole && self.shown.is_some_and(|shown| of.0 == shown.0 && of.1 <= shown.1) {
            // Seen as a part of a whole one.
            return Came::Nothing;
        }
        if !frame.whole && !follows {
            self.parts.clear();
            // Without any picture one is on its way already.
            return if self.shown.take().is_some() { Came::Missed } else { Came::Nothing };
        }
        let expected = self.parts.len();
        let is_next = usize::try_from(frame.part) == Ok(expected)
            && self.parts.first().is_none_or(|part| {
                (part.incarnation, part.number, part.whole, part.parts)
                    == (frame.incarnation, frame.number, frame.whole, frame.parts)
            });
        if !is_next {
            self.parts.clear();
            if frame.part != 0 {
                return if self.shown.take().is_some() || frame.whole {
                    Came::Missed
                } else {
                    Came::Nothing
                };
            }
        }
        if frame.parts > PARTS_MAX || frame.part >= frame.parts {
            self.parts.clear();
            return Came::Nothing;
        }
        let (whole, size, is_last) = (frame.whole, frame.size, frame.part + 1 == frame.parts);
        self.parts.push(frame);
        if !is_last {
            return Came::Nothing;
        }
        self.shown = Some(of);
        let bytes = self.parts.drain(..).flat_map(|part| part.bytes.0).collect();
        Came::Picture { whole, size, bytes }
    }

    /// What is shown counts no more: the connection is another one.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, whole: bool, part: u32, parts: u32) -> Frame {
        let bytes = Bytes(format!("{number}.{part} ").into_bytes());
        Frame { incarnation: 1, number, whole, size: SIZE_FIRST, part, parts, bytes }
    }

    fn picture(whole: bool, text: &str) -> Came {
        Came::Picture { whole, size: SIZE_FIRST, bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn k4_changes_follow_a_whole_picture_and_a_missing_one_is_noticed() {
        let mut it = Assembly::default();
        assert_eq!(it.take(frame(4, false, 0, 1)), Came::Nothing, "a whole one is on its way");
        assert_eq!(it.take(frame(5, true, 0, 2)), Came::Nothing);
        assert_eq!(it.take(frame(5, true, 1, 2)), picture(true, "5.0 5.1 "));
        assert_eq!(it.take(frame(5, false, 0, 1)), Came::Nothing, "it is in the whole one");
        assert_eq!(it.take(frame(6, false, 0, 1)), picture(false, "6.0 "));
        assert_eq!(it.take(frame(8, false, 0, 1)), Came::Missed);
        assert_eq!(it.take(frame(9, false, 0, 1)), Came::Nothing, "asked for once");
        assert_eq!(it.take(frame(10, true, 1, 2)), Came::Missed, "its beginning is missing");
        assert_eq!(it.take(frame(11, true, 0, 1)), picture(true, "11.0 "));
        let next = Frame { incarnation: 2, ..frame(12, false, 0, 1) };
        assert_eq!(it.take(next), Came::Missed, "another process counts anew");
    }

    #[test]
    fn k4_a_part_that_is_missing_spoils_its_picture_alone() {
        let mut it = Assembly::default();
        assert_eq!(it.take(frame(1, true, 0, 1)), picture(true, "1.0 "));
        assert_eq!(it.take(frame(2, false, 0, 3)), Came::Nothing);
        assert_eq!(it.take(frame(2, false, 2, 3)), Came::Missed);
        assert_eq!(it.take(frame(3, true, 0, 1)), picture(true, "3.0 "));
        assert_eq!(it.take(frame(4, false, 0, PARTS_MAX + 1)), Came::Nothing, "nobody sends that");
    }

    #[test]
    fn bytes_are_base64_in_json_and_themselves_in_frames() {
        let bytes = Bytes(vec![0, 27, 255]);
        assert_eq!(serde_json::to_string(&bytes).unwrap(), "\"ABv/\"");
        assert_eq!(serde_json::from_str::<Bytes>("\"ABv/\"").unwrap(), bytes);
        assert!(serde_json::from_str::<Bytes>("\"no base64!\"").is_err());
        let frame = crate::frame::encode(&bytes).unwrap();
        assert_eq!(crate::frame::decode::<Bytes>(&frame[4..]).unwrap(), bytes);
        assert_eq!(format!("{bytes:?}"), "Bytes(3 of them)");
    }

    #[test]
    fn k1_a_size_is_one_that_a_terminal_can_have() {
        let size = |rows, columns| Size { rows, columns };
        assert_eq!(size(0, 0).clamped(), SIZE_MIN);
        assert_eq!(size(u16::MAX, u16::MAX).clamped(), SIZE_MAX);
        assert_eq!(size(50, 132).clamped(), size(50, 132));
    }
}
