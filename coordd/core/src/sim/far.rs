//! Another machine, and the bridge process that leads there: it is given rows, loses some with its connection, tells what became
//! of the rest, and brings what the sessions there say, some of it twice (M-7).
//!
//! It is there in the last 1,000 seeds only, so that the others stay the worlds in which they once found something. The bridge is
//! the honest one of `coordd-bridge`; what the server does between two of them is tested there.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use proto_words::address::Place;

use super::agent::FromDaemon;
use super::world::World;
use crate::Input;
use crate::answer::Answer;
use crate::bridge::{Brought, Decision, Fate};
use crate::id::{AgentId, MessageId, PeerId};
use crate::input::{Credentials, Says};
use crate::message::State;
use crate::outgoing::{Kind, Verdict};
use crate::request::{Address, Body, Request};

/// The first seed with another machine.
const FROM_SEED: u64 = 9_000;
const FAR: &str = "aaaaaaaaaaaaaaaa";
/// The session there that is written to and writes.
const THERE: &str = "s9";

/// The bridge process, and what the other daemon has decided.
#[derive(Default)]
pub(super) struct Far {
    is_there: bool,
    /// Whether the daemon wants a bridge.
    wanted: bool,
    incarnation: u32,
    peer: Option<PeerId>,
    is_welcome: bool,
    /// What it was given on this connection, in order.
    rows: VecDeque<MessageId>,
    last_call: u64,
    brought: BTreeMap<u64, Brought>,
    epoch: u64,
    /// Everything up to this is decided there.
    cursor: u64,
    decided: BTreeMap<MessageId, Fate>,
    /// Ids of messages of ours that it took, each once.
    taken: BTreeSet<String>,
    said: u64,
    /// What it may say again.
    open: Vec<Brought>,
    /// What it was told is taken here: session and id.
    taken_here: BTreeSet<(String, String)>,
}

impl Far {
    pub(super) fn new(seed: u64) -> Self {
        Self { is_there: seed >= FROM_SEED, ..Self::default() }
    }

    /// Its connection is gone, and with it the process's memory.
    pub(super) fn lose_connection(&mut self) {
        (self.peer, self.is_welcome) = (None, false);
        self.rows.clear();
        self.brought.clear();
    }

    /// The daemon is another one, which says itself what it wants.
    pub(super) fn lose_daemon(&mut self) {
        self.lose_connection();
        self.wanted = false;
    }

    pub(super) fn want(&mut self, on: bool) {
        self.wanted = on;
    }

    pub(super) fn begin(&mut self, peer: PeerId, epoch: u64) {
        if self.peer == Some(peer) {
            assert!(epoch >= self.epoch, "M-7: the numbers went back to an earlier epoch");
            if epoch > self.epoch {
                self.cursor = 0;
            }
            self.epoch = epoch;
            self.rows.clear();
        }
    }

    pub(super) fn carry(&mut self, peer: PeerId, id: MessageId) {
        if self.peer == Some(peer) {
            assert!(self.rows.back().is_none_or(|last| *last < id), "M-7: rows come out of order");
            self.rows.push_back(id);
            assert!(self.rows.len() <= crate::limits::BRIDGE_WINDOW_MAX, "M-7: beyond the window");
        }
    }

    pub(super) fn take(&mut self, what: &FromDaemon) {
        match what {
            FromDaemon::Welcome => self.is_welcome = true,
            FromDaemon::Closed => self.lose_connection(),
            FromDaemon::Reply { call, outcome } => {
                let Some(it) = self.brought.remove(call) else { return };
                match outcome {
                    Ok(Answer::Brought(Decision::Taken)) => {
                        if matches!(it.says, Says::Words { .. }) {
                            self.taken_here.insert((it.to, it.message));
                        }
                    }
                    Ok(Answer::Brought(Decision::Refused(_))) => {
                        let is_taken = self.taken_here.contains(&(it.to, it.message.clone()));
                        assert!(!is_taken, "M-7: {} was taken, and is refused", it.message);
                    }
                    // Repeated by senders that retry.
                    Ok(_) | Err(_) => {}
                }
            }
            FromDaemon::Deliver(_) | FromDaemon::Order(_) => {
                panic!("the bridge is spoken to like an agent: {what:?}")
            }
        }
    }
}

impl World {
    /// The bridge does one thing. Returns whether it had something to do.
    pub(super) fn far_happens(&mut self) -> bool {
        if !self.far.is_there || !self.far.wanted {
            return false;
        }
        if self.far.peer.is_none() {
            self.far.incarnation += 1;
            let (incarnation, token) =
                (self.far.incarnation, format!("far-{}", self.far.incarnation));
            self.turn(Input::BridgeStarting { incarnation, token: token.clone() });
            let agent = AgentId(crate::bridge::AGENT.into());
            self.far.peer = Some(self.connect_far(Credentials { agent, incarnation, token }));
            return true;
        }
        if !self.far.is_welcome {
            return false;
        }
        if !self.is_calm && self.random.one_in(30) {
            // It dies, with what it had.
            if let Some(peer) = self.far.peer {
                self.drop_connection(peer);
            }
            return true;
        }
        if !self.is_calm && self.random.one_in(3) {
            self.far_says();
            return true;
        }
        let Some(id) = self.far.rows.pop_front() else { return false };
        let fate = self.far_decides(id);
        self.far_call(Request::BridgeTold { id, fate });
        true
    }

