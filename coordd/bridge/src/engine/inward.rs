//! What comes in: opened, judged, brought to coordd, and only then acknowledged.

use proto::address;
use serde_json::Value;

use super::{Engine, Heard, Undecided};
use crate::body::{self, Answer, Presence, Receipt, Receipts};
use crate::envelope::{self, Kind, Opened, Refusal};
use crate::home::{Decision, ToHome};
use crate::inbox::{Cursor, Judged};
use crate::keys::Fingerprint;
use crate::limits::RECEIPTS_MAX;
use crate::refused::{Letter, Sort};
use crate::subjects;
use crate::wire::Arrival;

/// A row that was delivered this often may be what kills this process: from then on each attempt is
/// recorded before the row is brought to coordd.
const DELIVERIES_MANY: i64 = 5;
/// After this many recorded attempts the row becomes a dead letter. People and updates end the
/// process less often than that within the seven days that a row lives.
const ENDED_MAX: u32 = 20;
/// How far the clocks of two machines may differ for messages about the present.
const CLOCKS_APART_MS: u64 = 60 * 60 * 1_000;
/// The most receipts of one envelope that are read: as many as there can be, with room for a later
/// build.
const RECEIPTS_READ_MAX: usize = RECEIPTS_MAX * 2;
/// The reason for all that coordd rejects, so that its many texts are counted as one kind.
const NOT_LET_IN: &str = "rejected; `coordctl bridge letters` lists the last ones";
/// The reason for duplicates.
const CAME_BEFORE: &str = "it came before, and is not taken again";
/// Decided rows after which the cursor is written: one fsync for all of them.
const DECIDED_MAX: usize = 32;

impl Engine {
    pub(super) async fn arrived(&mut self, arrival: Arrival) {
        let opened = envelope::open(&self.own, |half| self.trusted.by_half(half), &arrival.bytes);
        let (from, header, body) = match opened {
            Ok(Opened { from, header, body }) => (from.fingerprint(), header, body),
            Err(refusal) => return self.refuse(refusal, arrival).await,
        };
        let own = self.own.public().fingerprint();
        if !subjects::fits(&arrival.subject, header.kind, &own, &from) {
            return self.refuse(Refusal::WrongSubject, arrival).await;
        }
        let stored = arrival.ack.is_some();
        match header.kind {
            Kind::Row if stored => self.undecided.push_back(Undecided {
                from,
                place: header.place,
                expires_ms: header.expires_ms,
                deliveries: arrival.deliveries,
                row: serde_json::from_slice(&body).ok(),
                ack: arrival.ack,
            }),
            Kind::Receipts if stored => match serde_json::from_slice::<Receipts<Value>>(&body) {
                Ok(it) => {
                    for it in it.rows.into_iter().take(RECEIPTS_READ_MAX) {
                        match serde_json::from_value::<Receipt>(it) {
                            Ok(it) => self.receipt(&from, it).await,
                            Err(_) => self.count(Refusal::Unreadable, from.as_str()),
                        }
                    }
                    if let Some(ack) = arrival.ack {
                        ack.give().await;
                    }
                }
                Err(_) => self.refuse(Refusal::Unreadable, arrival).await,
            },
            Kind::Presence if !stored => match serde_json::from_slice::<Presence>(&body) {
                Ok(it) => self.presence(&from, header.made_ms, it),
                Err(_) => self.refuse(Refusal::Unreadable, arrival).await,
            },
            Kind::Row | Kind::Receipts | Kind::Presence => {
                self.refuse(Refusal::WrongSubject, arrival).await;
            }
        }
    }

    async fn refuse(&mut self, refusal: Refusal, arrival: Arrival) {
        self.count(refusal, &arrival.subject);
        if let Some(ack) = arrival.ack {
            ack.give().await;
        }
    }

    fn count(&mut self, refusal: Refusal, subject: &str) {
        let sort = if refusal == Refusal::Stale { Sort::PassedOver } else { Sort::Refused };
        self.count_as(sort, &refusal.to_string(), subject);
    }

