//! A scripted agent process, and the folder that outlives it.
//!
//! It does what `coordd-worker` does, one thing in a step, so that it can die between any two: messages go into the
//! transcript before they are acknowledged, an outcome is on disk before it is reported, a call is repeated with its key
//! until it is answered, and a message that the transcript has already is only acknowledged again.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::random::Random;
use crate::agent::{Class, Outcome, Status, Usage};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::Order;
use crate::id::{AgentId, MessageId, PeerId};
use crate::permission::Question;
use crate::request::{Address, Body, NewAgent, Request};
use crate::role::Role;

/// What outlives the process.
#[derive(Default)]
pub(super) struct Folder {
    /// The conversation: messages with the run that they are part of.
    pub(super) transcript: Vec<(MessageId, u32)>,
    /// The last run that began.
    pub(super) run: u32,
    /// The last run that ended.
    pub(super) ended: u32,
    /// How it ended.
    pub(super) outcome: Option<(u32, Outcome)>,
    /// A tool call without a result, with its key.
    pub(super) tool: Option<(String, Request)>,
    /// Tool calls so far.
    pub(super) tools: u32,
    /// Workers whose outcome came as the answer to a call.
    pub(super) ran: BTreeSet<AgentId>,
}

impl Folder {
    fn run_is_open(&self) -> bool {
        self.run > self.ended
    }

    fn end_run(&mut self, status: Status) {
        let class = (status == Status::Failed).then_some(Class::Adjust);
        let outcome = Outcome {
            status,
            class,
            reason: String::new(),
            result: format!("result of run {}", self.run),
            usage: Usage { tool_uses: 1, ..Usage::default() },
        };
        self.ended = self.run;
        self.outcome = Some((self.run, outcome));
        self.tool = None;
    }

    pub(super) fn has(&self, message: MessageId) -> bool {
        self.transcript.iter().any(|(id, _)| *id == message)
    }
}

/// What arrives from the daemon.
#[derive(Clone, Debug)]
pub(super) enum FromDaemon {
    Welcome,
    Closed,
    Deliver(MessageId),
    Order(Order),
    Reply { call: u64, outcome: Result<Answer, Denial> },
}

/// What a step of a process leads to outside of it.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// It only thought, or wrote into its folder.
    Worked,
    /// It has nothing to do.
    Idle,
    /// It connects.
    Connect,
    /// It ends.
    Exit,
}

/// A call that is not answered yet.
#[derive(Clone)]
pub(super) struct OpenCall {
    pub(super) key: Option<String>,
    pub(super) request: Request,
}

/// A process.
#[expect(clippy::struct_excessive_bools, reason = "what is wrong with it, and what it was told")]
pub(super) struct Process {
    pub(super) role: Role,
    pub(super) token: String,
    /// Runs that had ended when it was started.
    pub(super) runs_before: u32,
    /// Whether the present daemon will notice its end.
    pub(super) is_watched: bool,
    /// Never gets as far as a connection.
    pub(super) is_hung: bool,
    /// Does not end when it is told to.
    pub(super) is_stubborn: bool,
    pub(super) peer: Option<PeerId>,
    pub(super) is_welcome: bool,
    pub(super) inbox: VecDeque<FromDaemon>,
    pub(super) open: BTreeMap<u64, OpenCall>,
    pub(super) unsent_from: u64,
    last_call: u64,
    mail: Vec<MessageId>,
    to_acknowledge: Vec<(MessageId, u32)>,
    stop: bool,
    /// Whether the stop leaves the run open.
    keep_run: bool,
    leave: bool,
    interrupt: bool,
    /// Rules that it knows of: those of its start, and what it was told since.
    pub(super) rules: BTreeSet<String>,
    tool_call: Option<u64>,
    report: Option<u64>,
    reported: u32,
}

