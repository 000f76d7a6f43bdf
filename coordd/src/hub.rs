//! The data plane: what agents stream, and events, to subscribers. None of it passes the core.
//!
//! ```text
//!  reactor ──events──────────────┐               ┌──▶ subscribers (events)
//!  agents ──entries, deltas ─────┼──▶ hub task ──┼──▶ viewers (events, one agent's transcript, activity; one agent's screen)
//!           activity, screens    │   (one owner) └──▶ replies that say what agents are doing
//! ```
//!
//! A subscriber that is too slow is told of a gap, and never holds up another one. A viewer gets
//! the past from the transcript on disk and then the live entries that the file did not hold, each
//! once.

mod looking;
mod viewing;
mod watcher;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use coordd_core::id::PeerId;
use proto::agent::{Activity, Report};
use proto::event::{Event, Numbered};
use proto::hello::Welcome;
use proto::response::Response;
use proto::view::{AgentState, AgentView};
use proto::{FromDaemon, Outcome};
use tokio::sync::{Semaphore, mpsc};
use watcher::{Watcher, weight};

use crate::limits;
use crate::peer::Handle;

/// What a viewer wants to see.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) session: String,
    pub(crate) agent: String,
    pub(crate) name: String,
    pub(crate) transcript: PathBuf,
    pub(crate) history: Option<u32>,
}

#[derive(Debug)]
enum Said {
    Published {
        session: String,
        event: Box<Event>,
        at_ms: u64,
    },
    Reported {
        agent: String,
        report: Box<Report>,
        at_ms: u64,
    },
    Subscribed {
        peer: PeerId,
        handle: Handle,
        session: Option<String>,
        after: Option<u64>,
        call: u64,
    },
    Attached {
        peer: PeerId,
        handle: Handle,
        viewer: Box<Viewer>,
        call: u64,
    },
    Looked {
        peer: PeerId,
        handle: Handle,
        session: String,
        agent: String,
        call: u64,
    },
    /// A viewer has been sent the past, up to this entry.
    CaughtUp {
        peer: PeerId,
        last: u64,
    },
    Answer {
        handle: Handle,
        call: u64,
        response: Box<Response>,
    },
    Forget {
        peer: PeerId,
    },
}

/// A handle to the hub. Cheap to clone; no method blocks.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    said: mpsc::Sender<Said>,
    welcome: Arc<Welcome>,
}

impl Hub {
    /// A handle to a new hub, and its task, which ends when the last handle is dropped.
    pub(crate) fn new(boot: String, reads: Arc<Semaphore>) -> (Self, impl Future<Output = ()>) {
        let (said, hears) = mpsc::channel(limits::HUB_WAITING_MAX);
        let welcome = Welcome {
            protocol: proto::hello::PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            boot: boot.clone(),
        };
        let hub = Self { said, welcome: Arc::new(welcome) };
        let task = Task {
            boot,
            back: hub.said.downgrade(),
            reads,
            seq: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            watchers: BTreeMap::new(),
            agents: HashMap::new(),
        };
        (hub, task.run(hears))
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self::new("test".to_owned(), Arc::new(Semaphore::new(1))).0
    }

    /// The answer to a hello.
    pub(crate) fn welcome(&self) -> Welcome {
        Welcome::clone(&self.welcome)
    }

    pub(crate) fn publish(&self, session: &str, event: Event) {
        let at_ms = crate::clock::wall_ms();
        self.say(Said::Published { session: session.to_owned(), event: Box::new(event), at_ms });
    }

    pub(crate) fn report(&self, agent: &str, report: Report) {
        let at_ms = crate::clock::wall_ms();
        self.say(Said::Reported { agent: agent.to_owned(), report: Box::new(report), at_ms });
    }

    pub(crate) fn subscribe(
        &self,
        peer: PeerId,
        handle: Handle,
        session: Option<String>,
        after: Option<u64>,
        call: u64,
    ) {
        self.say(Said::Subscribed { peer, handle, session, after, call });
    }

    pub(crate) fn attach(&self, peer: PeerId, handle: Handle, viewer: Viewer, call: u64) {
        self.say(Said::Attached { peer, handle, viewer: Box::new(viewer), call });
    }

