//! How runs end, from any cause.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

use crate::rules::mailbox::{self, Draft};
use crate::rules::turn::Turn;
use crate::rules::{outbox, task};
use crate::state::agent::{Agent, Class, LastRun, Life, Outcome, Runtime, Status};
use crate::state::message::{Kind, Sender, without_result};
use crate::state::role::Role;
use crate::state::{Durable, Effect, Record, limits, permission, text};

/// Records the end of a run, once: the lead is notified, its questions are closed, its tasks are given back.
pub(crate) fn end(turn: &mut Turn<'_>, agent: &Agent, run: u32, mut outcome: Outcome) {
    // Several things of one step may each end it, as when all that waited for a machine expires.
    if turn.run_is_over(agent, run) {
        return;
    }
    text::cut(
        &mut outcome.result,
        limits::RESULT_LEN_MAX,
        "\n[The rest is in the worker's transcript.]",
    );
    text::cut(&mut outcome.reason, limits::REASON_LEN_MAX, "…");
    let thin = agent.phase == "research"
        && outcome.status == Status::Completed
        && outcome.usage.tool_uses < limits::THIN_TOOL_USES
        && outcome.usage.total_tokens() < limits::THIN_TOKENS;
    close_questions(turn, agent);
    let ended = Record::RunEnded {
        agent: agent.id.clone(),
        run,
        outcome: outcome.clone(),
        at_ms: turn.now.wall_ms,
        thin,
    };
    turn.record(ended);
    if agent.role != Role::Worker {
        return;
    }
    if outcome.status != Status::Completed {
        give_back_tasks(turn, agent);
    }
    if let Some(far) = agent.far_lead() {
        outbox::tell_end(turn, agent, far, outcome);
    } else if !is_waited_for(turn.durable, agent, run) {
        notify_lead(turn, agent, run, outcome, thin);
    }
}

/// A lead that waits for the first run gets its outcome as the answer to the call. The lead does no more once its own run
/// has ended, or is being ended.
fn is_waited_for(durable: &Durable, agent: &Agent, run: u32) -> bool {
    let still_waits = |lead: &Agent| {
        let repeats = lead.runtime == Runtime::Native;
        lead.runs < agent.waited_run
            && !matches!(lead.life, Life::Stopping { .. })
            && (repeats || lead.incarnation == agent.waited_incarnation)
    };
    agent.waited_for && run == 1 && durable.lead_of(&agent.session).is_some_and(still_waits)
}

fn notify_lead(turn: &mut Turn<'_>, agent: &Agent, run: u32, outcome: Outcome, thin: bool) {
    let Some(lead) = turn.durable.lead_of(&agent.session) else { return };
    let kind = Kind::Notification {
        agent: agent.id.clone(),
        run,
        outcome: without_result(&outcome),
        thin,
    };
    let summary =
        summary(agent, &LastRun { outcome: outcome.clone(), ended_ms: turn.now.wall_ms, thin });
    let draft = Draft { from: Sender::System, kind, text: outcome.result, summary };
    mailbox::accept(turn, lead, draft);
}

/// The notification's one line: which worker, how it ended, and for failures why and of which class (W-8).
pub fn summary(agent: &Agent, last: &LastRun) -> String {
    let name = &agent.name;
    let outcome = &last.outcome;
    let reason =
        if outcome.reason.is_empty() { String::new() } else { format!(": {}", outcome.reason) };
    match outcome.status {
        Status::Completed if last.thin => {
            format!(
                "Agent \"{name}\" completed (thin: it used almost no tools, doubt its findings)"
            )
        }
        Status::Completed => format!("Agent \"{name}\" completed"),
        Status::Killed => format!("Agent \"{name}\" was stopped{reason}"),
        Status::Failed => {
            let class = match outcome.class {
                Some(Class::Retryable) => "retryable",
                Some(Class::Adjust) => "adjust",
                Some(Class::Fatal) | None => "fatal",
            };
            format!("Agent \"{name}\" failed ({class}){reason}")
        }
    }
}

pub(crate) fn close_questions(turn: &mut Turn<'_>, agent: &Agent) {
    for open in turn.durable.open_questions(&agent.id) {
        let reason = "the run ended before the question was answered".to_owned();
        let answer = permission::Answer {
            allow: false,
            reason,
            rule: String::new(),
            at_ms: turn.now.wall_ms,
            unheard_by: 0,
            by: permission::By::RunEnd,
        };
        turn.record(Record::PermissionAnswered { id: open.id, answer });
    }
}

fn give_back_tasks(turn: &mut Turn<'_>, agent: &Agent) {
    let Some(team) = turn.durable.team_of(&agent.session) else { return };
    let given_back = task::given_back(team, agent.name.as_str());
    if !given_back.is_empty() && !team.deleting {
        turn.effect(Effect::WriteTeam { team: team.name.clone() });
    }
    for given in given_back {
        turn.record(Record::TaskPut { team: team.name.clone(), task: given });
    }
}

/// The outcome of a run that somebody ended from outside.
pub(crate) fn killed(by: &str) -> Outcome {
    Outcome::silent(Status::Killed, None, format!("by {by}"))
}
