//! rmcp's transport of lines, with what it lacks: a bound for answers that the client does not
//! read, and word that an answer was written. It must not look into what a message says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

/// Longest line from a client: the longest message, with every byte of it escaped. A longer one is
/// passed over with a warning.
const LINE_LEN_MAX: usize = 2 * 1024 * 1024;

/// Answers that wait for a client to read them. With more, nothing is read from it.
const UNREAD_MAX: usize = 128;

/// Callbacks for written answers, by request. Bounded by the number of open calls.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<Mutex<HashMap<RequestId, oneshot::Sender<()>>>>);

impl Written {
    pub(super) fn expect(&self, id: RequestId, written: oneshot::Sender<()>) {
        self.waiting().insert(id, written);
    }

    pub(super) fn forget(&self, id: &RequestId) {
        self.waiting().remove(id);
    }

    fn take(&self, id: &RequestId) -> Option<oneshot::Sender<()>> {
        self.waiting().remove(id)
    }

    fn clear(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client's lines.
pub(super) struct Lines<R: AsyncRead, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, R, W>,
    /// Whether the handshake has begun. Notifications before it are ignored, because they would end
    /// the service.
    begun: bool,
    unread: Arc<watch::Sender<usize>>,
    written: Written,
    closing: CancellationToken,
}

/// An answer that is being written.
struct Unread(Arc<watch::Sender<usize>>);

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.send_modify(|it| *it = it.saturating_sub(1));
    }
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(read: R, write: W, written: Written, closing: CancellationToken) -> Self {
        let inner = AsyncRwTransport::new(read, write).with_max_line_length(LINE_LEN_MAX);
        Self { inner, begun: false, unread: Arc::new(watch::Sender::new(0)), written, closing }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let written = match &item {
            JsonRpcMessage::Response(response) => self.written.take(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.written.take(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        self.unread.send_modify(|it| *it += 1);
        let unread = Unread(Arc::clone(&self.unread));
        let sent = self.inner.send(item);
        async move {
            let result = sent.await;
            drop(unread);
            if result.is_ok() {
                // It fails only when nobody asks any longer.
                written.map(|it| it.send(()));
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let mut unread = self.unread.subscribe();
            // The sender is ours, so the channel stays open.
            drop(unread.wait_for(|it| *it < UNREAD_MAX).await);
            let Some(message) = self.inner.receive().await else {
                self.closing.cancel();
                return None;
            };
            let JsonRpcMessage::Request(request) = &message else {
                if self.begun {
                    return Some(message);
                }
                tracing::warn!("what came before the handshake is passed over");
                continue;
            };
            self.begun |= matches!(request.request, ClientRequest::InitializeRequest(_));
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.written.clear();
        self.inner.close().await
    }
}
