//! Carries the write-ahead log over into the database file, beside the writer and not in its way.
//!
//! The log begins anew when a commit finds all of it carried over. A writer without a pause never
//! does; then the log grows to its bound, and the writer itself does the rest once.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::StoreError;
use super::rescue::with;

/// Committed bytes after which a checkpoint is due. The log stays at a few times that.
const DUE_BYTES: usize = 2 * 1024 * 1024;

/// Longest log that is left to the thread.
const LOG_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// How long a quiet log is left as it is.
const DUE_S: u64 = 30;

/// A page is written for the smallest record.
const RECORDS_OVERHEAD_BYTES: usize = 4096;

/// The thread that makes checkpoints. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Checkpointer {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    bytes: usize,
    log: PathBuf,
}

impl Checkpointer {
    pub(super) fn start(path: &Path) -> Result<Self, StoreError> {
        let connection = super::sqlite::connect(path)?;
        // One wake-up that waits says all that ten would.
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || run(&connection, &woken))
            .map_err(|source| StoreError::Io {
                action: "start the checkpoint thread for",
                path: path.into(),
                source,
            })?;
        Ok(Self { wake: Some(wake), thread: Some(thread), bytes: 0, log: with(path, "-wal") })
    }

    /// Notes a commit of the writer, and wakes the thread when a checkpoint is due. Waits for
    /// nothing, unless the log has reached its bound.
    pub(super) fn committed(&mut self, writer: &rusqlite::Connection, bytes: usize) {
        self.bytes += bytes + RECORDS_OVERHEAD_BYTES;
        if self.bytes < DUE_BYTES {
            return;
        }
        if std::fs::metadata(&self.log).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
            // Refused while the thread is at it: then the next commit tries again.
            match writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)) {
                Ok(0) => self.bytes = 0,
                Ok(1..) => {}
                Ok(busy) => tracing::warn!(busy, "a checkpoint had no result"),
                Err(error) => tracing::warn!(%error, "a checkpoint failed and will be tried again"),
            }
            return;
        }
        self.bytes = 0;
        if let Some(wake) = &self.wake {
            // Full means that it is about to work anyway.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the checkpoint thread had panicked");
        }
    }
}

fn run(connection: &rusqlite::Connection, woken: &Receiver<()>) {
    loop {
        match woken.recv_timeout(Duration::from_secs(DUE_S)) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // PASSIVE waits for nobody; what it leaves is taken the next time.
        let result = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = result {
            tracing::warn!(%error, "a checkpoint failed and will be tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::LOG_BYTES_MAX;
    use crate::store::Store as _;
    use crate::store::open::open;

    #[test]
    fn the_log_stays_bounded_under_a_writer_without_a_pause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordd.db");
        let mut store = open(&path).unwrap().store;
        let records = vec!["x".repeat(1024 * 1024)];
        let mut longest = 0;
        for _ in 0..120 {
            store.replace(&records).unwrap();
            longest = longest.max(fs::metadata(folder.path().join("coordd.db-wal")).unwrap().len());
        }
        // A few commits may pass while the thread is in the way.
        assert!(longest < LOG_BYTES_MAX + 24 * 1024 * 1024, "{longest}");
        assert_eq!(store.load().unwrap(), records);
    }

    #[test]
    fn a_clean_end_leaves_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordd.db");
        let mut store = open(&path).unwrap().store;
        store.commit(&["a".to_owned()]).unwrap();
        assert!(folder.path().join("coordd.db-wal").exists());
        drop(store);
        assert!(!folder.path().join("coordd.db-wal").exists());
    }
}