impl Process {
    /// A process begins: what the folder says goes on, except what coordd has ended meanwhile.
    pub(super) fn new(role: Role, token: String, runs_before: u32, folder: &mut Folder) -> Self {
        if folder.run_is_open() && folder.run <= runs_before {
            folder.ended = folder.run;
            folder.tool = None;
        }
        Self {
            role,
            token,
            runs_before,
            is_watched: true,
            is_hung: false,
            is_stubborn: false,
            peer: None,
            is_welcome: false,
            inbox: VecDeque::new(),
            open: BTreeMap::new(),
            unsent_from: 0,
            last_call: 0,
            mail: Vec::new(),
            to_acknowledge: Vec::new(),
            stop: false,
            keep_run: false,
            leave: false,
            interrupt: false,
            rules: BTreeSet::new(),
            tool_call: None,
            report: None,
            reported: runs_before,
        }
    }

    /// The connection is lost, with all that was on its way.
    pub(super) fn lose_connection(&mut self) {
        self.peer = None;
        self.is_welcome = false;
        self.inbox.clear();
        self.unsent_from = 0;
    }

    fn call(&mut self, key: Option<String>, request: Request) -> u64 {
        self.last_call += 1;
        self.open.insert(self.last_call, OpenCall { key, request });
        self.last_call
    }

    /// One thing.
    pub(super) fn step(
        &mut self,
        name: &str,
        folder: &mut Folder,
        random: &mut Random,
        calm: bool,
    ) -> Act {
        if self.is_hung {
            return Act::Idle;
        }
        if let Some(arrived) = self.inbox.pop_front() {
            return self.take(arrived, folder);
        }
        if (self.stop || self.leave) && !self.is_stubborn {
            return self.wind_up(folder, random);
        }
        if self.peer.is_none() {
            return Act::Connect;
        }
        if !self.is_welcome {
            return Act::Idle;
        }
        if let Some((_, run)) = self.to_acknowledge.first().copied() {
            let is_of_run = |it: &(MessageId, u32)| it.1 == run;
            let messages =
                self.to_acknowledge.iter().filter(|it| is_of_run(it)).map(|it| it.0).collect();
            self.to_acknowledge.retain(|it| !is_of_run(it));
            self.call(None, Request::Acknowledge { messages, run });
            return Act::Worked;
        }
        if folder.run_is_open() { self.work(name, folder, random, calm) } else { self.rest(folder) }
    }

    /// It was told to end.
    fn wind_up(&mut self, folder: &mut Folder, random: &mut Random) -> Act {
        if folder.run_is_open() && !self.keep_run && random.one_in(2) {
            folder.end_run(Status::Killed);
            return Act::Worked;
        }
        if !folder.run_is_open() && folder.ended > self.reported && self.report.is_none() {
            self.report_run(folder);
            return Act::Worked;
        }
        Act::Exit
    }

    fn report_run(&mut self, folder: &Folder) {
        let (run, outcome) = folder.outcome.clone().unwrap();
        self.report = Some(self.call(None, Request::RunEnded { run, outcome }));
    }

    fn work(&mut self, name: &str, folder: &mut Folder, random: &mut Random, calm: bool) -> Act {
        if self.interrupt {
            self.interrupt = false;
            self.tool_call = None;
            folder.end_run(Status::Killed);
            return Act::Worked;
        }
        if self.tool_call.is_some() {
            return Act::Idle;
        }
        if let Some((key, request)) = folder.tool.clone() {
            self.tool_call = Some(self.call(Some(key), request));
            return Act::Worked;
        }
        if !self.mail.is_empty() && (calm || random.one_in(2)) {
            self.read(folder);
            return Act::Worked;
        }
        if calm || random.one_in(8) {
            let failed = random.one_in(5);
            folder.end_run(if failed { Status::Failed } else { Status::Completed });
            return Act::Worked;
        }
        folder.tools += 1;
        let key = format!("{name}-{}", folder.tools);
        folder.tool = Some((key, self.tool(folder.tools, random)));
        Act::Worked
    }

    /// All that waits goes into the conversation together, as part of the run that is open or of a new one.
    fn read(&mut self, folder: &mut Folder) {
        for message in core::mem::take(&mut self.mail) {
            folder.transcript.push((message, folder.run));
            self.to_acknowledge.push((message, folder.run));
        }
    }

