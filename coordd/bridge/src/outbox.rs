//! The rows on their way to other daemons: which is to be sent when, and when again. Does no I/O.
//!
//! ```text
//!   waiting ──sent──▶ sending ──stored──▶ stored ──receipt──▶ gone, and coordd is told
//!      ▲                │ not stored        │ the receiver was heard of, and has not decided
//!      └────────────────┴───────────────────┘
//! ```
//!
//! That the server stored a row ends nothing: it may lose what it acknowledged. A row stays until
//! the receiving daemon has decided about it, or until it expires. coordd has all of them on disk
//! and hands them over again after a restart.

use std::collections::{BTreeMap, VecDeque};

use crate::body::Answer;
use crate::envelope::Place;
use crate::keys::Fingerprint;
use crate::limits::{ROWS_MAX, WINDOW_MAX};

/// How long a receiver that is there may take before a row is sent again, at first; doubled each
/// time.
const GRACE_MS: u64 = 4_000;
/// The longest of these. A receiver with a long queue before it gets few copies.
const GRACE_MS_MAX: u64 = 60 * 1_000;
/// How long a pair waits after the server did not store, at first; doubled each time.
const RETRY_MS: u64 = 250;
/// The longest of these: after an outage of any length mail moves again within this time.
const RETRY_MS_MAX: u64 = 15_000;

/// A row as coordd handed it over.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// Its number: rises with each message of coordd.
    pub(crate) id: u64,
    pub(crate) to: Fingerprint,
    /// Which life of these numbers.
    pub(crate) epoch: u64,
    /// When it is given up, by the wall clock.
    pub(crate) expires_ms: u64,
    /// The body, in clear.
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    Sending,
    Stored { at_ms: u64 },
}

#[derive(Debug)]
struct Sending {
    row: Row,
    state: State,
    /// Changes with each copy that is meant as a copy: a server that knows a copy's id swallows it.
    copy: u32,
}

#[derive(Debug, Default)]
struct Pair {
    rows: BTreeMap<u64, Sending>,
    failures: u32,
    retry_at_ms: u64,
    /// How often in a row its rows were sent again without one being decided.
    rounds: u32,
}

/// One row to be sent now.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Send {
    pub(crate) to: Fingerprint,
    pub(crate) place: Place,
    pub(crate) copy: u32,
    pub(crate) expires_ms: u64,
    pub(crate) body: Vec<u8>,
}

/// What became of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is durable at the receiving daemon.
    Taken,
    /// It is not taken there.
    Refused(String),
    /// Nobody took it in time.
    Expired,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pairs: BTreeMap<Fingerprint, Pair>,
    /// Pairs in turn, so that one with much to send does not keep others waiting.
    turn: VecDeque<Fingerprint>,
    len: usize,
}

impl Outbox {
    /// Takes a row; a known one is known. False when there is no room.
    pub(crate) fn take(&mut self, row: Row) -> bool {
        if self.len >= ROWS_MAX {
            return false;
        }
        if !self.pairs.contains_key(&row.to) {
            self.turn.push_back(row.to.clone());
        }
        let pair = self.pairs.entry(row.to.clone()).or_default();
        if let std::collections::btree_map::Entry::Vacant(free) = pair.rows.entry(row.id) {
            free.insert(Sending { row, state: State::Waiting, copy: 0 });
            self.len += 1;
        }
        true
    }

    /// Rows that are not decided.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The same, to one daemon.
    pub(crate) fn len_to(&self, to: &Fingerprint) -> usize {
        self.pairs.get(to).map_or(0, |pair| pair.rows.len())
    }

