//! `coordctl mcp`: a session's tools for any program that speaks MCP (L-4).
//!
//! It finds or makes the session and then becomes `coordd-worker --mcp`, which joins and serves.
//! Its stdout belongs to the client: nothing is written there.

mod change;
mod client;
mod install;
mod json_text;
mod toml_text;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use proto::agent::Runtime;
use proto::error::ErrorCode;
use proto::request::Request;
use proto::response::Response;
use proto::view::{AgentState, AgentView, SessionState, SessionView};

use crate::config::Config;
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::terminal::line;
use crate::{env, expect, output, paths};

/// The most sessions of one folder that are examined for one to join.
const LOOKED_AT_MAX: usize = 20;

/// Serve a session's tools by MCP on stdin and stdout, for a program that is configured to start
/// this.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Without --session it is this folder's: for a coordinator the newest one that is led so and that no other \
                  program leads, or a new one; for a peer the newest one.\n\n\
                  Example: coordctl mcp install claude\n\
                  Example: coordctl mcp --as peer --session dates"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Install(install::InstallArgs),
    Uninstall(install::UninstallArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// What the program is: coordinator, which leads the session and starts workers, or peer, which
    /// writes and reads messages.
    #[arg(long = "as", value_name = "ROLE", value_parser = ["coordinator", "peer"], default_value = "coordinator")]
    role: String,
    /// The session; a coordinator creates one that does not exist.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// A peer's name in the session; a free one by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The workers' model, for a new session: as for `coordctl new`.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// What drives the workers of a new session: native, or claude for Claude Code.
    #[arg(long, value_name = "RUNTIME", value_parser = super::new::runtime)]
    runtime: Option<Runtime>,
    /// For a new session, a rule for calls that need no approval, such as "Bash(cargo test *)"; may
    /// be repeated.
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// For a new session: default, acceptEdits, plan, dontAsk or bypassPermissions.
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    match &args.verb {
        Some(Verb::Install(args)) => install::install(context, args),
        Some(Verb::Uninstall(args)) => install::uninstall(context, args),
        None => serve(context, &args.serve),
    }
}

fn serve(context: &mut Context, args: &ServeArgs) -> anyhow::Result<Exit> {
    // Clients that pass on little of their environment leave out XDG_RUNTIME_DIR.
    context.use_login_runtime_folder()?;
    if args.name.is_some() && args.role != "peer" {
        return Err(Failure::usage("--name needs --as peer")
            .hint("a coordinator is always called `lead`")
            .into());
    }
    let worker =
        paths::program(&context.vars, "COORDD_WORKER", "coordd-worker").ok_or_else(|| {
            Failure::failed("coordd-worker is not found beside coordctl or in PATH")
                .hint("install it, or set COORDD_WORKER to its path")
        })?;
    if std::io::stdin().is_terminal() {
        output::note("this speaks MCP with a program, not with a person; Ctrl-C ends it");
    }
    let session = match &args.session {
        Some(given) => named(context, args, given)?,
        None => of_this_folder(context, args)?,
    };
    if session.state == SessionState::Stopped {
        resume(context, &session)?;
    }
    let mut command = Command::new(&worker);
    command.arg("--mcp").arg("--socket").arg(&context.paths.socket);
    command.args(["--session", &session.id, "--as", &args.role]);
    if let Some(name) = &args.name {
        command.args(["--name", name]);
    }
    // It comes back only when that failed.
    let error = command.exec();
    Err(Failure::failed(format!("cannot run {}: {error}", worker.display()))
        .hint("install coordd and coordctl of the same version")
        .into())
}

fn named(context: &mut Context, args: &ServeArgs, given: &str) -> anyhow::Result<SessionView> {
    let request = Request::SessionShow { session: given.to_owned() };
    match context.call_or_denied(request)? {
        Ok(response) => {
            expect!(response, SessionDetail { session, .. });
            Ok(session)
        }
        Err(body) if body.code == ErrorCode::NotFound && args.role != "peer" => {
            made(context, args, Some(given))
        }
        Err(body) => Err(Failure::from(body).into()),
    }
}

fn of_this_folder(context: &mut Context, args: &ServeArgs) -> anyhow::Result<SessionView> {
    let here = Context::cwd()?;
    let response = context.call(Request::SessionList {})?;
    expect!(response, Sessions { sessions });
    let mut found: Vec<_> = sessions
        .into_iter()
        .filter(|session| here.to_str() == Some(session.cwd.as_str()))
        .collect();
    if args.role == "peer" {
        // Live sessions before stopped ones, each newest first.
        found.sort_by_key(|it| it.state != SessionState::Live);
        return found.into_iter().next().ok_or_else(|| {
            Failure::failed("no session works in this folder")
                .hint("name one with --session; `coordctl ls` lists them")
                .into()
        });
    }
    for session in found.into_iter().take(LOOKED_AT_MAX) {
        let request = Request::SessionShow { session: session.id.clone() };
        // It may be removed at this very moment.
        let Ok(Response::SessionDetail { agents, .. }) = context.call_or_denied(request)? else {
            continue;
        };
        if agents.iter().find(|agent| agent.id == session.lead).is_some_and(is_free) {
            return Ok(session);
        }
    }
    made(context, args, None)
}

/// Whether a program may become this lead.
fn is_free(lead: &AgentView) -> bool {
    lead.runtime == Runtime::External && lead.state == AgentState::Stopped
}

fn made(
    context: &mut Context,
    args: &ServeArgs,
    name: Option<&str>,
) -> anyhow::Result<SessionView> {
    let of_session = super::new::SessionArgs {
        name: name.map(str::to_owned),
        mode: Some("coordinator".to_owned()),
        lead: Some(Runtime::External),
        model: args.model.clone(),
        runtime: args.runtime,
        allow: args.allow.clone(),
        permission_mode: args.permission_mode.clone(),
        ..super::new::SessionArgs::default()
    };
    let new = super::new::prepare(context, &of_session, None)?;
    let response = context.call(Request::SessionNew { session: Box::new(new) })?;
    expect!(response, Session { session });
    output::note(&format!(
        "created session {}; `coordctl attach {0}` shows it",
        line(&session.name)
    ));
    Ok(session)
}

fn resume(context: &mut Context, session: &SessionView) -> anyhow::Result<()> {
    let config = Config::load(&context.paths.config_file)?;
    let env: BTreeMap<String, String> = env::for_agents(&context.vars, &config);
    context.call(Request::SessionResume {
        session: session.id.clone(),
        env,
        mode_variable: None,
    })?;
    output::note(&format!("session {} goes on", line(&session.name)));
    Ok(())
}
