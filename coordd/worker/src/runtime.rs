//! The life of an agent process.
//!
//! ```text
//!   start --> settle what an earlier process left --> idle --message--> run --> end of run --> idle
//!                 \--open run--> run                     \--stop, exit--> done        \--may exit--> done
//!   at any time: refused by coordd, or alone for too long --> gone, tools and all
//! ```
//!
//! A run is told as ended only after its outcome is on disk. Here is what all runtimes share;
//! [`native`] holds the loop of model and tools.

mod approval;
mod ask;
mod claude;
mod clock;
mod ending;
mod halt;
mod kit;
mod mail;
mod native;
mod round;
pub(crate) mod terminal;
mod walled;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use proto::agent::{Activity, Bootstrap, Report, Role, Runtime};
use proto::entry::{Origin, What};
use proto::notification::{FailureClass, RunStatus};

use self::approval::Approvals;
use self::halt::Halt;
use self::kit::Kit;
use crate::conversation::Standing;
use crate::framing::{self, Moment, UNFINISHED};
use crate::link::{Link, Orders};
use crate::memory::Memory;
use crate::model::{Client, ModelChoice, ModelError, Provider};
use crate::outcome::Shortfall;
use crate::tools::{SEEN_FILE_NAME, SeenFiles, ToolContext};
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
    /// What has changed of the surroundings, until the model is told.
    change: Option<String>,
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

impl Agent {
    /// An agent with the memory that it has.
    pub(crate) fn new(boot: Bootstrap, link: Link) -> Result<Self, TranscriptError> {
        let memory = Memory::open(Path::new(&boot.state_dir), link.clone())?;
        let mut tools = ToolContext::new(PathBuf::from(&boot.cwd), tool_environment(&boot));
        let seen = SeenFiles::kept_in(&Path::new(&boot.state_dir).join(SEEN_FILE_NAME));
        tools.seen = Arc::new(seen);
        tools.scratchpad = boot.scratchpad.as_deref().map(PathBuf::from);
        let approvals = Approvals::new(&boot, &mut tools);
        let orders = link.orders();
        Ok(Self {
            boot,
            link,
            orders,
            memory,
            kit: None,
            change: None,
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
                Next::Run(run) => {
                    let end = match self.boot.runtime {
                        // What joins from outside, or runs elsewhere, is no process of this
                        // program, and a terminal has no runs.
                        Runtime::Native
                        | Runtime::External
                        | Runtime::Terminal
                        | Runtime::Bridged => native::run(self, run).await,
                        Runtime::Claude => claude::run(self, run).await,
                    };
                    let Some(end) = end else { return Ending::Done };
                    (run, end)
                }
                Next::CannotRun(run, error) => (run, halt::End::at_once(&error)),
            };
            if self.end_run(run, end).await {
                return Ending::Done;
            }
        }
    }

    /// Reports the ends that an earlier process left unreported. True when this process may exit.
    async fn settle(&mut self) -> bool {
        let so_far = self.memory.conversation().so_far().clone();
        let run = so_far.run;
        let recorded = run <= self.boot.runs_before;
        if run == 0 || (recorded && so_far.ended.is_some()) {
            return false;
        }
        let outcome = crate::outcome::read(Path::new(&self.boot.state_dir), run);
        if so_far.ended.is_none() {
            // An open run that coordd does not know continues where it was.
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
            if self.boot.runtime == Runtime::Claude {
                // What enters its conversation, and when, is not ours to say.
                match self.drop_known_mail() {
                    Ok(()) if !self.orders.has_mail() => continue,
                    Ok(()) => return Next::Run(run),
                    Err(error) => return Next::CannotRun(run, error),
                }
            }
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

    /// Whether the run may go on, as far as coordd and the user are concerned.
    fn check_control(&self) -> Result<(), Halt> {
        let control = self.orders.control();
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
        let cwd = &self.boot.cwd;
        if Path::new(cwd).is_dir() {
            return Ok(());
        }
        let reason = format!(
            "working directory {cwd} no longer exists: create it again, or start a new session elsewhere"
        );
        Err(Halt::Short(Shortfall::failed(FailureClass::Fatal, reason)))
    }

    /// Says what the agent is doing.
    fn activity(&self, doing: &str, elapsed_ms: u64) {
        let so_far = self.memory.conversation().so_far();
        let usage = proto::notification::Usage { duration_ms: elapsed_ms, ..so_far.usage };
        let sandbox = self.approvals.sandbox.clone();
        let activity = Activity { doing: doing.to_owned(), turns: so_far.turns, usage, sandbox };
        self.link.report(Report::Activity { activity });
    }

    async fn kit(&mut self) -> Result<Rc<Kit>, Shortfall> {
        if let Some(kit) = &self.kit {
            return Ok(Rc::clone(kit));
        }
        let mut kit = Kit::assemble(&self.boot).await?;
        self.change = kit.change.take();
        let kit = Rc::new(kit);
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
                proto::agent::Provider::Responses => Provider::Responses,
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
    environment.extend(marks(boot).into_iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

/// The variables that mark an agent's processes.
fn marks(boot: &Bootstrap) -> BTreeMap<String, String> {
    let mut marks = BTreeMap::from([
        // The mark by which coordd finds the processes of an agent if this process dies first.
        ("COORDD_AGENT_ID".to_owned(), boot.agent.clone()),
        ("COORDD_AGENT".to_owned(), boot.name.clone()),
        ("COORDD_SESSION".to_owned(), boot.session.clone()),
    ]);
    marks.extend(boot.scratchpad.clone().map(|path| ("COORDD_SCRATCHPAD".to_owned(), path)));
    marks
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
