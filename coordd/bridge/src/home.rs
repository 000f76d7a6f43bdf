//! What passes between the engine and coordd. The engine knows no socket, and the link to coordd no
//! NATS.

use std::collections::BTreeMap;

use proto::bridge::BridgeView;

use crate::body;
use crate::keys::Fingerprint;

/// From coordd.
#[derive(Debug)]
pub(crate) enum FromHome {
    /// Coordd is there, and hands over again what is open. Its messages' numbers count within this
    /// epoch.
    Met { epoch: u64 },
    /// It is away: nothing can be brought.
    Away,
    /// A row for another daemon.
    Row { to: Fingerprint, id: u64, expires_ms: u64, row: Box<body::Row> },
    /// Which sessions each peer may write to.
    Announce { sessions: BTreeMap<Fingerprint, Vec<body::RemoteView>> },
    /// What it decided about what was brought.
    Decided { ticket: u64, decision: Decision },
}

/// What coordd decides about a row from another daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// It is durable.
    Taken,
    /// It will never be taken.
    Refused(String),
    /// Not now.
    Later,
}

/// To coordd.
#[derive(Debug)]
pub(crate) enum ToHome {
    /// What became of a row.
    Told { id: u64, fate: crate::outbox::Fate },
    /// A row from another daemon.
    Bring { ticket: u64, from: Fingerprint, peer: String, row: body::Row },
    /// How things stand.
    Report(BridgeView),
}
