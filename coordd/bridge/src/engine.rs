//! The middle: takes rows from coordd, sends them until the other daemon has decided; takes rows
//! from other daemons, and has coordd decide, one after the other.
//!
//! ```text
//!   coordd ──Row──▶ outbox ──seal──▶ server ──▶ open ──judge──▶ Bring ──▶ coordd
//!   coordd ◀─Told── outbox ◀─open── receipts ◀── server ◀── seal ◀── cursor on disk ◀─Decided─┘
//! ```
//!
//! A row is acknowledged to the server, and its receipt sent, only after the cursor that knows it
//! is on the disk. Nothing in here is worth keeping otherwise: coordd has the rows, the disk has
//! the cursors.

mod inward;
mod telling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::body::{self, Presence, Receipt};
use crate::envelope::{self, Header, Kind, Place};
use crate::files::Folder;
use crate::home::{FromHome, ToHome};
use crate::inbox::Cursor;
use crate::keys::{Fingerprint, Identity};
use crate::limits::UNDECIDED_MAX;
use crate::outbox::{self, Fate, Outbox};
use crate::refused::Refused;
use crate::tried::Tried;
use crate::trusted::Trusted;
use crate::wire::{Ack, Sent, ToSend, Wire};

/// How often what is due is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often peers are told that this daemon is there. They resend, and show it as away, by this.
const PRESENCE_MS: u64 = 3_000;
/// How often coordd is told how things stand, unless something changed.
const REPORT_MS: u64 = 1_000;
/// How often the list of peers is read again.
const TRUSTED_MS: u64 = 500;

/// Why a row is not carried.
const NOT_TRUSTED: &str = "no daemon with that key is trusted; `coordctl bridge trust` adds it";

/// What is known of a peer in this life of the process.
#[derive(Debug, Default)]
struct Heard {
    /// The sender's clock in its last presence: an older one is a replay.
    made_ms: u64,
    /// Our clock.
    at_wall_ms: u64,
    presence: Presence,
}

/// A row that is not decided.
#[derive(Debug)]
struct Undecided {
    from: Fingerprint,
    place: Place,
    expires_ms: u64,
    deliveries: i64,
    /// None where it is not understood.
    row: Option<body::Row>,
    ack: Option<Ack>,
}

/// The engine. One task has it.
pub(crate) struct Engine {
    own: Identity,
    folder: Folder,
    trusted: Trusted,
    wire: Wire,
    home: mpsc::Sender<ToHome>,
    began: Instant,
    /// Tells copies of this process from those of an earlier one.
    life: u64,
    server: String,
    machine: String,

    /// Set while coordd is there.
    epoch: Option<u64>,
    outbox: Outbox,
    announced: BTreeMap<Fingerprint, Vec<body::RemoteView>>,
    announce_due: bool,
    heard: BTreeMap<Fingerprint, Heard>,

    cursors: BTreeMap<Fingerprint, Cursor>,
    undecided: VecDeque<Undecided>,
    /// The one that coordd has.
    brought: Option<(u64, Undecided)>,
    last_ticket: u64,
    unwritten: BTreeSet<Fingerprint>,
    /// Why the disk could not be written. While this is set nothing is taken from others, since the
    /// receipts for it would pile up in memory.
    stuck: Option<String>,
    /// Peers whose cursor cannot be read, with the reason.
    damaged: BTreeMap<Fingerprint, String>,
    receipts: BTreeMap<Fingerprint, Vec<Receipt>>,
    acks: Vec<Ack>,

    refused: Refused,
    tried: Tried,
    presence_ms: u64,
    last_presence_ms: u64,
    /// The peers that get this daemon's presence, and the last one that got it.
    untold: BTreeSet<Fingerprint>,
    told_last: Option<Fingerprint>,
    report_ms: u64,
    trusted_ms: u64,
}

