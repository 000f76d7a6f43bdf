//! Messages to somebody outside of the daemon: what is to be said, and what is known of its fate (M-6, M-11).
//!
//! ```text
//!   Accepted ──handed over──▶ Delivered ──it is idle──▶ Consumed
//!       │  └──it says so──▶ Held ◀─┤ it says so
//!       │                     └────┴──it says so──▶ Expired
//!       └──not reached, or refused──▶ Bounced
//! ```
//!
//! The text is dropped once it is handed over. What coordd itself says (a status, a notice) leaves no receipt.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use proto_words::address::Place;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::state::agent::Outcome;
use crate::state::id::{AgentId, MessageId, SessionId};
use crate::state::message::{Sender, State};
use crate::state::written;
use crate::state::{Moment, limits};

/// A message to somebody outside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outgoing {
    /// Its id; the numbers are those of all messages.
    pub id: MessageId,
    /// In whose name it is said: a session's, or, without one, the user's.
    pub session: Option<SessionId>,
    /// Who said it.
    pub from: Sender,
    /// Whom it is for: a socket, or a session of another daemon.
    #[serde(with = "written::recipient")]
    pub to: Place,
    /// Its id outside, a UUID. It stays the same however often it is handed over.
    pub wire_id: String,
    /// What kind of thing is said.
    pub kind: Kind,
    /// The text; empty once handed over.
    pub text: String,
    /// Where it stands.
    pub state: State,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// When it was handed over.
    #[serde(default)]
    pub delivered_ms: Option<u64>,
    /// When it became final.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Why it did not get there, or what the other side says.
    #[serde(default)]
    pub reason: String,
}

/// What kind of thing is said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message with text.
    Words {
        /// In short.
        #[serde(default)]
        summary: String,
        /// The id outside of the wish to be told when the receiver has nothing to do, where there is one.
        #[serde(default)]
        notice_id: Option<String>,
    },
    /// What became of a message from there; the text is the reason.
    Status {
        /// Its id there.
        of: String,
        /// What became of the message.
        verdict: Verdict,
    },
    /// The lead has nothing to do; the text is its last words.
    Idle {
        /// The id there of what asked.
        of: String,
        /// Since when.
        at_ms: u64,
    },
    /// Something to read for a worker on another machine. The text is the message's own.
    Work {
        /// The worker.
        agent: AgentId,
        /// The message, in its mailbox.
        message: MessageId,
    },
    /// Such a worker is to be stopped; the text is by whom.
    Stop {
        /// The worker.
        agent: AgentId,
    },
    /// A run of a worker of another machine's has ended; the text is its result.
    Ended {
        /// The worker's id there.
        agent: String,
        /// How; without its result.
        #[serde(serialize_with = "written::outcome")]
        outcome: Outcome,
        /// Whether no run ended: whoever asked for a stop may have missed an end, and there was nothing to stop.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        had_nothing: bool,
    },
}

/// What one side says of the other's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It waits for the user.
    Held,
    /// It waited for too long.
    Expired,
    /// It is not taken.
    Refused,
    /// It is in the conversation.
    Consumed,
    /// It was read in a run that has ended already: its process died before it could say so.
    ReadBefore,
}

impl Outgoing {
    /// One that nobody has been given yet. Texts are as they are to be said.
    pub(crate) fn new(
        now: &Moment,
        id: MessageId,
        session: Option<SessionId>,
        from: Sender,
        to: Place,
        kind: Kind,
        text: String,
    ) -> Self {
        Self {
            id,
            session,
            from,
            to,
            wire_id: wire_id(now, id, "message"),
            kind,
            text,
            state: State::Accepted,
            accepted_ms: now.wall_ms,
            delivered_ms: None,
            ended_ms: None,
            reason: String::new(),
        }
    }

    /// Whether it is about a worker that belongs to two machines.
    pub(crate) fn is_of_host(&self) -> bool {
        match self.kind {
            Kind::Work { .. } | Kind::Stop { .. } | Kind::Ended { .. } => true,
            Kind::Words { .. } | Kind::Status { .. } | Kind::Idle { .. } => false,
        }
    }

    /// Whether it goes over the bridge.
    pub(crate) fn is_carried(&self) -> bool {
        self.to.peer().is_some()
    }

    /// The other daemon that it tells of a message of its own, if it does that.
    fn status_for(&self) -> Option<&str> {
        let is_status = matches!(self.kind, Kind::Status { .. });
        self.to.peer().filter(|_| is_status)
    }

    /// When it was last heard of.
    fn last_ms(&self) -> u64 {
        self.ended_ms.or(self.delivered_ms).unwrap_or(self.accepted_ms)
    }

    /// Whether nothing is expected of it any more, and has not been since then. What a worker is to read is waited for.
    pub(crate) fn is_older_than(&self, before_ms: u64) -> bool {
        let is_over = self.state.is_final()
            || (self.state != State::Accepted && !matches!(self.kind, Kind::Work { .. }));
        is_over && self.last_ms() < before_ms
    }

    /// How long it waits for a machine that is away: finished work waits longer.
    pub fn kept_ms(&self) -> u64 {
        match self.kind {
            // What became of a worker's mail belongs to the end of its run.
            Kind::Ended { .. } | Kind::Status { .. } => limits::HOST_END_KEPT_MS,
            Kind::Words { .. } | Kind::Idle { .. } | Kind::Work { .. } | Kind::Stop { .. } => {
                limits::BRIDGE_KEPT_MS
            }
        }
    }
}