    /// No run is open.
    fn rest(&mut self, folder: &mut Folder) -> Act {
        self.interrupt = false;
        if folder.ended > self.reported {
            if self.report.is_some() {
                return Act::Idle;
            }
            self.report_run(folder);
            return Act::Worked;
        }
        if self.mail.is_empty() {
            return Act::Idle;
        }
        folder.run = folder.ended.max(self.runs_before) + 1;
        folder.ended = folder.run - 1;
        self.read(folder);
        Act::Worked
    }

    fn take(&mut self, arrived: FromDaemon, folder: &mut Folder) -> Act {
        match arrived {
            FromDaemon::Welcome => self.is_welcome = true,
            FromDaemon::Closed => return Act::Exit,
            FromDaemon::Deliver(message) => {
                let known = folder.transcript.iter().find(|(id, _)| *id == message);
                if let Some((_, run)) = known {
                    self.to_acknowledge.push((message, *run));
                } else if !self.mail.contains(&message) {
                    self.mail.push(message);
                }
            }
            FromDaemon::Order(Order::Stop { keeps_run, .. }) => {
                self.stop = true;
                self.keep_run = keeps_run;
            }
            FromDaemon::Order(Order::Interrupt) => self.interrupt = true,
            FromDaemon::Order(Order::Learned { rule }) => {
                self.rules.insert(rule);
            }
            // No agent of this world is in a terminal.
            FromDaemon::Order(Order::Screen { .. } | Order::ScreenInput { .. })
            | FromDaemon::Reply { outcome: Err(Denial::ShuttingDown), .. } => {}
            FromDaemon::Reply { call, outcome } => self.answered(call, &outcome, folder),
        }
        Act::Worked
    }

    fn answered(&mut self, call: u64, outcome: &Result<Answer, Denial>, folder: &mut Folder) {
        let was_open = self.open.remove(&call);
        let open = was_open.expect("a call was answered that was not open, or was answered twice");
        if let Ok(Answer::Ran { agent, .. }) = outcome {
            folder.ran.insert(agent.clone());
        }
        if self.tool_call == Some(call) {
            self.tool_call = None;
            folder.tool = None;
        }
        if self.report == Some(call) {
            self.report = None;
            if let Request::RunEnded { run, .. } = open.request {
                self.reported = run;
            }
            self.leave |= matches!(outcome, Ok(Answer::RunRecorded { exit: true }));
        }
    }

    /// What an agent of this role may ask for, and now and then what it may not.
    fn tool(&self, number: u32, random: &mut Random) -> Request {
        let names = ["w1", "w2", "w3", "w4", "lead", "nobody"];
        let name = String::from(random.pick(&names).unwrap());
        if self.role == Role::Worker || (self.role == Role::Lead && random.one_in(5)) {
            return Request::PermissionAsk(Question {
                tool: "Bash".into(),
                input: "{}".into(),
                reason: "it is not allowed".into(),
                rule: format!("Bash({})", number % 4),
                about: "true".into(),
                shown: String::new(),
            });
        }
        match random.below(12) {
            0..=5 => Request::AgentSpawn(NewAgent {
                description: format!("work {number}"),
                prompt: format!("task {number}"),
                name: if random.one_in(3) { String::new() } else { name },
                phase: if random.one_in(2) { "research".into() } else { String::new() },
                wait: self.role == Role::Lead && random.one_in(2),
                ..NewAgent::default()
            }),
            6..=8 => Request::Send {
                session: String::new(),
                to: if random.one_in(3) { Address::Everyone } else { Address::Name(name) },
                body: Body::Text { text: format!("words {number}") },
                summary: String::new(),
                notify_when_idle: false,
            },
            9 => Request::AgentStop { agent: name },
            10 => Request::TeamCreate {
                session: String::new(),
                name: "team".into(),
                description: String::new(),
                agent_type: String::new(),
            },
            _ => Request::StructuredOutput { output: "{}".into() },
        }
    }
}