/// What an engine is made of.
pub(crate) struct Parts {
    pub(crate) own: Identity,
    pub(crate) folder: Folder,
    pub(crate) trusted: Trusted,
    pub(crate) wire: Wire,
    pub(crate) home: mpsc::Sender<ToHome>,
    pub(crate) server: String,
    pub(crate) machine: String,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { own, folder, trusted, wire, home, server, machine } = parts;
        let (refused, tried) = (Refused::read(&folder), Tried::read(&folder));
        Self {
            own,
            folder,
            trusted,
            wire,
            home,
            began: Instant::now(),
            life: crate::chance(),
            server,
            machine,
            epoch: None,
            outbox: Outbox::default(),
            announced: BTreeMap::new(),
            announce_due: true,
            heard: BTreeMap::new(),
            cursors: BTreeMap::new(),
            undecided: VecDeque::new(),
            brought: None,
            last_ticket: 0,
            unwritten: BTreeSet::new(),
            stuck: None,
            damaged: BTreeMap::new(),
            receipts: BTreeMap::new(),
            acks: Vec::new(),
            refused,
            tried,
            presence_ms: 0,
            last_presence_ms: 0,
            untold: BTreeSet::new(),
            told_last: None,
            report_ms: 0,
            trusted_ms: 0,
        }
    }

    /// Runs until coordd's side or the server's side is gone.
    pub(crate) async fn run(mut self, mut from_home: mpsc::Receiver<FromHome>) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_room = self.undecided.len() < UNDECIDED_MAX && self.stuck.is_none();
            tokio::select! {
                next = from_home.recv() => match next {
                    Some(next) => self.told(next).await,
                    None => return,
                },
                next = self.wire.arrivals.recv(), if has_room => match next {
                    Some(next) => self.arrived(next).await,
                    None => return,
                },
                next = self.wire.sent.recv() => match next {
                    Some(next) => self.sent(&next),
                    None => return,
                },
                _ = tick.tick() => self.tick().await,
            }
            self.bring_next().await;
            self.send_due();
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn told(&mut self, next: FromHome) {
        match next {
            FromHome::Met { epoch } => {
                self.outbox.clear();
                self.epoch = Some(epoch);
                self.report_ms = 0;
            }
            FromHome::Away => {
                self.epoch = None;
                // It is brought again: coordd knows a message by its own id.
                if let Some((_, it)) = self.brought.take() {
                    self.undecided.push_front(it);
                }
            }
            FromHome::Row { to, id, expires_ms, row } => {
                self.take_row(to, id, expires_ms, &row).await;
            }
            FromHome::Announce { sessions } => {
                self.announce_due |= self.announced != sessions;
                self.announced = sessions;
            }
            FromHome::Decided { ticket, decision } => {
                if let Some((_, it)) = self.brought.take_if(|it| it.0 == ticket) {
                    self.decided(it, decision);
                }
            }
        }
    }

    async fn take_row(&mut self, to: Fingerprint, id: u64, expires_ms: u64, row: &body::Row) {
        let Some(epoch) = self.epoch else { return };
        if self.trusted.get(&to).is_none() {
            // Its user may have named it a moment ago.
            self.read_trusted().await;
        }
        if self.trusted.get(&to).is_none() {
            return self.tell(id, Fate::Refused(NOT_TRUSTED.to_owned())).await;
        }
        let Ok(body) = serde_json::to_vec(row) else { return };
        if body.len() + crate::keys::SEAL_LEN > crate::limits::SEALED_LEN_MAX {
            let why = "it is longer than the server allows; write it to a file there".to_owned();
            return self.tell(id, Fate::Refused(why)).await;
        }
        if !self.outbox.take(outbox::Row { id, to, epoch, expires_ms, body }) {
            // coordd has the row on disk and hands it over again on the next connection.
            tracing::warn!(id, "more rows than there is room for; it waits with coordd");
        }
    }

    async fn tell(&self, id: u64, fate: Fate) {
        // It fails only at the end.
        drop(self.home.send(ToHome::Told { id, fate }).await);
    }

    fn sent(&mut self, it: &Sent) {
        let now_ms = self.now_ms();
        if it.is_stored {
            self.outbox.stored(&it.to, it.id, it.copy, now_ms);
        } else {
            self.outbox.not_stored(&it.to, it.id, crate::chance(), now_ms);
        }
    }

    /// Sends what is due, as far as there is room.
    fn send_due(&mut self) {
        let now_ms = self.now_ms();
        while self.wire.send.capacity() > 1 {
            let Some(it) = self.outbox.next(now_ms) else { return };
            let header = Header {
                kind: Kind::Row,
                place: it.place,
                made_ms: crate::wall_ms(),
                expires_ms: it.expires_ms,
            };
            let (id, copy) = (it.place.id, it.copy);
            let copy_id = format!("{:x}-{:x}-{}-{copy}", self.life, it.place.epoch, id);
            let Some((subject, bytes)) = self.sealed(&it.to, &header, &it.body) else {
                self.outbox.not_stored(&it.to, id, crate::chance(), now_ms);
                continue;
            };
            let send = ToSend::Row { subject, copy_id, bytes, to: it.to.clone(), id, copy };
            if self.wire.send.try_send(send).is_err() {
                self.outbox.not_stored(&it.to, id, crate::chance(), now_ms);
            }
        }
    }

    fn sealed(&self, to: &Fingerprint, header: &Header, body: &[u8]) -> Option<(String, Vec<u8>)> {
        let peer = self.trusted.get(to)?;
        #[cfg(feature = "skew")]
        let later = crate::skew::is_later().then(|| crate::skew::body(header.kind, body));
        #[cfg(feature = "skew")]
        let body = later.as_deref().unwrap_or(body);
        let bytes = envelope::write(&self.own, &peer.key, header, body);
        let bytes = bytes.map_err(|error| tracing::warn!(%error, "cannot seal")).ok()?;
        let own = self.own.public().fingerprint();
        Some((crate::subjects::subject(header.kind, to, &own), bytes))
    }

    async fn read_trusted(&mut self) {
        match Trusted::read(&self.folder) {
            Ok(trusted) if trusted != self.trusted => {
                self.trusted = trusted;
                (self.announce_due, self.report_ms) = (true, 0);
                let trusted = &self.trusted;
                self.damaged.retain(|it, _| trusted.get(it).is_some());
                for id in self.outbox.retain(|it| trusted.get(it).is_some()) {
                    self.tell(id, Fate::Refused(NOT_TRUSTED.to_owned())).await;
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the peers cannot be read"),
        }
    }

    async fn tick(&mut self) {
        let now_ms = self.now_ms();
        for id in self.outbox.expire(crate::wall_ms()) {
            self.tell(id, Fate::Expired).await;
        }
        if now_ms >= self.trusted_ms {
            self.trusted_ms = now_ms + TRUSTED_MS;
            self.read_trusted().await;
        }
        self.settle_decided().await;
        if now_ms >= self.presence_ms || self.announce_due {
            self.presence_ms = now_ms + PRESENCE_MS;
            self.announce_due = false;
            self.untold = self.trusted.iter().map(|(key, _)| key.clone()).collect();
        }
        self.say_presence();
        let changed = self.wire.standing.has_changed().unwrap_or(false);
        if now_ms >= self.report_ms || changed {
            self.report_ms = now_ms + REPORT_MS;
            self.refused.write(&self.folder);
            self.report().await;
        }
    }
}

#[cfg(test)]
mod tests;
