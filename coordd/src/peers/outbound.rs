//! Saying something to a session of another program: vetted, written, and acknowledged by the close
//! of the connection.
//!
//! The other side reads to the end and closes without a byte; that close is its word that it has
//! the message. It blocks, and is run where that harms nobody.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::path::Path;
use std::time::{Duration, Instant};

use coordd_core::outgoing::Kind;

use super::claude::{self, Speaker};
use super::registry::Registry;
use super::vetting::{Refusal, Vetted, connect_to};

/// From the first byte to the close of the other side: what its own kind waits for.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Between two attempts to connect to one whose queue is full.
const BUSY_REST: Duration = Duration::from_millis(50);

/// Something to say.
#[derive(Clone, Debug)]
pub(super) struct Saying {
    pub(super) from: Speaker,
    pub(super) wire_id: String,
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// Says it. The error says why not, for people.
pub(super) fn say(path: &Path, registry: &Registry, saying: &Saying) -> Result<(), String> {
    let Vetted { stream, entry } = vetted(path, registry)?;
    let mut lines = String::new();
    if let Some(token) = registry.token(&entry) {
        lines.push_str(&claude::auth(&token));
    }
    lines.push_str(&lines_of(saying));
    given(stream, lines.as_bytes()).map_err(|error| in_words(&error))
}

fn in_words(error: &std::io::Error) -> String {
    let kind = error.kind();
    if matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        "it did not answer within 5 s; it may have the message".to_owned()
    } else if matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) {
        "it closed the connection without reading the message; the message may be too long for it"
            .to_owned()
    } else {
        format!("the connection failed: {error}")
    }
}

fn vetted(path: &Path, registry: &Registry) -> Result<Vetted, String> {
    let end = Instant::now() + ANSWER_TIME_MAX;
    loop {
        match connect_to(path, registry) {
            Err(Refusal::Busy) if Instant::now() < end => std::thread::sleep(BUSY_REST),
            found => return found.map_err(|refusal| refusal.to_string()),
        }
    }
}

fn lines_of(it: &Saying) -> String {
    match &it.kind {
        Kind::Words { notice_id, .. } => {
            let mut lines = claude::words(&it.from, &it.wire_id, &it.text);
            // After the message: an idle session would report that it is idle at once.
            if let Some(id) = notice_id {
                lines.push_str(&claude::notify(&it.from, id));
            }
            lines
        }
        Kind::Status { of, verdict } => {
            claude::status(&it.from, &it.wire_id, of, *verdict, &it.text)
        }
        Kind::Idle { of, at_ms } => claude::idle(&it.from, &it.wire_id, of, *at_ms, &it.text),
        // These go over the bridge.
        Kind::Work { .. } | Kind::Stop { .. } | Kind::Ended { .. } => String::new(),
    }
}

/// Writes all, ends, and waits for the close.
fn given(mut stream: std::os::unix::net::UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    let end = Instant::now() + ANSWER_TIME_MAX;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    stream.write_all(bytes)?;
    stream.shutdown(Shutdown::Write)?;
    let mut said = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        // What it says is nothing that we asked for.
        if stream.read(&mut said)? == 0 {
            return Ok(());
        }
    }
}
