//! The tools of a lead, for Claude Code: a server on a socket of the agent's own.
//!
//! ```text
//!   Claude Code --starts--> coordd-worker --mcp-pipe SOCKET --bytes--> this process --its own connection--> coordd
//! ```
//!
//! So a call is the agent's, and coordd judges it by the agent's role. The socket lies in a folder
//! that is closed to others, and who connects must be of our user. It decides nothing.

use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proto::agent::Bootstrap;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::super::kit::Kit;
use crate::link::Link;
use crate::mcp;
use crate::mcp::Requests;

/// Longest path of a socket that the kernel takes everywhere, with room for its end.
const PATH_LEN_MAX: usize = 100;
/// Connections at once: Claude Code has one, and makes a new one when it loses it.
const CONNECTIONS_MAX: usize = 4;
/// The instructions for clients; the prompt already says more.
const INSTRUCTIONS: &str = "The tools of a lead of agents.";

/// Why the tools cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error(
        "no folder has a path short enough for a socket: set CLAUDE_CODE_TMPDIR to a short one"
    )]
    TooLong,
    #[error("cannot make the socket {}: check the folder that it is in", path.display())]
    Socket {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the system gives no random numbers")]
    Random {
        #[source]
        source: getrandom::Error,
    },
}

/// The server. It ends with this, and the folder goes.
#[derive(Debug)]
pub(super) struct Served {
    folder: PathBuf,
    socket: PathBuf,
    task: JoinHandle<()>,
}

impl Served {
    /// Serves the tools of this agent.
    pub(super) fn begin(link: Link, boot: &Bootstrap, kit: &Kit) -> Result<Self, ServeError> {
        let requests =
            Requests::new(link, boot.role, kit.definitions.clone(), INSTRUCTIONS.to_owned())
                .map_err(|source| ServeError::Random { source })?;
        let folder = folder(boot).ok_or(ServeError::TooLong)?;
        let socket = folder.join("s");
        let listener = listen(&folder, &socket)
            .map_err(|source| ServeError::Socket { path: socket.clone(), source })?;
        let task = tokio::task::spawn_local(accept(listener, Rc::new(requests)));
        Ok(Self { folder, socket, task })
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
        let _gone: Result<_, _> = std::fs::remove_file(&self.socket);
        let _gone: Result<_, _> = std::fs::remove_dir(&self.folder);
    }
}

/// Beside coordd's own socket, or where temporary files of agents go.
fn folder(boot: &Bootstrap) -> Option<PathBuf> {
    let beside = Path::new(&boot.socket).parent();
    let temporary = boot.env.get("CLAUDE_CODE_TMPDIR").map(Path::new);
    let places = [beside, temporary, Some(Path::new("/tmp"))];
    let fits = |it: &PathBuf| it.is_absolute() && it.as_os_str().len() + 2 < PATH_LEN_MAX;
    places.into_iter().flatten().map(|place| place.join(format!("mcp-{}", boot.agent))).find(fits)
}

fn listen(folder: &Path, socket: &Path) -> std::io::Result<UnixListener> {
    // Left by an earlier process of this agent. What is not ours cannot be removed, or not be made
    // again, and is an error.
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    std::fs::DirBuilder::new().mode(0o700).create(folder)?;
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn accept(listener: UnixListener, requests: Rc<Requests>) {
    let places = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut served = tokio::task::JoinSet::new();
    while let Ok(place) = std::sync::Arc::clone(&places).acquire_owned().await {
        while served.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "nobody can be served");
                return;
            }
        };
        let ours = coordd_common::processes::euid();
        if !stream.peer_cred().is_ok_and(|peer| peer.uid() == ours) {
            tracing::warn!("another user wants the tools of this agent");
            continue;
        }
        let requests = Rc::clone(&requests);
        served.spawn_local(async move {
            let (read, write) = stream.into_split();
            if let Err(error) = mcp::serve(read, write, requests).await {
                tracing::warn!(?error, "the tools of this agent are no longer served");
            }
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use tokio::task::LocalSet;

    use super::*;

    /// R-2: closed to others, gone at the end, and made again after a process that left it.
    #[tokio::test]
    async fn d2_the_tools_of_a_lead_are_on_a_closed_socket() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("mcp-a1");
        LocalSet::new()
            .run_until(async {
                for _ in 0..2 {
                    let listener = listen(&own, &own.join("s")).unwrap();
                    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
                    assert_eq!((mode(&own), mode(&own.join("s"))), (0o700, 0o600));
                    drop(listener);
                }
                // A socket that somebody else put there is not served.
                std::fs::write(own.join("other"), "").unwrap();
                assert!(listen(&own, &own.join("s")).is_err());
            })
            .await;
    }
}
