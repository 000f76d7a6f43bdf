//! A call: what is asked for, by whom, on which connection; and what can be said to it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};

use crate::rules::turn::Turn;
use crate::state::agent::Agent;
use crate::state::answer::Answer;
use crate::state::bridge;
use crate::state::denial::Denial;
use crate::state::id::PeerId;
use crate::state::live::{Caller, Waiter};
use crate::state::record::{Keyed, Record};
use crate::state::role::Asker;
use crate::state::{Durable, Effect};

/// One call.
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) peer: PeerId,
    pub(crate) id: u64,
    pub(crate) key: Option<String>,
}

/// What is said to a call: an answer at once, a promise, or nothing since an effect will answer.
pub(crate) enum Said {
    /// The answer.
    Now(Answer),
    /// It comes when this has happened.
    Later(Waiter),
    /// The shell answers, as the effect says.
    ByShell,
}

pub(crate) type Verdict = Result<Said, Denial>;

impl Call {
    /// The agent that calls, for requests that only agents may make.
    pub(crate) fn agent<'a>(&self, durable: &'a Durable) -> Result<&'a Agent, Denial> {
        let asker = match &self.caller {
            Caller::Agent(id) => return durable.agents.get(id).ok_or(Denial::BadCredentials),
            Caller::User => "the user",
            Caller::Bridge => "the bridge",
            Caller::ProgramOf(_) => Asker::Program.as_str(),
        };
        Err(Denial::Forbidden { asker, request: "this" })
    }

    /// Remembers what this call led to, so that its repetition leads to nothing more.
    pub(crate) fn remember(&self, turn: &mut Turn<'_>, to: Keyed) {
        if let Some(key) = &self.key {
            let (caller, at_ms) = (key_of(&self.caller), turn.now.wall_ms);
            turn.record(Record::Keyed { caller, key: key.clone(), to, at_ms });
        }
    }
}

/// The caller's part of an idempotency key.
pub(crate) fn key_of(caller: &Caller) -> String {
    match caller {
        Caller::User => "user".to_owned(),
        Caller::Bridge => bridge::AGENT.to_owned(),
        Caller::Agent(id) => id.to_string(),
        Caller::ProgramOf(id) => format!("program of {id}"),
    }
}

/// The effect that answers a call.
pub(crate) fn reply(peer: PeerId, call: u64, outcome: Result<Answer, Denial>) -> Effect {
    Effect::Reply { peer, call, outcome }
}
