//! `coordctl events`: what happens, as structured events.

use proto::event::{Event, Numbered};
use proto::request::Request;
use serde_json::Value;

use crate::client::{ClientError, Pushed};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::push;
use crate::terminal::{cut, line};
use crate::{expect, format, output};

/// Columns of one value in a line for people.
const VALUE_WIDTH: usize = 60;

/// Follow events of all sessions, or of one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl events dates --json | jq .event")]
pub(crate) struct Args {
    /// The session; all by default.
    session: Option<String>,
    /// Begin after the event with this number, as far as the daemon still has them.
    #[arg(long, value_name = "N")]
    after: Option<u64>,
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let session = args.session.unwrap_or_default();
    let mut after = args.after;
    let mut boot = String::new();
    loop {
        let request = Request::Subscribe { session: session.clone(), after };
        let (mut client, response) = context.open(request)?;
        expect!(response, Subscribed { boot: now, .. });
        if !boot.is_empty() && boot != now {
            // Event numbers of an earlier daemon mean nothing to this one.
            show(context, &gap())?;
        }
        boot = now;
        let lost = loop {
            match client.next_pushed(None) {
                Ok(Pushed::Event(event)) => {
                    after = Some(event.seq).filter(|seq| *seq > 0).or(after);
                    show(context, &event)?;
                }
                Ok(Pushed::Quiet) => {}
                Ok(Pushed::Closing(body)) => break body.message,
                Err(ClientError::Lost) => break "the connection to coordd was lost".to_owned(),
                Err(error) => return Err(Failure::from(error).into()),
            }
        };
        output::note(&format!("coordctl: {lost}; following again"));
        after = None;
    }
}

fn gap() -> Numbered {
    let event = Event::Gap { missed: None };
    Numbered { seq: 0, at_ms: coordd_common::wall_ms(), session: String::new(), event }
}

fn show(context: &Context, event: &Numbered) -> anyhow::Result<()> {
    if context.json { output::json(event) } else { Ok(output::print(&text(event)?)?) }
}

/// `12:00:01 #7 0f3c9a21 agent_changed agent=a1 state=running`.
fn text(it: &Numbered) -> anyhow::Result<String> {
    let mut text = format!("{} #{}", format::clock(it.at_ms), it.seq);
    if !it.session.is_empty() {
        text.push(' ');
        text.push_str(&line(&it.session).chars().take(8).collect::<String>());
    }
    let value = serde_json::to_value(&it.event)?;
    for (name, fields) in value.as_object().into_iter().flatten() {
        text.push(' ');
        text.push_str(name);
        flat(fields, &mut text);
    }
    text.push('\n');
    Ok(text)
}

/// The scalar fields of an event, and those of its main object if it has one.
fn flat(fields: &Value, out: &mut String) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(text) => line(text),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Object(_) if fields.as_object().is_some_and(|it| it.len() == 1) => {
                flat(value, out);
                continue;
            }
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        if !value.is_empty() {
            push!(out, " {name}={}", cut(&value, VALUE_WIDTH));
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::view::AgentState;

    use super::*;

    #[test]
    fn an_event_in_one_line() {
        let event = Event::AgentChanged {
            agent: "a1".into(),
            name: "w\u{1b}[2J\nx".into(),
            state: AgentState::NeedsInput,
            reason: String::new(),
        };
        let it = Numbered { seq: 7, at_ms: 3_661_000, session: "0f3c9a21-1".into(), event };
        assert_eq!(
            text(&it).unwrap(),
            "01:01:01 #7 0f3c9a21 agent_changed agent=a1 name=w x state=needs_input\n"
        );
        assert!(text(&gap()).unwrap().ends_with(" #0 gap\n"));
    }
}
