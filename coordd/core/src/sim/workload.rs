//! What users want, and what goes wrong.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::agent::{FromDaemon, OpenCall};
use super::world::{Frame, World};
use crate::id::PeerId;
use crate::request::{Address, Body, NewSession, Request};
use crate::task::TaskStatus;
use crate::{Input, limits};

/// A client of the user.
#[derive(Default)]
pub(super) struct User {
    pub(super) peer: Option<PeerId>,
    is_welcome: bool,
    /// Calls without an answer.
    pub(super) open: BTreeMap<u64, OpenCall>,
    unsent_from: u64,
    last_call: u64,
    /// Answered calls with a key; they may be made again.
    done: Vec<OpenCall>,
}

impl User {
    /// What has a key is asked again on the next connection; everything else is given up.
    pub(super) fn lose_connection(&mut self) {
        self.peer = None;
        self.is_welcome = false;
        self.open.retain(|_, it| it.key.is_some());
        self.unsent_from = 0;
    }

    pub(super) fn take(&mut self, what: &FromDaemon) {
        match what {
            FromDaemon::Welcome => self.is_welcome = true,
            FromDaemon::Reply { call, .. } => {
                let open = self.open.remove(call).expect("an answer to no open call");
                if open.key.is_some() {
                    self.done.push(open);
                }
            }
            FromDaemon::Closed | FromDaemon::Deliver(_) | FromDaemon::Order(_) => {
                panic!("a user is told {what:?}")
            }
        }
    }

    fn call(&mut self, key: Option<String>, request: Request) {
        self.last_call += 1;
        self.open.insert(self.last_call, OpenCall { key, request });
    }
}

const NAMES: [&str; 7] = ["lead", "w1", "w2", "w3", "w4", "task-1", "nobody"];
const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

impl World {
    /// Users connect, send what they have not sent, and once calm answer what is asked. Returns whether they did anything.
    pub(super) fn attend(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.users.len() {
            let Some(peer) = self.users[at].peer else {
                self.connect_user(at);
                any = true;
                continue;
            };
            let user = &mut self.users[at];
            let Some(wire) = self.wires.get_mut(&peer).filter(|_| user.is_welcome) else {
                continue;
            };
            for (call, open) in user.open.range(user.unsent_from..) {
                let (key, request) = (open.key.clone(), open.request.clone());
                wire.push_back(Frame::Call { call: *call, key, request: Box::new(request) });
                user.unsent_from = call + 1;
                any = true;
            }
        }
        if self.is_calm && self.users[0].open.is_empty() {
            let open = self.core.durable.permissions.values().find(|it| it.answer.is_none());
            if let Some(id) = open.map(|it| it.id.to_string()) {
                self.wish(
                    0,
                    Request::PermissionAnswer {
                        id,
                        allow: true,
                        always: true,
                        reason: String::new(),
                    },
                );
                any = true;
            }
        }
        any
    }

    /// A user asks for something, with a key or without one.
    pub(super) fn wish(&mut self, at: usize, request: Request) {
        let key = self.random.one_in(2).then(|| format!("key-{}", self.random.next()));
        self.users[at].call(key, request);
    }

    fn session(&mut self) -> String {
        let names: Vec<_> =
            self.core.durable.sessions.values().map(|it| it.name.to_string()).collect();
        self.random.pick(&names).unwrap_or_else(|| "none".into())
    }

    /// Mostly an agent that there is.
    fn name(&mut self) -> String {
        let names: Vec<_> =
            self.core.durable.agents.values().map(|it| it.name.to_string()).collect();
        let known = self.random.pick(&names).filter(|_| !self.random.one_in(5));
        known.unwrap_or_else(|| String::from(self.random.pick(&NAMES).unwrap()))
    }

    /// Somebody wants something.
    pub(super) fn wish_something(&mut self) {
        if self.stir() || self.wish_far() {
            return;
        }
        let at = self.random.below(self.users.len());
        let few = self.core.durable.sessions.len() < 2;
        let request = match self.random.below(32) {
            0 if few => self.new_session(),
            1..=19 if self.core.durable.sessions.is_empty() => self.new_session(),
            0..=8 => {
                let agent = self.random.one_in(4).then(|| self.name());
                Request::Prompt { session: self.session(), agent, text: "do this".into() }
            }
            9..=12 => Request::Send {
                session: self.session(),
                to: if self.random.one_in(3) {
                    Address::Everyone
                } else {
                    Address::Name(self.name())
                },
                body: if self.random.one_in(5) {
                    Body::ShutdownRequest { reason: "enough".into() }
                } else {
                    Body::Text { text: "by the way".into() }
                },
                summary: String::new(),
                notify_when_idle: false,
            },
            13..=15 => {
                let (session, name) = (self.session(), self.name());
                Request::AgentStop { agent: format!("{session}/{name}") }
            }
            16 if self.random.one_in(2) => Request::SessionStop { session: self.session() },
            16..=18 => Request::SessionResume { session: self.session(), mode_variable: None },
            19 if self.random.one_in(2) => {
                Request::SessionRemove { session: self.session(), force: self.random.one_in(2) }
            }
            20..=23 => self.answer_something(),
            24 => Request::Interrupt { session: self.session() },
            25 => Request::TeamDelete { session: self.session() },
            26..=27 => self.work_on_tasks(),
            28..=30 => self.repeat(at),
            _ if self.random.one_in(3) => {
                Request::DaemonStop { keep_agents: self.random.one_in(2) }
            }
            _ => Request::DaemonStatus,
        };
        self.wish(at, request);
    }

