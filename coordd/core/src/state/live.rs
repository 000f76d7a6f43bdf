//! What is true of this boot of the daemon only: who is connected, which processes are in sight, who waits for what.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::state::bridge::Bridge;
use crate::state::denial::Denial;
use crate::state::id::{AgentId, MessageId, PeerId, PermissionId, SessionId};
use crate::state::rates::Rates;
use crate::state::{Durable, limits};

/// Who speaks on a connection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Caller {
    /// The user.
    User,
    /// An agent.
    Agent(AgentId),
    /// A program that an agent started: neither the agent nor the user.
    ProgramOf(AgentId),
    /// The process that carries messages between machines.
    Bridge,
}

/// The live half of the state.
#[derive(Debug, Default)]
pub struct Live {
    /// Connections that said hello.
    pub peers: BTreeMap<PeerId, Caller>,
    /// Agents that have a process, or one being started.
    pub links: BTreeMap<AgentId, Link>,
    /// Agents that must be looked at.
    pub(crate) touched: BTreeSet<AgentId>,
    /// Whether a place among the running became free.
    pub(crate) place_freed: bool,
    /// Calls that are answered when something has happened.
    pub(crate) waiters: Vec<Waiting>,
    /// Set once the daemon is to end.
    pub(crate) ending: Option<Ending>,
    /// Set by the shell while the disk is full: what would only make it fuller is denied, the rest goes on.
    pub disk_full: bool,
    /// How many workers may be started in a minute, over all sessions (W-7); 0 is without limit. Set by the shell.
    pub starts_per_minute: u32,
    /// When workers were started, as far as that counts against the limit.
    pub(crate) starts_mono_ms: VecDeque<u64>,
    /// When the next worker may be started, where one was held back.
    pub(crate) start_due_mono_ms: Option<u64>,
    /// When old receipts were last looked for.
    pub(crate) forgot_mono_ms: Option<u64>,
    /// How much may still be said from outside.
    pub(crate) rates: Rates,
    /// How many processes in a row of an agent this daemon started that ended before their hello.
    pub(crate) stillborn: BTreeMap<AgentId, u32>,
    /// Who looks at the screens of which terminals.
    pub(crate) viewers: BTreeMap<AgentId, BTreeSet<PeerId>>,
    /// The bridge process.
    pub bridge: Bridge,
    /// Both clocks at the last input.
    pub(crate) seen: Option<Clocks>,
}

/// What the two clocks said at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clocks {
    pub(crate) wall_ms: u64,
    pub(crate) mono_ms: u64,
}

/// What is known of an agent's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Which incarnation.
    pub incarnation: u32,
    /// Its connection, when it has one.
    pub peer: Option<PeerId>,
    /// Messages handed over on this connection and not yet acknowledged.
    pub handed: BTreeSet<MessageId>,
    /// Whether the order to stop was given on this connection.
    pub told_to_stop: bool,
    /// What this daemon has seen of it.
    pub(crate) seen: Seen,
    /// When to do something about it: kill what is being stopped, give up on what never came back.
    pub deadline_mono_ms: Option<u64>,
}

impl Link {
    /// A process that was just started, or is expected back.
    pub(crate) fn new(incarnation: u32, seen: Seen) -> Self {
        Self {
            incarnation,
            seen,
            peer: None,
            handed: BTreeSet::new(),
            told_to_stop: false,
            deadline_mono_ms: None,
        }
    }
}

/// What this daemon has seen of a process. An agent is blamed only for what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An earlier daemon started it, and may have died while it did.
    Nothing,
    /// This daemon started it.
    Start,
    /// It said hello to this daemon.
    Hello,
}

/// How the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Whether agents go on without it.
    pub(crate) keep_agents: bool,
    /// Whether the shell was told.
    pub(crate) told: bool,
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// These processes are there no more.
    Gone {
        /// Which: the agents with the incarnation that is to be gone. One that starts again meanwhile is another.
        agents: BTreeMap<AgentId, u32>,
        /// The names of those that had one.
        names: Vec<String>,
        /// Messages that went back.
        bounced: u32,
        /// Set when the session is to be removed then.
        then_remove: Option<SessionId>,
    },
    /// The first run of this agent ended.
    Ran(AgentId),
    /// This question was answered.
    Answered(PermissionId),
    /// It is known whether this message reached its receiver outside.
    Handed(MessageId),
}

