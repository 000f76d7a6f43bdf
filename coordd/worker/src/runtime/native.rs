//! The loop of model and tools.
//!
//! ```text
//!   Asks --mail in--> model --> Answered --mail?--> Asks
//!                        \        \--none--> the run is completed
//!                         \--> CallsOpen --tool round--> Asks
//!   a limit --> one last call for the report --> failed, with what there is (W-9)
//! ```
//!
//! Each step follows from where the conversation stands, so that a restarted process goes on in the middle of a run. It
//! must not report the end of a run; it says how it ended.

use std::time::Duration;

use proto::entry::What;
use proto::json::Json;
use proto::notification::{FailureClass, Usage};
use tokio::time::{Instant, sleep_until};

use super::clock::{Before, RunClock};
use super::kit::Kit;
use super::{Agent, class_of, round, system_input};
use crate::conversation::Standing;
use crate::framing::{self, GO_ON, Moment, RESTARTED};
use crate::model::{Answer, Block, Delta, ModelError, Request, Stop, ToolChoice};
use crate::outcome::Shortfall;
use crate::transcript::TranscriptError;

/// Longest answer of the model. Every model on offer allows as much; a longer file is written in pieces.
const OUTPUT_TOKENS_MAX: u32 = 16_000;
/// For models that are too small to call a tool by themselves: a tool's name, or `any`.
const FIRST_TOOL_VARIABLE: &str = "COORDD_FIRST_TOOL";
/// How long the last call, which writes the report, may take after the time is up.
const REPORT_MAX: Duration = Duration::from_mins(1);
/// Model calls after a request to end: to bring a file into a sound state, and to report.
const SHUTDOWN_TURNS: u32 = 3;
/// Answers in a row that may break off.
const CUT_OFFS_MAX: u32 = 2;

/// How a run ended.
#[derive(Debug)]
pub(super) struct End {
    /// None: it completed.
    pub(super) shortfall: Option<Shortfall>,
    /// The model could still write a report.
    pub(super) reported: bool,
    pub(super) lasted_ms: u64,
}

/// What keeps a run from going on.
#[derive(Debug)]
pub(super) enum Halt {
    /// It cannot go on.
    Short(Shortfall),
    /// The process ends and the run does not.
    Left,
    /// It may not; the limit in words.
    Limit { limit: String, reason: &'static str },
}

impl From<TranscriptError> for Halt {
    fn from(error: TranscriptError) -> Self {
        Self::Short(shortfall_of(&error))
    }
}

impl End {
    /// The end of a run that could not begin.
    pub(super) fn at_once(error: &TranscriptError) -> Self {
        Self { shortfall: Some(shortfall_of(error)), reported: false, lasted_ms: 0 }
    }
}

fn shortfall_of(error: &TranscriptError) -> Shortfall {
    let mut reason = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        reason.push_str(": ");
        reason.push_str(&cause.to_string());
    }
    Shortfall::failed(FailureClass::Fatal, reason)
}

/// A run while it lasts.
pub(super) struct Run<'a> {
    pub(super) agent: &'a mut Agent,
    pub(super) number: u32,
    pub(super) clock: RunClock,
    /// Whether the open calls were made in this process: then none of them has begun.
    pub(super) calls_are_ours: bool,
    cut_offs: u32,
    /// The model is to be told that its answer was cut off, after the results.
    go_on_due: bool,
    /// Model calls left after a request to end.
    turns_left: Option<u32>,
}

