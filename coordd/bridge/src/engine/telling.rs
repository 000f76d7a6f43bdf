//! What others are told: receipts and presence to peers, and to coordd how things stand.

use std::ops::Bound;

use proto::bridge::{BridgePeerView, BridgeView};

use super::Engine;
use crate::body::{Presence, Receipt, Receipts};
use crate::envelope::{Header, Kind, Place};
use crate::home::ToHome;
use crate::keys::Fingerprint;
use crate::limits::SESSIONS_TOLD_MAX;
use crate::refused::Letter;
use crate::refused::Sort;
use crate::wire::{Standing, ToSend};

/// How long receipts are of use: as long as a row.
const RECEIPTS_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// The most damaged files that are named at once.
const DAMAGED_TOLD_MAX: usize = 4;

impl Engine {
    /// Best effort: a sender that misses a receipt sends its row again, and gets another one.
    pub(super) fn send_receipts(&self, to: &Fingerprint, rows: &[Receipt]) {
        let Ok(body) = serde_json::to_vec(&Receipts { rows: rows.to_vec() }) else { return };
        let header = header_of(Kind::Receipts);
        if let Some((subject, bytes)) = self.sealed(to, &header, &body)
            && self.wire.send.try_send(ToSend::Stored { subject, bytes }).is_err()
        {
            tracing::debug!("receipts were not sent");
        }
    }

    /// Sends presence to the peers that have not had it yet: as far as there is room, and beginning
    /// where it stopped the last time, so that no peer is always the last.
    pub(super) fn say_presence(&mut self) {
        if self.untold.is_empty() {
            return;
        }
        let mut header = header_of(Kind::Presence);
        // Each time is later than the one before, whatever the clock does.
        header.made_ms = header.made_ms.max(self.last_presence_ms + 1);
        self.last_presence_ms = header.made_ms;
        while let Some(to) = self.next_untold() {
            if !self.say_presence_to(&to, &header) {
                // Rows come first; it goes on soon.
                return;
            }
            self.untold.remove(&to);
            self.told_last = Some(to);
        }
    }

    fn next_untold(&self) -> Option<Fingerprint> {
        let after = self.told_last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.untold.range::<Fingerprint, _>((after, Bound::Unbounded));
        later.next().or_else(|| self.untold.first()).cloned()
    }

    /// Whether there was room.
    fn say_presence_to(&self, to: &Fingerprint, header: &Header) -> bool {
        let mut sessions = self.announced.get(to).cloned().unwrap_or_default();
        let more = sessions.len() > SESSIONS_TOLD_MAX;
        sessions.truncate(SESSIONS_TOLD_MAX);
        let presence = Presence { machine: self.machine.clone(), sessions, more };
        let Ok(body) = serde_json::to_vec(&presence) else { return true };
        let Some((subject, bytes)) = self.sealed(to, header, &body) else { return true };
        #[cfg(feature = "skew")]
        if crate::skew::is_later() {
            for bytes in crate::skew::also(&bytes) {
                drop(self.wire.send.try_send(ToSend::Now { subject: subject.clone(), bytes }));
            }
        }
        self.wire.send.try_send(ToSend::Now { subject, bytes }).is_ok()
    }

    /// All problems, those with the server first.
    fn trouble(&self, standing: &Standing) -> String {
        let all = [&standing.trouble, &standing.unstored].into_iter();
        let all = all.filter(|it| !it.is_empty()).chain(&self.stuck);
        let all: Vec<_> =
            all.chain(self.damaged.values().take(DAMAGED_TOLD_MAX)).map(String::as_str).collect();
        all.join("; ")
    }

    /// Tells coordd how things stand.
    pub(super) async fn report(&mut self) {
        let standing = self.wire.standing.borrow_and_update().clone();
        let len = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let peers = self.trusted.iter().map(|(fingerprint, peer)| {
            let heard = self.heard.get(fingerprint);
            BridgePeerView {
                fingerprint: fingerprint.to_string(),
                name: peer.name.clone(),
                machine: heard.map(|it| it.presence.machine.clone()).unwrap_or_default(),
                heard_ms: heard.map_or(0, |it| it.at_wall_ms),
                rows: len(self.outbox.len_to(fingerprint)),
                sessions: heard.map(|it| it.presence.sessions.clone()).unwrap_or_default(),
            }
        });
        let report = BridgeView {
            on: true,
            running: true,
            own: self.own.public().fingerprint().to_string(),
            server: self.server.clone(),
            connected: standing.connected,
            trouble: self.trouble(&standing),
            replicas: standing.replicas,
            rows: len(self.outbox.len()),
            peers: peers.collect(),
            refused: self.refused.counts(Sort::Refused),
            passed_over: self.refused.counts(Sort::PassedOver),
            letters: self.refused.letters().map(Letter::view).collect(),
        };
        // It fails only at the end.
        drop(self.home.send(ToHome::Report(report)).await);
    }
}

fn header_of(kind: Kind) -> Header {
    let made_ms = crate::wall_ms();
    let expires_ms = made_ms.saturating_add(RECEIPTS_KEPT_MS);
    Header { kind, place: Place::default(), made_ms, expires_ms }
}
