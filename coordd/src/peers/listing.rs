//! Sessions in the list of other programs that are alive: each is connected to before it is shown
//! (M-9, A22).

use proto::view::{PeerKind, PeerView};

use super::registry::{Entry, Registry};
use super::socket_address;
use super::vetting::{Refusal, connect_to};

/// Entries that are looked at; a person has tens.
const LISTED_MAX: usize = 500;
/// How a process of Linux is told from others where Claude Code lists itself.
const NATIVE_DOMAIN: &str = "linux:";

/// All sessions that can be messaged, without our own.
pub(super) fn others(registry: &Registry) -> Vec<PeerView> {
    let entries = registry.entries();
    let others = entries.into_iter().filter(|entry| !registry.is_ours(entry)).take(LISTED_MAX);
    others.filter(|it| is_there(it, registry)).map(view).collect()
}

/// Those of a name.
pub(super) fn named(registry: &Registry, name: &str) -> Vec<PeerView> {
    let mut found = others(registry);
    found.retain(|it| it.name.eq_ignore_ascii_case(name.trim()));
    found
}

fn is_there(entry: &Entry, registry: &Registry) -> bool {
    match connect_to(&entry.socket, registry) {
        Ok(found) => found.entry == *entry,
        // It is there, and has much to do.
        Err(Refusal::Busy) => true,
        Err(_) => false,
    }
}

fn view(it: Entry) -> PeerView {
    let kind =
        if it.domain.starts_with(NATIVE_DOMAIN) { PeerKind::Claude } else { PeerKind::Other };
    let folder = it.cwd.rsplit('/').next().unwrap_or_default();
    PeerView {
        id: it.session,
        name: if it.name.is_empty() { folder.to_owned() } else { it.name },
        kind,
        address: socket_address(&it.socket),
        state: it.status,
        cwd: it.cwd,
        heard_ms: it.heard_ms,
    }
}