/// Runs until the run ends. None when the process is to end and the run goes on in the next one.
pub(super) async fn run(agent: &mut Agent, number: u32) -> Option<End> {
    let so_far = agent.memory.conversation().so_far();
    let before = if so_far.run == number {
        Before { passed_ms: agent.memory.run_age_ms(), worked_ms: so_far.lasted_ms }
    } else {
        Before::default()
    };
    let clock = RunClock::new(before, agent.boot.limits.run_ms);
    let shutdown = std::mem::take(&mut agent.shutdown_asked);
    let mut run = Run {
        agent,
        number,
        clock,
        calls_are_ours: false,
        cut_offs: 0,
        go_on_due: false,
        turns_left: shutdown.then_some(SHUTDOWN_TURNS),
    };
    let (shortfall, reported) = match run.go_on().await {
        Ok(()) => (None, false),
        Err(Halt::Short(shortfall)) => (Some(shortfall), false),
        Err(Halt::Left) => return None,
        Err(Halt::Limit { limit, reason }) => run.write_report(&limit, reason).await,
    };
    Some(End { shortfall, reported, lasted_ms: run.clock.elapsed_ms() })
}

/// How asking the model went.
enum Asked {
    Answered(Result<Answer, ModelError>),
    /// The run is to end, or its time is up. What had arrived of the answer.
    Halted(String),
}

