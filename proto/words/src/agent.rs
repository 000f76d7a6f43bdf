//! Agents, and how their runs end.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// What an agent may do to coordd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A lead that plans and delegates with orchestration tools alone.
    Coordinator,
    /// A lead with the full tools.
    Lead,
    /// Works on one task; cannot start or message others.
    Worker,
    /// A program of the user's that takes part: it writes to the others and reads what they write
    /// to it.
    Peer,
}

/// What drives an agent's turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// coordd's own loop of model and tools.
    #[default]
    Native,
    /// Claude Code, as a child of the agent process.
    Claude,
    /// A program of the user's that joined by itself (`join`). coordd
    /// does not start it, and knows nothing of its runs.
    External,
    /// Claude Code in a terminal, as a member of a team: in one of the user's own, or in one that
    /// coordd runs.
    Terminal,
    /// Whatever another machine runs it with (`host` of a new agent): a worker that
    /// runs there, or the lead, on another machine, of the workers that this one runs for it.
    Bridged,
}

impl Runtime {
    /// As on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Claude => "claude",
            Self::External => "external",
            Self::Terminal => "terminal",
            Self::Bridged => "bridged",
        }
    }
}

/// How a session's lead works (G-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The lead delegates everything.
    Coordinator,
    /// Agents without a type continue the lead's own context.
    Fork,
    /// The lead works itself and may delegate.
    Normal,
}

impl Mode {
    /// As on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Fork => "fork",
            Self::Normal => "normal",
        }
    }
}

/// How a run ended; written to disk by the agent process before it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// How the run ended.
    pub status: RunStatus,
    /// For failures: what to do about it.
    #[serde(default)]
    pub class: Option<FailureClass>,
    /// For people: why it did not complete.
    #[serde(default)]
    pub reason: String,
    /// The worker's last words; what there is, when it was cut off (W-9).
    #[serde(default)]
    pub result: String,
    /// What the run used.
    #[serde(default)]
    pub usage: Usage,
}

impl RunOutcome {
    /// One without a result, of a run that used nothing that is known.
    pub fn silent(status: RunStatus, class: Option<FailureClass>, reason: String) -> Self {
        Self { status, class, reason, result: String::new(), usage: Usage::default() }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The worker said that it is done.
    Completed,
    /// It could not go on; the summary says why and of which class.
    Failed,
    /// It was stopped.
    Killed,
}

impl RunStatus {
    /// The word inside `<status>`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

/// What to do about a failure (W-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Trying the same again later may work.
    Retryable,
    /// Trying the same again will not; a smaller or different task may.
    Adjust,
    /// Needs a person.
    Fatal,
}

impl FailureClass {
    /// The word in a summary.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Adjust => "adjust",
            Self::Fatal => "fatal",
        }
    }
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read by the model that were not in its cache.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens written by the model.
    #[serde(default)]
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Tokens written to the prompt cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Tool calls made.
    #[serde(default)]
    pub tool_uses: u64,
    /// Time from prompt to end, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// Cost in millionths of a US dollar, as the program that asked the model estimates it; 0 where
    /// none does.
    #[serde(default)]
    pub cost_micro_usd: u64,
}

impl Usage {
    /// All tokens, cached ones included.
    pub fn total_tokens(&self) -> u64 {
        [self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens]
            .iter()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Adds another run's use.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.tool_uses = self.tool_uses.saturating_add(other.tool_uses);
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
    }
}

impl Usage {
    /// Whether it tells of nothing but cost.
    pub fn is_cost_alone(&self) -> bool {
        let rest = Self { cost_micro_usd: 0, ..*self };
        self.cost_micro_usd > 0 && rest == Self::default()
    }
}
