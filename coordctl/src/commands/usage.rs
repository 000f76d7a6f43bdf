//! `coordctl usage`: what was used.

use proto::notification::Usage;
use proto::request::Request;
use proto::response::UsageRow;

use crate::context::Context;
use crate::error::Exit;
use crate::table::Table;
use crate::{expect, format, output};

/// Show tokens, tool calls, time and cost by session and agent. The cost is Claude Code's estimate;
/// other runtimes report none.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl usage dates")]
pub(crate) struct Args {
    /// The session; all by default.
    session: Option<String>,
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let response = context.call(Request::Usage { session: args.session.unwrap_or_default() })?;
    output::respond(context, &response, || {
        expect!(&response, Usage { rows, total });
        Ok(output::table(&table(rows, total))?)
    })?;
    Ok(Exit::Done)
}

fn table(rows: &[UsageRow], total: &Usage) -> Table {
    let heading = [
        "SESSION",
        "AGENT",
        "RUNS",
        "INPUT",
        "OUTPUT",
        "CACHE READ",
        "CACHE WRITE",
        "TOOLS",
        "TIME",
        "COST",
    ];
    let mut table = Table::new(&heading);
    for row in rows {
        if row.known {
            table.row(cells(&row.session, &row.agent, Some(row.runs), &row.usage));
        } else {
            table.row([row.session.clone(), row.agent.clone(), "unknown".to_owned()]);
        }
    }
    table.row(cells("all", "", None, total));
    table
}

fn cells(session: &str, agent: &str, runs: Option<u32>, it: &Usage) -> [String; 10] {
    [
        session.to_owned(),
        agent.to_owned(),
        runs.map(|n| n.to_string()).unwrap_or_default(),
        format::tokens(it.input_tokens),
        format::tokens(it.output_tokens),
        format::tokens(it.cache_read_tokens),
        format::tokens(it.cache_write_tokens),
        it.tool_uses.to_string(),
        format::duration(it.duration_ms),
        format::cost(it.cost_micro_usd),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_their_sum() {
        let usage =
            Usage { input_tokens: 1_500, tool_uses: 2, duration_ms: 900, ..Usage::default() };
        let row = |agent: &str, usage| UsageRow {
            session: "s".into(),
            agent: agent.into(),
            runs: 1,
            usage,
            known: true,
        };
        let paid = Usage { cost_micro_usd: 1_150, ..usage };
        assert_eq!(
            table(&[row("w", usage), row("x", paid)], &paid).render(None),
            "SESSION  AGENT  RUNS  INPUT  OUTPUT  CACHE READ  CACHE WRITE  TOOLS  TIME  COST\n\
             s        w      1     1.5k   0       0           0            2      0.9s\n\
             s        x      1     1.5k   0       0           0            2      0.9s  $0.0012\n\
             all                   1.5k   0       0           0            2      0.9s  $0.0012\n"
        );
    }
}
