//! Starting Claude Code, and its first lines.
//!
//! ```text
//!   no record of the conversation --> --session-id     a record --> --resume
//!   "already in use" --> the other one                 "no conversation" --> a new one, which is told so
//! ```

use std::path::Path;

use coordd_common::chain;
use proto::agent::Role;
use proto::entry::What;
use proto::notification::FailureClass;

use super::super::{Agent, system_input};
use super::child::{Child, StartError};
use super::command::{self, Invocation, Opening};
use super::cost::Cost;
use super::history::{self, History};
use super::serve::Served;
use super::{Halt, Run};
use crate::framing::{RESTARTED, UNFINISHED};
use crate::outcome::Shortfall;

/// Tries, with one change each: the other way to open it, then a new conversation.
const TRIES_MAX: u32 = 3;

/// Claude Code's error for an id that already has a conversation (2.1.332).
const IN_USE: &str = "already in use";
/// Claude Code's error for an id without a conversation (2.1.332).
const UNKNOWN: &str = "No conversation found";

/// The note to a model that has lost its conversation.
const FORGOTTEN: &str = "[coordd: Claude Code no longer has the record of this conversation, so what was said and done before \
     is lost to you. What you were last asked follows. Look at what is there before you begin.]";

/// The agent's conversation.
pub(super) fn history(agent: &Agent) -> Result<History, Shortfall> {
    let config = command::config_folder(&agent.boot.env);
    History::open(Path::new(&agent.boot.state_dir), config)
        .map_err(|error| Shortfall::failed(FailureClass::Fatal, chain(&error)))
}

