//! The vocabulary: what a thing is called and made of, wherever it is named.
//!
//! `proto` puts these words into the messages that cross a socket, `coordd-core` into its records; both re-export them where
//! they are used. Requests, records and views are not here: each side has its own. Of these types bincode demands what it
//! demands of all of `proto`: no untagged or internally tagged enum, no `flatten`, no `skip_serializing_if`.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod address;
pub mod agent;
pub mod bridge;
pub mod message;
pub mod request;
pub mod text;
pub mod view;

/// Time on the wall clock, in milliseconds since 1970-01-01 UTC. For people; never for ordering.
pub type WallMs = u64;
