//! `coordctl rm`: removes a session with all that belongs to it.

use proto::request::Request;

use crate::context::Context;
use crate::error::Exit;
use crate::{expect, output};

/// Remove a session with its transcripts, scratchpad and team.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl rm dates --force")]
pub(crate) struct Args {
    /// The session.
    session: String,
    /// Stop the session first if it is live.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let response =
        context.call(Request::SessionRemove { session: args.session, force: args.force })?;
    output::respond(context, &response, || {
        expect!(&response, Removed { removed, kept });
        rows(removed, kept)
    })?;
    expect!(&response, Removed { kept, .. });
    Ok(if kept.is_empty() { Exit::Done } else { Exit::Failed })
}

/// What was and was not removed.
pub(crate) fn rows(removed: &[String], kept: &[String]) -> anyhow::Result<()> {
    for it in removed {
        output::say(&format!("removed {it}"))?;
    }
    for it in kept {
        output::note(&format!("kept {it}"));
    }
    Ok(())
}
