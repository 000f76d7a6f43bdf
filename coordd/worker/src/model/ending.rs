//! Judges how an answer ended: whole, cut off, empty, or not understood.
//!
//! What is told as whole has said its end. What broke off is kept where that is worth anything. What was
//! never understood is an error, and no answer.

use serde_json::Value;

use super::assembly::{Assembly, Ending};
use super::endpoint::Endpoint;
use super::error::Setback;
use super::http::{Events, broken};
use super::verdict::not_a_model;
use super::{Answer, Block, Stop};

/// Why no more is read.
#[derive(Debug)]
pub(super) enum End {
    /// The server has said that nothing more comes.
    Said,
    /// The body ended, in form or not.
    Closed,
    /// The server was silent for too long, or sent too much.
    Broken(String),
    /// The server reports an error.
    Failed(Value),
    /// Something came that cannot be read.
    Garbled(String),
}

/// What it amounts to.
#[derive(Debug)]
pub(super) enum Judged {
    Whole(Answer),
    /// Broke off, and is worth keeping.
    Cut(Answer),
    /// The error of a server, to be classified.
    Failed(Value),
    Setback(Setback),
}

/// Judges an answer.
pub(super) fn judged(end: End, events: &Events, assembly: Assembly, endpoint: &Endpoint) -> Judged {
    let stop = assembly.stop;
    if !assembly.understood && !matches!(end, End::Failed(_)) {
        return Judged::Setback(not_understood(end, events, endpoint));
    }
    match (end, stop) {
        (End::Said, _) => whole(assembly, stop.unwrap_or(Stop::EndTurn)),
        // It had said its end, and only the form is missing.
        (End::Closed | End::Broken(_), Some(stop)) => whole(assembly, stop),
        (End::Closed, None) => {
            let problem = "the connection closed before the end".to_owned();
            cut(assembly, endpoint, problem)
        }
        (End::Broken(problem), None) => cut(assembly, endpoint, problem),
        // These are asked for once more: what would be kept is a part of what was sent. Complete
        // calls are worth more than that.
        (End::Failed(error), _) => kept_calls(assembly).unwrap_or(Judged::Failed(error)),
        (End::Garbled(problem), _) => {
            kept_calls(assembly).unwrap_or_else(|| Judged::Setback(broken(endpoint, problem)))
        }
    }
}

fn not_understood(end: End, events: &Events, endpoint: &Endpoint) -> Setback {
    match (end, events.as_it_came()) {
        (End::Broken(problem), _) => broken(endpoint, problem),
        (End::Garbled(problem), Some(came)) => broken(endpoint, format!("{problem}; {came}")),
        (End::Closed, Some(came)) if events.is_cut() => {
            broken(endpoint, format!("cut off; {came}"))
        }
        (_, None) => broken(endpoint, "the connection closed before an answer".to_owned()),
        (_, Some(came)) => Setback::Final(not_a_model(endpoint, came)),
    }
}

fn whole(assembly: Assembly, stop: Stop) -> Judged {
    let answer = assembly.finish(Ending::Whole(stop));
    if says_something(&answer) {
        return match answer.stop {
            Stop::CutOff => Judged::Cut(answer),
            Stop::EndTurn
            | Stop::ToolUse
            | Stop::OutputLimit
            | Stop::WindowFull
            | Stop::Pause
            | Stop::Refusal => Judged::Whole(answer),
        };
    }
    match answer.stop {
        // An answer with a reason of its own.
        Stop::OutputLimit | Stop::WindowFull | Stop::Refusal | Stop::Pause => Judged::Whole(answer),
        Stop::EndTurn | Stop::ToolUse | Stop::CutOff => {
            let thought = answer.blocks.iter().any(|it| matches!(it, Block::Reasoning { .. }));
            let what = if thought { "it only thought" } else { "no text and no tool call" };
            let why =
                if answer.why.is_empty() { String::new() } else { format!(", `{}`", answer.why) };
            Judged::Setback(Setback::Empty(format!("{what}{why}")))
        }
    }
}

fn cut(assembly: Assembly, endpoint: &Endpoint, problem: String) -> Judged {
    let answer = assembly.finish(Ending::Cut);
    // Partial work is kept; where there is none, the question is asked again.
    if says_something(&answer) {
        Judged::Cut(Answer { why: problem, ..answer })
    } else {
        Judged::Setback(broken(endpoint, problem))
    }
}

fn kept_calls(assembly: Assembly) -> Option<Judged> {
    let answer = assembly.finish(Ending::Cut);
    let calls = answer.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
    calls.then_some(Judged::Cut(answer))
}

fn says_something(answer: &Answer) -> bool {
    answer.blocks.iter().any(|block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::ToolUse { .. } => true,
        Block::ToolResult { .. } | Block::Reasoning { .. } => false,
    })
}
