//! The CLIs that people already run, as they are: each pinned in `tests/cli`, in a sandbox, with a
//! model of ours.
//!
//! What belongs to one feature has a file of its own in `cli/`. These here are about what the
//! others stand on.

mod coordinator;
mod demo;
mod exchange;
mod lead_killed;
mod mcp;
mod peers;
mod pinned;
mod recorded;
mod teammates;
mod worker;
