//! Carrying out effects. None of it blocks and none of it fails: how it went comes back as an
//! input.

use coordd_core::Effect;
use coordd_core::denial::Denial;
use coordd_core::effect::Event;
use coordd_core::id::{AgentId, PeerId};
use proto::response::Response as R;
use proto::{FromDaemon, Outcome};

use super::Reactor;
use crate::environment::tmp;
use crate::hub::Viewer;
use crate::jobs::{InboxJob, Job, SessionJob, TeamJob};
use crate::store::Store;
use crate::translate;

impl<S: Store> Reactor<S> {
    #[expect(
        clippy::too_many_lines,
        reason = "one short arm for each effect, and none may be forgotten"
    )]
    pub(super) fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Welcome { peer, agent } => {
                if let Some(handle) = self.peers.get(&peer) {
                    handle.speaks_for(agent.as_ref());
                }
                self.tell(peer, FromDaemon::Welcome(self.hub.welcome()));
            }
            Effect::Close { peer, denial } => {
                self.close(peer, Some(translate::error_body(&denial)));
            }
            Effect::Reply { peer, call, outcome } => {
                if let Err(Denial::Forbidden { asker, request }) = &outcome {
                    // C-1: an agent that tries this is confused or worse, so it is logged.
                    tracing::warn!(%peer, asker, request, "forbidden");
                }
                let outcome =
                    outcome.and_then(|answer| translate::response(&self.core, &self.facts, answer));
                match outcome {
                    // Only the hub knows what agents are doing at this moment.
                    Ok(response) => self.answer(peer, call, response),
                    Err(denial) => self.deny(peer, call, denial),
                }
            }
            Effect::Deliver { peer, message } => {
                if let Some(order) = translate::deliver(&self.core, message) {
                    self.tell(peer, FromDaemon::Order(order));
                }
            }
            Effect::Order { peer, order } => {
                self.tell(peer, FromDaemon::Order(translate::order(order)));
            }
            Effect::Spawn { agent, token } => self.spawn(&agent, token),
            Effect::Watch { agent, incarnation, process, tree } => {
                let dir = self.agent_dir(&agent);
                self.jobs.push(Job::Watch { agent, incarnation, process, tree, dir });
            }
            Effect::Kill { agent, incarnation, process, tree } => {
                let dir = self.agent_dir(&agent);
                self.jobs.push(Job::Kill { agent, incarnation, process, tree, dir });
            }
            Effect::OpenSession { session, create } => {
                self.outside.changed(&session);
                self.open_session(&session, create);
            }
            Effect::RemoveSession { session, scratchpad: _, team, peer, call } => {
                self.envs.forget(&session);
                let reply = self.peers.get(&peer).cloned().map(|handle| (handle, call));
                self.jobs.push(Job::Session(SessionJob::Remove { session, team, reply }));
            }
            Effect::WriteTeam { team } => {
                // Who is in the team decides whose inbox is whose.
                self.teams.inboxes.changed(team.clone());
                self.teams.files.changed(team);
            }
            Effect::ServeInboxes { team } => self.teams.inboxes.changed(team),
            Effect::InboxTaken { team, inbox, key } => {
                self.jobs.push(Job::Inbox(InboxJob::Taken { team, inbox, key }));
            }
            Effect::RemoveTeam { team, session, peer, call } => {
                let reply = self.peers.get(&peer).cloned().map(|handle| (handle, call));
                let cwd = self
                    .core
                    .durable
                    .sessions
                    .get(&session)
                    .map(|session| session.cwd.clone())
                    .unwrap_or_default();
                let tmp = self.tmp_of(&session);
                self.jobs.push(Job::Team(TeamJob::Remove { team, session, cwd, tmp, reply }));
            }
            Effect::ReadTranscript { agent, from, limit, peer, call } => {
                let (Some(handle), Some(of)) =
                    (self.peers.get(&peer).cloned(), self.core.durable.agents.get(&agent))
                else {
                    return;
                };
                let path = self.facts.transcript(of).into();
                self.jobs.push(Job::ReadTranscript { path, from, limit, reply: (handle, call) });
            }
            Effect::ReadScratchpad { session, path, peer, call } => {
                if let Some(handle) = self.peers.get(&peer).cloned() {
                    self.jobs.push(Job::Session(SessionJob::Read {
                        session,
                        path,
                        reply: (handle, call),
                    }));
                }
            }
            Effect::HandOut { outgoing } => self.hand_out(outgoing),
            Effect::Heard { ticket, taken } => self.outside.heard(ticket, taken),
            Effect::ListPeers { peer, call } => self.list_peers(peer, call),
            Effect::WantBridge { on } => {
                self.bridge.send_modify(|it| *it = (on, it.1 + 1));
            }
            Effect::BeginBridge { peer, epoch } => {
                self.tell(peer, FromDaemon::Bridge(proto::bridge::Order::Begin { epoch }));
            }
            Effect::Announce { peer } => {
                self.announce_due |= self.core.live.bridge.peer == Some(peer);
            }
            Effect::Carry { peer, outgoing } => {
                if let Some(order) = translate::bridge::carry(&self.core, outgoing) {
                    self.tell(peer, FromDaemon::Bridge(order));
                }
            }
            Effect::Subscribe { session, after, peer, call } => {
                if let Some(handle) = self.peers.get(&peer).cloned() {
                    self.hub.subscribe(
                        peer,
                        handle,
                        session.map(|session| session.to_string()),
                        after,
                        call,
                    );
                }
            }
            Effect::Attach { session, agent, history, peer, call } => {
                let (Some(handle), Some(of)) =
                    (self.peers.get(&peer).cloned(), self.core.durable.agents.get(&agent))
                else {
                    return;
                };
                let viewer = Viewer {
                    session: session.to_string(),
                    agent: agent.to_string(),
                    name: of.name.to_string(),
                    transcript: self.facts.transcript(of).into(),
                    history,
                };
                self.hub.attach(peer, handle, viewer, call);
            }
            Effect::ShowScreen { session, agent, peer, call } => {
                if let Some(handle) = self.peers.get(&peer).cloned() {
                    self.hub.look(peer, handle, session.to_string(), agent.to_string(), call);
                }
            }
            Effect::Publish { session, event } => {
                self.outside.changed(&session);
                // The team file says who is active.
                if matches!(event, Event::AgentChanged { .. } | Event::RunEnded { .. })
                    && let Some(team) = self.core.durable.team_of(&session)
                {
                    self.teams.files.changed(team.name.clone());
                }
                self.announce_changes(&session, &event);
                if let Some(event) = translate::event(&self.core, &self.facts, &session, &event) {
                    tracing::debug!(session = %session, event = event_name(&event), "event");
                    self.hub.publish(&session.to_string(), event);
                }
            }
            Effect::Exit => {}
        }
    }

    /// Other machines see what the sessions that they may write to are at.
    fn announce_changes(&mut self, session: &coordd_core::id::SessionId, event: &Event) {
        let is_seen = matches!(
            event,
            Event::SessionChanged(_)
                | Event::SessionRemoved
                | Event::AgentChanged { .. }
                | Event::RunEnded { .. }
        );
        let session = self.core.durable.sessions.get(session);
        self.announce_due |= is_seen && session.is_none_or(|session| !session.bridged.is_empty());
    }

    /// Once for all that a batch has changed.
    pub(super) fn announce(&mut self) {
        if std::mem::take(&mut self.announce_due)
            && let Some(peer) = self.core.live.bridge.peer
        {
            self.tell(peer, FromDaemon::Bridge(translate::bridge::announce(&self.core)));
        }
    }

    fn answer(&mut self, peer: PeerId, call: u64, response: R) {
        let Some(handle) = self.peers.get(&peer).cloned() else { return };
        if matches!(&response, R::SessionDetail { .. } | R::Agent { .. }) {
            self.hub.answer(handle, call, response);
        } else {
            self.reply(peer, call, Outcome::Ok(Box::new(response)));
        }
    }

    fn agent_dir(&self, agent: &AgentId) -> Option<std::path::PathBuf> {
        self.core.durable.agents.get(agent).map(|agent| self.facts.agent_dir(agent).into())
    }

    fn spawn(&mut self, id: &AgentId, token: String) {
        let Some(agent) = self.core.durable.agents.get(id) else { return };
        let Some(session) = self.core.durable.sessions.get(&agent.session) else { return };
        // The scratchpad is looked at before every start: a cleaner may have taken it (rel-7).
        let env = self.envs.of(&session.id);
        let open = session.scratchpad.is_some().then(|| {
            let (id, cwd) = (session.id.clone(), session.cwd.clone());
            SessionJob::Open { session: id, cwd, tmp: tmp(&env).cloned(), create: false }
        });
        let Some(mut bootstrap) = translate::bootstrap(&self.facts, session, (agent, token), env)
        else {
            tracing::error!(agent = %id, session = %session.id, "the rules of its session cannot be read");
            return;
        };
        bootstrap.not_begun = translate::not_begun(&self.core.durable, agent);
        bootstrap.terminal = translate::in_terminal(&self.core.durable, agent);
        tracing::info!(agent = %id, incarnation = agent.incarnation, session = %session.id, "starting an agent");
        self.jobs.push(Job::Spawn { bootstrap: Box::new(bootstrap), open });
    }

    /// Where a session's scratchpad is made, when its client said so.
    fn tmp_of(&mut self, session: &coordd_core::id::SessionId) -> Option<String> {
        tmp(&self.envs.of(session)).cloned()
    }

    fn open_session(&mut self, id: &coordd_core::id::SessionId, create: bool) {
        let Some(session) = self.core.durable.sessions.get(id) else { return };
        if session.scratchpad.is_some() {
            let cwd = session.cwd.clone();
            let tmp = self.tmp_of(id);
            self.jobs.push(Job::Session(SessionJob::Open {
                session: id.clone(),
                cwd,
                tmp,
                create,
            }));
        }
    }
}

fn event_name(event: &proto::event::Event) -> &'static str {
    use proto::event::Event as E;
    match event {
        E::SessionCreated { .. } => "session_created",
        E::SessionChanged { .. } => "session_changed",
        E::SettingsChanged { .. } => "settings_changed",
        E::SessionRemoved {} => "session_removed",
        E::ModeSwitched { .. } => "mode_switched",
        E::AgentCreated { .. } => "agent_created",
        E::AgentChanged { .. } => "agent_changed",
        E::RunEnded { .. } => "run_ended",
        E::MessageChanged { .. } => "message_changed",
        E::PermissionAsked { .. } => "permission_asked",
        E::PermissionAnswered { .. } => "permission_answered",
        E::TeamChanged { .. } => "team_changed",
        E::TeamDeleted { .. } => "team_deleted",
        E::TaskChanged { .. } => "task_changed",
        E::Output { .. } => "output",
        E::Warning { .. } => "warning",
        E::Gap { .. } => "gap",
        E::Entry { .. } => "entry",
        E::Delta { .. } => "delta",
        E::Activity { .. } => "activity",
        E::CaughtUp {} => "caught_up",
        E::Screen { .. } => "screen",
    }
}
