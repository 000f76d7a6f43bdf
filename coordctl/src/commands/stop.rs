//! `coordctl stop`: a whole session, or one agent.

use proto::error::ErrorCode;
use proto::request::Request;
use proto::response::Response;

use crate::context::Context;
use crate::error::Exit;
use crate::{expect, format, output};

/// Stop a session, one agent's run, or a terminal that coordd runs. All of them can be resumed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl stop dates/research-a")]
pub(crate) struct Args {
    /// SESSION, or SESSION/AGENT.
    what: String,
}

pub(crate) fn run(context: &mut Context, args: Args) -> anyhow::Result<Exit> {
    let agent = Request::AgentStop { agent: args.what.clone() };
    let response = if args.what.contains('/') {
        context.call(agent)?
    } else {
        let session = Request::SessionStop { session: args.what };
        match context.call_or_denied(session)? {
            Ok(response) => response,
            Err(body) if body.code == ErrorCode::NotFound => match context.call_or_denied(agent)? {
                Ok(response) => response,
                // Of the two refusals, the one about the session is shown, since it lists the
                // sessions.
                Err(second) if second.code == ErrorCode::NotFound => {
                    return Err(crate::error::Failure::from(body).into());
                }
                Err(second) => return Err(crate::error::Failure::from(second).into()),
            },
            Err(body) => return Err(crate::error::Failure::from(body).into()),
        }
    };
    output::respond(context, &response, || {
        if let Response::StopAsked { agent } = &response {
            return Ok(output::say(&format!(
                "the machine that {agent} runs on was asked to stop it"
            ))?);
        }
        expect!(&response, Stopped { agents, bounced });
        if agents.is_empty() {
            output::say("nothing was running")?;
        } else {
            output::say(&format!("stopped {}", agents.join(", ")))?;
        }
        if *bounced > 0 {
            let count = format::count(u64::from(*bounced), "message");
            output::note(&format!("{count} went back undelivered"));
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}
