//! The lines that pass between the agent process and Claude Code in `stream-json` mode.
//!
//! Observed with Claude Code 2.1.332; nothing of it is documented. So it is read leniently: what is
//! not known is [`Line::Other`], and a field that is missing or of another type is as if it were
//! empty. Only what is needed here is written. This is the one module that knows the format; it
//! does no I/O and decides nothing.

use proto::notification::Usage;
use serde_json::{Value, json};

/// Longest line that is read: an image of a few MiB, in base64 and twice in the line, as in the
/// result of a `Read`.
pub(super) const LINE_LEN_MAX: usize = 16 * 1024 * 1024;
/// The highest cost of one turn that is accepted, so that sums cannot overflow.
const COST_USD_MAX: f64 = 1e6;

/// A line of Claude Code.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    /// It begins to work on what it was told; it says so for each turn.
    Init { version: String },
    /// A call of the model began to answer. What it read.
    MessageBegan(Usage),
    /// A piece of text of the answer.
    Delta(String),
    /// The output of the model call so far, in tokens.
    Written(u64),
    /// The call of the model is over.
    MessageEnded,
    /// A whole part of an answer.
    Said(Vec<Part>),
    /// Results of tools.
    Results(Vec<ToolResult>),
    /// It takes up a line of ours.
    Started { uuid: String },
    /// A line of ours has entered the conversation.
    Echo { uuid: String },
    /// Claude Code has finished with a line of ours, and may have dropped it.
    Done { uuid: String, is_dropped: bool },
    /// It is through with what it was told.
    Ended(Box<Ended>),
    /// It asks whether a tool may run.
    Ask(Ask),
    /// It no longer waits for an answer.
    AskWithdrawn { request: String },
    /// It answered a request of ours.
    Answered { request: String, error: Option<String>, version: String },
    /// The model could not be reached, and it tries again.
    Retry(Retry),
    /// All else.
    Other,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    ToolUse { id: String, name: String, input: Value },
}

/// What a tool gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// How a turn ended. Whether it went wrong is in `is_error` and not in `subtype`, which says
/// `success` for an error of the API.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ended {
    pub(super) is_error: bool,
    pub(super) subtype: String,
    /// The last text, or the error in words.
    pub(super) result: String,
    pub(super) errors: Vec<String>,
    /// The HTTP status, for an error of the API.
    pub(super) status: Option<u16>,
    pub(super) terminal_reason: String,
    /// What this turn used, all its calls of models together.
    pub(super) usage: Usage,
    /// What the conversation has cost, in millionths of a dollar.
    pub(super) cost_total_micro_usd: u64,
    /// What was not in an earlier result of any process; from 2.1.332 on.
    pub(super) cost_since_micro_usd: Option<u64>,
}

/// A question about a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    /// Its own id, for the answer.
    pub(super) request: String,
    pub(super) tool: String,
    pub(super) input: Value,
    /// The call that it is about.
    pub(super) call: String,
}

/// Another try at the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) attempt: u64,
    pub(super) delay_ms: u64,
    pub(super) status: Option<u16>,
    pub(super) error: String,
}

/// Reads a line. One that is no JSON object is [`Line::Other`].
pub(super) fn parse(bytes: &[u8]) -> Line {
    let Ok(line) = serde_json::from_slice::<Value>(bytes) else { return Line::Other };
    // Lines of subagents are ignored; their result comes as a tool's.
    if line.get("parent_tool_use_id").is_some_and(Value::is_string) {
        return Line::Other;
    }
    match text(&line, "type") {
        "system" => system(&line),
        "stream_event" => stream_event(&line),
        "assistant" => assistant(&line),
        "user" => user(&line),
        "result" => Line::Ended(Box::new(ended(&line))),
        "command_lifecycle" => match text(&line, "state") {
            "started" => Line::Started { uuid: owned(&line, "command_uuid") },
            state @ ("completed" | "cancelled") => {
                Line::Done { uuid: owned(&line, "command_uuid"), is_dropped: state == "cancelled" }
            }
            _ => Line::Other,
        },
        "control_request" => control_request(&line),
        "control_cancel_request" => Line::AskWithdrawn { request: owned(&line, "request_id") },
        "control_response" => control_response(&line),
        _ => Line::Other,
    }
}

fn system(line: &Value) -> Line {
    match text(line, "subtype") {
        "init" => Line::Init { version: owned(line, "claude_code_version") },
        "api_retry" => Line::Retry(Retry {
            attempt: number(line, "attempt"),
            delay_ms: number(line, "retry_delay_ms"),
            status: status(line, "error_status"),
            error: owned(line, "error"),
        }),
        _ => Line::Other,
    }
}

