//! A made-up world around the real core: a disk, a shell, connections and processes. It lets one thing happen at a time.
//!
//! ```text
//!   users, agents ──frames──▶ turn ──▶ uncommitted steps ──commit──▶ disk, then effects ──▶ processes, replies
//!                     reports ──▲                 ╳ crash: lost           │
//!                        └─────────────── Spawned, Exited, … ─────────────┘
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::agent::{Act, Folder, FromDaemon, Process};
use super::bugs;
use super::far::Far;
use super::oracle::Oracle;
use super::outside::Crowd;
use super::random::Random;
use super::std;
use super::workload::User;
use crate::agent::Process as Pid;
use crate::id::{AgentId, PeerId};
use crate::input::Credentials;
use crate::request::Request;
use crate::role::Role;
use crate::{Core, Durable, Effect, Input, Live, Moment, Record, Step, limits};

/// What a connection carries to the daemon.
pub(super) enum Frame {
    Hello(Option<Credentials>),
    Call { call: u64, key: Option<String>, request: Box<Request> },
    HangUp,
}

/// Whose connection it is.
#[derive(Clone)]
enum Owner {
    User(usize),
    Process(AgentId, u32),
    Bridge,
}

/// The simulated world: the core, its disk, and everybody around it.
pub(super) struct World {
    pub(super) random: Random,
    pub(super) core: Core,
    pub(super) oracle: Oracle,
    /// The steady clock of this boot of the machine, the one on the wall, and one that nobody can set.
    mono_ms: u64,
    pub(super) wall_ms: u64,
    true_ms: u64,
    /// Steps that are not on disk, each with the time of its decision.
    uncommitted: VecDeque<(u64, Step)>,
    /// The journal, and the state that it makes.
    pub(super) disk: Vec<Record>,
    committed: Durable,
    pub(super) wires: BTreeMap<PeerId, VecDeque<Frame>>,
    owners: BTreeMap<PeerId, Owner>,
    last_peer: u64,
    /// What the shell has to say, in any order.
    pub(super) reports: Vec<Input>,
    pub(super) starting: Vec<(AgentId, u32)>,
    /// What processes are started with.
    secrets: BTreeMap<(AgentId, u32), String>,
    pub(super) processes: BTreeMap<(AgentId, u32), Process>,
    pub(super) folders: BTreeMap<AgentId, Folder>,
    pub(super) users: Vec<User>,
    pub(super) crowd: Crowd,
    pub(super) far: Far,
    /// No more faults.
    pub(super) is_calm: bool,
    pub(super) has_exited: bool,
    /// Whether all that happens is printed.
    pub(super) is_told: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            core: Core::default(),
            oracle: Oracle::default(),
            mono_ms: 1_000,
            wall_ms: 1_700_000_000_000,
            true_ms: 0,
            uncommitted: VecDeque::new(),
            disk: Vec::new(),
            committed: Durable::default(),
            wires: BTreeMap::new(),
            owners: BTreeMap::new(),
            last_peer: 0,
            reports: Vec::new(),
            starting: Vec::new(),
            secrets: BTreeMap::new(),
            processes: BTreeMap::new(),
            folders: BTreeMap::new(),
            users: (0..2).map(|_| User::default()).collect(),
            crowd: Crowd::new(seed),
            far: Far::new(seed),
            is_calm: false,
            has_exited: false,
            is_told: false,
        };
        world.turn(Input::Started);
        world
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            std::eprintln!("{} {}", self.mono_ms, what());
        }
    }

    /// Time passes.
    pub(super) fn pass(&mut self, ms: u64) {
        self.mono_ms += ms;
        self.wall_ms += ms;
        self.true_ms += ms;
    }

    /// The core takes one input; what comes of it is not on disk yet.
    pub(super) fn turn(&mut self, input: Input) {
        let request = match &input {
            Input::Request { peer, call, .. } => Some((*peer, *call)),
            _ => None,
        };
        self.say(|| format!("input {input:?}"));
        let random = self.random.bytes();
        let now = Moment { wall_ms: self.wall_ms, mono_ms: self.mono_ms, random };
        let step = bugs::turn(&mut self.core, &now, input);
        self.say(|| format!("    records {:?}\n    effects {:?}", step.records, step.effects));
        Oracle::decided(&self.core, &step, request);
        self.oracle.blamed(&self.core.durable, &step);
        if !(step.records.is_empty() && step.effects.is_empty()) {
            self.uncommitted.push_back((self.true_ms, step));
        }
    }

    /// All that was decided goes to disk, and only then out into the world. Returns whether there was anything.
    pub(super) fn commit(&mut self) -> bool {
        self.say(|| "commit".to_string());
        let steps = core::mem::take(&mut self.uncommitted);
        let any = !steps.is_empty();
        for (decided_ms, step) in &steps {
            self.write(*decided_ms, &step.records);
        }
        steps.into_iter().flat_map(|(_, it)| it.effects).for_each(|it| self.perform(it));
        any
    }

    fn write(&mut self, decided_ms: u64, records: &[Record]) {
        for record in records {
            self.oracle.committed(&self.committed, record, &self.folders, decided_ms);
            self.committed.apply(record);
        }
        self.disk.extend_from_slice(records);
    }

    /// The daemon dies: some of what it had decided is on disk, and nobody has seen it.
    pub(super) fn crash(&mut self) {
        for _ in 0..self.random.below(self.uncommitted.len() + 1) {
            let (decided_ms, step) = self.uncommitted.pop_front().unwrap();
            self.write(decided_ms, &step.records);
        }
        self.restart();
    }

    /// A daemon begins with what is on disk. Agents have lived on, or have not.
    pub(super) fn restart(&mut self) {
        self.say(|| "the daemon is started again".to_string());
        self.uncommitted.clear();
        self.has_exited = false;
        self.reports.clear();
        self.wires.clear();
        self.owners.clear();
        self.users.iter_mut().for_each(User::lose_connection);
        self.far.lose_daemon();
        for process in self.processes.values_mut() {
            process.lose_connection();
            process.is_watched = false;
        }
        for (agent, incarnation) in core::mem::take(&mut self.starting) {
            if self.random.one_in(2) {
                self.start(agent, incarnation, false);
            }
        }
        let reboot = !self.is_calm && self.random.one_in(6);
        for key in self.processes.keys().cloned().collect::<Vec<_>>() {
            if reboot || (!self.is_calm && self.random.one_in(6)) {
                self.processes.remove(&key);
            }
        }
        if reboot {
            self.mono_ms = 1_000;
        }
        if self.random.one_in(4) {
            self.compact();
        }
        let durable = replay(&self.disk);
        Oracle::same(&durable, &self.committed, "replay is not what was decided");
        self.core = Core { durable, live: Live::default() };
        self.oracle.restarted();
        self.turn(Input::Started);
    }

    /// A snapshot takes the journal's place; now and then as text that is read back.
    fn compact(&mut self) {
        self.disk = self.committed.snapshot();
        if self.random.one_in(4) {
            let lines = self.disk.iter().map(|it| serde_json::to_string(it).unwrap());
            self.disk = lines.map(|it| serde_json::from_str(&it).unwrap()).collect();
        }
    }

    /// What is on disk is what is in memory, once all is written.
    pub(super) fn compare(&mut self) {
        self.commit();
        Oracle::same(&self.core.durable, &self.committed, "what was decided is not on disk");
        self.compact();
        let read_back = replay(&self.disk);
        Oracle::same(&read_back, &self.committed, "a snapshot is not what was decided");
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Welcome { peer, .. } => self.tell(peer, FromDaemon::Welcome),
            Effect::Close { peer, .. } => {
                self.wires.remove(&peer);
                self.tell(peer, FromDaemon::Closed);
                self.owners.remove(&peer);
                self.reports.push(Input::Disconnected { peer });
            }
            Effect::Reply { peer, call, outcome } => {
                self.oracle.answer(peer, call);
                self.tell(peer, FromDaemon::Reply { call, outcome });
            }
            Effect::Deliver { peer, message } => {
                // A message that has ended meanwhile has no text any more.
                let is_there =
                    self.committed.messages.get(&message).is_some_and(|it| !it.state.is_final());
                if is_there {
                    self.tell(peer, FromDaemon::Deliver(message));
                }
            }
            Effect::Order { peer, order } => self.tell(peer, FromDaemon::Order(order)),
            Effect::Spawn { agent, token } => {
                let found = self.committed.agents.get(&agent).map(|it| (agent, it.incarnation));
                self.secrets.extend(found.clone().map(|it| (it, token)));
                self.starting.extend(found);
            }
            Effect::Watch { agent, incarnation, process, tree: _ } => {
                self.watch(agent, incarnation, process.as_ref());
            }
            Effect::Kill { agent, incarnation, .. } => {
                let place = (agent, incarnation);
                self.starting.retain(|it| *it != place);
                if self.processes.contains_key(&place) {
                    self.die(&place, "signal 9");
                } else {
                    self.report_exit(&place, "was gone");
                }
            }
            Effect::RemoveTeam { team, peer, call, .. } => {
                self.answer_by_shell(peer, call);
                let all = self.is_calm || self.random.one_in(2);
                self.reports.push(Input::TeamRemoved { team, all });
            }
            Effect::RemoveSession { session, peer, call, .. } => {
                Oracle::removed(&self.committed, &session);
                self.answer_by_shell(peer, call);
            }
            Effect::ReadTranscript { peer, call, .. }
            | Effect::ReadScratchpad { peer, call, .. }
            | Effect::ListPeers { peer, call }
            | Effect::Subscribe { peer, call, .. }
            | Effect::Attach { peer, call, .. } => self.answer_by_shell(peer, call),
            Effect::OpenSession { session, create } => {
                if create {
                    let path = format!("/scratch/{session}");
                    self.reports.push(Input::ScratchpadReady { session, path });
                }
            }
            Effect::HandOut { outgoing } => self.hand_out(outgoing),
            Effect::Heard { ticket, taken } => self.heard(ticket, taken),
            Effect::WantBridge { on } => self.far.want(on),
            Effect::BeginBridge { peer, epoch } => self.far.begin(peer, epoch),
            Effect::Carry { peer, outgoing } => self.far.carry(peer, outgoing),
            // No member of a made-up team is in a terminal.
            Effect::WriteTeam { .. }
            | Effect::ServeInboxes { .. }
            | Effect::InboxTaken { .. }
            | Effect::ShowScreen { .. }
            | Effect::Publish { .. }
            | Effect::Announce { .. } => {}
            Effect::Exit => self.has_exited = true,
        }
    }

    fn answer_by_shell(&mut self, peer: PeerId, call: u64) {
        self.oracle.answer(peer, call);
        let outcome = Ok(crate::answer::Answer::Done);
        self.tell(peer, FromDaemon::Reply { call, outcome });
    }

    fn tell(&mut self, peer: PeerId, what: FromDaemon) {
        match self.owners.get(&peer) {
            Some(Owner::User(at)) => self.users[*at].take(&what),
            Some(Owner::Process(agent, incarnation)) => {
                let process = self.processes.get_mut(&(agent.clone(), *incarnation));
                if let Some(process) = process.filter(|it| it.peer == Some(peer)) {
                    process.inbox.push_back(what);
                }
            }
            Some(Owner::Bridge) => self.far.take(&what),
            None => {}
        }
    }

    fn watch(&mut self, agent: AgentId, incarnation: u32, known: Option<&Pid>) {
        let place = (agent, incarnation);
        if let Some(process) = self.processes.get_mut(&place) {
            process.is_watched = true;
            if known.is_none() && self.random.one_in(2) {
                self.report_spawn(&place);
            }
        } else {
            self.report_exit(&place, "was gone");
        }
    }

    /// One of the processes that are being started is there, or cannot be.
    pub(super) fn start_one(&mut self) -> bool {
        if self.starting.is_empty() {
            return false;
        }
        let at = self.random.below(self.starting.len());
        let (agent, incarnation) = self.starting.swap_remove(at);
        if !self.is_calm && self.random.one_in(15) {
            let why = "no such file".to_string();
            self.reports.push(Input::SpawnFailed { agent, incarnation, why });
        } else {
            self.start(agent, incarnation, true);
        }
        true
    }

    fn start(&mut self, agent: AgentId, incarnation: u32, is_watched: bool) {
        let Some(it) = self.committed.agents.get(&agent).cloned() else { return };
        let others = self.processes.keys().filter(|(of, _)| *of == agent).count();
        assert_eq!(others, 0, "invariant 4: {} has two processes", it.name);
        // Who has asked a person something may have gone on since this start was decided (fA6).
        let asked = |of: &AgentId| {
            self.committed.permissions.values().any(|question| question.agent == *of)
        };
        let is_one = |(of, _): &&(AgentId, u32)| {
            let found = self.committed.agents.get(of);
            let found = found.filter(|_| !asked(of));
            found.is_some_and(|of| of.session == it.session && of.role == Role::Worker)
        };
        let running = self.processes.keys().filter(is_one).count() + 1;
        let max = self.committed.sessions[&it.session].workers_running_max as usize;
        let needs_place = it.role == Role::Worker && !asked(&agent);
        assert!(!needs_place || running <= max, "W-7: {running} of {max} run");
        let token = self.secrets.get(&(agent.clone(), incarnation)).cloned().unwrap_or_default();
        let folder = self.folders.entry(agent.clone()).or_default();
        let mut process = Process::new(it.role, token, it.runs, folder);
        let rules = &self.committed.sessions[&it.session].rules_learned;
        process.rules = rules.iter().cloned().collect();
        process.is_watched = is_watched;
        process.is_hung = !self.is_calm && self.random.one_in(20);
        process.is_stubborn = !self.is_calm && self.random.one_in(10);
        let place = (agent, incarnation);
        self.processes.insert(place.clone(), process);
        if is_watched {
            self.report_spawn(&place);
        }
    }

    pub(super) fn report_spawn(&mut self, place: &(AgentId, u32)) {
        let process = Pid { pid: 7, start_ticks: u64::from(place.1), boot_id: "boot".into() };
        for _ in 0..=usize::from(self.random.one_in(8)) {
            let (agent, incarnation) = place.clone();
            self.reports.push(Input::Spawned { agent, incarnation, process: process.clone() });
        }
    }

    pub(super) fn report_exit(&mut self, place: &(AgentId, u32), how: &str) {
        let outcome = self.folders.get(&place.0).and_then(|it| it.outcome.clone());
        for _ in 0..=usize::from(self.random.one_in(8)) {
            let (agent, incarnation) = place.clone();
            let (how, outcome) = (how.to_string(), outcome.clone());
            self.reports.push(Input::Exited { agent, incarnation, how, outcome });
        }
    }

    /// A process ends. What it has sent is still under way.
    pub(super) fn die(&mut self, place: &(AgentId, u32), how: &str) {
        let Some(process) = self.processes.remove(place) else { return };
        self.say(|| format!("process {place:?} ends with {how}"));
        if let Some(wire) = process.peer.and_then(|peer| self.wires.get_mut(&peer)) {
            wire.push_back(Frame::HangUp);
        }
        if process.is_watched {
            self.report_exit(place, how);
        }
    }

    /// The shell says one of the things that it has to say.
    pub(super) fn report_one(&mut self) -> bool {
        if self.reports.is_empty() {
            return false;
        }
        let at = self.random.below(self.reports.len());
        let report = self.reports.swap_remove(at);
        self.turn(report);
        true
    }

    /// A new connection, which says hello.
    fn connect(&mut self, owner: Owner, credentials: Option<Credentials>) -> PeerId {
        self.last_peer += 1;
        let peer = PeerId(self.last_peer);
        self.owners.insert(peer, owner);
        self.wires.insert(peer, VecDeque::from([Frame::Hello(credentials)]));
        peer
    }

    pub(super) fn connect_user(&mut self, at: usize) {
        let peer = self.connect(Owner::User(at), None);
        self.users[at].peer = Some(peer);
    }

    pub(super) fn connect_far(&mut self, credentials: Credentials) -> PeerId {
        self.connect(Owner::Bridge, Some(credentials))
    }

    pub(super) fn send_far(&mut self, peer: PeerId, call: u64, request: Request) {
        if let Some(wire) = self.wires.get_mut(&peer) {
            wire.push_back(Frame::Call { call, key: None, request: Box::new(request) });
        }
    }

    /// A connection breaks; what was sent before still arrives.
    pub(super) fn drop_connection(&mut self, peer: PeerId) {
        match self.owners.remove(&peer) {
            Some(Owner::User(at)) => self.users[at].lose_connection(),
            Some(Owner::Process(agent, incarnation)) => {
                if let Some(it) = self.processes.get_mut(&(agent, incarnation)) {
                    it.lose_connection();
                }
            }
            Some(Owner::Bridge) => self.far.lose_connection(),
            None => {}
        }
        if let Some(wire) = self.wires.get_mut(&peer) {
            wire.push_back(Frame::HangUp);
        }
    }

    /// One frame of one connection reaches the core.
    pub(super) fn deliver_frame(&mut self) -> bool {
        let waiting = self.wires.iter().filter(|(_, wire)| !wire.is_empty()).map(|(peer, _)| *peer);
        let waiting: Vec<_> = waiting.collect();
        let Some(peer) = self.random.pick(&waiting) else { return false };
        match self.wires.get_mut(&peer).and_then(VecDeque::pop_front) {
            Some(Frame::Hello(credentials)) => self.turn(Input::Connected {
                peer,
                credentials,
                lineage: crate::input::Lineage::default(),
            }),
            Some(Frame::Call { call, key, request }) => {
                self.turn(Input::Request { peer, call, key, request: *request });
            }
            Some(Frame::HangUp) => {
                self.wires.remove(&peer);
                self.turn(Input::Disconnected { peer });
            }
            None => {}
        }
        true
    }

    /// One process does one thing.
    pub(super) fn step_agent(&mut self, place: &(AgentId, u32)) -> bool {
        let Some(process) = self.processes.get_mut(place) else { return false };
        let folder = self.folders.entry(place.0.clone()).or_default();
        let act = process.step(&place.0.0, folder, &mut self.random, self.is_calm);
        let mut peer = process.peer;
        match act {
            Act::Worked => {}
            Act::Idle => return false,
            Act::Connect => {
                let credentials = Credentials {
                    agent: place.0.clone(),
                    incarnation: place.1,
                    token: process.token.clone(),
                };
                let owner = Owner::Process(place.0.clone(), place.1);
                peer = Some(self.connect(owner, Some(credentials)));
            }
            Act::Exit => {
                self.die(place, "status 0");
                return true;
            }
        }
        let Some(process) = self.processes.get_mut(place) else { return true };
        process.peer = peer;
        if let Some(wire) =
            peer.and_then(|peer| self.wires.get_mut(&peer)).filter(|_| process.is_welcome)
        {
            for (call, open) in process.open.range(process.unsent_from..) {
                let (key, request) = (open.key.clone(), open.request.clone());
                wire.push_back(Frame::Call { call: *call, key, request: Box::new(request) });
                process.unsent_from = call + 1;
            }
        }
        true
    }

    pub(super) fn any_process(&mut self) -> Option<(AgentId, u32)> {
        let places: Vec<_> = self.processes.keys().cloned().collect();
        self.random.pick(&places)
    }

    pub(super) fn any_peer(&mut self) -> Option<PeerId> {
        let peers: Vec<_> = self.owners.keys().copied().collect();
        self.random.pick(&peers)
    }

    /// Everything that can happen without new wishes happens, until nothing does.
    pub(super) fn drive(&mut self) {
        let mut quiet = 0;
        for _ in 0..2_000 {
            let mut any = self.commit();
            if self.has_exited {
                return;
            }
            any |= self.start_one() | self.report_one() | self.deliver_frame();
            for place in self.processes.keys().cloned().collect::<Vec<_>>() {
                any |= self.step_agent(&place);
            }
            any |= self.attend();
            any |= self.far_happens();
            if any {
                quiet = 0;
                self.pass(1);
                continue;
            }
            // A process that hangs or is stubborn is waited for until its deadline only.
            quiet += 1;
            if quiet > 2 {
                return;
            }
            self.pass(limits::RETURN_MS + 1_000);
            self.turn(Input::Tick);
        }
        panic!("it does not come to rest: {:#?}", self.core);
    }
}

/// The state that a journal makes.
pub(super) fn replay(disk: &[Record]) -> Durable {
    let mut durable = Durable::default();
    for record in disk {
        durable.apply(record);
    }
    durable
}
