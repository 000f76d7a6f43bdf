//! The agents of a session and what each of them does, kept up to date from events.

use std::collections::BTreeMap;

use proto::agent::{Activity, Role};
use proto::notification::Usage;
use proto::view::{AgentState, AgentView};

use crate::format;
use crate::terminal::{Paint, Style, line, width};
use crate::words;

/// The least time between two lines about one agent, unless its state changed.
const LINE_EVERY_MS: u64 = 100;
/// Columns of a name and of a phase, when they are no longer.
const NAME_WIDTH: usize = 16;
const PHASE_WIDTH: usize = 14;
/// Columns of what an agent does: `running Read and 1 more`.
const DOING_WIDTH: usize = 23;

#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// By id.
    rows: BTreeMap<String, Row>,
    /// Ids in the order of making.
    order: Vec<String>,
}

#[derive(Clone, Debug)]
struct Row {
    name: String,
    phase: String,
    is_lead: bool,
    state: AgentState,
    doing: String,
    started_ms: Option<u64>,
    usage: Usage,
    shown: Option<(AgentState, String)>,
    shown_ms: u64,
}

impl Roster {
    /// Takes over what the daemon says now.
    pub(crate) fn replace(&mut self, agents: &[AgentView]) {
        for agent in agents {
            self.put(agent);
        }
    }

    pub(crate) fn put(&mut self, agent: &AgentView) {
        let before = self.rows.get(&agent.id);
        let row = Row {
            name: line(&agent.name),
            phase: line(&agent.phase),
            is_lead: matches!(agent.role, Role::Coordinator | Role::Lead),
            state: agent.state,
            doing: agent
                .activity
                .as_ref()
                .map(|activity| line(&activity.doing))
                .unwrap_or_default(),
            started_ms: agent.run_started_ms,
            usage: agent.activity.as_ref().map_or(agent.usage, |activity| activity.usage),
            shown: before.and_then(|it| it.shown.clone()),
            shown_ms: before.map_or(0, |it| it.shown_ms),
        };
        if before.is_none() {
            self.order.push(agent.id.clone());
        }
        self.rows.insert(agent.id.clone(), row);
    }

    pub(crate) fn changed(&mut self, id: &str, state: AgentState, now_ms: u64) {
        if let Some(row) = self.rows.get_mut(id) {
            if words::is_busy(state) && !words::is_busy(row.state) {
                row.started_ms = Some(now_ms);
                row.usage = Usage::default();
                row.doing.clear();
            }
            if !words::is_busy(state) {
                row.started_ms = None;
            }
            if state == AgentState::Running {
                row.started_ms.get_or_insert(now_ms);
            }
            row.state = state;
        }
    }

    /// What an agent does tells its state too, sooner than the change of state is told.
    pub(crate) fn activity(&mut self, id: &str, activity: &Activity, now_ms: u64) {
        match self.rows.get(id).map(|row| (row.state, row.is_lead)) {
            Some((AgentState::Starting | AgentState::Waiting, _) | (AgentState::Idle, true))
                if activity.doing != "idle" =>
            {
                self.changed(id, AgentState::Running, now_ms);
            }
            Some((AgentState::Running, true)) if activity.doing == "idle" => {
                self.changed(id, AgentState::Idle, now_ms);
            }
            _ => {}
        }
        if let Some(row) = self.rows.get_mut(id) {
            // Before its first prompt a new worker is idle; that is not worth a line.
            row.doing =
                if activity.doing == "idle" { String::new() } else { line(&activity.doing) };
            row.usage = activity.usage;
        }
    }

    /// The name that goes with an id; the id itself for strangers.
    pub(crate) fn name(&self, id: &str) -> String {
        self.rows.get(id).map_or_else(|| line(id), |row| row.name.clone())
    }

    pub(crate) fn is_lead(&self, id: &str) -> bool {
        self.rows.get(id).is_some_and(|row| row.is_lead)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.rows.values().any(|row| words::is_busy(row.state))
    }