    /// Counts a rejection and logs it; of many of one kind, only those whose number is a power of
    /// two.
    pub(super) fn count_as(&mut self, sort: Sort, reason: &str, subject: &str) {
        let count = self.refused.count(sort, reason);
        if let Some(count) = count.filter(|count| count.is_power_of_two()) {
            tracing::warn!(reason, count, subject = body::cut(subject), "rejected from outside");
        }
    }

    async fn receipt(&mut self, from: &Fingerprint, it: Receipt) {
        let Receipt { epoch, id, verdict } = it;
        let verdict = match verdict {
            Answer::Taken => Answer::Taken,
            Answer::Refused { reason } => Answer::Refused { reason: body::cut(&reason) },
        };
        if let Some(fate) = self.outbox.decided(from, epoch, id, verdict) {
            self.tell(id, fate).await;
        }
    }

    fn presence(&mut self, from: &Fingerprint, made_ms: u64, presence: Presence) {
        let wall_ms = crate::wall_ms();
        let last_ms = self.heard.get(from).map_or(0, |it| it.made_ms);
        if made_ms <= last_ms || made_ms.abs_diff(wall_ms) > CLOCKS_APART_MS {
            return self.count(Refusal::Stale, from.as_str());
        }
        let presence = presence.cut();
        let is_news = self.heard.get(from).is_none_or(|it| it.presence != presence);
        self.heard.insert(from.clone(), Heard { made_ms, at_wall_ms: wall_ms, presence });
        if is_news {
            self.report_ms = 0;
        }
        let now_ms = self.now_ms();
        self.outbox.heard_of(from, now_ms);
    }

    /// Goes through undecided rows, up to one that coordd must decide.
    pub(super) async fn bring_next(&mut self) {
        while self.brought.is_none() && self.epoch.is_some() && self.stuck.is_none() {
            let Some(it) = self.undecided.pop_front() else { break };
            let Some(cursor) = self.cursor(&it.from) else {
                // Without the cursor a duplicate cannot be recognised. The sender has the row and
                // sends it again; the server must not keep it, or other senders' rows would wait
                // behind it.
                self.owe(it, None);
                continue;
            };
            match cursor.judge(it.place) {
                Judged::New => self.bring(it).await,
                Judged::Known(verdict) => {
                    let from = it.from.to_string();
                    self.count_as(Sort::PassedOver, CAME_BEFORE, &from);
                    self.owe(it, Some(verdict));
                }
                Judged::Early => self.owe(it, None),
                Judged::OldEpoch => {
                    let from = it.from.to_string();
                    self.count(Refusal::OldEpoch, &from);
                    self.owe(it, None);
                }
            }
        }
        let many = self.acks.len() >= DECIDED_MAX;
        if many || (self.undecided.is_empty() && self.brought.is_none()) {
            self.settle_decided().await;
        }
    }

    async fn bring(&mut self, mut it: Undecided) {
        let refused = |why: &str| Decision::Refused(why.to_owned());
        if it.expires_ms <= crate::wall_ms() {
            return self.decided(it, refused("it came after its time"));
        }
        // These rows were taken before the peer stopped being trusted.
        let Some(peer) = self.trusted.get(&it.from).map(|peer| peer.name.clone()) else {
            return self.owe(it, None);
        };
        let Some(row) = it.row.take() else {
            return self.decided(it, refused("its daemon is too old to understand it; update it"));
        };
        it.row = Some(row.clone());
        if it.deliveries > DELIVERIES_MANY
            && self.tried.begin(&self.folder, &it.from, it.place) >= ENDED_MAX
        {
            return self.decided(
                it,
                refused("it was set aside there as a dead letter, after many attempts"),
            );
        }
        self.last_ticket += 1;
        let (ticket, from) = (self.last_ticket, it.from.clone());
        self.brought = Some((ticket, it));
        // It fails only at the end.
        drop(self.home.send(ToHome::Bring { ticket, from, peer, row }).await);
    }

