//! What the daemon says and hears in either codec.

use proto::codec::{Codec, CodecError, Decoder};
use proto::error::{ErrorBody, ErrorCode};
use proto::line::LineError;
use proto::unknown::{Kind, Read};
use proto::{FromDaemon, Outcome, Reply, ToDaemon};

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

/// The message's bytes. One that is too long for the wire becomes an error that says so.
pub(super) fn encode(codec: Codec, message: &FromDaemon) -> Vec<u8> {
    if let Ok(bytes) = codec.encode(message) {
        return bytes;
    }
    let error = ErrorBody::new(ErrorCode::TooLarge, "the answer is longer than a message may be")
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
    codec.encode(&shorter).unwrap_or_default()
}

/// The next whole message, or nothing until more arrives.
pub(super) fn next(decoder: &mut Decoder) -> Result<Option<Decoded>, ErrorBody> {
    let unknown = match decoder.next_message().map_err(|error| told(&error))? {
        None => return Ok(None),
        Some(Read::Message(message)) => return Ok(Some(Decoded::Message(Box::new(message)))),
        Some(Read::Unknown(unknown)) => unknown,
    };
    let error = told(&CodecError::Line(LineError::Malformed { reason: unknown.reason }));
    match unknown.kind {
        Kind::Call { id } => Ok(Some(Decoded::BadCall { id, error })),
        Kind::Report => Ok(Some(Decoded::Passed)),
        // Only coordd says these.
        Kind::Reply { .. } | Kind::Event { .. } | Kind::Order | Kind::Bridge => Err(error),
    }
}

fn told(error: &CodecError) -> ErrorBody {
    let code = if error.is_too_long() { ErrorCode::TooLarge } else { ErrorCode::Malformed };
    let body = ErrorBody::new(code, error.to_string());
    match error {
        CodecError::Frame(_) => body,
        CodecError::Line(_) => body.hint("PROTOCOL.md lists the messages with their fields"),
    }
}
