//! The two codecs of coordd's socket behind one interface.

use proto::frame::{self, FrameDecoder, FrameError};
use proto::line::{self, LineDecoder, LineError};
use proto::unknown::{self, Read};
use proto::{FromDaemon, ToDaemon};

/// Why bytes are no message, or a message cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    #[error("a frame cannot be used")]
    Frame {
        #[source]
        source: FrameError,
    },
    #[error("a line cannot be used")]
    Line {
        #[source]
        source: LineError,
    },
}

/// Which codec a connection uses, with what has arrived of it.
#[derive(Debug)]
pub(super) enum Codec {
    /// Between programs of one revision.
    Frames(FrameDecoder),
    /// With a daemon of another revision.
    Lines(LineDecoder),
}

impl Codec {
    pub(super) fn encode(&self, message: &ToDaemon) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Frames(_) => {
                frame::encode(message).map_err(|source| CodecError::Frame { source })
            }
            Self::Lines(_) => line::encode(message).map_err(|source| CodecError::Line { source }),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Frames(decoder) => decoder.feed(bytes),
            Self::Lines(decoder) => decoder.feed(bytes),
        }
    }

    /// The next whole message, or nothing until more arrives.
    pub(super) fn next(&mut self) -> Result<Option<Read<FromDaemon>>, CodecError> {
        match self {
            Self::Frames(decoder) => decoder
                .next_frame()
                .and_then(|body| body.map(|it| frame::decode(&it).map(Read::Message)).transpose())
                .map_err(|source| CodecError::Frame { source }),
            Self::Lines(decoder) => decoder
                .next_line()
                .and_then(|line| line.map(|line| unknown::read(&line)).transpose())
                .map_err(|source| CodecError::Line { source }),
        }
    }
}
