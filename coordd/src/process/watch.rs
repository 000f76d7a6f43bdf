//! Waiting for the end of a process.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

use super::identity::{Identity, State};

/// How often a process is looked at where the kernel has no room for another watch.
const POLL_MS: u64 = 1_000;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Signalled(i32),
    /// The process is not our child, so its exit status is unknown. Its outcome file tells the
    /// result.
    Unknown,
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Signalled(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// Waits for a child of ours, and reaps it.
pub(crate) async fn child(mut child: Child) -> Ended {
    match child.wait().await {
        Ok(status) => status.into(),
        Err(error) => {
            tracing::warn!(%error, "an agent process could not be waited for");
            Ended::Unknown
        }
    }
}

/// Waits for a process that an earlier daemon started. One that is gone has ended.
pub(crate) async fn adopted(identity: Identity) -> Ended {
    let Some(pidfd) = identity.pidfd() else { return Ended::Unknown };
    // SAFETY: an `OwnedFd` gives the same descriptor each time, and keeps it open for as long as it
    // is registered.
    let watched = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    let watched = match watched {
        Ok(watched) => watched,
        Err(error) => {
            tracing::warn!(%error, "a process cannot be watched by event and is looked at instead");
            return poll(&identity).await;
        }
    };
    // A pidfd is readable once its process has ended.
    match watched.readable().await {
        Ok(_) => Ended::Unknown,
        Err(error) => {
            tracing::warn!(%error, "a process cannot be watched by event and is looked at instead");
            poll(&identity).await
        }
    }
}

/// For when the kernel has no room for another watch.
async fn poll(identity: &Identity) -> Ended {
    while identity.alive() == State::Alive {
        tokio::time::sleep(std::time::Duration::from_millis(POLL_MS)).await;
    }
    Ended::Unknown
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use tokio::process::Command;
    use tokio::time::timeout;

    use super::*;

    const BOUND: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn rel31_a_childs_exit_status_is_told() {
        let spawn = |script| Command::new("sh").args(["-c", script]).spawn().unwrap();
        assert_eq!(timeout(BOUND, child(spawn("exit 7"))).await.unwrap(), Ended::Exited(7));
        assert_eq!(timeout(BOUND, child(spawn("kill -9 $$"))).await.unwrap(), Ended::Signalled(9));
    }

    #[tokio::test]
    async fn rel32_the_end_of_an_adopted_process_is_seen() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let identity = Identity::of(process.id().unwrap()).unwrap();
        let other = Identity { start_ticks: identity.start_ticks + 1, ..identity.clone() };
        assert_eq!(timeout(BOUND, adopted(other)).await.unwrap(), Ended::Unknown, "not that one");
        let end = tokio::spawn(adopted(identity));
        tokio::task::yield_now().await;
        assert!(!end.is_finished());
        drop(process.stdin.take());
        assert_eq!(timeout(BOUND, end).await.unwrap().unwrap(), Ended::Unknown);
        process.wait().await.unwrap();
    }
}