    pub(super) fn decided(&mut self, it: Undecided, decision: Decision) {
        let verdict = match decision {
            Decision::Taken => Answer::Taken,
            Decision::Refused(reason) => self.not_let_in(&it, &reason),
            // The sender has this row and all later ones, and sends them again.
            Decision::Later => return self.owe(it, None),
        };
        self.tried.end(&self.folder, &it.from, it.place);
        if let Some(cursor) = self.cursor(&it.from) {
            cursor.decide(it.place, &verdict);
        }
        self.unwritten.insert(it.from.clone());
        self.owe(it, Some(verdict));
    }

    /// A dead letter: its sender is told, and people here can list it.
    fn not_let_in(&mut self, it: &Undecided, reason: &str) -> Answer {
        let reason = body::cut(reason);
        let (session, message) =
            it.row.as_ref().map_or(("", ""), |row| (row.from.as_str(), row.message.as_str()));
        self.refused.keep(Letter {
            at_ms: crate::wall_ms(),
            from: body::cut(
                &address::Place::Remote { peer: it.from.to_string(), session: session.to_owned() }
                    .to_string(),
            ),
            message: body::cut(message),
            reason: reason.clone(),
        });
        self.count_as(Sort::Refused, NOT_LET_IN, it.from.as_str());
        Answer::Refused { reason }
    }

    /// Owes the server an acknowledgement, and the sender a receipt.
    fn owe(&mut self, it: Undecided, verdict: Option<Answer>) {
        if let Some(verdict) = verdict {
            let (epoch, id) = (it.place.epoch, it.place.id);
            self.receipts.entry(it.from).or_default().push(Receipt { epoch, id, verdict });
        }
        self.acks.extend(it.ack);
    }

    /// The cursor of a peer; none while its file cannot be read.
    fn cursor(&mut self, from: &Fingerprint) -> Option<&mut Cursor> {
        if !self.cursors.contains_key(from) {
            match self.read_cursor(from) {
                Ok(cursor) => {
                    self.damaged.remove(from);
                    self.cursors.insert(from.clone(), cursor);
                }
                Err(why) => {
                    let name =
                        self.trusted.get(from).map_or(from.as_str(), |peer| peer.name.as_str());
                    let why = format!("nothing is taken from {name}: {why}");
                    if self.damaged.get(from) != Some(&why) {
                        tracing::error!("{why}");
                        self.damaged.insert(from.clone(), why);
                    }
                }
            }
        }
        self.cursors.get_mut(from)
    }

    fn read_cursor(&self, from: &Fingerprint) -> Result<Cursor, String> {
        let file = file_of(from);
        match self.folder.read(&file).map_err(|error| error.to_string())? {
            None => Ok(Cursor::default()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|_| {
                let path = self.folder.path_of(&file);
                format!(
                    "{} is damaged; move it away, and read in BRIDGE.md what that may let in",
                    path.display()
                )
            }),
        }
    }

    /// Writes the cursors, then sends receipts, then acknowledges.
    pub(super) async fn settle_decided(&mut self) {
        while let Some(from) = self.unwritten.first().cloned() {
            if let Some(bytes) = self.cursors.get(&from).and_then(|it| serde_json::to_vec(it).ok())
            {
                #[cfg(feature = "skew")]
                let bytes = if crate::skew::is_later() { crate::skew::file(&bytes) } else { bytes };
                if let Err(error) = self.folder.write(&file_of(&from), &bytes) {
                    let why = format!("nothing is taken from other machines: {error}");
                    if self.stuck.is_none() {
                        tracing::error!("{why}");
                    }
                    self.stuck = Some(why);
                    return;
                }
            }
            self.unwritten.remove(&from);
        }
        self.stuck = None;
        for (to, rows) in std::mem::take(&mut self.receipts) {
            for rows in rows.chunks(RECEIPTS_MAX) {
                self.send_receipts(&to, rows);
            }
        }
        for ack in std::mem::take(&mut self.acks) {
            ack.give().await;
        }
    }
}

fn file_of(from: &Fingerprint) -> String {
    format!("from-{from}.json")
}