fn stream_event(line: &Value) -> Line {
    let Some(event) = line.get("event") else { return Line::Other };
    match text(event, "type") {
        "message_start" => {
            Line::MessageBegan(event.pointer("/message/usage").map(usage).unwrap_or_default())
        }
        "content_block_delta" => match event.pointer("/delta/text").and_then(Value::as_str) {
            Some(text) => Line::Delta(text.to_owned()),
            None => Line::Other,
        },
        "message_delta" => {
            Line::Written(event.get("usage").map_or(0, |event| number(event, "output_tokens")))
        }
        "message_stop" => Line::MessageEnded,
        _ => Line::Other,
    }
}

fn assistant(line: &Value) -> Line {
    // Text that Claude Code adds as if by the model, such as an error of the API.
    let is_made_up = line.pointer("/message/model").is_some_and(|model| model == "<synthetic>")
        || line.get("is_api_error_message").and_then(Value::as_bool) == Some(true);
    if is_made_up {
        return Line::Other;
    }
    let blocks = line.pointer("/message/content").and_then(Value::as_array);
    let parts = blocks.into_iter().flatten().filter_map(|block| match text(block, "type") {
        "text" => Some(Part::Text(owned(block, "text"))),
        "tool_use" => Some(Part::ToolUse {
            id: owned(block, "id"),
            name: owned(block, "name"),
            input: block.get("input").cloned().unwrap_or_default(),
        }),
        _ => None,
    });
    Line::Said(parts.collect())
}

fn user(line: &Value) -> Line {
    if line.get("isReplay").and_then(Value::as_bool) == Some(true) {
        return Line::Echo { uuid: owned(line, "uuid") };
    }
    let blocks = line.pointer("/message/content").and_then(Value::as_array);
    let results = blocks.into_iter().flatten().filter(|block| text(block, "type") == "tool_result");
    let results: Vec<_> = results
        .map(|block| ToolResult {
            id: owned(block, "tool_use_id"),
            text: block.get("content").map(words).unwrap_or_default(),
            is_error: block.get("is_error").and_then(Value::as_bool) == Some(true),
        })
        .collect();
    if results.is_empty() { Line::Other } else { Line::Results(results) }
}

fn ended(line: &Value) -> Ended {
    let errors = line.get("errors").and_then(Value::as_array);
    Ended {
        is_error: line.get("is_error").and_then(Value::as_bool) == Some(true),
        subtype: owned(line, "subtype"),
        result: owned(line, "result"),
        errors: errors.into_iter().flatten().map(words).collect(),
        status: status(line, "api_error_status"),
        terminal_reason: owned(line, "terminal_reason"),
        usage: line.get("usage").map(usage).unwrap_or_default(),
        cost_total_micro_usd: line.get("total_cost_usd").map_or(0, micro_usd),
        cost_since_micro_usd: line.get("model_usage_since_last_result").and_then(cost_of_models),
    }
}

fn control_request(line: &Value) -> Line {
    let Some(request) = line.get("request") else { return Line::Other };
    if text(request, "subtype") != "can_use_tool" {
        return Line::Other;
    }
    Line::Ask(Ask {
        request: owned(line, "request_id"),
        tool: owned(request, "tool_name"),
        input: request.get("input").cloned().unwrap_or_default(),
        call: owned(request, "tool_use_id"),
    })
}

fn control_response(line: &Value) -> Line {
    let Some(response) = line.get("response") else { return Line::Other };
    let is_error = text(response, "subtype") == "error";
    let version = response.get("response").map(|response| owned(response, "claude_code_version"));
    Line::Answered {
        request: owned(response, "request_id"),
        error: is_error.then(|| owned(response, "error")),
        version: version.unwrap_or_default(),
    }
}

/// What stands in a content: text, or a list of blocks, of which those without text are named.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let shown =
                blocks.iter().map(|block| match block.get("text").and_then(Value::as_str) {
                    Some(text) => text.to_owned(),
                    None => format!("[{}]", text(block, "type")),
                });
            shown.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => content.to_string(),
    }
}

fn cost_of_models(it: &Value) -> Option<u64> {
    let costs = it.as_object()?.values().filter_map(|it| it.get("costUSD"));
    Some(costs.map(micro_usd).fold(0, u64::saturating_add))
}

/// Dollars, in millionths. What is no sum of money is none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is bounded to what fits"
)]
fn micro_usd(it: &Value) -> u64 {
    (it.as_f64().unwrap_or(0.0).clamp(0.0, COST_USD_MAX) * 1e6).round() as u64
}

