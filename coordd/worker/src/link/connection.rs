//! One connection to coordd, from the first byte to its loss.
//!
//! ```text
//!   connect --preamble--> same revision: frames --hello--> welcome --> carry calls, reports, orders --> lost
//!                    \--> another: connect again, lines ---^   \--> bad credentials: refused for good
//! ```

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use proto::codec::{Codec, Decoder};
use proto::error::{ErrorBody, ErrorCode};
use proto::frame::{self, PREAMBLE_LEN};
use proto::hello::{Hello, PROTOCOL, revision};
use proto::unknown::{Kind, Read, Unknown};
use proto::{FromDaemon, Outcome, Reply, ToDaemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::Shared;

/// How long coordd may take to answer a preamble and a hello. It answers at once unless it hangs.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Bytes that may wait to be written before more is taken. One message may exceed it.
const OUT_LEN_MAX: usize = 256 * 1024;
/// The same for reports, so that there is always room for calls.
const REPORTS_OUT_LEN_MAX: usize = 64 * 1024;
/// Bytes read at a time.
const READ_LEN: usize = 8 * 1024;

/// How a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It is tried again.
    Lost { reason: String, welcomed: bool },
    /// It is of no use to try again.
    Refused { reason: String },
}

impl Ended {
    fn early(reason: impl Into<String>) -> Self {
        Self::Lost { reason: reason.into(), welcomed: false }
    }
}

/// Connects and carries what is to be carried, until the connection is lost.
pub(super) async fn serve(shared: &Shared) -> Ended {
    match timeout(HANDSHAKE_MAX, handshake(shared)).await {
        Ok(Ok((stream, decoder))) => {
            shared.meet();
            carry(shared, stream, decoder).await
        }
        Ok(Err(ended)) => ended,
        Err(_) => Ended::early("coordd does not answer"),
    }
}

async fn handshake(shared: &Shared) -> Result<(UnixStream, Decoder), Ended> {
    let mut stream = connect(shared).await?;
    let codec = if exchange_preambles(&mut stream).await == Some(revision()) {
        Codec::Frames
    } else {
        stream = connect(shared).await?;
        Codec::Lines
    };
    let hello = ToDaemon::Hello(Hello {
        protocol: PROTOCOL,
        program: concat!("coordd-worker ", env!("CARGO_PKG_VERSION")).to_owned(),
        agent: shared.config.credentials.clone(),
    });
    let bytes = codec.encode(&hello).map_err(|error| Ended::early(error.to_string()))?;
    stream.write_all(&bytes).await.map_err(|error| Ended::early(error.to_string()))?;
    let (mut decoder, mut buf) = (codec.decoder(), vec![0; READ_LEN]);
    loop {
        match decoder.next_message() {
            Ok(Some(Read::Message(FromDaemon::Welcome(_)))) => return Ok((stream, decoder)),
            Ok(Some(Read::Message(FromDaemon::Closing(body)))) => {
                return Err(closing(&body, false));
            }
            Ok(Some(
                Read::Message(
                    FromDaemon::Reply(_)
                    | FromDaemon::Event(_)
                    | FromDaemon::Order(_)
                    | FromDaemon::Bridge(_),
                )
                | Read::Unknown(_),
            )) => {
                return Err(Ended::early("coordd did not answer the hello"));
            }
            Ok(None) => {}
            Err(error) => return Err(Ended::early(error.to_string())),
        }
        match stream.read(&mut buf).await {
            Ok(0) => return Err(Ended::early("coordd closed the connection")),
            Ok(len) => decoder.feed(buf.get(..len).unwrap_or_default()),
            Err(error) => return Err(Ended::early(error.to_string())),
        }
    }
}

/// Connects, and verifies that the listener is this user's before a secret is sent.
async fn connect(shared: &Shared) -> Result<UnixStream, Ended> {
    let stream = UnixStream::connect(&shared.config.socket)
        .await
        .map_err(|error| Ended::early(format!("cannot connect: {error}")))?;
    let owner = stream.peer_cred().map_err(|error| Ended::early(error.to_string()))?.uid();
    if owner != coordd_common::processes::euid() {
        return Err(Ended::early("the socket is served by another user"));
    }
    Ok(stream)
}

/// The daemon's revision, or nothing when it does not speak frames.
async fn exchange_preambles(stream: &mut UnixStream) -> Option<u32> {
    stream.write_all(&frame::preamble(revision())).await.ok()?;
    let mut theirs = [0; PREAMBLE_LEN];
    stream.read_exact(&mut theirs).await.ok()?;
    frame::read_preamble(&theirs)
}

