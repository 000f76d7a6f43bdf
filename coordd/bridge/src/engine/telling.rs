//! What others are told: receipts and presence to peers, and to coordd how things stand.

use crate::body::{Presence, Receipt, Receipts};
use crate::envelope::{Header, Kind, Place};
use crate::home::{PeerReport, Report, ToHome};
use crate::keys::Fingerprint;
use crate::limits::SESSIONS_TOLD_MAX;
use crate::wire::ToSend;

use super::Engine;

/// How long receipts are of use: as long as a row.
const RECEIPTS_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

impl Engine {
    /// Best effort: who misses one sends its row again, and is told again.
    pub(super) fn send_receipts(&self, to: &Fingerprint, rows: &[Receipt]) {
        let Ok(body) = serde_json::to_vec(&Receipts { rows: rows.to_vec() }) else { return };
        let header = header_of(Kind::Receipts);
        if let Some((subject, bytes)) = self.sealed(to, &header, &body)
            && self.wire.send.try_send(ToSend::Stored { subject, bytes }).is_err()
        {
            tracing::debug!("receipts were not sent");
        }
    }

    /// Tells each peer that this daemon is there, and what it may write to.
    pub(super) fn say_presence(&mut self) {
        let mut header = header_of(Kind::Presence);
        // Each is later than the one before, whatever the clock does.
        header.made_ms = header.made_ms.max(self.last_presence_ms + 1);
        self.last_presence_ms = header.made_ms;
        let peers: Vec<_> = self.trusted.iter().map(|(key, _)| key.clone()).collect();
        for to in peers {
            let mut sessions = self.announced.get(&to).cloned().unwrap_or_default();
            let more = sessions.len() > SESSIONS_TOLD_MAX;
            sessions.truncate(SESSIONS_TOLD_MAX);
            let presence = Presence { machine: self.machine.clone(), sessions, more };
            let Ok(body) = serde_json::to_vec(&presence) else { continue };
            let Some((subject, bytes)) = self.sealed(&to, &header, &body) else { continue };
            #[cfg(feature = "skew")]
            if crate::skew::is_later() {
                for bytes in crate::skew::also(&bytes) {
                    drop(self.wire.send.try_send(ToSend::Now { subject: subject.clone(), bytes }));
                }
            }
            if self.wire.send.try_send(ToSend::Now { subject, bytes }).is_err() {
                // Rows come first; it is said again soon.
                return;
            }
        }
    }

    /// Tells coordd how things stand.
    pub(super) async fn report(&mut self) {
        let standing = self.wire.standing.borrow_and_update().clone();
        let len = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let peers = self.trusted.iter().map(|(fingerprint, peer)| {
            let heard = self.heard.get(fingerprint);
            PeerReport {
                fingerprint: fingerprint.to_string(),
                name: peer.name.clone(),
                machine: heard.map(|it| it.presence.machine.clone()).unwrap_or_default(),
                heard_ms: heard.map_or(0, |it| it.at_wall_ms),
                rows: len(self.outbox.len_to(fingerprint)),
                sessions: heard.map(|it| it.presence.sessions.clone()).unwrap_or_default(),
            }
        });
        let report = Report {
            own: self.own.public().fingerprint().to_string(),
            server: self.server.clone(),
            connected: standing.connected,
            trouble: standing.trouble,
            replicas: standing.replicas,
            rows: len(self.outbox.len()),
            peers: peers.collect(),
            refused: self.refused.counts(),
            letters: self.refused.letters().cloned().collect(),
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