    /// A call that was answered is made once more, with its key; or a harmless one.
    fn repeat(&mut self, at: usize) -> Request {
        if let Some(done) = self.random.pick(&self.users[at].done) {
            self.users[at].call(done.key, done.request);
        }
        Request::SessionList
    }

    fn new_session(&mut self) -> Request {
        let coordinator = cfg!(feature = "coordinator") && self.random.one_in(2);
        Request::SessionNew(NewSession {
            cwd: "/home/ada/here".into(),
            model: Some(crate::tests::model()),
            mode: Some(if coordinator { "coordinator" } else { "normal" }.into()),
            scratchpad: self.random.one_in(2),
            workers: 1 + u32::try_from(self.random.below(2)).unwrap(),
            prompt: if self.random.one_in(3) { String::new() } else { "begin".into() },
            ..NewSession::default()
        })
    }

    fn answer_something(&mut self) -> Request {
        let open = self.core.durable.permissions.values().filter(|it| it.answer.is_none());
        let open: Vec<_> = open.map(|it| it.id.to_string()).collect();
        let id = self.random.pick(&open).unwrap_or_else(|| "p1".into());
        let (allow, always) = (self.random.one_in(2), self.random.one_in(2));
        Request::PermissionAnswer { id, allow, always, reason: String::new() }
    }

    fn work_on_tasks(&mut self) -> Request {
        let team = self.session();
        let task = 1 + u32::try_from(self.random.below(3)).unwrap();
        let statuses = [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed];
        match self.random.below(3) {
            0 => Request::TaskCreate {
                team,
                subject: "one thing".into(),
                description: String::new(),
                blocked_by: Vec::new(),
            },
            1 => Request::TeamCreate {
                session: team,
                name: "team".into(),
                description: String::new(),
                agent_type: String::new(),
            },
            _ => Request::TaskUpdate {
                team,
                task,
                status: self.random.pick(&statuses),
                owner: Some(self.name()),
                blocked_by: None,
            },
        }
    }

    /// Something goes wrong.
    pub(super) fn fault(&mut self) {
        match self.random.below(14) {
            0..=2 => self.crash(),
            3..=5 => {
                if let Some(place) = self.any_process() {
                    self.die(&place, "signal 9");
                }
            }
            6..=8 => {
                if let Some(peer) = self.any_peer() {
                    self.drop_connection(peer);
                }
            }
            9 => {
                self.wall_ms = self.wall_ms.saturating_add(YEAR_MS);
                self.crowd.clock_was_set = true;
            }
            10 => self.wall_ms = self.wall_ms.saturating_sub(YEAR_MS),
            11..=12 => self.say_something_late(),
            _ => self.pass(limits::FORGET_EVERY_MS),
        }
    }

    /// A report about an incarnation that is no more, or about one that has only just been started.
    fn say_something_late(&mut self) {
        let agents: Vec<_> =
            self.core.durable.agents.values().map(|it| (it.id.clone(), it.incarnation)).collect();
        let Some((agent, incarnation)) = self.random.pick(&agents) else { return };
        if self.random.one_in(2) {
            if let Some(earlier) = incarnation.checked_sub(1) {
                self.report_exit(&(agent, earlier), "late");
            }
        } else if self.processes.contains_key(&(agent.clone(), incarnation)) {
            self.report_spawn(&(agent, incarnation));
        }
    }

    /// One of the small things that happen all the time.
    pub(super) fn happen(&mut self) {
        let ms = self.random.next() % 300;
        self.pass(ms);
        self.far_happens();
        match self.random.below(24) {
            0..=9 => {
                if let Some(place) = self.any_process() {
                    self.step_agent(&place);
                }
            }
            10..=15 => {
                self.deliver_frame();
            }
            16..=17 => {
                self.report_one();
            }
            18 => {
                self.start_one();
            }
            19..=21 => {
                self.commit();
            }
            22 => {
                self.attend();
            }
            _ => self.turn(Input::Tick),
        }
        if self.has_exited {
            // Another daemon is started.
            self.restart();
        }
    }
}
