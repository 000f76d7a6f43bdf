//! Events, as subscribers are told of them.

use coordd_core::Core;
use coordd_core::agent::{Life, Runtime};
use coordd_core::denial::Denial;
use coordd_core::effect::Event as It;
use coordd_core::id::{MessageId, PermissionId, SessionId};
use coordd_core::message::State;
use coordd_core::permission::By;
use proto::event::Event;
use proto::json::Json;
use proto::view::AgentState;

use super::{Facts, view};

/// The event, or nothing when what it is about is gone since.
pub(crate) fn event(core: &Core, facts: &Facts, session: &SessionId, it: &It) -> Option<Event> {
    let durable = &core.durable;
    Some(match it {
        It::SessionCreated => {
            Event::SessionCreated { session: view::session(core, durable.sessions.get(session)?) }
        }
        It::SessionChanged(state) => Event::SessionChanged { state: *state },
        It::SettingsChanged => {
            Event::SettingsChanged { session: view::session(core, durable.sessions.get(session)?) }
        }
        It::SessionRemoved => Event::SessionRemoved {},
        It::ModeSwitched { from, to } => Event::ModeSwitched { from: *from, to: *to },
        It::AgentCreated(id) => {
            Event::AgentCreated { agent: view::agent(core, facts, durable.agents.get(id)?) }
        }
        It::AgentChanged { agent, life, reason } => {
            let of = durable.agents.get(agent)?;
            Event::AgentChanged {
                agent: agent.to_string(),
                name: of.name.to_string(),
                state: match life {
                    Life::Down if matches!(of.runtime, Runtime::Terminal | Runtime::Bridged) => {
                        view::agent_state(core, of)
                    }
                    Life::Down => AgentState::Stopped,
                    Life::Waiting => AgentState::Waiting,
                    Life::Stopping { .. } => AgentState::Stopping,
                    Life::Up => view::agent_state(core, of),
                },
                reason: reason.clone(),
            }
        }
        It::RunEnded { agent } => {
            let of = durable.agents.get(agent)?;
            Event::RunEnded {
                name: of.name.to_string(),
                notification: view::notification(of)?,
                thin: of.last.as_ref()?.thin,
            }
        }
        It::MessageChanged { message, state } => message_changed(core, *message, *state)?,
        It::PermissionAsked(id) => Event::PermissionAsked {
            permission: view::permission(core, durable.permissions.get(id)?),
        },
        It::PermissionAnswered { id, allowed } => answered(core, *id, *allowed)?,
        It::TeamChanged(name) => {
            Event::TeamChanged { team: view::team(core, facts, durable.teams.get(name)?) }
        }
        It::TeamDeleted(name) => Event::TeamDeleted { name: name.to_string() },
        It::TaskChanged { team, task } => {
            let team = durable.teams.get(team)?;
            Event::TaskChanged { task: view::task_row(team, team.tasks.get(task)?) }
        }
        It::Output => {
            let text = durable.sessions.get(session)?.output.as_ref()?;
            Event::Output { output: Json(serde_json::from_str(text).ok()?) }
        }
        It::EditRefused { team, task, why } => {
            let is_known = durable.teams.get(team)?.tasks.contains_key(task);
            Event::Warning { text: edit_refused(team.as_str(), *task, why, is_known) }
        }
        It::Warning(text) => Event::Warning { text: text.clone() },
    })
}

/// The end of a question: by whom and how is in what is kept of it.
fn answered(core: &Core, id: PermissionId, allowed: bool) -> Option<Event> {
    let question = core.durable.permissions.get(&id)?;
    let answer = question.answer.as_ref()?;
    let agent = core.durable.agents.get(&question.agent).map(|of| of.name.to_string());
    Some(Event::PermissionAnswered {
        id: id.to_string(),
        allowed,
        agent: agent.unwrap_or_default(),
        rule: answer.rule.clone(),
        with: match answer.by {
            By::With(other) => other.to_string(),
            By::User | By::RunEnd => String::new(),
        },
        note: answer.reason.clone(),
    })
}

/// Of a message in a mailbox, or of one to the outside.
fn message_changed(core: &Core, id: MessageId, state: State) -> Option<Event> {
    let durable = &core.durable;
    let (from, to, reason) = if let Some(of) = durable.outbox.get(id) {
        (&of.from, of.to.to_string(), &of.reason)
    } else {
        let of = durable.messages.get(&id)?;
        (&of.from, durable.agents.get(&of.to)?.name.to_string(), &of.reason)
    };
    Some(Event::MessageChanged {
        id: id.to_string(),
        from: view::sender(core, from),
        to,
        state,
        reason: reason.clone(),
    })
}

fn edit_refused(team: &str, task: u32, why: &Denial, is_known: bool) -> String {
    let why = super::error_body(why);
    let hint = if why.hint.is_empty() { String::new() } else { format!(" ({})", why.hint) };
    let then = if is_known {
        "the file was written again"
    } else {
        "the file stays where it is, but is not a task of the team"
    };
    format!(
        "the change in the file of task {task} of team {team} is not valid: {}{hint}; {then}",
        why.message
    )
}

#[cfg(test)]
mod tests {
    use coordd_core::message::Sender;
    use coordd_core::outgoing::{Kind, Outgoing};
    use coordd_core::{Durable, Live, Record};

    use super::*;

    fn outgoing(id: u64, to: &str) -> Outgoing {
        Outgoing {
            id: MessageId(id),
            session: None,
            from: Sender::User,
            to: to.into(),
            wire_id: format!("wire-{id}"),
            kind: Kind::Words { summary: String::new(), notice_id: None },
            text: "hello".into(),
            state: State::Accepted,
            accepted_ms: 1,
            delivered_ms: None,
            ended_ms: None,
            reason: String::new(),
        }
    }

    #[test]
    fn fa22_a_message_outside_is_told_with_its_own_address() {
        let mut durable = Durable::default();
        let far = "bridge:aaaaaaaaaaaaaaaa/s9";
        for (id, to) in [(1, "uds:/run/bob.sock"), (2, far)] {
            durable.apply(&Record::OutgoingPut { outgoing: outgoing(id, to).into() });
        }
        let core = Core { durable, live: Live::default() };
        for (id, address) in [(1, "uds:/run/bob.sock"), (2, far)] {
            let event = message_changed(&core, MessageId(id), State::Accepted);
            let Some(Event::MessageChanged { to, .. }) = event else { panic!("{event:?}") };
            assert_eq!(to, address);
        }
    }
}
