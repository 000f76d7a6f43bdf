//! Questions to the state that survives.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::state::agent::Agent;
use crate::state::durable::Kept;
use crate::state::id::{AgentId, SessionId};
use crate::state::permission::Permission;
use crate::state::role::Role;
use crate::state::team::Team;

impl Kept {
    /// Whether there is anything that `Forgotten` would remove.
    pub(crate) fn has_older_than(&self, before_ms: u64) -> bool {
        self.messages
            .values()
            .any(|it| it.state.is_final() && it.ended_ms.is_some_and(|at| at < before_ms))
            || self
                .permissions
                .values()
                .any(|it| it.answer.as_ref().is_some_and(|it| it.at_ms < before_ms))
            || self.outbox.has_older_than(before_ms)
            || self
                .keys
                .iter()
                .any(|((caller, _), (_, at_ms))| *at_ms < before_ms && !self.may_repeat(caller))
    }

    /// Whether an agent is in the middle of a run, and may repeat a call of it however long ago that was.
    pub(crate) fn may_repeat(&self, caller: &str) -> bool {
        self.agents.get(&AgentId(String::from(caller))).is_some_and(Agent::run_is_open)
    }

    /// The agents of a session: the lead first, then workers in the order of their making.
    pub fn agents_of<'a>(&'a self, session: &'a SessionId) -> Vec<&'a Agent> {
        let members = self.members.get(session).into_iter().flatten();
        let mut agents: Vec<_> = members.filter_map(|id| self.agents.get(id)).collect();
        let key = |it: &Agent| (it.role == Role::Worker, it.created_ms);
        agents.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id)));
        agents
    }

    /// The lead of a session.
    pub fn lead_of(&self, session: &SessionId) -> Option<&Agent> {
        self.agents.get(&self.sessions.get(session)?.lead)
    }

    /// The team of a session.
    pub fn team_of(&self, session: &SessionId) -> Option<&Team> {
        self.teams.values().find(|it| it.session == *session)
    }

    /// The open questions of an agent.
    pub fn open_questions<'a>(
        &'a self,
        agent: &'a AgentId,
    ) -> impl Iterator<Item = &'a Permission> {
        self.permissions.values().filter(move |it| it.agent == *agent && it.answer.is_none())
    }

    /// Agents with an open question: a call of theirs stands still until a person answers.
    pub(crate) fn askers(&self) -> BTreeSet<&AgentId> {
        let open = self.permissions.values().filter(|question| question.answer.is_none());
        open.map(|question| &question.agent).collect()
    }
}
