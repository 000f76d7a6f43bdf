//! The HTTP server of the rehearsal model: loopback only, a key of its own, bounded in all it
//! takes.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame as BodyFrame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::super::secret::Secret;
use super::Rehearsal;
use super::respond::Reply;
use super::sse::{Frame, frames};

/// The agent has one connection, seldom two.
const CONNECTIONS_MAX: usize = 16;
/// A whole conversation. The providers' own bound is half of it.
const REQUEST_LEN_MAX: usize = 64 * 1024 * 1024;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    key: Secret,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Listens on a free port of the loopback. Needs a runtime.
    pub(crate) fn start(rehearsal: Arc<Rehearsal>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        // The port is open to every user of the machine; the script is not for them.
        let key = format!("{:032x}", u128::from_ne_bytes(random));
        let service = Service { rehearsal, key: Secret::new(key.clone()) };
        let accepting = tokio::spawn(accept(listener, Arc::new(service)));
        Ok(Self { address, key: Secret::new(key), accepting })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What to send as `x-api-key`.
    pub(crate) fn key(&self) -> String {
        self.key.reveal().to_owned()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.accepting.is_finished()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The connections are tasks of this one's set and end with it.
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, service: Arc<Service>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&service)));
                }
                // Out of file descriptors, or the peer has gone already.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the rehearsal model");
                    sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: tokio::net::TcpStream, service: Arc<Service>) {
    let answer = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = connection.await {
        // The agent left in the middle of an answer: it was stopped.
        tracing::debug!(%error, "a connection to the rehearsal model ended early");
    }
}

struct Service {
    rehearsal: Arc<Rehearsal>,
    key: Secret,
}

impl Service {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let key = request.headers().get("x-api-key").map(HeaderValue::as_bytes);
        if key != Some(self.key.reveal().as_bytes()) {
            return error(401, "not the key of this rehearsal model", None);
        }
        if request.method() != Method::POST || request.uri().path() != "/v1/messages" {
            return error(404, "only POST /v1/messages is served", None);
        }
        let Ok(body) = Limited::new(request.into_body(), REQUEST_LEN_MAX).collect().await else {
            return error(413, "the request broke off or is larger than 64 MiB", None);
        };
        match self.rehearsal.reply(&body.to_bytes()) {
            Reply::Error { status, message, retry_after_s } => {
                error(status, &message, retry_after_s)
            }
            Reply::Message(message) => stream_of(frames(&message, self.rehearsal.pace_ms())),
        }
    }
}

fn stream_of(frames: Vec<Frame>) -> Response<Body> {
    let events = stream::unfold(frames.into_iter(), |mut frames| async {
        let frame = frames.next()?;
        if frame.delay_ms > 0 {
            sleep(Duration::from_millis(frame.delay_ms)).await;
        }
        Some((Ok(BodyFrame::data(Bytes::from(frame.text))), frames))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn error(status: u16, message: &str, retry_after_s: Option<u64>) -> Response<Body> {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    let mut response = Response::new(Full::from(body.to_string()).boxed_unsync());
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
