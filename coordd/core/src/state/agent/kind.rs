//! What kinds of agents there are, and what follows from it.

use super::{Agent, Life, Pty, Runtime};
use crate::state::far::Far;
use crate::state::id::MessageId;
use crate::state::role::Role;

/// What kind of agent it is, with what that kind has. It says what follows for coordd; what drives its turns is its [`Runtime`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind<'a> {
    /// A process that coordd starts.
    Own,
    /// The same, for a lead on another machine.
    Guest(&'a Far),
    /// A program of the user's that joined.
    Joined,
    /// In a terminal that its user starts and ends.
    Terminal,
    /// In a terminal that coordd runs.
    Pty(&'a Pty),
    /// A worker on another machine.
    Hosted(Option<&'a Far>),
    /// The lead of the workers that this machine runs for another. It is never there.
    FarLead,
}

/// What a kind means for the questions that are asked of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meaning {
    /// Whether it is for coordd to start it. Others come when their user starts them, and their mail waits until then.
    pub is_started_here: bool,
    /// Whether it has runs. Nobody knows when a program that joined works.
    pub has_runs: bool,
    /// Whether all that is known of its work is its runs: its process is none of ours, or is there between them too.
    pub works_by_runs: bool,
}

impl Kind<'_> {
    /// One row for each kind.
    pub fn meaning(self) -> Meaning {
        let row = |is_started_here, has_runs, works_by_runs| Meaning {
            is_started_here,
            has_runs,
            works_by_runs,
        };
        match self {
            Self::Own | Self::Guest(_) => row(true, true, false),
            Self::Joined => row(false, false, false),
            Self::Pty(_) => row(true, true, true),
            Self::Terminal | Self::Hosted(_) => row(false, true, true),
            Self::FarLead => row(false, true, false),
        }
    }
}

impl Agent {
    /// Whether a process exists or is being started.
    pub fn has_process(&self) -> bool {
        match self.life {
            Life::Up | Life::Stopping { .. } => true,
            Life::Down | Life::Waiting => false,
        }
    }

    /// What kind of agent it is.
    pub fn kind(&self) -> Kind<'_> {
        match (self.runtime, &self.pty, &self.far) {
            (Runtime::Native | Runtime::Claude, _, Some(far)) => Kind::Guest(far),
            (Runtime::Native | Runtime::Claude, _, None) => Kind::Own,
            (Runtime::External, ..) => Kind::Joined,
            (Runtime::Terminal, Some(pty), _) => Kind::Pty(pty),
            (Runtime::Terminal, None, _) => Kind::Terminal,
            (Runtime::Bridged, _, far) if self.role == Role::Worker => Kind::Hosted(far.as_ref()),
            (Runtime::Bridged, ..) => Kind::FarLead,
        }
    }

    /// Whether its process is a program of the user's that joined.
    pub fn is_external(&self) -> bool {
        self.kind() == Kind::Joined
    }

    /// Whether it is a worker that runs on another machine.
    pub fn is_hosted(&self) -> bool {
        matches!(self.kind(), Kind::Hosted(_))
    }

    /// The other end of a worker that runs here for a lead on another machine.
    pub fn far_lead(&self) -> Option<&Far> {
        match self.kind() {
            Kind::Guest(far) => Some(far),
            Kind::Own
            | Kind::Joined
            | Kind::Terminal
            | Kind::Pty(_)
            | Kind::Hosted(_)
            | Kind::FarLead => None,
        }
    }

    /// Whether it runs in a terminal, one of the user's or one of coordd's.
    pub(crate) fn is_in_terminal(&self) -> bool {
        matches!(self.kind(), Kind::Terminal | Kind::Pty(_))
    }

    /// Whether coordd runs a terminal for it.
    pub fn has_pty(&self) -> bool {
        matches!(self.kind(), Kind::Pty(_))
    }

    /// Whether its process takes one of the places that a session has for workers. A terminal that waits for work takes none.
    pub fn takes_a_place(&self) -> bool {
        self.role == Role::Worker && (!self.has_pty() || self.has_work())
    }

    /// Whether it works, waits for a place, or is being ended.
    pub fn is_active(&self) -> bool {
        let has_mail = !self.mailbox.is_empty();
        match (&self.life, self.kind()) {
            (Life::Waiting | Life::Stopping { .. }, _) => true,
            // It works from when it is asked to, though nothing of it is here.
            (Life::Down, Kind::Hosted(_)) => self.owes_outcome() || has_mail,
            (Life::Down, kind) => kind.meaning().works_by_runs && self.run_is_open(),
            (Life::Up, Kind::Joined) => false,
            // Its program is there between runs too.
            (Life::Up, Kind::Pty(_)) => self.run_is_open() || has_mail,
            // A worker's process is there for its run; a lead's also waits between runs.
            (
                Life::Up,
                Kind::Own | Kind::Guest(_) | Kind::Terminal | Kind::Hosted(_) | Kind::FarLead,
            ) => self.role == Role::Worker || self.run_is_open() || has_mail,
        }
    }

    /// Whether something of its work is still to come: a run that is open, or mail that leads to one. A process that is only
    /// leaving, or mail that wakes nobody, is no work.
    pub fn has_work(&self) -> bool {
        self.is_active() && (self.run_is_open() || !(self.parked || self.mailbox.is_empty()))
    }

    /// Whether it is there to be spoken to without being started.
    pub fn is_there(&self) -> bool {
        let in_terminal = self.is_in_terminal() && self.process.is_some();
        self.role != Role::Worker || self.is_active() || in_terminal
    }

    /// Whether it is in the middle of a run.
    pub fn run_is_open(&self) -> bool {
        self.run_opened_ms.is_some()
    }

    /// Whether somebody still has to be told how what it was started for ended.
    pub fn owes_outcome(&self) -> bool {
        // A terminal may be there before anything is asked of it.
        let was_asked = !self.has_pty() || !self.mailbox.is_empty();
        self.run_is_open() || (self.role == Role::Worker && self.runs == 0 && was_asked)
    }

    /// Whether its message is still in the mailbox. Ids rise, so the mailbox is sorted.
    pub fn has_mail(&self, message: MessageId) -> bool {
        self.mailbox.binary_search(&message).is_ok()
    }
}
