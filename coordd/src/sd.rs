//! What passes between the daemon and the service manager that may have started it.
//!
//! Without a manager every call here does nothing. A manager that cannot be told is logged and
//! never stops the daemon.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sd_notify::NotifyState;

/// The name that the socket unit gives to our socket.
const SOCKET_NAME: &str = "coordd";

/// Most sockets of a unit that are looked at.
const SOCKETS_MAX: usize = 16;

/// Why a socket that was handed over cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ActivationError {
    #[error(
        "the socket that the service manager handed over is not a unix stream socket; set ListenStream= to a path"
    )]
    NotAUnixStream { source: std::io::Error },
    #[error(
        "the socket that the service manager handed over does not listen; set Accept=no in the socket unit"
    )]
    NotListening,
    #[error(
        "the service manager listens on {}, but coordctl looks for {}; make ListenStream= in the socket unit the same",
        handed.display(),
        expected.display()
    )]
    OtherPath { handed: PathBuf, expected: PathBuf },
}

/// Tells the manager that requests are served.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// A line for `systemctl status`.
pub(crate) fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// Tells the manager that all is well. Only after a check that it is (rel-63).
pub(crate) fn watchdog() {
    tell(&[NotifyState::Watchdog]);
}

/// Tells the manager that the end has begun.
pub(crate) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// How often [`watchdog`] is to be called: twice as often as the manager demands. None when it does
/// not.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|interval| interval / 2).filter(|it| !it.is_zero())
}

/// Takes the listening socket that a manager handed over, if one did. Call it once, before a thread
/// is started.
pub(crate) fn listen_fds(expected: &Path) -> Result<Option<UnixListener>, ActivationError> {
    // The names are not the concern of the crate that takes the descriptors.
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut sockets = listenfd::ListenFd::from_env();
    if sockets.len() == 0 {
        return Ok(None);
    }
    let listener = sockets
        .take_unix_listener(index_of(&names))
        .map_err(|source| ActivationError::NotAUnixStream { source })?;
    listener.map(|listener| checked(listener, expected)).transpose()
}

/// Which of the sockets is ours: the one with our name, else the first.
fn index_of(names: &str) -> usize {
    names.split(':').take(SOCKETS_MAX).position(|part| part == SOCKET_NAME).unwrap_or(0)
}

fn checked(listener: UnixListener, expected: &Path) -> Result<UnixListener, ActivationError> {
    let not_a_stream = |source| ActivationError::NotAUnixStream { source };
    let listens = rustix::net::sockopt::socket_acceptconn(listener.as_fd())
        .map_err(|error| not_a_stream(error.into()))?;
    if !listens {
        return Err(ActivationError::NotListening);
    }
    let address = listener.local_addr().map_err(not_a_stream)?;
    let handed = address.as_pathname().unwrap_or(Path::new("(no path)"));
    if handed != expected {
        return Err(ActivationError::OtherPath {
            handed: handed.into(),
            expected: expected.into(),
        });
    }
    Ok(listener)
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;

    use super::*;

    /// D-9. Runs twice: once as itself, and once in a process of its own that has a manager's
    /// environment.
    #[test]
    fn d9_the_manager_is_told_and_its_interval_is_halved() {
        const ROLE: &str = "COORDD_TEST_IS_NOTIFIER";
        if std::env::var_os(ROLE).is_some() {
            ready("serving");
            watchdog();
            status("busy");
            stopping("ending");
            assert_eq!(watchdog_interval(), Some(Duration::from_secs(5)));
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let name = std::thread::current().name().unwrap().to_owned();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name])
            .env(ROLE, "1")
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "10000000")
            .env_remove("WATCHDOG_PID")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut said = Vec::new();
        for _ in 0..4 {
            let mut buffer = [0; 200];
            let len = manager.recv(&mut buffer).unwrap();
            said.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
        }
        let expected = [
            "READY=1\nSTATUS=serving\n",
            "WATCHDOG=1\n",
            "STATUS=busy\n",
            "STOPPING=1\nSTATUS=ending\n",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn rel61_our_socket_is_found_by_name_and_without_names_it_is_the_first() {
        assert_eq!(index_of("http:coordd"), 1);
        assert_eq!(index_of("coordd"), 0);
        assert_eq!(index_of(""), 0);
        assert_eq!(index_of("unknown"), 0);
    }

    #[test]
    fn rel61_a_socket_is_taken_only_at_our_path_and_listening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let listener = checked(listener, &path).unwrap();
        let other = folder.path().join("other");
        let error = checked(listener, &other).unwrap_err();
        assert!(matches!(error, ActivationError::OtherPath { .. }));
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        let listener = UnixListener::from(std::os::fd::OwnedFd::from(one));
        assert!(matches!(checked(listener, &path), Err(ActivationError::NotListening)));
    }
}
