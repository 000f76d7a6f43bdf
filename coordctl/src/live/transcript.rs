//! Entries of a transcript as lines. Everything in them is somebody's text and is cleaned.

use proto::entry::{Entry, Origin, What};
use proto::notification::{Notification, RunStatus};

use super::flow::Flow;
use crate::push;
use crate::terminal::{Paint, Style, clean, cut, line, width};
use crate::words;

/// Lines of a report that are shown with its notification; the rest is in the worker's transcript.
const REPORT_LINES: usize = 8;
/// Lines of a tool's answer in a full view.
const ANSWER_LINES: usize = 6;
/// Columns of a line that stands for something longer.
const LINE_WIDTH: usize = 400;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// A lead and its workers: the lead's words, starts, failures.
    Talk,
    /// All of one agent: its tools and their answers too.
    Full,
}

/// The words of somebody, with the following lines below the first.
pub(crate) fn speech(who: &str, paint: Paint, text: &str, style: Style) -> String {
    let text = clean(text);
    let text = text.trim_matches('\n').trim_end();
    if text.is_empty() {
        return String::new();
    }
    format!("{}{}\n", mark(who, paint, style), flow(who, style).whole(text))
}

/// How the words of somebody go on after [`mark`].
pub(crate) fn flow(who: &str, style: Style) -> Flow {
    let indent = indent(who);
    Flow::new(" ".repeat(indent), indent, style.columns)
}

/// What stands before somebody's words.
pub(crate) fn mark(who: &str, paint: Paint, style: Style) -> String {
    format!("{} ", style.paint(paint, &format!("{} ›", line(who))))
}

/// Columns of [`mark`].
pub(crate) fn indent(who: &str) -> usize {
    width(&line(who)) + 3
}

/// One entry of `who`. `name_of` tells the name of an agent's id.
pub(crate) fn entry(
    entry: &Entry,
    who: &str,
    detail: Detail,
    style: Style,
    name_of: &dyn Fn(&str) -> String,
) -> String {
    match &entry.what {
        What::Input { origin, text, .. } => input(origin, text, detail, style, name_of),
        What::Text { text } => speech(who, Paint::Who, text, style),
        What::ToolCall { tool, input, .. } => tool_call(tool, &input.0, style, name_of),
        What::ToolResult { text, is_error, .. } => tool_result(text, *is_error, detail, style),
        What::Turn { .. } | What::Reasoning { .. } => String::new(),
        What::RunEnded { status, reason } => run_ended(*status, reason, detail, style),
    }
}

fn input(
    origin: &Origin,
    text: &str,
    detail: Detail,
    style: Style,
    name_of: &dyn Fn(&str) -> String,
) -> String {
    match origin {
        Origin::User {} => speech("you", Paint::Strong, text, style),
        Origin::Outside { name, address, .. } => {
            let from = if address.is_empty() { "" } else { " at " };
            let who = format!("message from outside: {}{from}{}", line(name), line(address));
            speech(&who, Paint::Warn, text, style)
        }
        Origin::Agent { name } => {
            speech(&format!("message from {}", line(name)), Paint::Warn, text, style)
        }
        Origin::Notification { notification } => {
            self::notification(&name_of(&notification.task_id), notification, false, style)
        }
        Origin::System {} if detail == Detail::Full => {
            speech("coordd", Paint::Faint, &cut(&line(text), LINE_WIDTH), style)
        }
        Origin::System {} => String::new(),
    }
}

/// The end of a worker's run: an event, and never the user's words (N-2).
pub(crate) fn notification(name: &str, it: &Notification, thin: bool, style: Style) -> String {
    let (glyph, word, paint) = match it.status {
        RunStatus::Completed => ("✓", "completed", Paint::Good),
        RunStatus::Failed => ("✗", "failed", Paint::Bad),
        RunStatus::Killed => ("■", "stopped", Paint::Warn),
    };
    let head = style.paint(paint, &format!("{glyph} {} {word}", line(name)));
    let thin = if thin { "; thin: little work behind it, so doubt what it found" } else { "" };
    let mut out = format!("{head} ({}{thin})\n", words::usage(&it.usage));
    if it.status != RunStatus::Completed {
        out.push_str(&quoted(&it.summary, 1, "", style));
    }
    out.push_str(&quoted(&it.result, REPORT_LINES, "more lines in its transcript", style));
    out
}

