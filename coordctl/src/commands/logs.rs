//! `coordctl logs`: an agent's transcript.

use crate::context::Context;
use crate::error::Exit;
use crate::live::transcript::{self, Detail};
use crate::live::{self, Live, Next, Options, Sink};
use crate::terminal::line;
use crate::{expect, output};
use proto::entry::Entry;
use proto::event::Event;
use proto::request::Request;
use proto::response::Response;
use proto::view::AgentView;
use std::time::Duration;

/// How long to wait for the next entry at a time.
const WAIT: Duration = Duration::from_hours(1);

/// Show the transcript of a lead or another agent.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl logs dates/research-a -f -n 20")]
pub(crate) struct Args {
    /// SESSION (its lead) or SESSION/AGENT.
    what: String,
    /// Go on as it grows.
    #[arg(short, long)]
    follow: bool,
    /// Only the last N entries.
    #[arg(short = 'n', long = "lines", value_name = "N")]
    last: Option<u32>,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let agent = live::find_agent(context, &args.what)?;
    if args.follow {
        return follow(context, &agent, args.last);
    }
    let (entries, last) = read(context, &agent.id, args.last)?;
    let response = Response::Transcript { entries, last };
    output::respond(context, &response, || {
        expect!(&response, Transcript { entries, .. });
        if entries.is_empty() {
            output::note(&format!("{} has not said or done anything yet", line(&agent.name)));
        }
        for entry in entries {
            output::print(&text(context, &agent, entry))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

fn text(context: &Context, agent: &AgentView, entry: &Entry) -> String {
    transcript::entry(entry, &agent.name, Detail::Full, context.style, &|id| line(id))
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
        let Some(seq) = entries.last().map(|it| it.seq).filter(|seq| *seq >= from) else {
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
