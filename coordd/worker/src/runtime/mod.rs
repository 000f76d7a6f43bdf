//! The life of an agent process.
//!
//! ```text
//!   start --> settle what an earlier process left --> idle --message--> run --> end of run --> idle
//!                 \--open run--> run                     \--stop, exit--> done        \--may exit--> done
//!   at any time: refused by coordd, or alone for too long --> gone, tools and all
//! ```
//!
//! A run is told as ended only after its outcome is on disk. Here is what all runtimes share; [`native`] holds the loop of
//! model and tools.

mod approval;
mod ask;
mod clock;
mod ending;
mod halt;
mod kit;
mod native;
mod round;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proto::agent::{Activity, Bootstrap, Report, Role};
use proto::entry::{Origin, What};
use proto::notification::{FailureClass, RunStatus};
use proto::request::Request;

use self::approval::Approvals;
use self::kit::Kit;
use crate::conversation::Standing;
use crate::failpoint::{self, Point};
use crate::framing::{self, Framed, Moment, Reader, UNFINISHED};
use crate::link::{Link, Orders};
use crate::memory::Memory;
use crate::model::{Client, ModelChoice, ModelError, Provider};
use crate::outcome::Shortfall;
use crate::tools::ToolContext;
use crate::transcript::TranscriptError;

/// How the process is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In order.
    Done,
    /// coordd wants nothing more of it.
    Gone(String),
}

/// An agent.
pub(crate) struct Agent {
    boot: Bootstrap,
    link: Link,
    orders: Rc<Orders>,
    memory: Memory,
    /// Made at the first run.
    kit: Option<Rc<Kit>>,
    /// Made at the first question.
    client: Option<Rc<Client>>,
    tools: ToolContext,
    approvals: Approvals,
    /// The message that begins the next run asks the agent to end.
    shutdown_asked: bool,
}

/// What follows an idle time.
enum Next {
    Exit,
    Run(u32),
    /// A message came that cannot be recorded.
    CannotRun(u32, TranscriptError),
}

/// What entered the conversation.
#[derive(Clone, Copy, Debug, Default)]
struct Entered {
    messages: usize,
    /// One of them asks the agent to end.
    shutdown: bool,
}

impl Agent {
    /// An agent with the memory that it has.
    pub(crate) fn new(boot: Bootstrap, link: Link) -> Result<Self, TranscriptError> {
        let memory = Memory::open(Path::new(&boot.state_dir), link.clone())?;
        let mut tools = ToolContext::new(PathBuf::from(&boot.cwd), tool_environment(&boot));
        tools.scratchpad = boot.scratchpad.as_deref().map(PathBuf::from);
        let approvals = Approvals::new(&boot, &mut tools);
        let orders = link.orders();
        Ok(Self {
            boot,
            link,
            orders,
            memory,
            kit: None,
            client: None,
            tools,
            approvals,
            shutdown_asked: false,
        })
    }

    /// Lives until there is nothing more to do.
    pub(crate) async fn live(mut self) -> Ending {
        let link = self.link.clone();
        tokio::select! {
            biased;
            // Dropping the work drops its tools, which end their processes.
            reason = link.gone() => Ending::Gone(reason),
            ending = Box::pin(self.work()) => ending,
        }
    }

    async fn work(&mut self) -> Ending {
        // A process of an earlier incarnation must do nothing, and only coordd can tell.
        tokio::select! {
            biased;
            () = self.orders.process_ends() => return Ending::Done,
            welcomed = self.link.welcomed() => {
                if let Err(reason) = welcomed {
                    return Ending::Gone(reason);
                }
            }
        }
        if self.settle().await {
            return Ending::Done;
        }
        loop {
            let open = self.memory.conversation().open_run();
            let next = match open {
                Some(run) => Next::Run(run),
                None => self.idle().await,
            };
            let (run, end) = match next {
                Next::Exit => return Ending::Done,
                Next::Run(run) => match native::run(self, run).await {
                    Some(end) => (run, end),
                    None => return Ending::Done,
                },
                Next::CannotRun(run, error) => (run, halt::End::at_once(&error)),
            };
            if self.end_run(run, end).await {
                return Ending::Done;
            }
        }
    }

