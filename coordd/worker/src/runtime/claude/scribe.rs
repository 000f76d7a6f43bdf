//! Claude Code's output as entries of our transcript.
//!
//! ```text
//!   message_start --parts--> message_stop --> Turn, then the results that came meanwhile
//! ```
//!
//! The transcript is a mirror: for people, for what a run used, and for what to report of one that
//! was cut off. Claude Code's own record is what the model reads. It does no I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::entry::What;
use proto::json::Json;
use proto::notification::Usage;
use tokio::time::Instant;

use super::command::SERVER_PREFIX;
use super::wire::{Part, ToolResult};
use crate::conversation::Conversation;

/// Longest text of a result in the transcript; it is the bound of our own tools.
const RESULT_LEN_MAX: usize = 30_000;

/// A call of the model that is under way.
#[derive(Debug)]
struct Open {
    began: Instant,
    usage: Usage,
}

/// Writes down what is said.
#[derive(Debug, Default)]
pub(super) struct Scribe {
    open: Option<Open>,
    /// The part of the current text that has arrived.
    partial: String,
    /// Results that came before their answer was whole.
    results: Vec<What>,
    /// Ids of calls where ours differ.
    calls: BTreeMap<String, String>,
    /// What is written down of the turn.
    written: Usage,
}

impl Scribe {
    pub(super) fn began(&mut self, read: Usage) -> Vec<What> {
        // One that broke off is not gone on with.
        let what = self.message_ended();
        self.open = Some(Open { began: Instant::now(), usage: read });
        what
    }

    pub(super) fn delta(&mut self, text: &str) {
        self.partial.push_str(text);
    }

    pub(super) fn wrote(&mut self, tokens: u64) {
        if let Some(open) = &mut self.open {
            open.usage.output_tokens = tokens;
        }
    }

    pub(super) fn said(&mut self, parts: Vec<Part>, conversation: &Conversation) -> Vec<What> {
        self.partial.clear();
        let open = self
            .open
            .get_or_insert_with(|| Open { began: Instant::now(), usage: Usage::default() });
        let (mut what, mut taken) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text(text) if text.trim().is_empty() => {}
                Part::Text(text) => what.push(What::Text { text }),
                Part::ToolUse { id, name, input } => {
                    let call = conversation.fresh_call_id(&id, &taken);
                    taken.push(call.clone());
                    open.usage.tool_uses += 1;
                    self.calls.insert(id, call.clone());
                    let tool = name.strip_prefix(SERVER_PREFIX).map_or(name.clone(), str::to_owned);
                    what.push(What::ToolCall { call, tool, input: Json(input) });
                }
            }
        }
        what
    }

    pub(super) fn results(&mut self, results: Vec<ToolResult>) -> Vec<What> {
        let what = results.into_iter().map(|it| What::ToolResult {
            call: self.call(&it.id),
            text: crate::tools::cut(&it.text, RESULT_LEN_MAX).to_owned(),
            is_error: it.is_error,
        });
        let what: Vec<_> = what.collect();
        if self.open.is_none() {
            return what;
        }
        self.results.extend(what);
        Vec::new()
    }

    /// Our id of a call.
    pub(super) fn call(&self, id: &str) -> String {
        self.calls.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }

    pub(super) fn message_ended(&mut self) -> Vec<What> {
        let Some(Open { began, usage }) = self.open.take() else { return Vec::new() };
        let usage = Usage { duration_ms: millis(began.elapsed()), ..usage };
        self.written.add(&usage);
        let mut what = vec![What::Turn { usage }];
        what.append(&mut self.results);
        what
    }

    /// The turn is over, used this much and cost this much. What the answers did not tell of is
    /// counted as one more call of the model: what Claude Code asked for itself, or for a subagent.
    pub(super) fn ended(&mut self, used: &Usage, cost_micro_usd: u64) -> Vec<What> {
        let mut what = self.message_ended();
        let written = std::mem::take(&mut self.written);
        let rest = Usage {
            input_tokens: used.input_tokens.saturating_sub(written.input_tokens),
            output_tokens: used.output_tokens.saturating_sub(written.output_tokens),
            cache_read_tokens: used.cache_read_tokens.saturating_sub(written.cache_read_tokens),
            cache_write_tokens: used.cache_write_tokens.saturating_sub(written.cache_write_tokens),
            cost_micro_usd,
            ..Usage::default()
        };
        if rest != Usage::default() {
            what.push(What::Turn { usage: rest });
        }
        what
    }

    /// The partial answer of a process that exited in the middle, without the mark of a whole one.
    pub(super) fn broke_off(&mut self) -> Vec<What> {
        let partial = std::mem::take(&mut self.partial);
        let text = (!partial.trim().is_empty()).then_some(What::Text { text: partial });
        (self.open, self.written) = (None, Usage::default());
        text.into_iter().chain(std::mem::take(&mut self.results)).collect()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
