//! A socket with its codec: whom it belongs to, bytes out and in, each with a bound on the time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proto::codec::{Codec, Decoder};
use proto::error::{ErrorBody, ErrorCode};
use proto::event::{Event, Numbered};
use proto::frame::{self, PREAMBLE_LEN};
use proto::hello::{Age, Hello, PROTOCOL, PROTOCOL_MIN, Welcome, revision};
use proto::unknown::{Kind, Read};
use proto::{Call, FromDaemon, ToDaemon};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::error::ClientError;
use super::{ANSWER_LIMIT, READ_LEN};

/// A socket with its codec.
#[derive(Debug)]
pub(super) struct Wire {
    stream: UnixStream,
    path: PathBuf,
    decoder: Decoder,
    buf: Vec<u8>,
    version: String,
    age: Age,
}

/// What came of a connection in the binary codec.
pub(super) enum Opened {
    Binary(Wire, Welcome),
    /// coordd is of another revision, or does not speak the binary codec: it wants lines.
    Lines(Age),
}

/// What came, to this build.
enum Heard {
    Message(FromDaemon),
    /// A newer coordd's answer.
    UnknownReply {
        id: u64,
        reason: String,
    },
    /// Something that is not for this program, or may be missed.
    Nothing,
}

impl Wire {
    /// A connection in the binary codec, if the daemon is of this revision.
    pub(super) fn open_binary(path: &Path, call: &Call) -> Result<Opened, ClientError> {
        let mut wire = Self::connect(path, Codec::Frames)?;
        wire.greet(frame::preamble(revision()).to_vec(), call)?;
        let until = Instant::now().checked_add(ANSWER_LIMIT);
        let mut first = [0; PREAMBLE_LEN];
        let mut got = 0;
        while let Some(space) = first.get_mut(got..).filter(|space| !space.is_empty()) {
            match wire.read_into(space, until, ANSWER_LIMIT)? {
                // The daemon closed at once: it does not know the preamble, or it has no place for
                // us and reports that in JSON.
                0 => return Ok(Opened::Lines(Age::Same)),
                n => got += n,
            }
            if first.first() != Some(&0) {
                return Ok(Opened::Lines(Age::Same));
            }
        }
        match frame::read_preamble(&first).map(Age::of) {
            Some(Age::Same) => {
                let welcome = wire.welcome(until)?;
                Ok(Opened::Binary(wire, welcome))
            }
            other => Ok(Opened::Lines(other.unwrap_or(Age::Same))),
        }
    }

    /// A connection in JSON Lines, which programs of any revision understand.
    pub(super) fn open_lines(
        path: &Path,
        call: &Call,
        age: Age,
    ) -> Result<(Self, Welcome), ClientError> {
        let mut wire = Self::connect(path, Codec::Lines)?;
        wire.age = age;
        wire.greet(Vec::new(), call)?;
        let welcome = wire.welcome(Instant::now().checked_add(ANSWER_LIMIT))?;
        Ok((wire, welcome))
    }

    /// Connects, and verifies which user's process is at the other end.
    fn connect(path: &Path, codec: Codec) -> Result<Self, ClientError> {
        let own = coordd_common::processes::euid();
        let foreign = |what: String| ClientError::Foreign { path: path.to_owned(), what };
        let stat = match path.symlink_metadata() {
            Ok(stat) => stat,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => {
                return Err(ClientError::NoDaemon { path: path.to_owned() });
            }
            Err(source) => {
                return Err(ClientError::Io {
                    what: "cannot look at",
                    path: path.to_owned(),
                    source,
                });
            }
        };
        if !stat.file_type().is_socket() {
            return Err(foreign("is not a socket".to_owned()));
        }
        if stat.uid() != own {
            return Err(foreign(format!("belongs to user {}, not to you ({own})", stat.uid())));
        }
        let stream = connect_in_time(path)?;
        let io = |source: rustix::io::Errno| ClientError::Io {
            what: "cannot find out who listens at",
            path: path.to_owned(),
            source: source.into(),
        };
        let peer = socket_peercred(&stream).map_err(io)?.uid.as_raw();
        if peer != own {
            return Err(foreign(format!("is served by user {peer}, not by you ({own})")));
        }
        let buf = vec![0; READ_LEN];
        Ok(Self {
            stream,
            path: path.to_owned(),
            decoder: codec.decoder(),
            buf,
            version: "of an unknown version".to_owned(),
            age: Age::Same,
        })
    }

