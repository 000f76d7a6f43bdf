//! Whether what is accepted is still kept: it is looked at with each commit, and whenever something may have changed. When it is
//! not, the daemon ends, as it does after a commit that failed, and says so to everybody who is connected.

use anyhow::Context as _;
use proto::error::{ErrorBody, ErrorCode};

use super::Reactor;
use crate::limits;
use crate::store::{Store, StoreError};

/// Sessions that are named where what coordd kept of them is lost; there may be a thousand.
const NAMED_MAX: usize = 20;

impl<S: Store> Reactor<S> {
    /// Looks at the store, and has everything else looked at by who holds it.
    pub(super) fn look(&mut self) -> anyhow::Result<()> {
        self.store.look().context("looking at the store")
    }

    /// Tells all peers why the daemon ends, since nothing that they ask for counts any more. Returns the error with what is lost.
    pub(super) fn last_words(&self, error: anyhow::Error) -> anyhow::Error {
        let error = if is_gone(&error) { error.context(self.lost()) } else { error };
        let why = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let body =
            ErrorBody::new(ErrorCode::Failed, format!("coordd ends, and this is not done: {why}"))
                .hint("mend what is named, then try again: the next command starts coordd");
        for handle in self.peers.values() {
            handle.close(Some(body.clone()));
        }
        error
    }

    /// Puts the state in place of the records that led to it, once those have become many.
    pub(super) fn compact(&mut self) {
        if self.stale_bytes < limits::STALE_BYTES_MAX {
            return;
        }
        self.stale_bytes = 0;
        let lines = self
            .core
            .durable
            .snapshot()
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<Vec<_>, _>>();
        let done = lines.map_err(|error| error.to_string()).and_then(|lines| {
            self.store.replace(&lines).map_err(|error| coordd_common::chain(&error))
        });
        // The records are as good as what they lead to; only the start takes longer.
        if let Err(error) = done {
            tracing::warn!(error, "the store is not cleaned up");
        }
    }

    fn lost(&self) -> String {
        let sessions = &self.core.durable.sessions;
        let mut names: Vec<_> =
            sessions.values().take(NAMED_MAX).map(|it| it.name.to_string()).collect();
        if sessions.len() > names.len() {
            names.push("…".to_owned());
        }
        match sessions.len() {
            0 => "there were no sessions".to_owned(),
            _ => format!("what was kept of these sessions may be lost: {}", names.join(", ")),
        }
    }
}

/// Whether the daemon ends because its store is not where the next start reads it.
pub(crate) fn is_gone(error: &anyhow::Error) -> bool {
    let is_gone = |it: &(dyn std::error::Error + 'static)| {
        matches!(it.downcast_ref::<StoreError>(), Some(StoreError::Gone { .. }))
    };
    error.chain().any(is_gone)
}
