//! Why a box could not be built. The command did not run.

use std::io;
use std::path::PathBuf;

use coordd_sandbox::PolicyError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BoxError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("no {what}")]
    Step {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{} cannot be {done}", path.display())]
    Path {
        path: PathBuf,
        done: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("no filter of system calls: {0}")]
    Filter(String),
    #[error("no Landlock: {0}")]
    Landlock(String),
    #[error("{} cannot be run", program.display())]
    Exec {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl BoxError {
    pub(crate) fn step(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Step { what, source: errno.into() }
    }

    /// The same, for the other library of system calls.
    pub(crate) fn nix(what: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::Step { what, source: errno.into() }
    }

    /// With its causes, in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(it) = cause {
            line.push_str(": ");
            line.push_str(&it.to_string());
            cause = it.source();
        }
        line
    }
}