    pub(crate) fn lead_is_busy(&self) -> bool {
        self.rows.values().any(|row| row.is_lead && words::is_busy(row.state))
    }

    /// Names of workers that run, wait or stop.
    pub(crate) fn busy_workers(&self) -> Vec<String> {
        self.in_order()
            .filter(|row| !row.is_lead && words::is_busy(row.state))
            .map(|row| row.name.clone())
            .collect()
    }

    /// A worker's line, if something changed that is worth one.
    pub(crate) fn news(&mut self, id: &str, now_ms: u64, style: Style) -> String {
        let Some(row) = self.rows.get_mut(id).filter(|row| !row.is_lead && row.is_news(now_ms))
        else {
            return String::new();
        };
        row.shown = Some((row.state, row.doing.clone()));
        row.shown_ms = now_ms;
        row.render(now_ms, style)
    }

    /// A line for each worker that is at work.
    pub(crate) fn working(&self, now_ms: u64, style: Style) -> String {
        self.in_order()
            .filter(|row| !row.is_lead && words::is_busy(row.state))
            .map(|row| row.render(now_ms, style))
            .collect()
    }

    /// A line for everyone.
    pub(crate) fn all(&self, now_ms: u64, style: Style) -> String {
        self.in_order().map(|row| row.render(now_ms, style)).collect()
    }

    fn in_order(&self) -> impl Iterator<Item = &Row> {
        self.order.iter().filter_map(|id| self.rows.get(id))
    }
}

impl Row {
    /// Waiting and starting mostly last for moments (a reminder shows those that do not), and the
    /// end of a run has a line of its own.
    fn is_news(&self, now_ms: u64) -> bool {
        match self.state {
            AgentState::Idle
            | AgentState::Stopped
            | AgentState::Waiting
            | AgentState::Starting
            | AgentState::NeedsInput => {
                return false;
            }
            // Its start was shown already; its activity is news.
            AgentState::Running if self.doing.is_empty() || self.doing == "thinking" => {
                return false;
            }
            AgentState::Running | AgentState::Stopping => {}
        }
        match &self.shown {
            None => true,
            Some((state, _)) if *state != self.state => true,
            Some((_, doing)) => {
                self.doing != *doing && now_ms.saturating_sub(self.shown_ms) >= LINE_EVERY_MS
            }
        }
    }

    fn render(&self, now_ms: u64, style: Style) -> String {
        let (glyph, paint) = match self.state {
            AgentState::Running => ("●", Paint::Good),
            AgentState::NeedsInput => ("?", Paint::Warn),
            AgentState::Waiting | AgentState::Starting | AgentState::Stopping => ("◌", Paint::Warn),
            AgentState::Idle | AgentState::Stopped => ("○", Paint::Faint),
        };
        let is_told = self.state == AgentState::Running && !self.doing.is_empty();
        let doing = if is_told { self.doing.as_str() } else { words::agent_state(self.state) };
        let mut text = format!("{} {}  ", style.paint(paint, glyph), pad(&self.name, NAME_WIDTH));
        text.push_str(&style.paint(Paint::Faint, &pad(&self.phase, PHASE_WIDTH)));
        text.push_str("  ");
        let mut rest = vec![pad(doing, DOING_WIDTH)];
        if let Some(started_ms) = self.started_ms {
            rest.push(format!("{:>5}", format::duration(now_ms.saturating_sub(started_ms))));
        }
        let tokens = self.usage.total_tokens();
        if tokens > 0 {
            rest.push(format!("{:>5} tok", format::tokens(tokens)));
        }
        text.push_str(rest.join("  ").trim_end());
        text.push('\n');
        text
    }
}

fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn agent(id: &str, name: &str, role: Role, state: AgentState) -> AgentView {
        AgentView {
            id: id.into(),
            name: name.into(),
            session: "s".into(),
            role,
            runtime: proto::agent::Runtime::Native,
            host: String::new(),
            agent_type: "worker".into(),
            description: String::new(),
            phase: if role == Role::Worker { "research".into() } else { String::new() },
            state,
            runs: 0,
            pid: None,
            incarnation: 1,
            run_started_ms: words::is_busy(state).then_some(1_000),
            activity: None,
            usage: Usage::default(),
            last: None,
            mail: 0,
            screen: false,
            ended: None,
            transcript: String::new(),
        }
    }

    fn doing(doing: &str, tokens: u64) -> Activity {
        let usage = Usage { input_tokens: tokens, ..Usage::default() };
        Activity { doing: doing.into(), turns: 1, usage, sandbox: String::new() }
    }

    #[test]
    fn l3_a_line_tells_name_phase_activity_time_and_tokens() {
        let mut roster = Roster::default();
        roster.put(&agent("a1", "research-a", Role::Worker, AgentState::Running));
        roster.activity("a1", &doing("running Bash\u{1b}[2J", 3_200), 13_000);
        assert_eq!(
            roster.news("a1", 13_000, Style::default()),
            "● research-a        research        running Bash               12s   3.2k tok\n"
        );
    }

    #[test]
    fn l3_only_what_is_new_has_a_line() {
        let mut roster = Roster::default();
        let plain = Style::default();
        roster.put(&agent("a0", "lead", Role::Coordinator, AgentState::Running));
        roster.put(&agent("a1", "w", Role::Worker, AgentState::Running));
        assert!(roster.news("a0", 0, plain).is_empty(), "the lead speaks for itself");
        assert!(roster.news("a1", 1_000, plain).is_empty(), "its start has been told");
        roster.activity("a1", &doing("thinking", 1), 1_000);
        assert!(roster.news("a1", 1_000, plain).is_empty());
        roster.activity("a1", &doing("running Grep", 1), 1_000);
        assert!(!roster.news("a1", 1_000, plain).is_empty());
        assert!(roster.news("a1", 5_000, plain).is_empty());
        roster.activity("a1", &doing("running Read", 1), 5_000);
        assert!(roster.news("a1", 1_050, plain).is_empty(), "too soon");
        assert!(!roster.news("a1", 5_000, plain).is_empty());
        roster.changed("a1", AgentState::Stopping, 5_000);
        assert!(!roster.news("a1", 5_001, plain).is_empty());
        roster.changed("a1", AgentState::Stopped, 5_000);
        assert!(roster.news("a1", 9_000, plain).is_empty());
    }

    #[test]
    fn activity_tells_the_state_before_its_change_is_told() {
        let mut roster = Roster::default();
        roster.put(&agent("a0", "lead", Role::Coordinator, AgentState::Idle));
        roster.put(&agent("a1", "w", Role::Worker, AgentState::Starting));
        roster.activity("a1", &doing("running Read", 1), 2_000);
        assert!(!roster.news("a1", 2_000, Style::default()).is_empty());
        roster.activity("a0", &doing("thinking", 1), 2_000);
        assert!(roster.lead_is_busy());
        roster.activity("a0", &doing("idle", 1), 2_000);
        assert!(!roster.lead_is_busy());
        // What comes late changes nothing.
        roster.changed("a1", AgentState::Stopped, 3_000);
        roster.activity("a1", &doing("running Read", 1), 3_001);
        assert!(!roster.is_busy());
    }

    #[test]
    fn busy_is_who_works_or_waits() {
        let mut roster = Roster::default();
        roster.put(&agent("a0", "lead", Role::Coordinator, AgentState::Idle));
        roster.put(&agent("a1", "w", Role::Worker, AgentState::Waiting));
        assert!(roster.is_busy() && !roster.lead_is_busy());
        assert_eq!(roster.busy_workers(), ["w"]);
        roster.changed("a1", AgentState::Stopped, 0);
        assert!(!roster.is_busy());
    }
}
