//! Events of one session as lines. Pure: text goes in and out, and nothing is written here.

use std::collections::BTreeMap;

use proto::entry::{Entry, Origin, What};
use proto::event::{Event, Numbered};
use proto::notification::Notification;
use proto::view::{AgentState, SessionView};

use super::flow::Flow;
use super::roster::Roster;
use super::transcript::{self, Detail};
use crate::question::card;
use crate::question::desk::Desk;
use crate::terminal::{Filter, Paint, Style, clean, line};
use crate::{format, push, words};

/// What is kept to show a session.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) roster: Roster,
    /// The open questions, and which of them is drawn.
    pub(crate) desk: Desk,
    pub(super) style: Style,
    /// Whether the user answers questions here.
    pub(crate) answers: bool,
    /// Whether answers are shown while they are written.
    streams: bool,
    session: String,
    lead: String,
    /// The one agent that is shown; empty for the lead among its workers.
    pub(super) agent: String,
    /// The last entry shown of each agent, so that none is shown twice.
    seen: BTreeMap<String, u64>,
    /// Ends of runs that were shown before they came into the lead's conversation.
    told: BTreeMap<String, u32>,
    open: Option<Open>,
}

/// Questions that a reminder lists.
const REMINDED_MAX: usize = 5;

/// How long lines about other agents wait for the end of an answer that is being written.
const HOLD_MS: u64 = 2_000;

/// An answer that is being written.
#[derive(Debug)]
struct Open {
    agent: String,
    who: String,
    filter: Filter,
    flow: Flow,
    /// Lines about others that came meanwhile, and since when they wait.
    held: String,
    held_ms: u64,
    /// All of it so far, as it came.
    text: String,
    /// Whether the current line holds no part of the answer: it has just begun, or other text was
    /// printed since.
    is_broken: bool,
}

impl Open {
    /// The last word, the end of the line, and what has waited for it.
    fn end(mut self, style: Style) -> String {
        let mut out = self.flow.finish();
        if self.is_broken {
            if out.is_empty() {
                return self.held;
            }
            out.insert_str(0, &transcript::mark(&self.who, Paint::Who, style));
        }
        out.push('\n');
        out + &self.held
    }
}

impl View {
    pub(crate) fn new(style: Style, streams: bool, session: &SessionView, agent: &str) -> Self {
        Self {
            answers: false,
            roster: Roster::default(),
            desk: Desk::default(),
            style,
            streams,
            session: line(&session.name),
            lead: session.lead.clone(),
            agent: agent.to_owned(),
            seen: BTreeMap::new(),
            told: BTreeMap::new(),
            open: None,
        }
    }

    /// What an event adds to the view.
    pub(crate) fn event(&mut self, numbered: &Numbered, now_ms: u64) -> String {
        if let Event::Delta { agent, text } = &numbered.event {
            let before = self.release(now_ms);
            return before + &self.delta(agent, text);
        }
        if let Event::Entry { agent, name, entry } = &numbered.event {
            return self.entry(agent, name, entry);
        }
        let text = self.other(&numbered.event, now_ms);
        if self.can_wait(&numbered.event) {
            self.hold(&text, now_ms)
        } else {
            self.interrupting(text)
        }
    }

    /// Takes over how wide the terminal is now.
    pub(crate) fn fit(&mut self, columns: Option<usize>) {
        self.style = self.style.with_columns(columns);
    }

    /// Whether what an event tells may wait for the end of an open answer: it is about somebody
    /// else, and asks nothing.
    fn can_wait(&self, event: &Event) -> bool {
        let about = if let Event::Activity { agent, .. } | Event::AgentChanged { agent, .. } = event
        {
            agent
        } else if let Event::AgentCreated { agent } = event {
            &agent.id
        } else if let Event::RunEnded { notification, .. } = event {
            &notification.task_id
        } else {
            return false;
        };
        self.open.as_ref().is_some_and(|open| *about != open.agent)
    }

