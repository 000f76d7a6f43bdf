//! Chat Completions of OpenAI and of the many servers that speak it: our request as its JSON.

mod decode;
mod reasoning;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::encode::{Ids, Spelling, ids_of, is_offered};
use super::kept::Kept;
use super::{Block, Request, Role, ToolChoice, Turn};

pub(super) use decode::Decoder;

/// Writes the body of `POST …/chat/completions`.
pub(super) fn encode(
    request: &Request,
    model: &str,
    spelling: Spelling,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut messages = Vec::with_capacity(request.turns.len() + 1);
    let system: Vec<_> = request.system.iter().map(|part| part.text.as_str()).collect();
    let system = system.join("\n\n");
    if !system.trim().is_empty() {
        messages.push(WireMessage::text("system", system.into()));
    }
    let ids = ids_of(&request.turns);
    for turn in &request.turns {
        add_turn(turn, &ids, spelling, &mut messages);
    }
    let tools: Vec<_> = request
        .tools
        .iter()
        .filter(|tool| is_offered(tool, request, spelling))
        .map(|tool| WireTool {
            kind: "function",
            function: WireFunction {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
            },
        })
        .collect();
    let tool_choice = match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::Any => Some(WireChoice::Word("required")),
        ToolChoice::Tool(_) if !spelling.official => Some(WireChoice::Word("required")),
        ToolChoice::Tool(name) => {
            Some(WireChoice::Function { kind: "function", function: Named { name } })
        }
    };
    let limit = Some(spelling.limit(request));
    let is_choice = spelling.tool_choice && !tools.is_empty();
    serde_json::to_vec(&Body {
        model,
        max_completion_tokens: limit.filter(|_| spelling.new_limit_name),
        max_tokens: limit.filter(|_| !spelling.new_limit_name),
        stream: true,
        stream_options: spelling.stream_options.then_some(StreamOptions { include_usage: true }),
        messages,
        tool_choice: tool_choice.filter(|_| is_choice),
        tools,
    })
}

fn add_turn<'a>(
    turn: &'a Turn,
    ids: &'a Ids<'_>,
    spelling: Spelling,
    messages: &mut Vec<WireMessage<'a>>,
) {
    let mut texts = Vec::new();
    let mut calls: Vec<WireCall<'a>> = Vec::new();
    let mut back = Back::default();
    for block in &turn.blocks {
        match block {
            Block::Text { text } if text.trim().is_empty() => {}
            Block::Text { text } => texts.push(text.as_str()),
            Block::ToolUse { id, name, input } => calls.push(WireCall {
                id: ids.of(id),
                kind: "function",
                function: CalledFunction { name, arguments: input.to_string(), more: Map::new() },
                more: Map::new(),
            }),
            // Results stand right after the calls, before any text of the same turn.
            Block::ToolResult { id, text, is_error } => {
                let text = if *is_error { format!("Error: {text}") } else { text.clone() };
                let mut message = WireMessage::text("tool", text.into());
                message.tool_call_id = Some(ids.of(id));
                messages.push(message);
            }
            Block::Reasoning { raw, .. } => match Kept::from_json(raw) {
                Some(Kept::Chat(fields)) => back.fields.extend(fields),
                Some(Kept::ChatParts(parts)) => back.parts.extend(parts),
                Some(Kept::ThinkTag(text)) => back.tag.push_str(&text),
                Some(Kept::Call(kept)) => {
                    if let Some(call) = calls.last_mut() {
                        call.more = kept.fields;
                        call.function.more = kept.function;
                    }
                }
                Some(Kept::Messages(_) | Kept::Responses(_)) | None => {}
            },
        }
    }
    if texts.is_empty() && calls.is_empty() {
        return;
    }
    let role = match turn.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    // A model that calls a tool goes on with the same thought. Of what it thought before an answer
    // it wants to hear nothing, and some servers refuse that.
    let back = if calls.is_empty() || !spelling.reasoning { Back::default() } else { back };
    let (content, fields) = back.around(&texts);
    messages.push(WireMessage { role, content, tool_call_id: None, tool_calls: calls, fields });
}

/// What goes back in an assistant's message as it came.
#[derive(Default)]
struct Back {
    fields: Map<String, Value>,
    parts: Vec<Value>,
    tag: String,
}

impl Back {
    /// The message's content, and its other fields.
    fn around(self, texts: &[&str]) -> (Option<Value>, Map<String, Value>) {
        let mut text = texts.join("\n\n");
        if !self.tag.is_empty() {
            text = format!("<think>{}</think>\n\n{text}", self.tag);
        }
        let content = if self.parts.is_empty() {
            (!text.is_empty()).then(|| text.into())
        } else {
            let mut parts = self.parts;
            if !text.is_empty() {
                parts.push(json!({ "type": "text", "text": text }));
            }
            Some(parts.into())
        };
        (content, self.fields)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireChoice<'a>>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireChoice<'a> {
    Word(&'static str),
    Function {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Named<'a>,
    },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    /// `null` in an assistant's message that only calls tools.
    content: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    /// As the provider sent them.
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl WireMessage<'_> {
    fn text(role: &'static str, text: Value) -> Self {
        let (tool_calls, fields) = (Vec::new(), Map::new());
        Self { role, content: Some(text), tool_call_id: None, tool_calls, fields }
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[cfg(test)]
mod tests;
