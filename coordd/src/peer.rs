//! One connection: bytes to messages and back, with the bounds that keep a slow or hostile peer its
//! own problem.
//!
//! ```text
//!   first byte 0x00 ─▶ preamble ─▶ frames ─┐
//!                                          ├─▶ hello (within 5 s) ─▶ calls and reports ─▶ end
//!   anything else ─────────────▶ lines ────┘
//! ```
//!
//! A reader and a writer share nothing but the count of open calls. A message must be whole within
//! 30 s of its first byte; a malformed one gets one error and ends the connection. Nothing here
//! decides who may do what.

mod codec;
mod looked_up;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use codec::Decoded;
use coordd_core::id::{AgentId, PeerId};
use coordd_core::input::Credentials;
pub(crate) use looked_up::LookedUp;
use proto::codec::{Codec, Decoder};
use proto::error::{ErrorBody, ErrorCode};
use proto::hello::{Hello, revision};
use proto::{FromDaemon, ToDaemon, frame};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{hub::Hub, limits, reactor::Arrival};

/// What goes out to a peer.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    /// For this peer alone.
    Own(Box<FromDaemon>),
    /// For several, encoded by each.
    Shared(Arc<FromDaemon>),
}

/// A handle with which the reactor and the hub reach a connection. Cheap to clone; no method
/// blocks.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    outbox: mpsc::Sender<Out>,
    closing: Arc<Closing>,
    agent: Arc<OnceLock<String>>,
}

#[derive(Debug, Default)]
struct Closing {
    now: Notify,
    why: OnceLock<ErrorBody>,
}

impl Handle {
    /// A handle with its receiving end.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Out>) {
        let (outbox, out) = mpsc::channel(limits::OUTBOX_LEN_MAX);
        (Self { outbox, closing: Arc::default(), agent: Arc::default() }, out)
    }

    /// Queues a message. Says no when the peer does not read.
    pub(crate) fn tell(&self, message: FromDaemon) -> bool {
        !matches!(
            self.outbox.try_send(Out::Own(Box::new(message))),
            Err(mpsc::error::TrySendError::Full(_))
        )
    }

    /// Queues a message that other connections get too. False when the peer does not read.
    pub(crate) fn share(&self, message: &Arc<FromDaemon>) -> bool {
        !matches!(
            self.outbox.try_send(Out::Shared(Arc::clone(message))),
            Err(mpsc::error::TrySendError::Full(_))
        )
    }

    /// Queues a message that may be dropped, unless too many wait already.
    pub(crate) fn share_below(&self, message: &Arc<FromDaemon>, waiting_max: usize) {
        let waiting = self.outbox.max_capacity().saturating_sub(self.outbox.capacity());
        if waiting < waiting_max {
            self.share(message);
        }
    }

    /// Queues the answer to a call. A peer that does not read its answers is closed: one that is
    /// lost in silence would be waited for.
    pub(crate) fn reply(&self, id: u64, outcome: proto::Outcome) {
        if !self.tell(FromDaemon::Reply(proto::Reply { id, outcome })) {
            self.close(Some(too_slow()));
        }
    }

    /// Waits for room, then queues. For tasks that send a lot to one peer. False when the peer is
    /// gone.
    pub(crate) async fn send(&self, message: FromDaemon) -> bool {
        self.outbox.send(Out::Own(Box::new(message))).await.is_ok()
    }

    /// Ends the connection after telling why.
    pub(crate) fn close(&self, why: Option<ErrorBody>) {
        if let Some(why) = why {
            self.closing.why.get_or_init(|| why);
        }
        self.closing.now.notify_one();
    }

    /// Remembers whose reports these are.
    pub(crate) fn speaks_for(&self, agent: Option<&AgentId>) {
        if let Some(agent) = agent {
            self.agent.get_or_init(|| agent.to_string());
        }
    }
}

/// Why a peer that does not read is closed.
pub(crate) fn too_slow() -> ErrorBody {
    let waiting = limits::OUTBOX_LEN_MAX;
    ErrorBody::new(
        ErrorCode::Limit,
        format!("{waiting} messages wait to be read on this connection"),
    )
    .hint("read while you ask, or subscribe on a connection of its own")
}

/// Where a connection's messages go.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub(crate) reactor: mpsc::Sender<Arrival>,
    pub(crate) hub: Hub,
    /// Where scratchpads are, unless a client says otherwise.
    pub(crate) tmp: Arc<PathBuf>,
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    pub(crate) peer: PeerId,
    /// The peer's process when it connected, if the kernel tells.
    pub(crate) pid: Option<u32>,
}

