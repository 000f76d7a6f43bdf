//! `coordctl resume`: a stopped session goes on.

use proto::request::Request;

use crate::config::Config;
use crate::context::Context;
use crate::error::Exit;
use crate::terminal::line;
use crate::{env, expect, format, output, words};

/// Resume a stopped session, in its own mode.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl resume dates \"continue where you stopped\"")]
pub(crate) struct Args {
    /// The session.
    session: String,
    /// A prompt for its lead; `-` reads it from stdin.
    prompt: Option<String>,
    /// Keep the session's environment instead of taking this shell's.
    #[arg(long)]
    keep_env: bool,
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let prompt = args.prompt.as_deref().map(super::new::text_or_stdin).transpose()?;
    let env = if args.keep_env {
        std::collections::BTreeMap::new()
    } else {
        let config = Config::load(&context.paths.config_file)?;
        env::for_agents(&context.vars, &config)
    };
    let mode_variable = context.vars.get("CLAUDE_CODE_COORDINATOR_MODE").cloned();
    let response =
        context.call(Request::SessionResume { session: args.session, env, mode_variable })?;
    expect!(
        &response,
        Resumed { session, note, waiting_messages, restored, restartable, lost, .. }
    );
    if let Some(text) = prompt {
        let sent =
            context.call(Request::Prompt { session: session.id.clone(), agent: None, text })?;
        super::send::check(&sent)?;
    }
    output::respond(context, &response, || {
        output::say(&format!("{} resumed in {} mode", session.name, words::mode(session.mode)))?;
        if !note.is_empty() {
            output::note(note);
        }
        if *waiting_messages > 0 {
            let count = format::count(u64::from(*waiting_messages), "waiting message");
            output::note(&format!("{count} will be delivered now"));
        }
        let names = |them: &[String]| them.iter().map(|it| line(it)).collect::<Vec<_>>().join(", ");
        if !restored.is_empty() {
            output::note(&format!("restored: {}", names(restored)));
        }
        if session.questions > 0 {
            let count = format::count(u64::from(session.questions), "open question");
            output::note(&format!("{count} for you; `coordctl permit` lists them"));
        }
        if !restartable.is_empty() {
            output::note(&format!(
                "stopped in the middle of a run: {}; a message makes an agent continue",
                names(restartable)
            ));
        }
        if !lost.is_empty() {
            output::note(&format!("lost: {}", names(lost)));
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}
