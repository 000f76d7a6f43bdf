//! A message, as an agent's conversation is to read it. Notifications are rendered here, from the
//! daemon's own ids (N-3).

use coordd_core::agent::{LastRun, Outcome};
use coordd_core::id::{AgentId, MessageId};
use coordd_core::message::{Kind, Message, Outside, Sender};
use coordd_core::{Core, runs};
use proto::agent::Order;
use proto::entry::Origin;
use proto::notification::{Notification, render, render_agent_message, render_outside_message};
use proto::screen::{Bytes, Size};

use super::view;

/// The order that hands a message over, or nothing if it is gone.
pub(crate) fn deliver(core: &Core, id: MessageId) -> Option<Order> {
    // One that ended in the same batch has no text any more, and nobody waits for it.
    let message = core.durable.messages.get(&id).filter(|it| !it.state.is_final())?;
    let (origin, text) = read_as(core, message);
    let shutdown = matches!(message.kind, Kind::ShutdownRequest { .. });
    Some(Order::Deliver { message: id.to_string(), origin, text, shutdown })
}

/// Any other order.
pub(crate) fn order(it: coordd_core::effect::Order) -> Order {
    use coordd_core::effect::Order as It;
    match it {
        It::Stop { by, keeps_run } => {
            Order::Stop { reason: format!("stopped by {by}"), keep_run: keeps_run }
        }
        It::Interrupt => Order::Interrupt {},
        It::Learned { rule } => Order::Learned { rule },
        It::Screen { shown } => Order::Screen { shown },
        It::ScreenInput { size, bytes } => Order::ScreenInput {
            size: size.map(|it| Size { rows: it.rows, columns: it.columns }),
            bytes: Bytes(bytes),
        },
    }
}

fn read_as(core: &Core, message: &Message) -> (Origin, String) {
    match &message.kind {
        Kind::Notification { agent, outcome, thin, .. } => {
            let it = notification(core, agent, outcome, *thin, message);
            let text = render(&it);
            (Origin::Notification { notification: it }, text)
        }
        // A prompt is the task itself, from the user, or from the lead at the worker's start.
        Kind::Prompt => match &message.from {
            Sender::User => (Origin::User {}, message.text.clone()),
            Sender::Agent(_) | Sender::System => {
                (Origin::Agent { name: view::sender(core, &message.from) }, message.text.clone())
            }
            // Nobody outside may give a task, but to a worker that runs here for another machine.
            Sender::Outside(from) if is_guest(core, message) => {
                (Origin::Agent { name: view::outside_name(from) }, message.text.clone())
            }
            Sender::Outside(from) => outside(from, &message.text),
        },
        Kind::ShutdownRequest { .. } => {
            (Origin::Agent { name: view::sender(core, &message.from) }, message.text.clone())
        }
        Kind::Text => from_agent(core, message, &message.text),
        Kind::PlanApprovalRequest { .. } => {
            let id = message.request_id().unwrap_or_default();
            let text = format!(
                "asks you to approve its plan, and waits. Answer with a plan_approval_response that has the request_id {id}: approve \
                 it, or say in the feedback what to change. The plan:\n\n{}",
                message.text
            );
            from_agent(core, message, &text)
        }
        Kind::PlanApprovalResponse { approve, .. } => {
            let word = if *approve { "approves the plan" } else { "does not approve the plan" };
            from_agent(core, message, &format!("{word}: {}", message.text))
        }
        Kind::TaskAssignment { task, subject } => {
            let text = format!("Task {task} is yours now: {subject}\n\n{}", message.text);
            from_agent(core, message, &text)
        }
        Kind::ShutdownResponse { approve } => {
            let word = if *approve { "agrees to shut down" } else { "does not shut down" };
            let text = if message.text.is_empty() {
                word.to_owned()
            } else {
                format!("{word}: {}", message.text)
            };
            from_agent(core, message, &text)
        }
    }
}

/// The user's words stay as they are; an agent's are framed, and stay inside of their frame (M-8).
fn from_agent(core: &Core, message: &Message, text: &str) -> (Origin, String) {
    match &message.from {
        Sender::User => (Origin::User {}, text.to_owned()),
        Sender::System => (Origin::System {}, text.to_owned()),
        Sender::Outside(from) if is_guest(core, message) => {
            let name = view::outside_name(from);
            let framed = render_agent_message(&name, &message.summary, text);
            (Origin::Agent { name }, framed)
        }
        Sender::Outside(from) => outside(from, text),
        Sender::Agent(_) => {
            let name = view::sender(core, &message.from);
            let framed = render_agent_message(&name, &message.summary, text);
            (Origin::Agent { name }, framed)
        }
    }
}

/// Whether the receiver runs here for another machine, so that who speaks from there is its lead.
fn is_guest(core: &Core, message: &Message) -> bool {
    core.durable.agents.get(&message.to).is_some_and(|it| it.far_lead().is_some())
}

/// Words from outside carry where they come from, and no authority.
fn outside(from: &Outside, text: &str) -> (Origin, String) {
    let name = view::outside_name(from);
    let address = from.address.to_string();
    let framed = render_outside_message(&name, &address, from.verified, text);
    (Origin::Outside { name, address, verified: from.verified }, framed)
}

fn notification(
    core: &Core,
    agent: &AgentId,
    outcome: &Outcome,
    thin: bool,
    message: &Message,
) -> Notification {
    // The message's own summary is cut for lists; the lead reads the reason whole.
    let last = LastRun { outcome: outcome.clone(), ended_ms: message.accepted_ms, thin };
    let agents = &core.durable.agents;
    let summary =
        agents.get(agent).map_or_else(|| message.summary.clone(), |it| runs::summary(it, &last));
    Notification {
        task_id: agent.to_string(),
        status: outcome.status,
        summary,
        result: message.text.clone(),
        usage: outcome.usage,
    }
}
