//! The words for states, and agents and sessions in one line: the same in every list and view.

use proto::agent::{Mode, Model, Provider, Runtime};
use proto::message::MessageState;
use proto::notification::{FailureClass, RunStatus, Usage};
use proto::view::{AgentState, AgentView, LastRun, SessionState, SessionView, TaskStatus};

use crate::format;
use crate::terminal::line;

pub(crate) fn agent_state(state: AgentState) -> &'static str {
    match state {
        AgentState::Waiting => "waiting",
        AgentState::Starting => "starting",
        AgentState::Running => "running",
        AgentState::NeedsInput => "waits for you",
        AgentState::Idle => "idle",
        AgentState::Stopping => "stopping",
        AgentState::Stopped => "stopped",
    }
}

/// Whether an agent works, is about to, or waits for something.
pub(crate) fn is_busy(state: AgentState) -> bool {
    match state {
        AgentState::Waiting
        | AgentState::Starting
        | AgentState::Running
        | AgentState::NeedsInput
        | AgentState::Stopping => true,
        AgentState::Idle | AgentState::Stopped => false,
    }
}

pub(crate) fn session_state(state: SessionState) -> &'static str {
    match state {
        SessionState::Live => "live",
        SessionState::Stopped => "stopped",
    }
}

pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Coordinator => "coordinator",
        Mode::Fork => "fork",
        Mode::Normal => "normal",
    }
}

pub(crate) fn message_state(state: MessageState) -> &'static str {
    match state {
        MessageState::Accepted => "accepted",
        MessageState::Held => "held",
        MessageState::Delivered => "delivered",
        MessageState::Consumed => "consumed",
        MessageState::Bounced => "bounced",
        MessageState::Expired => "expired",
    }
}

pub(crate) fn task_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "pending",
        TaskStatus::InProgress => "in progress",
        TaskStatus::Completed => "completed",
    }
}

/// What a session's agents run on: the model, the runtime, or both.
pub(crate) fn runs_on(session: &SessionView) -> String {
    match (&session.model, session.runtime) {
        (Some(it), Runtime::Native) => model(it),
        (Some(it), other) => format!("{}, workers: {}", model(it), other.as_str()),
        (None, it) => it.as_str().to_owned(),
    }
}

/// `coordinator`, or for whom it is, and what drives the workers where that is not the usual.
pub(crate) fn mode_of(session: &SessionView) -> String {
    if !session.host_for.is_empty() {
        return format!("workers of {}", line(&session.host_for));
    }
    let mode = mode(session.mode);
    if session.runtime == Runtime::Native {
        return mode.to_owned();
    }
    format!("{mode}, {}", session.runtime.as_str())
}

/// `anthropic:claude-x`, or that it is the scripted one.
pub(crate) fn model(model: &Model) -> String {
    match model.provider {
        Provider::Anthropic => format!("anthropic:{}", line(&model.name)),
        Provider::Openai => format!("openai:{}", line(&model.name)),
        Provider::Responses => format!("responses:{}", line(&model.name)),
        Provider::Rehearsal => "rehearsal (scripted)".to_owned(),
    }
}

/// `3 tools, 1.2k tokens, 0.8s`, and what it cost where that is known.
pub(crate) fn usage(usage: &Usage) -> String {
    let cost = format::cost(usage.cost_micro_usd);
    format!(
        "{}, {} tokens, {}{}{cost}",
        format::count(usage.tool_uses, "tool"),
        format::tokens(usage.total_tokens()),
        format::duration(usage.duration_ms),
        if cost.is_empty() { "" } else { ", " }
    )
}

