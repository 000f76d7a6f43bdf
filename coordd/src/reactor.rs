//! The one loop: take, decide, commit, act.
//!
//! ```text
//!  peers ──┐                                                ┌──▶ outboxes of peers
//!  jobs ───┼──▶ inputs ──▶ sort ──▶ turn ──▶ commit ──▶ act ┼──▶ jobs (processes, files)
//!  clock ──┘  (bounded)                     (one fsync)     └──▶ hub (events)
//! ```
//!
//! It runs on a thread of its own, since `commit` blocks in fsync. Nothing is visible outside
//! before it is durable, and a failed commit ends the daemon: memory would be ahead of the disk.
//! For a full disk some space is kept (`space.rs`). It never waits for a peer: a peer whose outbox
//! is full is closed. It alone touches the core's state.

mod act;
pub(crate) mod ground;
mod order;
pub(crate) mod outside;
pub(crate) mod space;
pub(crate) mod teams;

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use coordd_core::id::{PeerId, SessionId};
use coordd_core::input::{Credentials, Lineage, Says};
use coordd_core::message::Outside;
use coordd_core::name::Name;
use coordd_core::{Core, Effect, Input, Moment, Record, Step};
use proto::error::ErrorBody;
use proto::request::Request;
use tokio::sync::mpsc;

use crate::clock::{self, Clock};
use crate::environment::EnvironmentError;
use crate::failpoint;
use crate::hub::Hub;
use crate::jobs::Jobs;
use crate::limits;
use crate::peer::{Handle, LookedUp};
use crate::store::Store;
use crate::store::lock::LockError;
use crate::translate::{self, Facts};

/// Something that reached the reactor.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A peer said hello.
    Opened {
        /// The connection.
        peer: PeerId,
        /// How to reach it.
        handle: Handle,
        /// Set when an agent speaks.
        credentials: Option<Credentials>,
        /// Where its program comes from, if it gives no credentials.
        lineage: Lineage,
    },
    /// A connection ended.
    Closed {
        /// The connection.
        peer: PeerId,
    },
    /// A peer asks for something.
    Call {
        /// The connection.
        peer: PeerId,
        /// The call.
        call: Box<proto::Call>,
        /// What it needs from the system.
        looked_up: LookedUp,
    },
    /// A call that is not understood. It goes through the reactor so that its answer comes after
    /// the welcome.
    Refused {
        /// The connection.
        peer: PeerId,
        /// The call's id.
        call: u64,
        /// The reason for the refusal.
        error: ErrorBody,
    },
    /// A message from outside to a session, or, without one, to the user.
    Outside {
        /// Who is spoken to.
        session: Option<SessionId>,
        /// Who speaks.
        from: Outside,
        /// What is said.
        says: Says,
        /// Told whether it is taken.
        done: tokio::sync::oneshot::Sender<bool>,
    },
    /// Something else happened.
    Input(Input),
    /// A warning that `daemon_status` keeps for later callers.
    Degraded(String),
    /// A sentence of [`Self::Degraded`] is no longer true.
    Mended(String),
    /// It is time to look whether what was put into the file system is still there.
    Look,
    /// The state folder is another daemon's by now.
    Lost(LockError),
    /// A team's files were written; if it changed meanwhile they are written again.
    TeamWritten(Name),
    /// Another program was changing a team's file; it must be written again with its present
    /// content.
    TeamHeld(Name),
    /// A team's inboxes were served; if there is more for them meanwhile they are served again.
    InboxesServed(Name),
    /// Somebody wants to know whether the loop still turns.
    Alive(tokio::sync::oneshot::Sender<()>),
}

/// The loop with all that it owns.
pub(crate) struct Reactor<S> {
    pub(crate) core: Core,
    pub(crate) store: S,
    pub(crate) clock: Clock,
    pub(crate) arrivals: mpsc::Receiver<Arrival>,
    pub(crate) jobs: Jobs,
    pub(crate) hub: Hub,
    pub(crate) facts: Facts,
    pub(crate) config: crate::config::Config,
    pub(crate) envs: crate::environment::Environments,
    pub(crate) space: space::Space,
    pub(crate) peers: HashMap<PeerId, Handle>,
    pub(crate) teams: teams::Teams,
    pub(crate) outside: outside::Outsiders,
    /// Gives the supervisor of the bridge the present wish.
    pub(crate) bridge: tokio::sync::watch::Sender<crate::bridge::Wanted>,
    /// Whether other machines need a new list of the sessions that they may message.
    pub(crate) announce_due: bool,
    /// Bytes of records since the store was last cleaned up.
    pub(crate) stale_bytes: usize,
    /// Sessions and running agents, as they were last told to the service manager.
    pub(crate) status: (usize, usize),
}