    fn hold(&mut self, text: &str, now_ms: u64) -> String {
        match &mut self.open {
            Some(open) if !open.is_broken && !text.is_empty() => {
                if open.held.is_empty() {
                    open.held_ms = now_ms;
                }
                open.held.push_str(text);
                self.release(now_ms)
            }
            Some(_) | None => text.to_owned(),
        }
    }

    /// What has waited for too long.
    fn release(&mut self, now_ms: u64) -> String {
        let is_late = |it: &Open| now_ms.saturating_sub(it.held_ms) >= HOLD_MS;
        let held = self.open.as_ref().is_some_and(|it| !it.held.is_empty() && is_late(it));
        if held { self.break_off(String::new()) } else { String::new() }
    }

    /// Who is still at work, when nothing has been heard for a while.
    pub(crate) fn reminder(&mut self, now_ms: u64) -> String {
        let mut text = self.roster.working(now_ms, self.style);
        for question in self.desk.open().iter().take(REMINDED_MAX) {
            let call = card::short(&question.question);
            let ago = format::ago(now_ms, question.asked_ms);
            let said =
                format!("? {}  {} asked {ago}: {call}", line(&question.id), line(&question.agent));
            push!(text, "{}\n", self.style.paint(Paint::Warn, &said));
        }
        self.interrupting(text)
    }

    /// Everyone, for `/status`.
    pub(crate) fn status(&self, now_ms: u64) -> String {
        self.roster.all(now_ms, self.style)
    }

    fn other(&mut self, event: &Event, now_ms: u64) -> String {
        match event {
            Event::AgentCreated { agent } => {
                self.roster.put(agent);
                self.roster.news(&agent.id, now_ms, self.style)
            }
            Event::AgentChanged { agent, state, reason, name } => {
                self.roster.changed(agent, *state, now_ms);
                let mut text = self.roster.news(agent, now_ms, self.style);
                if !reason.is_empty() {
                    text.push_str(
                        &self.aside(Paint::Faint, &format!("{}: {}", line(name), line(reason))),
                    );
                }
                text
            }
            Event::Activity { agent, activity, .. } => {
                self.roster.activity(agent, activity, now_ms);
                self.roster.news(agent, now_ms, self.style)
            }
            Event::RunEnded { name, notification, thin } => {
                self.run_ended(name, notification, *thin)
            }
            Event::PermissionAsked { permission } => self.asked(permission, now_ms),
            Event::PermissionAnswered { id, allowed, rule, with, .. } => {
                self.answered_elsewhere(id, *allowed, rule, with, now_ms)
            }
            Event::SessionChanged { state } => {
                let state = words::session_state(*state);
                self.aside(Paint::Warn, &format!("the session is {state}"))
            }
            Event::ModeSwitched { from, to } => self.aside(
                Paint::Warn,
                &format!(
                    "the environment asks for {} mode; this session keeps its own, {}",
                    words::mode(*from),
                    words::mode(*to)
                ),
            ),
            Event::Warning { text } => self.aside(Paint::Warn, &format!("warning: {}", line(text))),
            Event::Gap { missed } => {
                let missed = missed.map_or_else(|| "some".to_owned(), |n| n.to_string());
                self.aside(Paint::Warn, &format!("{missed} events were left out here"))
            }
            Event::TeamChanged { .. }
            | Event::TeamDeleted { .. }
            | Event::TaskChanged { .. }
            | Event::MessageChanged { .. }
            | Event::Output { .. }
            | Event::SessionCreated { .. }
            | Event::SessionRemoved {}
            | Event::CaughtUp {}
            | Event::SettingsChanged { .. }
            | Event::Screen { .. }
            | Event::Entry { .. }
            | Event::Delta { .. } => String::new(),
        }
    }

