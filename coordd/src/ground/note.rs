//! A word from a daemon that lost its state folder to the next one: the folder itself is no place for it.

use std::ffi::OsStr;
use std::path::Path;

use crate::dir::Dir;

/// Beside the socket: `coordctl` shows it, and the next daemon takes it.
const NAME: &str = "state-lost";
/// Bytes of it that are read: a path, a time, and some names of sessions.
const LEN_MAX: usize = 8 * 1024;

/// Leaves it for the next daemon.
pub(crate) fn leave(folder: &Dir, text: &str) {
    let when = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC");
    let text = format!("the coordd before this one ended at {when}: {text}");
    if let Err(error) = folder.write_atomic(NAME, text.as_bytes()) {
        let error = coordd_common::chain(&error);
        tracing::warn!(error, "the next coordd cannot be told what was lost");
    }
}

/// Takes what an earlier daemon left.
pub(crate) fn take(folder: &Dir) -> Option<String> {
    let id = folder.id_of(OsStr::new(NAME))?;
    let content = folder.read(Path::new(NAME), LEN_MAX).ok()?;
    if let Err(error) = folder.unlink_own(OsStr::new(NAME), id) {
        tracing::warn!(%error, "what an earlier coordd said is said again at the next start");
    }
    Some(String::from_utf8_lossy(&content.bytes).into_owned())
}
