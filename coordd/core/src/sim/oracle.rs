//! What must be true, whatever happens.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use proto_words::address::Place;

use super::agent::Folder;
use super::world::World;
use crate::agent::{Agent, Life, Status};
use crate::denial::Denial;
use crate::id::{AgentId, MessageId, PeerId, SessionId};
use crate::message::{Kind, Message, Sender, State};
use crate::record::Keyed;
use crate::role::Role;
use crate::session::{Session, SessionState};
use crate::{Core, Durable, Effect, Record, Step};

/// What was promised so far.
#[derive(Default)]
pub(super) struct Oracle {
    /// Every message that is on disk, with its session and its receiver.
    accepted: BTreeMap<MessageId, (SessionId, AgentId)>,
    /// What came from outside, by sender and its own id.
    heard: BTreeSet<(Place, String)>,
    /// How messages ended.
    finals: BTreeMap<MessageId, State>,
    /// Messages that are said not to have reached a process.
    never_got: BTreeSet<MessageId>,
    /// Messages that went back, with the agents that sent them and are to be told.
    untold: BTreeMap<MessageId, AgentId>,
    /// Runs of workers that ended, and how.
    ended: BTreeMap<(AgentId, u32), Status>,
    /// Notifications of them.
    notified: BTreeMap<(AgentId, u32), MessageId>,
    /// What keys led to, and when by a clock that nobody sets.
    keys: BTreeMap<(String, String), (Keyed, u64, u64)>,
    /// Incarnations that said hello to the present daemon.
    met: BTreeSet<(AgentId, u32)>,
    /// Calls that were answered.
    answered: BTreeSet<(PeerId, u64)>,
}

/// How long a key is good at least, whatever the clocks do.
const KEY_KEPT_MS: u64 = 10 * 60 * 1_000;

/// How many workers of a session hold a place: those with a process that wait for no person (fA6).
fn holders(durable: &Durable, session: &Session) -> usize {
    let of_session = durable.agents.values().filter(|agent| agent.session == session.id);
    of_session.filter(|agent| agent.has_process() && holds_a_place(durable, agent)).count()
}

fn holds_a_place(durable: &Durable, agent: &Agent) -> bool {
    agent.takes_a_place() && durable.open_questions(&agent.id).next().is_none()
}

impl Oracle {
    /// Nobody waits for a place while one is free.
    fn places_are_used(core: &Core) {
        let durable = &core.durable;
        if core.live.is_ending() || core.live.start_due_mono_ms.is_some() {
            return;
        }
        for agent in durable.agents.values().filter(|agent| agent.life == Life::Waiting) {
            let session = &durable.sessions[&agent.session];
            let is_free = holders(durable, session) < session.workers_running_max as usize;
            assert!(!is_free, "W-7: {} waits although a place is free", agent.name);
        }
    }

    /// A step was decided. `request` says which call it is about.
    pub(super) fn decided(core: &Core, step: &Step, request: Option<(PeerId, u64)>) {
        let durable = &core.durable;
        for record in &step.records {
            if let Record::AgentStarted { agent, .. } = record {
                let agent = &durable.agents[agent];
                let session = &durable.sessions[&agent.session];
                assert_eq!(session.state, SessionState::Live, "a stopped session starts nothing");
                assert!(!core.live.is_ending(), "a daemon that ends starts nothing");
                assert!(!agent.parked, "A13: {} was stopped, and nobody spoke to it", agent.name);
                let (running, max) = (holders(durable, session), session.workers_running_max);
                let needs_place = holds_a_place(durable, agent);
                assert!(
                    !needs_place || running <= max as usize,
                    "W-7: {running} workers of {max} run"
                );
            }
        }
        Self::places_are_used(core);
        for effect in &step.effects {
            if let Effect::Deliver { message, .. } = effect {
                let agent = &durable.agents[&durable.messages[message].to];
                assert_eq!(agent.life, Life::Up, "what is ended gets no mail");
            }
            if let Effect::Reply { peer, call, outcome: Err(denial) } = effect
                && request == Some((*peer, *call))
                && !matches!(denial, Denial::AskerStopped | Denial::SessionLive { .. })
            {
                assert_eq!(step.records, [], "a denied call changes nothing: {denial:?}");
            }
        }
    }

