//! The state that survives, and the only code that changes it: [`Durable::apply`], live and on replay.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::ops::Deref;

use proto_words::address::Place;

use crate::state::agent::{Agent, LastRun, Life};
use crate::state::bridge::{Allowed, Wish};
use crate::state::id::{AgentId, MessageId, PermissionId, SessionId};
use crate::state::limits;
use crate::state::message::{self, Message, Outside, Sender, State};
use crate::state::name::Name;
use crate::state::outgoing::Outbox;
use crate::state::permission::Permission;
use crate::state::record::{Keyed, Record};
use crate::state::secret;
use crate::state::session::{Session, SessionState};
use crate::state::team::Team;

/// All that was decided. It reads as [`Kept`], and [`Durable::apply`] is the only way to change it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Durable(Kept);

impl Durable {
    /// Changes the state as the record says. A record about what is not there changes nothing.
    pub fn apply(&mut self, record: &Record) {
        self.0.apply(record);
    }
}

impl Deref for Durable {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.0
    }
}

/// What [`Durable`] holds, to be read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Kept {
    /// The sessions by id.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Agents of all sessions.
    pub agents: BTreeMap<AgentId, Agent>,
    /// Messages: unfinished ones with their text, final ones as receipts.
    pub messages: BTreeMap<MessageId, Message>,
    /// Which messages came from outside, by address and the sender's own id: what comes again is known.
    pub(crate) heard: BTreeMap<(Place, String), MessageId>,
    /// Messages to the outside.
    pub outbox: Outbox,
    /// Whether there is to be a bridge to other machines.
    pub bridge: Option<Wish>,
    /// Questions, answered ones for 7 days.
    pub permissions: BTreeMap<PermissionId, Permission>,
    /// The teams by name.
    pub teams: BTreeMap<Name, Team>,
    /// What calls with an idempotency key led to, by caller and key.
    pub keys: BTreeMap<(String, String), (Keyed, u64)>,
    /// The agents of each session, so that looking at one does not cost looking at all.
    pub(crate) members: BTreeMap<SessionId, BTreeSet<AgentId>>,
    /// The last message number given out.
    pub last_message: u64,
    /// The last question number given out.
    pub last_permission: u64,
    /// The last place in the queue given out.
    pub last_queued: u64,
}

