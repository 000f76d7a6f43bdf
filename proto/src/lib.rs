//! What crosses coordd's socket, or lands in a file that other programs read.
//!
//! `PROTOCOL.md` beside this crate's manifest is the description for other programs; these types
//! are what the programs of this repository use. Nothing here does I/O: the decoders are fed bytes
//! and never read any, so that the blocking client and the async daemon share one implementation.
//!
//! The same types travel in two codecs ([`frame`] and [`mod@line`], behind the interface of [`codec`]). bincode names no fields, so
//! a type here uses no untagged or internally tagged enum, no `flatten`, and no
//! `skip_serializing_if`; free-form JSON travels as [`json::Json`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod bridge;
pub mod codec;
pub mod entry;
pub mod error;
pub mod event;
pub mod frame;
pub mod hello;
pub mod json;
pub mod line;
pub mod message;
pub mod notification;
pub mod request;
pub mod response;
pub mod screen;
#[cfg(feature = "skew")]
pub mod skew;
pub mod team;
pub mod teammate;
pub mod unknown;
pub mod view;

use serde::{Deserialize, Serialize};

/// What a peer may send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToDaemon {
    /// The first thing on every connection.
    Hello(hello::Hello),
    /// Asks for something; one [`FromDaemon::Reply`] with the same id follows.
    Call(Call),
    /// What an agent process says about itself; nothing follows. Refused from anyone else.
    Report(agent::Report),
}

/// What the daemon sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromDaemon {
    /// The answer to a hello.
    Welcome(hello::Welcome),
    /// The answer to a call.
    Reply(Reply),
    /// Something that a subscribed peer is told.
    Event(Box<event::Numbered>),
    /// What an agent process is told to do. Only agents get these.
    Order(agent::Order),
    /// What the bridge process is told. Only it gets these.
    Bridge(bridge::Order),
    /// The connection is about to be closed, and why.
    Closing(error::ErrorBody),
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Chosen by the caller, unique among its open calls on this connection.
    pub id: u64,
    /// Idempotency key, at most 128 bytes. The same caller repeating a call with the same key gets
    /// the first call's answer, and nothing is done twice.
    #[serde(default)]
    pub key: Option<String>,
    /// What is asked for.
    pub request: request::Request,
}

/// The answer to one [`Call`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The call's id.
    pub id: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// Granted or denied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done, or accepted where the response says so.
    Ok(Box<response::Response>),
    /// Not done; nothing changed.
    Error(error::ErrorBody),
}

pub use proto_words::{WallMs, address, text};
