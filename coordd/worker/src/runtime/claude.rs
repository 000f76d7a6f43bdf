//! Claude Code as what drives an agent's turns.
//!
//! ```text
//!   start --ready--> lines of ours in, lines of its own out --result, nothing left to say--> stdin closed, exit
//!      ^                 \--it ended by itself--> start again, with --resume
//!      |                 \--stop, interrupt--> TERM, KILL     \--a limit--> interrupted, one last turn for the report (W-9)
//!      \--at most STARTS_MAX times without anything said
//! ```
//!
//! One process for a run: between runs its conversation is on disk alone. A message is acknowledged
//! when Claude Code has it (A27), and one that came too late for a turn gets a turn of its own
//! (A8). It must not report the end of a run; it says how it ended.

mod child;
mod command;
mod cost;
mod expansion;
mod history;
mod in_terminal;
mod report;
mod scribe;
mod serve;
mod start;
mod take;
mod wire;
mod write;

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use proto::entry::What;
use proto::notification::FailureClass;
use proto::response::Response;
use tokio::time::Instant;

use self::child::Child;
pub(super) use self::command::{Invocation, tools_of_workers};
use self::cost::Cost;
use self::history::History;
pub(super) use self::in_terminal::in_terminal;
use self::scribe::Scribe;
use self::serve::Served;
use self::wire::Ask;
use self::write::Sent;
use super::Agent;
use super::ask::time_words;
use super::clock::{Before, RunClock};
use super::halt::{End, Halt};
use super::native::until;
use crate::conversation::{OpenCall, Standing};
use crate::link::CallError;
use crate::outcome::Shortfall;

/// Starts of Claude Code in a row after which nothing was said.
const STARTS_MAX: u32 = 3;
/// Our lines that wait to enter the conversation: as many as a mailbox hands over at once.
const SENT_MAX: usize = 100;
/// The tool of a lead that waits for a worker.
const WAITING_TOOL: &str = "Agent";
/// Calls of the model after a request to end, as for a native agent.
const SHUTDOWN_TURNS: u32 = 3;

/// A run while it lasts.
struct Run<'a> {
    agent: &'a mut Agent,
    number: u32,
    clock: RunClock,
    history: History,
    /// The tools of a lead.
    tools: Option<Served>,
    scribe: Scribe,
    cost: Cost,
    /// Lines that were written and are not in the conversation yet.
    sent: Vec<Sent>,
    /// Coordd's own words that go before the next line.
    words: String,
    /// Questions that wait for the user, by Claude Code's ids.
    asks: BTreeMap<String, Asked>,
    answers: FuturesUnordered<LocalBoxFuture<'static, (String, Result<Response, CallError>)>>,
    asking_since: Option<Instant>,
    /// Calls of an earlier process about which the user was asked: the same call is the same
    /// question.
    asked_before: Vec<OpenCall>,
    /// It has said the last word of its turn.
    is_quiet: bool,
    /// Something was said since it was started.
    said_anything: bool,
    stage: Stage,
    /// Model calls left after a request to end.
    turns_left: Option<u32>,
}

/// A question that waits for the user.
struct Asked {
    ask: Ask,
    /// What coordd knows it by.
    key: String,
}

/// What the turn is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The task.
    Working,
    /// It was told to end.
    Interrupted,
    /// The report: no tool runs any more.
    Reporting,
    /// Whether it was told to exit without a report.
    ReportInterrupted,
}

impl Stage {
    fn is_report(self) -> bool {
        matches!(self, Self::Reporting | Self::ReportInterrupted)
    }

    fn is_interrupted(self) -> bool {
        matches!(self, Self::Interrupted | Self::ReportInterrupted)
    }
}

/// Why a conversation is left.
enum Left {
    /// There is nothing more to say.
    Done,
    /// The process has ended.
    Ended(String),
}

/// Runs until the run ends. None when the process is to end and the run goes on in the next one.
pub(super) async fn run(agent: &mut Agent, number: u32) -> Option<End> {
    let history = match start::history(agent) {
        Ok(history) => history,
        Err(shortfall) => return Some(cannot_begin(agent, number, shortfall)),
    };
    let so_far = agent.memory.conversation().so_far();
    let before = if so_far.run == number {
        Before { passed_ms: agent.memory.run_age_ms(), worked_ms: so_far.lasted_ms }
    } else {
        Before::default()
    };
    let clock = RunClock::new(before, agent.boot.limits.run_ms);
    agent.shutdown_asked = false;
    let mut run = Run {
        agent,
        number,
        clock,
        history,
        tools: None,
        scribe: Scribe::default(),
        cost: Cost::default(),
        sent: Vec::new(),
        words: String::new(),
        asks: BTreeMap::new(),
        answers: FuturesUnordered::new(),
        asking_since: None,
        asked_before: Vec::new(),
        is_quiet: false,
        said_anything: false,
        stage: Stage::Working,
        turns_left: None,
    };
    let mut child = None;
    let result = run.go_on(&mut child).await;
    let (shortfall, reported) = match result {
        Ok(()) => {
            if let Some(child) = child.take() {
                child.finish().await;
            }
            (None, false)
        }
        Err(halt) => run.wind_down(child.take(), halt).await?,
    };
    run.give_back();
    Some(End { shortfall, reported, lasted_ms: run.clock.elapsed_ms() })
}

