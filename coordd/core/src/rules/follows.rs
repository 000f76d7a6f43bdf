//! What follows from a record by itself: whom `settle` looks at, and what subscribers are told. Both are whole lists, so that a
//! new record is not forgotten in either.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use crate::rules::turn::Turn;
use crate::state::Record;
use crate::state::agent::{Agent, Life};
use crate::state::effect::Event;
use crate::state::id::{AgentId, MessageId, SessionId};
use crate::state::message::{Message, Sender, State};
use crate::state::name::Name;
use crate::state::outgoing::{self, Outgoing};

/// The agents for which there may be something to do now.
pub(super) fn agents_to_look_at(turn: &Turn<'_>, record: &Record) -> Vec<AgentId> {
    let members = |session: &SessionId| {
        turn.durable.agents_of(session).iter().map(|agent| agent.id.clone()).collect()
    };
    let receiver = |id: &MessageId| turn.durable.messages.get(id).map(|it| it.to.clone());
    let lead = |session: &SessionId| turn.durable.lead_of(session).map(|it| it.id.clone());
    match record {
        Record::AgentPut { agent } => [agent.id.clone()].to_vec(),
        Record::AgentWaiting { agent }
        | Record::AgentDown { agent }
        | Record::AgentParked { agent }
        | Record::AgentStarted { agent, .. }
        | Record::AgentSpawned { agent, .. }
        | Record::AgentStopping { agent, .. }
        | Record::AgentExited { agent, .. }
        | Record::TerminalSeen { agent, .. }
        | Record::PtySet { agent, .. }
        | Record::RunEnded { agent, .. }
        | Record::MessagesConsumed { agent, .. } => [agent.clone()].to_vec(),
        Record::PermissionPut { permission } => [permission.agent.clone()].to_vec(),
        Record::MessagePut { message } => [message.to.clone()].to_vec(),
        Record::MessageBounced { message, .. }
        | Record::MessageExpired { message, .. }
        | Record::MessageLetIn { message, .. } => receiver(message).into_iter().collect(),
        Record::SessionState { session, .. } => members(session),
        Record::WatcherPut { session, .. } => lead(session).into_iter().collect(),
        // `settle` hands messages over itself; the rest is about no agent.
        Record::MessageDelivered { .. }
        | Record::BridgeSet { .. }
        | Record::Counters { .. }
        | Record::SessionPut { .. }
        | Record::ScratchpadReady { .. }
        | Record::RuleLearned { .. }
        | Record::OutputGiven { .. }
        | Record::InboundSet { .. }
        | Record::WatchersTold { .. }
        | Record::BridgeAllowed { .. }
        | Record::SessionRemoved { .. }
        | Record::OutgoingPut { .. }
        | Record::OutgoingMoved { .. }
        | Record::RequestAnswered { .. }
        | Record::PermissionAnswered { .. }
        | Record::TeamPut { .. }
        | Record::TeamEdited { .. }
        | Record::TeamDeleting { .. }
        | Record::TeamDeleted { .. }
        | Record::TaskPut { .. }
        | Record::Keyed { .. }
        | Record::Forgotten { .. } => Vec::new(),
    }
}

type Told = Vec<(SessionId, Event)>;

