//! The schemas of a lead's tools. Only what works is offered.

use std::fmt::Write as _;

use proto::agent::Role;
use serde_json::{Value, json};

use super::{Audience, Verb};

#[cfg(feature = "coordinator")]
const AGENT: &str = include_str!("../../prompts/tools/Agent.md");
const AGENT_NORMAL: &str = include_str!("../../prompts/tools/Agent-normal.md");
const LIST_PEERS: &str = include_str!("../../prompts/tools/ListPeers.md");
const SEND_MESSAGE: &str = include_str!("../../prompts/tools/SendMessage.md");
const STRUCTURED_OUTPUT: &str = include_str!("../../prompts/tools/StructuredOutput.md");
const TASK_STOP: &str = include_str!("../../prompts/tools/TaskStop.md");
const TEAM_CREATE: &str = include_str!("../../prompts/tools/TeamCreate.md");
const TEAM_DELETE: &str = include_str!("../../prompts/tools/TeamDelete.md");

/// A name that an agent can have.
const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

pub(super) fn description(verb: Verb, audience: Audience<'_>) -> String {
    let text = match verb {
        Verb::Agent => return agent_description(audience),
        Verb::ListPeers => LIST_PEERS,
        Verb::SendMessage => SEND_MESSAGE,
        Verb::StructuredOutput => STRUCTURED_OUTPUT,
        Verb::TaskStop => TASK_STOP,
        Verb::TeamCreate => TEAM_CREATE,
        Verb::TeamDelete => TEAM_DELETE,
    };
    text.trim_end().to_owned()
}

fn agent_description(audience: Audience<'_>) -> String {
    #[cfg(feature = "coordinator")]
    if audience.role == Role::Coordinator {
        return AGENT.trim_end().to_owned();
    }
    let mut text = AGENT_NORMAL.trim_end().to_owned();
    text.push('\n');
    for definition in audience.definitions {
        let _fits = write!(text, "\n- {}: {}", definition.name, definition.description);
    }
    text
}

pub(super) fn schema(verb: Verb, audience: Audience<'_>) -> Value {
    match verb {
        Verb::Agent => agent(audience),
        Verb::SendMessage => object(
            &json!({
                "to": {
                    "type": "string",
                    "description": "A name, an agent id, `*` for all the others, or an address from ListPeers."
                },
                "message": {
                    "anyOf": [{ "type": "string" }, structured_message()],
                    "description": "Text, or one structured object."
                },
                "summary": { "type": "string", "maxLength": 200, "description": "The text in five to ten words." },
                "notify_when_idle": {
                    "type": "boolean",
                    "description": "For a `uds:` address: be told once when that session has nothing to do."
                }
            }),
            &["to", "message"],
        ),
        Verb::StructuredOutput => {
            let mut schema = object(
                &json!({
                    "summary": { "type": "string", "description": "The outcome in one or two sentences." },
                    "status": { "type": "string", "enum": ["completed", "partial", "failed"] },
                    "details": { "type": "string", "description": "What was found, decided and done." },
                    "files": { "type": "array", "items": { "type": "string" }, "description": "Changed files." },
                    "evidence": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Each command with its exit status and what it showed."
                    }
                }),
                &["summary", "status"],
            );
            if let Some(more) = schema.get_mut("additionalProperties") {
                *more = Value::Bool(true);
            }
            schema
        }
        Verb::TaskStop => object(
            &json!({ "task_id": { "type": "string", "description": "The agent's id or name." } }),
            &["task_id"],
        ),
        Verb::TeamCreate => object(
            &json!({
                "team_name": { "type": "string" },
                "description": { "type": "string", "description": "What the team is for." },
                "agent_type": { "type": "string", "description": "The lead's type in the team file." }
            }),
            &[],
        ),
        Verb::ListPeers | Verb::TeamDelete => object(&json!({}), &[]),
    }
}

fn agent(audience: Audience<'_>) -> Value {
    let types: Vec<&str> =
        audience.definitions.iter().map(|definition| definition.name.as_str()).collect();
    let background = match audience.role {
        Role::Coordinator => "Workers always run in the background.",
        Role::Lead | Role::Worker | Role::Peer => {
            "Return at once; the outcome comes later as a notification."
        }
    };
    object(
        &json!({
            "description": { "type": "string", "description": "The task in three to six words." },
            "prompt": { "type": "string", "description": "The whole task: the agent sees nothing else." },
            "subagent_type": { "type": "string", "enum": types },
            "name": { "type": "string", "pattern": NAME_PATTERN, "description": "Short, telling and new." },
            "model": { "type": "string" },
            "run_in_background": { "type": "boolean", "description": background },
            "phase": {
                "type": "string",
                "enum": ["research", "synthesis", "implementation", "verification"]
            },
            "runtime": {
                "type": "string",
                "enum": ["native", "claude", "terminal"],
                "description": "What drives the agent; `terminal` is a member of your team in a terminal that the user can look into. \
                                Leave it out unless the user asked for one."
            },
            "host": {
                "type": "string",
                "description": "Another machine, by an address of kind `host` from ListPeers. The agent works there in that folder, and \
                                does not see the files of this machine, nor its scratchpad."
            }
        }),
        &["description", "prompt"],
    )
}

fn structured_message() -> Value {
    object(
        &json!({
            "type": {
                "type": "string",
                "enum": ["shutdown_request", "shutdown_response", "plan_approval_response"]
            },
            "request_id": { "type": "string", "description": "Of the open request that is answered." },
            "approve": { "type": "boolean" },
            "reason": { "type": "string" },
            "feedback": { "type": "string" }
        }),
        &["type"],
    )
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}
