//! Whether a process may be started, and the secret that it is started with.

use alloc::format;
use alloc::string::String;

use sha2::Digest as _;

use crate::state::agent::Agent;
use crate::state::id::hex;
use crate::state::{Live, Moment};

/// Why no worker may be started now, if none may (W-7).
pub(crate) fn starts_used_up(live: &Live, now: &Moment) -> Option<String> {
    let (count, _) = live.starts_used_up(now.mono_ms)?;
    Some(format!("{count} agents were started in the last minute"))
}

/// The secret of an incarnation. Several agents may start in one turn with one moment's randomness; hashing it with who they
/// are keeps the owner of one secret from finding another.
pub(crate) fn token_for(now: &Moment, agent: &Agent, incarnation: u32) -> String {
    let mut hash = sha2::Sha256::new();
    hash.update(now.random);
    hash.update(agent.id.0.as_bytes());
    hash.update(incarnation.to_be_bytes());
    hex(&hash.finalize())
}
