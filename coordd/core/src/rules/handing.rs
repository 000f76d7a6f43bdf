//! What becomes of what is said to the outside: it got there or not, and what the other side says of it later (M-11, A25).

use crate::rules::mailbox::{self, Draft, Numbers};
use crate::rules::outside::shortened;
use crate::rules::{Step, host};
use crate::state::effect::Event;
use crate::state::id::{MessageId, SessionId};
use crate::state::message::{Kind, Outside, Sender, State};
use crate::state::outgoing::{self, Outgoing, Verdict};
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// What was handed over, or could not be.
pub(crate) fn handed(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    id: MessageId,
    failed: Option<&str>,
) {
    let Some(it) = durable.outbox.get(id).filter(|it| it.state == State::Accepted) else { return };
    match failed {
        None => moved(step, now, it, State::Delivered, ""),
        Some(why) => moved(step, now, it, State::Bounced, why),
    }
}

/// After a start: what was on its way may have arrived. It is handed over again while receivers still know it.
pub(crate) fn hand_out_again(durable: &Durable, step: &mut Step, now: &Moment) {
    for it in durable.outbox.open() {
        let is_fresh = now.wall_ms.abs_diff(it.accepted_ms) <= limits::HAND_AGAIN_MS;
        if is_fresh {
            step.effect(Effect::HandOut { outgoing: it.id });
        } else {
            let why = "coordd ended while it handed the message over; it may have been read";
            moved(step, now, it, State::Bounced, why);
        }
    }
}

pub(crate) fn moved(step: &mut Step, now: &Moment, it: &Outgoing, state: State, reason: &str) {
    step.record(Record::OutgoingMoved {
        outgoing: it.id,
        state,
        reason: reason.to_owned(),
        at_ms: now.wall_ms,
    });
    // A worker's mail has a receipt of its own.
    if it.from != Sender::System && !matches!(it.kind, outgoing::Kind::Work { .. }) {
        let session = it.session.clone().unwrap_or_else(|| SessionId(String::new()));
        publish(step, &session, it.id, state);
    }
}

pub(crate) fn publish(step: &mut Step, session: &SessionId, message: MessageId, state: State) {
    let event = Event::MessageChanged { message, state };
    step.effect(Effect::Publish { session: session.clone(), event });
}

/// The message of ours that somebody outside speaks of, if it is its receiver.
fn meant<'a>(durable: &'a Durable, from: &Outside, of: &str) -> Option<&'a Outgoing> {
    let it = durable.outbox.by_wire_id(of)?;
    (from.address == it.address() && !it.state.is_final()).then_some(it)
}

#[expect(clippy::too_many_arguments, reason = "one fact each about one message")]
pub(crate) fn status(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    from: &Outside,
    of: &str,
    verdict: Verdict,
    reason: &str,
) {
    let Some(it) = meant(durable, from, of) else { return };
    if matches!(it.kind, outgoing::Kind::Work { .. }) {
        return host::status(durable, live, step, now, it, verdict, reason);
    }
    let (state, words) = match verdict {
        Verdict::Held if it.state == State::Held => return,
        Verdict::Consumed => return moved(step, now, it, State::Consumed, ""),
        Verdict::Held => (State::Held, "is held there until its user lets it in"),
        Verdict::Expired => (State::Expired, "expired there and was not read"),
        Verdict::Refused => (State::Bounced, "was refused there and was not read"),
    };
    moved(step, now, it, state, &shortened(reason));
    tell_sender(durable, live, step, now, it, words);
}

/// Tells the agent whose message it is. Others' reasons are their words, and stay in the receipt: what coordd says itself is
/// read as coordd's.
pub(crate) fn tell_sender(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    it: &Outgoing,
    words: &str,
) {
    let Sender::Agent(sender) = &it.from else { return };
    let Some(sender) = durable.agents.get(sender) else { return };
    let (id, to) = (it.id, it.address());
    let text = format!("Message {id} to {to} {words}.");
    let summary = format!("{id} {words}");
    let draft = Draft { from: Sender::System, kind: Kind::Text, text, summary };
    let mut numbers = Numbers::after(durable, step);
    mailbox::accept(&mut numbers, live, step, now, sender, draft);
}

pub(crate) fn is_idle(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    from: Outside,
    of: &str,
    detail: &str,
) {
    let Some(it) = meant(durable, &from, of) else { return };
    moved(step, now, it, State::Consumed, "");
    let Sender::Agent(sender) = &it.from else { return };
    let Some(sender) = durable.agents.get(sender) else { return };
    let detail = shortened(detail);
    let text = if detail.is_empty() {
        "I have nothing to do now.".to_owned()
    } else {
        format!("I have nothing to do now. My last words: {detail}")
    };
    let summary = format!("idle, after {}", it.id);
    let from = Sender::Outside(Box::new(from));
    let draft = Draft { from, kind: Kind::Text, text, summary };
    let mut numbers = Numbers::after(durable, step);
    mailbox::accept(&mut numbers, live, step, now, sender, draft);
}
