//! What the script answers to a conversation. Pure, but for the count of errors with `times`.

use serde_json::Value;

use super::super::Usage;
use super::conversation::Conversation;
use super::script::{Part, Script, ScriptedError, ScriptedStop, Step, WAITING_PREFIX};
use super::template::{TemplateError, fill, fill_value};

/// Said when the steps are used up and the script has no words for it.
const AFTER: &str = "This conversation follows a rehearsal script, and the script has come to its \
                     end.";

/// What goes back to the client.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Message(Message),
    Error { status: u16, message: String, retry_after_s: Option<u64> },
}

/// An answer, ready to be streamed.
#[derive(Debug, PartialEq)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) text: String,
    pub(super) calls: Vec<Called>,
    pub(super) stop: &'static str,
    pub(super) usage: Usage,
    pub(super) pause_ms: u64,
}

/// A tool call of an answer.
#[derive(Debug, PartialEq)]
pub(super) struct Called {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
}

impl Reply {
    pub(super) fn bad_request(message: String) -> Self {
        Self::Error { status: 400, message, retry_after_s: None }
    }
}

/// Asks whether the error at (agent, step), which comes so many times, comes once more.
pub(super) type Fails<'a> = &'a mut dyn FnMut((usize, usize), u32) -> bool;

/// Answers from the script.
pub(super) fn respond(script: &Script, origin: &str, to: &Conversation, fails: Fails<'_>) -> Reply {
    let Some((agent, part)) = script.agents.iter().enumerate().find(|(_, it)| fits(it, to)) else {
        return Reply::bad_request(format!(
            "the rehearsal script ({origin}) has no agent whose `when` fits; tools: {}; the prompt \
             begins: {}",
            to.tools.join(" "),
            to.prompt.trim().chars().take(120).collect::<String>()
        ));
    };
    let played = to.said.iter().filter(|it| !part.is_waiting(it)).count();
    let place = (agent, played);
    let answer = match part.steps.get(played) {
        None => {
            let text = part.after.as_ref().map_or(AFTER, |it| it.0.as_str());
            fill(text, to).map(|text| Message::new(to, text, Vec::new()))
        }
        Some(step) => {
            let missing: Vec<&str> =
                step.needs.iter().map(String::as_str).filter(|it| !to.has_ended(it)).collect();
            match &step.error {
                _ if !missing.is_empty() => wait(part, step, &missing, to),
                Some(error) if error.times.is_none_or(|times| fails(place, times)) => {
                    return scripted(error);
                }
                Some(_) | None => play(step, to),
            }
        }
    };
    answer.map_or_else(
        |problem| {
            let step = played + 1;
            let place =
                format!("the rehearsal script ({origin}), agent {}, step {step}", agent + 1);
            Reply::bad_request(format!("{place}: {problem}"))
        },
        Reply::Message,
    )
}

fn fits(part: &Part, to: &Conversation) -> bool {
    let has = |name: &String| to.tools.contains(name);
    let when = &part.when;
    when.has_tool.as_ref().is_none_or(has)
        && !when.lacks_tool.as_ref().is_some_and(has)
        && when.prompt_matches.as_ref().is_none_or(|pattern| pattern.0.is_match(&to.prompt))
}

fn wait(
    part: &Part,
    step: &Step,
    missing: &[&str],
    to: &Conversation,
) -> Result<Message, TemplateError> {
    let waits_already = to.said.last().is_some_and(|it| part.is_waiting(it));
    if let Some(text) = step.waiting_text.as_ref().filter(|_| !waits_already) {
        return Ok(Message::new(to, text.clone(), Vec::new()));
    }
    let mut text = format!("{WAITING_PREFIX}{}.", missing.join(", "));
    if let Some(more) = &part.waiting_text {
        text.push(' ');
        text.push_str(&fill(&more.0, to)?);
    }
    Ok(Message::new(to, text, Vec::new()))
}

fn scripted(error: &ScriptedError) -> Reply {
    Reply::Error {
        status: error.status,
        message: error.message.clone(),
        retry_after_s: error.retry_after_s,
    }
}

fn play(step: &Step, to: &Conversation) -> Result<Message, TemplateError> {
    let text = step.text.as_ref().map(|it| fill(&it.0, to)).transpose()?.unwrap_or_default();
    let mut calls = Vec::with_capacity(step.tools.len());
    for (at, call) in step.tools.iter().enumerate() {
        calls.push(Called {
            // Unique in the conversation and the same when it is asked again.
            id: format!("toolu_rehearsal_{}_{at}", to.turns),
            name: call.name.clone(),
            input: fill_value(&call.input.0, to)?,
        });
    }
    let mut message = Message::new(to, text, calls);
    message.pause_ms = step.pause_ms;
    message.usage = step.usage.unwrap_or(message.usage);
    match step.stop {
        None => {}
        Some(ScriptedStop::EndTurn) => message.stop = "end_turn",
        Some(ScriptedStop::ToolUse) => message.stop = "tool_use",
        Some(ScriptedStop::MaxTokens) => message.stop = "max_tokens",
        Some(ScriptedStop::Refusal) => message.stop = "refusal",
    }
    Ok(message)
}

impl Message {
    fn new(to: &Conversation, text: String, calls: Vec<Called>) -> Self {
        let said = calls.iter().map(|it| it.name.len() + it.input.to_string().len()).sum::<usize>();
        Self {
            id: format!("msg_rehearsal_{}", to.turns),
            model: to.model.clone(),
            stop: if calls.is_empty() { "end_turn" } else { "tool_use" },
            usage: Usage {
                input: tokens(to.len),
                output: tokens(text.len() + said),
                ..Usage::default()
            },
            text,
            calls,
            pause_ms: 0,
        }
    }
}

/// About four bytes make a token.
fn tokens(len: usize) -> u64 {
    u64::try_from(len / 4).unwrap_or(u64::MAX).max(1)
}