    /// The next row to be sent, if one is due. A pair's rows go in order, and none beyond the
    /// window.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<Send> {
        for _ in 0..self.turn.len() {
            let to = self.turn.pop_front()?;
            let due = self.pairs.get_mut(&to).and_then(|pair| pair.next(&to, now_ms));
            self.turn.push_back(to);
            if due.is_some() {
                return due;
            }
        }
        None
    }

    /// The server has it.
    pub(crate) fn stored(&mut self, to: &Fingerprint, id: u64, copy: u32, now_ms: u64) {
        let Some(pair) = self.pairs.get_mut(to) else { return };
        pair.failures = 0;
        pair.retry_at_ms = 0;
        let it =
            pair.rows.get_mut(&id).filter(|row| row.state == State::Sending && row.copy == copy);
        if let Some(it) = it {
            it.state = State::Stored { at_ms: now_ms };
        }
    }

    /// It is not known whether the server has it. The same copy is sent again: if it has, it knows
    /// that.
    pub(crate) fn not_stored(&mut self, to: &Fingerprint, id: u64, jitter: u64, now_ms: u64) {
        let Some(pair) = self.pairs.get_mut(to) else { return };
        let Some(it) = pair.rows.get_mut(&id).filter(|row| row.state == State::Sending) else {
            return;
        };
        it.state = State::Waiting;
        if pair.retry_at_ms <= now_ms {
            let wait = doubled(RETRY_MS, pair.failures, RETRY_MS_MAX);
            pair.failures = pair.failures.saturating_add(1);
            pair.retry_at_ms = now_ms + wait / 2 + jitter % (wait / 2 + 1);
        }
    }

    /// The receiving daemon is there. What it has had for a while without a word about it is sent
    /// again: the server lost it, or the receipt.
    pub(crate) fn heard_of(&mut self, from: &Fingerprint, now_ms: u64) {
        let Some(pair) = self.pairs.get_mut(from) else { return };
        // Rows of one window are stored within moments of each other; all of them wait for the
        // first.
        let grace_ms = doubled(GRACE_MS, pair.rounds, GRACE_MS_MAX);
        if !pair.rows.values().any(|row| row.is_late(now_ms, grace_ms)) {
            return;
        }
        pair.rounds = pair.rounds.saturating_add(1);
        for it in pair.rows.values_mut().take(WINDOW_MAX) {
            if matches!(it.state, State::Stored { .. }) {
                it.state = State::Waiting;
                it.copy = it.copy.saturating_add(1);
            }
        }
    }

    /// The receiving daemon decided.
    pub(crate) fn decided(
        &mut self,
        from: &Fingerprint,
        epoch: u64,
        id: u64,
        verdict: Answer,
    ) -> Option<Fate> {
        let pair = self.pairs.get_mut(from)?;
        pair.rows.get(&id).filter(|row| row.row.epoch == epoch)?;
        pair.rows.remove(&id)?;
        pair.rounds = 0;
        self.len -= 1;
        Some(match verdict {
            Answer::Taken => Fate::Taken,
            Answer::Refused { reason } => Fate::Refused(reason),
        })
    }

    /// Takes out what is for daemons that are not kept.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Fingerprint) -> bool) -> Vec<u64> {
        let mut gone = Vec::new();
        self.turn.retain(|to| keep(to));
        self.pairs.retain(|to, pair| {
            let stays = keep(to);
            if !stays {
                gone.extend(pair.rows.keys().copied());
            }
            stays
        });
        self.len -= gone.len();
        gone
    }

    /// Takes out what is too old.
    pub(crate) fn expire(&mut self, wall_ms: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        for pair in self.pairs.values_mut() {
            pair.rows.retain(|id, it| {
                let is_old = it.row.expires_ms <= wall_ms;
                if is_old {
                    gone.push(*id);
                }
                !is_old
            });
        }
        self.len -= gone.len();
        gone
    }

    /// Takes out everything: coordd will hand it over again.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Pair {
    fn next(&mut self, to: &Fingerprint, now_ms: u64) -> Option<Send> {
        if now_ms < self.retry_at_ms {
            return None;
        }
        let mut after = 0;
        for (id, it) in self.rows.iter_mut().take(WINDOW_MAX) {
            if it.state == State::Waiting {
                it.state = State::Sending;
                return Some(Send {
                    to: to.clone(),
                    place: Place { epoch: it.row.epoch, id: *id, after },
                    copy: it.copy,
                    expires_ms: it.row.expires_ms,
                    body: it.row.body.clone(),
                });
            }
            after = *id;
        }
        None
    }
}

impl Sending {
    fn is_late(&self, now_ms: u64, grace_ms: u64) -> bool {
        let State::Stored { at_ms } = self.state else { return false };
        now_ms.saturating_sub(at_ms) >= grace_ms
    }
}