impl Run<'_> {
    async fn go_on(&mut self) -> Result<(), Halt> {
        self.agent.approvals.check().map_err(Halt::Short)?;
        let kit = self.agent.kit().await.map_err(Halt::Short)?;
        if let Some(notice) = self.agent.memory.take_notice() {
            self.tell_once_possible(notice)?;
        }
        loop {
            self.check_control()?;
            match self.agent.memory.conversation().standing() {
                Standing::CallsOpen => {
                    round::run(self, &kit).await?;
                    if std::mem::take(&mut self.go_on_due) {
                        self.tell(GO_ON.to_owned())?;
                    }
                }
                Standing::Answered => {
                    // Mail that came meanwhile is not left for another run (A8).
                    if self.turns_left.is_some() || self.take_mail()? == 0 {
                        return Ok(());
                    }
                }
                Standing::AnswerBroken if self.limit_reached().is_none() => {
                    self.tell(RESTARTED.to_owned())?;
                }
                Standing::Asks | Standing::AnswerBroken => {
                    if self.turns_left == Some(0) {
                        return Ok(());
                    }
                    self.take_mail()?;
                    if let Some(halt) = self.limit_reached() {
                        return Err(halt);
                    }
                    self.check_cwd()?;
                    self.ask(&kit).await?;
                }
            }
        }
    }

    fn tell(&mut self, text: String) -> Result<(), Halt> {
        self.agent.memory.record(self.number, vec![system_input(text)])?;
        Ok(self.agent.memory.sync()?)
    }

    /// Open calls get their results before anything else is said.
    fn tell_once_possible(&mut self, text: String) -> Result<(), Halt> {
        if self.agent.memory.conversation().standing() != Standing::CallsOpen {
            return self.tell(text);
        }
        tracing::warn!("the model is not told of the damage, since calls are open");
        Ok(())
    }

    fn take_mail(&mut self) -> Result<usize, Halt> {
        let entered = self.agent.take_in(self.number, Moment::Midway)?;
        if entered.shutdown {
            self.turns_left.get_or_insert(SHUTDOWN_TURNS);
        }
        Ok(entered.messages)
    }

    pub(super) fn check_control(&self) -> Result<(), Halt> {
        let control = self.agent.orders.control();
        if control.keep_run {
            return Err(Halt::Left);
        }
        let reason = match control.stop {
            Some(reason) if reason.is_empty() => "stopped".to_owned(),
            Some(reason) => reason,
            None if control.interrupt => "interrupted by the user".to_owned(),
            None => return Ok(()),
        };
        Err(Halt::Short(Shortfall::killed(reason)))
    }

    fn check_cwd(&self) -> Result<(), Halt> {
        let cwd = &self.agent.boot.cwd;
        if std::path::Path::new(cwd).is_dir() {
            return Ok(());
        }
        let reason = format!(
            "working directory {cwd} no longer exists: make it again, or start a new session elsewhere"
        );
        Err(Halt::Short(Shortfall::failed(FailureClass::Fatal, reason)))
    }

    fn limit_reached(&self) -> Option<Halt> {
        let limits = self.agent.boot.limits;
        let so_far = self.agent.memory.conversation().so_far();
        if limits.turns > 0 && so_far.turns >= limits.turns {
            let limit = format!("{} turns", limits.turns);
            return Some(Halt::Limit { limit, reason: "out of turns" });
        }
        if self.clock.is_up() {
            let limit = time_words(limits.run_ms);
            return Some(Halt::Limit { limit, reason: "out of time" });
        }
        if limits.tokens > 0 && so_far.usage.total_tokens() >= limits.tokens {
            let limit = format!("{} tokens", limits.tokens);
            return Some(Halt::Limit { limit, reason: "out of tokens" });
        }
        None
    }

    /// One model call, recorded.
    async fn ask(&mut self, kit: &Kit) -> Result<(), Halt> {
        self.turns_left = self.turns_left.map(|it| it.saturating_sub(1));
        let began = Instant::now();
        let answer = match self.answer(kit, self.clock.deadline()).await? {
            Asked::Answered(Ok(answer)) => answer,
            Asked::Answered(Err(error)) => {
                return Err(Halt::Short(Shortfall::failed(class_of(&error), error.chain())));
            }
            Asked::Halted(partial) => {
                // What the model had said belongs to the conversation.
                if !partial.trim().is_empty() {
                    let what = vec![What::Text { text: partial }];
                    self.agent.memory.record(self.number, what)?;
                }
                return Ok(());
            }
        };
        let stop = answer.stop;
        let mut what = self.entries(answer, began, true);
        let calls = what.iter().any(|it| matches!(it, What::ToolCall { .. }));
        let cut_off = matches!(stop, Stop::CutOff | Stop::OutputLimit);
        self.cut_offs = if cut_off { self.cut_offs + 1 } else { 0 };
        self.go_on_due = cut_off && calls;
        if cut_off && !calls && self.cut_offs < CUT_OFFS_MAX {
            what.push(system_input(GO_ON.to_owned()));
        }
        self.calls_are_ours = true;
        self.agent.memory.record(self.number, what)?;
        self.agent.memory.sync()?;
        if stop == Stop::Refusal {
            let reason = "the model or its provider declined to answer: change the task";
            return Err(Halt::Short(Shortfall::failed(FailureClass::Fatal, reason)));
        }
        if self.cut_offs >= CUT_OFFS_MAX {
            let reason = format!("{CUT_OFFS_MAX} answers of the model in a row were cut off");
            return Err(Halt::Short(Shortfall::failed(FailureClass::Retryable, reason)));
        }
        Ok(())
    }

    /// Asks and waits, but not beyond a stop or the deadline.
    async fn answer(&mut self, kit: &Kit, deadline: Option<Instant>) -> Result<Asked, Halt> {
        let client = match self.agent.client() {
            Ok(client) => client,
            Err(error) => return Ok(Asked::Answered(Err(error))),
        };
        let agent = &*self.agent;
        let context = kit.user_context(&agent.boot);
        let request = Request {
            system: kit.system.clone(),
            turns: agent.memory.conversation().turns(context.as_deref()),
            tools: kit.specs.clone(),
            tool_choice: self.tool_choice(kit),
            max_output_tokens: OUTPUT_TOKENS_MAX,
        };
        let clock = &self.clock;
        agent.activity("thinking", clock.elapsed_ms());
        let (mut partial, mut waited) = (String::new(), false);
        let mut on_delta = |delta: Delta<'_>| match delta {
            Delta::Text(text) => {
                if std::mem::take(&mut waited) {
                    agent.activity("thinking", clock.elapsed_ms());
                }
                partial.push_str(text);
                agent.link.delta(text);
            }
            Delta::ToolStarted { .. } => {}
            Delta::Waiting { for_ms, why } => {
                waited = true;
                partial.clear();
                let doing = format!("waiting {}: {why}", time_words(for_ms));
                agent.activity(&doing, clock.elapsed_ms());
            }
        };
        let answer = tokio::select! {
            biased;
            () = agent.orders.run_ends() => None,
            () = until(deadline) => None,
            answer = client.answer(&request, &mut on_delta) => Some(answer),
        };
        Ok(answer.map_or_else(|| Asked::Halted(std::mem::take(&mut partial)), Asked::Answered))
    }

    /// What the first answer of a run must call, where the environment says so.
    fn tool_choice(&self, kit: &Kit) -> ToolChoice {
        let wanted = self.agent.boot.env.get(FIRST_TOOL_VARIABLE).map_or("", String::as_str);
        if self.agent.memory.conversation().so_far().turns > 0 {
            ToolChoice::Auto
        } else if wanted == "any" {
            ToolChoice::Any
        } else if kit.specs.iter().any(|it| it.name == wanted) {
            ToolChoice::Tool(wanted.to_owned())
        } else {
            ToolChoice::Auto
        }
    }

    /// The entries of an answer, with the mark that it is whole.
    fn entries(&self, answer: Answer, began: Instant, with_calls: bool) -> Vec<What> {
        let (mut what, mut ids) = (Vec::new(), Vec::new());
        for block in answer.blocks {
            match block {
                Block::Text { text } if text.trim().is_empty() => {}
                Block::Text { text } => what.push(What::Text { text }),
                Block::ToolUse { id, name, input } if with_calls => {
                    let call = self.agent.memory.conversation().fresh_call_id(&id, &ids);
                    ids.push(call.clone());
                    what.push(What::ToolCall { call, tool: name, input: Json(input) });
                }
                Block::ToolUse { .. } | Block::ToolResult { .. } => {}
            }
        }
        let usage = Usage {
            input_tokens: answer.usage.input,
            output_tokens: answer.usage.output,
            cache_read_tokens: answer.usage.cache_read,
            cache_write_tokens: answer.usage.cache_write,
            tool_uses: ids.len() as u64,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        what.push(What::Turn { usage });
        what
    }

    /// The last model call of a run that reached a limit: its report. No tool runs any more.
    async fn write_report(
        &mut self,
        limit: &str,
        reason: &'static str,
    ) -> (Option<Shortfall>, bool) {
        let shortfall = Shortfall::failed(FailureClass::Adjust, format!("{reason} ({limit})"));
        match self.last_words(limit).await {
            Ok(reported) => (Some(shortfall), reported),
            Err(Halt::Short(stopped)) if stopped.class.is_none() => (Some(stopped), false),
            Err(halt) => {
                tracing::warn!(?halt, "no report could be written");
                (Some(shortfall), false)
            }
        }
    }

    async fn last_words(&mut self, limit: &str) -> Result<bool, Halt> {
        self.tell(framing::out_of(limit))?;
        let kit = self.agent.kit().await.map_err(Halt::Short)?;
        let began = Instant::now();
        let deadline = began.checked_add(REPORT_MAX);
        let answer = match self.answer(&kit, deadline).await? {
            Asked::Answered(Ok(answer)) => answer,
            Asked::Answered(Err(error)) => {
                tracing::warn!(error = error.chain(), "no report could be written");
                return Ok(false);
            }
            Asked::Halted(_) => {
                self.check_control()?;
                return Ok(false);
            }
        };
        let what = self.entries(answer, began, false);
        let reported = what.iter().any(|it| matches!(it, What::Text { .. }));
        self.agent.memory.record(self.number, what)?;
        self.agent.memory.sync()?;
        Ok(reported)
    }
}

/// Waits for the moment, or for ever.
pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn time_words(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        10_000..120_000 => format!("{} s", ms / 1_000),
        _ => format!("{} minutes", ms / 60_000),
    }
}