    /// Sends the hello and the first call in one write, after these bytes.
    fn greet(&mut self, mut bytes: Vec<u8>, call: &Call) -> Result<(), ClientError> {
        for message in [ToDaemon::Hello(hello()), ToDaemon::Call(call.clone())] {
            bytes.extend(self.encode(&message)?);
        }
        self.write(&bytes)
    }

    fn encode(&self, message: &ToDaemon) -> Result<Vec<u8>, ClientError> {
        self.decoder.codec().encode(message).map_err(|_| ClientError::TooLarge)
    }

    fn welcome(&mut self, until: Option<Instant>) -> Result<Welcome, ClientError> {
        match self.receive(until, ANSWER_LIMIT)? {
            FromDaemon::Welcome(welcome) => {
                self.version.clone_from(&welcome.version);
                let theirs = welcome.protocol;
                if (PROTOCOL_MIN..=PROTOCOL).contains(&theirs) {
                    Ok(welcome)
                } else {
                    Err(ClientError::Skew { theirs })
                }
            }
            FromDaemon::Closing(body) => Err(ClientError::Denied(body)),
            FromDaemon::Reply(_)
            | FromDaemon::Event(_)
            | FromDaemon::Order(_)
            | FromDaemon::Bridge(_) => Err(self.unreadable("no welcome".to_owned())),
        }
    }

    /// A way to write while another thread reads.
    pub(super) fn writer(&self) -> Result<(UnixStream, Codec), ClientError> {
        let cannot =
            |source| ClientError::Io { what: "cannot share", path: self.path.clone(), source };
        self.stream.try_clone().map(|stream| (stream, self.decoder.codec())).map_err(cannot)
    }