/// A call and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) peer: PeerId,
    pub(crate) call: u64,
    pub(crate) waiter: Waiter,
}

impl Live {
    /// Whether somebody who is connected waits for the answer to this question.
    pub(crate) fn is_awaited(&self, question: PermissionId) -> bool {
        self.waiters.iter().any(|it| matches!(&it.waiter, Waiter::Answered(id) if *id == question))
    }

    /// Has the agent looked at in this turn.
    pub(crate) fn touch(&mut self, agent: &AgentId) {
        self.touched.insert(agent.clone());
    }

    /// Whether one more call may wait. Asked before it does anything: a denied call changes nothing.
    pub(crate) fn has_room_to_wait(&self) -> Result<(), Denial> {
        if self.waiters.len() >= limits::WAITERS_MAX {
            return Err(Denial::Full { what: "calls that wait", max: limits::WAITERS_MAX });
        }
        Ok(())
    }

    /// Remembers a call that is answered later.
    pub(crate) fn wait(&mut self, peer: PeerId, call: u64, waiter: Waiter) {
        self.waiters.push(Waiting { peer, call, waiter });
    }

    /// A connection is no longer what it was: nobody waits on it, and nobody speaks on it.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) -> Option<Caller> {
        self.waiters.retain(|it| it.peer != peer);
        self.peers.remove(&peer)
    }

    /// Adds what went back at last to what calls that wait for the agent's end are told.
    pub(crate) fn count_bounced(&mut self, agent: &AgentId, count: u32) {
        for waiting in &mut self.waiters {
            if let Waiter::Gone { agents, bounced, .. } = &mut waiting.waiter
                && agents.contains_key(agent)
            {
                *bounced += count;
            }
        }
    }

    /// Whether the daemon is to end.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// How many workers were started in the last minute, where no more may be, and until when.
    pub(crate) fn starts_used_up(&self, mono_ms: u64) -> Option<(usize, u64)> {
        let max = usize::try_from(self.starts_per_minute).unwrap_or(usize::MAX);
        let over = |at: &u64| at.saturating_add(limits::STARTS_WINDOW_MS);
        let mut recent = self.starts_mono_ms.iter().filter(|it| over(it) > mono_ms);
        let oldest = recent.next()?;
        let count = recent.count() + 1;
        (max > 0 && count >= max).then(|| (count, over(oldest)))
    }

    /// Counts a start of a worker.
    pub(crate) fn count_start(&mut self, mono_ms: u64) {
        if self.starts_per_minute > 0 {
            let over = |at: &u64| at.saturating_add(limits::STARTS_WINDOW_MS) <= mono_ms;
            while self.starts_mono_ms.front().is_some_and(over) {
                self.starts_mono_ms.pop_front();
            }
            self.starts_mono_ms.push_back(mono_ms);
        }
    }

    /// When the next `Tick` is due, on the clock of `Moment::mono_ms`.
    pub fn next_deadline(&self) -> u64 {
        let forget = self.forgot_mono_ms.map_or(0, |at| at.saturating_add(limits::FORGET_EVERY_MS));
        self.links
            .values()
            .filter_map(|link| link.deadline_mono_ms)
            .chain(self.start_due_mono_ms)
            .min()
            .map_or(forget, |at| at.min(forget))
    }

    /// How many places of each session are taken, by workers that have a process or one being started. Who waits for a person
    /// holds none, but for those beyond [`limits::ASKING_BESIDE_MAX`].
    pub(crate) fn places_taken<'a>(&self, durable: &'a Durable) -> BTreeMap<&'a SessionId, u32> {
        let asks = durable.askers();
        let (mut taken, mut asking) = (BTreeMap::new(), BTreeMap::<_, u32>::new());
        let agents = self.links.keys().filter_map(|id| durable.agents.get(id));
        for worker in agents.filter(|agent| agent.takes_a_place()) {
            let taken = taken.entry(&worker.session).or_default();
            let asking = asking.entry(&worker.session).or_default();
            if asks.contains(&worker.id) && *asking < limits::ASKING_BESIDE_MAX {
                *asking += 1;
            } else {
                *taken += 1;
            }
        }
        taken
    }
}
