//! `coordd-worker --mcp-pipe SOCKET`: what a client that can only start programs uses to reach a
//! server behind a socket.
//!
//! It copies bytes both ways and understands none of them. It has no identity of its own: the
//! listener's agent is the caller.

use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Why nothing is copied any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PipeError {
    #[error("cannot connect to {}: the agent that listened there has exited; start it again", path.display())]
    Connect {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the connection to the agent broke")]
    Copy {
        #[source]
        source: std::io::Error,
    },
}

/// Copies until the server ends the connection. When the client ends first, the server is told so
/// and may finish its answers.
pub(crate) async fn run<R, W>(socket: &Path, mut input: R, mut output: W) -> Result<(), PipeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| PipeError::Connect { path: socket.to_owned(), source })?;
    let (mut from_server, mut to_server) = stream.into_split();
    let upwards = async {
        let copied = tokio::io::copy(&mut input, &mut to_server).await;
        copied.and(to_server.shutdown().await)
    };
    let downwards = async {
        tokio::io::copy(&mut from_server, &mut output).await?;
        output.flush().await
    };
    tokio::pin!(upwards, downwards);
    let result = tokio::select! {
        biased;
        result = &mut downwards => result,
        result = &mut upwards => match result {
            Ok(()) => downwards.await,
            Err(error) => Err(error),
        },
    };
    match result {
        // The other end has gone away in the middle: that is an end like any other.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|source| PipeError::Copy { source }),
    }
}
