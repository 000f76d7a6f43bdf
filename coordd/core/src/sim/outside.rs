//! The world outside of the daemon: sessions of other programs that write to ours, are written to, and say things twice.
//!
//! It is there in the last 3,000 seeds only, so that the others stay the worlds in which they once found something.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use proto_words::address::Place;

use super::world::World;
use crate::Input;
use crate::id::{MessageId, SessionId};
use crate::input::Says;
use crate::message::{Outside, State};
use crate::outgoing::{Kind, Verdict};
use crate::request::{Address, Body, Request};
use crate::session::Inbound;

/// The first seed with somebody outside.
const FROM_SEED: u64 = 7_000;

/// What the outside knows.
#[derive(Default)]
pub(super) struct Crowd {
    is_there: bool,
    /// Whether the wall clock was set forward.
    pub(super) clock_was_set: bool,
    last: u64,
    /// What was said and is not known to have arrived, or was and is said again.
    said: Vec<(SessionId, Outside)>,
    /// Words by ticket.
    tickets: BTreeMap<u64, (SessionId, Outside)>,
    /// Words whose sender was told that they arrived.
    taken: BTreeSet<(SessionId, Place, String)>,
    /// Ids of messages that came from the daemon, with the socket that they came to.
    got: Vec<(String, Place)>,
    /// Ids of ours that the daemon says it does not take.
    refused: BTreeSet<String>,
}

impl Crowd {
    pub(super) fn new(seed: u64) -> Self {
        Self { is_there: seed >= FROM_SEED, ..Self::default() }
    }
}

impl World {
    /// Somebody outside does something. Returns whether anybody is there.
    pub(super) fn stir(&mut self) -> bool {
        if !self.crowd.is_there || !self.random.one_in(3) {
            return false;
        }
        match self.random.below(8) {
            0..=3 => self.say_words(),
            4 => self.say_fate(),
            5 => {
                let notify_when_idle = self.random.one_in(2);
                let to = Address::Uds(format!("/run/{}.sock", self.random.below(3)));
                let body = Body::Text { text: "are you there?".into() };
                let session = String::new();
                let summary = String::new();
                self.wish(0, Request::Send { session, to, body, summary, notify_when_idle });
            }
            6 => {
                let settings = [None, Some(Inbound::Hold), Some(Inbound::Refuse)];
                let inbound = self.random.pick(&settings).unwrap();
                let session = self.any_session().map_or_else(|| "none".into(), |it| it.0);
                self.wish(0, Request::InboundSet { session, inbound });
            }
            _ => {
                let held = self.core.durable.messages.values().filter(|it| it.state == State::Held);
                let held: Vec<_> = held.map(|it| it.id.to_string()).collect();
                let message = self.random.pick(&held).unwrap_or_else(|| "m1".into());
                let accept = self.random.one_in(2);
                self.wish(0, Request::InboundAnswer { message, accept, reason: String::new() });
            }
        }
        true
    }

    fn any_session(&mut self) -> Option<SessionId> {
        let ids: Vec<_> = self.core.durable.sessions.keys().cloned().collect();
        self.random.pick(&ids)
    }

    fn say_words(&mut self) {
        let again = self.random.one_in(3).then(|| self.random.pick(&self.crowd.said)).flatten();
        let (session, from) = if let Some(again) = again {
            again
        } else {
            let Some(session) = self.any_session() else { return };
            self.crowd.last += 1;
            let address = Place::Socket(format!("/run/{}.sock", self.random.below(3)));
            let message = format!("wire-{}", self.crowd.last);
            let bypasses = self.random.one_in(2);
            let from = Outside { address, name: "alice".into(), bypasses, verified: true, message };
            self.crowd.said.push((session.clone(), from.clone()));
            (session, from)
        };
        self.crowd.last += 1;
        let ticket = self.crowd.last;
        self.crowd.tickets.insert(ticket, (session.clone(), from.clone()));
        let says = if self.random.one_in(5) {
            Says::NotifyWhenIdle
        } else {
            Says::Words { text: "from outside".into(), summary: String::new() }
        };
        if says == Says::NotifyWhenIdle {
            self.crowd.tickets.remove(&ticket);
        }
        self.reports.push(Input::Outside { ticket, session: Some(session), from, says });
    }

    /// The other side says what became of something, true or not.
    fn say_fate(&mut self) {
        let Some((of, address)) = self.random.pick(&self.crowd.got) else { return };
        let from = Outside {
            address,
            name: String::new(),
            bypasses: false,
            verified: false,
            message: String::new(),
        };
        let verdicts = [Verdict::Held, Verdict::Expired, Verdict::Refused];
        let says = match self.random.pick(&verdicts) {
            Some(verdict) if !self.random.one_in(3) => {
                Says::Status { of, verdict, reason: "so it is".into() }
            }
            _ => Says::Idle { of, detail: "done".into() },
        };
        self.reports.push(Input::Outside { ticket: 0, session: None, from, says });
    }

    pub(super) fn hand_out(&mut self, id: MessageId) {
        let Some(it) = self.core.durable.outbox.get(id).cloned() else { return };
        match &it.kind {
            Kind::Words { .. } => self.crowd.got.push((it.wire_id.clone(), it.to.clone())),
            Kind::Status { of, verdict: Verdict::Expired | Verdict::Refused } => {
                self.crowd.refused.insert(of.clone());
            }
            Kind::Status { .. }
            | Kind::Idle { .. }
            | Kind::Work { .. }
            | Kind::Stop { .. }
            | Kind::Ended { .. } => {}
        }
        let failed = self.random.one_in(3).then(|| "nobody listens".to_string());
        self.reports.push(Input::Handed { outgoing: id, failed });
    }

    pub(super) fn heard(&mut self, ticket: u64, taken: bool) {
        if let Some((session, from)) = self.crowd.tickets.remove(&ticket)
            && taken
        {
            self.crowd.taken.insert((session, from.address, from.message));
        }
    }

    /// Nothing that was taken is gone, and nothing is in nobody's hands.
    pub(super) fn outside_rests(&self) {
        let durable = &self.core.durable;
        assert_eq!(durable.outbox.open_len(), 0, "a message to the outside is in nobody's hands");
        for (session, address, message) in &self.crowd.taken {
            let is_there = durable.heard.contains_key(&(address.clone(), message.clone()));
            let is_told = self.crowd.refused.contains(message);
            let is_gone = !durable.sessions.contains_key(session);
            // Once the clock was set, receipts may be forgotten early.
            let may_be_old = self.crowd.clock_was_set;
            assert!(
                is_there || is_told || is_gone || may_be_old,
                "M-4: {message} is gone in silence"
            );
        }
    }
}