    /// fR4: an agent is blamed only for ends that this daemon saw, of an incarnation that had said hello.
    pub(super) fn blamed(&mut self, durable: &Durable, step: &Step) {
        for record in &step.records {
            if let Record::AgentExited { agent, incarnation, again: true, counted: true } = record {
                let has_met = self.met.contains(&(agent.clone(), *incarnation));
                assert!(has_met, "fR4: {agent} is blamed for incarnation {incarnation}");
            }
        }
        for effect in &step.effects {
            if let Effect::Welcome { agent: Some(id), .. } = effect {
                self.met.insert((id.clone(), durable.agents[id].incarnation));
            }
        }
    }

    /// Another daemon begins.
    pub(super) fn restarted(&mut self) {
        self.met.clear();
    }

    /// A record is on disk. `before` is the state that it changes.
    pub(super) fn committed(
        &mut self,
        before: &Durable,
        record: &Record,
        folders: &BTreeMap<AgentId, Folder>,
        true_ms: u64,
    ) {
        let has = |agent: &AgentId, message: MessageId| {
            folders.get(agent).is_some_and(|it| it.has(message))
        };
        match record {
            Record::MessagePut { message } => self.accept(message),
            Record::MessageLetIn { message, new } => {
                let place = self.accepted.remove(message).expect("held");
                self.accepted.insert(*new, place);
            }
            Record::MessageExpired { message, .. } => self.finish(*message, State::Expired),
            Record::MessagesConsumed { agent, messages, .. } => {
                for id in messages {
                    assert!(
                        has(agent, *id),
                        "{id} is not in the conversation that it is said to be in"
                    );
                    self.finish(*id, State::Consumed);
                }
            }
            Record::MessageBounced { message, .. } => {
                let bounced = &before.messages[message];
                assert_ne!(bounced.from, Sender::System, "N-4: what coordd says does not bounce");
                if bounced.state == State::Accepted {
                    self.never_got.insert(*message);
                }
                // How a worker's first run ended says what became of its task.
                if let (Sender::Agent(from), false) = (&bounced.from, bounced.kind == Kind::Prompt)
                {
                    self.untold.insert(*message, from.clone());
                }
                self.finish(*message, State::Bounced);
            }
            Record::RunEnded { agent, run, outcome, .. } => {
                let agent = &before.agents[agent];
                assert!(*run > agent.runs, "rel-52: run {run} of {} ends again", agent.name);
                self.ended.insert((agent.id.clone(), *run), outcome.status);
            }
            Record::Keyed { caller, key, to, at_ms } => {
                let name = (caller.clone(), key.clone());
                let before = self.keys.insert(name, (to.clone(), true_ms, *at_ms));
                assert!(before.is_none(), "A39: {key} of {caller} had its effect twice");
            }
            Record::Forgotten { before_ms } => self.forget(before, *before_ms, true_ms),
            _ => {}
        }
    }

    fn forget(&mut self, before: &Durable, before_ms: u64, true_ms: u64) {
        self.heard.retain(|name| {
            let message = before.heard.get(name).and_then(|id| before.messages.get(id));
            message.is_some_and(|it| it.ended_ms.is_none_or(|at| at >= before_ms))
        });
        self.keys.retain(|(caller, key), (_, put_ms, at_ms)| {
            let agent = before.agents.get(&AgentId(caller.clone()));
            let kept = *at_ms >= before_ms || agent.is_some_and(Agent::run_is_open);
            let age = true_ms - *put_ms;
            assert!(kept || age >= KEY_KEPT_MS, "{key} is forgotten after {age} ms");
            kept
        });
    }

    fn accept(&mut self, message: &Message) {
        let place = (message.session.clone(), message.to.clone());
        assert!(self.accepted.insert(message.id, place).is_none(), "{} again", message.id);
        if let Sender::Outside(from) = &message.from
            && !from.message.is_empty()
        {
            let is_new = self.heard.insert((from.address.clone(), from.message.clone()));
            assert!(is_new, "rel-18: {} is heard twice", from.message);
        }
        if let Kind::Notification { agent, run, .. } = &message.kind {
            let before = self.notified.insert((agent.clone(), *run), message.id);
            assert_eq!(before, None, "N-4: a second notification of run {run}");
        }
        if let (Sender::System, Kind::Text) = (&message.from, &message.kind) {
            let words = message.text.split([' ', ',', '.']);
            let told: BTreeSet<_> = words.filter_map(MessageId::parse).collect();
            self.untold.retain(|id, from| *from != message.to || !told.contains(id));
        }
    }

    fn finish(&mut self, message: MessageId, state: State) {
        let before = self.finals.insert(message, state);
        assert_eq!(before, None, "rel-80: {message} is {state:?} after its end");
    }

    /// The shell removes what a session has, and answers.
    pub(super) fn removed(committed: &Durable, session: &SessionId) {
        let is_there = committed.sessions.contains_key(session);
        assert!(!is_there, "C13: the removal of {session} is answered before it is on disk");
    }

