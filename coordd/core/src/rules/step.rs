//! What is decided: records and effects.

use crate::state::{Effect, Record};
use alloc::vec::Vec;

/// What one input led to.
#[derive(Debug, Default)]
pub struct Step {
    /// Made durable first, in this order.
    pub records: Vec<Record>,
    /// Done afterwards, in this order.
    pub effects: Vec<Effect>,
}

impl Step {
    /// Adds a durable change.
    pub(crate) fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Adds something to be done.
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}
