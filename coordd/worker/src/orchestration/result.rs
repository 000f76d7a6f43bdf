//! coordd's answers as texts for the model. They report what happened, and predict nothing.

use std::fmt::Write as _;

use proto::agent::RunOutcome;
use proto::message::SendResult;
use proto::notification::{RunStatus, visible};
use proto::response::Response;
use proto::view::{PeerKind, PeerView};

use super::Verb;
use crate::link::{CallError, denial_text};
use crate::tools::ToolOutput;

/// What the model reads.
pub(crate) fn output(verb: Verb, answer: Result<Response, CallError>) -> ToolOutput {
    let response = match answer {
        Ok(response) => response,
        Err(CallError::Denied(denial)) => return ToolOutput::error(denial_text(&denial)),
        Err(error @ CallError::Gone) => return ToolOutput::error(error.to_string()),
    };
    if let Response::Spawned { agent, name, state, note } = &response {
        return ToolOutput::ok(spawned(agent, name, state, note));
    }
    if let Response::Ran { agent, name, outcome } = &response {
        return ran(agent, name, outcome);
    }
    if let Response::Sent { results } = &response {
        return sent(results);
    }
    if let Response::Peers { peers } = &response {
        return ToolOutput::ok(self::peers(peers));
    }
    if let Response::Stopped { agents, bounced } = &response {
        return ToolOutput::ok(stopped(agents, *bounced));
    }
    if let Response::StopAsked { agent } = &response {
        return ToolOutput::ok(format!(
            "The machine that {agent} runs on was asked to stop it, and does so when it is there. A task-notification with status \
             killed follows if a run was open. It can be continued with SendMessage."
        ));
    }
    if let Response::Team { team } = &response {
        return ToolOutput::ok(format!(
            "Team created.\nteam_name: {}\nfile: {}",
            team.name, team.file
        ));
    }
    if let Response::TeamDeleted { name, removed, kept } = &response {
        return ToolOutput::ok(team_deleted(name, removed, kept));
    }
    if matches!((verb, &response), (Verb::StructuredOutput, Response::Done {})) {
        return ToolOutput::ok(
            "The output was accepted. Now tell the user the outcome in plain text.",
        );
    }
    tracing::warn!(tool = verb.name(), "coordd answered with something else than was asked for");
    ToolOutput::ok("Done.")
}

fn spawned(agent: &str, name: &str, state: &str, note: &str) -> String {
    let first = if state == "started" { "Agent started." } else { "Agent accepted; it waits." };
    let mut text = format!("{first}\nagent_id: {agent}\nname: {name}\nstate: {state}");
    if !note.is_empty() {
        let _fits = write!(text, "\nnote: {note}");
    }
    text.push_str(
        "\n\nA task-notification will come when its run ends. Its result is not known yet: do not poll, \
         and say nothing about it.",
    );
    text
}

fn ran(agent: &str, name: &str, outcome: &RunOutcome) -> ToolOutput {
    let mut text = format!("agent_id: {agent}\nname: {name}\nstatus: {}", outcome.status.as_str());
    if let Some(class) = outcome.class {
        let _fits = write!(text, " ({})", class.as_str());
    }
    if !outcome.reason.is_empty() {
        let _fits = write!(text, "\nreason: {}", outcome.reason);
    }
    let usage = &outcome.usage;
    let _fits = write!(
        text,
        "\nusage: {} tokens, {} tool uses, {} ms",
        usage.total_tokens(),
        usage.tool_uses,
        usage.duration_ms
    );
    text.push_str("\n\n");
    text.push_str(if outcome.result.is_empty() { "(no report)" } else { &outcome.result });
    ToolOutput { text, is_error: outcome.status == RunStatus::Failed }
}

/// One line for each receiver. It failed only if nobody gets it (M-5).
fn sent(results: &[SendResult]) -> ToolOutput {
    let mut lines = Vec::new();
    let mut refused = 0;
    for result in results {
        lines.push(match result {
            SendResult::Accepted { to, id, ahead, note, request_id } => {
                let mut line = format!("{to}: accepted, message {id}");
                if !note.is_empty() {
                    let _fits = write!(line, ", {note}");
                }
                if *ahead > 0 {
                    let _fits = write!(line, ", {ahead} ahead of it");
                }
                if let Some(request_id) = request_id {
                    let _fits = write!(line, ", request_id {request_id}");
                }
                line
            }
            SendResult::Refused { to, reason } => {
                refused += 1;
                format!("{to}: refused, {reason}")
            }
        });
    }
    if lines.is_empty() {
        return ToolOutput::ok("Nobody else is there: the message went to no one.");
    }
    ToolOutput { text: lines.join("\n"), is_error: refused == results.len() }
}

/// One line for each. What they say of themselves is theirs, so that it stays on its line.
fn peers(peers: &[PeerView]) -> String {
    if peers.is_empty() {
        return "There is no other session that could be written to.".to_owned();
    }
    let plain = |text: &str| visible(text).replace(['\n', '\t'], " ");
    let line = |it: &PeerView| {
        let kind = match it.kind {
            PeerKind::Session => "coordd session",
            PeerKind::Claude => "Claude Code session",
            PeerKind::Other => "other program",
            PeerKind::Bridge => "session on another machine",
            PeerKind::Host => "host",
        };
        let (name, address) = (plain(&it.name), plain(&it.address));
        format!("{name} | {kind} | {} | {} | {address}", plain(&it.state), plain(&it.cwd))
    };
    let lines: Vec<_> = peers.iter().map(line).collect();
    format!("name | kind | state | folder | address\n{}", lines.join("\n"))
}

fn stopped(agents: &[String], bounced: u32) -> String {
    let mut text = if agents.is_empty() {
        "It had no process and was not running; nothing had to be stopped.".to_owned()
    } else {
        format!(
            "Stopped: {}. A task-notification with status killed follows if a run was open. It can be continued with \
             SendMessage.",
            agents.join(", ")
        )
    };
    if bounced > 0 {
        let _fits = write!(text, "\n{bounced} messages went back to their senders.");
    }
    text
}

fn team_deleted(name: &str, removed: &[String], kept: &[String]) -> String {
    let mut text = format!("Team {name} deleted.");
    for path in removed {
        let _fits = write!(text, "\nremoved: {path}");
    }
    for path in kept {
        let _fits = write!(text, "\nnot removed: {path}");
    }
    if !kept.is_empty() {
        text.push_str("\nCall TeamDelete again to finish.");
    }
    text
}