    pub(super) fn send(&mut self, message: &ToDaemon) -> Result<(), ClientError> {
        self.write(&self.encode(message)?)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        match self.stream.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(error) if is_timeout(&error) => {
                Err(ClientError::Silent { path: self.path.clone(), limit: ANSWER_LIMIT })
            }
            // The daemon may have written a reason before it closed; reading finds it.
            Err(error) if is_lost(&error) => Ok(()),
            Err(source) => {
                Err(ClientError::Io { what: "cannot write to", path: self.path.clone(), source })
            }
        }
    }

    /// The next message. `limit` is only for the error message when the time is over.
    pub(super) fn receive(
        &mut self,
        until: Option<Instant>,
        limit: Duration,
    ) -> Result<FromDaemon, ClientError> {
        self.receive_for(None, until, limit)
    }

    /// The same, for who waits for the answer to this call: one that is not understood is an error.
    pub(super) fn receive_for(
        &mut self,
        call: Option<u64>,
        until: Option<Instant>,
        limit: Duration,
    ) -> Result<FromDaemon, ClientError> {
        loop {
            match self.decoded()? {
                Some(Heard::Message(message)) => return Ok(message),
                Some(Heard::UnknownReply { id, reason }) if Some(id) == call => {
                    return Err(self.unreadable(reason));
                }
                Some(Heard::UnknownReply { .. } | Heard::Nothing) => continue,
                None => {}
            }
            let mut buf = std::mem::take(&mut self.buf);
            let got = self.read_into(&mut buf, until, limit);
            self.buf = buf;
            let bytes = match got? {
                0 => return Err(ClientError::Lost),
                n => self.buf.get(..n).unwrap_or_default(),
            };
            self.decoder.feed(bytes);
        }
    }

    /// The next whole message, or nothing until more arrives.
    fn decoded(&mut self) -> Result<Option<Heard>, ClientError> {
        let read = self.decoder.next_message();
        match read.map_err(|error| self.unreadable(error.to_string()))? {
            None => Ok(None),
            Some(Read::Message(message)) => Ok(Some(Heard::Message(message))),
            Some(Read::Unknown(unknown)) => Ok(Some(match unknown.kind {
                Kind::Reply { id } => Heard::UnknownReply { id, reason: unknown.reason },
                // What is left out of the numbered ones is said, as it is when somebody reads too
                // slowly.
                Kind::Event { seq, at_ms, session } if seq > 0 => {
                    let event = Event::Gap { missed: Some(1) };
                    let gap = Numbered { seq, at_ms, session, event };
                    Heard::Message(FromDaemon::Event(Box::new(gap)))
                }
                Kind::Event { .. }
                | Kind::Call { .. }
                | Kind::Report
                | Kind::Order
                | Kind::Bridge => Heard::Nothing,
            })),
        }
    }

    /// What coordd said makes no sense to this build.
    pub(super) fn unreadable(&self, reason: String) -> ClientError {
        ClientError::Unreadable { version: self.version.clone(), age: self.age, reason }
    }

    /// What coordd answers to a request that it does not know, since it is of another revision;
    /// nothing for other denials.
    pub(super) fn not_known(&self, denial: &ErrorBody) -> Option<ClientError> {
        if self.age == Age::Same || denial.code != ErrorCode::Malformed {
            return None;
        }
        Some(ClientError::NotKnown { version: self.version.clone(), age: self.age })
    }

    fn read_into(
        &mut self,
        buf: &mut [u8],
        until: Option<Instant>,
        limit: Duration,
    ) -> Result<usize, ClientError> {
        let silent = || ClientError::Silent { path: self.path.clone(), limit };
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(silent());
            }
            let io = |source| ClientError::Io {
                what: "cannot read from",
                path: self.path.clone(),
                source,
            };
            self.stream.set_read_timeout(left).map_err(io)?;
            match self.stream.read(buf) {
                Ok(n) => return Ok(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(silent()),
                Err(error) if is_lost(&error) => return Ok(0),
                Err(source) => return Err(io(source)),
            }
        }
    }
}

/// The process that listens at a socket, if one does; nothing is sent.
pub(crate) fn listener(path: &Path) -> Result<Option<u32>, ClientError> {
    match Wire::connect(path, Codec::Frames) {
        Ok(wire) => {
            let peer = socket_peercred(&wire.stream).ok();
            Ok(peer.map(|it| it.pid.as_raw_nonzero().get().unsigned_abs()))
        }
        Err(ClientError::NoDaemon { .. }) => Ok(None),
        // With a full backlog only the path can be told, not the process.
        Err(error) => Err(error),
    }
}

fn hello() -> Hello {
    let program = concat!("coordctl ", env!("CARGO_PKG_VERSION")).to_owned();
    Hello { protocol: PROTOCOL, program, agent: None }
}

/// A stuck daemon with a full backlog must not hold us for ever; the send time-out bounds `connect`
/// too.
fn connect_in_time(path: &Path) -> Result<UnixStream, ClientError> {
    let failed = |source: rustix::io::Errno| match source {
        rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT => {
            ClientError::NoDaemon { path: path.to_owned() }
        }
        rustix::io::Errno::AGAIN => {
            ClientError::Silent { path: path.to_owned(), limit: ANSWER_LIMIT }
        }
        other => ClientError::Io {
            what: "cannot connect to",
            path: path.to_owned(),
            source: other.into(),
        },
    };
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(failed)?;
    set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_LIMIT)).map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(failed)?;
    Ok(UnixStream::from(socket))
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn is_lost(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
    )
}
