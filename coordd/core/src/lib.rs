//! What coordd decides, without doing any of it.
//!
//! ```text
//!            Input                     Step { records, effects }
//!  shell ──────────────▶ decide ──▶ apply ──▶ settle ──▶ apply ──▶ … ──────────────▶ shell
//!                       (reads)   (writes)   (reads)                    commits, then acts
//! ```
//!
//! [`Core::turn`] takes one input. [`decide`](decide::decide) answers it with records, which [`Durable::apply`] carries out, and with
//! effects, which the shell carries out once the records are on disk. [`settle`](settle::settle) then compares
//! what is with what should be, for the agents that were touched: mail for a connected agent is handed over, mail
//! for one without a process starts it. Because it looks at state and not at what happened, the same code
//! picks everything up after a crash.
//!
//! This crate does no I/O, reads no clock, draws no random numbers and logs nothing: the time and the
//! entropy come with each input as a [`Moment`], and the reactor logs inputs, records and effects.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod agent;
pub mod answer;
pub mod bridge;
pub mod decide;
pub mod denial;
pub mod durable;
pub mod effect;
mod handing;
pub mod host;
pub mod id;
pub mod input;
pub mod lifecycle;
pub mod limits;
pub mod live;
pub mod mailbox;
pub mod message;
pub mod mode;
pub mod name;
pub mod outgoing;
mod outside;
pub mod permission;
mod planted;
pub mod pty;
mod rates;
pub mod record;
pub mod request;
pub mod role;
pub mod route;
pub mod session;
pub mod settle;
mod snapshot;
pub mod task;
pub mod team;
pub mod terminal;
mod text;
mod tick;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use durable::Durable;
pub use effect::Effect;
pub use input::Input;
pub use live::Live;
pub use record::Record;

/// When an input is looked at, and the chance that comes with it.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Milliseconds since 1970. For people: it may jump, so nothing is ordered or timed by it.
    pub wall_ms: u64,
    /// Milliseconds on a clock that never jumps, within one boot of the daemon.
    pub mono_ms: u64,
    /// Fresh randomness: ids and secrets of what this input makes come from it.
    pub random: [u8; 64],
}

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

/// The two halves of the state, and the one way to move them.
#[derive(Debug, Default)]
pub struct Core {
    /// What survives.
    pub durable: Durable,
    /// What is rebuilt after a start.
    pub live: Live,
}

impl Core {
    /// Takes one input. The returned effects may be carried out only once the returned records are durable.
    pub fn turn(&mut self, now: &Moment, input: Input) -> Step {
        let mut whole = decide::decide(&self.durable, &mut self.live, now, input);
        whole.records.iter().for_each(|record| self.durable.apply(record));
        // Each round either starts, hands over or answers something, so the rounds end; the bound is for a bug.
        for round in 0..limits::SETTLE_ROUNDS_MAX {
            let step = settle::settle(&self.durable, &mut self.live, now);
            if step.records.is_empty() && step.effects.is_empty() {
                return whole;
            }
            step.records.iter().for_each(|record| self.durable.apply(record));
            whole.records.extend(step.records);
            whole.effects.extend(step.effects);
            debug_assert!(round + 1 < limits::SETTLE_ROUNDS_MAX, "the state does not settle");
        }
        whole
    }
}
