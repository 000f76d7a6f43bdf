//! What follows: each *if* about what is. Rules read [`crate::state`] and answer with records and effects.

mod bridge;
mod decide;
mod handing;
mod host;
pub mod lifecycle;
mod mailbox;
mod may;
mod outside;
mod pty;
mod requests;
pub mod route;
mod settle;
mod step;
mod task;
mod terminal;
mod tick;

pub use decide::decide;
pub use settle::settle;
pub use step::Step;