/// The first lines of a longer text, set off.
fn quoted(text: &str, lines_max: usize, more: &str, style: Style) -> String {
    let text = clean(text);
    let lines: Vec<&str> = text.trim().lines().collect();
    let mut out = String::new();
    for text in lines.iter().take(lines_max) {
        let bar = format!("  {} ", style.paint(Paint::Faint, "│"));
        // Lines of a report keep their order and breaks.
        let text = cut(clean(text).trim_end(), LINE_WIDTH);
        let text = Flow::new(bar.as_str(), 4, style.columns).whole(&text);
        push!(out, "{bar}{text}\n");
    }
    if lines.len() > lines_max && !more.is_empty() {
        let left = lines.len() - lines_max;
        out.push_str(&style.paint(Paint::Faint, &format!("  │ … {left} {more}")));
        out.push('\n');
    }
    out
}

fn tool_call(
    tool: &str,
    input: &serde_json::Value,
    style: Style,
    name_of: &dyn Fn(&str) -> String,
) -> String {
    let field =
        |name: &str| input.get(name).and_then(|input| input.as_str()).map(line).unwrap_or_default();
    let text = match tool {
        "Agent" => {
            let phase = field("phase");
            let phase = if phase.is_empty() { phase } else { format!(" ({phase})") };
            // coordd may have chosen the agent's name; then only the answer tells it.
            let name = first_of(&[field("name"), "an agent".to_owned()]);
            format!("starts {name}{phase}: {}", field("description"))
        }
        "SendMessage" => {
            format!(
                "tells {}: {}",
                name_of(&field("to")),
                first_of(&[field("summary"), field("message")])
            )
        }
        "TaskStop" => format!("stops {}", name_of(&field("task_id"))),
        "StructuredOutput" => format!("result: {}", first_of(&[field("summary"), field("status")])),
        _ => words::tool_call(tool, input),
    };
    let text = cut(text.trim_end_matches([':', ' ']), LINE_WIDTH);
    let text = Flow::new("  ", 2, style.columns).whole(&text);
    format!("{} {text}\n", style.paint(Paint::Faint, "→"))
}

fn first_of(texts: &[String]) -> String {
    texts.iter().find(|it| !it.is_empty()).cloned().unwrap_or_default()
}

fn tool_result(text: &str, is_error: bool, detail: Detail, style: Style) -> String {
    match (is_error, detail) {
        (true, Detail::Talk) => {
            let first = cut(&line(text), LINE_WIDTH);
            let first = Flow::new("    ", 4, style.columns).whole(&first);
            format!("  {} {first}\n", style.paint(Paint::Bad, "✗"))
        }
        (true, Detail::Full) => {
            let head = style.paint(Paint::Bad, "  ✗ failed");
            format!("{head}\n{}", quoted(text, ANSWER_LINES, "more lines", style))
        }
        (false, Detail::Full) => quoted(text, ANSWER_LINES, "more lines", style),
        (false, Detail::Talk) => String::new(),
    }
}

