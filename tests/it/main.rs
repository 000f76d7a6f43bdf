//! The tests of whole programs: the real daemon, real sockets, real agent processes. One file a
//! feature.
//!
//! Run them with `tests/run`; `tests/README.md` says how to run one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and so do the functions it is made of; it looks for one thing among many"
)]

mod ages;
mod attacks;
mod bad_input;
mod bounded;
mod claude;
mod cli;
mod coordctl;
mod corpus;
mod crash;
mod damage;
mod demo;
mod examples;
mod full;
mod gone;
mod ground;
mod identity;
mod llm;
mod mcp;
mod mcp_install;
mod messages;
mod native;
mod nats;
mod notifications;
mod others;
mod peers;
mod permissions;
mod questions;
mod readme;
mod recorded;
mod roles;
mod sandbox;
mod scratchpad;
mod sessions;
mod socket;
mod stop;
mod systemd;
mod teammates;
mod teams;
mod terminals;
mod tidy;
mod way_out;
mod worked;
