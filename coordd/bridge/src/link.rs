//! The connection to coordd: hello, then orders in, calls out. JSON Lines, which programs of any
//! build understand.
//!
//! Nothing is kept when a connection is lost: coordd hands over open rows again, and the engine
//! brings its own again. So the engine's calls are dropped while there is no connection, and it
//! never waits for an absent coordd.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use proto::bridge::{self as wire, Order};
use proto::error::ErrorCode;
use proto::hello::{Credentials, Hello, PROTOCOL};
use proto::line::{self, LineDecoder};
use proto::request::Request;
use proto::response::Response;
use proto::unknown::{self, Read, Unknown};
use proto::{Call, FromDaemon, Outcome, ToDaemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::home::{Decision, FromHome, ToHome};
use crate::keys::Fingerprint;
use crate::outbox::Fate;

/// How long coordd may take to say hello.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// Between attempts to connect.
const AGAIN: Duration = Duration::from_millis(200);
const READ_LEN: usize = 64 * 1024;
/// Rows that were brought and are undecided. The engine brings one at a time; more is a bug.
const OPEN_MAX: usize = 16;

/// Why there will be no connection any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("coordd no longer knows this bridge")]
    Refused,
}

enum Ended {
    Lost(String),
    Refused,
    EngineGone,
}

/// Who is called, and who calls.
pub(crate) struct Link {
    pub(crate) socket: PathBuf,
    pub(crate) credentials: Credentials,
    pub(crate) to_engine: mpsc::Sender<FromHome>,
    pub(crate) from_engine: mpsc::Receiver<ToHome>,
}

impl Link {
    /// Connects again and again, until coordd refuses or the engine is gone.
    pub(crate) async fn run(mut self) -> Result<(), LinkError> {
        loop {
            let meeting = timeout(HELLO_MAX, connect(&self.socket, &self.credentials));
            let Some(met) = unheard(&mut self.from_engine, meeting).await else { return Ok(()) };
            let is_met = matches!(met, Ok(Ok(_)));
            let ended = match met {
                Ok(Ok((stream, decoder))) => self.carry(stream, decoder).await,
                Ok(Err(ended)) => ended,
                Err(_) => Ended::Lost("coordd does not answer".to_owned()),
            };
            match ended {
                Ended::Refused => return Err(LinkError::Refused),
                Ended::EngineGone => return Ok(()),
                Ended::Lost(why) => tracing::info!(why, "coordd is away"),
            }
            if is_met {
                // Once for each loss: there may be many attempts before the next meeting.
                let away = self.to_engine.send(FromHome::Away);
                match unheard(&mut self.from_engine, away).await {
                    Some(Ok(())) => {}
                    Some(Err(_)) | None => return Ok(()),
                }
            }
            if unheard(&mut self.from_engine, sleep(AGAIN)).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Reading and writing go on side by side: neither waits for the other.
    async fn carry(&mut self, stream: UnixStream, mut decoder: LineDecoder) -> Ended {
        let (mut reader, mut writer) = stream.into_split();
        let (asked, mut to_ask) = mpsc::channel::<(u64, u64)>(OPEN_MAX);
        let to_engine = &self.to_engine;
        let reading = async {
            let mut open = BTreeMap::new();
            let mut chunk = vec![0; READ_LEN];
            loop {
                loop {
                    let message = match next(&mut decoder) {
                        Ok(Some(message)) => message,
                        Ok(None) => break,
                        Err(why) => return Ended::Lost(why),
                    };
                    while let Ok((call, ticket)) = to_ask.try_recv() {
                        open.insert(call, ticket);
                    }
                    let said = match taken(message, &mut open) {
                        Ok(said) => said,
                        Err(ended) => return ended,
                    };
                    if let Some(said) = said
                        && to_engine.send(said).await.is_err()
                    {
                        return Ended::EngineGone;
                    }
                }
                match reader.read(&mut chunk).await {
                    Ok(0) => return Ended::Lost("coordd closed the connection".to_owned()),
                    Ok(len) => decoder.feed(chunk.get(..len).unwrap_or_default()),
                    Err(error) => return Ended::Lost(error.to_string()),
                }
            }
        };
        let from_engine = &mut self.from_engine;
        let writing = async {
            let mut last = 0;
            loop {
                let Some(next) = from_engine.recv().await else { return Ended::EngineGone };
                last += 1;
                let ticket = match &next {
                    ToHome::Bring { ticket, .. } => Some(*ticket),
                    ToHome::Told { .. } | ToHome::Report(_) => None,
                };
                let call = ToDaemon::Call(Call { id: last, key: None, request: request(next) });
                let bytes = match line::encode(&call) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        tracing::warn!(%error, "a call that coordd would not read is left out");
                        if let Some(ended) = ticket.and_then(|it| too_long(it, to_engine)) {
                            return ended;
                        }
                        continue;
                    }
                };
                if let Some(ticket) = ticket
                    && asked.send((last, ticket)).await.is_err()
                {
                    return Ended::EngineGone;
                }
                if let Err(error) = writer.write_all(&bytes).await {
                    return Ended::Lost(error.to_string());
                }
            }
        };
        tokio::select! {
            ended = reading => ended,
            ended = writing => ended,
        }
    }
}