/// The records and effects of one batch, before it is committed.
#[derive(Default)]
struct Batch {
    /// The records, as JSON.
    lines: Vec<String>,
    bytes: usize,
    effects: Vec<Effect>,
    /// Calls that never reached the core. Answered last, after the welcomes among the effects.
    refused: Vec<(PeerId, u64, ErrorBody)>,
}

impl<S: Store> Reactor<S> {
    /// Runs until the core says that the daemon is to end, or until it cannot keep what it accepts. Then its peers are told so.
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        let ended = self.until_end().await;
        ended.map_err(|error| self.last_words(error))
    }

    async fn until_end(&mut self) -> anyhow::Result<()> {
        let mut arrived = Vec::with_capacity(limits::BATCH_LEN_MAX);
        self.reserve_space();
        let mut first = vec![Arrival::Input(Input::Started)];
        if !self.facts.degraded.is_empty() {
            first.push(Arrival::Input(Input::Damaged));
        }
        if self.batch(first)? {
            return Ok(());
        }
        loop {
            let deadline = self.clock.instant_of(self.core.live.next_deadline());
            let deadline = self.space.deadline().map_or(deadline, |it| it.min(deadline));
            let waiting = self.arrivals.recv_many(&mut arrived, limits::BATCH_LEN_MAX);
            if let Ok(0) = tokio::time::timeout_at(deadline.into(), waiting).await {
                return Ok(());
            }
            self.look_for_room();
            // Not only when nothing arrived: a busy queue must not starve the timers.
            if self.clock.monotonic_ms() >= self.core.live.next_deadline() {
                arrived.push(Arrival::Input(Input::Tick));
            }
            if self.batch(order::by_urgency(&mut arrived))? {
                return Ok(());
            }
        }
    }

    /// Takes a batch to its end. Returns whether the daemon is to end.
    fn batch(&mut self, arrived: Vec<Arrival>) -> anyhow::Result<bool> {
        let mut batch = Batch::default();
        let mut ends = false;
        for arrival in arrived {
            self.take(arrival, &mut batch)?;
            if batch.bytes >= limits::BATCH_BYTES_MAX {
                ends |= self.finish(std::mem::take(&mut batch))?;
            }
        }
        ends |= self.finish(batch)?;
        self.write_teams();
        self.serve_inboxes();
        self.show_sessions();
        self.announce();
        self.compact();
        self.say_status();
        if ends {
            let why = translate::error_body(&coordd_core::denial::Denial::ShuttingDown);
            for handle in self.peers.values() {
                // Each peer gets its queue and then this message.
                handle.close(Some(why.clone()));
            }
        }
        Ok(ends)
    }

    /// Commits, then acts.
    fn finish(&mut self, batch: Batch) -> anyhow::Result<bool> {
        failpoint::reach(failpoint::AFTER_DECIDE);
        if !batch.lines.is_empty() {
            failpoint::reach(failpoint::BEFORE_COMMIT);
            self.commit(&batch.lines)?;
            self.stale_bytes += batch.bytes;
            failpoint::reach(failpoint::AFTER_COMMIT);
        }
        let mut ends = false;
        for effect in batch.effects {
            ends |= effect == Effect::Exit;
            self.act(effect);
            failpoint::reach(failpoint::BETWEEN_EFFECTS);
        }
        for (peer, call, error) in batch.refused {
            self.reply(peer, call, proto::Outcome::Error(error));
        }
        for text in self.envs.take_damage() {
            self.degrade(text);
        }
        Ok(ends)
    }

    /// One line for `systemctl status`, when it changed.
    fn say_status(&mut self) {
        let now = (self.core.durable.sessions.len(), self.core.live.links.len());
        if self.status != now {
            self.status = now;
            crate::sd::status(&format!("serving {} sessions, {} agents running", now.0, now.1));
        }
    }

    fn take(&mut self, arrival: Arrival, batch: &mut Batch) -> anyhow::Result<()> {
        match arrival {
            Arrival::Opened { peer, handle, credentials, lineage } => {
                self.peers.insert(peer, handle);
                self.turn(Input::Connected { peer, credentials, lineage }, batch)?;
            }
            Arrival::Closed { peer } => {
                self.peers.remove(&peer);
                self.hub.forget(peer);
                self.turn(Input::Disconnected { peer }, batch)?;
            }
            Arrival::Call { peer, call, looked_up } => {
                self.call(peer, *call, looked_up, batch)?;
            }
            Arrival::Outside { session, from, says, done } => {
                let ticket = self.outside.keep(done);
                self.turn(Input::Outside { ticket, session, from, says }, batch)?;
            }
            Arrival::Refused { peer, call, error } => batch.refused.push((peer, call, error)),
            Arrival::Input(input) => {
                self.turn(input, batch)?;
            }
            Arrival::Degraded(text) => self.degrade(text),
            Arrival::Mended(text) => self.mended(&text),
            Arrival::Look => self.look()?,
            Arrival::Lost(error) => return Err(error).context("taking the state folder again"),
            Arrival::TeamWritten(team) => {
                self.teams.files.written(&team);
            }
            Arrival::TeamHeld(team) => self.teams.files.again(team),
            Arrival::InboxesServed(team) => {
                self.teams.inboxes.written(&team);
            }
            Arrival::Alive(asker) => {
                // The caller may have given up.
                let _told = asker.send(());
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        peer: PeerId,
        mut call: proto::Call,
        looked_up: LookedUp,
        batch: &mut Batch,
    ) -> anyhow::Result<()> {
        let is_new = matches!(call.request, Request::SessionNew { .. });
        let env = self.environment(&mut call.request);
        let request = match translate::request(call.request, looked_up) {
            Ok(request) => request,
            Err(error) => {
                batch.refused.push((peer, call.id, error));
                return Ok(());
            }
        };
        tracing::debug!(%peer, call = call.id, request = request.kind().as_str(), "call");
        let input = Input::Request { peer, call: call.id, key: call.key, request };
        let opened = self.turn(input, batch)?;
        if let (Some(env), Some(session)) = (env, opened) {
            let before = (!is_new).then(|| self.envs.of(&session));
            self.keep_environment(&session, env);
            // Compared as it is kept: variables that agents never get make no difference.
            if before.is_some_and(|before| before != self.envs.of(&session)) {
                self.turn(Input::EnvironmentChanged { session }, batch)?;
            }
        }
        Ok(())
    }

    /// Takes the environment out of a request that brings one, and puts the daemon's own settings
    /// in.
    fn environment(&self, request: &mut Request) -> Option<BTreeMap<String, String>> {
        if let Request::SessionNew { session } = request {
            session.scratchpad &= self.config.scratchpad;
            if session.workers == 0 {
                session.workers = self.config.workers;
            }
            Some(std::mem::take(&mut session.env))
        } else if let Request::SessionResume { env, .. } = request
            && !env.is_empty()
        {
            Some(std::mem::take(env))
        } else {
            None
        }
    }

    /// Before the commit that makes the session: one that exists has its environment. Where it
    /// cannot be written it is kept in memory, and said: the session works until the next daemon.
    fn keep_environment(&mut self, session: &SessionId, env: BTreeMap<String, String>) {
        let mut kept = self.envs.keep(session, env.clone());
        if kept.as_ref().is_err_and(EnvironmentError::is_disk_full) && self.make_room() {
            kept = self.envs.keep(session, env);
        }
        if let Err(error) = kept {
            self.degrade(format!(
                "{}; after a restart `coordctl resume {session}` gives the session a new one",
                coordd_common::chain(&error)
            ));
        }
    }

    /// Gives one input to the core. Returns the session that is opened by it, if one is.
    fn turn(&mut self, input: Input, batch: &mut Batch) -> anyhow::Result<Option<SessionId>> {
        let now = Moment {
            wall_ms: clock::wall_ms(),
            mono_ms: self.clock.monotonic_ms(),
            random: clock::random().context("drawing random numbers")?,
        };
        if tracing::enabled!(tracing::Level::TRACE) {
            tracing::trace!(input = order::name(&input), "input");
        }
        let Step { records, effects } = self.core.turn(&now, input);
        let opened = effects.iter().find_map(|effect| {
            if let Effect::OpenSession { session, .. } = effect {
                Some(session.clone())
            } else {
                None
            }
        });
        for record in &records {
            let line =
                serde_json::to_string::<Record>(record).context("writing a record as JSON")?;
            batch.bytes += line.len();
            batch.lines.push(line);
        }
        batch.effects.extend(effects);
        Ok(opened)
    }

    /// Answers a call. A peer that does not read its answers is closed.
    fn reply(&mut self, peer: PeerId, id: u64, outcome: proto::Outcome) {
        self.tell(peer, proto::FromDaemon::Reply(proto::Reply { id, outcome }));
    }

    fn tell(&mut self, peer: PeerId, message: proto::FromDaemon) {
        if let Some(handle) = self.peers.get(&peer)
            && !handle.tell(message)
        {
            tracing::warn!(%peer, "a peer that does not read is closed");
            self.close(peer, Some(crate::peer::too_slow()));
        }
    }

    fn close(&mut self, peer: PeerId, why: Option<ErrorBody>) {
        if let Some(handle) = self.peers.remove(&peer) {
            handle.close(why);
        }
    }
}
