//! What coordd decides, without doing any of it.
//!
//! ```text
//!            Input                     Step { records, effects }
//!  shell ──────────────▶ decide ──▶ apply ──▶ settle ──▶ apply ──▶ … ──────────────▶ shell
//!                       (reads)   (writes)   (reads)                    commits, then acts
//! ```
//!
//! [`Core::turn`] takes one input. [`decide`](rules::decide()) answers it with records, which [`Durable::apply`] carries out, and with
//! effects, which the shell carries out once the records are on disk. [`settle`](rules::settle()) then compares
//! what is with what should be, for the agents that were touched: mail for a connected agent is handed over, mail
//! for one without a process starts it. Because it looks at state and not at what happened, the same code
//! picks everything up after a crash.
//!
//! This crate does no I/O, reads no clock, draws no random numbers and logs nothing: the time and the
//! entropy come with each input as a [`Moment`], and the reactor logs inputs, records and effects.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod rules;
pub mod state;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

pub use rules::{Step, route, runs};
pub use state::{
    Durable, Effect, Input, Live, Moment, Record, agent, answer, bridge, denial, effect, far, id,
    input, limits, live, message, mode, name, outgoing, permission, record, request, role, session,
    settings, task, team, terminal,
};

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
        self.turn_by(now, input, rules::decide, rules::settle)
    }

    /// The same by other rules, which tests make of ours.
    fn turn_by(
        &mut self,
        now: &Moment,
        input: Input,
        decide: impl FnOnce(&Durable, &mut Live, &Moment, Input) -> Step,
        settle: impl Fn(&Durable, &mut Live, &Moment) -> Step,
    ) -> Step {
        let mut whole = decide(&self.durable, &mut self.live, now, input);
        whole.records.iter().for_each(|record| self.durable.apply(record));
        // Each round either starts, hands over or answers something, so the rounds end; the bound is for a bug.
        for round in 0..limits::SETTLE_ROUNDS_MAX {
            let step = settle(&self.durable, &mut self.live, now);
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
