//! How much may wait for other machines.

use crate::rules::Step;
use crate::state::denial::Denial;
use crate::state::{Durable, Record, limits};

/// What a text comes to as JSON, in which it travels: control characters take six bytes.
pub(crate) fn escaped_len(text: &str) -> usize {
    let len = |it: u8| match it {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(len).sum()
}

/// Whether one more message may wait for the bridge. What is said of others' messages takes no room from it.
pub(crate) fn has_room(durable: &Durable, step: &Step, len: usize) -> Result<(), Denial> {
    let words = durable.outbox.carried_len().saturating_sub(durable.outbox.statuses_len());
    if words + put_now(step) >= limits::BRIDGE_OPEN_MAX {
        let max = limits::BRIDGE_OPEN_MAX;
        return Err(Denial::Full { what: "messages on their way to other machines", max });
    }
    if durable.outbox.carried_bytes() + len > limits::BRIDGE_BYTES_MAX {
        let max = limits::BRIDGE_BYTES_MAX;
        return Err(Denial::Full { what: "bytes on their way to other machines", max });
    }
    Ok(())
}

/// Whether it can be said what became of one more message from there. There is room for all that were taken.
pub(crate) fn has_room_for_status(durable: &Durable, step: &Step) -> bool {
    durable.outbox.statuses_len() + put_now(step) < limits::BRIDGE_STATUSES_MAX
}

fn put_now(step: &Step) -> usize {
    step.records.iter().filter(|it| matches!(it, Record::OutgoingPut { .. })).count()
}
