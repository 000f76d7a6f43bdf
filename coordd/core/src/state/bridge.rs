//! The bridge to other machines: what the user wishes of it, what it brings, and what it says itself.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

pub use proto_words::bridge::{
    BridgePeerView as PeerReport, BridgeView as Report, LetterView as Letter, RemoteView as Remote,
};
use serde::{Deserialize, Serialize};

use crate::state::id::{MessageId, PeerId};
use crate::state::input::Says;

/// What the bridge says hello as. No agent's id is like it.
pub const AGENT: &str = "bridge";

/// The user's wish for a bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wish {
    /// Whether there is to be one.
    pub on: bool,
    /// Which life of the numbers of messages this is: other daemons remember numbers within one.
    pub epoch: u64,
}

/// What a session may exchange with another daemon. What is not named may nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Allowed {
    /// The daemon's fingerprint.
    pub peer: String,
    /// Whether its sessions are heard.
    pub inbound: bool,
    /// Whether this session's agents may write there.
    pub outbound: bool,
}

/// What is true of the bridge in this boot.
#[derive(Debug, Default)]
pub struct Bridge {
    pub(crate) incarnation: u32,
    pub(crate) token: String,
    /// Its connection.
    pub peer: Option<PeerId>,
    /// What it was given on this connection, by the other daemon.
    pub(crate) handed: BTreeMap<String, BTreeSet<MessageId>>,
    /// Whether it may be time to give it more.
    pub(crate) due: bool,
    pub(crate) looked_at: Option<MessageId>,
    /// What it said last of how things stand.
    pub report: Report,
    /// Why there is no process, in words for people, while there is none.
    pub ended: String,
}

/// A row that another daemon sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Brought {
    /// The fingerprint of the daemon, which the bridge has checked.
    pub peer: String,
    /// What the user here calls it.
    pub peer_name: String,
    /// The session that it is for; empty for the user.
    pub to: String,
    /// The session that speaks; empty for its user.
    pub from: String,
    /// Its name, as it gives it.
    pub name: String,
    /// Whether it says that its permissions are bypassed.
    pub bypasses: bool,
    /// The message's id there.
    pub message: String,
    /// What is said.
    pub says: Says,
}

/// What is made of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is durable.
    Taken,
    /// It will never be taken.
    Refused(String),
    /// Not now.
    Later,
}

/// What became of a row of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is durable at the other daemon.
    Taken,
    /// It is not taken there.
    Refused(String),
    /// Nobody took it in time.
    Expired,
}
