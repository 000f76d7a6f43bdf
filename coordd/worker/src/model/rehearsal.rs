//! The rehearsal model (R-6): answers from a script, over real HTTP, to the same client that talks
//! to a provider. It says plainly that it is a script.
//!
//! ```text
//!   client -> POST /v1/messages -> server -> conversation (what was said) -> respond (script) -> sse
//! ```
//!
//! It is stateless: which step comes next follows from the request alone, so an agent that was
//! killed goes on at the right step. The one exception is an error with `times`, which counts.
//!
//! # The script
//!
//! ```json
//! { "about": "what it shows", "pace_ms": 15,
//!   "agents": [
//!     { "when": { "has_tool": "Agent", "prompt_matches": "flaky" },
//!       "waiting_text": "said while `needs` are missing",
//!       "after": "said when the steps are used up",
//!       "steps": [
//!         { "text": "Two of us look.", "tools": [ { "name": "Agent", "input": { "name": "a" } } ] },
//!         { "needs": ["a"], "text": "It says: {{result:a}}" } ] } ] }
//! ```
//!
//! The first agent whose `when` fits is used. A step can also have `stop`, `usage`, `pause_ms`, and
//! `error` (`status`, `message`, `retry_after_s`, `times`). `needs` are names of workers; a step
//! waits for the notification of each worker's newest run. Its own `waiting_text` is said when it
//! begins to wait, as a plain text; after that it says for whom it still waits. Texts and tool
//! input are templates, see [`template`].

mod conversation;
mod respond;
mod script;
mod server;
mod sse;
mod template;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(crate) use script::{Script, ScriptError, check};
pub(crate) use server::Server;

use conversation::Conversation;
use respond::Reply;

/// What is said where no script is given.
const EMBEDDED: &str = include_str!("rehearsal/default.json");

/// A script that is ready to be played.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    script: Script,
    origin: String,
    /// How often a step with `times` has failed, by agent and step. Bounded by the script's size.
    failed: Mutex<BTreeMap<(usize, usize), u32>>,
}

impl Rehearsal {
    /// Reads the script, or takes the embedded one.
    pub(crate) fn load(file: Option<&Path>) -> Result<Self, ScriptError> {
        let (script, origin) = match file {
            Some(file) => (script::read(file)?, file.display().to_string()),
            None => (check(EMBEDDED)?, "embedded script".to_owned()),
        };
        Ok(Self { script, origin, failed: Mutex::default() })
    }

    /// Where the script comes from.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Answers the body of one request.
    fn reply(&self, body: &[u8]) -> Reply {
        let conversation = match Conversation::read(body) {
            Ok(conversation) => conversation,
            Err(problem) => return Reply::bad_request(format!("not a request: {problem}")),
        };
        let mut fails = |place, times| self.fails(place, times);
        respond::respond(&self.script, &self.origin, &conversation, &mut fails)
    }

    fn pace_ms(&self) -> u64 {
        self.script.pace_ms
    }

    /// Whether an error that comes `times` times comes once more.
    fn fails(&self, place: (usize, usize), times: u32) -> bool {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failed.entry(place).or_default();
        let again = *count < times;
        *count += u32::from(again);
        again
    }
}

#[cfg(test)]
mod tests;