/// Runs `work` without a connection and drops the engine's calls meanwhile: coordd is told again on
/// the next connection. None when the engine is gone.
async fn unheard<T>(
    from_engine: &mut mpsc::Receiver<ToHome>,
    what: impl Future<Output = T>,
) -> Option<T> {
    let mut what = pin!(what);
    loop {
        tokio::select! {
            done = &mut what => return Some(done),
            said = from_engine.recv() => drop(said?),
        }
    }
}

async fn connect(
    socket: &Path,
    credentials: &Credentials,
) -> Result<(UnixStream, LineDecoder), Ended> {
    let lost = |error: &dyn std::fmt::Display| Ended::Lost(error.to_string());
    let mut stream = UnixStream::connect(socket).await.map_err(|error| lost(&error))?;
    let owner = stream.peer_cred().map_err(|error| lost(&error))?.uid();
    if owner != coordd_common::processes::euid() {
        return Err(Ended::Lost("the socket is served by another user".to_owned()));
    }
    let hello = ToDaemon::Hello(Hello {
        protocol: PROTOCOL,
        program: concat!("coordd-bridge ", env!("CARGO_PKG_VERSION")).to_owned(),
        agent: Some(credentials.clone()),
    });
    let bytes = line::encode(&hello).map_err(|error| lost(&error))?;
    stream.write_all(&bytes).await.map_err(|error| lost(&error))?;
    let mut decoder = LineDecoder::default();
    let mut chunk = vec![0; READ_LEN];
    loop {
        match next(&mut decoder).map_err(Ended::Lost)? {
            Some(FromDaemon::Welcome(_)) => return Ok((stream, decoder)),
            Some(FromDaemon::Closing(body)) if body.code == ErrorCode::BadCredentials => {
                return Err(Ended::Refused);
            }
            Some(_) => return Err(Ended::Lost("coordd did not answer the hello".to_owned())),
            None => {}
        }
        match stream.read(&mut chunk).await {
            Ok(0) => return Err(Ended::Lost("coordd closed the connection".to_owned())),
            Ok(len) => decoder.feed(chunk.get(..len).unwrap_or_default()),
            Err(error) => return Err(lost(&error)),
        }
    }
}

fn next(decoder: &mut LineDecoder) -> Result<Option<FromDaemon>, String> {
    while let Some(line) = decoder.next_line().map_err(|error| error.to_string())? {
        match unknown::read(&line).map_err(|error| error.to_string())? {
            Read::Message(message) => return Ok(Some(message)),
            // The bridge's program was replaced by an older one while coordd runs.
            Read::Unknown(Unknown { kind, reason }) => {
                tracing::warn!(?kind, reason, "a message of a newer coordd is skipped");
            }
        }
    }
    Ok(None)
}

/// A row that is too large for a call is refused for good. Does not wait, since the engine may be
/// waiting for this side.
fn too_long(ticket: u64, to_engine: &mpsc::Sender<FromHome>) -> Option<Ended> {
    let decision = Decision::Refused("it is longer than what coordd takes".to_owned());
    let said = to_engine.try_send(FromHome::Decided { ticket, decision });
    said.is_err().then(|| Ended::Lost("the engine has no room for a decision".to_owned()))
}

