//! The socket of one session, for other programs: they connect, send lines, and finish. The message
//! is made durable, and then the connection is closed without a byte, which is the acknowledgement
//! (D-4, M-10).
//!
//! It must not close before that, and must not write: to its peers a byte is no answer. A
//! malformed, too long or too slow message costs only its own connection. A program that begins
//! with `{"hello":` speaks coordd's own protocol, and is served as on the daemon's socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coordd_core::id::{PeerId, SessionId};
use coordd_core::input::Says;
use coordd_core::message::Outside;
use proto::address::Place;
use rustix::fs::{AtFlags, Mode, fchmod, unlinkat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::claude::{self, Line};
use super::registry::Registry;
use crate::dir::{Dir, FileId, euid};
use crate::limits;
use crate::listener;
use crate::peer;
use crate::reactor::Arrival;

/// Connections that wait to be looked at: each other session looks whether we are there before it
/// lists us.
const BACKLOG: i32 = 512;
/// The most bytes of one connection: a message of the longest text, escaped, and its lines.
const SAID_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Lines that one connection may say.
const LINES_MAX: usize = 64;
/// From connecting until the message is on disk: senders wait for 5 s.
const TIME_MAX: Duration = Duration::from_millis(4_500);
/// How long a connection is kept open whose words were not taken: its sender must not take a close
/// for a yes.
const NOT_TAKEN: Duration = Duration::from_secs(7);

/// How a connection begins that speaks coordd's own protocol.
const GREETING: &[u8] = b"{\"hello\"";
/// Numbers of such connections, above all that the daemon's socket gives out.
const GREETED_FROM: u64 = 1 << 48;

/// What every inbox needs.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// For connections that speak coordd's own protocol.
    pub(super) own: peer::Routes,
    /// Places for them.
    pub(super) greeted: Arc<Semaphore>,
    /// How many there were.
    pub(super) count: Arc<AtomicU64>,
    pub(super) reactor: mpsc::Sender<Arrival>,
    pub(super) registry: Registry,
    /// Places for connections, over all inboxes.
    pub(super) places: Arc<Semaphore>,
}

/// Makes the socket, closed to others from its birth, and says which file it is. One that an earlier daemon left is replaced;
/// one that is served is not.
pub(super) fn made(dir: &Dir, name: &str) -> std::io::Result<(UnixListener, FileId)> {
    let path = dir.path().join(name);
    if path.symlink_metadata().is_ok() {
        if listener::is_served(&path) {
            return Err(std::io::Error::other(format!("{} is served already", path.display())));
        }
        unlinkat(dir, name, AtFlags::empty())?;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The mode of the file that `bind` makes.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(&path)?)?;
    listen(&socket, BACKLOG)?;
    let id = FileId::at(&path).ok_or(std::io::ErrorKind::NotFound)?;
    Ok((UnixListener::from_std(socket.into())?, id))
}

/// Accepts connections for a session (or, without one, for the user) until it is dropped.
pub(super) async fn serve(
    listener: UnixListener,
    session: Option<SessionId>,
    token: String,
    routes: Routes,
) {
    let token: Arc<str> = token.into();
    loop {
        let Ok(place) = Arc::clone(&routes.places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accepting a message failed; resting");
                tokio::time::sleep(limits::ACCEPT_REST).await;
                continue;
            }
        };
        let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == euid());
        if !is_own {
            tracing::warn!("a message from another user was not looked at");
            continue;
        }
        let (session, token, routes) = (session.clone(), Arc::clone(&token), routes.clone());
        tokio::task::spawn(async move {
            heard(stream, place, session, &token, routes).await;
        });
    }
}

async fn heard(
    stream: UnixStream,
    place: OwnedSemaphorePermit,
    session: Option<SessionId>,
    token: &str,
    routes: Routes,
) {
    let end = Instant::now() + TIME_MAX;
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let mut stream = BufReader::new(stream);
    if timeout_at(end, greets(&mut stream)).await == Ok(true) {
        drop(place);
        return greeted(stream, pid, routes).await;
    }
    let mut bytes = Vec::new();
    let mut limited = (&mut stream).take(SAID_BYTES_MAX as u64 + 1);
    let read = timeout_at(end, limited.read_to_end(&mut bytes)).await;
    if !matches!(read, Ok(Ok(_))) || bytes.len() > SAID_BYTES_MAX {
        // Closed with unread bytes if there are any: the sender takes that as a failure.
        return not_taken(stream, bytes.len() > SAID_BYTES_MAX).await;
    }
    // Junk is passed over, line by line.
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().take(LINES_MAX).filter_map(claude::read).collect();
    let knows_token = lines.contains(&Line::Auth(token.to_owned()));
    for line in lines {
        let Line::Said(mut from, says) = line else { continue };
        from.verified = knows_token || is_listed(&routes.registry, &from, pid).await;
        let told = tell(&routes, session.clone(), *from, says);
        if timeout_at(end, told).await != Ok(true) {
            return not_taken(stream, false).await;
        }
    }
}

/// Whether the process that speaks is the one that is listed with the address that it gives.
async fn is_listed(registry: &Registry, from: &Outside, pid: Option<i32>) -> bool {
    let Place::Socket(path) = &from.address else { return false };
    let path = PathBuf::from(path);
    let Some(pid) = pid.and_then(|pid| u32::try_from(pid).ok()) else { return false };
    let registry = registry.clone();
    let looked = tokio::task::spawn_blocking(move || is_there(&registry, &path, pid)).await;
    looked.unwrap_or(false)
}

fn is_there(registry: &Registry, path: &Path, pid: u32) -> bool {
    registry.entries().iter().any(|entry| entry.socket == path && entry.pid == Some(pid))
}

/// Whether it is on disk.
async fn tell(routes: &Routes, session: Option<SessionId>, from: Outside, says: Says) -> bool {
    let (done, taken) = oneshot::channel();
    let arrival = Arrival::Outside { session, from, says, done };
    routes.reactor.send(arrival).await.is_ok() && taken.await.unwrap_or(false)
}

/// Whether what comes first begins coordd's own protocol. Nothing is taken away.
async fn greets(stream: &mut BufReader<UnixStream>) -> bool {
    stream.fill_buf().await.is_ok_and(|it| it.starts_with(GREETING))
}

/// Serves a program that speaks coordd's own protocol.
async fn greeted(stream: BufReader<UnixStream>, pid: Option<i32>, routes: Routes) {
    // A program that finds no place here finds one on the daemon's socket.
    let Ok(_place) = routes.greeted.try_acquire() else { return };
    let peer = PeerId(GREETED_FROM + routes.count.fetch_add(1, Ordering::Relaxed));
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|it| *it > 0);
    let other = peer::Other { peer, pid };
    let (read, write) = tokio::io::split(stream);
    // Held to the end: nobody turns it out.
    let (_stay, turned_out) = oneshot::channel();
    peer::serve(other, read, write, routes.own, turned_out).await;
}

async fn not_taken(stream: BufReader<UnixStream>, at_once: bool) {
    if !at_once {
        tokio::time::sleep(NOT_TAKEN).await;
    }
    drop(stream);
}