    /// The other daemon decides about a row, or knows it.
    fn far_decides(&mut self, id: MessageId) -> Fate {
        if id.0 <= self.far.cursor {
            let known = self.far.decided.get(&id).cloned();
            // What it knows by its number alone it must have had.
            return known
                .unwrap_or_else(|| panic!("M-7: {id} comes after a later one, and is lost"));
        }
        self.far.cursor = id.0;
        let refused = self.random.one_in(6);
        let fate = if refused { Fate::Refused("no".into()) } else { Fate::Taken };
        self.far.decided.insert(id, fate.clone());
        if let Some(it) = self.core.durable.outbox.get(id)
            && fate == Fate::Taken
        {
            let is_new = self.far.taken.insert(it.wire_id.clone());
            assert!(is_new, "M-7: {} is taken twice there", it.wire_id);
        }
        fate
    }

    /// A session there says something: words, words again, or what became of ours, true or not.
    fn far_says(&mut self) {
        let again = self.random.one_in(3).then(|| self.random.pick(&self.far.open)).flatten();
        let it = if let Some(again) = again {
            again
        } else {
            self.far.said += 1;
            let sessions: Vec<_> = self.core.durable.sessions.keys().cloned().collect();
            let to = self.random.pick(&sessions).map_or_else(|| "none".into(), |it| it.0);
            let ours: Vec<_> = self.far.taken.iter().cloned().collect();
            let verdicts = [Verdict::Held, Verdict::Consumed, Verdict::Expired, Verdict::Refused];
            let says = match (self.random.pick(&ours), self.random.pick(&verdicts)) {
                (Some(of), Some(verdict)) if self.random.one_in(3) => {
                    Says::Status { of, verdict, reason: "so it is".into() }
                }
                _ => Says::Words { text: "from far away".into(), summary: String::new() },
            };
            Brought {
                peer: FAR.into(),
                peer_name: "far".into(),
                to,
                from: THERE.into(),
                name: "there".into(),
                bypasses: false,
                message: format!("far-{}", self.far.said),
                says,
            }
        };
        self.far.open.push(it.clone());
        let call = self.far_call(Request::BridgeBring(it.clone()));
        self.far.brought.insert(call, it);
    }

    fn far_call(&mut self, request: Request) -> u64 {
        self.far.last_call += 1;
        let call = self.far.last_call;
        if let Some(peer) = self.far.peer {
            self.send_far(peer, call, request);
        }
        call
    }

    /// Somebody here wishes something of the bridge. Returns whether there is one.
    pub(super) fn wish_far(&mut self) -> bool {
        if !self.far.is_there || !self.random.one_in(4) {
            return false;
        }
        let sessions: Vec<_> = self.core.durable.sessions.keys().cloned().collect();
        let session = self.random.pick(&sessions).map_or_else(|| "none".into(), |it| it.0);
        let request = match self.random.below(8) {
            0 => Request::BridgeSet { on: !self.random.one_in(4) },
            1..=3 => {
                let (inbound, outbound) = (!self.random.one_in(4), !self.random.one_in(4));
                Request::BridgeAllow { session, peer: FAR.into(), inbound, outbound }
            }
            _ => Request::Send {
                session: String::new(),
                to: Address::Bridge(format!("{FAR}/{THERE}")),
                body: Body::Text { text: "are you there?".into() },
                summary: String::new(),
                notify_when_idle: false,
            },
        };
        self.wish(0, request);
        true
    }

    /// What was accepted has come to an end that is true, and what was taken is there.
    pub(super) fn far_rests(&self) {
        let (durable, far) = (&self.core.durable, &self.far);
        let is_on = durable.bridge.is_some_and(|it| it.on);
        let waiting = durable.outbox.carried().next().map(|it| it.id);
        assert!(!is_on || waiting.is_none(), "M-7: {waiting:?} is on its way for ever");
        for it in durable.outbox.iter().filter(|it| it.to.peer().is_some()) {
            let is_words = matches!(it.kind, Kind::Words { .. });
            let is_there = matches!(it.state, State::Delivered | State::Held | State::Consumed);
            if is_words && is_there {
                assert!(far.taken.contains(&it.wire_id), "M-11: {} is said to be there", it.id);
            }
        }
        for (session, message) in &far.taken_here {
            let address = Place::Remote { peer: FAR.into(), session: THERE.into() };
            let is_there = durable.heard.contains_key(&(address, message.clone()));
            let is_gone = durable.sessions.keys().all(|it| it.to_string() != *session);
            let may_be_old = self.crowd.clock_was_set;
            assert!(is_there || is_gone || may_be_old, "M-4: {message} is gone in silence");
        }
    }
}