fn run_ended(status: RunStatus, reason: &str, detail: Detail, style: Style) -> String {
    let text = words::ended(status, None, reason);
    match status {
        RunStatus::Completed if detail == Detail::Talk => String::new(),
        RunStatus::Completed => {
            format!("{}\n", style.paint(Paint::Faint, &format!("— run {text}")))
        }
        RunStatus::Failed => format!("{}\n", style.paint(Paint::Bad, &format!("✗ run {text}"))),
        RunStatus::Killed => format!("{}\n", style.paint(Paint::Warn, &format!("■ run {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use proto::json::Json;
    use proto::notification::Usage;
    use serde_json::json;

    use super::*;

    fn shown(what: What, detail: Detail) -> String {
        let it = Entry { seq: 1, at_ms: 0, run: 1, what };
        entry(&it, "lead", detail, Style::default(), &|id| format!("name-of-{id}"))
    }

    fn said(origin: Origin, text: &str) -> What {
        What::Input { origin, message: None, text: text.into() }
    }

    #[test]
    fn n2_a_notification_is_an_event_and_not_the_users_words() {
        let notification = Notification {
            task_id: "a1".into(),
            status: RunStatus::Completed,
            summary: "Agent \"w\" completed".into(),
            result: "found\u{1b}]0;x\u{7} it\nline 2".into(),
            usage: Usage {
                tool_uses: 3,
                input_tokens: 1_200,
                duration_ms: 812,
                ..Usage::default()
            },
        };
        let text = shown(
            said(Origin::Notification { notification }, "<task-notification>…"),
            Detail::Talk,
        );
        assert_eq!(
            text,
            "✓ name-of-a1 completed (3 tools, 1.2k tokens, 0.8s)\n  │ found it\n  │ line 2\n"
        );
    }

    #[test]
    fn a_failed_run_says_why_and_long_reports_are_cut() {
        let notification = Notification {
            task_id: "a1".into(),
            status: RunStatus::Failed,
            summary: "Agent \"w\" failed (fatal): 401".into(),
            result: (0..20).map(|n| n.to_string()).collect::<Vec<_>>().join("\n"),
            usage: Usage::default(),
        };
        let text = self::notification("w", &notification, false, Style::default());
        assert!(text.starts_with(
            "✗ w failed (0 tools, 0 tokens, 0.0s)\n  │ Agent \"w\" failed (fatal): 401\n"
        ));
        assert!(text.ends_with("  │ 7\n  │ … 12 more lines in its transcript\n"), "{text}");
    }

    #[test]
    fn words_keep_below_their_speaker() {
        let text = shown(What::Text { text: "one\n\ntwo\u{1b}[1A\n".into() }, Detail::Talk);
        assert_eq!(text, "lead › one\n\n       two\n");
        assert_eq!(shown(said(Origin::User {}, "do it"), Detail::Talk), "you › do it\n");
        assert_eq!(shown(said(Origin::System {}, "context"), Detail::Talk), "");
        let from = Origin::Agent { name: "peer\u{1b}c".into() };
        assert_eq!(shown(said(from, "hi"), Detail::Talk), "message from peer › hi\n");
    }

    #[test]
    fn what_a_coordinator_does_reads_as_a_sentence() {
        let call = |tool: &str, input| What::ToolCall {
            call: "c".into(),
            tool: tool.into(),
            input: Json(input),
        };
        let started = json!({"name": "research-a", "phase": "research", "description": "Find it", "prompt": "…"});
        assert_eq!(
            shown(call("Agent", started), Detail::Talk),
            "→ starts research-a (research): Find it\n"
        );
        let unnamed = json!({"description": "d", "prompt": "…"});
        assert_eq!(shown(call("Agent", unnamed), Detail::Talk), "→ starts an agent: d\n");
        let told = json!({"to": "w", "message": "m", "summary": "Go on"});
        assert_eq!(shown(call("SendMessage", told), Detail::Talk), "→ tells name-of-w: Go on\n");
        assert_eq!(
            shown(call("Bash", json!({"command": "ls\u{1b}[2J"})), Detail::Talk),
            "→ Bash ls\n"
        );
    }

    #[test]
    fn answers_of_tools_show_in_the_full_view_and_failures_always() {
        let answer =
            |is_error| What::ToolResult { call: "c".into(), text: "a\nb".into(), is_error };
        assert_eq!(shown(answer(false), Detail::Talk), "");
        assert_eq!(shown(answer(false), Detail::Full), "  │ a\n  │ b\n");
        assert_eq!(shown(answer(true), Detail::Talk), "  ✗ a b\n");
        assert_eq!(shown(answer(true), Detail::Full), "  ✗ failed\n  │ a\n  │ b\n");
    }
}
