//! The dedup store for the rows of one other daemon: tells whether a row is new, known, or too
//! early.
//!
//! Rows of a pair are decided in the order of their numbers, so one cursor is enough: everything up
//! to it is decided. A replay of any age and length is recognised, and costs no memory. Does no
//! I/O.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::body::Answer;
use crate::envelope::Place;
use crate::limits::WINDOW_MAX;

/// The cursor of one sender. It is on the disk before a row is acknowledged to the server.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cursor {
    epoch: u64,
    /// Everything up to this is decided.
    last: u64,
    /// The latest refusals. A sender has at most [`WINDOW_MAX`] rows in transit, so every refusal
    /// that it can ask about is here.
    #[serde(default)]
    refused: VecDeque<(u64, String)>,
}

/// What a row is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Judged {
    /// To be brought to coordd.
    New,
    /// Decided before: the sender has missed the receipt.
    Known(Answer),
    /// An earlier row has not come. The sender has both, and sends them again.
    Early,
    /// From before the sender's numbers began again.
    OldEpoch,
}

impl Cursor {
    pub(crate) fn judge(&self, place: Place) -> Judged {
        if place.epoch < self.epoch {
            return Judged::OldEpoch;
        }
        let last = if place.epoch == self.epoch { self.last } else { 0 };
        if place.id <= last {
            let refused = self.refused.iter().find(|it| it.0 == place.id);
            let verdict = refused
                .map_or(Answer::Taken, |(_, reason)| Answer::Refused { reason: reason.clone() });
            return Judged::Known(verdict);
        }
        if place.after > last { Judged::Early } else { Judged::New }
    }

    /// A row that was new is decided.
    pub(crate) fn decide(&mut self, place: Place, verdict: &Answer) {
        if place.epoch != self.epoch {
            *self = Self { epoch: place.epoch, ..Self::default() };
        }
        self.last = self.last.max(place.id);
        if let Answer::Refused { reason } = verdict {
            self.refused.push_back((place.id, reason.clone()));
        }
        while self.refused.len() > WINDOW_MAX {
            self.refused.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(epoch: u64, id: u64, after: u64) -> Place {
        Place { epoch, id, after }
    }

    #[test]
    fn rel18_a_row_is_new_once() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.judge(place(1, 5, 0)), Judged::New);
        cursor.decide(place(1, 5, 0), &Answer::Taken);
        let refused = Answer::Refused { reason: "full".into() };
        cursor.decide(place(1, 6, 5), &refused);
        for id in 1..=5 {
            assert_eq!(cursor.judge(place(1, id, 0)), Judged::Known(Answer::Taken));
        }
        assert_eq!(cursor.judge(place(1, 6, 5)), Judged::Known(refused));
        assert_eq!(cursor.judge(place(1, 8, 6)), Judged::New);
    }

    #[test]
    fn m7_a_row_waits_for_the_one_before_it() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.judge(place(1, 9, 8)), Judged::Early);
        assert_eq!(cursor.judge(place(1, 8, 0)), Judged::New);
        cursor.decide(place(1, 8, 0), &Answer::Taken);
        assert_eq!(cursor.judge(place(1, 9, 8)), Judged::New);
    }

    #[test]
    fn m7_numbers_may_begin_again_and_the_old_ones_stay_known() {
        let mut cursor = Cursor::default();
        cursor.decide(place(10, 900, 0), &Answer::Taken);
        assert_eq!(cursor.judge(place(11, 3, 0)), Judged::New);
        cursor.decide(place(11, 3, 0), &Answer::Taken);
        assert_eq!(cursor.judge(place(10, 901, 0)), Judged::OldEpoch);
        assert_eq!(cursor.judge(place(11, 3, 0)), Judged::Known(Answer::Taken));
    }

    #[test]
    fn m7_as_many_refusals_are_known_as_a_sender_can_ask_about() {
        let mut cursor = Cursor::default();
        let refused = Answer::Refused { reason: "no".into() };
        for id in 1..=500 {
            cursor.decide(place(1, id, 0), &refused);
        }
        assert_eq!(cursor.refused.len(), WINDOW_MAX);
        let oldest = 500 - WINDOW_MAX as u64 + 1;
        assert_eq!(cursor.judge(place(1, oldest, 0)), Judged::Known(refused));
    }
}
