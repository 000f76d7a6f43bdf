//! The ground floor of the four programs: what each of them does, and in the same way.
//!
//! It knows no protocol and no rule of coordd, and needs nothing but the kernel. What has a meaning on the socket is in
//! `proto`, what is decided is in `coordd-core`.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod cause;
mod clock;
pub mod descriptors;
pub mod failpoint;
pub mod files;
pub mod paths;
pub mod processes;
pub mod trust;

pub use cause::chain;
pub use clock::wall_ms;
