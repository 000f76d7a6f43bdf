//! The engine's side of the server: what is sent, what came of it, what came in. Channels, so that
//! the engine's tests need no server.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::keys::Fingerprint;

/// What waits to be sent. As much as all windows of a few busy pairs.
pub(crate) const TO_SEND_MAX: usize = 256;
/// What came in and is not looked at: each may be as long as an envelope.
pub(crate) const ARRIVALS_MAX: usize = 16;

/// Something to be sent.
#[derive(Debug)]
pub(crate) enum ToSend {
    /// A row: what came of it is told.
    Row { subject: String, copy_id: String, bytes: Vec<u8>, to: Fingerprint, id: u64, copy: u32 },
    /// Stored by the server, and not waited for.
    Stored { subject: String, bytes: Vec<u8> },
    /// For who listens now.
    Now { subject: String, bytes: Vec<u8> },
}

/// Whether the server stored a row.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) to: Fingerprint,
    pub(crate) id: u64,
    pub(crate) copy: u32,
    pub(crate) is_stored: bool,
}

/// Something that came in.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) subject: String,
    pub(crate) bytes: Bytes,
    /// How often it was delivered, this time included.
    pub(crate) deliveries: i64,
    /// Tells the server that it is dealt with; none for what is not stored.
    pub(crate) ack: Option<Ack>,
}

/// An acknowledgement that is owed. Dropping it owes it still: the server delivers again.
pub(crate) enum Ack {
    /// To the server.
    Server(Box<async_nats::jetstream::message::Acker>),
    /// To a test.
    #[cfg(test)]
    Test(mpsc::Sender<()>),
}

impl std::fmt::Debug for Ack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ack")
    }
}

impl Ack {
    /// Best effort: what is not heard is delivered again, and known then.
    pub(crate) async fn give(self) {
        match self {
            Self::Server(it) => {
                if let Err(error) = it.ack().await {
                    tracing::debug!(%error, "an acknowledgement was not sent");
                }
            }
            #[cfg(test)]
            Self::Test(it) => drop(it.try_send(())),
        }
    }
}

/// How the server is to be reached at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) connected: bool,
    /// What is wrong with the connection; empty when all is well.
    pub(crate) trouble: String,
    /// Why the last message that was sent was not stored; empty when it was.
    pub(crate) unstored: String,
    pub(crate) replicas: u32,
}

/// The engine's ends.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) send: mpsc::Sender<ToSend>,
    pub(crate) sent: mpsc::Receiver<Sent>,
    pub(crate) arrivals: mpsc::Receiver<Arrival>,
    pub(crate) standing: watch::Receiver<Standing>,
}

/// The server's ends.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) send: mpsc::Receiver<ToSend>,
    pub(crate) sent: mpsc::Sender<Sent>,
    pub(crate) arrivals: mpsc::Sender<Arrival>,
    pub(crate) standing: watch::Sender<Standing>,
}

/// Both ends of the connection between the engine and the server.
pub(crate) fn wire() -> (Wire, Ends) {
    let (send, to_send) = mpsc::channel(TO_SEND_MAX);
    let (told, outcomes) = mpsc::channel(TO_SEND_MAX);
    let (came, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let (stands, standing) = watch::channel(Standing::default());
    let wire = Wire { send, sent: outcomes, arrivals, standing };
    (wire, Ends { send: to_send, sent: told, arrivals: came, standing: stands })
}
