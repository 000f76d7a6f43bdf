//! The one way out of a box: a proxy for HTTP, for hosts that the user named.
//!
//! ```text
//! in the box    a program --CONNECT host:443, or GET http://host/--> a socket of the box's network
//! out here      accepted from that socket --allowed? --> connected, bytes copied both ways, TLS untouched
//!                                           \--else--> 403, and the host is told with the command's answer
//! ```
//!
//! It must not answer for a host that resolves into this machine or its network, unless the user named that very address.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coordd_sandbox::Hosts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Connections at once of one command; more wait.
const CONNECTIONS_MAX: usize = 64;
/// Longest head of a request.
const HEAD_LEN_MAX: usize = 16 * 1024;
/// How long a head may take to come.
const HEAD_WAIT: Duration = Duration::from_secs(20);
/// How long a host may take to answer.
const CONNECT_WAIT: Duration = Duration::from_secs(20);
/// Hosts that an answer names.
const ASKED_MAX: usize = 20;

/// Hosts that were asked for and not allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused(Arc<Mutex<BTreeSet<String>>>);

impl Refused {
    fn note(&self, host: &str) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() < ASKED_MAX {
            hosts.insert(super::super::cut(host, 100).to_owned());
        }
    }

    pub(crate) fn hosts(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Serves one command, until this is dropped. It ends by itself when the box does not hand over a socket.
pub(crate) async fn serve(from: UnixStream, hosts: Hosts, refused: Refused) {
    let listener = match receive(&from).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::debug!(%error, "a box has handed over no socket");
            return;
        }
    };
    let hosts = Rc::new(hosts);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut open = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        tokio::select! {
            Some(_) = open.join_next(), if !open.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                let (hosts, refused) = (Rc::clone(&hosts), refused.clone());
                open.spawn_local(async move {
                    let served = connection(stream, &hosts, &refused).await;
                    tracing::trace!(ok = served.is_ok(), "a connection of the proxy has ended");
                    drop(place);
                });
            }
        }
    }
}

/// The listening socket that the box has made in its own network.
async fn receive(from: &UnixStream) -> io::Result<TcpListener> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let received = from
        .async_io(tokio::io::Interest::READABLE, || {
            let mut byte = [0; 1];
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [io::IoSliceMut::new(&mut byte)];
            recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            let descriptors = control.drain().filter_map(|message| {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    Some(descriptors)
                } else {
                    None
                }
            });
            Ok(descriptors.flatten().next())
        })
        .await?;
    let socket: OwnedFd = received.ok_or(io::ErrorKind::UnexpectedEof)?;
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn connection(mut stream: TcpStream, hosts: &Hosts, refused: &Refused) -> io::Result<()> {
    let Ok(head) = timeout(HEAD_WAIT, read_head(&mut stream)).await else { return Ok(()) };
    let (head, rest) = head?;
    let Some(wanted) = Wanted::read(&head) else {
        return say(
            &mut stream,
            "400 Bad Request",
            "this proxy takes CONNECT and plain http:// requests",
        )
        .await;
    };
    if !hosts.allows(&wanted.host, wanted.port) {
        refused.note(&wanted.shown());
        let why = format!(
            "no network in the sandbox; host {} was asked for and is not allowed",
            wanted.shown()
        );
        return say(&mut stream, "403 Forbidden", &why).await;
    }
    let mut there = match reach(&wanted, hosts).await {
        Ok(there) => there,
        Err(error) => {
            let why = format!("host {} cannot be reached: {error}", wanted.shown());
            return say(&mut stream, "502 Bad Gateway", &why).await;
        }
    };
    match wanted.request {
        None => stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        Some(request) => there.write_all(request.as_bytes()).await?,
    }
    there.write_all(&rest).await?;
    copy_bidirectional(&mut stream, &mut there).await.map(drop)
}

/// The head of a request, and what has come behind it.
async fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let head = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
            return Ok((head, rest));
        }
        if bytes.len() > HEAD_LEN_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// What a program asks the proxy for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    host: String,
    port: u16,
    /// What the host is sent in place of the request's head; none for a tunnel.
    request: Option<String>,
}