/// All of them: those on their way, and receipts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outbox {
    all: BTreeMap<MessageId, Outgoing>,
    /// By the ids that others know them by.
    by_wire_id: BTreeMap<String, MessageId>,
    /// Those for sockets that are not handed over.
    open: BTreeSet<MessageId>,
    /// Those for other machines that are not there.
    carried: BTreeSet<MessageId>,
    carried_bytes: usize,
    /// How many of these say what became of somebody's message, by who is told.
    statuses: BTreeMap<String, usize>,
}

impl Outbox {
    /// One of them.
    pub fn get(&self, id: MessageId) -> Option<&Outgoing> {
        self.all.get(&id)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Outgoing> {
        self.all.values()
    }

    /// Those that are not handed over, in order.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Outgoing> {
        self.open.iter().filter_map(|id| self.all.get(id))
    }

    /// How many are not handed over.
    pub(crate) fn open_len(&self) -> usize {
        self.open.len()
    }

    /// Those for other machines that are not there, in order.
    pub fn carried(&self) -> impl Iterator<Item = &Outgoing> {
        self.carried.iter().filter_map(|id| self.all.get(id))
    }

    /// Words for other machines that will not be read there, the latest first.
    pub fn dead_letters(&self) -> impl Iterator<Item = &Outgoing> {
        let ended = |it: &&Outgoing| matches!(it.state, State::Bounced | State::Expired);
        let is_words = |it: &&Outgoing| matches!(it.kind, Kind::Words { .. });
        self.all.values().rev().filter(|it| it.is_carried()).filter(ended).filter(is_words)
    }

    /// How many of these there are.
    pub fn carried_len(&self) -> usize {
        self.carried.len()
    }

    /// How many of these say what became of somebody's message.
    pub(crate) fn statuses_len(&self) -> usize {
        self.statuses.values().sum()
    }

    /// The same, of one daemon's messages.
    pub(crate) fn statuses_len_to(&self, peer: &str) -> usize {
        self.statuses.get(peer).copied().unwrap_or_default()
    }

    /// The bytes of their texts.
    pub(crate) fn carried_bytes(&self) -> usize {
        self.carried_bytes
    }

    /// The latest of them.
    pub(crate) fn carried_last(&self) -> Option<MessageId> {
        self.carried.last().copied()
    }

    /// The one that somebody outside means.
    pub(crate) fn by_wire_id(&self, wire_id: &str) -> Option<&Outgoing> {
        self.all.get(self.by_wire_id.get(wire_id)?)
    }

    pub(crate) fn put(&mut self, it: &Outgoing) {
        self.by_wire_id.insert(it.wire_id.clone(), it.id);
        if let Kind::Words { notice_id: Some(notice_id), .. } = &it.kind {
            self.by_wire_id.insert(notice_id.clone(), it.id);
        }
        if it.state == State::Accepted && it.is_carried() {
            self.carried_bytes += it.text.len();
            if self.carried.insert(it.id)
                && let Some(to) = it.status_for()
            {
                *self.statuses.entry(String::from(to)).or_default() += 1;
            }
        } else if it.state == State::Accepted {
            self.open.insert(it.id);
        }
        self.all.insert(it.id, it.clone());
    }

    pub(crate) fn moved(&mut self, id: MessageId, state: State, reason: &str, at_ms: u64) {
        let Some(it) = self.all.get_mut(&id).filter(|it| !it.state.is_final()) else { return };
        it.state = state;
        let text = core::mem::take(&mut it.text);
        if self.carried.remove(&id) {
            self.carried_bytes -= text.len();
            if let Some(to) = it.status_for()
                && let Some(count) = self.statuses.get_mut(to)
            {
                *count -= 1;
                if *count == 0 {
                    self.statuses.remove(to);
                }
            }
        }
        it.reason = String::from(reason);
        if state == State::Delivered {
            it.delivered_ms = Some(at_ms);
        }
        if state.is_final() {
            it.ended_ms = Some(at_ms);
        }
        self.open.remove(&id);
        if it.from == Sender::System {
            self.by_wire_id.remove(&it.wire_id);
            self.all.remove(&id);
        }
    }

    pub(crate) fn has_older_than(&self, before_ms: u64) -> bool {
        self.all.values().any(|it| it.is_older_than(before_ms))
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&Outgoing) -> bool) {
        self.all.retain(|_, it| keep(it));
        self.open.retain(|id| self.all.contains_key(id));
        self.carried.retain(|id| self.all.contains_key(id));
        self.carried_bytes = self.carried().map(|it| it.text.len()).sum();
        let mut statuses = BTreeMap::new();
        for to in self.carried().filter_map(Outgoing::status_for) {
            *statuses.entry(String::from(to)).or_default() += 1;
        }
        self.statuses = statuses;
        self.by_wire_id.retain(|_, id| self.all.contains_key(id));
    }
}

/// A fresh id for the outside. Several may be made with one moment's randomness; hashing it with the message's number and a word
/// tells them apart.
pub(crate) fn wire_id(now: &Moment, id: MessageId, what: &str) -> String {
    let mut hash = sha2::Sha256::new();
    hash.update(now.random);
    hash.update(id.0.to_be_bytes());
    hash.update(what.as_bytes());
    let mut random = [0; 64];
    for (to, from) in random.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    SessionId::from_random(&random).0
}
