//! What is said to the outside: to other programs' sockets, and over the bridge to other machines (M-6, M-11). What becomes of
//! it is in `handing.rs` and `host.rs`.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::{String, ToString as _};

use proto_words::address::Place;

use crate::rules::turn::Turn;
use crate::state::agent::{Agent, Outcome};
use crate::state::denial::Denial;
use crate::state::far::Far;
use crate::state::id::{MessageId, SessionId};
use crate::state::message::{Message, Outside, Sender, State};
use crate::state::outgoing::{Kind, Outgoing, Verdict};
use crate::state::{Effect, Record, limits};

/// Has a message handed out.
pub(crate) fn put(turn: &mut Turn<'_>, it: Outgoing) {
    let (outgoing, is_carried) = (it.id, it.is_carried());
    turn.record(Record::OutgoingPut { outgoing: Box::new(it) });
    // What goes over the bridge waits for it, and is handed over by `settle`.
    if !is_carried {
        turn.effect(Effect::HandOut { outgoing });
    }
}

/// More is known of a message.
pub(crate) fn moved(turn: &mut Turn<'_>, it: &Outgoing, state: State, reason: &str) {
    let (reason, at_ms) = (reason.to_owned(), turn.now.wall_ms);
    turn.record(Record::OutgoingMoved { outgoing: it.id, state, reason, at_ms });
}

/// Something that coordd itself says to somebody outside of a session.
pub(crate) struct Notice<'n> {
    pub(crate) session: Option<&'n SessionId>,
    pub(crate) to: &'n Outside,
    pub(crate) kind: Kind,
    pub(crate) text: &'n str,
    /// Whether it is said however much is on its way. Otherwise it is best effort, and left out when there is too much.
    pub(crate) surely: bool,
}

/// Says it, where there is somewhere to say it.
pub(crate) fn say(turn: &mut Turn<'_>, notice: Notice<'_>) {
    let Notice { session, to, kind, text, surely } = notice;
    let open = turn.durable.outbox.open_len() + turn.outgoing_put();
    let has_room = match &to.address {
        Place::Remote { .. } => surely || has_room_for_status(turn),
        Place::Socket(_) => open < limits::OUTGOING_OPEN_MAX,
        Place::Local(_) | Place::Other(_) => false,
    };
    if !has_room {
        return;
    }
    let id = turn.number();
    let (session, to, text) = (session.cloned(), to.address.clone(), text.to_owned());
    put(turn, Outgoing::new(turn.now, id, session, Sender::System, to, kind, text));
}

/// Says to somebody outside what became of its message, where it can be told.
pub(crate) fn tell(
    turn: &mut Turn<'_>,
    session: Option<&SessionId>,
    to: &Outside,
    verdict: Verdict,
    reason: &str,
) {
    if !to.message.is_empty() {
        let kind = Kind::Status { of: to.message.clone(), verdict };
        say(turn, Notice { session, to, kind, text: reason, surely: false });
    }
}

/// Tells the sender of a message from outside what became of it.
pub(crate) fn give_back(turn: &mut Turn<'_>, message: &Message, verdict: Verdict, reason: &str) {
    let Sender::Outside(to) = &message.from else { return };
    if to.message.is_empty() {
        return;
    }
    // What becomes of a guest's mail is part of its run, which the other machine keeps account of.
    let receiver = turn.durable.agents.get(&message.to);
    let surely = receiver.is_some_and(|it| it.far_lead().is_some());
    let kind = Kind::Status { of: to.message.clone(), verdict };
    let session = Some(&message.session);
    say(turn, Notice { session, to, kind, text: reason, surely });
}

/// Says something about an agent that belongs to two machines to the other one.
pub(crate) fn say_far(
    turn: &mut Turn<'_>,
    agent: &Agent,
    from: Sender,
    far: &Far,
    kind: Kind,
    text: String,
) {
    let id = turn.number();
    let to = Place::Remote { peer: far.peer.clone(), session: far.session.clone() };
    put(turn, Outgoing::new(turn.now, id, Some(agent.session.clone()), from, to, kind, text));
}

/// Has a message of a worker's mailbox carried to its machine, where it is on another one.
pub(crate) fn carry(turn: &mut Turn<'_>, to: &Agent, message: MessageId) {
    if let Some(far) = to.far.as_ref().filter(|_| to.is_hosted()) {
        let kind = Kind::Work { agent: to.id.clone(), message };
        // The sender is told by the message's own receipt, not by this one's.
        say_far(turn, to, Sender::Agent(to.id.clone()), far, kind, String::new());
    }
}

/// Tells the lead's machine how a run ended. However much is on its way already: this is what the work was done for.
pub(crate) fn tell_end(turn: &mut Turn<'_>, agent: &Agent, far: &Far, outcome: Outcome) {
    tell_outcome(turn, agent, far, outcome, false);
}

/// Tells the lead's machine that there was nothing to stop, since it may have missed an end.
pub(crate) fn tell_nothing(turn: &mut Turn<'_>, agent: &Agent, far: &Far, outcome: Outcome) {
    tell_outcome(turn, agent, far, outcome, true);
}

fn tell_outcome(
    turn: &mut Turn<'_>,
    agent: &Agent,
    far: &Far,
    mut outcome: Outcome,
    had_nothing: bool,
) {
    let text = core::mem::take(&mut outcome.result);
    let kind = Kind::Ended { agent: far.agent.clone(), outcome, had_nothing };
    say_far(turn, agent, Sender::System, far, kind, text);
}

/// Whether one more message may wait for a worker's machine. Others have no such bound.
pub(crate) fn check(turn: &Turn<'_>, to: &Agent, text: &str) -> Result<(), Denial> {
    if !to.is_hosted() {
        return Ok(());
    }
    if turn.durable.bridge.is_none_or(|it| !it.on) {
        return Err(Denial::BridgeOff);
    }
    let session = turn.durable.sessions.get(&to.session);
    if let (Some(far), Some(session)) = (&to.far, session)
        && !session.may_write_to(&far.peer)
    {
        let (session, peer) = (session.name.to_string(), far.peer.clone());
        return Err(Denial::NotBridged { session, peer });
    }
    has_room(turn, text)
}

/// Whether one more message may wait for the bridge. What is said of others' messages takes no room from it.
pub(crate) fn has_room(turn: &Turn<'_>, text: &str) -> Result<(), Denial> {
    let (len, max) = (escaped_len(text), limits::BRIDGE_TEXT_LEN_MAX);
    if len > max {
        return Err(Denial::TooLarge { field: "message, escaped", len, max });
    }
    let outbox = &turn.durable.outbox;
    let words = outbox.carried_len().saturating_sub(outbox.statuses_len());
    if words + turn.outgoing_put() >= limits::BRIDGE_OPEN_MAX {
        let max = limits::BRIDGE_OPEN_MAX;
        return Err(Denial::Full { what: "messages on their way to other machines", max });
    }
    if outbox.carried_bytes() + text.len() > limits::BRIDGE_BYTES_MAX {
        let max = limits::BRIDGE_BYTES_MAX;
        return Err(Denial::Full { what: "bytes on their way to other machines", max });
    }
    Ok(())
}

/// Whether it can be said what became of one more message from there. There is room for all that were taken.
fn has_room_for_status(turn: &Turn<'_>) -> bool {
    turn.durable.outbox.statuses_len() + turn.outgoing_put() < limits::BRIDGE_STATUSES_MAX
}

/// What a text comes to as JSON, in which it travels: control characters take six bytes.
fn escaped_len(text: &str) -> usize {
    let len = |it: u8| match it {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(len).sum()
}