    /// Brings what an earlier process left to an end that it already had. True when the process may exit.
    async fn settle(&mut self) -> bool {
        let so_far = self.memory.conversation().so_far().clone();
        let run = so_far.run;
        let recorded = run <= self.boot.runs_before;
        if run == 0 || (recorded && so_far.ended.is_some()) {
            return false;
        }
        let outcome = crate::outcome::read(Path::new(&self.boot.state_dir), run);
        if so_far.ended.is_none() {
            // An open run that coordd knows nothing of goes on where it was.
            let (status, reason) = match &outcome {
                Some(outcome) => (outcome.status, outcome.reason.clone()),
                None if recorded => {
                    (RunStatus::Failed, "the process ended in the middle of this run".to_owned())
                }
                None => return false,
            };
            if let Err(error) = self.close_run(run, status, reason, UNFINISHED) {
                tracing::error!(error = ?error, "the end of an earlier run is not in the transcript");
            }
        }
        if recorded {
            return false;
        }
        // Where the file is lost, the transcript still says how it ended.
        let outcome = outcome.unwrap_or_else(|| self.outcome_of_past());
        self.report_end(run, outcome).await
    }

    /// Waits for a message that begins a run.
    async fn idle(&mut self) -> Next {
        if let Some(client) = &self.client {
            client.release();
        }
        self.activity("idle", 0);
        loop {
            self.orders.forget_interrupt();
            tokio::select! {
                biased;
                () = self.orders.process_ends() => return Next::Exit,
                () = self.orders.mail() => {}
            }
            let run = self.memory.conversation().so_far().run.max(self.boot.runs_before) + 1;
            match self.take_in(run, self.first_moment()) {
                Ok(entered) if entered.messages == 0 => {}
                Ok(entered) => {
                    self.shutdown_asked = entered.shutdown;
                    return Next::Run(run);
                }
                Err(error) => return Next::CannotRun(run, error),
            }
        }
    }

    fn first_moment(&self) -> Moment {
        let conversation = self.memory.conversation();
        match self.boot.role {
            Role::Coordinator | Role::Lead | Role::Peer => Moment::Idle,
            Role::Worker if !conversation.has_input() => Moment::Task,
            Role::Worker => {
                let (status, reason) = match &conversation.so_far().ended {
                    Some((status, reason)) => (*status, reason.as_str()),
                    None => (RunStatus::Failed, "its end is not known"),
                };
                Moment::Resumed(framing::status_words(status, reason))
            }
        }
    }

    /// Puts the waiting messages into the conversation, each once, and acknowledges them when they are on disk (M-3).
    fn take_in(&mut self, run: u32, mut moment: Moment) -> Result<Entered, TranscriptError> {
        let reader = Reader { role: self.boot.role, mode: self.boot.mode };
        let mut entered = Entered::default();
        let (mut what, mut ids) = (Vec::new(), Vec::new());
        for mail in self.orders.take_mail() {
            if let Some(run) = self.memory.conversation().run_of(&mail.message) {
                // It is remembered; whether it is on disk is another matter.
                self.memory.sync()?;
                self.link.post(Request::Acknowledge { messages: vec![mail.message], run });
                continue;
            }
            let Framed { before, text } = framing::frame(&mail, &moment, reader);
            if matches!(moment, Moment::Task | Moment::Resumed(_)) {
                moment = Moment::Midway;
            }
            entered.messages += 1;
            entered.shutdown |= mail.shutdown;
            ids.push(mail.message.clone());
            what.extend(before.map(system_input));
            what.push(What::Input { origin: mail.origin, message: Some(mail.message), text });
        }
        if what.is_empty() {
            return Ok(entered);
        }
        if let Some(text) = self.memory.take_notice() {
            what.insert(0, system_input(text));
        }
        // A crash must not leave coordd's words behind without the message that they are about.
        self.memory.record_whole(run, what)?;
        self.memory.sync()?;
        failpoint::reach(Point::InTranscript);
        self.link.post(Request::Acknowledge { messages: ids, run });
        Ok(entered)
    }

