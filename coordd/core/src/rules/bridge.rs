//! Sessions on other machines: what is for them goes to the bridge process, what it brings is judged here (M-7, M-8).
//!
//! The bridge vouches for which daemon speaks, since it has checked the signature, and for nothing else. Nothing passes in
//! either direction that the user did not allow for that session and that daemon. Somebody outside never has the user's
//! authority, as `outside.rs` says.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use proto_words::address::{Place, is_fingerprint};

use crate::rules::outbox::moved;
use crate::rules::outside::{self, Words};
use crate::rules::turn::Turn;
use crate::rules::{guest, handing, host};
use crate::state::bridge::{Brought, Decision, Fate, Report, Wish};
use crate::state::denial::Denial;
use crate::state::id::{MessageId, PeerId, SessionId};
use crate::state::input::{Credentials, Says};
use crate::state::live::Caller;
use crate::state::message::{Outside, Sender, State};
use crate::state::outgoing::{self, Outgoing};
use crate::state::secret;
use crate::state::text::shortened;
use crate::state::{Effect, Live, Moment, Record, limits};

/// The process is about to be started, and this is its secret.
pub(crate) fn starting(live: &mut Live, incarnation: u32, token: String) {
    (live.bridge.incarnation, live.bridge.token) = (incarnation, token);
}

/// The store was damaged. Numbers may have been given out that nobody remembers here, so they begin anew, whether or not there is
/// a bridge now.
pub(crate) fn renumber(turn: &mut Turn<'_>) {
    let wish = turn.durable.bridge.unwrap_or(Wish { on: false, epoch: 0 });
    let epoch = turn.now.wall_ms.max(wish.epoch.saturating_add(1));
    turn.record(Record::BridgeSet { on: wish.on, epoch });
}

/// The bridge says hello.
pub(crate) fn connected(turn: &mut Turn<'_>, peer: PeerId, credentials: &Credentials) {
    let bridge = &mut turn.live.bridge;
    let is_it = bridge.incarnation == credentials.incarnation
        && secret::same(&bridge.token, &credentials.token);
    let Some(wish) = turn.durable.bridge.filter(|it| it.on && is_it) else {
        turn.effect(Effect::Close { peer, denial: Denial::BadCredentials });
        return;
    };
    bridge.ended.clear();
    let old = bridge.peer.replace(peer);
    bridge.handed.clear();
    bridge.due = true;
    if let Some(old) = old {
        turn.live.forget_peer(old);
        turn.effect(Effect::Close { peer: old, denial: Denial::BadCredentials });
    }
    turn.live.peers.insert(peer, Caller::Bridge);
    turn.effect(Effect::Welcome { peer, agent: None });
    turn.effect(Effect::BeginBridge { peer, epoch: wish.epoch });
    turn.effect(Effect::Announce { peer });
}

pub(crate) fn disconnected(live: &mut Live, peer: PeerId) {
    if live.bridge.peer == Some(peer) {
        live.bridge.peer = None;
        live.bridge.handed.clear();
        live.bridge.report = Report::default();
    }
}

/// Gives the bridge what is open and what it has room for: as much for each daemon as can be on its way, so that one that is
/// away keeps nobody waiting.
pub(crate) fn hand_over(turn: &mut Turn<'_>) {
    let last = turn.durable.outbox.carried_last();
    let bridge = &mut turn.live.bridge;
    let Some(peer) = bridge.peer.filter(|_| bridge.due || last > bridge.looked_at) else { return };
    bridge.due = false;
    bridge.looked_at = last;
    let mut given = Vec::new();
    for it in turn.durable.outbox.carried() {
        let Some(daemon) = it.to.peer() else { continue };
        let handed = bridge.handed.entry(daemon.to_owned()).or_default();
        if handed.len() < limits::BRIDGE_WINDOW_MAX && handed.insert(it.id) {
            given.push(it.id);
        }
    }
    for outgoing in given {
        turn.effect(Effect::Carry { peer, outgoing });
    }
}

/// The other daemon by what the user calls it, or by its fingerprint.
pub(crate) fn daemon(live: &Live, given: &str) -> Result<String, Denial> {
    let known = live.bridge.report.peers.iter();
    let found = known.clone().find(|it| it.name == given || it.fingerprint == given);
    if let Some(found) = found {
        return Ok(found.fingerprint.clone());
    }
    if is_fingerprint(given) {
        return Ok(given.to_owned());
    }
    Err(Denial::NoSuch { what: "trusted peer", given: given.to_owned() })
}

