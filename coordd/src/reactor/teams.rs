//! Which teams' files are to be written, and whose inboxes served. A team that changes a thousand
//! times while its files are being written is written once more, not a thousand times: at most one
//! copy of its files waits at any time.

use std::collections::BTreeSet;

use coordd_core::name::Name;

use super::Reactor;
use crate::jobs::{InboxJob, Job, TeamJob, team_files};
use crate::store::Store;
use crate::translate;

/// What is still to be done for teams.
#[derive(Debug, Default)]
pub(crate) struct Teams {
    /// Their files.
    pub(super) files: Pending,
    /// What is for their members in terminals, and what those left.
    pub(super) inboxes: Pending,
}

/// Teams by their pending work.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Changed since the last hand-over.
    changed: BTreeSet<Name>,
    /// Handed over, and not yet written.
    waiting: BTreeSet<Name>,
}

impl Pending {
    pub(super) fn changed(&mut self, team: Name) {
        self.changed.insert(team);
    }

    pub(super) fn written(&mut self, team: &Name) {
        self.waiting.remove(team);
    }

    /// It could not be done, and is to be done again as things are now.
    pub(super) fn again(&mut self, team: Name) {
        self.waiting.remove(&team);
        self.changed.insert(team);
    }

    /// The teams to hand over now.
    fn take(&mut self) -> Vec<Name> {
        let free: Vec<Name> = self.changed.difference(&self.waiting).cloned().collect();
        for team in &free {
            self.changed.remove(team);
            self.waiting.insert(team.clone());
        }
        free
    }
}

impl<S: Store> Reactor<S> {
    pub(super) fn write_teams(&mut self) {
        for team in self.teams.files.take() {
            match team_files(&self.core, &team) {
                Some(write) => self.jobs.push(Job::Team(TeamJob::Write(Box::new(write)))),
                None => self.teams.files.written(&team),
            }
        }
    }

    pub(super) fn serve_inboxes(&mut self) {
        for team in self.teams.inboxes.take() {
            match translate::inboxes(&self.core, &team) {
                Some(wanted) => self.jobs.push(Job::Inbox(InboxJob::Serve(Box::new(wanted)))),
                None => self.teams.inboxes.written(&team),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_that_changes_while_it_is_written_is_written_once_more() {
        let name = |text: &str| Name::new(text).unwrap();
        let mut teams = Pending::default();
        for _ in 0..1_000 {
            teams.changed(name("a"));
        }
        teams.changed(name("b"));
        assert_eq!(teams.take(), [name("a"), name("b")]);
        for _ in 0..1_000 {
            teams.changed(name("a"));
            assert!(teams.take().is_empty());
        }
        teams.written(&name("b"));
        assert!(teams.take().is_empty());
        teams.written(&name("a"));
        assert_eq!(teams.take(), [name("a")]);
        teams.again(name("a"));
        assert_eq!(teams.take(), [name("a")]);
    }
}
