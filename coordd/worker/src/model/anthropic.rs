//! The Anthropic Messages API: our request as its JSON.
//!
//! What the model thought goes back as it came, with its signature: the API refuses a changed block.

mod decode;

use serde::Serialize;
use serde_json::Value;

use super::encode::{Ids, Spelling, ids_of, is_offered};
use super::kept::Kept;
use super::{Block, Request, Role, ToolChoice, Turn};

pub(super) use decode::take;

/// The last user turns that get a cache mark: the newest, and the one before it, so that a turn
/// with very many blocks still finds the earlier prefix. With the system prompt and the tools this
/// makes four, which is all that the API takes.
const MARKED_TURNS: usize = 2;

/// Writes the body of `POST /v1/messages`.
pub(super) fn encode(
    request: &Request,
    model: &str,
    spelling: Spelling,
) -> Result<Vec<u8>, serde_json::Error> {
    let cached = request.system.iter().rposition(|part| part.cache);
    let system = request
        .system
        .iter()
        .enumerate()
        .filter(|(_, part)| !part.text.trim().is_empty())
        .map(|(at, part)| WireBlock::text(&part.text, spelling.cache_marks && cached == Some(at)))
        .collect();
    let offered = request.tools.iter().filter(|tool| is_offered(tool, request, spelling));
    let last_tool = offered.clone().count().saturating_sub(1);
    let tools: Vec<_> = offered
        .enumerate()
        .map(|(at, tool)| WireTool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            cache_control: (spelling.cache_marks && at == last_tool).then_some(EPHEMERAL),
        })
        .collect();
    let tool_choice = match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::Any => Some(WireChoice { kind: "any", name: None }),
        ToolChoice::Tool(_) if !spelling.official => Some(WireChoice { kind: "any", name: None }),
        ToolChoice::Tool(name) => Some(WireChoice { kind: "tool", name: Some(name) }),
    };
    let ids = ids_of(&request.turns);
    let is_choice = spelling.tool_choice && !tools.is_empty();
    serde_json::to_vec(&Body {
        model,
        max_tokens: spelling.limit(request),
        stream: true,
        system,
        messages: messages(&request.turns, &ids, spelling),
        tool_choice: tool_choice.filter(|_| is_choice),
        tools,
    })
}

fn messages<'a>(turns: &'a [Turn], ids: &'a Ids<'_>, spelling: Spelling) -> Vec<WireMessage<'a>> {
    let mut messages: Vec<WireMessage<'_>> = Vec::with_capacity(turns.len());
    for turn in turns {
        let block = |block| WireBlock::from_block(block, ids, spelling);
        let content: Vec<_> = turn.blocks.iter().filter_map(block).collect();
        match messages.last_mut() {
            // A message of thoughts alone is refused.
            _ if content.iter().all(|block| matches!(block, WireBlock::Theirs(_))) => {}
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
        message.content.sort_by_key(|block| !block.is_result());
        if nth < MARKED_TURNS
            && spelling.cache_marks
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
#[serde(untagged)]
enum WireBlock<'a> {
    Ours(OurBlock<'a>),
    /// As the provider sent it.
    Theirs(Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OurBlock<'a> {
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
        Self::Ours(OurBlock::Text { text, cache_control: mark.then_some(EPHEMERAL) })
    }

    /// `None` for text that the API would refuse: it must have something else than blanks.
    fn from_block(block: &'a Block, ids: &'a Ids<'_>, spelling: Spelling) -> Option<Self> {
        match block {
            Block::Text { text } => (!text.trim().is_empty()).then(|| Self::text(text, false)),
            Block::ToolUse { id, name, input } => {
                Some(Self::Ours(OurBlock::ToolUse { id: ids.of(id), name, input }))
            }
            Block::ToolResult { id, text, is_error } => Some(Self::Ours(OurBlock::ToolResult {
                tool_use_id: ids.of(id),
                content: text,
                is_error: *is_error,
                cache_control: None,
            })),
            Block::Reasoning { raw, .. } => match Kept::from_json(raw)? {
                Kept::Messages(block) if spelling.reasoning => Some(Self::Theirs(block)),
                Kept::Messages(_)
                | Kept::Chat(_)
                | Kept::ChatParts(_)
                | Kept::ThinkTag(_)
                | Kept::Responses(_)
                | Kept::Call(_) => None,
            },
        }
    }

    fn is_result(&self) -> bool {
        matches!(self, Self::Ours(OurBlock::ToolResult { .. }))
    }

    fn mark(&mut self) {
        match self {
            Self::Ours(
                OurBlock::Text { cache_control, .. } | OurBlock::ToolResult { cache_control, .. },
            ) => *cache_control = Some(EPHEMERAL),
            Self::Ours(OurBlock::ToolUse { .. }) | Self::Theirs(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