    /// Shows an agent's screen to a connection, which gets the next whole picture.
    pub(crate) fn look(
        &self,
        peer: PeerId,
        handle: Handle,
        session: String,
        agent: String,
        call: u64,
    ) {
        self.say(Said::Looked { peer, handle, session, agent, call });
    }

    /// Answers a call with views of agents, which the hub completes with what they are doing.
    pub(crate) fn answer(&self, handle: Handle, call: u64, response: Response) {
        let said = Said::Answer { handle, call, response: Box::new(response) };
        if let Err(mpsc::error::TrySendError::Full(Said::Answer { handle, response, .. })) =
            self.said.try_send(said)
        {
            // The answer is sent even if the hub is full: without the hub's part it is still true.
            handle.reply(call, Outcome::Ok(response));
        }
    }

    pub(crate) fn forget(&self, peer: PeerId) {
        self.say(Said::Forget { peer });
    }

    fn say(&self, said: Said) {
        if self.said.try_send(said).is_err() {
            tracing::warn!("the hub cannot keep up; events were dropped");
        }
    }
}

/// The hub's own state.
#[derive(Debug)]
struct Task {
    boot: String,
    /// A weak handle, for tasks that the hub starts; it does not keep the hub alive.
    back: mpsc::WeakSender<Said>,
    /// Places for reading transcripts.
    reads: Arc<Semaphore>,
    seq: u64,
    kept: VecDeque<Arc<FromDaemon>>,
    kept_bytes: usize,
    watchers: BTreeMap<PeerId, Watcher>,
    agents: HashMap<String, Known>,
}

/// What the hub knows of an agent.
#[derive(Debug, Default)]
struct Known {
    session: String,
    name: String,
    activity: Option<Activity>,
}

/// An event of a stream, which is not kept.
fn unnumbered(session: String, event: Event) -> FromDaemon {
    FromDaemon::Event(Box::new(Numbered { seq: 0, at_ms: crate::clock::wall_ms(), session, event }))
}

impl Task {
    async fn run(mut self, mut hears: mpsc::Receiver<Said>) {
        while let Some(said) = hears.recv().await {
            match said {
                Said::Published { session, event, at_ms } => {
                    self.published(&session, *event, at_ms);
                }
                Said::Reported { agent, report, at_ms } => self.reported(&agent, *report, at_ms),
                Said::Subscribed { peer, handle, session, after, call } => {
                    self.subscribed(peer, handle, session, after, call);
                }
                Said::Attached { peer, handle, viewer, call } => {
                    self.attached(peer, handle, *viewer, call);
                }
                Said::Looked { peer, handle, session, agent, call } => {
                    self.looked(peer, handle, session, agent, call);
                }
                Said::CaughtUp { peer, last } => self.caught_up(peer, last),
                Said::Answer { handle, call, response } => {
                    let response = self.with_activity(*response);
                    let outcome = Outcome::Ok(Box::new(response));
                    handle.reply(call, outcome);
                }
                Said::Forget { peer } => {
                    self.watchers.remove(&peer);
                }
            }
        }
    }

