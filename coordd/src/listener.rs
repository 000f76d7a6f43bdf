//! The socket: who may connect, and how many.
//!
//! The kernel's word on a peer's user is checked before a byte is read (D-2). Under systemd the
//! socket is the manager's, and is never unlinked here. Otherwise a stale one is replaced while the
//! instance lock is held, and a live one never (rel-22, rel-23).

use std::collections::VecDeque;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use coordd_core::id::PeerId;
use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::StreamCommon as _;
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName as _};
use interprocess::os::unix::local_socket::ListenerOptionsExt as _;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::dir::FileId;
use crate::limits;
use crate::peer::{self, Other, Routes};

/// Makes the socket, and says which file it is. The caller holds the instance lock.
pub(crate) fn bind(path: &Path) -> anyhow::Result<(Listener, FileId)> {
    if path.symlink_metadata().is_ok() {
        // With the lock in hand nobody else serves here, unless the lock file was deleted under a running daemon.
        if is_served(path) {
            anyhow::bail!(
                "{} is served by another process; end it, or set COORDD_SOCKET to another path",
                path.display()
            );
        }
        std::fs::remove_file(path)
            .with_context(|| format!("removing the stale socket {}", path.display()))?;
    }
    let name = path
        .to_fs_name::<GenericFilePath>()
        .with_context(|| format!("using {} as a socket", path.display()))?;
    // Who ends takes it away only where it is still the one that was made here: `ground/socket.rs`.
    let options = ListenerOptions::new().name(name).mode(0o600).reclaim_name(false);
    let listener =
        options.create_tokio().with_context(|| format!("listening on {}", path.display()))?;
    let id = FileId::at(path).with_context(|| format!("{} is gone again", path.display()))?;
    Ok((listener, id))
}

/// Whether somebody listens there. It waits for nobody: a full queue is an answer, too.
pub(crate) fn is_served(path: &Path) -> bool {
    let tried = SocketAddrUnix::new(path).and_then(|address| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    });
    matches!(tried, Ok(()) | Err(Errno::AGAIN))
}

/// Takes over the socket that the manager made.
pub(crate) fn adopt(listener: UnixListener) -> anyhow::Result<Listener> {
    listener.set_nonblocking(true).context("preparing the manager's socket")?;
    let fd = std::os::fd::OwnedFd::from(listener);
    let listener = interprocess::os::unix::uds_local_socket::tokio::Listener::try_from(fd);
    listener
        .map(Listener::from)
        .map_err(|_| anyhow::anyhow!("the manager's socket is no unix stream listener"))
}

/// Accepts until it is told to end. Then its peers get what is queued for them, as far as they take it in time. A listener
/// that comes later takes the place of the one before.
pub(crate) async fn serve(
    listener: Listener,
    anew: mpsc::Receiver<Listener>,
    routes: Routes,
    end: oneshot::Receiver<()>,
) {
    let mut peers = JoinSet::new();
    tokio::select! {
        () = accept(listener, anew, routes, &mut peers) => {}
        // Told, or nobody is left who could tell.
        _ = end => {}
    }
    let rest = async { while peers.join_next().await.is_some() {} };
    let _all_ended = tokio::time::timeout(limits::ENDING_TIME_MAX, rest).await;
}

async fn accept(
    mut listener: Listener,
    mut anew: mpsc::Receiver<Listener>,
    routes: Routes,
    peers: &mut JoinSet<()>,
) {
    // Those who had found it before it was gone are served, too.
    let mut before = None;
    let mut strangers = Strangers::default();
    let places = Arc::new(Semaphore::new(limits::PEERS_MAX));
    let own = coordd_common::processes::euid();
    let mut count = 0;
    loop {
        while peers.try_join_next().is_some() {}
        // Taken before accepting, so that a client without a place waits in the kernel's queue, at
        // no cost.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            accepted = accept_before(before.as_ref()) => accepted,
            Some(next) = anew.recv() => {
                before = Some(std::mem::replace(&mut listener, next));
                continue;
            }
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // EMFILE and its like: the queue would report the same at once, for ever.
                tracing::warn!(%error, "accepting failed; resting");
                tokio::time::sleep(limits::ACCEPT_REST).await;
                continue;
            }
        };
        let creds = stream.peer_creds().ok();
        if creds.as_ref().is_none_or(|peer| peer.euid() != Some(own)) {
            tracing::warn!("a connection from another user was closed");
            continue;
        }
        count += 1;
        // One outside of our pid namespace has none.
        let pid = creds.and_then(|peer| peer.pid()).and_then(|it| u32::try_from(it).ok());
        let other = Other { peer: PeerId(count), pid: pid.filter(|it| *it > 0) };
        let routes = routes.clone();
        let turned_out = strangers.admit();
        peers.spawn(async move {
            peer::serve(other, &stream, &stream, routes, turned_out).await;
            drop(place);
        });
        if strangers.are_many() {
            // A connection that has just said hello is handled before the next one is accepted.
            tokio::task::yield_now().await;
        }
    }
}

async fn accept_before(listener: Option<&Listener>) -> std::io::Result<Stream> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Connections that have not said hello, the oldest first. A new one beyond the bound takes the place of the oldest: a crowd
/// that says nothing must not keep out those who do (rel-81).
#[derive(Default)]
struct Strangers {
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl Strangers {
    /// The signal that tells a connection to make room. The connection drops it after its hello.
    fn admit(&mut self) -> oneshot::Receiver<()> {
        if self.are_many() {
            self.waiting.retain(|it| !it.is_closed());
        }
        if self.are_many()
            && let Some(oldest) = self.waiting.pop_front()
        {
            // It may have said hello, or gone, at this very moment.
            let _told = oldest.send(());
        }
        let (turn_out, turned_out) = oneshot::channel();
        self.waiting.push_back(turn_out);
        turned_out
    }

    fn are_many(&self) -> bool {
        self.waiting.len() >= limits::STRANGERS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel81_the_oldest_stranger_makes_room_and_nobody_else() {
        let mut strangers = Strangers::default();
        let mut all: Vec<_> = (0..limits::STRANGERS_MAX).map(|_| strangers.admit()).collect();
        assert!(all.iter_mut().all(|it| it.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
        // The second has said hello.
        all[1].close();
        let mut next = strangers.admit();
        assert!(all[0].try_recv().is_err() && next.try_recv().is_err(), "there was room");
        let mut last = strangers.admit();
        assert_eq!(all[0].try_recv(), Ok(()), "the oldest");
        assert!(all[2].try_recv().is_err() && last.try_recv().is_err());
    }
}
