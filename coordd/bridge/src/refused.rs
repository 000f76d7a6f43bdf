//! What was refused from outside: how often, by reason, and which messages of trusted daemons were
//! not let in. Kept in a file, so that it outlives the process. It is for people: nothing is
//! decided by it, and what is lost with the last second is not missed.

use std::collections::{BTreeMap, VecDeque};

use proto::bridge::LetterView;
use serde::{Deserialize, Serialize};

use crate::files::Folder;

const REFUSED_FILE: &str = "refused.json";
/// Kinds of refusals that are counted apart: there are some twenty.
const REASONS_MAX: usize = 32;
/// Dead letters that are kept, the latest of all: more than a person reads.
const LETTERS_MAX: usize = 64;

/// A message of a trusted daemon that was not let in.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Letter {
    /// When, by this machine's clock.
    pub(crate) at_ms: u64,
    /// The address of the session that spoke.
    pub(crate) from: String,
    /// Its id there; empty where it is not understood.
    pub(crate) message: String,
    pub(crate) reason: String,
}

impl Letter {
    /// As people are told of it.
    pub(crate) fn view(&self) -> LetterView {
        let Self { at_ms, from, message, reason } = self.clone();
        LetterView { is_ours: false, at_ms, address: from, message, reason }
    }
}

/// How what was not taken is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// Something is wrong.
    Refused,
    /// It was good once: it came a second time, or so late that it says nothing any more, which
    /// servers do to what is good.
    PassedOver,
}

/// How version 0.1.0 counted what is passed over: among what is refused, by these words.
const PASSED_OVER_IN_0_1: [&str; 2] =
    ["it came before, and is not taken again", "made at a time that is far from now"];

/// All of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Refused {
    counts: BTreeMap<String, u64>,
    passed_over: BTreeMap<String, u64>,
    letters: VecDeque<Letter>,
    #[serde(skip)]
    is_unwritten: bool,
}

impl Refused {
    /// What an earlier process counted. A file that cannot be read is counted on from nothing.
    pub(crate) fn read(folder: &Folder) -> Self {
        let bytes = folder.read(REFUSED_FILE).unwrap_or_else(|error| {
            tracing::warn!(%error, "the record of refusals cannot be read");
            None
        });
        let Some(bytes) = bytes else { return Self::default() };
        let mut it: Self = serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "the record of refusals is damaged; counting begins again");
            Self::default()
        });
        it.letters.truncate(LETTERS_MAX);
        for reason in PASSED_OVER_IN_0_1 {
            if let Some(count) = it.counts.remove(reason) {
                it.passed_over.insert(reason.to_owned(), count);
            }
        }
        for counts in [&mut it.counts, &mut it.passed_over] {
            while counts.len() > REASONS_MAX {
                counts.pop_last();
            }
        }
        it
    }

    /// Counts one, and says how many of its kind there are; none where there are too many kinds.
    pub(crate) fn count(&mut self, sort: Sort, reason: &str) -> Option<u64> {
        let counts = match sort {
            Sort::Refused => &mut self.counts,
            Sort::PassedOver => &mut self.passed_over,
        };
        if counts.len() >= REASONS_MAX && !counts.contains_key(reason) {
            return None;
        }
        let count = counts.entry(reason.to_owned()).or_default();
        *count = count.saturating_add(1);
        self.is_unwritten = true;
        Some(*count)
    }

    /// Keeps one, and forgets the oldest of too many.
    pub(crate) fn keep(&mut self, letter: Letter) {
        self.letters.push_back(letter);
        while self.letters.len() > LETTERS_MAX {
            self.letters.pop_front();
        }
        self.is_unwritten = true;
    }

    /// Writes what is new. A failure costs figures, no message.
    pub(crate) fn write(&mut self, folder: &Folder) {
        if !std::mem::take(&mut self.is_unwritten) {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(self) else { return };
        if let Err(error) = folder.write(REFUSED_FILE, &bytes) {
            tracing::warn!(%error, "the record of refusals cannot be written");
            self.is_unwritten = true;
        }
    }

    pub(crate) fn counts(&self, sort: Sort) -> Vec<(String, u64)> {
        let counts = match sort {
            Sort::Refused => &self.counts,
            Sort::PassedOver => &self.passed_over,
        };
        counts.iter().map(|(reason, count)| (reason.clone(), *count)).collect()
    }

    pub(crate) fn letters(&self) -> impl Iterator<Item = &Letter> {
        self.letters.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m7_what_was_refused_outlives_the_process_and_is_bounded() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(&base.path().join("bridge")).unwrap();
        let mut refused = Refused::read(&folder);
        assert_eq!(refused.count(Sort::Refused, "forged"), Some(1));
        assert_eq!(refused.count(Sort::Refused, "forged"), Some(2));
        for at_ms in 0..100 {
            refused.keep(Letter { at_ms, ..Letter::default() });
        }
        refused.write(&folder);
        let mut again = Refused::read(&folder);
        assert_eq!(again, refused);
        let kept: Vec<_> = again.letters().map(|letter| letter.at_ms).collect();
        assert_eq!((kept.len(), kept.first(), kept.last()), (LETTERS_MAX, Some(&36), Some(&99)));
        let counted =
            (0..100).filter(|it| again.count(Sort::Refused, &it.to_string()).is_some()).count();
        assert_eq!(counted, REASONS_MAX - 1);
        assert_eq!(again.count(Sort::Refused, "forged"), Some(3), "a known kind is always counted");
        folder.write(REFUSED_FILE, b"{\"counts\": 7").unwrap();
        assert_eq!(Refused::read(&folder), Refused::default());
        folder.write(REFUSED_FILE, br#"{"counts":{"x":4},"of_a_later_build":[1]}"#).unwrap();
        assert_eq!(Refused::read(&folder).counts(Sort::Refused), [("x".to_owned(), 4)]);
    }

    #[test]
    fn l2_what_was_good_once_is_counted_apart_from_what_is_wrong() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(&base.path().join("bridge")).unwrap();
        let mut refused = Refused::read(&folder);
        refused.count(Sort::Refused, "forged");
        refused.count(Sort::PassedOver, "again");
        refused.write(&folder);
        let again = Refused::read(&folder);
        assert_eq!(again.counts(Sort::Refused), [("forged".to_owned(), 1)]);
        assert_eq!(again.counts(Sort::PassedOver), [("again".to_owned(), 1)]);
        let of_0_1 = r#"{"counts":{"forged":4,"made at a time that is far from now":2}}"#;
        folder.write(REFUSED_FILE, of_0_1.as_bytes()).unwrap();
        let read = Refused::read(&folder);
        assert_eq!(read.counts(Sort::Refused), [("forged".to_owned(), 4)]);
        assert_eq!(read.counts(Sort::PassedOver), [(PASSED_OVER_IN_0_1[1].to_owned(), 2)]);
    }
}
