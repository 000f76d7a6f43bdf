//! `coordctl permit`: the questions that agents ask the user.

use crate::context::Context;
use crate::error::Exit;
use crate::table::Table;
use crate::{expect, format, output, words};
use proto::request::Request;
use proto::view::PermissionView;

/// List and answer permission requests.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl permit allow p3 --always")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List open requests.
    Ls {
        /// The session; all by default.
        session: Option<String>,
    },
    /// Allow a request.
    Allow {
        /// The request's id, such as p3.
        id: String,
        /// Also allow everything that its rule covers, for the rest of this session.
        #[arg(long)]
        always: bool,
    },
    /// Deny a request.
    Deny {
        /// The request's id, such as p3.
        id: String,
        /// The reason that the agent is told.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let (id, allow, always, reason) = match args.verb {
        None => return ls(context, String::new()),
        Some(Verb::Ls { session }) => return ls(context, session.unwrap_or_default()),
        Some(Verb::Allow { id, always }) => (id, true, always, String::new()),
        Some(Verb::Deny { id, reason }) => (id, false, false, reason),
    };
    let answer = Request::PermissionAnswer { id: id.clone(), allow, always, reason };
    let response = context.call(answer)?;
    output::respond(context, &response, || {
        let word = if allow { "allowed" } else { "denied" };
        Ok(output::say(&format!("{id} {word}"))?)
    })?;
    Ok(Exit::Done)
}

fn ls(context: &mut Context, session: String) -> anyhow::Result<Exit> {
    let response = context.call(Request::PermissionList { session })?;
    output::respond(context, &response, || {
        expect!(&response, Permissions { permissions });
        let none = "no open questions";
        Ok(output::table_or(&table(permissions, format::now_ms()), none)?)
    })?;
    Ok(Exit::Done)
}

fn table(permissions: &[PermissionView], now_ms: u64) -> Table {
    let mut table = Table::new(&["ID", "SESSION", "AGENT", "ASKED", "RULE", "WHAT"]);
    for it in permissions {
        table.row([
            it.id.clone(),
            it.session.clone(),
            it.agent.clone(),
            format::ago(now_ms, it.asked_ms),
            it.question.rule.clone(),
            words::question(&it.question),
        ]);
    }
    table
}
