//! What Claude Code says, taken in line by line.
//!
//! Errors of the API are judged here: by `is_error` and the HTTP status, into the classes of W-8.

use proto::notification::FailureClass;
use proto::request::Request;
use proto::response::Response;
use tokio::time::Instant;

use super::super::approval::{Verdict, WAITING};
use super::super::ask::time_words;
use super::child::Child;
use super::command::SERVER_PREFIX;
use super::wire::{self, Ask, Ended, Line, Part, Retry};
use super::{Asked, Halt, Run, Stage};
use crate::conversation::{OpenCall, Standing};
use crate::link::CallError;
use crate::outcome::Shortfall;

/// The most tries with a refused key: a login may have been renewed meanwhile.
const REFUSED_TRIES_MAX: u64 = 3;

/// The answer to a tool call in the turn for the report.
const NO_TOOLS: &str = "No tool runs any more. Write your report.";

impl Run<'_> {
    pub(super) fn take(&mut self, child: &mut Child, line: Line) -> Result<(), Halt> {
        match line {
            Line::Init { .. } | Line::Answered { .. } | Line::Other => Ok(()),
            Line::Started { uuid } => self.started(&uuid),
            Line::Echo { uuid } => self.echoed(&uuid),
            Line::Done { uuid, is_dropped } => self.through_with(&uuid, is_dropped),
            Line::MessageBegan(read) => {
                self.speaks()?;
                let what = self.scribe.began(read);
                self.record(what)?;
                self.agent.activity("thinking", self.clock.elapsed_ms());
                Ok(())
            }
            Line::Delta(text) => {
                self.agent.link.delta(&text);
                self.scribe.delta(&text);
                Ok(())
            }
            Line::Written(tokens) => {
                self.scribe.wrote(tokens);
                Ok(())
            }
            Line::MessageEnded => {
                let what = self.scribe.message_ended();
                self.record(what)?;
                self.count_turn(child)
            }
            Line::Said(parts) => self.said(child, parts),
            Line::Results(results) => {
                let what = self.scribe.results(results);
                self.record(what)
            }
            Line::Ask(ask) => {
                self.ask(child, ask);
                Ok(())
            }
            Line::AskWithdrawn { request } => {
                self.asks.remove(&request);
                self.resume_clock();
                Ok(())
            }
            Line::Retry(retry) => self.retries(&retry),
            Line::Ended(ended) => self.turn_ended(&ended),
        }
    }

    fn speaks(&mut self) -> Result<(), Halt> {
        self.is_quiet = false;
        self.said_anything = true;
        self.heard_what_was_echoed()
    }

    fn said(&mut self, child: &mut Child, parts: Vec<Part>) -> Result<(), Halt> {
        self.speaks()?;
        let tool = parts.iter().find_map(|part| match part {
            Part::ToolUse { name, .. } => Some(name.clone()),
            Part::Text(_) => None,
        });
        if self.stage.is_report() && tool.is_some() {
            self.interrupt(child);
        }
        let reporting = self.stage.is_report();
        let parts = parts.into_iter().filter(|part| !reporting || matches!(part, Part::Text(_)));
        let what = self.scribe.said(parts.collect(), self.agent.memory.conversation());
        self.record(what)?;
        if let Some(tool) = tool {
            let tool = crate::tools::cut(&tool, 64);
            self.agent.activity(&format!("running {tool}"), self.clock.elapsed_ms());
        }
        Ok(())
    }

    /// Limits that Claude Code does not know of.
    fn count_turn(&mut self, child: &mut Child) -> Result<(), Halt> {
        let conversation = self.agent.memory.conversation();
        if conversation.standing() == Standing::Answered || self.stage.is_interrupted() {
            return Ok(());
        }
        let limits = self.agent.boot.limits;
        if limits.tokens > 0 && conversation.so_far().usage.total_tokens() >= limits.tokens {
            let limit = format!("{} tokens", limits.tokens);
            return Err(Halt::Limit { limit, reason: "out of tokens" });
        }
        self.turns_left = self.turns_left.map(|turns| turns.saturating_sub(1));
        if self.turns_left == Some(0) {
            self.interrupt(child);
        }
        Ok(())
    }

    fn turn_ended(&mut self, ended: &Ended) -> Result<(), Halt> {
        let cost_micro_usd = self.cost.of(ended);
        let what = self.scribe.ended(&ended.usage, cost_micro_usd);
        tracing::info!(
            subtype = ended.subtype,
            reason = ended.terminal_reason,
            cost_micro_usd,
            "a turn of Claude Code ended"
        );
        self.is_quiet = true;
        if !self.is_open() {
            self.hear_all()?;
        }
        self.record(what)?;
        if self.stage.is_interrupted() || !ended.is_error {
            return Ok(());
        }
        if ended.subtype == "error_max_turns" {
            let limit = format!("{} turns", self.agent.boot.limits.turns);
            return Err(Halt::Limit { limit, reason: "out of turns" });
        }
        Err(Halt::Short(shortfall(ended)))
    }

    fn retries(&mut self, retry: &Retry) -> Result<(), Halt> {
        let refused = matches!(retry.status, Some(401 | 403));
        if refused && retry.attempt >= REFUSED_TRIES_MAX {
            return Err(Halt::Short(refusal(retry.status)));
        }
        let (span, error) = (time_words(retry.delay_ms), crate::tools::cut(&retry.error, 100));
        let doing = match retry.status {
            Some(status) => format!("waiting {span}: HTTP {status}, {error}"),
            None => format!("waiting {span}: cannot reach the model"),
        };
        self.agent.activity(&doing, self.clock.elapsed_ms());
        Ok(())
    }

    fn ask(&mut self, child: &mut Child, ask: Ask) {
        if self.stage != Stage::Working {
            child.write(wire::deny(&ask, NO_TOOLS));
            return;
        }
        if ask.tool.starts_with(SERVER_PREFIX) {
            // What a role may do is the daemon's word.
            child.write(wire::allow(&ask));
            return;
        }
        let id = self.scribe.call(&ask.call);
        let call = OpenCall { id, tool: ask.tool.clone(), input: ask.input.clone() };
        self.agent.learn_from_others();
        let question = match self.agent.judge(&call) {
            Verdict::Allowed => {
                child.write(wire::allow(&ask));
                return;
            }
            Verdict::Denied(why) => {
                child.write(wire::deny(&ask, &why));
                return;
            }
            Verdict::Asked(question) => *question,
        };
        let same = |it: &OpenCall| it.tool == call.tool && it.input == call.input;
        let key = match self.asked_before.iter().position(same) {
            Some(at) => self.asked_before.remove(at).id,
            None => call.id,
        };
        self.agent.activity(WAITING, self.clock.elapsed_ms());
        self.asking_since.get_or_insert_with(Instant::now);
        let asked = self.agent.link.call(Request::PermissionAsk { question }, Some(key.clone()));
        let request = ask.request.clone();
        self.asks.insert(ask.request.clone(), Asked { ask, key });
        self.answers.push(Box::pin(async move { (request, asked.await) }));
    }

    /// The user's answer to a question.
    pub(super) fn answered(
        &mut self,
        child: &mut Child,
        request: &str,
        answer: Result<Response, CallError>,
    ) {
        let refused = self.agent.hear(answer);
        let Some(Asked { ask, .. }) = self.asks.remove(request) else { return };
        child.write(match refused {
            None => wire::allow(&ask),
            Some(why) => wire::deny(&ask, &why),
        });
        self.resume_clock();
        if self.asks.is_empty() {
            let tool = crate::tools::cut(&ask.tool, 64);
            self.agent.activity(&format!("running {tool}"), self.clock.elapsed_ms());
        }
    }

    /// Time in which a person decides does not count.
    fn resume_clock(&mut self) {
        if self.asks.is_empty()
            && let Some(since) = self.asking_since.take()
        {
            self.clock.pause(since.elapsed());
        }
    }
}

