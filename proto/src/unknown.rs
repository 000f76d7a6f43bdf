//! Lines of a program of another age that this build does not understand.
//!
//! A newer program may add requests, responses, events, orders and reports. None of them ends a
//! connection: what may be missed is passed over, and what is asked is answered with an error. What
//! is malformed in any other way is an error of the line.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::WallMs;
use crate::line::{self, LineError};

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Read<T> {
    /// A message.
    Message(T),
    /// One of a known kind whose content this build does not understand.
    Unknown(Unknown),
}

/// A message that is not understood: its kind, and what its envelope says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What was said.
    pub kind: Kind,
    /// Why it is not understood, in the parser's words, which may quote the message.
    pub reason: String,
}

/// The kinds of messages that do not end a connection when their content is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request; it is owed a reply.
    Call {
        /// The call's id.
        id: u64,
    },
    /// A response; whoever waits for it is told.
    Reply {
        /// The call's id.
        id: u64,
    },
    /// An event, with its place in the order.
    Event {
        /// Its number; 0 in an agent's stream.
        seq: u64,
        /// When it happened.
        at_ms: WallMs,
        /// The session that it is about; empty when about none.
        session: String,
    },
    /// A report of an agent process; it may be lost.
    Report,
    /// What an agent process is told to do.
    Order,
    /// What the bridge process is told.
    Bridge,
}

/// The message in a line, or what is known of one that is not understood. An error ends the
/// connection.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<Read<T>, LineError> {
    match line::decode(text) {
        Ok(message) => Ok(Read::Message(message)),
        Err(LineError::Malformed { reason }) => match kind_of(text) {
            Some(kind) => Ok(Read::Unknown(Unknown { kind, reason })),
            None => Err(LineError::Malformed { reason }),
        },
        Err(error @ LineError::TooLong) => Err(error),
    }
}

/// The kind of message that the envelope names, where the envelope is whole.
fn kind_of(text: &[u8]) -> Option<Kind> {
    let value: Value = line::decode(text).ok()?;
    let mut keys = value.as_object()?.iter();
    let (name, content) = keys.next()?;
    if keys.next().is_some() {
        return None;
    }
    let number = |field: &str| content.get(field)?.as_u64();
    match name.as_str() {
        "call" => Some(Kind::Call { id: number("id")? }),
        "reply" => Some(Kind::Reply { id: number("id")? }),
        "event" => Some(Kind::Event {
            seq: number("seq")?,
            at_ms: number("at_ms")?,
            session: content.get("session").and_then(Value::as_str).unwrap_or_default().to_owned(),
        }),
        "report" => Some(Kind::Report),
        "order" => Some(Kind::Order),
        "bridge" => Some(Kind::Bridge),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FromDaemon, ToDaemon};

    #[test]
    fn d3_what_a_newer_program_adds_is_told_from_what_is_malformed() {
        let kind = |text: &str| match read::<FromDaemon>(text.as_bytes()) {
            Ok(Read::Unknown(unknown)) => Some(unknown.kind),
            Ok(Read::Message(message)) => panic!("{message:?}"),
            Err(LineError::Malformed { .. }) => None,
            Err(LineError::TooLong) => panic!("{text}"),
        };
        let event =
            r#"{"event":{"seq":7,"at_ms":3,"session":"s","event":{"weather":{"sky":"blue"}}}}"#;
        assert_eq!(kind(event), Some(Kind::Event { seq: 7, at_ms: 3, session: "s".to_owned() }));
        assert_eq!(kind(r#"{"order":{"dance":{}}}"#), Some(Kind::Order));
        assert_eq!(kind(r#"{"bridge":{"dance":{}}}"#), Some(Kind::Bridge));
        let reply = r#"{"reply":{"id":3,"outcome":{"ok":{"weather":{}}}}}"#;
        assert_eq!(kind(reply), Some(Kind::Reply { id: 3 }));
        for malformed in [
            "{}",
            "[]",
            "garbage",
            r#"{"order":{"dance":{}},"event":{}}"#,
            r#"{"reply":{"outcome":{}}}"#,
            r#"{"welcome":{"protocol":"one"}}"#,
            r#"{"weather":{}}"#,
        ] {
            assert_eq!(kind(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn d3_a_request_from_the_future_has_its_id_and_a_report_none() {
        let call = br#"{"call":{"id":4,"request":{"teleport":{}}}}"#;
        let Ok(Read::Unknown(unknown)) = read::<ToDaemon>(call) else { panic!("it is unknown") };
        assert_eq!(unknown.kind, Kind::Call { id: 4 });
        assert!(unknown.reason.contains("teleport"), "{}", unknown.reason);
        let report = br#"{"report":{"mood":{"good":true}}}"#;
        let Ok(Read::Unknown(unknown)) = read::<ToDaemon>(report) else { panic!("it is unknown") };
        assert_eq!(unknown.kind, Kind::Report);
    }
}
