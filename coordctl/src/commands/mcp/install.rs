//! `coordctl mcp install` and `uninstall`: the entry in a client's file, and the way back.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::change::{Found, Kept, diff, kept_at};
use super::client::{Client, EntryError, Scope, Server};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::{output, paths};

/// The variables that say where coordd and its things are.
const PLACES: [&str; 8] = [
    "COORDD_BIN",
    "COORDD_SOCKET",
    "COORDD_STATE_DIR",
    "COORDD_WORKER",
    "CLAUDE_CODE_TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Set up a client, so that it starts `coordctl mcp` by itself.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows the change, then writes it. A running client reads the file at its next start.\n\n\
                        Example: coordctl mcp install claude --scope project --dry-run"
)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    target: Target,
    /// What the client is to be: coordinator or peer.
    #[arg(long = "as", value_name = "ROLE", value_parser = ["coordinator", "peer"])]
    role: Option<String>,
    /// The session, instead of the folder's.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Remove the entry again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "If nobody changed the file since, it is restored exactly; otherwise only the entry is removed.\n\n\
                        Example: coordctl mcp uninstall claude"
)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Target {
    /// The client.
    client: Client,
    /// user: in every folder; project: in this one, for everybody who has it.
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: Scope,
    /// Show the change without making it.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn install(context: &Context, args: &InstallArgs) -> anyhow::Result<Exit> {
    let Target { client, scope, .. } = args.target;
    let found = find(context, &args.target)?;
    let mut arguments = vec!["mcp".to_owned()];
    for (flag, value) in [("--as", &args.role), ("--session", &args.session)] {
        if let Some(value) = value {
            arguments.extend([flag.to_owned(), value.clone()]);
        }
    }
    let server =
        Server { program: program(context, scope)?, arguments, env: places(context, scope) };
    let after =
        client.with(found.text(), &server).map_err(|error| left_alone(&found.path, &error))?;
    let changes = found.text.as_ref() != Some(&after);
    show(context, &args.target, &found, Some(&after), changes)?;
    if !changes || args.target.dry_run {
        return Ok(Exit::Done);
    }
    Kept::keep(&kept_at(&context.paths.state_dir, client.as_str(), &found.path), &found, &after)?;
    found.write(Some(&after))?;
    let of = if scope == Scope::Project { " --scope project" } else { "" };
    let client = client.as_str();
    output::note(&format!("written; `coordctl mcp uninstall {client}{of}` undoes it"));
    Ok(Exit::Done)
}

pub(super) fn uninstall(context: &Context, args: &UninstallArgs) -> anyhow::Result<Exit> {
    let client = args.target.client;
    let found = find(context, &args.target)?;
    let at = kept_at(&context.paths.state_dir, client.as_str(), &found.path);
    let after = match Kept::of(&at, &found) {
        Some(kept) => kept.before,
        None => match &found.text {
            Some(text) => {
                Some(client.without(text).map_err(|error| left_alone(&found.path, &error))?)
            }
            None => None,
        },
    };
    let changes = found.text != after;
    show(context, &args.target, &found, after.as_deref(), changes)?;
    if !changes || args.target.dry_run {
        return Ok(Exit::Done);
    }
    found.write(after.as_deref())?;
    // The copy has served its purpose. A stale one would not match the file any more.
    let _removed = std::fs::remove_file(&at);
    output::note("written");
    Ok(Exit::Done)
}

fn find(context: &Context, target: &Target) -> Result<Found, Failure> {
    let folder = Context::cwd()?;
    let path = target.client.file(target.scope, &context.vars, &folder).ok_or_else(|| {
        if target.scope == Scope::Project {
            Failure::usage(format!(
                "{} has no settings file for one project",
                target.client.as_str()
            ))
            .hint("give --scope user")
        } else {
            Failure::failed("HOME is not set to a folder").hint("set HOME to your home folder")
        }
    })?;
    // A user's file may hold secrets; a project's file is for everybody who has the folder.
    let new_mode = if target.scope == Scope::User { 0o600 } else { 0o644 };
    Found::read(&path, new_mode)
}

/// The program to start: by its path in a user's file, by its name in a project's file, which
/// others use too.
fn program(context: &Context, scope: Scope) -> Result<String, Failure> {
    if scope == Scope::Project {
        return Ok("coordctl".to_owned());
    }
    let path = std::env::current_exe().ok().or_else(|| paths::in_path(&context.vars, "coordctl"));
    path.and_then(|path| path.into_os_string().into_string().ok()).ok_or_else(|| {
        Failure::failed("the path of coordctl is not known, or is not UTF-8")
            .hint("install it in a folder whose path is UTF-8")
    })
}

/// Where this user's coordd is, if not in the usual place. Left out of a project's file.
fn places(context: &Context, scope: Scope) -> BTreeMap<String, String> {
    let usual = paths::login_runtime_folder(coordd_common::processes::euid());
    let of = |name: &&str| {
        let value = context.vars.get(*name).filter(|it| Path::new(it).is_absolute())?;
        let is_usual = *name == "XDG_RUNTIME_DIR" && Path::new(value) == usual;
        (!is_usual).then(|| ((*name).to_owned(), value.clone()))
    };
    if scope == Scope::Project { BTreeMap::new() } else { PLACES.iter().filter_map(of).collect() }
}

fn left_alone(path: &Path, error: &EntryError) -> Failure {
    Failure::failed(format!("{} was not changed: {error}", path.display()))
        .hint("add the entry by hand: the command is `coordctl`, its argument `mcp`")
}

fn show(
    context: &Context,
    target: &Target,
    found: &Found,
    after: Option<&str>,
    changes: bool,
) -> anyhow::Result<()> {
    let path = found.path.display().to_string();
    let diff =
        if changes { diff(&found.path, found.text.as_deref(), after) } else { String::new() };
    if context.json {
        let written = changes && !target.dry_run;
        return output::json(
            &json!({ "file": path, "diff": diff, "changes": changes, "written": written }),
        );
    }
    if changes {
        output::print(&diff)?;
    } else {
        output::say(&format!("{path}: nothing to change"))?;
    }
    Ok(())
}