/// The run fails before anything was started; what it was for is recorded all the same, so that the
/// failure is told.
fn cannot_begin(agent: &mut Agent, number: u32, shortfall: Shortfall) -> End {
    let moment = agent.first_moment();
    if let Err(error) = agent.take_in(number, moment) {
        return End::at_once(&error);
    }
    End { shortfall: Some(shortfall), reported: false, lasted_ms: 0 }
}

impl Run<'_> {
    async fn go_on(&mut self, child: &mut Option<Child>) -> Result<(), Halt> {
        self.agent.approvals.check().map_err(Halt::Short)?;
        self.agent.check_cwd()?;
        self.note_open_calls();
        let conversation = self.agent.memory.conversation();
        let is_answered = self.is_open() && conversation.standing() == Standing::Answered;
        if is_answered && !self.agent.orders.has_mail() {
            return Ok(());
        }
        let mut starts = 0;
        loop {
            starts += 1;
            self.close_open_calls()?;
            let child = child.insert(self.start().await?);
            match self.converse(child).await? {
                Left::Done => return Ok(()),
                Left::Ended(why) => self.ended_by_itself(&why, &mut starts)?,
            }
        }
    }

    /// Talks until there is nothing left to say.
    async fn converse(&mut self, child: &mut Child) -> Result<Left, Halt> {
        let orders = Rc::clone(&self.agent.orders);
        loop {
            if self.is_done() {
                return Ok(Left::Done);
            }
            let deadline = self.clock.deadline();
            tokio::select! {
                biased;
                () = orders.run_ends() => self.agent.check_control()?,
                () = until(deadline), if self.asks.is_empty() => return Err(self.out_of_time()),
                Some((request, answer)) = self.answers.next() => self.answered(child, &request, answer),
                line = child.line() => match line {
                    Some(line) => self.take(child, line)?,
                    None => return Ok(Left::Ended(child.status().await)),
                },
                () = orders.mail(), if self.takes_mail() => self.send_mail(child, false)?,
            }
        }
    }

    /// Whether every line was answered.
    fn is_done(&self) -> bool {
        let has_mail = self.turns_left.is_none() && self.agent.orders.has_mail();
        self.is_open() && self.is_quiet && self.is_all_heard() && !has_mail
    }

    fn takes_mail(&self) -> bool {
        self.sent.len() < SENT_MAX && self.turns_left.is_none()
    }

    fn ended_by_itself(&mut self, why: &str, starts: &mut u32) -> Result<(), Halt> {
        tracing::warn!(why, "Claude Code exited in the middle of a run");
        let what = self.scribe.broke_off();
        self.record(what)?;
        self.forget_asks();
        // A call that waited for a worker waits no more, and only the end of this process tells
        // coordd so: then the worker's run is notified.
        if self.agent.memory.conversation().open_calls().iter().any(|it| it.tool == WAITING_TOOL) {
            return Err(Halt::Left);
        }
        if std::mem::take(&mut self.said_anything) {
            *starts = 0;
        }
        self.give_back();
        if *starts < STARTS_MAX {
            return Ok(());
        }
        let reason = format!(
            "Claude Code ended {STARTS_MAX} times in a row in the middle of things ({why})"
        );
        Err(Halt::Short(Shortfall::failed(FailureClass::Retryable, reason)))
    }

    /// Whether the run has begun, as far as coordd knows.
    fn is_open(&self) -> bool {
        self.agent.memory.conversation().open_run() == Some(self.number)
    }

    /// Tells it to end the turn.
    fn interrupt(&mut self, child: &mut Child) {
        self.stage =
            if self.stage.is_report() { Stage::ReportInterrupted } else { Stage::Interrupted };
        child.interrupt();
    }

    fn out_of_time(&self) -> Halt {
        let limit = time_words(self.agent.boot.limits.run_ms);
        Halt::Limit { limit, reason: "out of time" }
    }

    fn record(&mut self, what: Vec<What>) -> Result<(), Halt> {
        if what.is_empty() {
            return Ok(());
        }
        self.agent.memory.record(self.number, what)?;
        Ok(self.agent.memory.sync()?)
    }

    /// The calls of an earlier process that wait for the user's answer.
    fn note_open_calls(&mut self) {
        let boot = &self.agent.boot;
        let open = self.agent.memory.conversation().open_calls().iter();
        self.asked_before = open.filter(|it| boot.not_begun.contains(&it.id)).cloned().collect();
    }

    /// Nobody waits for the answers any more; the next process may ask the same again.
    fn forget_asks(&mut self) {
        let asked = std::mem::take(&mut self.asks).into_values();
        self.asked_before.extend(asked.map(|it| OpenCall {
            id: it.key,
            tool: it.ask.tool,
            input: it.ask.input,
        }));
        self.answers.clear();
        if let Some(since) = self.asking_since.take() {
            self.clock.pause(since.elapsed());
        }
    }
}