impl Kept {
    #[expect(
        clippy::too_many_lines,
        reason = "one short arm for each record, and none may be forgotten"
    )]
    fn apply(&mut self, record: &Record) {
        match record {
            Record::Counters { messages, permissions, queued } => {
                self.last_message = self.last_message.max(*messages);
                self.last_permission = self.last_permission.max(*permissions);
                self.last_queued = self.last_queued.max(*queued);
            }

            Record::BridgeSet { on, epoch } => {
                self.bridge = Some(Wish { on: *on, epoch: *epoch });
            }
            Record::SessionPut { session } => {
                self.sessions.insert(session.id.clone(), Session::clone(session));
            }
            Record::SessionState { session, state } => {
                self.session(session, |it| it.state = *state);
                if *state == SessionState::Live {
                    let agents = self.agents.values_mut().filter(|it| it.session == *session);
                    agents.for_each(|it| it.parked = false);
                }
            }
            Record::ScratchpadReady { session, path } => {
                self.session(session, |it| it.scratchpad = Some(path.clone()));
            }
            Record::RuleLearned { session, rule } => {
                self.session(session, |it| it.rules_learned.push(rule.clone()));
            }
            Record::OutputGiven { session, output } => {
                self.session(session, |it| it.output = Some(output.clone()));
            }
            Record::InboundSet { session, inbound } => {
                self.session(session, |it| it.inbound = *inbound);
            }
            Record::WatcherPut { session, watcher } => {
                self.session(session, |it| it.watchers.push(Outside::clone(watcher)));
            }
            Record::WatchersTold { session } => self.session(session, |it| it.watchers.clear()),
            Record::BridgeAllowed { session, peer, inbound, outbound } => {
                self.session(session, |it| {
                    it.bridged.retain(|it| it.peer != *peer);
                    if *inbound || *outbound {
                        let (peer, inbound, outbound) = (peer.clone(), *inbound, *outbound);
                        it.bridged.push(Allowed { peer, inbound, outbound });
                    }
                });
            }
            Record::SessionRemoved { session } => self.remove_session(session),

            Record::AgentPut { agent } => {
                self.last_queued = self.last_queued.max(agent.queued);
                self.members.entry(agent.session.clone()).or_default().insert(agent.id.clone());
                // An earlier build recorded the secret itself.
                let token = secret::kept(&agent.token);
                self.agents.insert(agent.id.clone(), Agent { token, ..Agent::clone(agent) });
            }
            Record::AgentWaiting { agent } => {
                self.last_queued += 1;
                let place = self.last_queued;
                self.agent(agent, |it| (it.queued, it.life) = (place, Life::Waiting));
            }
            Record::AgentDown { agent } => {
                self.agent(agent, |it| it.life = Life::Down);
            }
            Record::AgentParked { agent } => self.agent(agent, |it| {
                it.parked = true;
                if let Some(pty) = &mut it.pty {
                    pty.wanted = false;
                }
            }),
            Record::PtySet { agent, pty } => {
                self.agent(agent, |it| {
                    it.parked &= !pty.wanted;
                    it.pty = Some(pty.clone());
                });
            }
            Record::AgentStarted { agent, incarnation, token } => self.agent(agent, |it| {
                it.life = Life::Up;
                it.incarnation = *incarnation;
                it.token = secret::kept(token);
                it.process = None;
                // Whatever it was started for: from here on it stays until it is stopped or ends by itself.
                if let Some(pty) = &mut it.pty {
                    (pty.wanted, pty.ended) = (true, None);
                }
            }),
            Record::AgentSpawned { agent, incarnation, process } => self.agent(agent, |it| {
                if it.incarnation == *incarnation {
                    it.process = Some(process.clone());
                }
            }),
            Record::AgentStopping { agent, by, keep_mail } => self.agent(agent, |it| {
                it.life = Life::Stopping { by: by.clone(), keep_mail: *keep_mail };
            }),
            Record::AgentExited { agent, incarnation, again, counted } => self.agent(agent, |it| {
                if it.incarnation == *incarnation {
                    it.life = Life::Down;
                    it.process = None;
                    it.crashes = if *again { it.crashes + u32::from(*counted) } else { 0 };
                }
            }),
            Record::TerminalSeen { agent, process } => {
                self.agent(agent, |it| it.process.clone_from(process));
            }
            Record::RunEnded { agent, run, outcome, at_ms, thin } => self.agent(agent, |it| {
                it.runs = *run;
                it.run_opened_ms = None;
                it.crashes = 0;
                it.usage.add(&outcome.usage);
                it.last = Some(LastRun { outcome: outcome.clone(), ended_ms: *at_ms, thin: *thin });
            }),

            Record::MessagePut { message } => self.put_message(message),
            Record::MessageDelivered { message, at_ms } => {
                if let Some(it) = self.messages.get_mut(message).filter(|it| !it.state.is_final()) {
                    it.state = State::Delivered;
                    it.delivered_ms = Some(*at_ms);
                }
            }
            Record::MessagesConsumed { agent, messages, run, at_ms } => {
                self.agent(agent, |it| {
                    if *run > it.runs {
                        it.run_opened_ms = it.run_opened_ms.or(Some(*at_ms));
                    }
                    if it.has_pty() {
                        // It reads, so it works.
                        it.crashes = 0;
                    }
                });
                for id in messages {
                    self.finish_message(*id, State::Consumed, "", *at_ms);
                }
            }
            Record::MessageBounced { message, reason, at_ms } => {
                self.finish_message(*message, State::Bounced, reason, *at_ms);
            }
            Record::MessageExpired { message, reason, at_ms } => {
                self.finish_message(*message, State::Expired, reason, *at_ms);
            }
            Record::MessageLetIn { message, new } => self.let_in(*message, *new),
            Record::OutgoingPut { outgoing } => {
                self.last_message = self.last_message.max(outgoing.id.0);
                self.outbox.put(outgoing);
            }
            Record::OutgoingMoved { outgoing, state, reason, at_ms } => {
                self.outbox.moved(*outgoing, *state, reason, *at_ms);
            }
            Record::RequestAnswered { message } => {
                if let Some(it) = self.messages.get_mut(message)
                    && let message::Kind::ShutdownRequest { answered }
                    | message::Kind::PlanApprovalRequest { answered, .. } = &mut it.kind
                {
                    *answered = true;
                }
            }

            Record::PermissionPut { permission } => {
                self.last_permission = self.last_permission.max(permission.id.0);
                self.permissions.insert(permission.id, Permission::clone(permission));
            }
            Record::PermissionAnswered { id, answer } => {
                if let Some(it) = self.permissions.get_mut(id) {
                    it.answer = Some(answer.clone());
                }
            }

            Record::TeamPut { team } => {
                self.teams.insert(team.name.clone(), Team::clone(team));
            }
            Record::TeamEdited { team, description, outside } => {
                if let Some(it) = self.teams.get_mut(team) {
                    it.description.clone_from(description);
                    it.outside.clone_from(outside);
                }
            }
            Record::TeamDeleting { team } => {
                if let Some(it) = self.teams.get_mut(team) {
                    it.deleting = true;
                }
            }
            Record::TeamDeleted { team } => {
                self.teams.remove(team);
            }
            Record::TaskPut { team, task } => {
                if let Some(it) = self.teams.get_mut(team) {
                    it.last_task = it.last_task.max(task.id);
                    it.tasks.insert(task.id, task.clone());
                }
            }

            Record::Keyed { caller, key, to, at_ms } => {
                self.keys.insert((caller.clone(), key.clone()), (to.clone(), *at_ms));
            }
            Record::Forgotten { before_ms } => self.forget(*before_ms),
        }
    }

    fn session(&mut self, id: &SessionId, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get_mut(id) {
            change(session);
        }
    }

    fn agent(&mut self, id: &AgentId, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.get_mut(id) {
            change(agent);
        }
    }

    fn remove_session(&mut self, id: &SessionId) {
        self.sessions.remove(id);
        self.members.remove(id);
        self.agents.retain(|_, it| it.session != *id);
        self.messages.retain(|_, it| it.session != *id);
        self.heard.retain(|_, it| self.messages.contains_key(it));
        // What coordd itself has to say to the outside is still said.
        self.outbox.retain(|it| it.session.as_ref() != Some(id) || it.from == Sender::System);
        self.permissions.retain(|_, it| it.session != *id);
        self.teams.retain(|_, it| it.session != *id);
    }

    fn put_message(&mut self, message: &Message) {
        self.last_message = self.last_message.max(message.id.0);
        let is_mail = !message.state.is_final() && message.state != State::Held;
        self.agent(&message.to, |it| {
            // Ids rise, so that this is the mailbox's end, except when a snapshot's agent has its mail already.
            let place = match it.mailbox.back() {
                Some(last) if *last >= message.id => it.mailbox.binary_search(&message.id),
                Some(_) | None => Err(it.mailbox.len()),
            };
            if let (true, Err(place)) = (is_mail, place) {
                it.mailbox.insert(place, message.id);
                it.mailbox_bytes += message.len() as u64;
                it.parked &= message.from == Sender::System;
            }
        });
        self.messages.insert(message.id, message.clone());
        if let Sender::Outside(from) = &message.from
            && !from.message.is_empty()
        {
            self.heard.insert((from.address.clone(), from.message.clone()), message.id);
            self.forget_heard();
        }
    }

    /// What came from outside is bounded in number, since anybody may send it: the oldest that has come to its end goes first.
    fn forget_heard(&mut self) {
        if self.heard.len() <= limits::HEARD_KEPT_MAX {
            return;
        }
        let is_final =
            |id: &&MessageId| self.messages.get(*id).is_none_or(|it| it.state.is_final());
        let oldest = self.heard.values().filter(is_final).min().copied();
        if let Some(oldest) = oldest {
            self.messages.remove(&oldest);
            self.heard.retain(|_, it| *it != oldest);
        }
    }

    fn let_in(&mut self, id: MessageId, new: MessageId) {
        if let Some(mut message) = self.messages.remove(&id) {
            message.id = new;
            message.state = State::Accepted;
            self.put_message(&message);
        }
    }

    fn finish_message(&mut self, id: MessageId, state: State, reason: &str, at_ms: u64) {
        let Some(message) = self.messages.get_mut(&id).filter(|it| !it.state.is_final()) else {
            return;
        };
        let len = message.len() as u64;
        message.state = state;
        message.ended_ms = Some(at_ms);
        message.reason.push_str(reason);
        message.text = String::new();
        let to = message.to.clone();
        self.agent(&to, |it| {
            if let Ok(place) = it.mailbox.binary_search(&id) {
                it.mailbox.remove(place);
                it.mailbox_bytes = it.mailbox_bytes.saturating_sub(len);
            }
        });
    }

    fn forget(&mut self, before_ms: u64) {
        self.messages
            .retain(|_, it| !(it.state.is_final() && it.ended_ms.is_some_and(|at| at < before_ms)));
        self.heard.retain(|_, it| self.messages.contains_key(it));
        self.outbox.retain(|it| !it.is_older_than(before_ms));
        self.permissions.retain(|_, it| it.answer.as_ref().is_none_or(|it| it.at_ms >= before_ms));
        let mut keys = core::mem::take(&mut self.keys);
        keys.retain(|(caller, _), (_, at_ms)| *at_ms >= before_ms || self.may_repeat(caller));
        self.keys = keys;
    }
}
