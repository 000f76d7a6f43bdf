//! Errors of a model, in the three classes of W-8, each with what to do about it.

use std::io;
use std::path::PathBuf;

use super::rehearsal::ScriptError;
use super::verdict::Refused;

/// What the lead can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// Later it may work as it is.
    Retryable,
    /// It works when something about the request is changed.
    Adjust,
    /// A person has to act.
    Fatal,
}

/// Why there is no answer. No variant holds a key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelError {
    #[error("no key for the model is set: set {variables} in the environment")]
    KeyMissing { variables: &'static str },
    #[error(
        "{variable} holds a character that cannot be in an HTTP header: set it again, without line \
         breaks"
    )]
    KeyMalformed { variable: &'static str },
    #[error("the key was refused by {url} (HTTP {status}{said}): check {variables}")]
    KeyRefused { url: String, status: u16, said: String, variables: &'static str },
    #[error(
        "no model is configured: give --model, or set one in the configuration or the environment"
    )]
    ModelMissing,
    #[error(
        "{url} does not know the model `{model}` (HTTP {status}{said}): check the model's name and \
         {base_variable}{offered}"
    )]
    ModelUnknown {
        url: String,
        status: u16,
        model: String,
        said: String,
        base_variable: &'static str,
        /// What the key offers, as a sentence; empty where that is not known.
        offered: String,
    },
    #[error("{variable} is no address of a proxy ({problem}): write http://HOST:PORT, or unset it")]
    BadProxy { variable: &'static str, problem: String },
    #[error("{variable} names {}, which cannot be read: mend it, or unset {variable}", path.display())]
    RootsUnreadable {
        variable: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{variable} names {}, which has no certificate in it: mend it, or unset {variable}", path.display())]
    NoRoots { variable: &'static str, path: PathBuf },
    #[error("{variable} must be a whole number from {least} to {most}")]
    BadSetting { variable: &'static str, least: u64, most: u64 },
    #[error("the base URL `{given}` is not valid ({problem}): check {base_variable}")]
    BadBaseUrl { given: String, problem: String, base_variable: &'static str },
    #[error(
        "cannot reach the model at {url}{through} (tried {tries} times): check that a server runs there, \
         the network, and {base_variable}"
    )]
    Unreachable {
        url: String,
        base_variable: &'static str,
        /// The proxy, where there is one.
        through: String,
        tries: u32,
        #[source]
        source: reqwest::Error,
    },
    #[error(
        "the model at {url} is overloaded or limits requests (HTTP {status}{said}; tried {tries} \
         times): try again later"
    )]
    Busy { url: String, status: u16, said: String, told_ms: Option<u64>, tries: u32 },
    #[error("the answer of {url} was cut off ({problem}; tried {tries} times): try again")]
    Broken { url: String, problem: String, tries: u32 },
    #[error("the conversation is too long for the model ({said}): shorten it, or start a new one")]
    ContextTooLong { said: String },
    #[error("{url} refused the request (HTTP {status}{said})")]
    Refused { url: String, status: u16, said: String },
    #[error(
        "the model at {url} answered with nothing ({problem}), twice: ask again, or change the task"
    )]
    Empty { url: String, problem: String },
    #[error("the answer of {url} is not understood ({problem}): check {base_variable}")]
    NotAModel { url: String, problem: String, base_variable: &'static str },
    #[error(
        "cannot set up the HTTP client: check the system's certificates (package ca-certificates)"
    )]
    HttpClient {
        #[source]
        source: reqwest::Error,
    },
    #[error("the request cannot be written as JSON")]
    Encode {
        #[source]
        source: serde_json::Error,
    },
    #[error("the rehearsal script cannot be used")]
    Script {
        #[source]
        source: ScriptError,
    },
    #[error("cannot serve the rehearsal model on 127.0.0.1: check that loopback is up")]
    RehearsalServer {
        #[source]
        source: io::Error,
    },
}

impl ModelError {
    /// The class of W-8.
    pub(crate) fn class(&self) -> FailureClass {
        match self {
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::Broken { .. }
            | Self::Empty { .. }
            | Self::RehearsalServer { .. } => FailureClass::Retryable,
            Self::ContextTooLong { .. } => FailureClass::Adjust,
            Self::KeyMissing { .. }
            | Self::KeyMalformed { .. }
            | Self::KeyRefused { .. }
            | Self::ModelMissing
            | Self::ModelUnknown { .. }
            | Self::BadBaseUrl { .. }
            | Self::BadSetting { .. }
            | Self::BadProxy { .. }
            | Self::RootsUnreadable { .. }
            | Self::NoRoots { .. }
            | Self::Refused { .. }
            | Self::NotAModel { .. }
            | Self::HttpClient { .. }
            | Self::Encode { .. }
            | Self::Script { .. } => FailureClass::Fatal,
        }
    }

    /// The number of tries, once that is known.
    pub(super) fn after_tries(mut self, count: u32) -> Self {
        if let Self::Unreachable { tries, .. }
        | Self::Busy { tries, .. }
        | Self::Broken { tries, .. } = &mut self
        {
            *tries = count;
        }
        self
    }

    /// The text for people who watch the wait.
    pub(super) fn why_waiting(&self) -> String {
        if let Self::Busy { status, said, .. } = self {
            return format!("the model is overloaded or limits requests (HTTP {status}{said})");
        }
        if let Self::Unreachable { url, .. } = self {
            return format!("cannot reach the model at {url}");
        }
        if let Self::Broken { problem, .. } = self {
            return format!("the answer was cut off ({problem})");
        }
        self.to_string()
    }
}

/// How one attempt ended without an answer.
#[derive(Debug)]
pub(super) enum Setback {
    /// Trying again is of no use.
    Final(ModelError),
    /// It may work later; the server may have said when.
    Passing { error: ModelError, told_ms: Option<u64> },
    /// It may work without what the server refuses; else it is this error.
    Adjusts { refused: Refused, error: ModelError },
    /// The answer was whole, and said nothing; why.
    Empty(String),
}

impl Setback {
    pub(super) fn passing(error: ModelError) -> Self {
        Self::Passing { error, told_ms: None }
    }
}