/// Serves one connection to its end. `turned_out` resolves when another connection needs its place,
/// and is dropped once the peer has said hello.
pub(crate) async fn serve<R, W>(
    other: Other,
    mut from: R,
    mut to: W,
    routes: Routes,
    turned_out: oneshot::Receiver<()>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let peer = other.peer;
    let deadline = Instant::now() + limits::HELLO_TIME_MAX;
    let begun = tokio::select! {
        biased;
        begun = timeout_at(deadline, begin(&mut from, &mut to)) => begun,
        _ = turned_out => {
            let error = ErrorBody::new(ErrorCode::Limit, "too many connections have not said hello; say it at once");
            return refuse(to, Codec::Lines, Some(error)).await;
        }
    };
    let (mut decoder, codec, hello) = match begun {
        Ok(Ok(begun)) => begun,
        Ok(Err(Failed { codec, error })) => return refuse(to, codec, error).await,
        Err(_) => {
            let error = ErrorBody::new(ErrorCode::NoHello, "no hello came within 5 seconds");
            return refuse(to, Codec::Lines, Some(error)).await;
        }
    };
    let (handle, out) = Handle::new();
    let credentials = hello.agent.map(|agent| Credentials {
        agent: AgentId(agent.agent),
        incarnation: agent.incarnation,
        token: agent.token,
    });
    tracing::debug!(%peer, codec = codec.name(), program = %hello.program.chars().take(64).collect::<String>().escape_debug(), "hello");
    let opened = match looked_up::lineage(other.pid.filter(|_| credentials.is_none())).await {
        Ok(lineage) => Arrival::Opened { peer, handle: handle.clone(), credentials, lineage },
        Err(error) => return refuse(to, codec, Some(error)).await,
    };
    if routes.reactor.send(opened).await.is_err() {
        return;
    }
    let calls = Semaphore::new(limits::CALLS_OPEN_MAX);
    let mut writing = std::pin::pin!(write(to, codec, out, &calls));
    let ended = tokio::select! {
        ended = read(other, &mut from, &mut decoder, &routes, &handle, &calls) => ended,
        to = &mut writing => {
            let _gone = routes.reactor.send(Arrival::Closed { peer }).await;
            return refuse(to, codec, None).await;
        }
        () = handle.closing.now.notified() => handle.closing.why.get().cloned(),
    };
    drop(handle);
    let _gone = routes.reactor.send(Arrival::Closed { peer }).await;
    // The reactor and the hub drop the peer now; what they had queued for it is still written.
    if let Ok(to) = timeout(limits::LAST_WORDS_TIME_MAX, writing).await {
        refuse(to, codec, ended).await;
    }
}

/// Why a connection did not come about.
struct Failed {
    codec: Codec,
    error: Option<ErrorBody>,
}

/// Finds out the codec and reads the hello.
async fn begin<R, W>(from: &mut R, to: &mut W) -> Result<(Decoder, Codec, Hello), Failed>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let quiet = |_| Failed { codec: Codec::Lines, error: None };
    let first = from.read_u8().await.map_err(quiet)?;
    let codec = if first == 0 { Codec::Frames } else { Codec::Lines };
    let mut decoder = codec.decoder();
    if codec == Codec::Frames {
        let mut preamble = [0; frame::PREAMBLE_LEN];
        if let Some(rest) = preamble.get_mut(1..) {
            from.read_exact(rest).await.map_err(quiet)?;
        }
        let Some(theirs) = frame::read_preamble(&preamble) else {
            let error =
                ErrorBody::new(ErrorCode::Malformed, "this is neither a preamble nor a JSON line");
            return Err(Failed { codec: Codec::Lines, error: Some(error) });
        };
        to.write_all(&frame::preamble(revision())).await.map_err(quiet)?;
        if theirs != revision() {
            // The peer reads our revision and comes back with JSON Lines.
            return Err(Failed { codec, error: None });
        }
    } else {
        decoder.feed(&[first]);
    }
    let mut chunk = vec![0; limits::READ_LEN];
    let message = next(from, &mut decoder, &mut chunk)
        .await
        .map_err(|error| Failed { codec, error: Some(error) })?;
    let Some(message) = message else { return Err(Failed { codec, error: None }) };
    let hello = match message {
        Decoded::Message(message) => {
            if let ToDaemon::Hello(hello) = *message {
                Some(hello)
            } else {
                None
            }
        }
        Decoded::BadCall { .. } | Decoded::Passed => None,
    };
    let Some(hello) = hello else {
        let error = ErrorBody::new(ErrorCode::NoHello, "the first message must be a hello")
            .hint("send {\"hello\":{\"protocol\":1}} first");
        return Err(Failed { codec, error: Some(error) });
    };
    match proto::hello::check_protocol(hello.protocol) {
        Ok(()) => Ok((decoder, codec, hello)),
        Err(why) => Err(Failed { codec, error: Some(ErrorBody::new(ErrorCode::Version, why)) }),
    }
}

