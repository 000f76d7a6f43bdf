//! The bridge: what the user wishes of it, and what it says itself (M-7).

use alloc::borrow::ToOwned as _;
use alloc::string::ToString as _;

use proto_words::address::Place;

use crate::rules::bridge;
use crate::rules::call::{Call, Said, Verdict};
use crate::rules::turn::Turn;
use crate::rules::{outbox, route};
use crate::state::answer::{Answer, SendRow};
use crate::state::bridge::{Brought, Fate, Report};
use crate::state::denial::Denial;
use crate::state::id::MessageId;
use crate::state::live::Caller;
use crate::state::record::Keyed;
use crate::state::{Effect, Live, Record, limits};

/// Switches it on or off. On again means that its settings changed: it is started anew.
pub(super) fn set(turn: &mut Turn<'_>, on: bool) -> Said {
    let before = turn.durable.bridge;
    if before.is_none_or(|it| it.on != on) {
        let epoch = before.map_or(turn.now.wall_ms, |it| it.epoch);
        turn.record(Record::BridgeSet { on, epoch });
    }
    if let Some(peer) = turn.live.bridge.peer.filter(|_| !on) {
        turn.live.forget_peer(peer);
        bridge::disconnected(turn.live, peer);
        turn.effect(Effect::Close { peer, denial: Denial::BadCredentials });
    }
    turn.live.bridge.ended.clear();
    turn.effect(Effect::WantBridge { on });
    Said::Now(Answer::Done)
}

/// Says what a session may exchange with another daemon.
pub(super) fn allow(
    turn: &mut Turn<'_>,
    session: &str,
    peer: &str,
    inbound: bool,
    outbound: bool,
) -> Verdict {
    let session = route::session(turn.durable, session)?;
    let peer = bridge::daemon(turn.live, peer)?;
    let is_new = session.bridged.iter().all(|it| it.peer != peer);
    if is_new && (inbound || outbound) && session.bridged.len() >= limits::BRIDGED_MAX {
        return Err(Denial::Full { what: "machines of one session", max: limits::BRIDGED_MAX });
    }
    let id = session.id.clone();
    turn.record(Record::BridgeAllowed { session: id.clone(), peer, inbound, outbound });
    if let Some(peer) = turn.live.bridge.peer {
        turn.effect(Effect::Announce { peer });
    }
    Ok(Said::Now(Answer::Session(id)))
}

/// Words to the lead of a session on another machine. Accepted means that they are on this disk.
pub(super) fn send(
    call: &Call,
    turn: &mut Turn<'_>,
    to: &str,
    text: &str,
    summary: &str,
) -> Verdict {
    let place = Place::remote(to);
    let Some((place, peer)) = place.as_ref().and_then(|place| Some((place, place.peer()?))) else {
        return Err(Denial::NoSuch { what: "session on another machine", given: to.to_owned() });
    };
    if turn.durable.bridge.is_none_or(|it| !it.on) {
        return Err(Denial::BridgeOff);
    }
    let known = &turn.live.bridge.report.peers;
    if turn.live.bridge.peer.is_some()
        && !known.is_empty()
        && known.iter().all(|it| it.fingerprint != peer)
    {
        return Err(Denial::NotTrusted { peer: peer.to_owned() });
    }
    let session = match &call.caller {
        Caller::Agent(agent) => {
            let own = turn.durable.agents.get(agent).ok_or(Denial::BadCredentials)?;
            let own = turn.durable.sessions.get(&own.session).ok_or(Denial::BadCredentials)?;
            if !own.may_write_to(peer) {
                let (session, peer) = (own.name.to_string(), peer.to_owned());
                return Err(Denial::NotBridged { session, peer });
            }
            Some(own.id.clone())
        }
        // The user's own decision.
        Caller::User | Caller::Bridge | Caller::ProgramOf(_) => None,
    };
    outbox::has_room(turn, text)?;
    let id = turn.number();
    let from = super::sending::sender(call);
    let it = bridge::outgoing(turn.now, id, session, from, place.clone(), (text, summary));
    outbox::put(turn, it);
    let note = "it is in transit; it waits here until that machine has it".to_owned();
    let to = place.to_string();
    let row = SendRow::Accepted { to, id, ahead: 0, note, request_id: None };
    call.remember(turn, Keyed::Sent([row.clone()].to_vec()));
    Ok(Said::Now(Answer::Sent([row].to_vec())))
}

pub(super) fn told(turn: &mut Turn<'_>, id: MessageId, fate: Fate) -> Said {
    bridge::told(turn, id, fate);
    Said::Now(Answer::Done)
}

pub(super) fn bring(turn: &mut Turn<'_>, it: Brought) -> Said {
    Said::Now(Answer::Brought(bridge::bring(turn, it)))
}

pub(super) fn report(live: &mut Live, report: Report) -> Said {
    live.bridge.report = report;
    Said::Now(Answer::Done)
}
