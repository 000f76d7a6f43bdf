//! The Anthropic Messages API: our request as its JSON, its events as our answer.
//!
//! Servers differ in what they leave out and add, so unknown events, blocks and fields are passed
//! over, and a tool call may come without `input`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::assembly::{AnswerTooLong, Assembly};
use super::client::Progress;
use super::{Block, OnDelta, Request, Role, Stop, ToolChoice, Turn, Usage};

/// The last user turns that get a cache mark: the newest, and the one before it, so that a turn
/// with very many blocks still finds the earlier prefix. With the system prompt and the tools this
/// makes four, which is all that the API takes.
const MARKED_TURNS: usize = 2;

/// Writes the body of `POST /v1/messages`. `official` is Anthropic's own address: other servers
/// pass over a choice that names its tool, so they are offered that tool alone.
pub(super) fn encode(
    request: &Request,
    model: &str,
    official: bool,
) -> Result<Vec<u8>, serde_json::Error> {
    let cached = request.system.iter().rposition(|part| part.cache);
    let system = request
        .system
        .iter()
        .enumerate()
        .filter(|(_, part)| !part.text.trim().is_empty())
        .map(|(at, part)| WireBlock::text(&part.text, cached == Some(at)))
        .collect();
    let only = match &request.tool_choice {
        ToolChoice::Tool(name) if !official => Some(name),
        ToolChoice::Tool(_) | ToolChoice::Auto | ToolChoice::Any => None,
    };
    let offered = request.tools.iter().filter(|tool| only.is_none_or(|name| tool.name == *name));
    let last_tool = offered.clone().count().saturating_sub(1);
    let tools: Vec<_> = offered
        .enumerate()
        .map(|(at, tool)| WireTool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            cache_control: (at == last_tool).then_some(EPHEMERAL),
        })
        .collect();
    let tool_choice = match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::Any => Some(WireChoice { kind: "any", name: None }),
        ToolChoice::Tool(_) if !official => Some(WireChoice { kind: "any", name: None }),
        ToolChoice::Tool(name) => Some(WireChoice { kind: "tool", name: Some(name) }),
    };
    serde_json::to_vec(&Body {
        model,
        max_tokens: request.max_output_tokens,
        stream: true,
        system,
        messages: messages(&request.turns),
        tool_choice: tool_choice.filter(|_| !tools.is_empty()),
        tools,
    })
}

fn messages(turns: &[Turn]) -> Vec<WireMessage<'_>> {
    let mut messages: Vec<WireMessage<'_>> = Vec::with_capacity(turns.len());
    for turn in turns {
        let content: Vec<_> = turn.blocks.iter().filter_map(WireBlock::from_block).collect();
        match messages.last_mut() {
            _ if content.is_empty() => {}
            // The results of a call must stand in the message right after it.
            Some(last) if last.role == Role::User && turn.role == Role::User => {
                last.content.extend(content);
            }
            Some(_) | None => messages.push(WireMessage { role: turn.role, content }),
        }
    }
    let users = messages.iter_mut().rev().filter(|message| message.role == Role::User);
    for (nth, message) in users.enumerate() {
        // Results come before text, or the API refuses the message.
        message.content.sort_by_key(|block| !matches!(block, WireBlock::ToolResult { .. }));
        if nth < MARKED_TURNS
            && let Some(block) = message.content.last_mut()
        {
            block.mark();
        }
    }
    messages
}

const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireChoice<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<WireBlock<'a>>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize, Clone, Copy)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct WireChoice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: Role,
    content: Vec<WireBlock<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

impl<'a> WireBlock<'a> {
    fn text(text: &'a str, mark: bool) -> Self {
        Self::Text { text, cache_control: mark.then_some(EPHEMERAL) }
    }

    /// `None` for text that the API would refuse: it must have something else than blanks.
    fn from_block(block: &'a Block) -> Option<Self> {
        match block {
            Block::Text { text } => (!text.trim().is_empty()).then(|| Self::text(text, false)),
            Block::ToolUse { id, name, input } => Some(Self::ToolUse { id, name, input }),
            Block::ToolResult { id, text, is_error } => Some(Self::ToolResult {
                tool_use_id: id,
                content: text,
                is_error: *is_error,
                cache_control: None,
            }),
        }
    }

    fn mark(&mut self) {
        match self {
            Self::Text { cache_control, .. } | Self::ToolResult { cache_control, .. } => {
                *cache_control = Some(EPHEMERAL);
            }
            Self::ToolUse { .. } => {}
        }
    }
}

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    stop: Option<Stop>,
}

impl Decoder {
    /// Takes the data of one event.
    pub(super) fn take(
        &mut self,
        data: &str,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<Progress, AnswerTooLong> {
        let event = match serde_json::from_str::<Event>(data) {
            Ok(event) => event,
            // A known event in an unknown shape.
            Err(error) if error.is_data() => return Ok(Progress::More),
            Err(_) => return Ok(Progress::Garbled("an event is not JSON".to_owned())),
        };
        match event {
            Event::MessageStart { message } => assembly.usage.update(message.usage),
            Event::ContentBlockStart { index, content_block } => match content_block {
                StartedBlock::Text { text } => {
                    assembly.text(index, &text.unwrap_or_default(), on_delta)?;
                }
                StartedBlock::ToolUse { id, name, input } => {
                    assembly.open_tool(index, id.unwrap_or_default(), name, input, on_delta)?;
                }
                StartedBlock::Unknown => {}
            },
            Event::ContentBlockDelta { index, delta } => match delta {
                BlockDelta::TextDelta { text } => assembly.text(index, &text, on_delta)?,
                BlockDelta::InputJsonDelta { partial_json } => {
                    assembly.tool_json(index, &partial_json)?;
                }
                BlockDelta::Unknown => {}
            },
            Event::ContentBlockStop { index } => assembly.close(index),
            Event::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.as_deref().map(stop).or(self.stop);
                assembly.usage.update(usage);
            }
            Event::MessageStop => return Ok(Progress::Ended(self.stop.unwrap_or(Stop::EndTurn))),
            Event::Error { error } => {
                return Ok(Progress::Failed { status: status(&error), error });
            }
            Event::Unknown => {}
        }
        Ok(Progress::More)
    }

    /// What the stream's end means when no `message_stop` came.
    pub(super) fn at_end(&self) -> Option<Stop> {
        self.stop
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Stop::OutputLimit,
        "refusal" => Stop::Refusal,
        "tool_use" => Stop::ToolUse,
        _ => Stop::EndTurn,
    }
}

/// The HTTP status that an error would have had before the stream began.
fn status(error: &Value) -> u16 {
    match error.get("type").and_then(Value::as_str).unwrap_or_default() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Started,
    },
    ContentBlockStart {
        index: u64,
        content_block: StartedBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Ended,
        usage: Option<WireUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Started {
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StartedBlock {
    Text {
        text: Option<String>,
    },
    ToolUse {
        id: Option<String>,
        name: String,
        input: Option<Value>,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockDelta {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Ended {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Usage {
    /// Each report holds totals, and only those that it wants to change.
    fn update(&mut self, wire: Option<WireUsage>) {
        let Some(wire) = wire else { return };
        self.input = wire.input_tokens.unwrap_or(self.input);
        self.output = wire.output_tokens.unwrap_or(self.output);
        self.cache_read = wire.cache_read_input_tokens.unwrap_or(self.cache_read);
        self.cache_write = wire.cache_creation_input_tokens.unwrap_or(self.cache_write);
    }
}

#[cfg(test)]
mod tests;
