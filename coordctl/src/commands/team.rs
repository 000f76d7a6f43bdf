//! `coordctl team`: a session's team.

mod member;

use proto::request::Request;
use proto::view::TeamView;

use crate::context::Context;
use crate::error::Exit;
use crate::push;
use crate::table::Table;
use crate::terminal::line;
use crate::{expect, format, output, words};

/// Create, show, list or delete teams, and invite members.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: coordctl team create dates date-fixers --description \"fixes the dates\""
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Create a session's team, with an empty task list.
    Create {
        /// The session that leads it.
        session: String,
        /// The team's name; made up by default.
        name: Option<String>,
        /// What the team is for.
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
    },
    /// Delete a team whose members are not active.
    Delete {
        /// The team, or its session.
        team: String,
    },
    /// Show a team with its members.
    Show {
        /// The team, or its session.
        team: String,
    },
    /// List teams.
    Ls,
    /// Make a member that is a Claude Code terminal: one of yours, for which the command is
    /// printed, or one that coordd runs.
    ///
    /// Example: coordctl team invite dates m1 --start --description "tries it by hand"
    Invite(member::Invite),
    /// Ask a member to end.
    Shutdown(member::Shutdown),
    /// Approve a member's plan.
    Approve(member::Approve),
    /// Send a member's plan back.
    Reject(member::Reject),
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let request = match args.verb {
        Verb::Create { session, name, description } => Request::TeamCreate {
            session,
            name: name.unwrap_or_default(),
            description,
            agent_type: String::new(),
        },
        Verb::Delete { team } => return delete(context, team),
        Verb::Show { team } => Request::TeamShow { team },
        Verb::Ls => return ls(context),
        Verb::Invite(args) => return member::invite(context, args),
        Verb::Shutdown(args) => return member::shutdown(context, args),
        Verb::Approve(args) => return member::approve(context, args),
        Verb::Reject(args) => return member::reject(context, args),
    };
    let response = context.call(request)?;
    output::respond(context, &response, || {
        expect!(&response, Team { team });
        output::print(&head(team))?;
        let mut table = Table::new(&["MEMBER", "TYPE", "STATE", "ID"]);
        for it in &team.members {
            table.row([
                it.name.clone(),
                it.agent_type.clone(),
                words::agent_state(it.state).to_owned(),
                it.id.clone(),
            ]);
        }
        Ok(output::table(&table)?)
    })?;
    Ok(Exit::Done)
}

fn head(team: &TeamView) -> String {
    let mut text =
        format!("team {}  made {}\n", line(&team.name), format::timestamp(team.created_ms));
    if !team.description.is_empty() {
        push!(text, "{}\n", line(&team.description));
    }
    push!(text, "file {}\n\n", line(&team.file));
    text
}

fn delete(context: &mut Context, session: String) -> anyhow::Result<Exit> {
    let response = context.call(Request::TeamDelete { session })?;
    output::respond(context, &response, || {
        expect!(&response, TeamDeleted { removed, kept, .. });
        super::rm::rows(removed, kept)
    })?;
    expect!(&response, TeamDeleted { kept, .. });
    Ok(if kept.is_empty() { Exit::Done } else { Exit::Failed })
}

fn ls(context: &mut Context) -> anyhow::Result<Exit> {
    let response = context.call(Request::TeamList {})?;
    output::respond(context, &response, || {
        expect!(&response, Teams { teams });
        let mut table = Table::new(&["TEAM", "SESSION", "MEMBERS", "DESCRIPTION"]);
        for it in teams {
            table.row([
                it.name.clone(),
                it.session.clone(),
                it.members.len().to_string(),
                it.description.clone(),
            ]);
        }
        let none = "no teams; `coordctl team create SESSION` makes one";
        Ok(output::table_or(&table, none)?)
    })?;
    Ok(Exit::Done)
}
