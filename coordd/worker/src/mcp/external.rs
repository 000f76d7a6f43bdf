//! `coordd-worker --mcp`: makes the program that started it an agent of a session, and serves that
//! agent's tools to it by MCP on stdin and stdout. `coordctl mcp` has found or made the session and
//! becomes this process.
//!
//! ```text
//!   connect as the user --join--> credentials --connect as the agent--> serve --client leaves, or a stop--> end
//! ```
//!
//! The daemon knows the agent by this process. It may go and come back meanwhile: calls are
//! repeated until they are answered.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use proto::agent::{Mode, Role};
use proto::error::ErrorCode;
use proto::hello::Credentials;
use proto::request::Request;
use proto::response::Response;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::mailbox::{self, Mailbox};
use super::requests::Requests;
use super::{Answer, Backend, Call, ServeError};
use crate::definition;
use crate::link::{CallError, Link, LinkConfig};
use crate::model::ToolSpec;

const COORDINATOR: &str = include_str!("../../prompts/mcp-coordinator.md");
const PEER: &str = include_str!("../../prompts/mcp-peer.md");

/// How long the daemon may take to answer the first time. `coordctl` has just spoken to it.
const JOIN_MAX: Duration = Duration::from_secs(15);
/// How long the place of a client that has just exited may still be taken.
const TAKEN_MAX: Duration = Duration::from_secs(3);
/// Between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// What a worker's launch says where outcomes come by themselves is not enough here.
const HOW_TO_WAIT: &str = "\nCall WaitForMessages to get it.";

/// Why there is no agent, or no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExternalError {
    #[error(
        "usage: coordd-worker --mcp --socket SOCKET --session SESSION --as coordinator|peer [--name NAME]; `coordctl mcp` runs it"
    )]
    Usage,
    #[error("cannot join the session")]
    Join {
        #[source]
        source: CallError,
    },
    #[error("coordd does not answer at {}: run `coordctl doctor`", socket.display())]
    Silent { socket: PathBuf },
    #[error(
        "coordd answered with something else than was asked for: it is of another version; run `coordctl daemon restart`"
    )]
    Unexpected,
    #[error("cannot make keys for calls")]
    Random {
        #[source]
        source: getrandom::Error,
    },
    #[error("cannot start")]
    Start {
        #[source]
        source: std::io::Error,
    },
    #[error("the client cannot be served")]
    Serve {
        #[source]
        source: ServeError,
    },
    #[error("coordd ended this client's connection: {reason}. Restart the client to join again")]
    Gone { reason: String },
}

impl ExternalError {
    /// As those of `coordctl`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Join { .. } => 3,
            Self::Silent { .. } => 4,
            Self::Unexpected
            | Self::Random { .. }
            | Self::Start { .. }
            | Self::Serve { .. }
            | Self::Gone { .. } => 1,
        }
    }
}

/// What was asked for on the command line.
struct Asked {
    socket: PathBuf,
    session: String,
    role: Role,
    name: String,
}

/// Who this process is now.
struct Joined {
    credentials: Credentials,
    role: Role,
    mode: Mode,
    simple_tools: bool,
}

/// Joins and serves until the client leaves.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), ExternalError> {
    let asked = parse(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ExternalError::Start { source })?;
    let ended = LocalSet::new().block_on(&runtime, Box::pin(live(asked)));
    // A read from stdin cannot be taken back; its thread must not keep the process.
    runtime.shutdown_background();
    ended
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Asked, ExternalError> {
    let (mut socket, mut session, mut role, mut name) = (None, None, None, String::new());
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or(ExternalError::Usage)?;
        if flag == "--socket" {
            socket = Some(PathBuf::from(value));
            continue;
        }
        let value = value.into_string().map_err(|_| ExternalError::Usage)?;
        match (flag.to_str(), value.as_str()) {
            (Some("--session"), _) => session = Some(value),
            (Some("--name"), _) => name = value,
            (Some("--as"), "coordinator") => role = Some(Role::Coordinator),
            (Some("--as"), "peer") => role = Some(Role::Peer),
            _ => return Err(ExternalError::Usage),
        }
    }
    match (socket, session, role) {
        (Some(socket), Some(session), Some(role)) => Ok(Asked { socket, session, role, name }),
        _ => Err(ExternalError::Usage),
    }
}

