//! Members of a team that run in a terminal, and what passes between us and them: what is for one is left in its inbox file by
//! the shell, and what it leaves in the inboxes of others comes in here. Most terminals are the user's own, and coordd neither
//! starts nor ends them; for those that it runs see [`crate::rules::pty`].
//!
//! | what it does | what comes of it |
//! |---|---|
//! | takes a message out of its inbox | the message is consumed, and a run is open |
//! | says that it is idle | the run is over, and the lead is notified |
//! | its process is gone in the middle of a run | the run has failed, and the lead is notified |
//! | writes to one of ours | a message, in its own name: another agent's words |
//! | asks for approval of a plan | a request, which only the lead or the user answers |
//!
//! Each thing that it left is known by a key, so that it counts once, however often the shell finds it. It is taken out of
//! the file once that is durable.

use crate::rules::mailbox::{self, Draft, Numbers};
use crate::rules::{Step, host, lifecycle};
use crate::state::agent::{Agent, Class, Life, Outcome, Process, Status, Usage};
use crate::state::effect::Event;
use crate::state::id::{AgentId, MessageId};
use crate::state::message::{Kind, Sender, State};
use crate::state::record::Keyed;
use crate::state::session::SessionState;
use crate::state::terminal::{Left, Said};
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

/// Has an agent's inbox served when there is something to put into it. Called by `settle`.
pub(crate) fn serve(durable: &Durable, live: &Live, step: &mut Step, agent: &Agent) {
    let is_live =
        durable.sessions.get(&agent.session).is_some_and(|it| it.state == SessionState::Live);
    let waits =
        |id: &MessageId| durable.messages.get(id).is_some_and(|it| it.state == State::Accepted);
    if is_live
        && !live.is_ending()
        && agent.mailbox.back().is_some_and(waits)
        && let Some(team) = durable.team_of(&agent.session).filter(|it| !it.deleting)
    {
        step.effect(Effect::ServeInboxes { team: team.name.clone() });
    }
}

fn member<'a>(durable: &'a Durable, id: &AgentId) -> Option<&'a Agent> {
    durable.agents.get(id).filter(|it| it.is_in_terminal())
}

/// These messages stand in a member's inbox.
pub(crate) fn written(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    id: &AgentId,
    messages: &[MessageId],
) {
    let Some(agent) = member(durable, id) else { return };
    for id in messages.iter().filter(|it| agent.has_mail(**it)) {
        if durable.messages.get(id).is_some_and(|it| it.state == State::Accepted) {
            step.record(Record::MessageDelivered { message: *id, at_ms: now.wall_ms });
            publish(step, agent, *id, State::Delivered);
        }
    }
}

/// A member has read these messages. A run is open now, unless all that it was asked is to end.
pub(crate) fn read(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    id: &AgentId,
    messages: &[MessageId],
) {
    let Some(agent) = member(durable, id) else { return };
    let mut own: Vec<_> = messages.iter().filter(|it| agent.has_mail(**it)).copied().collect();
    own.sort_unstable();
    own.dedup();
    if own.is_empty() {
        return;
    }
    for id in &own {
        publish(step, agent, *id, State::Consumed);
    }
    let begins = |id: &MessageId| {
        durable.messages.get(id).is_some_and(|it| !matches!(it.kind, Kind::ShutdownRequest { .. }))
    };
    let run = agent.runs + u32::from(own.iter().any(begins));
    step.record(Record::MessagesConsumed {
        agent: agent.id.clone(),
        messages: own,
        run,
        at_ms: now.wall_ms,
    });
    lifecycle::publish_life(step, agent, agent.life.clone(), "");
    live.touch(&agent.id);
}

fn publish(step: &mut Step, agent: &Agent, message: MessageId, state: State) {
    let event = Event::MessageChanged { message, state };
    step.effect(Effect::Publish { session: agent.session.clone(), event });
}

/// A member's process was seen, or is seen no more.
pub(crate) fn seen(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    id: &AgentId,
    process: Option<Process>,
) {
    // One that coordd runs is known by its own process.
    let is_news = |it: &&Agent| it.process != process && !it.has_pty();
    let Some(agent) = member(durable, id).filter(is_news) else { return };
    let is_gone = process.is_none();
    step.record(Record::TerminalSeen { agent: agent.id.clone(), process });
    if is_gone && agent.run_is_open() {
        let reason = "its terminal was closed in the middle of its work".to_owned();
        let failed = Outcome::silent(Status::Failed, Some(Class::Adjust), reason);
        lifecycle::end_run(durable, live, step, now, agent, agent.runs + 1, failed);
    }
    lifecycle::publish_life(step, agent, Life::Down, "");
}

/// A member left something in an inbox. What is not taken over stays in the file and is found again.
pub(crate) fn left(durable: &Durable, live: &mut Live, step: &mut Step, now: &Moment, it: Left) {
    let Some(team) = durable.teams.get(&it.team).filter(|it| !it.deleting) else { return };
    let Some(agent) = member(durable, &it.from).filter(|it| it.session == team.session) else {
        return;
    };
    let taken =
        Effect::InboxTaken { team: it.team.clone(), inbox: it.inbox.clone(), key: it.key.clone() };
    if durable.keys.contains_key(&(agent.id.to_string(), it.key.clone())) {
        step.effect(taken);
        return;
    }
    let is_live =
        durable.sessions.get(&team.session).is_some_and(|it| it.state == SessionState::Live);
    if live.disk_full || !is_live || it.key.len() > limits::KEY_LEN_MAX {
        return;
    }
    let caller = agent.id.to_string();
    let key = it.key.clone();
    if take_over(durable, live, step, now, agent, it) {
        step.record(Record::Keyed { caller, key, to: Keyed::Sent(Vec::new()), at_ms: now.wall_ms });
        step.effect(taken);
    } else {
        *step = Step::default();
    }
}