/// The next message, or nothing at the end of the stream. No bound on how long it takes to begin.
async fn next<R: AsyncRead + Unpin>(
    from: &mut R,
    decoder: &mut Decoder,
    chunk: &mut [u8],
) -> Result<Option<Decoded>, ErrorBody> {
    let mut deadline = None;
    loop {
        if let Some(message) = codec::next(decoder)? {
            return Ok(Some(message));
        }
        if decoder.is_inside() && deadline.is_none() {
            deadline = Some(Instant::now() + limits::MESSAGE_TIME_MAX);
        }
        let reading = from.read(chunk);
        let read = match deadline {
            None => reading.await,
            Some(at) => timeout_at(at, reading).await.map_err(|_| {
                ErrorBody::new(
                    ErrorCode::Malformed,
                    "a message was not complete within 30 seconds of its first byte",
                )
            })?,
        };
        match read {
            Ok(0) | Err(_) => return Ok(None),
            Ok(len) => decoder.feed(chunk.get(..len).unwrap_or_default()),
        }
    }
}

/// Reads until the peer ends or breaks a rule, which is returned.
async fn read<R: AsyncRead + Unpin>(
    other: Other,
    from: &mut R,
    decoder: &mut Decoder,
    routes: &Routes,
    handle: &Handle,
    calls: &Semaphore,
) -> Option<ErrorBody> {
    let Other { peer, pid } = other;
    let mut chunk = vec![0; limits::READ_LEN];
    loop {
        let message = match next(from, decoder, &mut chunk).await {
            Ok(Some(Decoded::Message(message))) => *message,
            Ok(Some(Decoded::BadCall { id, error })) => {
                calls.acquire().await.ok()?.forget();
                routes.reactor.send(Arrival::Refused { peer, call: id, error }).await.ok()?;
                continue;
            }
            Ok(Some(Decoded::Passed)) => {
                tracing::debug!(%peer, "a report that this build does not know is passed over");
                continue;
            }
            Ok(None) => return drained(calls).await,
            Err(error) => return Some(error),
        };
        match message {
            ToDaemon::Hello(_) => {
                return Some(ErrorBody::new(
                    ErrorCode::Malformed,
                    "hello was already sent on this connection",
                ));
            }
            ToDaemon::Call(call) => {
                // Given back by the writer, with the answer.
                calls.acquire().await.ok()?.forget();
                let looked_up = match LookedUp::of(&call.request, pid, routes).await {
                    Ok(looked_up) => looked_up,
                    Err(error) => {
                        let refused = Arrival::Refused { peer, call: call.id, error };
                        routes.reactor.send(refused).await.ok()?;
                        continue;
                    }
                };
                let call = Arrival::Call { peer, call: Box::new(call), looked_up };
                routes.reactor.send(call).await.ok()?;
            }
            ToDaemon::Report(report) => {
                let Some(agent) = handle.agent.get() else {
                    return Some(ErrorBody::new(ErrorCode::Forbidden, "only agents report"));
                };
                routes.hub.report(agent, report);
            }
        }
    }
}

/// A peer that has closed its sending side still gets the answers to what it asked, for a while.
async fn drained(calls: &Semaphore) -> Option<ErrorBody> {
    let all = u32::try_from(limits::CALLS_OPEN_MAX).unwrap_or(u32::MAX);
    let _answered = timeout(limits::ANSWERS_TIME_MAX, calls.acquire_many(all)).await;
    None
}

/// Writes until all handles are dropped or the peer does not read. Returns the stream.
async fn write<W: AsyncWrite + Unpin>(
    mut to: W,
    codec: Codec,
    mut out: mpsc::Receiver<Out>,
    calls: &Semaphore,
) -> W {
    while let Some(message) = out.recv().await {
        let message = match &message {
            Out::Own(message) => message.as_ref(),
            Out::Shared(message) => message.as_ref(),
        };
        let bytes = codec::encode(codec, message);
        let written = timeout(limits::WRITE_TIME_MAX, to.write_all(&bytes)).await;
        if matches!(message, FromDaemon::Reply(_)) {
            calls.add_permits(1);
        }
        if !matches!(written, Ok(Ok(()))) {
            break;
        }
    }
    to
}

/// Tells a peer why, if there is something to tell, and ends.
async fn refuse<W: AsyncWrite + Unpin>(mut to: W, codec: Codec, error: Option<ErrorBody>) {
    if let Some(error) = error {
        // Without the parser's message, which would quote the input.
        tracing::info!(code = ?error.code, "a connection is ended");
        let bytes = codec::encode(codec, &FromDaemon::Closing(error));
        let _written = timeout(limits::WRITE_TIME_MAX, to.write_all(&bytes)).await;
    }
    let _ended = to.shutdown().await;
}

#[cfg(test)]
mod tests;