fn usage(it: &Value) -> Usage {
    Usage {
        input_tokens: number(it, "input_tokens"),
        output_tokens: number(it, "output_tokens"),
        cache_read_tokens: number(it, "cache_read_input_tokens"),
        cache_write_tokens: number(it, "cache_creation_input_tokens"),
        ..Usage::default()
    }
}

fn text<'a>(it: &'a Value, field: &str) -> &'a str {
    it.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn owned(it: &Value, field: &str) -> String {
    text(it, field).to_owned()
}

fn number(it: &Value, field: &str) -> u64 {
    it.get(field).and_then(Value::as_u64).unwrap_or(0)
}

fn status(it: &Value, field: &str) -> Option<u16> {
    it.get(field).and_then(Value::as_u64).and_then(|it| u16::try_from(it).ok())
}

/// The first line, whose answer says that Claude Code is ready.
pub(super) fn initialize(request: &str) -> String {
    control(request, "initialize")
}

/// Ends the turn; a `result` line follows.
pub(super) fn interrupt(request: &str) -> String {
    control(request, "interrupt")
}

fn control(request: &str, subtype: &str) -> String {
    json!({ "type": "control_request", "request_id": request, "request": { "subtype": subtype } })
        .to_string()
}

/// A line in the user's role. During a turn it enters at the next tool round.
pub(super) fn user_line(uuid: &str, text: &str) -> String {
    // A text that begins with a slash would be taken for a command of Claude Code, and be lost.
    let text = if text.starts_with('/') { format!("\n{text}") } else { text.to_owned() };
    json!({
        "type": "user", "uuid": uuid, "parent_tool_use_id": null,
        "message": { "role": "user", "content": text },
    })
    .to_string()
}

/// The tool runs, with this input.
pub(super) fn allow(ask: &Ask) -> String {
    respond(&ask.request, &json!({ "behavior": "allow", "updatedInput": ask.input }))
}

/// The tool does not run. The model reads why.
pub(super) fn deny(ask: &Ask, why: &str) -> String {
    respond(&ask.request, &json!({ "behavior": "deny", "message": why }))
}

