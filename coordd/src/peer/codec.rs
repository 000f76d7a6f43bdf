//! The two codecs behind one face.

use proto::error::{ErrorBody, ErrorCode};
use proto::frame::{self, FrameDecoder, FrameError};
use proto::line::{self, LineDecoder, LineError};
use proto::unknown::{self, Kind, Read};
use proto::{FromDaemon, Outcome, Reply, ToDaemon};

/// How a connection's messages are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Codec {
    /// bincode, for programs of this revision.
    Frames,
    /// JSON Lines, for everyone.
    Lines,
}

/// Bytes that are not yet a message.
#[derive(Debug)]
pub(super) enum Decoder {
    Frames(FrameDecoder),
    Lines(LineDecoder),
}

/// What a peer said.
#[derive(Debug)]
pub(super) enum Decoded {
    /// A message.
    Message(Box<ToDaemon>),
    /// A call that this build does not understand: from a newer client, or with a field that is not
    /// as it must be. It is answered, and harms nothing else.
    BadCall { id: u64, error: ErrorBody },
    /// A message that a newer program sends, and that may be missed.
    Passed,
}

impl Codec {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Lines => "lines",
        }
    }

    pub(super) fn decoder(self) -> Decoder {
        match self {
            Self::Frames => Decoder::Frames(FrameDecoder::default()),
            Self::Lines => Decoder::Lines(LineDecoder::default()),
        }
    }

    /// The message's bytes. One that is too long for the wire becomes an error that says so.
    pub(super) fn encode(self, message: &FromDaemon) -> Vec<u8> {
        if let Some(bytes) = self.try_encode(message) {
            return bytes;
        }
        let error =
            ErrorBody::new(ErrorCode::TooLarge, "the answer is longer than a message may be")
                .hint("ask for less at once: one session, one agent, or a smaller page");
        let shorter = match message {
            FromDaemon::Reply(reply) => {
                FromDaemon::Reply(Reply { id: reply.id, outcome: Outcome::Error(error) })
            }
            FromDaemon::Welcome(_)
            | FromDaemon::Event(_)
            | FromDaemon::Order(_)
            | FromDaemon::Bridge(_)
            | FromDaemon::Closing(_) => FromDaemon::Closing(error),
        };
        self.try_encode(&shorter).unwrap_or_default()
    }

    fn try_encode(self, message: &FromDaemon) -> Option<Vec<u8>> {
        match self {
            Self::Frames => frame::encode(message).ok(),
            Self::Lines => line::encode(message).ok(),
        }
    }
}

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Frames(it) => it.feed(bytes),
            Self::Lines(it) => it.feed(bytes),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Decoded>, ErrorBody> {
        match self {
            Self::Frames(it) => match it.next_frame().map_err(|error| of_frame(&error))? {
                Some(body) => match frame::decode(&body) {
                    Ok(message) => Ok(Some(Decoded::Message(Box::new(message)))),
                    Err(error) => Err(of_frame(&error)),
                },
                None => Ok(None),
            },
            Self::Lines(it) => match it.next_line().map_err(|error| of_line(&error))? {
                Some(line) => match unknown::read(&line).map_err(|error| of_line(&error))? {
                    Read::Message(message) => Ok(Some(Decoded::Message(Box::new(message)))),
                    Read::Unknown(unknown) => {
                        let error = of_line(&LineError::Malformed { reason: unknown.reason });
                        match unknown.kind {
                            Kind::Call { id } => Ok(Some(Decoded::BadCall { id, error })),
                            Kind::Report => Ok(Some(Decoded::Passed)),
                            // Only coordd says these.
                            Kind::Reply { .. }
                            | Kind::Event { .. }
                            | Kind::Order
                            | Kind::Bridge => Err(error),
                        }
                    }
                },
                None => Ok(None),
            },
        }
    }

    pub(super) fn is_inside(&self) -> bool {
        match self {
            Self::Frames(it) => it.is_inside(),
            Self::Lines(it) => it.is_inside(),
        }
    }
}

fn of_frame(error: &FrameError) -> ErrorBody {
    let code = match error {
        FrameError::TooLong { .. } => ErrorCode::TooLarge,
        FrameError::Malformed { .. } | FrameError::Trailing { .. } => ErrorCode::Malformed,
    };
    ErrorBody::new(code, error.to_string())
}

fn of_line(error: &LineError) -> ErrorBody {
    let code = match error {
        LineError::TooLong => ErrorCode::TooLarge,
        LineError::Malformed { .. } => ErrorCode::Malformed,
    };
    ErrorBody::new(code, error.to_string()).hint("PROTOCOL.md lists the messages with their fields")
}
