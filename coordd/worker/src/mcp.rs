//! A server of the Model Context Protocol: coordd's tools for programs that are no agent process of
//! ours.
//!
//! ```text
//!   client --JSON lines--> transport --> server --> backend (whose tools they are, what a call does)
//!                             \<-- answer <---------/   \<-- "written", once the answer is on its way
//! ```
//!
//! Lines, protocol versions and cancelling are rmcp's; here are the bounds. Nothing in this folder
//! knows what a tool does or who may call it: that is the backend's, and behind it the daemon's.
//! What goes to the client is protocol alone; logs go to stderr.

mod mailbox;
mod requests;
mod server;
mod transport;

pub(crate) mod external;
pub(crate) mod pipe;

use std::rc::Rc;

use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub(crate) use self::requests::Requests;
use self::server::Server;
use self::transport::{Lines, Written};
use crate::model::ToolSpec;
use crate::tools::ToolOutput;

/// Who answers a client.
pub(crate) trait Backend: 'static {
    /// What a client is told about the tools as a whole, for its model.
    fn instructions(&self) -> String;

    /// The tools, sorted by name.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Does what a call asks for. It is dropped when the client cancels the call or goes away.
    fn call(&self, call: Call) -> impl Future<Output = Answer>;
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) tool: String,
    /// An object.
    pub(crate) input: Value,
    /// The client has closed its end. Calls in progress get some seconds more; calls that only wait
    /// end at once.
    #[allow(dead_code, reason = "for backends whose calls wait for messages")]
    pub(crate) closing: CancellationToken,
}

/// What a call gives.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: ToolOutput,
    /// Told when the answer was written to the client; dropped when it never will be.
    pub(crate) written: Option<oneshot::Sender<()>>,
}

impl From<ToolOutput> for Answer {
    fn from(output: ToolOutput) -> Self {
        Self { output, written: None }
    }
}

/// Why a client could not be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("the client and coordd could not agree on how to speak")]
    Initialize {
        #[source]
        source: Box<ServerInitializeError>,
    },
    #[error("the task that serves the client ended")]
    Task {
        #[source]
        source: tokio::task::JoinError,
    },
}

/// Serves one client until it closes its end. It must run in a `LocalSet`. Dropping it ends the
/// service and the calls in it.
pub(crate) async fn serve<R, W>(
    read: R,
    write: W,
    backend: Rc<impl Backend>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (written, closing) = (Written::default(), CancellationToken::new());
    let lines = Lines::new(read, write, written.clone(), closing.clone());
    let server = Server::new(backend, written, closing);
    let running = match serve_server(server, lines).await {
        Ok(running) => running,
        // It went away before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(source) => return Err(ServeError::Initialize { source: Box::new(source) }),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(source)) | Err(source) => Err(ServeError::Task { source }),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