/// Whether it was taken over; otherwise nothing may have changed.
fn take_over(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    it: Left,
) -> bool {
    let to = it.to.as_ref().and_then(|id| durable.agents.get(id));
    let lead = durable.lead_of(&agent.session);
    match it.said {
        Said::Text(text) => {
            say(durable, live, step, now, (agent, to, &it.inbox), Kind::Text, text, it.summary)
        }
        Said::PlanApprovalRequest { given, plan } => {
            let kind = Kind::PlanApprovalRequest { given, answered: false };
            say(durable, live, step, now, (agent, lead, &it.inbox), kind, plan, it.summary)
        }
        Said::Idle { result } if agent.run_is_open() => {
            let done = Outcome {
                status: Status::Completed,
                class: None,
                reason: String::new(),
                result,
                usage: Usage::default(),
            };
            lifecycle::end_run(durable, live, step, now, agent, agent.runs + 1, done);
            lifecycle::publish_life(step, agent, agent.life.clone(), "");
            true
        }
        // A turn that its user began, or one whose beginning was not seen: its words are not lost.
        Said::Idle { result } if result.is_empty() => true,
        Said::Idle { result } => {
            let summary = "has ended a turn".to_owned();
            say(durable, live, step, now, (agent, lead, &it.inbox), Kind::Text, result, summary)
        }
        Said::ShutdownResponse { request, approve, reason } => {
            answer_shutdown(durable, live, step, now, agent, request, approve, &reason)
        }
    }
}

/// Puts a message of a member into a mailbox. Where that is refused the member is told why, if it can be.
#[expect(clippy::too_many_arguments, reason = "one fact each about one message")]
fn say(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    (from, to, inbox): (&Agent, Option<&Agent>, &str),
    kind: Kind,
    text: String,
    summary: String,
) -> bool {
    let refused = match to {
        None => Some(format!("nobody in the team is called {inbox}")),
        Some(to) if text.len() > limits::BODY_LEN_MAX => Some(format!(
            "the message to {} has {} bytes, and at most {} are allowed",
            to.name,
            text.len(),
            limits::BODY_LEN_MAX
        )),
        Some(to) if host::check(durable, step, to, &text).is_err() => {
            Some(format!("nothing goes to the machine of {} at the moment", to.name))
        }
        Some(to) => {
            mailbox::check(to, &text).err().map(|_| format!("the mailbox of {} is full", to.name))
        }
    };
    let mut numbers = Numbers::after(durable, step);
    match (refused, to) {
        (None, Some(to)) => {
            let draft = Draft { from: Sender::Agent(from.id.clone()), kind, text, summary };
            mailbox::accept(&mut numbers, live, step, now, to, draft);
            true
        }
        (refused, _) => {
            let why = refused.unwrap_or_default();
            let text = format!("Undeliverable: {why}. The message began with: {}", head(&text));
            // Full too: then it waits in the file, which is bounded by who writes it.
            if mailbox::check(from, &text).is_err() {
                return false;
            }
            let summary = "undeliverable".to_owned();
            let draft = Draft { from: Sender::System, kind: Kind::Text, text, summary };
            mailbox::accept(&mut numbers, live, step, now, from, draft);
            true
        }
    }
}

fn head(text: &str) -> String {
    text.chars().take(limits::SUMMARY_LEN_MAX).collect()
}

#[expect(clippy::too_many_arguments, reason = "one fact each about one answer")]
fn answer_shutdown(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    request: MessageId,
    approve: bool,
    reason: &str,
) -> bool {
    let open = durable
        .messages
        .get(&request)
        .filter(|it| it.to == agent.id && it.kind == (Kind::ShutdownRequest { answered: false }));
    let Some(open) = open else {
        let text = format!("{} answered a request to shut down that is not open", agent.name);
        let event = Event::Warning(text);
        step.effect(Effect::Publish { session: agent.session.clone(), event });
        return true;
    };
    // Who asked in the user's name is not there to hear it; the lead has to know who leaves.
    let asker = match &open.from {
        Sender::Agent(id) => durable.agents.get(id),
        Sender::User | Sender::Outside(_) | Sender::System => durable.lead_of(&agent.session),
    };
    let kind = Kind::ShutdownResponse { approve };
    let text = reason.chars().take(limits::REASON_LEN_MAX / 4).collect();
    if let Some(asker) = asker {
        if mailbox::check(asker, reason).is_err() {
            return false;
        }
        let mut numbers = Numbers::after(durable, step);
        let summary = String::new();
        let draft = Draft { from: Sender::Agent(agent.id.clone()), kind, text, summary };
        mailbox::accept(&mut numbers, live, step, now, asker, draft);
    }
    step.record(Record::RequestAnswered { message: open.id });
    if agent.has_mail(open.id) {
        // Whoever ends at once leaves it unread.
        publish(step, agent, open.id, State::Consumed);
        step.record(Record::MessagesConsumed {
            agent: agent.id.clone(),
            messages: [open.id].to_vec(),
            run: agent.runs,
            at_ms: now.wall_ms,
        });
    }
    if approve && agent.run_is_open() {
        let ended = lifecycle::killed("its agreement to shut down");
        lifecycle::end_run(durable, live, step, now, agent, agent.runs + 1, ended);
    }
    true
}
