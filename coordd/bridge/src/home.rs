//! What passes between the engine and coordd. The engine knows no socket, and the link to coordd no
//! NATS.

use std::collections::BTreeMap;

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
    Announce { sessions: BTreeMap<Fingerprint, Vec<body::Told>> },
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
    Report(Report),
}

/// How things stand, for people and for the directory of sessions.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Report {
    /// This daemon's fingerprint.
    pub(crate) own: String,
    /// The server's address, without credentials.
    pub(crate) server: String,
    pub(crate) connected: bool,
    /// The problem and what to do about it; empty when all is well.
    pub(crate) trouble: String,
    /// How many servers keep messages in transit.
    pub(crate) replicas: u32,
    /// Rows that are on their way.
    pub(crate) rows: u32,
    pub(crate) peers: Vec<PeerReport>,
    /// What was refused or set aside, by reason.
    pub(crate) refused: Vec<(String, u64)>,
    pub(crate) passed_over: Vec<(String, u64)>,
    /// Rejected messages of trusted daemons.
    pub(crate) letters: Vec<crate::refused::Letter>,
}

/// How one peer stands.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PeerReport {
    pub(crate) fingerprint: String,
    /// What its user here calls it.
    pub(crate) name: String,
    pub(crate) machine: String,
    /// When the daemon was last heard, by this machine's clock; 0 for never.
    pub(crate) heard_ms: u64,
    /// Rows on their way to it.
    pub(crate) rows: u32,
    pub(crate) sessions: Vec<body::Told>,
}
