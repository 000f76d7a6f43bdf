//! The tools that are requests to coordd: they start, address and stop agents (C-1, C-7).
//!
//! ```text
//!   input --fields checked--> request --coordd decides--> response --> text for the model
//!                       \--> what is wrong with it             \--> why not, and what to do
//! ```
//!
//! Nothing is decided here: which role may do what is the daemon's word. A call is keyed by its id,
//! so that one repeated after a crash does nothing twice.

mod result;
mod schema;

use proto::agent::{Role, Runtime};
use proto::json::Json;
use proto::message::Body;
use proto::request::{NewAgent, Request};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::result::output;
use crate::definition::Definition;
use crate::model::ToolSpec;
use crate::tools::check_fields;

/// Longest structured output.
const OUTPUT_LEN_MAX: usize = 64 * 1024;

/// A tool of a lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Agent,
    ListPeers,
    SendMessage,
    StructuredOutput,
    TaskStop,
    TeamCreate,
    TeamDelete,
}

/// What the tools depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Audience<'a> {
    pub(crate) role: Role,
    pub(crate) definitions: &'a [Definition],
}

/// Why an input is not a valid request, for the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadInput {
    #[error("{0}")]
    Fields(crate::tools::InputError),
    #[error("{tool} does not support `{field}` yet. Call it again without it.")]
    NotYet { tool: &'static str, field: String },
    #[error("The input of {tool} does not fit its schema: {what}. Correct it and call again.")]
    WrongType { tool: &'static str, what: String },
    #[error(
        "There is no agent type `{given}`. The types are: {valid}. Call Agent again with one of them."
    )]
    NoSuchType { given: String, valid: String },
    #[error(
        "The output has {len} bytes; at most {OUTPUT_LEN_MAX} fit. Shorten the details and call again."
    )]
    TooLong { len: usize },
}

impl Verb {
    /// Sorted by name.
    const ALL: [Self; 7] = [
        Self::Agent,
        Self::ListPeers,
        Self::SendMessage,
        Self::StructuredOutput,
        Self::TaskStop,
        Self::TeamCreate,
        Self::TeamDelete,
    ];

