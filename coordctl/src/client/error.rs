//! Why there is no answer, and what a person is told to do about it.

use std::path::PathBuf;
use std::time::Duration;

use proto::error::ErrorBody;
use proto::hello::{Age, PROTOCOL, PROTOCOL_MIN};

use crate::error::{Exit, Failure};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("no coordd answers at {}", path.display())]
    NoDaemon { path: PathBuf },
    #[error("{} {what}", path.display())]
    Foreign { path: PathBuf, what: String },
    #[error("coordd at {} accepts connections but has not answered for {} s", path.display(), limit.as_secs())]
    Silent { path: PathBuf, limit: Duration },
    #[error("the connection to coordd ended before it answered")]
    Lost,
    #[error("coordd refused")]
    Denied(ErrorBody),
    #[error("coordd speaks protocol {theirs}, and this coordctl {PROTOCOL_MIN} to {PROTOCOL}")]
    Skew { theirs: u32 },
    #[error("coordd {version} sent what coordctl {} does not understand", env!("CARGO_PKG_VERSION"))]
    Unreadable { version: String, age: Age, reason: String },
    #[error("coordd {version} does not know what coordctl {} asks of it", env!("CARGO_PKG_VERSION"))]
    NotKnown { version: String, age: Age },
    #[error("the request is too large to send")]
    TooLarge,
    #[error("{what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::NoDaemon { .. } => {
                Self::new(Exit::NoDaemon, message).hint("`coordctl daemon start` starts it")
            }
            ClientError::Foreign { .. } => Self::new(Exit::NoDaemon, message)
                .hint("nothing was sent; remove it if it is not meant to be there, or set COORDD_SOCKET to another path"),
            ClientError::Silent { .. } => Self::new(Exit::NoDaemon, message).hint(
                "it may be stopped or stuck: `coordctl daemon restart` replaces it, and agents run on meanwhile",
            ),
            ClientError::Lost => Self::new(Exit::NoDaemon, message)
                .hint("try again; `coordctl doctor` checks the installation"),
            ClientError::Denied(body) => body.into(),
            ClientError::Skew { theirs } => {
                let age = if theirs > PROTOCOL { Age::Newer } else { Age::Older };
                Self::failed(message).hint(to_update(age))
            }
            ClientError::Unreadable { age, reason, .. } => {
                Self::failed(format!("{message}: {reason}")).hint(to_update(age))
            }
            ClientError::NotKnown { age, .. } => Self::failed(message).hint(to_update(age)),
            ClientError::TooLarge => Self::failed(message).hint("a message may have 256 KiB"),
            ClientError::Io { source, .. } => Self::failed(format!("{message}: {source}"))
                .hint("`coordctl doctor` checks the installation"),
        }
    }
}

/// Which side to update, by coordd's age.
fn to_update(coordd: Age) -> &'static str {
    match coordd {
        Age::Newer => "coordctl is too old: update coordctl",
        Age::Older => "coordd is too old: update coordd, then run `coordctl daemon restart`",
        Age::Same => {
            "install coordd and coordctl of the same version, then run `coordctl daemon restart`"
        }
    }
}
