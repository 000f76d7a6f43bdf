//! Questions in a view of lines: one is drawn at a time, the others wait, and what others have answered is said.

use proto::view::PermissionView;

use super::view::View;
use crate::push;
use crate::question::card::{self, Answered, Look};
use crate::terminal::{Paint, line};

impl View {
    /// Takes over the open questions, and says those that are new.
    pub(crate) fn ask(&mut self, questions: Vec<PermissionView>, now_ms: u64) -> String {
        let ours = questions.into_iter().filter(|it| self.is_asked_here(it)).collect();
        let new = self.desk.replace(ours);
        let text = if self.answers {
            self.draw_next(now_ms)
        } else {
            new.iter().map(|it| self.card(it, now_ms, false)).collect()
        };
        self.interrupting(text)
    }

    /// A question whole, as `/show` wants it; it is then the one that is answered.
    pub(crate) fn show(&mut self, id: Option<&str>, now_ms: u64) -> Option<String> {
        let id = id.map(str::to_owned).or_else(|| Some(self.desk.drawn()?.id.clone()))?;
        let question = self.desk.draw(&id, now_ms)?;
        let text = self.card(&question, now_ms, true);
        Some(self.interrupting(text))
    }

    /// A question of ours is answered: what is next.
    pub(crate) fn answered(&mut self, id: &str, now_ms: u64) -> String {
        self.desk.remove(id);
        let text = self.draw_next(now_ms);
        self.interrupting(text)
    }

    /// Where one agent is shown, only its own questions are (fA2).
    fn is_asked_here(&self, it: &PermissionView) -> bool {
        self.agent.is_empty() || line(&it.agent) == self.roster.name(&self.agent)
    }

    pub(super) fn asked(&mut self, it: &PermissionView, now_ms: u64) -> String {
        if !self.is_asked_here(it) || !self.desk.put(it.clone()) {
            return String::new();
        }
        if !self.answers {
            return self.card(it, now_ms, false);
        }
        let drawn = self.desk.drawn().map(|drawn| line(&drawn.id));
        match drawn {
            None => self.draw_next(now_ms),
            // What is drawn stays drawn: nobody's answer changes its meaning while it is typed.
            Some(drawn) => {
                let (id, agent) = (line(&it.id), line(&it.agent));
                let call = card::short(&it.question);
                let text = format!("{id} waits: {agent} asks: {call} ({drawn} is answered first)");
                self.aside(Paint::Faint, &text)
            }
        }
    }

    pub(super) fn answered_elsewhere(
        &mut self,
        id: &str,
        allowed: bool,
        rule: &str,
        with: &str,
        now_ms: u64,
    ) -> String {
        // One that was answered from here has been told.
        let Some(question) = self.desk.remove(id) else { return String::new() };
        let word = if allowed { "allowed" } else { "denied" };
        let mut text = format!("{} {word}", line(id));
        let call = card::short(&question.question);
        if with.is_empty() {
            push!(text, ", not from here: {}: {call}", line(&question.agent));
        } else {
            push!(text, " with {}: {}: {call}", line(with), line(&question.agent));
        }
        if !rule.is_empty() {
            push!(text, " (by the rule {})", card::one_line(rule));
        }
        let mut text = self.aside(Paint::Faint, &text);
        text.push_str(&self.draw_next(now_ms));
        text
    }

    /// The next question, where none is drawn.
    fn draw_next(&mut self, now_ms: u64) -> String {
        if !self.answers {
            return String::new();
        }
        match self.desk.draw_next(now_ms) {
            Some(next) => self.card(&next, now_ms, false),
            None => String::new(),
        }
    }

    fn card(&self, it: &PermissionView, now_ms: u64, whole: bool) -> String {
        let answered = if self.answers {
            Answered::Here { others: self.desk.open().len().saturating_sub(1) }
        } else {
            Answered::Elsewhere
        };
        card::draw(it, Look { style: self.style, now_ms, whole, answered })
    }
}
