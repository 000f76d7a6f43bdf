//! `coordctl team invite`, `shutdown`, `approve` and `reject`: members in terminals.

use std::collections::BTreeMap;

use proto::message::Body;
use proto::request::Request;
use proto::response::Response;
use proto::teammate::{PLAN_FIRST, choices};

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::terminal::line;
use crate::{expect, output};

/// What the member is started with, beside what makes it one.
#[derive(Debug, clap::Args)]
pub(crate) struct Invite {
    /// The team, or its session.
    team: String,
    /// Its name, new in the session.
    name: String,
    /// What the team is for.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// Have coordd run it in a terminal, which `coordctl attach SESSION/NAME` shows. Without it you
    /// start it yourself, in a terminal of yours, with the command that is printed.
    #[arg(long)]
    start: bool,
    /// It has to have its plan approved before it does anything.
    #[arg(long)]
    plan_first: bool,
    /// More arguments for its program, as `-- --model opus --permission-mode default`.
    #[arg(last = true, value_name = "ARGUMENT")]
    more: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Shutdown {
    /// SESSION/NAME.
    member: String,
    /// The reason that the member is told.
    #[arg(default_value = "")]
    reason: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// SESSION/NAME.
    member: String,
    /// The request, as `plan-m12`.
    request: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Reject {
    /// SESSION/NAME.
    member: String,
    /// The request, as `plan-m12`.
    request: String,
    /// What to change.
    feedback: String,
}

pub(super) fn invite(context: &mut Context, args: Invite) -> anyhow::Result<Exit> {
    let Invite { team, name, description, start, plan_first, more } = args;
    let given: Vec<String> =
        plan_first.then(|| PLAN_FIRST.to_owned()).into_iter().chain(more).collect();
    let arguments = if start { given.clone() } else { Vec::new() };
    let request =
        Request::TeamInvite(proto::request::Invite { team, name, description, start, arguments });
    let response = context.call(request)?;
    expect!(&response, Invited { agent, .. });
    if !agent.screen {
        return printed(context, &response, &given);
    }
    let (session, _) = crate::live::show(context, &agent.session)?;
    output::respond(context, &response, || {
        expect!(&response, Invited { agent, team, .. });
        let path = format!("{}/{}", line(&session.name), line(&agent.name));
        let (name, team) = (line(&agent.name), line(team));
        output::note(&format!(
            "{name} is a member of team {team}, in a terminal that coordd runs:"
        ));
        output::print(&format!("coordctl attach {path}\n"))?;
        output::note(&format!(
            "It waits for messages: `coordctl send {path} TEXT`. `coordctl stop {path}` ends it."
        ));
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// The command for a terminal that its user starts.
fn printed(context: &Context, response: &Response, given: &[String]) -> anyhow::Result<Exit> {
    output::respond(context, response, || {
        expect!(response, Invited { agent, team, cwd, env, command, .. });
        let (name, team) = (line(&agent.name), line(team));
        output::note(&format!(
            "{name} is a member of team {team}. Start it in a terminal of yours with:"
        ));
        output::print(&format!("{}\n", command_line(cwd, env, command, given)))?;
        output::note(
            "What is sent to it waits in its inbox until then. The same command starts it again.",
        );
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// One line for a shell.
fn command_line(
    cwd: &str,
    env: &BTreeMap<String, String>,
    command: &[String],
    given: &[String],
) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(env.iter().map(|(name, value)| format!("{name}={}", quoted(value))));
    words.extend(command.iter().map(|it| quoted(it)));
    words.extend(choices(given).iter().map(|choice| quoted(choice)));
    format!("cd {} && {}", quoted(cwd), words.join(" "))
}

/// A word quoted for a shell. Control characters are left out, since the line is shown.
fn quoted(word: &str) -> String {
    let word = line(word);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

pub(super) fn shutdown(context: &mut Context, args: Shutdown) -> anyhow::Result<Exit> {
    send(context, &args.member, Body::ShutdownRequest { reason: args.reason })
}

pub(super) fn approve(context: &mut Context, args: Approve) -> anyhow::Result<Exit> {
    let (request_id, feedback) = (args.request, String::new());
    send(context, &args.member, Body::PlanApprovalResponse { request_id, approve: true, feedback })
}

pub(super) fn reject(context: &mut Context, args: Reject) -> anyhow::Result<Exit> {
    let (request_id, feedback) = (args.request, args.feedback);
    send(context, &args.member, Body::PlanApprovalResponse { request_id, approve: false, feedback })
}

fn send(context: &mut Context, member: &str, body: Body) -> anyhow::Result<Exit> {
    let (session, to) = member.split_once('/').ok_or_else(|| {
        Failure::usage(format!("no member named `{}`", line(member)))
            .hint("write SESSION/NAME; `coordctl team show SESSION` lists the members")
    })?;
    let (session, to) = (session.to_owned(), to.to_owned());
    let response = context.call(Request::Send {
        session,
        to,
        body,
        summary: String::new(),
        notify_when_idle: false,
    })?;
    output::respond(context, &response, || {
        expect!(&response, Sent { results });
        results.iter().try_for_each(crate::commands::send::row)
    })?;
    Ok(crate::commands::send::exit(&response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_the_command_can_be_pasted_into_a_shell() {
        let env = BTreeMap::from([("ON".to_owned(), "1".to_owned())]);
        let command = ["claude", "--agent-id", "m1@alpha"].map(str::to_owned);
        let shown = command_line("/home/ada/it's here", &env, &command, &[PLAN_FIRST.to_owned()]);
        let wanted = r"cd '/home/ada/it'\''s here' && ON=1 claude --agent-id m1@alpha --permission-mode acceptEdits --plan-mode-required";
        assert_eq!(shown, wanted);
        let more = ["--permission-mode", "default", "--model", "$x"].map(str::to_owned);
        let shown = command_line("/w", &env, &command, &more);
        assert_eq!(
            shown,
            "cd /w && ON=1 claude --agent-id m1@alpha --permission-mode default --model '$x'"
        );
        assert_eq!(quoted(""), "''");
    }
}
