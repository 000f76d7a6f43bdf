//! A socket with its codec: whom it belongs to, bytes out and in, each with a bound on the time.

use super::error::ClientError;
use super::{ANSWER_LIMIT, READ_LEN};
use proto::frame::{self, FrameDecoder, PREAMBLE_LEN};
use proto::hello::{Hello, PROTOCOL, PROTOCOL_MIN, REVISION, Welcome};
use proto::line::{self, LineDecoder};
use proto::{Call, FromDaemon, ToDaemon};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A socket with its codec.
#[derive(Debug)]
pub(super) struct Wire {
    stream: UnixStream,
    path: PathBuf,
    decoder: Decoder,
    buf: Vec<u8>,
    version: String,
}

#[derive(Debug)]
enum Decoder {
    Frames(FrameDecoder),
    Lines(LineDecoder),
}

impl Wire {
    /// A connection in the binary codec, or nothing if the daemon is of another revision.
    pub(super) fn open_binary(
        path: &Path,
        call: &Call,
    ) -> Result<Option<(Self, Welcome)>, ClientError> {
        let mut wire = Self::connect(path, Decoder::Frames(FrameDecoder::default()))?;
        let mut bytes = frame::preamble(REVISION).to_vec();
        for message in [ToDaemon::Hello(hello()), ToDaemon::Call(call.clone())] {
            bytes.extend(frame::encode(&message).map_err(|_| ClientError::TooLarge)?);
        }
        wire.write(&bytes)?;
        let until = Instant::now().checked_add(ANSWER_LIMIT);
        let mut first = [0; PREAMBLE_LEN];
        let mut got = 0;
        while let Some(space) = first.get_mut(got..).filter(|space| !space.is_empty()) {
            match wire.read_into(space, until, ANSWER_LIMIT)? {
                // The daemon closed at once: it does not know the preamble, or it has no place for
                // us and reports that in JSON.
                0 => return Ok(None),
                n => got += n,
            }
            if first.first() != Some(&0) {
                return Ok(None);
            }
        }
        if frame::read_preamble(&first) != Some(REVISION) {
            return Ok(None);
        }
        let welcome = wire.welcome(until)?;
        Ok(Some((wire, welcome)))
    }

    /// A connection in JSON Lines, which programs of any revision understand.
    pub(super) fn open_lines(path: &Path, call: &Call) -> Result<(Self, Welcome), ClientError> {
        let mut wire = Self::connect(path, Decoder::Lines(LineDecoder::default()))?;
        let mut bytes = Vec::new();
        for message in [ToDaemon::Hello(hello()), ToDaemon::Call(call.clone())] {
            bytes.extend(line::encode(&message).map_err(|_| ClientError::TooLarge)?);
        }
        wire.write(&bytes)?;
        let welcome = wire.welcome(Instant::now().checked_add(ANSWER_LIMIT))?;
        Ok((wire, welcome))
    }

    /// Connects, and verifies which user's process is at the other end.
    fn connect(path: &Path, decoder: Decoder) -> Result<Self, ClientError> {
        let own = rustix::process::geteuid().as_raw();
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
            decoder,
            buf,
            version: "of an unknown version".to_owned(),
        })
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
    pub(super) fn writer(&self) -> Result<(UnixStream, bool), ClientError> {
        let cannot =
            |source| ClientError::Io { what: "cannot share", path: self.path.clone(), source };
        let is_binary = matches!(self.decoder, Decoder::Frames(_));
        self.stream.try_clone().map(|it| (it, is_binary)).map_err(cannot)
    }

    pub(super) fn send(&mut self, message: &ToDaemon) -> Result<(), ClientError> {
        let bytes = match self.decoder {
            Decoder::Frames(_) => frame::encode(message).map_err(|_| ClientError::TooLarge)?,
            Decoder::Lines(_) => line::encode(message).map_err(|_| ClientError::TooLarge)?,
        };
        self.write(&bytes)
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
        loop {
            if let Some(message) = self.decoded()? {
                return Ok(message);
            }
            let mut buf = std::mem::take(&mut self.buf);
            let got = self.read_into(&mut buf, until, limit);
            self.buf = buf;
            let bytes = match got? {
                0 => return Err(ClientError::Lost),
                n => self.buf.get(..n).unwrap_or_default(),
            };
            match &mut self.decoder {
                Decoder::Frames(decoder) => decoder.feed(bytes),
                Decoder::Lines(decoder) => decoder.feed(bytes),
            }
        }
    }

    fn decoded(&mut self) -> Result<Option<FromDaemon>, ClientError> {
        let message = match &mut self.decoder {
            Decoder::Frames(decoder) => match decoder.next_frame() {
                Ok(None) => return Ok(None),
                Ok(Some(body)) => frame::decode(&body).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
            Decoder::Lines(decoder) => match decoder.next_line() {
                Ok(None) => return Ok(None),
                Ok(Some(text)) => line::decode(&text).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
        };
        message.map(Some).map_err(|reason| self.unreadable(reason))
    }

    fn unreadable(&self, reason: String) -> ClientError {
        ClientError::Unreadable { version: self.version.clone(), reason }
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
pub(crate) fn listener(path: &Path) -> Result<Option<i32>, ClientError> {
    match Wire::connect(path, Decoder::Frames(FrameDecoder::default())) {
        Ok(wire) => {
            let peer = socket_peercred(&wire.stream).ok();
            Ok(peer.map(|peer| peer.pid.as_raw_nonzero().get()))
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
