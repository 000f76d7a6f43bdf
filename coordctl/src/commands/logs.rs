//! `coordctl logs`: an agent's transcript.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::entry::{Entry, Origin, What};
use proto::event::Event;
use proto::request::Request;
use proto::response::Response;
use proto::view::AgentView;

use crate::context::Context;
use crate::error::Exit;
use crate::live::transcript::{self, Detail};
use crate::live::{self, Live, Next, Options, Sink};
use crate::terminal::{Paint, line};
use crate::{expect, output, words};

/// How long to wait for the next entry at a time.
const WAIT: Duration = Duration::from_hours(1);

/// Show the transcript of a lead or another agent.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl logs dates/research-a -f -n 20")]
pub(crate) struct Args {
    /// SESSION (its lead) or SESSION/AGENT.
    what: String,
    /// Keep printing as it grows.
    #[arg(short, long)]
    follow: bool,
    /// Print only the last N entries.
    #[arg(short = 'n', long = "lines", value_name = "N")]
    last: Option<u32>,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let agent = live::find_agent(context, &args.what)?;
    if args.follow {
        return follow(context, &agent, args.last);
    }
    let (entries, last) = read(context, &agent.id, args.last)?;
    let names = names(context, &agent.session, &entries)?;
    let response = Response::Transcript { entries, last };
    output::respond(context, &response, || {
        expect!(&response, Transcript { entries, .. });
        if entries.is_empty() {
            output::note(&format!("{} has not done anything yet", line(&agent.name)));
        }
        let name_of = |id: &str| names.get(id).cloned().unwrap_or_else(|| line(id));
        for (at, entry) in entries.iter().enumerate() {
            let full = Detail::Full;
            if let Some(of) = answered(entries, at) {
                let of = context.style.paint(Paint::Faint, &format!("  answer to {of}:"));
                output::print(&format!("{of}\n"))?;
            }
            output::print(&transcript::entry(entry, &agent.name, full, context.style, &name_of))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// The call that a result answers, if it is not the entry right before: after several calls at once
/// it is not.
fn answered(entries: &[Entry], at: usize) -> Option<String> {
    let call_of = |entry: &Entry| match &entry.what {
        What::ToolCall { call, tool, input } => {
            Some((call.clone(), words::tool_call(tool, &input.0)))
        }
        What::Input { .. }
        | What::Text { .. }
        | What::ToolResult { .. }
        | What::Turn { .. }
        | What::Reasoning { .. }
        | What::RunEnded { .. } => None,
    };
    let What::ToolResult { call: answered, .. } = &entries.get(at)?.what else { return None };
    let mut before =
        entries.get(..at)?.iter().rev().filter(|entry| !matches!(entry.what, What::Turn { .. }));
    let is_it = |(call, _): &(String, String)| call == answered;
    if before.next().and_then(call_of).is_some_and(|it| is_it(&it)) {
        return None;
    }
    before.filter_map(call_of).find(is_it).map(|(_, of)| of)
}

/// Agents' names by id, for entries that mention them.
fn names(
    context: &mut Context,
    session: &str,
    entries: &[Entry],
) -> anyhow::Result<BTreeMap<String, String>> {
    let is_about_others = |it: &Entry| match &it.what {
        What::Input { origin, .. } => matches!(origin, Origin::Notification { .. }),
        What::ToolCall { tool, .. } => tool == "SendMessage" || tool == "TaskStop",
        What::Text { .. }
        | What::ToolResult { .. }
        | What::Turn { .. }
        | What::Reasoning { .. }
        | What::RunEnded { .. } => false,
    };
    if context.json || !entries.iter().any(is_about_others) {
        return Ok(BTreeMap::new());
    }
    let (_, agents) = live::show(context, session)?;
    Ok(agents.into_iter().map(|agent| (agent.id, line(&agent.name))).collect())
}

/// All entries, page by page, or the last ones.
pub(crate) fn read(
    context: &mut Context,
    agent: &str,
    last: Option<u32>,
) -> anyhow::Result<(Vec<Entry>, u64)> {
    let page = |from, limit| Request::Transcript { agent: agent.to_owned(), from, limit };
    let mut all: Vec<Entry> = Vec::new();
    let mut from = 1;
    if let Some(count) = last {
        // Where the last ones begin.
        expect!(context.call(page(0, 1))?, Transcript { last, .. });
        from = last.saturating_sub(u64::from(count)) + 1;
    }
    loop {
        expect!(context.call(page(from, 0))?, Transcript { entries, last });
        let Some(seq) = entries.last().map(|entry| entry.seq).filter(|seq| *seq >= from) else {
            return Ok((all, last));
        };
        all.extend(entries);
        if seq >= last {
            return Ok((all, last));
        }
        from = seq + 1;
    }
}

fn follow(context: &mut Context, agent: &AgentView, last: Option<u32>) -> anyhow::Result<Exit> {
    let options = Options {
        session: agent.session.clone(),
        agent: agent.id.clone(),
        history: last,
        input: false,
        sink: if context.json { Sink::Nothing } else { Sink::Stdout },
    };
    let mut live = Live::attach(context, options)?;
    let mut shown = 0;
    loop {
        match live.next(context, WAIT)? {
            Next::Event(event) => {
                if let Event::Entry { agent: of, entry, .. } = &event.event
                    && context.json
                    && *of == agent.id
                    && entry.seq > shown
                {
                    shown = entry.seq;
                    output::json(entry)?;
                }
            }
            Next::Interrupt | Next::Gone => return Ok(Exit::Done),
            Next::Line(_) | Next::InputEnded | Next::Quiet => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::json::Json;
    use serde_json::json;

    use super::*;

    #[test]
    fn after_several_calls_each_result_says_what_it_answers() {
        let call = |id: &str, what: &str| What::ToolCall {
            call: id.into(),
            tool: "Agent".into(),
            input: Json(json!({ "description": what })),
        };
        let result = |id: &str| What::ToolResult {
            call: id.into(),
            text: "Agent started.".into(),
            is_error: false,
        };
        let entries: Vec<Entry> = [
            call("c1", "one"),
            call("c2", "two"),
            result("c1"),
            result("c2"),
            call("c3", "x"),
            result("c3"),
        ]
        .into_iter()
        .zip(1..)
        .map(|(what, seq)| Entry { seq, at_ms: 0, run: 1, what })
        .collect();
        let said: Vec<_> = (0..entries.len()).map(|at| answered(&entries, at)).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(said, [None, None, some("Agent one"), some("Agent two"), None, None]);
    }
}
