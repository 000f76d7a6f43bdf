//! The loop of model and tools.
//!
//! ```text
//!   Asks --mail in--> model --> Answered --mail?--> Asks
//!                        \        \--none--> the run is completed
//!                         \--> CallsOpen --tool round--> Asks
//!   a limit --> one last call for the report --> failed, with what there is (W-9)
//! ```
//!
//! Each step follows from where the conversation stands, so that a restarted process goes on in the
//! middle of a run. It must not report the end of a run; it says how it ended.

use std::path::PathBuf;
use std::time::Duration;

use proto::entry::What;
use proto::notification::FailureClass;
use tokio::time::{Instant, sleep_until};

use super::ask::{Asked, time_words};
use super::clock::{Before, RunClock};
use super::halt::{End, Halt};
use super::kit::Kit;
use super::{Agent, class_of, round, system_input};
use crate::conversation::Standing;
use crate::framing::{self, GO_ON, Moment, RESTARTED};
use crate::model::{Answer, Stop};
use crate::outcome::Shortfall;
use crate::tools::paths;

/// How long the last call, which writes the report, may take after the time is up.
const REPORT_MAX: Duration = Duration::from_mins(1);
/// Model calls after a request to end: to bring a file into a sound state, and to report.
const SHUTDOWN_TURNS: u32 = 3;
/// Answers in a row that may reach a limit: the second one shows that the model cannot help it.
const LIMITS_MAX: u32 = 2;
/// Answers in a row that may break off, with waits in between that double.
const CUT_OFFS_MAX: u32 = 4;
/// The first of these waits.
const CUT_OFF_WAIT: Duration = Duration::from_secs(1);

/// A run while it lasts.
pub(super) struct Run<'a> {
    pub(super) agent: &'a mut Agent,
    pub(super) number: u32,
    pub(super) clock: RunClock,
    /// Whether the open calls were made in this process: then none of them has begun.
    pub(super) calls_are_ours: bool,
    /// Answers in a row that broke off, or reached a limit.
    cut_offs: u32,
    /// The last answer broke off, which is the server's doing.
    broke_off: bool,
    /// What the model is to be told after the results, since its answer was cut off.
    go_on_due: Option<String>,
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
        broke_off: false,
        go_on_due: None,
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