/// What became of a row, by the word of the other daemon.
pub(crate) fn told(turn: &mut Turn<'_>, id: MessageId, fate: Fate) {
    for handed in turn.live.bridge.handed.values_mut() {
        turn.live.bridge.due |= handed.remove(&id);
    }
    let Some(it) = turn.durable.outbox.get(id).filter(|it| it.state == State::Accepted) else {
        return;
    };
    if it.to.peer().is_none() {
        return;
    }
    if it.is_of_host() {
        return host::told(turn, it, &fate);
    }
    match fate {
        Fate::Taken => moved(turn, it, State::Delivered, ""),
        Fate::Refused(why) => {
            moved(turn, it, State::Bounced, &shortened(&why));
            handing::tell_sender(turn, it, "was refused there and was not read");
        }
        Fate::Expired => expired(turn, it),
    }
}

fn expired(turn: &mut Turn<'_>, it: &Outgoing) {
    let days = limits::BRIDGE_KEPT_MS / (24 * 60 * 60 * 1_000);
    let why = format!("its machine was not reachable for {days} days");
    moved(turn, it, State::Expired, &why);
    handing::tell_sender(turn, it, "expired and was not read");
}

/// What waited for too long expires here too: the bridge may be switched off.
pub(crate) fn expire(turn: &mut Turn<'_>) {
    for it in turn.durable.outbox.carried() {
        let before = turn.now.wall_ms.saturating_sub(it.kept_ms() + limits::FORGET_EVERY_MS);
        if it.accepted_ms >= before {
            continue;
        }
        if it.is_of_host() {
            host::told(turn, it, &Fate::Expired);
        } else {
            expired(turn, it);
        }
    }
}

/// Judges a row from another daemon.
pub(crate) fn bring(turn: &mut Turn<'_>, mut it: Brought) -> Decision {
    if turn.live.is_ending() || turn.live.disk_full {
        return Decision::Later;
    }
    if !is_fingerprint(&it.peer) || it.message.is_empty() {
        return Decision::Refused("it has no sender or no id".to_owned());
    }
    let from = Outside {
        address: Place::Remote { peer: it.peer.clone(), session: shortened(&it.from) },
        name: shortened(&format!("{}@{}", it.name, it.peer_name)),
        bypasses: it.bypasses,
        verified: true,
        message: shortened(&it.message),
    };
    match core::mem::replace(&mut it.says, Says::NotifyWhenIdle) {
        Says::Words { text, summary } => {
            let words = Words { text, summary };
            words_for(turn, (&it.to, &it.peer), &from, words)
        }
        Says::Status { of, verdict, reason } => {
            handing::status(turn, &from, &of, verdict, &reason);
            Decision::Taken
        }
        Says::Host(told) => guest::bring(turn, &it, from, told),
        Says::NotifyWhenIdle | Says::Idle { .. } => {
            Decision::Refused("this kind of message is not sent between machines".to_owned())
        }
    }
}

fn words_for(
    turn: &mut Turn<'_>,
    (to, peer): (&str, &str),
    from: &Outside,
    words: Words,
) -> Decision {
    // The bridge, or this daemon, died before the other one was told.
    if turn.durable.heard.contains_key(&(from.address.clone(), from.message.clone())) {
        return Decision::Taken;
    }
    // It fetches too slowly what is said of its messages: no more of them are taken before it does.
    if turn.durable.outbox.statuses_len_to(peer) >= limits::BRIDGE_STATUSES_OF_ONE_MAX {
        return Decision::Later;
    }
    let session = turn.durable.sessions.get(&SessionId(to.to_owned()));
    // Whether there is such a session is not told to who may not write to it.
    let Some(session) = session.filter(|it| it.hears(peer)) else {
        let why = "no session with that id takes messages from this machine; its user allows it with \
                   `coordctl bridge allow`";
        return Decision::Refused(why.to_owned());
    };
    match outside::arrive(turn, session, from, words) {
        Ok(_) => Decision::Taken,
        Err(why) => Decision::Refused(why),
    }
}

/// Words of ours for a session on another machine, ready to be put.
pub(crate) fn outgoing(
    now: &Moment,
    id: MessageId,
    session: Option<SessionId>,
    from: Sender,
    to: Place,
    (text, summary): (&str, &str),
) -> Outgoing {
    let summary = summary.chars().take(limits::SUMMARY_LEN_MAX).collect();
    let kind = outgoing::Kind::Words { summary, notice_id: None };
    Outgoing::new(now, id, session, from, to, kind, text.to_owned())
}
