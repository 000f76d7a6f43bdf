//! The connection to coordd: hello, then orders in, calls out. JSON Lines, which programs of any build understand.
//!
//! Nothing is kept over the loss of a connection: coordd hands over again what is open, and what was brought is brought
//! again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use proto::bridge::{self as wire, Order};
use proto::error::ErrorCode;
use proto::hello::{Credentials, Hello, PROTOCOL};
use proto::line::{self, LineDecoder};
use proto::request::Request;
use proto::response::Response;
use proto::{Call, FromDaemon, Outcome, ToDaemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::body::{self, Says};
use crate::home::{Decision, FromHome, Report, ToHome};
use crate::keys::Fingerprint;
use crate::outbox::Fate;

/// How long coordd may take to say hello.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// Between attempts to connect.
const AGAIN: Duration = Duration::from_millis(200);
const READ_LEN: usize = 64 * 1024;
/// Rows brought and not decided. The engine brings one at a time; more is a fault.
const OPEN_MAX: usize = 16;

/// Why there will be no connection any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("coordd knows this bridge no more")]
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
            let ended = match timeout(HELLO_MAX, self.connect()).await {
                Ok(Ok((stream, decoder))) => self.carry(stream, decoder).await,
                Ok(Err(ended)) => ended,
                Err(_) => Ended::Lost("coordd does not answer".to_owned()),
            };
            match ended {
                Ended::Refused => return Err(LinkError::Refused),
                Ended::EngineGone => return Ok(()),
                Ended::Lost(why) => tracing::info!(why, "coordd is away"),
            }
            if self.to_engine.send(FromHome::Away).await.is_err() {
                return Ok(());
            }
            sleep(AGAIN).await;
        }
    }

    async fn connect(&self) -> Result<(UnixStream, LineDecoder), Ended> {
        let lost = |error: &dyn std::fmt::Display| Ended::Lost(error.to_string());
        let mut stream = UnixStream::connect(&self.socket).await.map_err(|it| lost(&it))?;
        let owner = stream.peer_cred().map_err(|it| lost(&it))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Ended::Lost("the socket is served by another user".to_owned()));
        }
        let hello = ToDaemon::Hello(Hello {
            protocol: PROTOCOL,
            program: concat!("coordd-bridge ", env!("CARGO_PKG_VERSION")).to_owned(),
            agent: Some(self.credentials.clone()),
        });
        let bytes = line::encode(&hello).map_err(|it| lost(&it))?;
        stream.write_all(&bytes).await.map_err(|it| lost(&it))?;
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
                if let ToHome::Bring { ticket, .. } = &next
                    && asked.send((last, *ticket)).await.is_err()
                {
                    return Ended::EngineGone;
                }
                let call = ToDaemon::Call(Call { id: last, key: None, request: request(next) });
                let written = match line::encode(&call) {
                    Ok(bytes) => writer.write_all(&bytes).await.map_err(|it| it.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                if let Err(why) = written {
                    return Ended::Lost(why);
                }
            }
        };
        tokio::select! {
            ended = reading => ended,
            ended = writing => ended,
        }
    }
}

fn next(decoder: &mut LineDecoder) -> Result<Option<FromDaemon>, String> {
    let line = decoder.next_line().map_err(|it| it.to_string())?;
    line.map(|it| line::decode(&it)).transpose().map_err(|it| it.to_string())
}

/// What a message says to the engine, if it says something.
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
            Some(FromHome::Row { to, id, expires_ms, row: Box::new(outward(*row)) })
        }
        Order::Announce { sessions } => {
            let told = |it: wire::RemoteView| body::Told {
                session: it.session,
                name: it.name,
                cwd: it.cwd,
                state: it.state,
                hosts: it.hosts,
            };
            let sessions = sessions.into_iter().filter_map(|(peer, sessions)| {
                Some((Fingerprint::parse(&peer)?, sessions.into_iter().map(told).collect()))
            });
            Some(FromHome::Announce { sessions: sessions.collect() })
        }
    }
}

fn outward(row: wire::Row) -> body::Row {
    let wire::Row { to, from, name, bypasses, message, says } = row;
    let says = match says {
        wire::Says::Words { text, summary } => Says::Words { text, summary },
        wire::Says::Status { of, verdict, reason } => {
            let verdict = match verdict {
                wire::Verdict::Held => body::Fate::Held,
                wire::Verdict::Consumed => body::Fate::Consumed,
                wire::Verdict::Expired => body::Fate::Expired,
                wire::Verdict::Refused => body::Fate::Refused,
            };
            Says::Status { of, verdict, reason }
        }
        wire::Says::Work { agent, name, description, phase, runtime, is_task, text, summary } => {
            Says::Work { agent, name, description, phase, runtime, is_task, text, summary }
        }
        wire::Says::Stop { agent, by } => Says::Stop { agent, by },
        wire::Says::Ended { agent, outcome } => Says::Ended { agent, outcome },
    };
    body::Row { to, from, name, bypasses, message, says }
}

fn inward(row: body::Row) -> wire::Row {
    let body::Row { to, from, name, bypasses, message, says } = row;
    let says = match says {
        Says::Words { text, summary } => wire::Says::Words { text, summary },
        Says::Status { of, verdict, reason } => {
            let verdict = match verdict {
                body::Fate::Held => wire::Verdict::Held,
                body::Fate::Consumed => wire::Verdict::Consumed,
                body::Fate::Expired => wire::Verdict::Expired,
                body::Fate::Refused => wire::Verdict::Refused,
            };
            wire::Says::Status { of, verdict, reason }
        }
        Says::Work { agent, name, description, phase, runtime, is_task, text, summary } => {
            wire::Says::Work { agent, name, description, phase, runtime, is_task, text, summary }
        }
        Says::Stop { agent, by } => wire::Says::Stop { agent, by },
        Says::Ended { agent, outcome } => wire::Says::Ended { agent, outcome },
    };
    wire::Row { to, from, name, bypasses, message, says }
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
            Request::BridgeBring { peer: from.to_string(), name: peer, row: inward(row) }
        }
        ToHome::Report(report) => Request::BridgeReport { report: view(report) },
    }
}

fn letter(it: crate::refused::Letter) -> wire::LetterView {
    let crate::refused::Letter { at_ms, from, message, reason } = it;
    wire::LetterView { is_ours: false, at_ms, address: from, message, reason }
}

fn view(it: Report) -> wire::BridgeView {
    let peers = it.peers.into_iter().map(|it| wire::BridgePeerView {
        fingerprint: it.fingerprint,
        name: it.name,
        machine: it.machine,
        heard_ms: it.heard_ms,
        rows: it.rows,
        sessions: it
            .sessions
            .into_iter()
            .map(|it| wire::RemoteView {
                session: it.session,
                name: it.name,
                cwd: it.cwd,
                state: it.state,
                hosts: it.hosts,
            })
            .collect(),
    });
    wire::BridgeView {
        on: true,
        running: true,
        own: it.own,
        server: it.server,
        connected: it.connected,
        trouble: it.trouble,
        replicas: it.replicas,
        rows: it.rows,
        peers: peers.collect(),
        refused: it.refused,
        letters: it.letters.into_iter().map(letter).collect(),
    }
}