/// `completed`, `failed (retryable): the reason`, `stopped: by user`.
pub(crate) fn ended(status: RunStatus, class: Option<FailureClass>, reason: &str) -> String {
    let word = match status {
        RunStatus::Completed => "completed",
        RunStatus::Failed => "failed",
        RunStatus::Killed => "stopped",
    };
    let class = class.map(|it| format!(" ({})", it.as_str())).unwrap_or_default();
    let reason = line(reason);
    // Reasons that say it themselves, as `stopped by the user`.
    if class.is_empty() && reason.starts_with(&format!("{word} ")) {
        return reason;
    }
    if reason.is_empty() { format!("{word}{class}") } else { format!("{word}{class}: {reason}") }
}

/// What an agent is at, in a few words.
pub(crate) fn doing(agent: &AgentView) -> String {
    // What such a program does between its calls is not known.
    if agent.runtime == Runtime::External {
        let is_there = !matches!(agent.state, AgentState::Stopped | AgentState::Starting);
        return if is_there { "connected" } else { "not connected" }.to_owned();
    }
    // A question is the daemon's word; what the agent reported last may be older.
    let is_told = is_busy(agent.state) && agent.state != AgentState::NeedsInput;
    match &agent.activity {
        Some(activity) if is_told && !activity.doing.is_empty() => line(&activity.doing),
        _ => agent_state(agent.state).to_owned(),
    }
}

pub(crate) fn last_run(last: &LastRun) -> String {
    let thin = if last.thin { " (thin)" } else { "" };
    format!("{}{thin}", ended(last.status, last.class, &last.reason))
}

/// How it last ended, or what it is for.
pub(crate) fn last_of(agent: &AgentView) -> String {
    match (&agent.ended, &agent.last) {
        (Some(ended), _) if !ended.said.is_empty() => {
            format!("ended with status {}: {}", ended.status, line(&ended.said))
        }
        (Some(ended), _) => format!("ended with status {}", ended.status),
        (None, Some(last)) => last_run(last),
        (None, None) => agent.description.clone(),
    }
}

/// The one argument of a tool call that tells most.
pub(crate) fn tool_call(tool: &str, input: &serde_json::Value) -> String {
    const TELLING: &[&str] = &[
        "command",
        "file_path",
        "path",
        "pattern",
        "url",
        "query",
        "description",
        "subject",
        "to",
        "task_id",
        "name",
        "summary",
    ];
    let told = TELLING.iter().find_map(|key| input.get(key)?.as_str());
    let told = told.map(line).filter(|it| !it.is_empty());
    told.map_or_else(|| line(tool), |it| format!("{} {it}", line(tool)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_end_in_words() {
        assert_eq!(ended(RunStatus::Completed, None, ""), "completed");
        assert_eq!(
            ended(RunStatus::Failed, Some(FailureClass::Fatal), "401\u{1b}[2J\nbad key"),
            "failed (fatal): 401 bad key"
        );
        assert_eq!(ended(RunStatus::Killed, None, "by user"), "stopped: by user");
    }

    #[test]
    fn a_reason_does_not_say_the_word_again() {
        let ended = |status, reason| ended(status, None, reason);
        assert_eq!(ended(RunStatus::Killed, "stopped by the user"), "stopped by the user");
        assert_eq!(
            ended(RunStatus::Killed, "the session was stopped"),
            "stopped: the session was stopped"
        );
    }

    #[test]
    fn a_tool_call_in_one_line() {
        assert_eq!(tool_call("Bash", &json!({"command": "a\nb", "timeout": 5})), "Bash a b");
        assert_eq!(tool_call("TodoWrite", &json!({"todos": []})), "TodoWrite");
    }

    #[test]
    fn use_in_words() {
        let used = Usage {
            tool_uses: 3,
            input_tokens: 1_000,
            output_tokens: 249,
            duration_ms: 812,
            ..Usage::default()
        };
        assert_eq!(usage(&used), "3 tools, 1.2k tokens, 0.8s");
        let used = Usage { cost_micro_usd: 1_209_999, ..used };
        assert_eq!(usage(&used), "3 tools, 1.2k tokens, 0.8s, $1.20");
    }
}
