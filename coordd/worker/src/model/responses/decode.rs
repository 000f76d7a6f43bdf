//! The events of the Responses API, and a response that is not streamed, as our answer.
//!
//! Text and inputs come as deltas, then once more as a whole, item by item and in the last event. What the
//! deltas lacked is taken from there.

use serde_json::Value;

use super::super::assembly::{AnswerTooLong, Assembly, CallPiece};
use super::super::decode::{Progress, stop_of};
use super::super::kept::Kept;
use super::super::lenient::{list, number, text, word};
use super::super::{OnDelta, Stop, Usage};

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(in crate::model) struct Decoder {
    /// The model declined, in a part of its own.
    refused: bool,
}

impl Decoder {
    /// Takes one event.
    pub(in crate::model) fn take(
        &mut self,
        name: &str,
        event: &Value,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<Progress, AnswerTooLong> {
        let kind = word(event.get("type")).unwrap_or(name);
        if word(event.get("object")) == Some("response") {
            return self.whole(event, assembly, on_delta);
        }
        let index = number(event.get("output_index"));
        let at = index.or(assembly.last_slot()).unwrap_or(0);
        let delta = || text(event.get("delta"));
        assembly.understood |= kind.starts_with("response.");
        match kind {
            "response.output_item.added" => {
                let at = index.unwrap_or_else(|| assembly.last_slot().map_or(0, |last| last + 1));
                if let Some(item) = event.get("item") {
                    begin(at, item, assembly, on_delta)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.get("item") {
                    self.item(at, item, assembly, on_delta)?;
                }
            }
            "response.output_text.delta" => assembly.text(at, &delta(), on_delta)?,
            "response.output_text.done" => {
                assembly.whole_text(at, &text(event.get("text")), on_delta)?;
            }
            "response.refusal.delta" => {
                self.refused = true;
                assembly.text(at, &delta(), on_delta)?;
            }
            "response.function_call_arguments.delta" if assembly.tool_json(at, &delta())? => {}
            "response.function_call_arguments.delta" => {
                let problem = "the input of a call that never began".to_owned();
                return Ok(Progress::Garbled(problem));
            }
            "response.function_call_arguments.done" => {
                assembly.tool_input(at, &arguments(event))?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                assembly.reasoning(at, &delta(), |kept| kept)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.done" => {
                let response = event.get("response").unwrap_or(event);
                return self.whole(response, assembly, on_delta);
            }
            "error" => {
                let error = event.get("error").filter(|it| it.is_object());
                return Ok(Progress::Failed(error.unwrap_or(event).clone()));
            }
            "" => {
                let error = event.get("error").filter(|it| !it.is_null());
                if let Some(error) = error.or(event.get("detail")) {
                    return Ok(Progress::Failed(error.clone()));
                }
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    /// A response as a whole: all of it, or what is left to say.
    fn whole(
        &mut self,
        response: &Value,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<Progress, AnswerTooLong> {
        assembly.understood = true;
        if let Some(error) = response.get("error").filter(|it| !it.is_null()) {
            return Ok(Progress::Failed(error.clone()));
        }
        for (at, item) in (0..).zip(list(response.get("output"))) {
            self.item(at, item, assembly, on_delta)?;
        }
        usage(response.get("usage"), &mut assembly.usage);
        let status = word(response.get("status")).unwrap_or("completed");
        let reason = response.get("incomplete_details").and_then(|it| word(it.get("reason")));
        match (status, reason) {
            ("failed" | "cancelled", _) => {
                return Ok(Progress::Garbled(format!("the response is `{status}`")));
            }
            // Not its end: some servers show the response as it begins.
            ("in_progress" | "queued", _) => return Ok(Progress::More),
            (_, Some(reason)) => match stop_of(reason) {
                Some(stop) => assembly.stops(stop, reason),
                None => return Ok(Progress::Garbled(format!("it ended with `{reason}`"))),
            },
            ("incomplete", None) => assembly.stops(Stop::OutputLimit, status),
            _ if self.refused => assembly.stops(Stop::Refusal, "refusal"),
            _ => assembly.stops(Stop::EndTurn, status),
        }
        Ok(Progress::Ended)
    }

    /// An item that is complete.
    fn item(
        &mut self,
        at: u64,
        item: &Value,
        assembly: &mut Assembly,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        match word(item.get("type")).unwrap_or_default() {
            "message" => {
                self.refused |= list(item.get("content"))
                    .iter()
                    .any(|part| word(part.get("type")) == Some("refusal"));
                assembly.whole_text(at, &text(item.get("content")), on_delta)
            }
            "function_call" => {
                if assembly.call_at(at).is_none() {
                    begin(at, item, assembly, on_delta)?;
                }
                assembly.tool_input(at, &arguments(item))?;
                assembly.close(at);
                Ok(())
            }
            "reasoning" => {
                let shown = if assembly.has(at) { String::new() } else { thought(item) };
                assembly.reasoning(at, &shown, |_| Some(Kept::Responses(item.clone())))
            }
            _ if assembly.has(at) => Ok(()),
            _ => assembly.other(at),
        }
    }
}

fn begin(
    at: u64,
    item: &Value,
    assembly: &mut Assembly,
    on_delta: OnDelta<'_>,
) -> Result<(), AnswerTooLong> {
    match word(item.get("type")).unwrap_or_default() {
        "function_call" => {
            let id = word(item.get("call_id")).or(word(item.get("id")));
            let piece = CallPiece {
                id: id.unwrap_or_default().to_owned(),
                name: word(item.get("name")).unwrap_or_default().to_owned(),
                ..CallPiece::default()
            };
            assembly.open_tool(at, piece, on_delta)
        }
        "reasoning" => assembly.reasoning(at, "", |_| Some(Kept::Responses(item.clone()))),
        "message" => Ok(()),
        _ => assembly.other(at),
    }
}

fn arguments(item: &Value) -> String {
    match item.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn thought(item: &Value) -> String {
    let summary = list(item.get("summary")).iter().chain(list(item.get("content")));
    summary.filter_map(|part| word(part.get("text"))).collect::<Vec<_>>().join("\n\n")
}

fn usage(wire: Option<&Value>, usage: &mut Usage) {
    let Some(wire) = wire.filter(|it| it.is_object()) else { return };
    let details = wire.get("input_tokens_details");
    let cached = details.and_then(|it| number(it.get("cached_tokens"))).unwrap_or(0);
    let input = number(wire.get("input_tokens")).unwrap_or(0);
    usage.input = input.saturating_sub(cached);
    usage.cache_read = cached;
    usage.output = number(wire.get("output_tokens")).unwrap_or(0);
}