/// The message as an order for the engine, if it is one.
fn taken(message: FromDaemon, open: &mut BTreeMap<u64, u64>) -> Result<Option<FromHome>, Ended> {
    match message {
        FromDaemon::Bridge(order) => Ok(ordered(order)),
        FromDaemon::Reply(reply) => {
            let ticket = open.remove(&reply.id);
            match reply.outcome {
                Outcome::Ok(response) => Ok(ticket
                    .map(|ticket| FromHome::Decided { ticket, decision: decision(*response) })),
                Outcome::Error(body) => {
                    tracing::warn!(code = ?body.code, message = body.message, "coordd refuses a call");
                    let decision = Decision::Later;
                    Ok(ticket.map(|ticket| FromHome::Decided { ticket, decision }))
                }
            }
        }
        FromDaemon::Closing(body) if body.code == ErrorCode::BadCredentials => Err(Ended::Refused),
        FromDaemon::Closing(body) => Err(Ended::Lost(body.message)),
        FromDaemon::Welcome(_) | FromDaemon::Event(_) | FromDaemon::Order(_) => Ok(None),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of all responses one is a decision")]
fn decision(response: Response) -> Decision {
    match response {
        Response::Brought { decision: wire::Decision::Taken, .. } => Decision::Taken,
        Response::Brought { decision: wire::Decision::Refused, reason } => {
            Decision::Refused(reason)
        }
        _ => Decision::Later,
    }
}

fn ordered(order: Order) -> Option<FromHome> {
    match order {
        Order::Begin { epoch } => Some(FromHome::Met { epoch }),
        Order::Carry { id, peer, expires_ms, row } => {
            let to = Fingerprint::parse(&peer)?;
            Some(FromHome::Row { to, id, expires_ms, row })
        }
        Order::Announce { sessions } => {
            let sessions = sessions
                .into_iter()
                .filter_map(|(peer, sessions)| Some((Fingerprint::parse(&peer)?, sessions)));
            Some(FromHome::Announce { sessions: sessions.collect() })
        }
    }
}

fn request(it: ToHome) -> Request {
    match it {
        ToHome::Told { id, fate } => {
            let (fate, reason) = match fate {
                Fate::Taken => (wire::Fate::Taken, String::new()),
                Fate::Refused(reason) => (wire::Fate::Refused, reason),
                Fate::Expired => (wire::Fate::Expired, String::new()),
            };
            Request::BridgeTold { id, fate, reason }
        }
        ToHome::Bring { ticket: _, from, peer, row } => {
            Request::BridgeBring { peer: from.to_string(), name: peer, row }
        }
        ToHome::Report(it) => Request::BridgeReport { report: report::fitted(it) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(socket: PathBuf) -> (Link, mpsc::Sender<ToHome>, mpsc::Receiver<FromHome>) {
        let (to_engine, from_home) = mpsc::channel(1);
        let (to_home, from_engine) = mpsc::channel(1);
        let credentials = Credentials {
            agent: proto::bridge::AGENT.to_owned(),
            incarnation: 1,
            token: "t".into(),
            pid: 1,
        };
        (Link { socket, credentials, to_engine, from_engine }, to_home, from_home)
    }

    fn told(id: u64) -> ToHome {
        ToHome::Told { id, fate: Fate::Taken }
    }

    #[tokio::test]
    async fn rel72_an_engine_does_not_wait_for_a_coordd_that_is_away_and_hears_of_each_loss_once() {
        let base = tempfile::tempdir().unwrap();
        let socket = base.path().join("socket");
        let (link, to_home, mut from_home) = link(socket.clone());
        let all = async {
            // Far more than there is room for, over more than one attempt, and nobody reads what
            // the link says.
            for id in 0..100 {
                to_home.send(told(id)).await.unwrap();
            }
            sleep(AGAIN * 3).await;
            to_home.send(told(100)).await.unwrap();
            assert!(from_home.try_recv().is_err(), "nothing was lost, and it was said");
            let listener = tokio::net::UnixListener::bind(&socket).unwrap();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut chunk = vec![0; READ_LEN];
                assert!(stream.read(&mut chunk).await.unwrap() > 0, "no hello");
                let welcome = FromDaemon::Welcome(proto::hello::Welcome {
                    protocol: PROTOCOL,
                    version: String::new(),
                    pid: 1,
                    boot: String::new(),
                });
                stream.write_all(&line::encode(&welcome).unwrap()).await.unwrap();
                // What is said before the link has read the welcome is dropped.
                let telling = async {
                    loop {
                        to_home.send(told(1)).await.unwrap();
                    }
                };
                tokio::select! {
                    read = stream.read(&mut chunk) => assert!(read.unwrap() > 0, "no call"),
                    () = telling => {}
                }
                drop(stream);
                for id in 0..100 {
                    to_home.send(told(id)).await.unwrap();
                }
                assert!(matches!(from_home.recv().await, Some(FromHome::Away)));
                assert!(from_home.try_recv().is_err(), "said twice");
            }
        };
        tokio::select! {
            ended = link.run() => panic!("{ended:?}"),
            done = timeout(Duration::from_secs(30), all) => done.unwrap(),
        }
    }

    #[tokio::test]
    async fn m7_a_row_that_no_call_can_carry_is_refused_and_the_connection_stays() {
        let base = tempfile::tempdir().unwrap();
        let socket = base.path().join("socket");
        let (mut link, to_home, mut from_home) = link(socket);
        let (here, mut there) = UnixStream::pair().unwrap();
        let row = wire::Row {
            to: "s1".into(),
            from: "s2".into(),
            name: String::new(),
            bypasses: false,
            message: "m".into(),
            says: wire::Says::Words { text: "x".repeat(2 << 20), summary: String::new() },
        };
        let from = Fingerprint::parse("aaaaaaaaaaaaaaaa").unwrap();
        let all = async {
            to_home.send(ToHome::Bring { ticket: 7, from, peer: "p".into(), row }).await.unwrap();
            let said = from_home.recv().await.unwrap();
            let decision = Decision::Refused("it is longer than what coordd takes".into());
            assert!(
                matches!(&said, FromHome::Decided { ticket: 7, decision: it } if *it == decision),
                "{said:?}"
            );
            to_home.send(told(1)).await.unwrap();
            let mut chunk = vec![0; READ_LEN];
            assert!(there.read(&mut chunk).await.unwrap() > 0, "no call");
        };
        tokio::select! {
            _ = link.carry(here, LineDecoder::default()) => panic!("the connection ended"),
            done = timeout(Duration::from_secs(30), all) => done.unwrap(),
        }
    }
}
