//! `coordctl ls`: all sessions.

use proto::request::Request;
use proto::view::SessionView;

use crate::context::Context;
use crate::error::Exit;
use crate::push;
use crate::table::Table;
use crate::{expect, format, output, words};

/// List sessions, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl ls --json")]
pub(crate) struct Args {}

pub(crate) fn run(context: &mut Context) -> anyhow::Result<Exit> {
    let response = context.call(Request::SessionList {})?;
    output::respond(context, &response, || {
        expect!(&response, Sessions { sessions });
        let none = "no sessions; `coordctl run \"GOAL\"` or `coordctl new` creates one";
        Ok(output::table_or(&table(sessions, coordd_common::wall_ms()), none)?)
    })?;
    Ok(Exit::Done)
}

pub(crate) fn table(sessions: &[SessionView], now_ms: u64) -> Table {
    let mut table =
        Table::new(&["NAME", "ID", "MODE", "STATE", "AGENTS", "TOKENS", "MADE", "FOLDER"]);
    for it in sessions {
        table.row([
            it.name.clone(),
            it.id.chars().take(8).collect(),
            words::mode_of(it),
            state(it),
            agents(it),
            format::tokens(it.usage.total_tokens()),
            format::ago(now_ms, it.created_ms),
            it.cwd.clone(),
        ]);
    }
    table
}

fn state(it: &SessionView) -> String {
    let mut text = words::session_state(it.state).to_owned();
    if it.questions > 0 {
        push!(text, ", {}", format::count(u64::from(it.questions), "question"));
    }
    if it.held > 0 {
        push!(text, ", {} held", it.held);
    }
    text
}

fn agents(it: &SessionView) -> String {
    let mut text = format!("{}/{} running", it.running, it.agents);
    if it.waiting > 0 {
        push!(text, ", {} waiting", it.waiting);
    }
    text
}

#[cfg(test)]
mod tests {
    use proto::agent::{Mode, Model, Provider};
    use proto::notification::Usage;
    use proto::view::SessionState;

    use super::*;

    #[test]
    fn a_session_in_one_line() {
        let it = SessionView {
            id: "0f3c9a21-0000".into(),
            name: "dates\u{1b}[2J".into(),
            mode: Mode::Coordinator,
            cwd: "/w".into(),
            state: SessionState::Live,
            created_ms: 0,
            lead: "a0".into(),
            model: Some(Model {
                provider: Provider::Rehearsal,
                name: String::new(),
                base_url: None,
                rehearsal_file: None,
            }),
            runtime: proto::agent::Runtime::Native,
            scratchpad: None,
            team: None,
            running: 2,
            waiting: 1,
            agents: 4,
            questions: 1,
            usage: Usage { input_tokens: 1_234, ..Usage::default() },
            output: None,
            cross_session_inbound: "auto".into(),
            held: 0,
            host_for: String::new(),
        };
        assert_eq!(
            table(&[it], 65_000).render(None),
            "NAME   ID        MODE         STATE             AGENTS                  TOKENS  MADE    FOLDER\n\
             dates  0f3c9a21  coordinator  live, 1 question  2/4 running, 1 waiting  1.2k    1m ago  /w\n"
        );
    }
}
