//! What becomes of what is said to the outside: it got there or not, and what the other side says of it later (M-11, A25).

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;

use crate::rules::host;
use crate::rules::mailbox::{self, Draft};
use crate::rules::outbox::moved;
use crate::rules::turn::Turn;
use crate::state::id::MessageId;
use crate::state::message::{Kind, Outside, Sender, State};
use crate::state::outgoing::{self, Outgoing, Verdict};
use crate::state::text::shortened;
use crate::state::{Durable, Effect, limits};

/// What was handed over, or could not be.
pub(crate) fn handed(turn: &mut Turn<'_>, id: MessageId, failed: Option<&str>) {
    let Some(it) = turn.durable.outbox.get(id).filter(|it| it.state == State::Accepted) else {
        return;
    };
    match failed {
        None => moved(turn, it, State::Delivered, ""),
        Some(why) => moved(turn, it, State::Bounced, why),
    }
}

/// After a start: what was on its way may have arrived. It is handed over again while receivers still know it.
pub(crate) fn hand_out_again(turn: &mut Turn<'_>) {
    for it in turn.durable.outbox.open() {
        let is_fresh = turn.now.wall_ms.abs_diff(it.accepted_ms) <= limits::HAND_AGAIN_MS;
        if is_fresh {
            turn.effect(Effect::HandOut { outgoing: it.id });
        } else {
            let why = "coordd ended while it handed the message over; it may have been read";
            moved(turn, it, State::Bounced, why);
        }
    }
}

/// The message of ours that somebody outside speaks of, if it is its receiver.
fn meant<'a>(durable: &'a Durable, from: &Outside, of: &str) -> Option<&'a Outgoing> {
    let it = durable.outbox.by_wire_id(of)?;
    (from.address == it.to && !it.state.is_final()).then_some(it)
}

pub(crate) fn status(
    turn: &mut Turn<'_>,
    from: &Outside,
    of: &str,
    verdict: Verdict,
    reason: &str,
) {
    let Some(it) = meant(turn.durable, from, of) else { return };
    if matches!(it.kind, outgoing::Kind::Work { .. }) {
        return host::status(turn, it, verdict, reason);
    }
    let (state, words) = match verdict {
        Verdict::Held if it.state == State::Held => return,
        Verdict::Consumed | Verdict::ReadBefore => {
            return moved(turn, it, State::Consumed, "");
        }
        Verdict::Held => (State::Held, "is held there until its user accepts it"),
        Verdict::Expired => (State::Expired, "expired there and was not read"),
        Verdict::Refused => (State::Bounced, "was refused there and was not read"),
    };
    moved(turn, it, state, &shortened(reason));
    tell_sender(turn, it, words);
}

/// Tells the agent whose message it is. Others' reasons are their words, and stay in the receipt: what coordd says itself is
/// read as coordd's.
pub(crate) fn tell_sender(turn: &mut Turn<'_>, it: &Outgoing, words: &str) {
    let Sender::Agent(sender) = &it.from else { return };
    let Some(sender) = turn.durable.agents.get(sender) else { return };
    let (id, to) = (it.id, &it.to);
    let text = format!("Message {id} to {to} {words}.");
    let summary = format!("{id} {words}");
    let draft = Draft { from: Sender::System, kind: Kind::Text, text, summary };
    mailbox::accept(turn, sender, draft);
}

pub(crate) fn is_idle(turn: &mut Turn<'_>, from: Outside, of: &str, detail: &str) {
    let Some(it) = meant(turn.durable, &from, of) else { return };
    moved(turn, it, State::Consumed, "");
    let Sender::Agent(sender) = &it.from else { return };
    let Some(sender) = turn.durable.agents.get(sender) else { return };
    let detail = shortened(detail);
    let text = if detail.is_empty() {
        "I have nothing to do now.".to_owned()
    } else {
        format!("I have nothing to do now. My last words: {detail}")
    };
    let summary = format!("idle, after {}", it.id);
    let from = Sender::Outside(Box::new(from));
    let draft = Draft { from, kind: Kind::Text, text, summary };
    mailbox::accept(turn, sender, draft);
}