/// What a failed turn means for the run.
fn shortfall(ended: &Ended) -> Shortfall {
    let said = if ended.result.is_empty() { ended.errors.join("; ") } else { ended.result.clone() };
    let said = crate::tools::cut(said.trim(), 1_000);
    let is_api = ended.terminal_reason == "api_error";
    let class = match ended.status {
        Some(401 | 403) => return refusal(ended.status),
        Some(408 | 429 | 500..) => FailureClass::Retryable,
        Some(_) if said.to_ascii_lowercase().contains("too long") => FailureClass::Adjust,
        Some(_) => FailureClass::Fatal,
        None if is_api && said.to_ascii_lowercase().contains("too long") => FailureClass::Adjust,
        // It did not reach the model, or ended its turn for a reason of its own.
        None => FailureClass::Retryable,
    };
    let reason = if said.is_empty() { "Claude Code gave no reason" } else { said };
    Shortfall::failed(class, reason)
}

fn refusal(status: Option<u16>) -> Shortfall {
    let status = status.map_or(String::new(), |status| format!(" (HTTP {status})"));
    let reason = format!(
        "the model's server refused the key or login of Claude Code{status}: run `claude` in a terminal to log in, or set \
         ANTHROPIC_API_KEY where you run coordctl"
    );
    Shortfall::failed(FailureClass::Fatal, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-8: the class follows from the status, whatever the subtype says.
    #[test]
    fn w8_errors_of_the_api_have_the_class_that_helps() {
        let class = |status, result: &str| {
            let ended = Ended {
                is_error: true,
                subtype: "success".into(),
                result: result.into(),
                status,
                terminal_reason: "api_error".into(),
                ..Ended::default()
            };
            shortfall(&ended).class.unwrap()
        };
        assert_eq!(class(Some(401), "x"), FailureClass::Fatal);
        assert_eq!(class(Some(404), "no such model"), FailureClass::Fatal);
        assert_eq!(class(Some(400), "Prompt is too long"), FailureClass::Adjust);
        assert_eq!(class(None, "Prompt is too long"), FailureClass::Adjust);
        for status in [429, 500, 529] {
            assert_eq!(class(Some(status), "x"), FailureClass::Retryable);
        }
        assert_eq!(class(None, "Connection refused"), FailureClass::Retryable);
    }

    #[test]
    fn w8_a_reason_is_never_empty() {
        assert_eq!(shortfall(&Ended::default()).reason, "Claude Code gave no reason");
        let errors = Ended { errors: vec!["a".into(), "b".into()], ..Ended::default() };
        assert_eq!(shortfall(&errors).reason, "a; b");
    }
}