async fn carry(shared: &Shared, mut stream: UnixStream, mut decoder: Decoder) -> Ended {
    let lost = |reason: String| Ended::Lost { reason, welcomed: true };
    let (mut reader, mut writer) = stream.split();
    let (mut read, mut out) = (vec![0; READ_LEN], BytesMut::new());
    loop {
        // What came with the welcome is here before anything is read.
        if let Some(ended) = take_in(shared, &mut decoder) {
            return ended;
        }
        fill(shared, decoder.codec(), &mut out);
        let delta_due = shared.reports.borrow().delta_due();
        tokio::select! {
            got = reader.read(&mut read) => match got {
                Ok(0) => return lost("coordd closed the connection".to_owned()),
                Ok(len) => decoder.feed(read.get(..len).unwrap_or_default()),
                Err(error) => return lost(error.to_string()),
            },
            wrote = writer.write(&out), if !out.is_empty() => match wrote {
                Ok(len) => {
                    out.advance(len);
                    if out.is_empty() {
                        out = BytesMut::new();
                    }
                }
                Err(error) => return lost(error.to_string()),
            },
            () = shared.wake.notified() => {}
            () = sleep_until(delta_due.unwrap_or_else(Instant::now)),
                if delta_due.is_some() && out.len() < REPORTS_OUT_LEN_MAX => {}
        }
    }
}

/// Takes in every whole message that has arrived.
fn take_in(shared: &Shared, decoder: &mut Decoder) -> Option<Ended> {
    loop {
        let message = match decoder.next_message() {
            Ok(Some(Read::Message(message))) => message,
            Ok(Some(Read::Unknown(unknown))) => {
                pass_over(shared, unknown);
                continue;
            }
            Ok(None) => return None,
            Err(error) => {
                return Some(Ended::Lost { reason: error.to_string(), welcomed: true });
            }
        };
        match message {
            FromDaemon::Reply(reply) => shared.answer(reply),
            FromDaemon::Order(order) => {
                if !shared.orders.push(order) {
                    let reason = "more mail than there is room for".to_owned();
                    return Some(Ended::Lost { reason, welcomed: true });
                }
            }
            FromDaemon::Closing(body) => return Some(closing(&body, true)),
            FromDaemon::Welcome(_) | FromDaemon::Event(_) | FromDaemon::Bridge(_) => {}
        }
    }
}

/// Handles a message of a newer coordd that this build does not understand. The connection is kept:
/// the next one would bring the same message.
fn pass_over(shared: &Shared, unknown: Unknown) {
    let Unknown { kind, reason } = unknown;
    if let Kind::Reply { id } = kind {
        tracing::warn!(reason, "the answer of a newer coordd is not understood");
        let body = ErrorBody::new(
            ErrorCode::Version,
            "coordd is newer than this agent's program, which does not understand its answer",
        )
        .hint("`coordctl stop` and `coordctl resume` of the session start the agent's new program");
        shared.answer(Reply { id, outcome: Outcome::Error(body) });
    } else {
        tracing::warn!(?kind, reason, "a message of a newer coordd is not understood and skipped");
    }
}

/// Fills the send buffer. A report stays before a later call, unless the daemon is slow: then calls
/// go first.
fn fill(shared: &Shared, codec: Codec, out: &mut BytesMut) {
    while out.len() < REPORTS_OUT_LEN_MAX {
        let Some(report) = shared.reports.borrow_mut().next(Instant::now()) else { break };
        match codec.encode(&ToDaemon::Report(report)) {
            Ok(bytes) => out.extend_from_slice(&bytes),
            // It is in the transcript.
            Err(error) => tracing::debug!(%error, "a report was left out"),
        }
    }
    while out.len() < OUT_LEN_MAX {
        let Some(call) = shared.next_unsent() else { break };
        let id = call.id;
        match codec.encode(&ToDaemon::Call(call)) {
            Ok(bytes) => out.extend_from_slice(&bytes),
            Err(error) => shared.refuse(id, format!("the request cannot be sent: {error}")),
        }
    }
}

fn closing(body: &ErrorBody, welcomed: bool) -> Ended {
    let reason = super::denial_text(body);
    if body.code == ErrorCode::BadCredentials {
        Ended::Refused { reason }
    } else {
        Ended::Lost { reason, welcomed }
    }
}
