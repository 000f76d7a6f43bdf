//! What the process is told on its stdin, and how it makes itself independent of the process that
//! started it.

use std::fs::File;
use std::io::Read as _;

use proto::agent::Bootstrap;
use rustix::process::{Resource, Rlimit};

/// Longest bootstrap: an environment of 2 MiB, escaped.
const BOOTSTRAP_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Why the process cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error("cannot read the bootstrap from stdin")]
    Read {
        #[source]
        source: std::io::Error,
    },
    #[error("the bootstrap on stdin is longer than {BOOTSTRAP_LEN_MAX} bytes")]
    TooLong,
    #[error("stdin is empty: coordd starts this program; to start an agent use `coordctl`")]
    Empty,
    #[error("the bootstrap on stdin is not the JSON that this version expects")]
    Malformed {
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot detach from stdin")]
    Detach {
        #[source]
        source: std::io::Error,
    },
}

/// Reads the bootstrap to its end, and leaves stdin empty.
pub(crate) fn read() -> Result<Bootstrap, BootstrapError> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(BOOTSTRAP_LEN_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| BootstrapError::Read { source })?;
    let bootstrap = parse(&bytes)?;
    let detach = || {
        let null = File::open("/dev/null")?;
        nix::unistd::dup2_stdin(&null).map_err(std::io::Error::from)
    };
    detach().map_err(|source| BootstrapError::Detach { source })?;
    Ok(bootstrap)
}

fn parse(bytes: &[u8]) -> Result<Bootstrap, BootstrapError> {
    if bytes.len() as u64 > BOOTSTRAP_LEN_MAX {
        return Err(BootstrapError::TooLong);
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(BootstrapError::Empty);
    }
    serde_json::from_slice(bytes).map_err(|source| BootstrapError::Malformed { source })
}

/// A session and process group of its own, subreaper for the orphans of tools, no core files. The
/// umask stays the user's: what tools write is the user's work, and what this process writes for
/// itself has its mode from birth.
pub(crate) fn become_independent() {
    if let Err(error) = lead_session() {
        tracing::warn!(%error, "no session of its own");
    }
    if let Err(error) = crate::tools::become_subreaper() {
        tracing::warn!(%error, "orphans of tools are not handed to this process");
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = rustix::process::setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core files are not switched off");
    }
}

/// Opens a session. coordd starts this process as a group leader, which may not call setsid; so it
/// joins its parent's group for a moment.
fn lead_session() -> nix::Result<()> {
    use nix::unistd::{Pid, getpgid, getppid, setpgid, setsid};
    if setsid().is_ok() {
        return Ok(());
    }
    // A daemon that has died meanwhile leaves a parent whose group may be 0, outside of this pid
    // namespace. Not with rustix, which takes that for impossible.
    let parents = getpgid(Some(getppid()))?;
    setpgid(Pid::from_raw(0), parents)?;
    setsid().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_bootstrap_is_said_plainly() {
        assert!(matches!(parse(b" \n"), Err(BootstrapError::Empty)));
        assert!(matches!(parse(b"{\"agent\": 5}"), Err(BootstrapError::Malformed { .. })));
        let long = vec![b' '; 4 * 1024 * 1024 + 1];
        assert!(matches!(parse(&long), Err(BootstrapError::TooLong)));
        assert!(BootstrapError::Empty.to_string().contains("coordctl"));
    }
}
