//! How often this process ended while coordd had a row in its hands. A row that ends it each time
//! must not be brought for ever; one that came often for another reason must not be refused. Kept
//! in a file, which is written before such a row is brought. It decides nothing.

use serde::{Deserialize, Serialize};

use crate::envelope::Place;
use crate::files::Folder;
use crate::keys::Fingerprint;
use crate::limits::UNDECIDED_MAX;

const TRIED_FILE: &str = "tried.json";

/// A row that came often, and was brought.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Row {
    from: String,
    epoch: u64,
    id: u64,
    /// Lives of the process in which it was brought and not decided.
    lives: u32,
    /// Whether this life counts already.
    #[serde(skip)]
    is_counted: bool,
}

/// All of them. No more than can be undecided at once: of more the oldest is forgotten, and counted
/// anew.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tried {
    rows: Vec<Row>,
}

impl Tried {
    /// What earlier lives left. What cannot be read is counted anew.
    pub(crate) fn read(folder: &Folder) -> Self {
        let bytes = folder.read(TRIED_FILE).unwrap_or_else(|error| {
            tracing::warn!(%error, "the record of attempts cannot be read");
            None
        });
        let mut found: Self = bytes
            .map(|byte| serde_json::from_slice(&byte))
            .transpose()
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "the record of attempts is damaged; counting begins again");
                None
            })
            .unwrap_or_default();
        found.rows.truncate(UNDECIDED_MAX);
        found
    }

    /// Counts that a row is about to be brought, once in a life, and says in how many lives it was
    /// brought before. A failure to write costs the count of this life.
    pub(crate) fn begin(&mut self, folder: &Folder, from: &Fingerprint, place: Place) -> u32 {
        let at = self.position(from, place).unwrap_or_else(|| {
            if self.rows.len() >= UNDECIDED_MAX {
                self.rows.remove(0);
            }
            let (from, epoch, id) = (from.to_string(), place.epoch, place.id);
            self.rows.push(Row { from, epoch, id, lives: 0, is_counted: false });
            self.rows.len() - 1
        });
        let Some(row) = self.rows.get_mut(at) else { return 0 };
        if row.is_counted {
            return row.lives.saturating_sub(1);
        }
        let before = row.lives;
        row.is_counted = true;
        row.lives = before.saturating_add(1);
        self.write(folder);
        before
    }

    /// Forgets a row that is decided.
    pub(crate) fn end(&mut self, folder: &Folder, from: &Fingerprint, place: Place) {
        if let Some(at) = self.position(from, place) {
            self.rows.remove(at);
            self.write(folder);
        }
    }

    fn position(&self, from: &Fingerprint, place: Place) -> Option<usize> {
        self.rows.iter().position(|row| {
            row.from == from.as_str() && row.epoch == place.epoch && row.id == place.id
        })
    }

    fn write(&self, folder: &Folder) {
        let Ok(bytes) = serde_json::to_vec(self) else { return };
        if let Err(error) = folder.write(TRIED_FILE, &bytes) {
            tracing::warn!(%error, "the record of attempts cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: u64) -> Place {
        Place { epoch: 1, id, after: 0 }
    }

    #[test]
    fn rel75_lives_are_counted_and_not_attempts() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(&base.path().join("bridge")).unwrap();
        let from = Fingerprint::parse("aaaaaaaaaaaaaaaa").unwrap();
        for life in 0..5 {
            let mut tried = Tried::read(&folder);
            for _ in 0..3 {
                assert_eq!(tried.begin(&folder, &from, place(7)), life);
            }
            // Others that come and go take nothing from it.
            assert_eq!(tried.begin(&folder, &from, place(8)), 0);
            tried.end(&folder, &from, place(8));
        }
        let mut tried = Tried::read(&folder);
        tried.end(&folder, &from, place(7));
        assert_eq!(Tried::read(&folder), Tried::default());
        for id in 0..200 {
            tried.begin(&folder, &from, place(id));
        }
        assert_eq!(Tried::read(&folder).rows.len(), UNDECIDED_MAX);
        folder.write(TRIED_FILE, b"{\"rows\": 7").unwrap();
        assert_eq!(Tried::read(&folder), Tried::default());
    }
}
