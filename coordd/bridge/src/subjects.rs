//! The names on the server: subjects, the stream, consumers. A subject names its receiver first, so
//! that a server can give each daemon the right to read its own and no other.
//!
//! ```text
//!   coordd.v1.<receiver>.row.<sender>        stored, rows of outboxes
//!   coordd.v1.<receiver>.receipts.<sender>   stored, what became of rows
//!   coordd.v1.<receiver>.presence.<sender>   not stored
//! ```

use crate::envelope::Kind;
use crate::keys::Fingerprint;

/// The stream that holds what is on its way, for all daemons of one account.
pub(crate) const STREAM: &str = "COORDD";

/// What the stream stores.
pub(crate) const STORED: [&str; 2] = ["coordd.v1.*.row.*", "coordd.v1.*.receipts.*"];

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Row => "row",
        Kind::Receipts => "receipts",
        Kind::Presence => "presence",
    }
}

/// Where something for a daemon goes.
pub(crate) fn subject(kind: Kind, to: &Fingerprint, from: &Fingerprint) -> String {
    format!("coordd.v1.{to}.{}.{from}", word(kind))
}

/// Everything of one kind for a daemon.
pub(crate) fn all(kind: Kind, to: &Fingerprint) -> String {
    format!("coordd.v1.{to}.{}.*", word(kind))
}

/// All that is stored for a daemon. One filter, which stands in the name of the request for a
/// consumer: so a server can give each daemon the right to its own consumer and to no other's mail.
pub(crate) fn stored_for(own: &Fingerprint) -> String {
    format!("coordd.v1.{own}.>")
}

/// Where the server's answers to a daemon go: by a name of its own, so that nobody else may hear
/// them.
pub(crate) fn answers(own: &Fingerprint) -> String {
    format!("_INBOX.{own}")
}

/// The consumer that a daemon reads by. Durable: the server keeps its position.
pub(crate) fn consumer(own: &Fingerprint) -> String {
    format!("coordd-{own}")
}

/// Whether something of this kind from that daemon belongs on this subject.
pub(crate) fn fits(subject: &str, kind: Kind, to: &Fingerprint, from: &Fingerprint) -> bool {
    subject == self::subject(kind, to, from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::identity;

    #[test]
    fn m7_a_subject_names_receiver_kind_and_sender() {
        let (a, b) = (identity(1).public().fingerprint(), identity(2).public().fingerprint());
        let row = subject(Kind::Row, &a, &b);
        assert_eq!(row, format!("coordd.v1.{a}.row.{b}"));
        assert!(fits(&row, Kind::Row, &a, &b));
        assert!(!fits(&row, Kind::Row, &b, &a));
        assert!(!fits(&row, Kind::Receipts, &a, &b));
    }
}