    /// Records the end of a run, after a result for every call that has none.
    fn close_run(
        &mut self,
        run: u32,
        status: RunStatus,
        reason: String,
        unfinished: &str,
    ) -> Result<(), TranscriptError> {
        let mut what: Vec<What> = Vec::new();
        if self.memory.conversation().standing() == Standing::CallsOpen {
            what.extend(self.memory.conversation().open_calls().iter().map(|call| {
                What::ToolResult {
                    call: call.id.clone(),
                    text: unfinished.to_owned(),
                    is_error: true,
                }
            }));
        }
        what.push(What::RunEnded { status, reason });
        self.memory.record(run, what)?;
        self.memory.sync()
    }

    /// Says what the agent is doing.
    fn activity(&self, doing: &str, elapsed_ms: u64) {
        let so_far = self.memory.conversation().so_far();
        let usage = proto::notification::Usage { duration_ms: elapsed_ms, ..so_far.usage };
        let activity = Activity { doing: doing.to_owned(), turns: so_far.turns, usage };
        self.link.report(Report::Activity { activity });
    }

    async fn kit(&mut self) -> Result<Rc<Kit>, Shortfall> {
        if let Some(kit) = &self.kit {
            return Ok(Rc::clone(kit));
        }
        let kit = Rc::new(Kit::assemble(&self.boot).await?);
        self.kit = Some(Rc::clone(&kit));
        Ok(kit)
    }

    fn client(&mut self) -> Result<Rc<Client>, ModelError> {
        if let Some(client) = &self.client {
            return Ok(Rc::clone(client));
        }
        let model = self.boot.model.as_ref().ok_or(ModelError::ModelMissing)?;
        let choice = ModelChoice {
            provider: match model.provider {
                proto::agent::Provider::Anthropic => Provider::Anthropic,
                proto::agent::Provider::Openai => Provider::OpenAi,
                proto::agent::Provider::Rehearsal => Provider::Rehearsal,
            },
            model: model.name.clone(),
            base_url: model.base_url.clone(),
            rehearsal_file: model.rehearsal_file.as_deref().map(PathBuf::from),
        };
        let client = Client::new(&choice, &|name| self.boot.env.get(name).cloned())?;
        tracing::info!(model = client.describe(), "the model");
        let client = Rc::new(client);
        self.client = Some(Rc::clone(&client));
        Ok(client)
    }
}

/// A word from coordd itself.
fn system_input(text: String) -> What {
    What::Input { origin: Origin::System {}, message: None, text }
}

/// What the processes of tools see; keys are taken out by the context.
fn tool_environment(boot: &Bootstrap) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> =
        boot.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    // The mark by which coordd knows the processes of an agent, should this one die before them.
    environment.insert("COORDD_AGENT_ID".into(), boot.agent.clone().into());
    environment.insert("COORDD_AGENT".into(), boot.name.clone().into());
    environment.insert("COORDD_SESSION".into(), boot.session.clone().into());
    if let Some(path) = &boot.scratchpad {
        environment.insert("COORDD_SCRATCHPAD".into(), path.into());
    }
    environment
}

/// The class of a failure as it is reported.
fn class_of(error: &ModelError) -> FailureClass {
    match error.class() {
        crate::model::FailureClass::Retryable => FailureClass::Retryable,
        crate::model::FailureClass::Adjust => FailureClass::Adjust,
        crate::model::FailureClass::Fatal => FailureClass::Fatal,
    }
}

#[cfg(test)]
mod tests;
