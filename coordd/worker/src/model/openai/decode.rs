//! The events of Chat Completions, and a completion that is not streamed, as our answer.
//!
//! Tool calls come in pieces that are told apart by an index; some servers repeat the id in every
//! piece, leave it out, or give every call the index 0 and a new id. Each field is read by itself, so
//! that one of an unexpected type costs no more than itself.

use serde_json::{Map, Value};

use super::super::assembly::{AnswerTooLong, Assembly, CallPiece};
use super::super::decode::{Progress, stop_of};
use super::super::kept::{Kept, KeptCall};
use super::super::lenient::{Piece, list, number, pieces, word};
use super::super::think::Think;
use super::super::{OnDelta, Stop, Usage, call};
use super::reasoning;

/// The slot of the answer's reasoning, before that of its text; tool calls come after both.
const REASONING_SLOT: u64 = 0;
const TEXT_SLOT: u64 = 1;
/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(in crate::model) struct Decoder {
    /// The calls that have begun: index and id as the server gave them. A call's place here is its
    /// place after the text.
    calls: Vec<(Option<u64>, String)>,
    /// The names of the tools on offer.
    known: Vec<String>,
    think: Think,
    /// Deltas have come: a whole message after them says the same once more.
    streamed: bool,
}

impl Decoder {
    pub(in crate::model) fn new(known: Vec<String>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Takes one event.
    pub(in crate::model) fn take(
        &mut self,
        event: &Value,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<Progress, AnswerTooLong> {
        if let Some(error) = error_of(event) {
            return Ok(Progress::Failed(error));
        }
        if let Some(usage) = event.get("usage").and_then(usage) {
            assembly.understood = true;
            assembly.usage = usage;
        }
        // One choice was asked for; any other would be mixed into it.
        let Some(choice) = list(event.get("choices")).first().filter(|it| it.is_object()) else {
            return Ok(Progress::More);
        };
        assembly.understood = true;
        if let Some(error) = choice.get("error").filter(|error| says_something(error)) {
            return Ok(Progress::Failed(error.clone()));
        }
        let part = |name: &str| choice.get(name).filter(|it| !it.is_null());
        if let Some(delta) = part("delta") {
            self.streamed = true;
            self.message(delta, false, assembly, on_delta)?;
        } else if let Some(message) = part("message") {
            self.message(message, self.streamed, assembly, on_delta)?;
        } else if let Some(text) = part("text") {
            self.content(Some(text), false, assembly, on_delta)?;
        }
        if let Some(reason) = word(choice.get("finish_reason")) {
            self.think.end(assembly, TEXT_SLOT, REASONING_SLOT, on_delta)?;
            if reason == "error" {
                let said = choice.get("native_finish_reason").unwrap_or(&Value::Null);
                return Ok(Progress::Failed(serde_json::json!({ "message": said })));
            }
            match stop_of(reason) {
                Some(stop) => assembly.stops(stop, reason),
                None => return Ok(Progress::Garbled(format!("it ended with `{reason}`"))),
            }
        }
        Ok(Progress::More)
    }

    /// The end of the stream: what was held back is text.
    pub(in crate::model) fn end(
        &mut self,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        self.think.end(assembly, TEXT_SLOT, REASONING_SLOT, on_delta)
    }

    fn message(
        &mut self,
        message: &Value,
        again: bool,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        if !message.is_object() {
            return self.content(Some(message), again, assembly, on_delta);
        }
        if !again {
            reasoning::take(message, REASONING_SLOT, assembly)?;
        }
        let content = message.get("content").filter(|it| !it.is_null());
        self.content(content.or(message.get("text")), again, assembly, on_delta)?;
        if let Some(refusal) = word(message.get("refusal")) {
            assembly.text(TEXT_SLOT, refusal, on_delta)?;
            assembly.stop.get_or_insert(Stop::Refusal);
        }
        for call in list(message.get("tool_calls")) {
            self.call(call, again, assembly, on_delta)?;
        }
        if let Some(function @ Value::Object(_)) = message.get("function_call") {
            let call = serde_json::json!({ "index": 0, "function": function });
            self.call(&call, again, assembly, on_delta)?;
        }
        Ok(())
    }

    fn content(
        &mut self,
        content: Option<&Value>,
        again: bool,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        let mut whole = String::new();
        for piece in pieces(content) {
            match piece {
                Piece::Text(text) if again => whole.push_str(&text),
                Piece::Text(text) => {
                    self.think.take(&text, assembly, TEXT_SLOT, REASONING_SLOT, on_delta)?;
                }
                Piece::Reasoning(_) if again => {}
                Piece::Reasoning(text) => assembly.reasoning(REASONING_SLOT, &text, |kept| {
                    Some(reasoning::with_part(kept, &text))
                })?,
            }
        }
        if again && !self.think.has_thought() {
            assembly.whole_text(TEXT_SLOT, &whole, on_delta)?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        call: &Value,
        again: bool,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        let Some(fields) = call.as_object() else { return Ok(()) };
        let function = call.get("function").filter(|it| it.is_object()).unwrap_or(call);
        let index = number(call.get("index"));
        let id = id_of(call.get("id"));
        let name = word(function.get("name")).unwrap_or_default();
        let names = ["arguments", "parameters", "input"];
        let arguments = names.iter().find_map(|name| function.get(*name));
        let known = self.begun(index, &id, name, arguments, again, assembly);
        let piece = CallPiece {
            id: id.clone(),
            name: name.to_owned(),
            given: arguments.filter(|it| !it.is_string() && !it.is_null()).cloned(),
            kept: kept_of(fields, function),
        };
        let at = if let Some(at) = known {
            assembly.more_of_tool(slot(at), piece, on_delta)?;
            if let Some((_, known_id)) = self.calls.get_mut(at)
                && known_id.is_empty()
            {
                *known_id = id;
            }
            at
        } else {
            self.calls.push((index, id));
            let at = self.calls.len() - 1;
            assembly.open_tool(slot(at), piece, on_delta)?;
            at
        };
        match arguments.and_then(Value::as_str) {
            Some(whole) if again => assembly.tool_input(slot(at), whole),
            Some(piece) => assembly.tool_json(slot(at), piece).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The call that this piece belongs to, if it has begun.
    fn begun(
        &self,
        index: Option<u64>,
        id: &str,
        name: &str,
        arguments: Option<&Value>,
        again: bool,
        assembly: &mut Assembly,
    ) -> Option<usize> {
        let by_id = self.calls.iter().rposition(|(_, it)| !id.is_empty() && it == id);
        if by_id.is_some() {
            return by_id;
        }
        let at = match index {
            Some(_) => self.calls.iter().rposition(|(it, _)| *it == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let (_, known_id) = self.calls.get(at)?;
        if again {
            return Some(at);
        }
        if !id.is_empty() && !known_id.is_empty() {
            return None;
        }
        let (known_name, json, given) = assembly.call_at(slot(at))?;
        let says_input = match arguments {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(_) => true,
        };
        let is_tool = |name: &str| self.known.iter().any(|it| it == name);
        // A second name, or a second input, is a second call.
        let another = !name.is_empty()
            && ((is_tool(known_name) && is_tool(name) && known_name != name)
                || (says_input && (given || call::is_whole(json))));
        (!another).then_some(at)
    }
}

/// Ids are mostly text; a number is one too.
fn id_of(id: Option<&Value>) -> String {
    match id {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        None | Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            String::new()
        }
    }
}

/// Signatures and the like, which belong to the call.
fn kept_of(call: &Map<String, Value>, function: &Value) -> Option<Kept> {
    let known = ["index", "id", "type", "function", "name", "arguments", "parameters", "input"];
    let others = |fields: &Map<String, Value>| -> Map<String, Value> {
        let new =
            |(name, value): &(&String, &Value)| !known.contains(&name.as_str()) && !value.is_null();
        let fields = fields.iter().filter(new);
        fields.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let inner = function.as_object().filter(|it| *it != call).map(others).unwrap_or_default();
    let kept = KeptCall { id: String::new(), fields: others(call), function: inner };
    (kept != KeptCall::default()).then_some(Kept::Call(kept))
}

/// The error that an event is about, if it is about one.
fn error_of(event: &Value) -> Option<Value> {
    if let Some(error) = event.get("error").filter(|error| says_something(error)) {
        // What stands beside it belongs to it: a status, the time to wait.
        return Some(if error.is_object() { error.clone() } else { event.clone() });
    }
    let is_error = |name: &str| word(event.get(name)) == Some("error");
    let has_choices = event.get("choices").is_some();
    let speaks = ["message", "detail"].iter().any(|name| event.get(*name).is_some());
    let told = is_error("object") || is_error("type") || event.get("detail").is_some();
    let coded = event.get("code").is_some() || event.get("status").is_some();
    (!has_choices && speaks && (told || coded)).then(|| event.clone())
}

fn says_something(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Array(_) => true,
    }
}

fn slot(at: usize) -> u64 {
    TEXT_SLOT + 1 + u64::try_from(at).unwrap_or(u64::MAX - 2)
}

fn usage(usage: &Value) -> Option<Usage> {
    let fields = usage.as_object()?;
    let first = |names: &[&str]| names.iter().find_map(|name| number(fields.get(*name)));
    let cached = usage.get("prompt_tokens_details").and_then(|it| number(it.get("cached_tokens")));
    let cache_read = cached.or_else(|| first(&["prompt_cache_hit_tokens", "cached_tokens"]));
    let cache_read = cache_read.unwrap_or(0);
    let prompt = first(&["prompt_tokens", "input_tokens"]);
    let output = first(&["completion_tokens", "output_tokens"]);
    if prompt.is_none() && output.is_none() {
        return None;
    }
    Some(Usage {
        input: prompt.unwrap_or(0).saturating_sub(cache_read),
        output: output.unwrap_or(0),
        cache_read,
        cache_write: 0,
    })
}
