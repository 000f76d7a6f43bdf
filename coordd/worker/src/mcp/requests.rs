//! The tools of a role as requests to coordd, for a client that is the model's side of an agent.
//!
//! The connection is the agent's own, so coordd judges each call by the role of that agent; nothing
//! is decided here.

use std::cell::Cell;

use proto::agent::Role;

use super::{Answer, Backend, Call};
use crate::definition::Definition;
use crate::link::Link;
use crate::model::ToolSpec;
use crate::orchestration::{self, Audience, Verb};
use crate::tools::ToolOutput;

/// What a role can ask of coordd.
pub(crate) struct Requests {
    link: Link,
    role: Role,
    definitions: Vec<Definition>,
    instructions: String,
    /// Keys must differ from those of other servers of this agent, in this process and in earlier
    /// ones.
    key_prefix: String,
    calls_before: Cell<u64>,
}

impl Requests {
    pub(crate) fn new(
        link: Link,
        role: Role,
        definitions: Vec<Definition>,
        instructions: String,
    ) -> Result<Self, getrandom::Error> {
        let key_prefix = format!("mcp-{:016x}", getrandom::u64()?);
        Ok(Self { link, role, definitions, instructions, key_prefix, calls_before: Cell::new(0) })
    }

    fn audience(&self) -> Audience<'_> {
        Audience { role: self.role, definitions: &self.definitions }
    }

    /// A client never repeats a call by itself, and the link does so with the same key.
    fn next_key(&self) -> String {
        let number = self.calls_before.get() + 1;
        self.calls_before.set(number);
        format!("{}-{number}", self.key_prefix)
    }
}

impl Backend for Requests {
    fn instructions(&self) -> String {
        self.instructions.clone()
    }

    fn tools(&self) -> Vec<ToolSpec> {
        Verb::of_role(self.role).iter().map(|verb| verb.spec(self.audience())).collect()
    }

    async fn call(&self, call: Call) -> Answer {
        let Some(verb) = Verb::of_name(&call.tool) else {
            return ToolOutput::error(format!("There is no tool {:?} here.", call.tool)).into();
        };
        match verb.request(&call.input, self.audience()) {
            Ok(request) => {
                let answer = self.link.call(request, Some(self.next_key())).await;
                orchestration::output(verb, answer).into()
            }
            Err(error) => ToolOutput::error(error.to_string()).into(),
        }
    }
}
