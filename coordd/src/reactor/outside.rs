//! Between the reactor and the sessions of other programs: senders that wait for an
//! acknowledgement, the list of our sessions for other programs, and messages to theirs. It decides
//! nothing, and waits for nobody.

use std::collections::{BTreeSet, HashMap};

use coordd_core::denial::Denial;
use coordd_core::id::{MessageId, PeerId, SessionId};
use coordd_core::live::Caller;
use proto::Outcome;
use proto::address::Place;
use tokio::sync::oneshot;

use super::Reactor;
use crate::peers::{HandOut, Order, Peers, Seen};
use crate::store::Store;
use crate::translate::{self, view};

/// What is under way to and from the outside.
#[derive(Debug)]
pub(crate) struct Outsiders {
    peers: Peers,
    /// Sessions that may look different to others now.
    changed: BTreeSet<SessionId>,
    /// What others were last shown.
    shown: HashMap<SessionId, Seen>,
    /// Senders that wait for an acknowledgement, by ticket: at most one for each connection.
    waiting: HashMap<u64, oneshot::Sender<bool>>,
    last_ticket: u64,
}

impl Outsiders {
    pub(crate) fn new(peers: Peers) -> Self {
        Self {
            peers,
            changed: BTreeSet::new(),
            shown: HashMap::new(),
            waiting: HashMap::new(),
            last_ticket: 0,
        }
    }

    /// Registers a waiting sender, and returns its ticket.
    pub(super) fn keep(&mut self, done: oneshot::Sender<bool>) -> u64 {
        self.last_ticket += 1;
        self.waiting.insert(self.last_ticket, done);
        self.last_ticket
    }

    pub(super) fn heard(&mut self, ticket: u64, taken: bool) {
        if let Some(done) = self.waiting.remove(&ticket) {
            // The caller may have given up waiting.
            let _told = done.send(taken);
        }
    }

    pub(super) fn changed(&mut self, session: &SessionId) {
        self.changed.insert(session.clone());
    }
}

impl<S: Store> Reactor<S> {
    /// Publishes changed sessions to other programs, as far as there is room; the rest follows with
    /// the next batch.
    pub(super) fn show_sessions(&mut self) {
        for id in std::mem::take(&mut self.outside.changed) {
            let seen = self.core.durable.sessions.get(&id).map(|session| Seen {
                name: session.name.to_string(),
                cwd: session.cwd.clone(),
                status: view::state_word(&self.core, session),
                created_ms: session.created_ms,
            });
            if self.outside.shown.get(&id) == seen.as_ref() {
                continue;
            }
            if !self.outside.peers.push(Order::Seen(id.clone(), seen.clone())) {
                self.outside.changed.insert(id);
                continue;
            }
            match seen {
                Some(seen) => self.outside.shown.insert(id, seen),
                None => self.outside.shown.remove(&id),
            };
        }
    }

    pub(super) fn hand_out(&mut self, id: MessageId) {
        let Some(it) = self.core.durable.outbox.get(id) else { return };
        // What is for another daemon is the bridge's.
        let Place::Socket(path) = &it.to else { return };
        let session = it.session.as_ref().and_then(|id| self.core.durable.sessions.get(id));
        let order = HandOut {
            outgoing: id,
            session: it.session.clone(),
            name: session.map_or_else(|| "coordctl".to_owned(), |session| session.name.to_string()),
            bypasses: session.is_some_and(|session| session.bypasses),
            to: path.clone(),
            wire_id: it.wire_id.clone(),
            kind: it.kind.clone(),
            text: it.text.clone(),
        };
        if !self.outside.peers.push(Order::HandOut(Box::new(order))) {
            // Cannot overflow: the core has fewer messages in transit than there is room for. The
            // next start sends them again.
            tracing::error!(%id, "a message is not handed out; restart coordd");
        }
    }

    /// All sessions that can be messaged; for an agent, without its own.
    pub(super) fn list_peers(&mut self, peer: PeerId, call: u64) {
        let Some(handle) = self.peers.get(&peer).cloned() else { return };
        let own = match self.core.live.peers.get(&peer) {
            Some(Caller::Agent(id)) => {
                self.core.durable.agents.get(id).map(|agent| agent.session.clone())
            }
            Some(Caller::User | Caller::Bridge | Caller::ProgramOf(_)) | None => None,
        };
        let sessions =
            self.core.durable.sessions.values().filter(|session| Some(&session.id) != own.as_ref());
        let rows = sessions.map(|session| view::peer(&self.core, session));
        let rows = rows.chain(translate::bridge::peers(&self.core)).collect();
        if !self.outside.peers.push(Order::List(rows, (handle, call))) {
            let why = "too many messages are being sent to other programs right now; try again"
                .to_owned();
            let error = translate::error_body(&Denial::Failed { why });
            self.reply(peer, call, Outcome::Error(error));
        }
    }

    /// The denial. A name that no agent has may be that of a session outside (M-1).
    pub(super) fn deny(&mut self, peer: PeerId, call: u64, denial: Denial) {
        let error = translate::error_body(&denial);
        if let (Denial::NoSuchAgent { given, .. }, Some(handle)) = (denial, self.peers.get(&peer))
            && self.outside.peers.push(Order::Unknown(given, error.clone(), (handle.clone(), call)))
        {
            return;
        }
        self.reply(peer, call, Outcome::Error(error));
    }
}
