//! The bridge: what the user wishes of it, and what it says itself (M-7).

use super::{Call, Said, Verdict};
use crate::rules::bridge;
use crate::rules::mailbox::Numbers;
use crate::rules::{Step, outside, route};
use crate::state::answer::{Answer, SendRow};
use crate::state::bridge::{Brought, Fate, Report, parts};
use crate::state::denial::Denial;
use crate::state::id::MessageId;
use crate::state::live::Caller;
use crate::state::record::Keyed;
use crate::state::{Effect, Live, Record, limits};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::ToString as _;

/// Switches it on or off. On again means that its settings changed: it is started anew.
pub(super) fn set(call: &Call<'_>, live: &mut Live, step: &mut Step, on: bool) -> Said {
    let before = call.durable.bridge;
    if before.is_none_or(|it| it.on != on) {
        let epoch = before.map_or(call.now.wall_ms, |it| it.epoch);
        step.record(Record::BridgeSet { on, epoch });
    }
    if let Some(peer) = live.bridge.peer.filter(|_| !on) {
        live.forget_peer(peer);
        bridge::disconnected(live, peer);
        step.effect(Effect::Close { peer, denial: Denial::BadCredentials });
    }
    live.bridge.ended.clear();
    step.effect(Effect::WantBridge { on });
    Said::Now(Answer::Done)
}

/// Says what a session may exchange with another daemon.
pub(super) fn allow(
    call: &Call<'_>,
    live: &Live,
    step: &mut Step,
    (session, peer): (&str, &str),
    (inbound, outbound): (bool, bool),
) -> Verdict {
    let session = route::session(call.durable, session)?;
    let peer = bridge::daemon(live, peer)?;
    let is_new = session.bridged.iter().all(|it| it.peer != peer);
    if is_new && (inbound || outbound) && session.bridged.len() >= limits::BRIDGED_MAX {
        return Err(Denial::Full { what: "machines of one session", max: limits::BRIDGED_MAX });
    }
    let id = session.id.clone();
    step.record(Record::BridgeAllowed { session: id.clone(), peer, inbound, outbound });
    if let Some(peer) = live.bridge.peer {
        step.effect(Effect::Announce { peer });
    }
    Ok(Said::Now(Answer::Session(id)))
}

/// Words to the lead of a session on another machine. Accepted means that they are on this disk.
pub(super) fn send(
    call: &Call<'_>,
    live: &Live,
    step: &mut Step,
    to: &str,
    (text, summary): (&str, &str),
) -> Verdict {
    let Some((peer, _)) = parts(to) else {
        return Err(Denial::NoSuch { what: "session on another machine", given: to.to_owned() });
    };
    if call.durable.bridge.is_none_or(|it| !it.on) {
        return Err(Denial::BridgeOff);
    }
    let known = &live.bridge.report.peers;
    if live.bridge.peer.is_some()
        && !known.is_empty()
        && known.iter().all(|it| it.fingerprint != peer)
    {
        return Err(Denial::NotTrusted { peer: peer.to_owned() });
    }
    let session = match &call.caller {
        Caller::Agent(agent) => {
            let own = call.durable.agents.get(agent).ok_or(Denial::BadCredentials)?;
            let own = call.durable.sessions.get(&own.session).ok_or(Denial::BadCredentials)?;
            if !own.may_write_to(peer) {
                let (session, peer) = (own.name.to_string(), peer.to_owned());
                return Err(Denial::NotBridged { session, peer });
            }
            Some(own.id.clone())
        }
        // The user's own decision.
        Caller::User | Caller::Bridge => None,
    };
    let len = bridge::escaped_len(text);
    if len > limits::BRIDGE_TEXT_LEN_MAX {
        let max = limits::BRIDGE_TEXT_LEN_MAX;
        return Err(Denial::TooLarge { field: "message, escaped", len, max });
    }
    bridge::has_room(call.durable, step, text.len())?;
    let id = Numbers::after(call.durable, step).next();
    let from = super::sending::sender(call);
    let it = bridge::outgoing(call.now, id, session, from, to, (text, summary));
    outside::put(step, it);
    let note = "it is on its way; it waits here until that machine has it".to_owned();
    let to = format!("bridge:{to}");
    let row = SendRow::Accepted { to, id, ahead: 0, note, request_id: None };
    call.remember(step, Keyed::Sent([row.clone()].to_vec()));
    Ok(Said::Now(Answer::Sent([row].to_vec())))
}

pub(super) fn told(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    id: MessageId,
    fate: Fate,
) -> Said {
    bridge::told(call.durable, live, step, call.now, id, fate);
    Said::Now(Answer::Done)
}

pub(super) fn bring(call: &Call<'_>, live: &mut Live, step: &mut Step, it: Brought) -> Said {
    Said::Now(Answer::Brought(bridge::bring(call.durable, live, step, call.now, it)))
}

pub(super) fn report(live: &mut Live, report: Report) -> Said {
    live.bridge.report = report;
    Said::Now(Answer::Done)
}
