//! What follows: each *if* about what is. Rules read [`crate::state`] and answer with records and effects.
//!
//! Imports go downwards only: `turn.rs` and what follows from a record at the bottom, then messages and runs, the lives of
//! agents, other programs and machines, requests, and `decide.rs` and `settle.rs` at the top.

mod bridge;
mod call;
mod decide;
mod ending;
mod follows;
mod guest;
mod handing;
mod host;
mod lifecycle;
mod mailbox;
mod making;
mod may;
mod outbox;
mod outside;
mod pty;
mod requests;
pub mod route;
pub mod runs;
mod scratchpad;
mod settle;
mod starting;
mod task;
mod terminal;
mod tick;
mod turn;

pub use decide::decide;
pub use settle::settle;
pub use turn::Step;
