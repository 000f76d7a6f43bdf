//! Chat Completions of OpenAI and of the many servers that speak it.
//!
//! Tool calls come in pieces that are told apart by an index; some servers repeat the id in every
//! piece, leave it out, or give every call the index 0 and a new id. Errors can come as an event.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::assembly::{AnswerTooLong, Assembly};
use super::client::Progress;
use super::{Block, OnDelta, Request, Role, Stop, ToolChoice, Turn, Usage};

/// The slot of the answer's text; tool calls come after it.
const TEXT_SLOT: u64 = 0;

/// Writes the body of `POST …/chat/completions`. `official` is OpenAI's own address: it takes only
/// the new name of the output limit, and other servers mostly know only the old one. Some of those
/// also pass over a choice that names its tool; they are offered that tool alone.
pub(super) fn encode(
    request: &Request,
    model: &str,
    official: bool,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut messages = Vec::with_capacity(request.turns.len() + 1);
    let system: Vec<_> = request.system.iter().map(|part| part.text.as_str()).collect();
    let system = system.join("\n\n");
    if !system.trim().is_empty() {
        messages.push(WireMessage::text("system", system));
    }
    for turn in &request.turns {
        add_turn(turn, &mut messages);
    }
    let only = match &request.tool_choice {
        ToolChoice::Tool(name) if !official => Some(name),
        ToolChoice::Tool(_) | ToolChoice::Auto | ToolChoice::Any => None,
    };
    let tools: Vec<_> = request
        .tools
        .iter()
        .filter(|tool| only.is_none_or(|name| tool.name == *name))
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
        ToolChoice::Tool(_) if !official => Some(WireChoice::Word("required")),
        ToolChoice::Tool(name) => {
            Some(WireChoice::Function { kind: "function", function: Named { name } })
        }
    };
    let limit = Some(request.max_output_tokens);
    serde_json::to_vec(&Body {
        model,
        max_completion_tokens: limit.filter(|_| official),
        max_tokens: limit.filter(|_| !official),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        messages,
        tool_choice: tool_choice.filter(|_| !tools.is_empty()),
        tools,
    })
}

fn add_turn<'a>(turn: &'a Turn, messages: &mut Vec<WireMessage<'a>>) {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    for block in &turn.blocks {
        match block {
            Block::Text { text } if text.trim().is_empty() => {}
            Block::Text { text } => texts.push(text.as_str()),
            Block::ToolUse { id, name, input } => calls.push(WireCall {
                id,
                kind: "function",
                function: CalledFunction { name, arguments: input.to_string() },
            }),
            // Results stand right after the calls, before any text of the same turn.
            Block::ToolResult { id, text, is_error } => {
                let text = if *is_error { format!("Error: {text}") } else { text.clone() };
                messages.push(WireMessage {
                    role: "tool",
                    content: Some(text),
                    tool_call_id: Some(id),
                    tool_calls: Vec::new(),
                });
            }
        }
    }
    if texts.is_empty() && calls.is_empty() {
        return;
    }
    let role = match turn.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = (!texts.is_empty()).then(|| texts.join("\n\n"));
    messages.push(WireMessage { role, content, tool_call_id: None, tool_calls: calls });
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    stream: bool,
    stream_options: StreamOptions,
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
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

impl WireMessage<'_> {
    fn text(role: &'static str, text: String) -> Self {
        Self { role, content: Some(text), tool_call_id: None, tool_calls: Vec::new() }
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
}

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    stop: Option<Stop>,
    /// The calls that have begun: index and id as the server gave them. A call's place here, plus
    /// one, is its slot.
    calls: Vec<(u64, String)>,
}

impl Decoder {
    /// Takes the data of one event.
    pub(super) fn take(
        &mut self,
        data: &str,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<Progress, AnswerTooLong> {
        if data.trim() == "[DONE]" {
            return Ok(Progress::Ended(self.stop.unwrap_or(Stop::EndTurn)));
        }
        let chunk = match serde_json::from_str::<Chunk>(data) {
            Ok(chunk) => chunk,
            Err(error) if error.is_data() => return Ok(Progress::More),
            Err(_) => return Ok(Progress::Garbled("an event is not JSON".to_owned())),
        };
        if let Some(error) = chunk.error {
            return Ok(Progress::Failed { status: status(&error), error });
        }
        if let Some(usage) = chunk.usage {
            assembly.usage = usage.into();
        }
        // One choice was asked for; any other would be mixed into it.
        let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() else {
            return Ok(Progress::More);
        };
        let delta = choice.delta.unwrap_or_default();
        for text in [delta.content, delta.refusal].into_iter().flatten() {
            assembly.text(TEXT_SLOT, &text, on_delta)?;
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, assembly, on_delta)?;
        }
        self.stop = choice.finish_reason.as_deref().map(stop).or(self.stop);
        Ok(Progress::More)
    }

    /// What the stream's end means when no `[DONE]` came.
    pub(super) fn at_end(&self) -> Option<Stop> {
        self.stop
    }

    fn call(
        &mut self,
        call: CallDelta,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        let index = call.index.unwrap_or(0);
        let id = call.id.unwrap_or_default();
        let function = call.function.unwrap_or_default();
        let begun = self.calls.iter().rposition(|(it, _)| *it == index);
        let same = begun.filter(|at| {
            id.is_empty() || self.calls.get(*at).is_some_and(|(_, known)| *known == id)
        });
        let at = if let Some(at) = same {
            at
        } else {
            let name = function.name.unwrap_or_default();
            self.calls.push((index, id.clone()));
            let at = self.calls.len() - 1;
            assembly.open_tool(slot(at), id, name, None, on_delta)?;
            at
        };
        match function.arguments {
            None => Ok(()),
            Some(Value::String(piece)) => assembly.tool_json(slot(at), &piece),
            // Some servers send the input as JSON, not as text that holds JSON.
            Some(whole) => assembly.tool_json(slot(at), &whole.to_string()),
        }
    }
}

fn slot(at: usize) -> u64 {
    TEXT_SLOT + 1 + u64::try_from(at).unwrap_or(u64::MAX - 1)
}

fn stop(reason: &str) -> Stop {
    match reason {
        "length" => Stop::OutputLimit,
        "content_filter" => Stop::Refusal,
        "tool_calls" | "function_call" => Stop::ToolUse,
        _ => Stop::EndTurn,
    }
}

/// The HTTP status that an error would have had before the stream began.
fn status(error: &Value) -> u16 {
    let code = error.get("code");
    let number = code.and_then(Value::as_u64).and_then(|it| u16::try_from(it).ok());
    if let Some(number) = number.filter(|it| (400..=599).contains(it)) {
        return number;
    }
    let kind = error.get("type");
    for word in [code, kind].into_iter().flatten().filter_map(Value::as_str) {
        match word {
            "invalid_request_error" | "context_length_exceeded" => return 400,
            "invalid_api_key" | "authentication_error" => return 401,
            "model_not_found" => return 404,
            "rate_limit_exceeded" | "rate_limit_error" => return 429,
            _ => {}
        }
    }
    500
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<ChoiceDelta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct ChoiceDelta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize, Default)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let cache_read =
            wire.prompt_tokens_details.and_then(|detail| detail.cached_tokens).unwrap_or(0);
        let prompt = wire.prompt_tokens.unwrap_or(0);
        Self {
            input: prompt.saturating_sub(cache_read),
            output: wire.completion_tokens.unwrap_or(0),
            cache_read,
            cache_write: 0,
        }
    }
}

#[cfg(test)]
mod tests;
