//! A question to the user: may this tool run? (W-3)
//!
//! It is durable: it waits over restarts of the daemon and of the agent, and only a user answers it.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::state::Durable;
use crate::state::id::{AgentId, PermissionId, SessionId};
use crate::state::written;

/// A question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Permission {
    /// Its id.
    pub id: PermissionId,
    /// The session.
    pub session: SessionId,
    /// Who asks.
    pub agent: AgentId,
    /// What is asked.
    pub question: Question,
    /// When the question was asked.
    pub asked_ms: u64,
    /// The answer.
    #[serde(default)]
    pub answer: Option<Answer>,
}

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The tool.
    pub tool: String,
    /// Its input, as JSON text that means nothing here.
    pub input: String,
    /// Why it is asked.
    pub reason: String,
    /// A rule that would allow it; empty where none can.
    pub rule: String,
    /// What calls have in common that are about the same; empty where only all of the input tells.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What people are shown besides, as JSON text that means nothing here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shown: String,
}

impl Permission {
    /// The other open questions of the session that name the same rule: an *always* answers them too. None where no rule can.
    pub fn covers<'a>(&self, durable: &'a Durable) -> impl Iterator<Item = &'a Self> {
        let (id, session, rule) = (self.id, self.session.clone(), self.question.rule.clone());
        durable.permissions.values().filter(move |other| {
            other.answer.is_none()
                && other.id != id
                && other.session == session
                && !rule.is_empty()
                && other.question.rule == rule
        })
    }
}

impl Permission {
    /// What the user denied in this session that was the same or like it, the latest first.
    pub fn denied_before<'a>(&'a self, durable: &'a Durable) -> impl Iterator<Item = Denied<'a>> {
        durable.permissions.range(..self.id).rev().filter_map(|(_, question)| {
            let answer = question.answer.as_ref()?;
            let (asked, now) = (&question.question, &self.question);
            let same = asked.tool == now.tool
                && (asked.input == now.input
                    || (!now.about.is_empty() && asked.about == now.about));
            let alike = !now.rule.is_empty() && asked.rule == now.rule;
            let counts = !answer.allow && answer.by == By::User && question.session == self.session;
            (counts && (same || alike)).then_some(Denied { question, answer, same })
        })
    }
}

impl Question {
    /// What it takes on the disk, but for its frame.
    pub(crate) fn len(&self) -> usize {
        let texts = [&self.tool, &self.input, &self.reason, &self.rule, &self.about, &self.shown];
        texts.iter().map(|text| text.len()).sum()
    }
}

/// The user's answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the tool may run.
    pub allow: bool,
    /// What the agent is told when not.
    pub reason: String,
    /// The rule that holds from now on, or empty.
    pub rule: String,
    /// When the question was answered.
    pub at_ms: u64,
    /// The incarnation that asked and had ended, or was ending, when the answer came; 0 when it heard it.
    #[serde(default, skip_serializing_if = "written::is_default")]
    pub unheard_by: u32,
    /// What it was answered by.
    #[serde(default, skip_serializing_if = "written::is_default")]
    pub by: By,
}

/// What a question was answered by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The user answered this question.
    #[default]
    User,
    /// The user answered another one with *always*, whose rule this one names too.
    With(PermissionId),
    /// The end of the run, without the user.
    RunEnd,
}

/// An earlier question that the user denied.
#[derive(Clone, Copy, Debug)]
pub struct Denied<'a> {
    /// The question.
    pub question: &'a Permission,
    /// The answer.
    pub answer: &'a Answer,
    /// Whether it was about the same; else one rule would have allowed both.
    pub same: bool,
}
