//! Two hosts that say numbered things to each other, in both directions at once, and what came of
//! it, by the history checker.

use std::time::{Duration, Instant};

use proto::entry::{Entry, What};
use proto::message::MessageState;
use tests::history::{self, History};

use super::hosts::{Host, RECOVERY_LIMIT};

const NAMES: [&str; 2] = ["a", "b"];
/// Said and not read, in each direction: what is on its way when somebody is killed.
const AHEAD_MAX: usize = 250;

/// Both, and all that was said.
pub(super) struct Soak {
    pub(super) hosts: [Host; 2],
    addresses: [String; 2],
    history: History,
    next: [u64; 2],
    ids: [Vec<String>; 2],
    heard: [usize; 2],
}

impl Soak {
    /// Of hosts that know each other.
    pub(super) fn of(mut a: Host, mut b: Host) -> Self {
        let addresses = [a.address(), b.address()];
        let (ids, history) = ([Vec::new(), Vec::new()], History::default());
        Self { hosts: [a, b], addresses, history, next: [0; 2], ids, heard: [0; 2] }
    }

    /// How many were accepted, of both.
    pub(super) fn said(&self) -> usize {
        self.ids.iter().map(Vec::len).sum()
    }

    /// One of them says more, as far as it is accepted and not too far ahead.
    pub(super) fn say(&mut self, at: usize, count: usize) {
        let ahead = self.ids[at].len() - self.heard[1 - at];
        for _ in 0..count.min(AHEAD_MAX.saturating_sub(ahead)) {
            let number = self.next[at] + 1;
            self.history.tried(NAMES[at], NAMES[1 - at], number);
            let text = history::text(NAMES[at], NAMES[1 - at], number);
            let Some(id) = self.hosts[at].try_send(&self.addresses[at], &text) else { return };
            self.history.accepted(NAMES[at], NAMES[1 - at], number);
            self.next[at] = number;
            self.ids[at].push(id);
        }
    }

    /// One of them reads what comes within a time.
    pub(super) fn hear(&mut self, at: usize, within: Duration) -> bool {
        let got = self.hosts[at].read(within);
        self.heard[at] += got.len();
        let entries: Vec<_> = got
            .into_iter()
            .map(|it| {
                // As its agent would see it: what comes from outside cannot close a tag.
                let text = it.text.replace("&gt;", ">");
                let what = What::Input { origin: it.origin, message: Some(it.message), text };
                Entry { seq: 0, at_ms: 0, run: 1, what }
            })
            .collect();
        self.history.conversation(NAMES[at], &entries);
        !entries.is_empty()
    }

    /// Both speak and read once.
    pub(super) fn go_on(&mut self, count: usize) {
        for at in [0, 1] {
            self.say(at, count);
        }
        for at in [0, 1] {
            while self.hear(at, Duration::from_millis(1)) {}
        }
    }

    /// Everything arrives, once and in order, and its sender knows.
    pub(super) fn finish(&mut self) {
        let mut last = Instant::now();
        while self.heard.iter().sum::<usize>() < self.said() {
            let any =
                self.hear(0, Duration::from_millis(100)) | self.hear(1, Duration::from_millis(100));
            if any {
                last = Instant::now();
            }
            assert!(last.elapsed() < RECOVERY_LIMIT * 2, "{:?} of {}", self.heard, self.said());
        }
        let faults = self.history.faults();
        assert!(faults.none(), "{faults}");
        let mut last = Instant::now();
        for at in [0, 1] {
            for id in &self.ids[at] {
                while self.hosts[at].receipt(id).state != MessageState::Consumed {
                    if last.elapsed() > RECOVERY_LIMIT * 2 {
                        let receipt = self.hosts[at].receipt(id);
                        let status = [0, 1].map(|at| self.hosts[at].status());
                        panic!("{receipt:?} stays as it is; {status:?}");
                    }
                    std::thread::yield_now();
                }
                last = Instant::now();
            }
            self.hosts[at].lead.assert_nothing_comes();
        }
    }
}
