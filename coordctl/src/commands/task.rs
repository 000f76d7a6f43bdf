//! `coordctl task`: a team's task list.

use proto::request::Request;
use proto::view::{TaskStatus, TaskView};

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::push;
use crate::table::Table;
use crate::terminal::{clean, line};
use crate::{expect, output, words};

/// Add, list, claim and finish tasks of a team.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: coordctl task add date-fixers \"Write a test for 1900\" --after 1"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Add a task.
    Add {
        /// The team, or its session.
        team: String,
        /// The task in a few words.
        subject: String,
        /// The task in full; `-` reads it from stdin.
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        /// A task that must be done first; may be repeated.
        #[arg(long, value_name = "N")]
        after: Vec<u32>,
    },
    /// List a team's tasks.
    Ls {
        /// The team, or its session.
        team: String,
    },
    /// Show one task.
    Show {
        #[command(flatten)]
        task: Which,
    },
    /// Claim a task that nobody has.
    Claim {
        #[command(flatten)]
        task: Which,
        /// The agent that claims it.
        #[arg(long = "as", value_name = "NAME")]
        owner: String,
    },
    /// Mark a task as done.
    Done {
        #[command(flatten)]
        task: Which,
    },
    /// Give a task back, so that others can take it.
    GiveBack {
        #[command(flatten)]
        task: Which,
    },
    /// Change a task's state or owner.
    Update {
        #[command(flatten)]
        task: Which,
        /// The new state.
        #[arg(long, value_parser = ["pending", "in_progress", "completed"])]
        status: Option<String>,
        /// The new owner; an empty name gives the task back.
        #[arg(long, value_name = "NAME")]
        owner: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The team, or its session.
    team: String,
    /// The task's number.
    task: u32,
}

impl Which {
    fn update(self, status: Option<TaskStatus>, owner: Option<String>) -> Request {
        let blocked_by = None;
        Request::TaskUpdate { team: self.team, task: self.task, status, owner, blocked_by }
    }
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let request = match args.verb {
        Verb::Add { team, subject, description, after } => {
            let description = super::new::text_or_stdin(&description)?;
            Request::TaskCreate { team, subject, description, blocked_by: after }
        }
        Verb::Ls { team } => return ls(context, team),
        Verb::Show { task: Which { team, task } } => Request::TaskGet { team, task },
        Verb::Claim { task, owner } => task.update(Some(TaskStatus::InProgress), Some(owner)),
        Verb::Done { task } => task.update(Some(TaskStatus::Completed), None),
        Verb::GiveBack { task } => task.update(Some(TaskStatus::Pending), Some(String::new())),
        Verb::Update { task, status, owner } => {
            let status = status.as_deref().and_then(parse);
            if status.is_none() && owner.is_none() {
                return Err(Failure::usage("nothing to change")
                    .hint("give --status or --owner")
                    .into());
            }
            task.update(status, owner)
        }
    };
    let response = context.call(request)?;
    output::respond(context, &response, || {
        expect!(&response, Task { task });
        Ok(output::print(&text(task))?)
    })?;
    Ok(Exit::Done)
}

fn parse(status: &str) -> Option<TaskStatus> {
    match status {
        "pending" => Some(TaskStatus::Pending),
        "in_progress" => Some(TaskStatus::InProgress),
        "completed" => Some(TaskStatus::Completed),
        _ => None,
    }
}

fn ls(context: &mut Context, team: String) -> anyhow::Result<Exit> {
    let response = context.call(Request::TaskList { team })?;
    output::respond(context, &response, || {
        expect!(&response, Tasks { tasks });
        let mut table = Table::new(&["N", "STATE", "OWNER", "AFTER", "SUBJECT"]);
        for it in tasks {
            table.row([
                it.id.to_string(),
                words::task_status(it.status).to_owned(),
                it.owner.clone().unwrap_or_default(),
                numbers(&it.blocked_by),
                it.subject.clone(),
            ]);
        }
        let none = "no tasks; `coordctl task add TEAM SUBJECT` adds one";
        Ok(output::table_or(&table, none)?)
    })?;
    Ok(Exit::Done)
}

fn text(it: &TaskView) -> String {
    let mut text = format!("{}  {}  {}\n", it.id, words::task_status(it.status), line(&it.subject));
    if let Some(owner) = &it.owner {
        push!(text, "owner {}\n", line(owner));
    }
    if !it.blocked_by.is_empty() {
        push!(text, "after {}\n", numbers(&it.blocked_by));
    }
    if !it.description.is_empty() {
        push!(text, "\n{}\n", clean(&it.description).trim_end());
    }
    text
}

fn numbers(of: &[u32]) -> String {
    of.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t4_a_task_in_full() {
        let it = TaskView {
            id: 3,
            subject: "Test 1900".into(),
            description: "All of it.\n".into(),
            status: TaskStatus::InProgress,
            owner: Some("w".into()),
            blocked_by: vec![1, 2],
        };
        assert_eq!(text(&it), "3  in progress  Test 1900\nowner w\nafter 1 2\n\nAll of it.\n");
    }

    #[test]
    fn t4_claiming_sets_owner_and_state_at_once() {
        let which = Which { team: "t".into(), task: 3 };
        let request = which.update(Some(TaskStatus::InProgress), Some("w".into()));
        let Request::TaskUpdate { task, status, owner, .. } = request else { panic!("no update") };
        assert_eq!((task, status, owner.as_deref()), (3, Some(TaskStatus::InProgress), Some("w")));
    }
}