fn respond(request: &str, response: &Value) -> String {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request, "response": response },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &Value) -> Line {
        parse(line.to_string().as_bytes())
    }

    /// formats that are not ours change; what is not understood must not end a run.
    #[test]
    fn r2_what_is_not_known_is_passed_over() {
        for odd in [
            &b""[..],
            b"not json",
            b"[]",
            b"null",
            b"{\"type\":7}",
            b"{\"type\":\"novelty\"}",
            b"{\"type\":\"system\",\"subtype\":\"status\"}",
            b"{\"type\":\"stream_event\"}",
            b"{\"type\":\"control_request\",\"request\":{\"subtype\":\"hook_callback\"}}",
            b"{\"type\":\"user\",\"message\":{\"content\":\"[Request interrupted by user]\"}}",
            b"\xff\xfe",
        ] {
            assert_eq!(parse(odd), Line::Other, "{}", String::from_utf8_lossy(odd));
        }
        let empty = read(&json!({ "type": "result", "usage": "none", "errors": 5 }));
        assert_eq!(empty, Line::Ended(Box::default()));
    }

    #[test]
    fn r2_an_answer_and_the_results_of_its_calls_are_read() {
        let line = json!({ "type": "assistant", "parent_tool_use_id": null, "message": {
            "model": "m", "content": [
                { "type": "thinking", "thinking": "hm" },
                { "type": "text", "text": "look" },
                { "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "ls" } },
            ] } });
        let input = json!({ "command": "ls" });
        let call = Part::ToolUse { id: "toolu_1".into(), name: "Bash".into(), input };
        assert_eq!(read(&line), Line::Said(vec![Part::Text("look".into()), call]));
        let line = json!({ "type": "user", "message": { "content": [
            { "type": "tool_result", "tool_use_id": "toolu_1", "is_error": true,
              "content": [{ "type": "text", "text": "a" }, { "type": "image" }] } ] } });
        let result = ToolResult { id: "toolu_1".into(), text: "a\n[image]".into(), is_error: true };
        assert_eq!(read(&line), Line::Results(vec![result]));
    }

    /// What Claude Code says in the model's name, and what its subagents say, is not the agent's.
    #[test]
    fn w9_made_up_words_are_nobodys_report() {
        let line = json!({ "type": "assistant",
            "message": { "model": "<synthetic>", "content": [{ "type": "text", "text": "API Error" }] } });
        assert_eq!(read(&line), Line::Other);
        let line = json!({ "type": "assistant", "parent_tool_use_id": "toolu_9",
            "message": { "model": "m", "content": [{ "type": "text", "text": "sub" }] } });
        assert_eq!(read(&line), Line::Other);
    }

    #[test]
    fn w8_a_result_is_judged_by_is_error() {
        let line = json!({ "type": "result", "subtype": "success", "is_error": true,
            "result": "API Error: 400 no", "api_error_status": 400, "terminal_reason": "api_error",
            "usage": { "input_tokens": 3, "cache_read_input_tokens": 2 }, "total_cost_usd": 0.5 });
        let Line::Ended(ended) = read(&line) else { panic!() };
        assert!(ended.is_error && ended.status == Some(400));
        assert_eq!((ended.cost_total_micro_usd, ended.cost_since_micro_usd), (500_000, None));
        assert_eq!(ended.usage.total_tokens(), 5);
    }

    #[test]
    fn r2_what_a_turn_cost_is_the_sum_over_its_models() {
        let cost = |models: Value| {
            let line = json!({ "type": "result", "total_cost_usd": 2, "model_usage_since_last_result": models });
            let Line::Ended(ended) = read(&line) else { panic!() };
            (ended.cost_total_micro_usd, ended.cost_since_micro_usd)
        };
        assert_eq!(
            cost(json!({ "a": { "costUSD": 0.25 }, "b": { "costUSD": 0.000_001_4 }, "c": 1 })),
            (2_000_000, Some(250_001))
        );
        assert_eq!(cost(json!({})), (2_000_000, Some(0)));
        assert_eq!(cost(json!("none")), (2_000_000, None));
        assert_eq!(
            cost(json!({ "a": { "costUSD": -1 }, "b": { "costUSD": 1e300 } })).1,
            Some(1_000_000_000_000)
        );
    }

    /// Case A8 with a text that would be taken for a command.
    #[test]
    fn a8_no_text_is_taken_for_a_command() {
        let line: Value = serde_json::from_str(&user_line("u", "/clear")).unwrap();
        assert_eq!(line.pointer("/message/content").unwrap(), "\n/clear");
        let line: Value = serde_json::from_str(&user_line("u", "a /b")).unwrap();
        assert_eq!(line.pointer("/message/content").unwrap(), "a /b");
    }

    /// What a recorded exchange comes to: one word for each line of Claude Code's that is known.
    fn kinds(recorded: &str) -> Vec<&'static str> {
        let lines = recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines = lines.filter_map(|line| line.get("out").cloned());
        let kinds = lines.filter_map(|line| match read(&line) {
            Line::Init { version } => (version == "2.1.332").then_some("init"),
            Line::MessageBegan(_) => Some("began"),
            Line::Delta(_) => Some("delta"),
            Line::Written(_) => Some("written"),
            Line::MessageEnded => Some("over"),
            Line::Said(parts) => (!parts.is_empty()).then_some("said"),
            Line::Results(_) => Some("results"),
            Line::Started { .. } => Some("started"),
            Line::Echo { .. } => Some("echo"),
            Line::Done { .. } => Some("done"),
            Line::Ended(ended) => Some(if ended.is_error { "failed" } else { "ended" }),
            Line::Ask(_) => Some("ask"),
            Line::AskWithdrawn { .. } => Some("withdrawn"),
            Line::Answered { .. } => Some("answered"),
            Line::Retry(_) => Some("retry"),
            Line::Other => None,
        });
        kinds.collect()
    }

    /// What the real one said in tests of ours (`tests/data/cli`) is understood.
    #[test]
    fn r2_recorded_exchanges_are_understood() {
        macro_rules! recorded {
            ($scene:literal) => {
                kinds(include_str!(concat!(
                    "../../../../../tests/data/cli/2.1.332/",
                    $scene,
                    ".jsonl"
                )))
            };
        }
        let asked = ["init", "said", "ask", "results"];
        assert_eq!(recorded!("questions").get(..4).unwrap(), asked);
        let pieces = recorded!("pieces");
        for kind in ["began", "delta", "written", "said", "over", "ended"] {
            assert!(pieces.contains(&kind), "no {kind} in {pieces:?}");
        }
        let meanwhile = recorded!("said-meanwhile");
        for kind in ["started", "echo", "done"] {
            assert!(meanwhile.contains(&kind), "no {kind} in {meanwhile:?}");
        }
        for failed in [recorded!("api-error"), recorded!("max-turns"), recorded!("interrupted")] {
            assert!(failed.contains(&"failed"), "{failed:?}");
        }
        assert!(recorded!("control").contains(&"answered"));
    }
}
