//! `coordctl permit`: the questions that agents ask the user.

use proto::error::{ErrorBody, ErrorCode};
use proto::request::Request;
use proto::view::PermissionView;
use serde::Serialize;

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::question::answer::{Given, Verdict};
use crate::question::card::{self, Answered, Look};
use crate::question::desk;
use crate::table::Table;
use crate::terminal::line;
use crate::{expect, format, live, output};

/// List and answer permission requests.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 done; 3 one of the questions could not be shown or answered, which is said; 4 no coordd.\n\n\
                        Example: coordctl permit show p3\n\
                        Example: coordctl permit allow p3 --always\n\
                        Example: coordctl permit deny p4 p5 --note \"use the staging database\""
)]
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
    /// Show whole requests: what would run, where, why, and what each answer means.
    Show {
        #[command(flatten)]
        which: Which,
    },
    /// Allow requests.
    Allow {
        #[command(flatten)]
        which: Which,
        /// Also allow everything that the rule covers, for the rest of this session.
        #[arg(long)]
        always: bool,
        /// A note for the agent.
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Deny a request.
    Deny {
        #[command(flatten)]
        which: Which,
        /// The reason that the agent is told.
        #[arg(long, visible_alias = "reason", value_name = "TEXT", default_value = "")]
        note: String,
    },
}

/// Which questions are meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// Their ids, as in p3.
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,
    /// All that are open at this moment.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With --all: of this session alone.
    #[arg(long, value_name = "SESSION", requires = "all")]
    session: Option<String>,
}

/// What became of one question, for scripts.
#[derive(Debug, Serialize)]
struct Answer {
    id: String,
    answered: bool,
    allowed: bool,
    /// Of the question, where it was open.
    question: Option<PermissionView>,
    /// Why it was not answered.
    error: Option<ErrorBody>,
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    match args.verb {
        None => ls(context, String::new()),
        Some(Verb::Ls { session }) => ls(context, session.unwrap_or_default()),
        Some(Verb::Show { which }) => show(context, &which),
        Some(Verb::Allow { which, always, note }) => {
            let verdict = if always { Verdict::Always } else { Verdict::Once };
            answer(context, &which, &Given { verdict, note })
        }
        Some(Verb::Deny { which, note }) => {
            answer(context, &which, &Given { verdict: Verdict::No, note })
        }
    }
}

/// The ids that are meant, and all open questions.
fn chosen(
    context: &mut Context,
    which: &Which,
) -> Result<(Vec<String>, Vec<PermissionView>), Failure> {
    let open = live::open_questions(context, which.session.as_deref().unwrap_or_default())?;
    let mut ids = which.ids.clone();
    if which.all {
        ids = open.iter().map(|question| question.id.clone()).collect();
    }
    let mut seen = std::collections::BTreeSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    Ok((ids, open))
}

fn show(context: &mut Context, which: &Which) -> anyhow::Result<Exit> {
    let (ids, open) = chosen(context, which)?;
    let found: Vec<&PermissionView> =
        ids.iter().filter_map(|id| open.iter().find(|it| it.id == *id)).collect();
    if context.json {
        output::json(&found)?;
    } else if found.is_empty() && which.all {
        output::note("no open questions");
    } else {
        let style = context.style;
        let look =
            Look { style, now_ms: format::now_ms(), whole: true, answered: Answered::Elsewhere };
        let cards: Vec<String> = found.iter().map(|it| card::draw(it, look)).collect();
        output::print(&cards.join("\n"))?;
    }
    let missing: Vec<&String> =
        ids.iter().filter(|id| found.iter().all(|it| it.id != **id)).collect();
    for id in &missing {
        let id = line(id);
        output::note(&format!(
            "{id} is no open question: it was answered, or never asked; `coordctl permit` lists what is open"
        ));
    }
    Ok(if missing.is_empty() { Exit::Done } else { Exit::Denied })
}

fn answer(context: &mut Context, which: &Which, given: &Given) -> anyhow::Result<Exit> {
    let (ids, open) = chosen(context, which)?;
    if ids.is_empty() && !context.json {
        output::note("no open questions");
    }
    let (mut answers, mut exit) = (Vec::new(), Exit::Done);
    for id in ids {
        let question = open.iter().find(|it| it.id == id).cloned();
        let allowed = given.verdict != Verdict::No;
        let request = Request::PermissionAnswer {
            id: id.clone(),
            allow: allowed,
            always: given.verdict == Verdict::Always,
            reason: given.note.clone(),
        };
        let error = context.call_or_denied(request)?.err();
        match &error {
            // Of several an earlier one may have answered it, by its rule, or somebody else.
            Some(body) if which.all && body.code == ErrorCode::State => {
                output::note(&told(body));
            }
            Some(body) => {
                exit = Exit::Denied;
                output::note(&told(body));
            }
            None if !context.json => output::say(&match &question {
                Some(question) => desk::echo(question, given),
                None => format!("{} answered", line(&id)),
            })?,
            None => {}
        }
        answers.push(Answer { id, answered: error.is_none(), allowed, question, error });
    }
    if context.json {
        output::json(&serde_json::json!({ "answers": answers }))?;
    }
    Ok(exit)
}

fn told(body: &ErrorBody) -> String {
    if body.hint.is_empty() {
        format!("error: {}", body.message)
    } else {
        format!("error: {}\n\nhint: {}", body.message, body.hint)
    }
}

fn ls(context: &mut Context, session: String) -> anyhow::Result<Exit> {
    let response = context.call(Request::PermissionList { session })?;
    output::respond(context, &response, || {
        expect!(&response, Permissions { permissions });
        let none = "no open questions";
        Ok(output::table_or(&table(permissions, coordd_common::wall_ms()), none)?)
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
            card::one_line(&it.question.rule),
            card::short(&it.question),
        ]);
    }
    table
}