impl Run<'_> {
    async fn go_on(&mut self) -> Result<(), Halt> {
        self.agent.approvals.check().map_err(Halt::Short)?;
        let kit = self.agent.kit().await.map_err(Halt::Short)?;
        if let Some(notice) = self.agent.memory.take_notice() {
            self.tell_once_possible(notice)?;
        }
        loop {
            self.agent.check_control()?;
            match self.agent.memory.conversation().standing() {
                Standing::CallsOpen => {
                    let touched = self.touched();
                    round::run(self, &kit).await?;
                    if let Some(text) = self.go_on_due.take() {
                        self.tell(text)?;
                    }
                    if let Some(text) = self.agent.instructions_beside(&touched) {
                        self.tell(text)?;
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
                    if let Some(change) = self.agent.change.take() {
                        self.tell(change)?;
                    }
                    if let Some(halt) = self.limit_reached() {
                        return Err(halt);
                    }
                    self.agent.check_cwd()?;
                    self.ask(&kit).await?;
                }
            }
        }
    }

    /// The files and folders that the open calls are about.
    fn touched(&self) -> Vec<PathBuf> {
        let calls = self.agent.memory.conversation().open_calls().iter();
        let named = calls.filter_map(|call| {
            let path = call.input.get("file_path").or_else(|| call.input.get("path"))?.as_str()?;
            paths::resolve(&self.agent.tools.cwd.join(path)).ok()
        });
        named.collect()
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
        self.turns_left = self.turns_left.map(|turns| turns.saturating_sub(1));
        self.wait_after_cut_offs().await;
        let began = Instant::now();
        let answer = match self.answer(kit, self.clock.deadline()).await? {
            Asked::Answered(answer) => answer,
            Asked::Failed(error, partial) => {
                self.keep(partial)?;
                let reason = coordd_common::chain(&error);
                return Err(Halt::Short(Shortfall::failed(class_of(&error), reason)));
            }
            Asked::Halted(partial) => return self.keep(partial),
        };
        let cut_off = match answer.stop {
            Stop::CutOff | Stop::Pause | Stop::OutputLimit | Stop::WindowFull => true,
            Stop::EndTurn | Stop::ToolUse | Stop::Refusal => false,
        };
        self.cut_offs = if cut_off { self.cut_offs + 1 } else { 0 };
        self.broke_off = answer.stop == Stop::CutOff;
        let failed = self.falls_short(&answer);
        let go_on = (cut_off && failed.is_none()).then(|| go_on(&answer));
        let mut what = self.entries(answer, began, true);
        if what.iter().any(|it| matches!(it, What::ToolCall { .. })) {
            self.go_on_due = go_on;
        } else {
            what.extend(go_on.map(system_input));
        }
        self.calls_are_ours = true;
        self.agent.memory.record(self.number, what)?;
        self.agent.memory.sync()?;
        match failed {
            Some(shortfall) => Err(Halt::Short(shortfall)),
            None => Ok(()),
        }
    }

    /// What the model had said belongs to the conversation.
    fn keep(&mut self, partial: String) -> Result<(), Halt> {
        if partial.trim().is_empty() {
            return Ok(());
        }
        Ok(self.agent.memory.record(self.number, vec![What::Text { text: partial }])?)
    }

    /// Why the run ends with this answer, if it does.
    fn falls_short(&self, answer: &Answer) -> Option<Shortfall> {
        let Answer { stop, limit, why, .. } = answer;
        let place = match &answer.cut_call {
            Some(tool) => format!(", in a call of {}", crate::tools::cut(tool, 80)),
            None => String::new(),
        };
        let (class, reason) = match stop {
            Stop::Refusal => {
                let word = if why.is_empty() { String::new() } else { format!(" ({why})") };
                let reason =
                    format!("the model or its provider declined to answer{word}: change the task");
                (FailureClass::Fatal, reason)
            }
            Stop::WindowFull => (
                FailureClass::Adjust,
                format!(
                    "the conversation fills the model's window{place}: shorten it, or start a new one"
                ),
            ),
            Stop::OutputLimit if self.cut_offs >= LIMITS_MAX => (
                FailureClass::Adjust,
                format!(
                    "the output limit of {limit} tokens was reached {LIMITS_MAX} times in a row{place}: \
                     ask for smaller steps"
                ),
            ),
            Stop::CutOff | Stop::Pause if self.cut_offs >= CUT_OFFS_MAX => {
                let word = if why.is_empty() { String::new() } else { format!(" ({why})") };
                let reason =
                    format!("{CUT_OFFS_MAX} answers of the model in a row were cut off{word}");
                (FailureClass::Retryable, reason)
            }
            Stop::CutOff | Stop::Pause | Stop::OutputLimit | Stop::EndTurn | Stop::ToolUse => {
                return None;
            }
        };
        Some(Shortfall::failed(class, reason))
    }

    /// Before a server that breaks off is asked again it gets time, and more each time.
    async fn wait_after_cut_offs(&mut self) {
        let doublings = self.cut_offs.saturating_sub(1);
        if !self.broke_off {
            return;
        }
        let wait = CUT_OFF_WAIT * 2_u32.saturating_pow(doublings);
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let doing = format!("waiting {}: the answer was cut off", time_words(ms));
        self.agent.activity(&doing, self.clock.elapsed_ms());
        tokio::select! {
            biased;
            () = self.agent.orders.run_ends() => {}
            () = until(self.clock.deadline()) => {}
            () = tokio::time::sleep(wait) => {}
        }
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
            Asked::Answered(answer) => answer,
            Asked::Failed(error, _) => {
                tracing::warn!(error = coordd_common::chain(&error), "no report could be written");
                return Ok(false);
            }
            Asked::Halted(_) => {
                self.agent.check_control()?;
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

/// What the model is told after an answer that was cut off.
fn go_on(answer: &Answer) -> String {
    match answer.stop {
        Stop::OutputLimit => framing::at_limit(answer.limit, answer.cut_call.as_deref()),
        Stop::CutOff
        | Stop::Pause
        | Stop::WindowFull
        | Stop::EndTurn
        | Stop::ToolUse
        | Stop::Refusal => GO_ON.to_owned(),
    }
}

/// Waits for the moment, or for ever.
pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