impl Run<'_> {
    /// A process that is ready and has its first lines.
    pub(super) async fn start(&mut self) -> Result<Child, Halt> {
        let kit = self.agent.kit().await.map_err(Halt::Short)?;
        if self.agent.boot.role != Role::Worker && self.tools.is_none() {
            let served = Served::begin(self.agent.link.clone(), &self.agent.boot, &kit);
            self.tools = Some(served.map_err(|error| fatal(&error))?);
        }
        let mut opening = if self.history.exists() { Opening::Resume } else { Opening::New };
        let mut is_forgotten = opening == Opening::New && self.has_worked();
        for _ in 0..TRIES_MAX {
            let limits = self.agent.boot.limits;
            let done = self.agent.memory.conversation().so_far().turns;
            let turns = match limits.turns {
                0 => 0,
                // A run that has used them up gets one more, and ends as out of turns with the
                // next.
                max if self.is_open() => max.saturating_sub(done).max(1),
                max => max,
            };
            let boot = &self.agent.boot;
            let server = self.tools.as_ref().map(Served::socket);
            let invocation = Invocation::new(boot, &kit, &self.history, opening, turns, server)
                .map_err(|error| fatal(&error))?;
            self.agent.activity("starting Claude Code", self.clock.elapsed_ms());
            let mut child = Child::spawn(&invocation, &boot.cwd).map_err(|error| fatal(&error))?;
            let ready = tokio::select! {
                biased;
                () = self.agent.orders.run_ends() => {
                    child.end().await;
                    self.agent.check_control()?;
                    continue;
                }
                ready = child.ready() => ready,
            };
            match ready {
                Ok(version) => {
                    tracing::info!(version, session = self.history.session, "Claude Code is ready");
                    self.agent.activity("thinking", self.clock.elapsed_ms());
                    let is_new = opening == Opening::New;
                    let spent = self.agent.memory.conversation().spent_micro_usd();
                    self.cost = Cost::after(if is_new { 0 } else { spent });
                    let context = if is_new { kit.user_context(&self.agent.boot) } else { None };
                    self.open(&mut child, context, is_forgotten)?;
                    return Ok(child);
                }
                Err(StartError::Ended { said, .. }) if said.contains(IN_USE) => {
                    opening = Opening::Resume;
                    is_forgotten = false;
                }
                Err(StartError::Ended { said, .. }) if said.contains(UNKNOWN) => {
                    let state_dir = Path::new(&self.agent.boot.state_dir);
                    self.history = self
                        .history
                        .clone()
                        .begin_again(state_dir)
                        .map_err(|error| fatal(&error))?;
                    opening = Opening::New;
                    is_forgotten = self.has_worked();
                }
                Err(error @ StartError::Silent) => {
                    child.end().await;
                    let reason = chain(&error);
                    return Err(Halt::Short(Shortfall::failed(FailureClass::Retryable, reason)));
                }
                Err(error) => return Err(fatal(&error)),
            }
        }
        let reason =
            "Claude Code neither begins this conversation nor goes on with it: see the agent's log";
        Err(Halt::Short(Shortfall::failed(FailureClass::Fatal, reason)))
    }

    /// Whether anything was said to the agent before.
    fn has_worked(&self) -> bool {
        self.agent.memory.conversation().has_input()
    }

    /// Writes what the new process lacks: what it was doing, lines that Claude Code's record lost,
    /// and new mail.
    fn open(
        &mut self,
        child: &mut Child,
        context: Option<String>,
        is_forgotten: bool,
    ) -> Result<(), Halt> {
        self.is_quiet = true;
        if let Some(notice) = self.agent.memory.take_notice() {
            tracing::warn!(notice, "the transcript was damaged");
        }
        let mut words: Vec<String> = context.into_iter().collect();
        if is_forgotten {
            words.push(FORGOTTEN.to_owned());
        }
        let lost = if self.is_open() { self.lost_inputs() } else { Vec::new() };
        let all = self.agent.memory.conversation().inputs().iter();
        let messages = all.filter(|(message, _)| message.is_some()).count();
        // Nothing was going on when even the first of them is lost.
        if self.is_open() && lost.len() < messages {
            words.push(RESTARTED.to_owned());
        }
        self.words = words.join("\n\n");
        for (uuid, text) in lost {
            self.write_again(child, uuid, &text)?;
        }
        self.send_mail(child, true)?;
        if self.words.is_empty() {
            return Ok(());
        }
        self.say(child, "")
    }

    /// What entered this run and is not in Claude Code's record: it was ended before it had written
    /// it down.
    fn lost_inputs(&self) -> Vec<(String, String)> {
        let inputs = self.agent.memory.conversation().inputs();
        let with_uuid: Vec<(String, &String)> = inputs
            .iter()
            .filter_map(|(message, text)| {
                let message = message.as_deref()?;
                Some((history::line_uuid(&self.agent.boot.agent, message), text))
            })
            .collect();
        let uuids: Vec<String> = with_uuid.iter().map(|(uuid, _)| uuid.clone()).collect();
        let held = self.history.holds(&uuids);
        let lost = with_uuid.into_iter().filter(|(uuid, _)| !held.contains(uuid));
        lost.map(|(uuid, text)| (uuid, text.clone())).collect()
    }

    /// coordd's own note, after those that wait.
    pub(super) fn say(&mut self, child: &mut Child, text: &str) -> Result<(), Halt> {
        if !text.is_empty() {
            self.record(vec![system_input(text.to_owned())])?;
        }
        let uuid = history::random_uuid().unwrap_or_default();
        self.write_again(child, uuid, text)
    }

    /// Calls that were open when the last process ended have a result in the record of Claude Code,
    /// and get one in ours.
    pub(super) fn close_open_calls(&mut self) -> Result<(), Halt> {
        let open = self.agent.memory.conversation().open_calls();
        let what = open.iter().map(|call| What::ToolResult {
            call: call.id.clone(),
            text: UNFINISHED.to_owned(),
            is_error: true,
        });
        let what = what.collect();
        self.record(what)
    }
}

fn fatal(error: &dyn std::error::Error) -> Halt {
    Halt::Short(Shortfall::failed(FailureClass::Fatal, chain(error)))
}
