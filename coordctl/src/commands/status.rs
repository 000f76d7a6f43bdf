//! `coordctl status`: the daemon and its sessions, or one session with its agents.

use std::collections::BTreeMap;

use proto::agent::{Role, Runtime};
use proto::request::Request;
use proto::view::{AgentState, AgentView, DaemonView, SessionView};

use crate::context::Context;
use crate::error::Exit;
use crate::push;
use crate::table::Table;
use crate::terminal::{Paint, line};
use crate::{expect, format, output, words};

/// Show the daemon and all sessions, or one session with its agents.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl status dates")]
pub(crate) struct Args {
    /// The session to show, by name, id or unique prefix of an id.
    session: Option<String>,
}

/// Phases in the order of a job; what was started without one comes last.
const PHASES: [&str; 5] = ["research", "synthesis", "implementation", "verification", ""];

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    match &args.session {
        Some(session) => one(context, session),
        None => all(context),
    }
}

fn one(context: &mut Context, session: &str) -> anyhow::Result<Exit> {
    let response = context.call(Request::SessionShow { session: session.to_owned() })?;
    output::respond(context, &response, || {
        expect!(&response, SessionDetail { session, agents });
        output::print(&heading(context, session))?;
        output::table(&agent_table(agents, coordd_common::wall_ms()))?;
        output::print(&boxes(agents))?;
        Ok(output::print(&terminals(session, agents))?)
    })?;
    Ok(Exit::Done)
}

fn all(context: &mut Context) -> anyhow::Result<Exit> {
    let daemon_response = context.call(Request::DaemonStatus {})?;
    let sessions_response = context.call(Request::SessionList {})?;
    if context.json {
        // Both responses as they are, in one document.
        let mut both = serde_json::to_value(&daemon_response)?;
        let sessions = serde_json::to_value(&sessions_response)?;
        if let (Some(both), serde_json::Value::Object(sessions)) = (both.as_object_mut(), sessions)
        {
            both.extend(sessions);
        }
        output::json(&both)?;
        return Ok(Exit::Done);
    }
    expect!(&daemon_response, Daemon { daemon });
    expect!(&sessions_response, Sessions { sessions });
    output::print(&daemon_text(daemon, coordd_common::wall_ms()))?;
    if !sessions.is_empty() {
        output::print("\n")?;
        output::table(&super::ls::table(sessions, coordd_common::wall_ms()))?;
    }
    Ok(Exit::Done)
}

/// The daemon in a few lines.
pub(crate) fn daemon_text(it: &DaemonView, now_ms: u64) -> String {
    let mut text = format!(
        "coordd {} (pid {}{}), up {}\nsocket {}\nstate  {}\n{}, {} with a process, {}\n",
        line(&it.version),
        it.pid,
        if it.under_systemd { ", under systemd" } else { "" },
        format::duration(now_ms.saturating_sub(it.started_ms)),
        line(&it.socket),
        line(&it.state_dir),
        format::count(u64::from(it.sessions), "session"),
        format::count(u64::from(it.agents_running), "agent"),
        format::count(u64::from(it.peers), "connection"),
    );
    for degraded in &it.degraded {
        push!(text, "warning: {}\n", line(degraded));
    }
    text
}

fn heading(context: &Context, it: &SessionView) -> String {
    let mut text = format!(
        "{}  {}  {}  {} mode  {}\nfolder     {}\n",
        context.style.paint(Paint::Strong, &line(&it.name)),
        line(&it.id),
        words::session_state(it.state),
        words::mode(it.mode),
        words::runs_on(it),
        line(&it.cwd)
    );
    if let Some(path) = &it.scratchpad {
        push!(text, "scratchpad {}\n", line(path));
    }
    if !it.host_for.is_empty() {
        push!(text, "workers of {}\n", line(&it.host_for));
    }
    if let Some(team) = &it.team {
        push!(text, "team       {}\n", line(team));
    }
    if it.questions > 0 {
        let count = format::count(u64::from(it.questions), "open question");
        let text_end = format!("{count}: `coordctl permit ls {}` shows them\n", line(&it.name));
        text.push_str(&context.style.paint(Paint::Warn, &text_end));
    }
    if let Some(summary) = it.output.as_ref().and_then(|output| output.get("summary")?.as_str()) {
        push!(text, "result     {}\n", line(summary));
    }
    text.push('\n');
    text
}