    /// A call is answered.
    pub(super) fn answer(&mut self, peer: PeerId, call: u64) {
        assert!(self.answered.insert((peer, call)), "{peer} is answered twice on call {call}");
    }

    /// Nothing happens any more. `all_spoken_to` says that every session is live and every lead was spoken to since the
    /// faults ended.
    pub(super) fn at_rest(world: &World, all_spoken_to: bool) {
        let (oracle, durable) = (&world.oracle, &world.core.durable);
        assert_eq!(world.core.live.waiters, [], "a call waits for ever");
        world.outside_rests();
        world.far_rests();
        for ((agent, _), process) in world.processes.iter().filter(|(_, it)| it.is_welcome) {
            let session = &durable.sessions[&durable.agents[agent].session];
            let missed = session.rules_learned.iter().find(|rule| !process.rules.contains(*rule));
            assert_eq!(missed, None, "A-3: {agent:?} has not learned a rule of its session");
        }
        for agent in durable.agents.values() {
            if durable.sessions[&agent.session].state == SessionState::Live {
                rests(agent, durable, all_spoken_to);
            }
        }
        for folder in world.folders.values() {
            let ids: Vec<_> = folder.transcript.iter().map(|(id, _)| *id).collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "M-3: out of order or twice: {ids:?}");
            for id in &ids {
                assert!(!oracle.never_got.contains(id), "{id} bounced unread, and was read");
            }
        }
        for (id, (session, to)) in &oracle.accepted {
            let Some(session) = durable.sessions.get(session) else { continue };
            match oracle.finals.get(id) {
                Some(State::Consumed) => {
                    assert!(world.folders[to].has(*id), "M-3: {id} is not in the conversation");
                }
                Some(_) => {}
                None if durable.messages[id].state == State::Held => {}
                None => {
                    let is_kept =
                        durable.agents[to].parked || session.state == SessionState::Stopped;
                    assert!(is_kept && !all_spoken_to, "M-3: {id} reached nobody");
                }
            }
        }
        for (id, from) in &oracle.untold {
            assert!(
                !durable.agents.contains_key(from),
                "M-4: {from} is not told that {id} went back"
            );
        }
        for (agent, run) in oracle.ended.keys() {
            if let Some(agent) = durable.agents.get(agent).filter(|it| it.role == Role::Worker) {
                oracle.told(world, agent, *run);
            }
        }
    }

    /// N-4: somebody was told of this run.
    fn told(&self, world: &World, agent: &Agent, run: u32) {
        if self.notified.contains_key(&(agent.id.clone(), run)) {
            return;
        }
        let name = &agent.name;
        assert!(agent.waited_for && run == 1, "N-4: nobody was told of run {run} of {name}");
        let lead = world.core.durable.lead_of(&agent.session).unwrap();
        let got = world.folders.get(&lead.id).is_some_and(|it| it.ran.contains(&agent.id));
        let how = self.ended.get(&(lead.id.clone(), agent.waited_run));
        let was_cut = how.is_some_and(|it| *it != Status::Completed);
        assert!(got || was_cut, "N-4: whoever waited for {name} was told nothing");
    }

    /// Every later incarnation of this state: what is on disk is what was decided.
    pub(super) fn same(a: &Durable, b: &Durable, what: &str) {
        assert!(a == b, "invariant 2: {what}\n{a:#?}\n{b:#?}");
    }
}

/// An agent of a live session at rest has done all that it was asked for.
fn rests(agent: &Agent, durable: &Durable, all_spoken_to: bool) {
    let name = &agent.name;
    assert!(!agent.run_is_open(), "{name} is in the middle of a run: {agent:?}");
    let is_quiet = agent.mailbox.is_empty() || (agent.parked && !all_spoken_to);
    assert!(is_quiet, "{name} does not read its mail: {agent:?}");
    let mail = agent.mailbox.iter().map(|id| durable.messages[id].len() as u64).sum::<u64>();
    assert_eq!(agent.mailbox_bytes, mail, "{name}: bytes");
    if agent.role == Role::Worker {
        assert_eq!(agent.life, Life::Down, "W-4: {name} is still there: {agent:?}");
        assert!(agent.runs > 0, "{name} never ran: {agent:?}");
    } else {
        assert!(matches!(agent.life, Life::Down | Life::Up), "{name} is {:?}", agent.life);
    }
    assert_eq!(durable.open_questions(&agent.id).count(), 0, "{name} still asks");
}