fn doubled(first: u64, times: u32, most: u64) -> u64 {
    first.saturating_mul(1_u64.checked_shl(times.min(32)).unwrap_or(u64::MAX)).min(most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::inbox::{Cursor, Judged};

    fn peer(number: u8) -> Fingerprint {
        Fingerprint::parse(&char::from(b'a' + number).to_string().repeat(16)).unwrap()
    }

    fn row(id: u64, to: u8) -> Row {
        Row { id, to: peer(to), epoch: 1, expires_ms: 1_000_000, body: vec![to] }
    }

    fn ids(outbox: &mut Outbox, now_ms: u64) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| outbox.next(now_ms)).map(|it| (it.place.id, it.place.after)).collect()
    }

    #[test]
    fn m7_rows_go_in_order_and_each_names_the_open_one_before_it() {
        let mut outbox = Outbox::default();
        for id in [3, 5, 9] {
            assert!(outbox.take(row(id, 1)));
        }
        assert_eq!(ids(&mut outbox, 0), [(3, 0), (5, 3), (9, 5)]);
        assert_eq!(ids(&mut outbox, 0), []);
        assert_eq!(outbox.decided(&peer(1), 1, 3, Answer::Taken), Some(Fate::Taken));
        assert_eq!(outbox.decided(&peer(1), 1, 3, Answer::Taken), None);
        assert_eq!(outbox.decided(&peer(1), 2, 5, Answer::Taken), None, "of another epoch");
        outbox.take(row(10, 1));
        assert_eq!(ids(&mut outbox, 0), [(10, 9)]);
    }

    #[test]
    fn rel74_the_window_and_the_whole_are_bounded_and_pairs_take_turns() {
        let mut outbox = Outbox::default();
        for id in 1..=1_500 {
            assert!(outbox.take(row(id, 1)));
        }
        assert!(outbox.take(row(2_000, 2)));
        let sent: Vec<_> = std::iter::from_fn(|| outbox.next(0)).collect();
        assert_eq!(sent.len(), WINDOW_MAX + 1);
        assert!(sent.iter().take(2).any(|it| it.to == peer(2)), "the other waits for its turn");
        let mut id = 3_000;
        while outbox.take(row(id, 3)) {
            id += 1;
        }
        assert_eq!(outbox.len(), ROWS_MAX);
    }

    #[test]
    fn rel72_a_row_that_was_not_stored_is_sent_as_the_same_copy() {
        let mut outbox = Outbox::default();
        outbox.take(row(1, 1));
        assert_eq!(outbox.next(0).map(|row| row.copy), Some(0));
        outbox.not_stored(&peer(1), 1, 7, 0);
        assert_eq!(outbox.next(0), None, "not at once");
        assert_eq!(outbox.next(RETRY_MS).map(|row| row.copy), Some(0));
    }

    #[test]
    fn rel75_what_the_server_lost_is_sent_again_as_another_copy() {
        let mut outbox = Outbox::default();
        outbox.take(row(1, 1));
        outbox.next(0);
        outbox.stored(&peer(1), 1, 0, 0);
        outbox.heard_of(&peer(1), GRACE_MS - 1);
        assert_eq!(outbox.next(GRACE_MS - 1), None, "the receiver has had no time");
        outbox.heard_of(&peer(1), GRACE_MS);
        let again = outbox.next(GRACE_MS).unwrap();
        assert_eq!((again.place.id, again.copy), (1, 1));
        outbox.stored(&peer(1), 1, 1, GRACE_MS);
        outbox.heard_of(&peer(1), GRACE_MS * 2);
        assert_eq!(outbox.next(GRACE_MS * 2), None, "twice as long the second time");
        assert_eq!(outbox.next(u64::MAX), None, "a receiver that is away gets no copies");
    }

    #[test]
    fn m7_what_is_for_a_daemon_that_is_trusted_no_longer_is_given_up() {
        let mut outbox = Outbox::default();
        outbox.take(row(1, 1));
        outbox.take(row(2, 2));
        assert_eq!(outbox.retain(|it| *it == peer(2)), [1]);
        assert_eq!((outbox.len(), ids(&mut outbox, 0)), (1, vec![(2, 0)]));
    }

    #[test]
    fn m7_what_nobody_took_in_time_expires() {
        let mut outbox = Outbox::default();
        outbox.take(row(1, 1));
        assert_eq!(outbox.expire(999_999), [] as [u64; 0]);
        assert_eq!(outbox.expire(1_000_000), [1]);
        assert_eq!((outbox.len(), outbox.next(0)), (0, None));
    }

    proptest! {
        /// A server that loses, doubles, reorders, forgets and plays everything again, receipts
        /// that are lost, and either side dying at any moment: everything enters once and in order,
        /// and the sender is told of each once.
        #[test]
        fn m7_rel18_any_server_any_luck_once_and_in_order(
            luck in proptest::collection::vec(0_u8..13, 200..600)
        ) {
            let mut pair = Both::with_rows(20);
            let mut luck = luck.into_iter();
            for step in 0_u64..20_000 {
                // Once its luck has run out everybody does their duty.
                pair.step(luck.next().unwrap_or(12), step);
                if pair.outbox.len() == 0 {
                    break;
                }
            }
            let all: Vec<u64> = (1..=20).collect();
            prop_assert_eq!(&pair.entered, &all);
            pair.told.sort_unstable();
            prop_assert_eq!(pair.told, all);
        }
    }

    /// A sender with its coordd, a server, and a receiver with its coordd and its disk.
    struct Both {
        outbox: Outbox,
        told: Vec<u64>,
        on_the_way: Vec<Send>,
        /// All that the server ever had.
        stored: Vec<Send>,
        cursor: Cursor,
        disk: Cursor,
        /// What entered the conversation, in order. coordd knows a message by its own id.
        entered: Vec<u64>,
        now_ms: u64,
    }

    impl Both {
        fn with_rows(count: u64) -> Self {
            let mut outbox = Outbox::default();
            for id in 1..=count {
                outbox.take(row(id, 1));
            }
            Self {
                outbox,
                told: Vec::new(),
                on_the_way: Vec::new(),
                stored: Vec::new(),
                cursor: Cursor::default(),
                disk: Cursor::default(),
                entered: Vec::new(),
                now_ms: 0,
            }
        }

        fn step(&mut self, roll: u8, step: u64) {
            self.now_ms += 500;
            self.send(roll, step);
            match roll {
                3 => self.on_the_way.reverse(),
                4 => self.on_the_way.extend_from_within(..),
                // It forgets what it took.
                5 => self.on_the_way.clear(),
                6 => self.on_the_way.extend(self.stored.iter().cloned()),
                // The sender dies; its coordd hands over what is open.
                7 => {
                    self.outbox.clear();
                    for id in (1..=20).filter(|id| !self.told.contains(id)) {
                        self.outbox.take(row(id, 1));
                    }
                }
                _ => {}
            }
            self.receive(roll);
            self.outbox.heard_of(&peer(1), self.now_ms);
        }

        fn send(&mut self, roll: u8, step: u64) {
            while let Some(send) = self.outbox.next(self.now_ms) {
                let (to, id) = (send.to.clone(), send.place.id);
                if matches!(roll, 0 | 2) {
                    self.outbox.not_stored(&to, id, step, self.now_ms);
                } else {
                    self.outbox.stored(&to, id, send.copy, self.now_ms);
                }
                if !matches!(roll, 0 | 1) {
                    self.stored.push(send.clone());
                    self.on_the_way.push(send);
                }
            }
        }

        fn receive(&mut self, roll: u8) {
            let mut verdicts = Vec::new();
            for send in std::mem::take(&mut self.on_the_way) {
                let id = send.place.id;
                match self.cursor.judge(send.place) {
                    Judged::New => {
                        if !self.entered.contains(&id) {
                            self.entered.push(id);
                        }
                        self.cursor.decide(send.place, &Answer::Taken);
                        verdicts.push((send, Answer::Taken));
                    }
                    Judged::Known(verdict) => verdicts.push((send, verdict)),
                    Judged::Early | Judged::OldEpoch => {}
                }
            }
            // The receiver dies before it has written what it decided, or after.
            if roll == 8 {
                self.cursor = self.disk.clone();
                return;
            }
            self.disk = self.cursor.clone();
            // Receipts are lost.
            if roll == 9 {
                return;
            }
            for (send, verdict) in verdicts {
                if self.outbox.decided(&send.to, 1, send.place.id, verdict).is_some() {
                    self.told.push(send.place.id);
                }
            }
        }
    }
}
