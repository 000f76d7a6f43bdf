//! What was sent and what arrived. Senders number their messages for each receiver from 1;
//! afterwards the receivers' transcripts are read, and every number must be there once, in order,
//! and nothing else.
//!
//! It knows nothing of how messages travel: it compares what senders were told with what
//! conversations hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use proto::entry::{Entry, What};

/// A message's text. The mark is what is looked for, the rest is there to have a length.
pub fn text(sender: &str, receiver: &str, number: u64) -> String {
    format!("[[{sender}>{receiver}#{number}]] something is said")
}

/// All marks in a text.
fn marks(text: &str) -> Vec<(String, String, u64)> {
    let inner = text.split("[[").skip(1).filter_map(|it| it.split_once("]]").map(|it| it.0));
    let parsed = inner.filter_map(|it| {
        let (pair, number) = it.split_once('#')?;
        let (sender, receiver) = pair.split_once('>')?;
        Some((sender.to_owned(), receiver.to_owned(), number.parse().ok()?))
    });
    parsed.collect()
}

type Pair = (String, String);

/// All that was said, from both ends.
#[derive(Debug, Default)]
pub struct History {
    /// By sender and receiver: the highest number that was tried, and all that were accepted.
    tried: BTreeMap<Pair, u64>,
    accepted: BTreeMap<Pair, BTreeSet<u64>>,
    /// In the order of the conversation.
    arrived: BTreeMap<Pair, Vec<u64>>,
    /// In a conversation that they were not sent to.
    strayed: Vec<String>,
}

/// What is wrong, one line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub lost: Vec<String>,
    pub doubled: Vec<String>,
    pub reordered: Vec<String>,
    /// Arrived, and nobody sent it, or not to there.
    pub phantoms: Vec<String>,
}

impl Faults {
    /// Whether nothing is.
    pub fn none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, faults) in [
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("reordered", &self.reordered),
            ("phantom", &self.phantoms),
        ] {
            let shown: Vec<_> = faults.iter().take(10).map(String::as_str).collect();
            writeln!(f, "{} {word}: {}", faults.len(), shown.join(" "))?;
        }
        Ok(())
    }
}

impl History {
    /// A sender was about to send this and all before it.
    pub fn tried(&mut self, sender: &str, receiver: &str, number: u64) {
        let highest = self.tried.entry((sender.into(), receiver.into())).or_default();
        *highest = (*highest).max(number);
    }

    /// A sender was told that this is safe.
    pub fn accepted(&mut self, sender: &str, receiver: &str, number: u64) {
        self.tried(sender, receiver, number);
        self.accepted.entry((sender.into(), receiver.into())).or_default().insert(number);
    }

    /// How many were accepted.
    pub fn accepted_count(&self) -> usize {
        self.accepted.values().map(BTreeSet::len).sum()
    }

    /// A conversation, as its agent reads it.
    pub fn conversation(&mut self, receiver: &str, entries: &[Entry]) {
        for entry in entries {
            let What::Input { text, .. } = &entry.what else { continue };
            for (sender, to, number) in marks(text) {
                if to == receiver {
                    self.arrived.entry((sender, to)).or_default().push(number);
                } else {
                    self.strayed.push(format!("{sender}>{to}#{number} at {receiver}"));
                }
            }
        }
    }

    /// The same from the file on the disk.
    pub fn transcript(&mut self, receiver: &str, file: &Path) {
        self.conversation(receiver, &entries(file));
    }

    /// Compares both ends.
    pub fn faults(&self) -> Faults {
        let mut faults = Faults { phantoms: self.strayed.clone(), ..Faults::default() };
        let none = Vec::new();
        for (pair @ (sender, receiver), accepted) in &self.accepted {
            let arrived: BTreeSet<_> = self.arrived.get(pair).unwrap_or(&none).iter().collect();
            let lost = accepted.iter().filter(|it| !arrived.contains(it));
            faults.lost.extend(lost.map(|it| format!("{sender}>{receiver}#{it}")));
        }
        for (pair @ (sender, receiver), arrived) in &self.arrived {
            let tried = self.tried.get(pair).copied().unwrap_or(0);
            let (mut seen, mut highest) = (BTreeSet::new(), 0);
            for number in arrived {
                let what = format!("{sender}>{receiver}#{number}");
                if *number > tried || *number == 0 {
                    faults.phantoms.push(what);
                } else if !seen.insert(number) {
                    faults.doubled.push(what);
                } else if *number < highest {
                    faults.reordered.push(what);
                }
                highest = highest.max(*number);
            }
        }
        faults
    }
}

/// The entries of a transcript file. Its last line may be torn while its agent writes.
pub fn entries(file: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|it| it.ends_with('\n'));
    whole
        .map(|line| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}: {error}: {line}", file.display()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proto::entry::Origin;

    use super::*;

    fn said(texts: &[String]) -> Vec<Entry> {
        let what = texts.iter().map(|text| What::Input {
            origin: Origin::User {},
            message: None,
            text: format!("From s: {text}"),
        });
        (1..).zip(what).map(|(seq, what)| Entry { seq, at_ms: 0, run: 1, what }).collect()
    }

    fn check(numbers: &[u64]) -> Faults {
        let mut history = History::default();
        (1..=4).for_each(|it| history.accepted("s", "r", it));
        // Sent, and nobody was told that it is safe: it may arrive or not.
        history.tried("s", "r", 5);
        let texts: Vec<_> = numbers.iter().map(|number| text("s", "r", *number)).collect();
        history.conversation("r", &said(&texts));
        history.faults()
    }

    fn only(wrong: impl FnOnce(&mut Faults)) -> Faults {
        let mut faults = Faults::default();
        wrong(&mut faults);
        faults
    }

    /// rel-71: each kind of fault is told, and nothing else is.
    #[test]
    fn rel71_the_checker_tells_what_is_wrong() {
        assert!(check(&[1, 2, 3, 4]).none());
        assert!(check(&[1, 2, 3, 4, 5]).none());
        assert_eq!(check(&[1, 2, 4]), only(|it| it.lost = vec!["s>r#3".into()]));
        assert_eq!(check(&[1, 2, 2, 3, 4]), only(|it| it.doubled = vec!["s>r#2".into()]));
        assert_eq!(check(&[1, 3, 2, 4]), only(|it| it.reordered = vec!["s>r#2".into()]));
        assert_eq!(check(&[1, 2, 3, 4, 6]), only(|it| it.phantoms = vec!["s>r#6".into()]));
        let mut history = History::default();
        history.accepted("s", "r", 1);
        history.conversation("q", &said(&[text("s", "r", 1)]));
        let faults = history.faults();
        assert_eq!((faults.lost.len(), faults.phantoms.len()), (1, 1), "{faults}");
    }

    #[test]
    fn a_line_that_is_being_written_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t");
        let line = serde_json::to_string(&said(&[text("s", "r", 1)])[0]).unwrap();
        std::fs::write(&file, format!("{line}\n{}", &line[..20])).unwrap();
        assert_eq!(entries(&file).len(), 1);
    }
}