    fn run_ended(&mut self, name: &str, it: &Notification, thin: bool) -> String {
        if self.roster.is_lead(&it.task_id) || it.task_id == self.lead {
            self.roster.changed(&it.task_id, AgentState::Idle, 0);
            return String::new();
        }
        self.roster.changed(&it.task_id, AgentState::Stopped, 0);
        if !self.agent.is_empty() {
            return String::new();
        }
        *self.told.entry(it.task_id.clone()).or_default() += 1;
        transcript::notification(name, it, thin, self.style)
    }

    pub(super) fn aside(&self, paint: Paint, text: &str) -> String {
        let text = Flow::new("  ", 2, self.style.columns).whole(text);
        format!("  {}\n", self.style.paint(paint, &text))
    }

    fn is_shown(&self, agent: &str, name: &str) -> bool {
        if self.agent.is_empty() {
            agent == self.lead || self.roster.is_lead(agent)
        } else {
            agent == self.agent || name == self.agent
        }
    }

    fn entry(&mut self, agent: &str, name: &str, entry: &Entry) -> String {
        let last = self.seen.entry(agent.to_owned()).or_default();
        if entry.seq <= *last {
            return String::new();
        }
        *last = entry.seq;
        if !self.is_shown(agent, name) {
            return String::new();
        }
        if let What::Text { text } = &entry.what
            && let Some(open) = self.open.take_if(|open| open.text == *text)
        {
            // The answer was shown while it was written, except for its last word.
            return open.end(self.style);
        }
        if let What::Input { origin: Origin::Notification { notification }, .. } = &entry.what
            && let Some(count) =
                self.told.get_mut(&notification.task_id).filter(|count| **count > 0)
        {
            *count -= 1;
            return String::new();
        }
        let detail = if self.agent.is_empty() { Detail::Talk } else { Detail::Full };
        let name_of = |id: &str| self.roster.name(id);
        let text = transcript::entry(entry, name, detail, self.style, &name_of);
        let text = self.interrupting(text);
        if matches!(entry.what, What::Text { .. }) {
            self.open = None;
        }
        text
    }

    fn delta(&mut self, agent: &str, piece: &str) -> String {
        let name = self.roster.name(agent);
        if !self.streams || piece.is_empty() || !self.is_shown(agent, &name) {
            return String::new();
        }
        let style = self.style;
        let mut out = String::new();
        let open = self.open.get_or_insert_with(|| Open {
            agent: agent.to_owned(),
            who: name.clone(),
            filter: Filter::default(),
            flow: transcript::flow(&name, style),
            held: String::new(),
            held_ms: 0,
            text: String::new(),
            is_broken: true,
        });
        open.text.push_str(piece);
        let piece = open.filter.feed(piece);
        let shown = open.flow.feed(&piece);
        if !shown.is_empty() && std::mem::take(&mut open.is_broken) {
            out = transcript::mark(&open.who, Paint::Who, style);
        }
        out.push_str(&shown);
        out
    }

    /// Ends the line of an answer that is being written, before something else is said.
    pub(super) fn interrupting(&mut self, text: String) -> String {
        if text.is_empty() { text } else { self.break_off(text) }
    }

    fn break_off(&mut self, text: String) -> String {
        match &mut self.open {
            Some(open) if !open.is_broken => {
                open.is_broken = true;
                open.flow.resume();
                format!("\n{}{text}", std::mem::take(&mut open.held))
            }
            Some(_) | None => text,
        }
    }

    /// The head of an attached session.
    pub(crate) fn heading(&self, session: &SessionView) -> String {
        let name = self.style.paint(Paint::Strong, &self.session);
        let mut text = format!(
            "session {name}  {} mode  {}  {}\n",
            words::mode(session.mode),
            words::runs_on(session),
            clean(&session.cwd).replace('\n', " ")
        );
        if let Some(path) = &session.scratchpad {
            text.push_str(&self.aside(Paint::Faint, &format!("scratchpad {}", line(path))));
        }
        text
    }
}

#[cfg(test)]
mod tests;
