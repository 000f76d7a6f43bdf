//! Both codecs behind one interface, for programs that speak either.

use serde::{Serialize, de::DeserializeOwned};

use crate::frame::{self, FrameDecoder, FrameError};
use crate::line::{self, LineDecoder, LineError};
use crate::unknown::{self, Read};

/// How the messages of a connection are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// bincode, between programs of one revision.
    Frames,
    /// JSON Lines, for everyone.
    Lines,
}

/// Why bytes are no message, or a message cannot be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// In the binary codec.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// In JSON Lines.
    #[error(transparent)]
    Line(#[from] LineError),
}

impl CodecError {
    /// Whether the message is over the limit, rather than wrong.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Frame(FrameError::TooLong { .. }) | Self::Line(LineError::TooLong))
    }
}

impl Codec {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Frames, Self::Lines];

    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Lines => "lines",
        }
    }

    /// For a connection from which nothing has come yet.
    pub fn decoder(self) -> Decoder {
        match self {
            Self::Frames => Decoder::Frames(FrameDecoder::default()),
            Self::Lines => Decoder::Lines(LineDecoder::default()),
        }
    }

    /// A message's bytes.
    pub fn encode<T: Serialize>(self, message: &T) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Frames => Ok(frame::encode(message)?),
            Self::Lines => Ok(line::encode(message)?),
        }
    }
}

/// Bytes that are not yet a message. It is fed bytes and never reads any.
#[derive(Debug)]
pub enum Decoder {
    /// Of the binary codec.
    Frames(FrameDecoder),
    /// Of JSON Lines.
    Lines(LineDecoder),
}

impl Decoder {
    /// The codec of the connection.
    pub fn codec(&self) -> Codec {
        match self {
            Self::Frames(_) => Codec::Frames,
            Self::Lines(_) => Codec::Lines,
        }
    }

    /// Takes what arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Frames(decoder) => decoder.feed(bytes),
            Self::Lines(decoder) => decoder.feed(bytes),
        }
    }

    /// The next whole message, or nothing until more arrives. In JSON Lines it may be one that a
    /// program of another age has added.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<Read<T>>, CodecError> {
        match self {
            Self::Frames(decoder) => match decoder.next_frame()? {
                Some(body) => Ok(Some(Read::Message(frame::decode(&body)?))),
                None => Ok(None),
            },
            Self::Lines(decoder) => match decoder.next_line()? {
                Some(line) => Ok(Some(unknown::read(&line)?)),
                None => Ok(None),
            },
        }
    }

    /// Whether a message has begun and not ended.
    pub fn is_inside(&self) -> bool {
        match self {
            Self::Frames(decoder) => decoder.is_inside(),
            Self::Lines(decoder) => decoder.is_inside(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d3_what_one_side_writes_the_other_reads_in_either_codec() {
        for codec in Codec::ALL {
            let bytes = codec.encode(&"one".to_owned()).unwrap();
            let mut decoder = codec.decoder();
            assert_eq!(decoder.codec(), codec);
            let (last, first) = bytes.split_last().unwrap();
            decoder.feed(first);
            assert_eq!(decoder.next_message::<String>(), Ok(None));
            assert!(decoder.is_inside());
            decoder.feed(&[*last]);
            assert_eq!(decoder.next_message(), Ok(Some(Read::Message("one".to_owned()))));
            assert!(!decoder.is_inside());
        }
    }

    #[test]
    fn rel26_what_is_too_long_is_told_from_what_is_wrong() {
        let long = "x".repeat(frame::FRAME_LEN_MAX + 1);
        for (codec, wrong) in [(Codec::Frames, &b"\0\0\0\x01\x05"[..]), (Codec::Lines, &b"{\n"[..])]
        {
            assert!(codec.encode(&long).unwrap_err().is_too_long(), "{codec:?}");
            let mut decoder = codec.decoder();
            decoder.feed(wrong);
            assert!(!decoder.next_message::<String>().unwrap_err().is_too_long(), "{codec:?}");
        }
    }
}