async fn live(asked: Asked) -> Result<(), ExternalError> {
    let joined = join(&asked).await?;
    let link = link(&asked.socket, Some(joined.credentials));
    let connection = spawn_local(link.clone().keep());
    let backend = External::new(&link, joined.role, joined.mode, joined.simple_tools)?;
    let backend = Rc::new(backend);
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let orders = link.orders();
    let ended = tokio::select! {
        biased;
        reason = link.gone() => Err(ExternalError::Gone { reason }),
        () = orders.process_ends() => {
            let reason = orders.control().stop.unwrap_or_default();
            tracing::warn!(reason, "this client was told to leave the session");
            Ok(())
        }
        ended = signalled() => ended.map_err(|source| ExternalError::Start { source }),
        served = super::serve(stdin, stdout, Rc::clone(&backend)) => {
            served.map_err(|source| ExternalError::Serve { source })
        }
    };
    backend.mailbox.settle().await;
    connection.abort();
    ended
}

fn link(socket: &Path, credentials: Option<Credentials>) -> Link {
    let socket = socket.to_owned();
    Link::new(LinkConfig { socket, credentials, orphan_limit: None, state_dir: None })
}

async fn signalled() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Asks as the user to be an agent.
async fn join(asked: &Asked) -> Result<Joined, ExternalError> {
    let link = link(&asked.socket, None);
    let connection = spawn_local(link.clone().keep());
    let deadline = Instant::now() + TAKEN_MAX;
    let joined = loop {
        let request = Request::Join {
            session: asked.session.clone(),
            role: asked.role,
            name: asked.name.clone(),
        };
        let Ok(answer) = timeout(JOIN_MAX, link.call(request, None)).await else {
            break Err(ExternalError::Silent { socket: asked.socket.clone() });
        };
        match answer {
            Ok(Response::Joined { credentials, role, simple_tools, session, .. }) => {
                break Ok(Joined { credentials, role, mode: session.mode, simple_tools });
            }
            Ok(_) => break Err(ExternalError::Unexpected),
            // The client that held this place has just exited, and coordd is about to notice.
            Err(CallError::Denied(body))
                if body.code == ErrorCode::Exists && Instant::now() < deadline =>
            {
                sleep(TRY_AGAIN).await;
            }
            Err(source) => break Err(ExternalError::Join { source }),
        }
    };
    connection.abort();
    joined
}

/// The tools of an agent whose model is somewhere else.
pub(super) struct External {
    requests: Requests,
    pub(super) mailbox: Rc<Mailbox>,
}

impl External {
    pub(super) fn new(
        link: &Link,
        role: Role,
        mode: Mode,
        simple_tools: bool,
    ) -> Result<Self, ExternalError> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let definitions = definition::offered(mode, simple_tools, home.as_deref());
        let instructions = if role == Role::Peer { PEER } else { COORDINATOR };
        let instructions = instructions.trim_end().to_owned();
        let requests = Requests::new(link.clone(), role, definitions, instructions)
            .map_err(|source| ExternalError::Random { source })?;
        Ok(Self { requests, mailbox: Mailbox::new(link.clone(), role, mode) })
    }
}

impl Backend for External {
    fn instructions(&self) -> String {
        self.requests.instructions()
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let mut tools = self.requests.tools();
        tools.push(Mailbox::spec());
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    }

    async fn call(&self, call: Call) -> Answer {
        if call.tool == mailbox::NAME {
            return self.mailbox.wait(&call.input, &call.closing).await;
        }
        let is_launch = call.tool == "Agent";
        let mut answer = self.requests.call(call).await;
        if is_launch && !answer.output.is_error {
            answer.output.text.push_str(HOW_TO_WAIT);
        }
        answer
    }
}