/// What subscribers are told, and of which session: the empty id is for what is the user's own.
#[expect(
    clippy::too_many_lines,
    reason = "one short arm for each record, and none may be forgotten"
)]
pub(super) fn events(turn: &Turn<'_>, record: &Record, reason: &str) -> Told {
    let durable = turn.durable;
    let life = |agent: &AgentId, life: Life| life_of(turn, agent, life, reason);
    let message = |id: MessageId, state: State| {
        let it = durable.messages.get(&id);
        it.map(|it| changed(&it.session, id, state)).into_iter().collect()
    };
    let of_team = |team: &Name, event: Event| {
        let it = durable.teams.get(team);
        it.map(|it| (it.session.clone(), event)).into_iter().collect()
    };
    match record {
        Record::SessionPut { session } => one(&session.id, Event::SessionCreated),
        Record::SessionState { session, state } => one(session, Event::SessionChanged(*state)),
        Record::OutputGiven { session, .. } => one(session, Event::Output),
        Record::InboundSet { session, .. } | Record::BridgeAllowed { session, .. } => {
            one(session, Event::SettingsChanged)
        }
        Record::SessionRemoved { session } => one(session, Event::SessionRemoved),

        Record::AgentPut { agent } => one(&agent.session, Event::AgentCreated(agent.id.clone())),
        Record::AgentWaiting { agent } => life(agent, Life::Waiting),
        Record::AgentDown { agent }
        | Record::AgentExited { agent, .. }
        | Record::TerminalSeen { agent, .. } => life(agent, Life::Down),
        Record::AgentStarted { agent, .. } => life(agent, Life::Up),
        Record::AgentStopping { agent, by, keep_mail } => {
            life(agent, Life::Stopping { by: by.clone(), keep_mail: *keep_mail })
        }
        Record::RunEnded { agent, .. } => {
            let ended = Event::RunEnded { agent: agent.clone() };
            let session = turn.session_of(agent);
            let ended = session.map(|session| (session.clone(), ended));
            ended.into_iter().chain(works(turn, agent)).collect()
        }

        Record::MessagePut { message } => {
            [changed(&message.session, message.id, message.state)].to_vec()
        }
        Record::MessageDelivered { message: id, .. } => {
            let is_new = |it: &Message| it.state == State::Accepted;
            if durable.messages.get(id).is_some_and(is_new) {
                message(*id, State::Delivered)
            } else {
                Vec::new()
            }
        }
        Record::MessagesConsumed { agent, messages, .. } => {
            let read = messages.iter().flat_map(|id| message(*id, State::Consumed));
            read.chain(works(turn, agent)).collect()
        }
        Record::MessageBounced { message: id, .. } => message(*id, State::Bounced),
        Record::MessageExpired { message: id, .. } => message(*id, State::Expired),
        Record::MessageLetIn { message: id, new } => {
            let it = durable.messages.get(id);
            it.map(|it| changed(&it.session, *new, State::Accepted)).into_iter().collect()
        }
        Record::OutgoingPut { outgoing } => outside(outgoing, outgoing.state),
        Record::OutgoingMoved { outgoing, state, .. } => {
            durable.outbox.get(*outgoing).map(|it| outside(it, *state)).unwrap_or_default()
        }

        Record::PermissionPut { permission } => {
            one(&permission.session, Event::PermissionAsked(permission.id))
        }
        Record::PermissionAnswered { id, answer } => {
            // More may be recorded of an answer that was told already.
            let it = durable.permissions.get(id).filter(|it| it.answer.is_none());
            let event = Event::PermissionAnswered { id: *id, allowed: answer.allow };
            it.map(|it| (it.session.clone(), event)).into_iter().collect()
        }

        Record::TeamPut { team } => one(&team.session, Event::TeamChanged(team.name.clone())),
        Record::TeamEdited { team, .. } => of_team(team, Event::TeamChanged(team.clone())),
        Record::TeamDeleted { team } => of_team(team, Event::TeamDeleted(team.clone())),
        Record::TaskPut { team, task } => {
            of_team(team, Event::TaskChanged { team: team.clone(), task: task.id })
        }

        // Nothing of these is in what anybody is shown, or it comes with another record.
        Record::BridgeSet { .. }
        | Record::Counters { .. }
        | Record::ScratchpadReady { .. }
        | Record::RuleLearned { .. }
        | Record::WatcherPut { .. }
        | Record::WatchersTold { .. }
        | Record::AgentParked { .. }
        | Record::AgentSpawned { .. }
        | Record::PtySet { .. }
        | Record::RequestAnswered { .. }
        | Record::TeamDeleting { .. }
        | Record::Keyed { .. }
        | Record::Forgotten { .. } => Vec::new(),
    }
}

fn one(session: &SessionId, event: Event) -> Told {
    [(session.clone(), event)].to_vec()
}

fn changed(session: &SessionId, message: MessageId, state: State) -> (SessionId, Event) {
    (session.clone(), Event::MessageChanged { message, state })
}

fn life_of(turn: &Turn<'_>, agent: &AgentId, life: Life, reason: &str) -> Told {
    let Some(session) = turn.session_of(agent) else { return Vec::new() };
    let event = Event::AgentChanged { agent: agent.clone(), life, reason: reason.to_owned() };
    one(session, event)
}

/// Whether an agent works that has no process of ours is known by its runs alone.
fn works(turn: &Turn<'_>, agent: &AgentId) -> Told {
    let is_such = |it: &&Agent| it.is_in_terminal() || it.is_hosted();
    let it = turn.durable.agents.get(agent).filter(is_such);
    it.map(|it| life_of(turn, agent, it.life.clone(), "")).unwrap_or_default()
}

/// What coordd itself says leaves no receipt, and a worker's mail has one of its own.
fn outside(it: &Outgoing, state: State) -> Told {
    if it.from == Sender::System || matches!(it.kind, outgoing::Kind::Work { .. }) {
        return Vec::new();
    }
    let session = it.session.clone().unwrap_or_else(|| SessionId(String::new()));
    [changed(&session, it.id, state)].to_vec()
}