/// How to see the terminals that are there.
fn terminals(session: &SessionView, agents: &[AgentView]) -> String {
    let is_up = |it: &&AgentView| it.screen && it.state != AgentState::Stopped;
    let lines = agents.iter().filter(is_up).map(|agent| {
        let (session, name) = (line(&session.name), line(&agent.name));
        format!("{name} is a terminal: coordctl attach {session}/{name}\n")
    });
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Whether commands of agents run in a box, for each that says so; agents of one word in one line.
fn boxes(agents: &[AgentView]) -> String {
    let mut by_word: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for it in agents.iter().filter(|it| it.state != AgentState::Stopped) {
        let word = match it.runtime {
            Runtime::Native => match it.activity.as_ref().map(|it| it.sandbox.as_str()) {
                None | Some("") => continue,
                Some(word) => line(word),
            },
            Runtime::Claude | Runtime::Terminal => {
                "not boxed: the program asks by the rules, and runs what it runs as you".to_owned()
            }
            Runtime::External | Runtime::Bridged => continue,
        };
        by_word.entry(word).or_default().push(line(&it.name));
    }
    let lines: Vec<String> =
        by_word.iter().map(|(word, names)| format!("\n{}: {word}", names.join(", "))).collect();
    if lines.is_empty() { String::new() } else { format!("{}\n", lines.concat()) }
}

/// The lead, then workers by phase.
fn agent_table(agents: &[AgentView], now_ms: u64) -> Table {
    let heading =
        ["AGENT", "PHASE", "STATE", "TIME", "TOKENS", "RUNS", "MAIL", "LAST RUN, OR TASK"];
    let mut table = Table::new(&heading);
    let (leads, workers): (Vec<_>, Vec<_>) =
        agents.iter().partition(|agent| agent.role != Role::Worker);
    for lead in leads {
        table.row(row(lead, now_ms));
    }
    let phase_at = |phase: &str| PHASES.iter().position(|it| *it == phase).unwrap_or(PHASES.len());
    let mut sorted = workers;
    sorted.sort_by_key(|it| phase_at(&it.phase));
    for worker in sorted {
        table.row(row(worker, now_ms));
    }
    table
}

/// The agent's role, and its runtime if that is not the native one.
fn part(it: &AgentView) -> String {
    let part = match it.role {
        Role::Worker => &it.phase,
        Role::Peer => "peer",
        Role::Coordinator | Role::Lead => "lead",
    };
    if it.runtime == Runtime::Native {
        return part.to_owned();
    }
    let runtime = match it.runtime {
        // The lead of another machine's workers has no conversation here.
        Runtime::Bridged if it.host.is_empty() => "elsewhere".to_owned(),
        Runtime::Bridged => format!("on {}", line(&it.host)),
        Runtime::Native | Runtime::Claude | Runtime::External | Runtime::Terminal => {
            it.runtime.as_str().to_owned()
        }
    };
    if part.is_empty() { runtime } else { format!("{part}, {runtime}") }
}

fn row(it: &AgentView, now_ms: u64) -> [String; 8] {
    let elapsed = it.run_started_ms.map(|started| now_ms.saturating_sub(started));
    // An open run's usage is not yet in the sum of the ended runs.
    let open = it.activity.as_ref().filter(|_| it.run_started_ms.is_some());
    let known = it.runtime != Runtime::External;
    let tokens = it.usage.total_tokens() + open.map_or(0, |it| it.usage.total_tokens());
    [
        it.name.clone(),
        part(it),
        words::doing(it),
        elapsed.map(format::duration).unwrap_or_default(),
        if known { format::tokens(tokens) } else { "unknown".to_owned() },
        if known { it.runs.to_string() } else { "-".to_owned() },
        it.mail.to_string(),
        words::last_of(it),
    ]
}

#[cfg(test)]
mod tests {
    use proto::notification::RunStatus;
    use proto::view::LastRun;

    use super::*;
    use crate::live::roster::tests::agent;

    /// W-13: a status says of each agent whether its commands are boxed, and why not.
    #[test]
    fn w13_status_says_who_is_boxed() {
        let with = |name: &str, sandbox: &str| {
            let mut it = agent(name, name, Role::Worker, AgentState::Running);
            it.activity = Some(proto::agent::Activity {
                doing: "thinking".into(),
                turns: 1,
                usage: proto::notification::Usage::default(),
                sandbox: sandbox.into(),
            });
            it
        };
        let mut claude = with("c", "");
        claude.runtime = Runtime::Claude;
        let agents = [
            with("a", "boxed"),
            with("b", "not boxed: x"),
            claude,
            with("d", "boxed"),
            with("e", ""),
        ];
        let text = boxes(&agents);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[1], lines[3]), ("a, d: boxed", "b: not boxed: x"));
        assert!(
            lines[2].starts_with("c: not boxed: the program asks") && lines.len() == 4,
            "{text}"
        );
    }

    #[test]
    fn w11_agents_are_grouped_by_phase_with_the_lead_first() {
        let lead = agent("a0", "lead", Role::Coordinator, AgentState::Idle);
        let mut check = agent("a1", "check", Role::Worker, AgentState::Running);
        check.phase = "verification".into();
        let mut look = agent("a2", "look", Role::Worker, AgentState::Stopped);
        look.runs = 1;
        look.last = Some(LastRun {
            status: RunStatus::Failed,
            class: Some(proto::notification::FailureClass::Fatal),
            reason: "401".into(),
            result: String::new(),
            ended_ms: 0,
            thin: false,
        });
        check.runtime = Runtime::Claude;
        let text = agent_table(&[check, lead, look], 13_000).render(None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "lead   lead                  idle           0       0     0");
        assert_eq!(
            lines[2],
            "look   research              stopped        0       1     0     failed (fatal): 401"
        );
        assert_eq!(lines[3], "check  verification, claude  running  12s   0       0     0");
    }

    #[test]
    fn the_daemon_in_a_few_lines() {
        let it = DaemonView {
            version: "0.1.0".into(),
            pid: 7,
            started_ms: 0,
            socket: "/run/s".into(),
            state_dir: "/s".into(),
            sessions: 1,
            agents_running: 2,
            peers: 1,
            degraded: vec!["the disk is nearly full".into()],
            under_systemd: true,
        };
        assert_eq!(
            daemon_text(&it, 61_000),
            "coordd 0.1.0 (pid 7, under systemd), up 1m01s\nsocket /run/s\nstate  /s\n\
             1 session, 2 agents with a process, 1 connection\nwarning: the disk is nearly full\n"
        );
    }
}