impl Wanted {
    fn read(head: &str) -> Option<Self> {
        let (line, fields) = head.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        if method == "CONNECT" {
            let (host, port) = target.rsplit_once(':')?;
            return Some(Self { host: host.to_owned(), port: port.parse().ok()?, request: None });
        }
        let rest = target.strip_prefix("http://")?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (place, path) = rest.split_at(at);
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (place, 80),
        };
        if host.is_empty() || host.contains('@') {
            return None;
        }
        // One request for each connection: a second one could be for another host. The host is the one that was judged.
        let kept = fields.split("\r\n").filter(|field| {
            let name = field.split(':').next().unwrap_or_default().to_ascii_lowercase();
            !field.is_empty()
                && !matches!(
                    name.as_str(),
                    "host"
                        | "connection"
                        | "proxy-connection"
                        | "proxy-authorization"
                        | "keep-alive"
                )
        });
        let kept: Vec<&str> = kept.flat_map(|field| [field, "\r\n"]).collect();
        let kept = kept.concat();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let request = format!(
            "{method} {path} {version}\r\nHost: {place}\r\nConnection: close\r\n{kept}\r\n"
        );
        Some(Self { host: host.to_owned(), port, request: Some(request) })
    }

    fn shown(&self) -> String {
        let host: String = self.host.chars().filter(char::is_ascii_graphic).collect();
        if matches!(self.port, 80 | 443) { host } else { format!("{host}:{}", self.port) }
    }
}

async fn reach(wanted: &Wanted, hosts: &Hosts) -> io::Result<TcpStream> {
    let host = wanted.host.trim_start_matches('[').trim_end_matches(']');
    let connect = async {
        let found: Vec<SocketAddr> = lookup_host((host, wanted.port)).await?.collect();
        let named = hosts.names_address(host);
        let usable: Vec<_> = found.into_iter().filter(|it| named || is_public(it.ip())).collect();
        if usable.is_empty() {
            return Err(io::Error::other("its name leads into this machine or its network"));
        }
        TcpStream::connect(usable.as_slice()).await
    };
    timeout(CONNECT_WAIT, connect).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether an address is out in the world. A name that is allowed could be made to lead to what listens here.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => {
            let [first, second, ..] = it.octets();
            !(first == 0
                || it.is_private()
                || it.is_loopback()
                || it.is_link_local()
                || it.is_unspecified()
                || it.is_broadcast()
                || it.is_multicast()
                || (first == 100 && (64..128).contains(&second)))
        }
        IpAddr::V6(it) => match it.to_ipv4_mapped() {
            Some(it) => is_public(it.into()),
            None => {
                !(it.is_loopback()
                    || it.is_unspecified()
                    || it.is_multicast()
                    || it.is_unique_local()
                    || it.is_unicast_link_local()
                    // An address of the older kind in another dress, which a gateway would undress.
                    || it.segments().starts_with(&[0, 0, 0, 0, 0, 0])
                    || it.segments().starts_with(&[0x64, 0xff9b]))
            }
        },
    }
}

async fn say(stream: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("coordd: {why}\n");
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-13: what is sent on is for the host that was judged, and for it alone.
    #[test]
    fn w13_a_request_is_sent_on_as_it_was_judged() {
        let head = "GET http://a.org:81/x?y HTTP/1.1\r\nHost: b.org\r\nProxy-Authorization: k\r\nAccept: */*\r\n\r\n";
        let wanted = Wanted::read(head).unwrap();
        assert_eq!((wanted.host.as_str(), wanted.port), ("a.org", 81));
        let expected =
            "GET /x?y HTTP/1.1\r\nHost: a.org:81\r\nConnection: close\r\nAccept: */*\r\n\r\n";
        assert_eq!(wanted.request.as_deref(), Some(expected));
        let tunnel = Wanted::read("CONNECT a.org:443 HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(tunnel, Wanted { host: "a.org".into(), port: 443, request: None });
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "CONNECT a.org HTTP/1.1\r\n\r\n",
            "CONNECT a.org:x HTTP/1.1\r\n\r\n",
            "GET http://u@b.org/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://a.org/ x HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(Wanted::read(bad), None, "{bad:?}");
        }
    }

    /// W-13: an allowed name does not open what listens on this machine.
    #[test]
    fn w13_addresses_of_this_machine_and_its_network_are_not_public() {
        for inner in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "0.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!is_public(inner.parse().unwrap()), "{inner}");
        }
        for outer in ["1.1.1.1", "2606:4700::1111", "172.32.0.1"] {
            assert!(is_public(outer.parse().unwrap()), "{outer}");
        }
    }
}
