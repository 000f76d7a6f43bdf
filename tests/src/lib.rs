//! What the tests of whole programs are made of: a sandbox, the real daemon in it, clients,
//! scripted models and agents.
//!
//! ```text
//!   Sandbox   a folder with a home, a runtime folder, a state folder … of its own; nothing outlives it
//!   Daemon    a Sandbox with the real coordd in it
//!   Client    a connection, in either codec
//!   Agents    stand-ins for agent processes, so that a test can act in any role
//!   cli       the CLIs that people already run, and a model for them
//! ```
//!
//! Nothing here waits for a time to pass: everything waits for a condition, with a limit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and so does what it is made of; it looks for one thing among many"
)]

pub mod agents;
pub mod boxes;
pub mod cli;
pub mod client;
pub mod daemon;
pub mod endpoint;
pub mod forwarder;
pub mod fuzz;
pub mod history;
pub mod kept;

pub mod llm;
pub mod mcp;
pub mod nats;
pub mod outsider;
pub mod processes;
pub mod questions;
pub mod rehearsal;
pub mod sandbox;
pub mod story;
pub mod stubborn;
pub mod teammate;
pub mod wait;

pub use agents::{Agents, FakeAgent};
pub use client::{Client, Codec};
pub use daemon::Daemon;
pub use mcp::McpClient;
pub use sandbox::{Ran, Sandbox};