    fn published(&mut self, session: &str, event: Event, at_ms: u64) {
        self.learn(session, &event);
        self.seq += 1;
        let numbered = Numbered { seq: self.seq, at_ms, session: session.to_owned(), event };
        let message = Arc::new(FromDaemon::Event(Box::new(numbered)));
        self.kept_bytes += weight(&message);
        self.kept.push_back(Arc::clone(&message));
        while self.kept.len() > limits::EVENTS_KEPT_MAX
            || self.kept_bytes > limits::EVENTS_KEPT_BYTES_MAX
        {
            let Some(gone) = self.kept.pop_front() else { break };
            self.kept_bytes -= weight(&gone);
        }
        for watcher in self.watchers.values_mut() {
            if watcher.session.as_ref().is_none_or(|wanted| wanted == session) {
                watcher.tell(&message);
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only these events name agents")]
    /// Keeps the list of agents and their names up to date.
    fn learn(&mut self, session: &str, event: &Event) {
        match event {
            Event::AgentCreated { agent } => self.know(&agent.id, session, &agent.name),
            Event::AgentChanged { agent, name, state, .. } => {
                self.know(agent, session, name);
                let rests = matches!(state, AgentState::Stopped | AgentState::Waiting);
                if rests && let Some(known) = self.agents.get_mut(agent) {
                    known.activity = None;
                }
            }
            Event::SessionRemoved {} => self.agents.retain(|_, known| known.session != session),
            _ => {}
        }
    }

    fn know(&mut self, agent: &str, session: &str, name: &str) {
        let known = self.agents.entry(agent.to_owned()).or_default();
        session.clone_into(&mut known.session);
        name.clone_into(&mut known.name);
    }

    fn reported(&mut self, agent: &str, report: Report, at_ms: u64) {
        let Some(known) = self.agents.get_mut(agent) else { return };
        let (session, name) = (known.session.clone(), known.name.clone());
        if let Report::Activity { activity } = &report {
            known.activity = Some(activity.clone());
        }
        if let Report::Screen { frame } = report {
            self.screen(agent, (session, at_ms), frame);
            return;
        }
        let message = |event| {
            Arc::new(FromDaemon::Event(Box::new(Numbered {
                seq: 0,
                at_ms,
                session: session.clone(),
                event,
            })))
        };
        match report {
            Report::Activity { activity } => {
                let message = message(Event::Activity { agent: agent.to_owned(), name, activity });
                let all = self.watchers.values_mut();
                all.filter(|it| it.view.is_some() && it.session.as_ref() == Some(&session))
                    .for_each(|it| it.tell(&message));
            }
            Report::Delta { text } => {
                let message = message(Event::Delta { agent: agent.to_owned(), text });
                // A dropped piece of text is no gap: the whole text follows as an entry.
                for watcher in self.watchers.values().filter(|watcher| watcher.shows_live(agent)) {
                    watcher.handle.share(&message);
                }
            }
            Report::Entry { entry } => {
                let entry = crate::transcript::shown(entry);
                let seq = entry.seq;
                let message = message(Event::Entry { agent: agent.to_owned(), name, entry });
                for watcher in self.watchers.values_mut() {
                    watcher.entry(agent, seq, &message);
                }
            }
            // Shown above.
            Report::Screen { .. } => {}
        }
    }

    fn subscribed(
        &mut self,
        peer: PeerId,
        handle: Handle,
        session: Option<String>,
        after: Option<u64>,
        call: u64,
    ) {
        self.answer_subscribed(&handle, call);
        let mut watcher =
            Watcher { handle, session, view: None, look: None, past: None, missed: 0 };
        if let Some(after) = after {
            self.replay(&mut watcher, after);
        }
        self.watchers.insert(peer, watcher);
    }

    fn answer_subscribed(&self, handle: &Handle, call: u64) {
        let response = Response::Subscribed { seq: self.seq, boot: self.boot.clone() };
        handle.reply(call, Outcome::Ok(Box::new(response)));
    }

    /// The kept events after a number; a gap stands for those that are no longer kept (case A40).
    fn replay(&self, watcher: &mut Watcher, after: u64) {
        let oldest = self.seq - self.kept.len() as u64;
        if after < oldest || after > self.seq {
            let missed = (after < oldest).then(|| oldest - after);
            watcher.handle.tell(unnumbered(String::new(), Event::Gap { missed }));
        }
        for message in &self.kept {
            let FromDaemon::Event(numbered) = message.as_ref() else { continue };
            let wanted =
                watcher.session.as_ref().is_none_or(|session| *session == numbered.session);
            if numbered.seq > after && wanted {
                watcher.tell(message);
            }
        }
    }

    fn with_activity(&self, mut response: Response) -> Response {
        let complete = |agent: &mut AgentView| {
            agent.activity = self.agents.get(&agent.id).and_then(|known| known.activity.clone());
        };
        if let Response::SessionDetail { agents, .. } = &mut response {
            agents.iter_mut().for_each(complete);
        } else if let Response::Agent { agent } = &mut response {
            complete(agent);
        }
        response
    }
}

#[cfg(test)]
mod tests;
