//! Ending one process and nothing else: a program of the user's that joined, whose children and
//! terminal session are not ours.

use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};
use tokio::time::timeout;

use super::identity::Identity;
use super::watch;

/// How long the program may take to exit after TERM, when an order on its connection was not
/// enough.
const TERM_MAX: Duration = Duration::from_millis(300);
/// How long the kernel may take after KILL.
const KILL_MAX: Duration = Duration::from_secs(2);

/// Asks, waits a moment, kills. Says whether the process is gone.
pub(crate) async fn end(identity: &Identity) -> bool {
    for (signal, time) in [(Signal::TERM, TERM_MAX), (Signal::KILL, KILL_MAX)] {
        // Looked up each time: a pid that belongs to another process by now gets no signal
        // (rel-32).
        let Some(pidfd) = identity.pidfd() else { return true };
        if let Err(error) = pidfd_send_signal(&pidfd, signal) {
            tracing::warn!(%error, "a program that joined cannot be signalled");
        }
        if timeout(time, watch::adopted(identity.clone())).await.is_ok() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt as _, BufReader};
    use tokio::process::Command;

    use super::*;

    async fn started(script: &str) -> (tokio::process::Child, Identity, String) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let identity = Identity::of(child.id().unwrap()).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        (child, identity, line.trim().to_owned())
    }

    /// L-4: what a user's program started goes on without it.
    #[tokio::test]
    async fn l4_a_joined_program_is_ended_alone() {
        let (mut child, identity, its_child) =
            started("sleep 600 >/dev/null & echo $!; exec sleep 600 >/dev/null").await;
        let ending = tokio::spawn(async move { end(&identity).await });
        assert_eq!(child.wait().await.unwrap().signal(), Some(15));
        assert!(ending.await.unwrap());
        let other = Identity::of(its_child.parse().unwrap()).expect("its child lives");
        assert!(end(&other).await);
    }

    #[tokio::test]
    async fn l4_one_that_does_not_listen_is_killed() {
        let (mut child, identity, _) =
            started("trap '' TERM; echo on; while :; do sleep 1; done").await;
        let ending = tokio::spawn(async move { end(&identity).await });
        assert_eq!(child.wait().await.unwrap().signal(), Some(9));
        assert!(ending.await.unwrap());
    }
}
