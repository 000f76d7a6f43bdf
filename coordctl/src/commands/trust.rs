//! `coordctl trust`: folders whose own settings may switch something on.

mod found;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use coordd_common::trust::{TrustError, Trusted};
use proto::request::Request;
use serde::Serialize;

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::output;
use crate::terminal::line;

/// Let a folder's own settings count: hooks, variables, servers, skills and agents of a project.
///
/// Until then Claude Code gets your own settings alone, whatever stands in the folder. What is below the folder is trusted with it, and so is
/// what its files say later.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed or not confirmed, 2 wrong usage, 3 asked by an agent's program, 4 no coordd.\n\n\
                        Example: coordctl trust .\n\
                        Example: coordctl trust --remove ~/src/dates"
)]
pub(crate) struct Args {
    /// The folder, which is a repository as a rule; the current one by default.
    folder: Option<PathBuf>,
    /// Trust it no longer.
    #[arg(long, conflicts_with = "list")]
    remove: bool,
    /// Show the folders that are trusted.
    #[arg(long, conflicts_with_all = ["folder", "yes"])]
    list: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    folder: &'a Path,
    /// Whether it is still the folder that was trusted.
    is_same: bool,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    if args.list {
        return list(context);
    }
    let here = Context::cwd()?;
    let folder = args.folder.as_ref().map_or_else(|| here.clone(), |it| here.join(it));
    let mut trusted = load(context)?;
    if args.remove {
        let was_there = trusted.remove(&folder).map_err(|error| failure(&error))?;
        let words = if was_there { "is trusted no longer" } else { "was not trusted" };
        output::note(&format!("{} {words}", line(&folder.display().to_string())));
        return Ok(Exit::Done);
    }
    let folder = folder.canonicalize().map_err(|error| {
        Failure::usage(format!("{} cannot be used: {error}", folder.display()))
            .hint("give an existing folder")
    })?;
    check(context, &folder)?;
    if let Some(above) = trusted.covering(&folder) {
        output::note(&format!("{} is trusted already", line(&above.display().to_string())));
        return Ok(Exit::Done);
    }
    // The user's word: an agent's program is refused this question, and so the rest.
    context.call(Request::PermissionList { session: String::new() })?;
    show(&folder);
    if !args.yes && !confirmed()? {
        output::note("nothing was changed");
        return Ok(Exit::Failed);
    }
    trusted.add(&folder).map_err(|error| failure(&error))?;
    output::note(&format!(
        "trusted; it counts for agents that start from now on. `coordctl trust --remove {}` undoes that",
        line(&folder.display().to_string())
    ));
    Ok(Exit::Done)
}

/// What a new session is told when files of its folder would switch something on and do not. None where there is nothing to tell.
pub(crate) fn note_about(context: &Context, folder: &Path) -> Option<String> {
    let shown = line(&folder.display().to_string());
    match Trusted::load(&context.paths.state_dir) {
        Ok(trusted) if trusted.covering(folder).is_some() => None,
        Ok(_) => {
            let found = found::names(folder);
            (!found.is_empty()).then(|| {
                let names = line(&found.join(", "));
                format!("{names} of this folder do not count for Claude Code; `coordctl trust {shown}` shows what they do and lets them")
            })
        }
        Err(error) => Some(format!(
            "settings of this folder do not count for Claude Code: {}",
            line(&coordd_common::chain(&error))
        )),
    }
}

fn list(context: &Context) -> anyhow::Result<Exit> {
    let trusted = load(context)?;
    let rows: Vec<Row<'_>> =
        trusted.all().map(|(folder, is_same)| Row { folder, is_same }).collect();
    output::respond(context, &rows, || {
        for Row { folder, is_same } in &rows {
            let note = if *is_same { "" } else { "  (another folder, or none, is there now)" };
            output::say(&format!("{}{note}", line(&folder.display().to_string())))?;
        }
        if rows.is_empty() {
            output::note("no folder is trusted");
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

fn load(context: &Context) -> Result<Trusted, Failure> {
    Trusted::load(&context.paths.state_dir).map_err(|error| failure(&error))
}

fn failure(error: &TrustError) -> Failure {
    Failure::failed(coordd_common::chain(error))
}

/// A folder that holds everything else is no project.
fn check(context: &Context, folder: &Path) -> Result<(), Failure> {
    let home = context.vars.get("HOME").map(Path::new).and_then(|it| it.canonicalize().ok());
    let is_above = home.is_some_and(|home| home.starts_with(folder));
    if is_above || folder == Path::new("/") {
        return Err(Failure::usage(format!(
            "{} holds all your projects, and each would be trusted",
            folder.display()
        ))
        .hint("name the folder of one project"));
    }
    Ok(())
}

fn show(folder: &Path) {
    let found = found::lines(folder);
    let shown = line(&folder.display().to_string());
    if found.is_empty() {
        output::note(&format!("{shown} has nothing that would be switched on now"));
        return;
    }
    output::note(&format!("in {shown}, agents would get:"));
    for it in found {
        output::note(&format!("  {}", line(&it)));
    }
}

fn confirmed() -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("nobody is there to confirm")
            .hint("read what is listed, and give --yes"));
    }
    output::note("Trust it? [y/N]");
    let mut answer = String::new();
    let read = std::io::BufRead::read_line(
        &mut std::io::BufReader::new(std::io::Read::take(std::io::stdin(), 64)),
        &mut answer,
    );
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