    /// What a role has.
    pub(crate) fn of_role(role: Role) -> &'static [Self] {
        match role {
            Role::Coordinator => &Self::ALL,
            Role::Lead => &[Self::Agent, Self::ListPeers, Self::SendMessage, Self::TaskStop],
            Role::Peer => &[Self::ListPeers, Self::SendMessage],
            Role::Worker => &[],
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Agent => "Agent",
            Self::ListPeers => "ListPeers",
            Self::SendMessage => "SendMessage",
            Self::StructuredOutput => "StructuredOutput",
            Self::TaskStop => "TaskStop",
            Self::TeamCreate => "TeamCreate",
            Self::TeamDelete => "TeamDelete",
        }
    }

    /// What the model is told.
    pub(crate) fn spec(self, audience: Audience<'_>) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: schema::description(self, audience),
            input_schema: schema::schema(self, audience),
        }
    }

    /// The request that a call is.
    pub(crate) fn request(
        self,
        input: &Value,
        audience: Audience<'_>,
    ) -> Result<Request, BadInput> {
        self.check(input, audience)?;
        match self {
            Self::Agent => self.agent(input, audience),
            Self::ListPeers => Ok(Request::PeerList {}),
            Self::SendMessage => {
                let SendInput { to, message, summary, notify_when_idle } = self.parse(input)?;
                let body = self.body(message)?;
                Ok(Request::Send { session: String::new(), to, body, summary, notify_when_idle })
            }
            Self::StructuredOutput => {
                let len = input.to_string().len();
                if len > OUTPUT_LEN_MAX {
                    return Err(BadInput::TooLong { len });
                }
                Ok(Request::StructuredOutput { output: Json(input.clone()) })
            }
            Self::TaskStop => {
                let StopInput { task_id } = self.parse(input)?;
                Ok(Request::AgentStop { agent: task_id })
            }
            Self::TeamCreate => {
                let TeamInput { team_name, description, agent_type } = self.parse(input)?;
                let session = String::new();
                Ok(Request::TeamCreate { session, name: team_name, description, agent_type })
            }
            Self::TeamDelete => Ok(Request::TeamDelete { session: String::new() }),
        }
    }

    fn check(self, input: &Value, audience: Audience<'_>) -> Result<(), BadInput> {
        let later = match self {
            Self::Agent => &["isolation", "files", "access"][..],
            Self::ListPeers
            | Self::SendMessage
            | Self::StructuredOutput
            | Self::TaskStop
            | Self::TeamCreate
            | Self::TeamDelete => &[],
        };
        if let Some(field) =
            later.iter().find(|it| input.get(**it).is_some_and(|input| !input.is_null()))
        {
            return Err(BadInput::NotYet { tool: self.name(), field: (*field).to_owned() });
        }
        let mut schema = schema::schema(self, audience);
        let known = schema.get_mut("properties").and_then(Value::as_object_mut);
        if let (Some(known), Some(given)) = (known, input.as_object()) {
            // An empty one of those fields asks for nothing.
            known.extend(later.iter().map(|it| ((*it).to_owned(), Value::Null)));
            if self == Self::StructuredOutput {
                known.extend(given.keys().map(|key| (key.clone(), Value::Null)));
            }
        }
        check_fields(self.name(), &schema, input).map_err(BadInput::Fields)
    }

    fn parse<'de, T: Deserialize<'de>>(self, input: &'de Value) -> Result<T, BadInput> {
        T::deserialize(input)
            .map_err(|error| BadInput::WrongType { tool: self.name(), what: error.to_string() })
    }

    fn agent(self, input: &Value, audience: Audience<'_>) -> Result<Request, BadInput> {
        let it: AgentInput = self.parse(input)?;
        let known = audience.definitions.iter().any(|known| known.name == it.subagent_type);
        if !it.subagent_type.is_empty() && !known {
            let names: Vec<&str> =
                audience.definitions.iter().map(|definition| definition.name.as_str()).collect();
            return Err(BadInput::NoSuchType { given: it.subagent_type, valid: names.join(", ") });
        }
        // A coordinator never waits; a lead does unless it says otherwise (F-1).
        let wait = audience.role == Role::Lead && !it.run_in_background;
        let agent = NewAgent {
            description: it.description,
            prompt: it.prompt,
            subagent_type: it.subagent_type,
            name: it.name,
            runtime: it.runtime,
            host: it.host,
            model: it.model,
            phase: it.phase,
            wait,
        };
        Ok(Request::AgentSpawn { agent: Box::new(agent) })
    }

    fn body(self, message: Value) -> Result<Body, BadInput> {
        if let Value::String(text) = message {
            return Ok(Body::Text { text });
        }
        let message: StructuredMessage = serde_json::from_value(message)
            .map_err(|error| BadInput::WrongType { tool: self.name(), what: error.to_string() })?;
        Ok(match message {
            StructuredMessage::ShutdownRequest { reason } => Body::ShutdownRequest { reason },
            StructuredMessage::ShutdownResponse { request_id, approve, reason } => {
                Body::ShutdownResponse { request_id, approve, reason }
            }
            StructuredMessage::PlanApprovalResponse { request_id, approve, feedback } => {
                Body::PlanApprovalResponse { request_id, approve, feedback }
            }
        })
    }
}

#[derive(Deserialize)]
struct AgentInput {
    description: String,
    prompt: String,
    #[serde(default)]
    subagent_type: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    phase: String,
    #[serde(default)]
    runtime: Option<Runtime>,
    #[serde(default)]
    host: String,
    #[serde(default)]
    run_in_background: bool,
}

#[derive(Deserialize)]
struct SendInput {
    to: String,
    message: Value,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    notify_when_idle: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum StructuredMessage {
    ShutdownRequest {
        #[serde(default)]
        reason: String,
    },
    ShutdownResponse {
        request_id: String,
        approve: bool,
        #[serde(default)]
        reason: String,
    },
    PlanApprovalResponse {
        request_id: String,
        approve: bool,
        #[serde(default)]
        feedback: String,
    },
}

#[derive(Deserialize)]
struct StopInput {
    task_id: String,
}

#[derive(Deserialize)]
struct TeamInput {
    #[serde(default)]
    team_name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    agent_type: String,
}

#[cfg(test)]
mod tests;
