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

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::rules::mailbox::{self, Draft};
use crate::rules::turn::Turn;
use crate::rules::{outbox, runs};
use crate::state::agent::{Agent, Class, Outcome, Process, Status, Usage};
use crate::state::effect::Event;
use crate::state::id::{AgentId, MessageId};
use crate::state::message::{Kind, Sender, State};
use crate::state::record::Keyed;
use crate::state::session::SessionState;
use crate::state::terminal::{Left, Said};
use crate::state::{Durable, Effect, Record, limits};

/// Has an agent's inbox served when there is something to put into it. Called by `settle`.
pub(crate) fn serve(turn: &mut Turn<'_>, agent: &Agent) {
    let is_live =
        turn.durable.sessions.get(&agent.session).is_some_and(|it| it.state == SessionState::Live);
    let waits = |id: &MessageId| {
        turn.durable.messages.get(id).is_some_and(|it| it.state == State::Accepted)
    };
    if is_live
        && !turn.live.is_ending()
        && agent.mailbox.back().is_some_and(waits)
        && let Some(team) = turn.durable.team_of(&agent.session).filter(|it| !it.deleting)
    {
        turn.effect(Effect::ServeInboxes { team: team.name.clone() });
    }
}

fn member<'a>(durable: &'a Durable, id: &AgentId) -> Option<&'a Agent> {
    durable.agents.get(id).filter(|it| it.is_in_terminal())
}

/// These messages stand in a member's inbox.
pub(crate) fn written(turn: &mut Turn<'_>, id: &AgentId, messages: &[MessageId]) {
    let Some(agent) = member(turn.durable, id) else { return };
    for id in messages.iter().filter(|it| agent.has_mail(**it)) {
        if turn.durable.messages.get(id).is_some_and(|it| it.state == State::Accepted) {
            turn.record(Record::MessageDelivered { message: *id, at_ms: turn.now.wall_ms });
        }
    }
}

/// A member has read these messages. A run is open now, unless all that it was asked is to end.
pub(crate) fn read(turn: &mut Turn<'_>, id: &AgentId, messages: &[MessageId]) {
    let Some(agent) = member(turn.durable, id) else { return };
    let mut own: Vec<_> = messages.iter().filter(|it| agent.has_mail(**it)).copied().collect();
    own.sort_unstable();
    own.dedup();
    if own.is_empty() {
        return;
    }
    let begins = |id: &MessageId| {
        turn.durable
            .messages
            .get(id)
            .is_some_and(|it| !matches!(it.kind, Kind::ShutdownRequest { .. }))
    };
    let run = agent.runs + u32::from(own.iter().any(begins));
    turn.record(Record::MessagesConsumed {
        agent: agent.id.clone(),
        messages: own,
        run,
        at_ms: turn.now.wall_ms,
    });
}

/// A member's process was seen, or is seen no more.
pub(crate) fn seen(turn: &mut Turn<'_>, id: &AgentId, process: Option<Process>) {
    // A terminal that coordd runs is known by its own process.
    let is_news = |it: &&Agent| it.process != process && !it.has_pty();
    let Some(agent) = member(turn.durable, id).filter(is_news) else { return };
    let is_gone = process.is_none();
    turn.record(Record::TerminalSeen { agent: agent.id.clone(), process });
    if is_gone && agent.run_is_open() {
        let reason = "its terminal was closed in the middle of its work".to_owned();
        let failed = Outcome::silent(Status::Failed, Some(Class::Adjust), reason);
        runs::end(turn, agent, agent.runs + 1, failed);
    }
}

/// A member left something in an inbox. What is not taken over stays in the file and is found again.
pub(crate) fn left(turn: &mut Turn<'_>, it: Left) {
    let Some(team) = turn.durable.teams.get(&it.team).filter(|it| !it.deleting) else { return };
    let Some(agent) = member(turn.durable, &it.from).filter(|it| it.session == team.session) else {
        return;
    };
    let taken =
        Effect::InboxTaken { team: it.team.clone(), inbox: it.inbox.clone(), key: it.key.clone() };
    if turn.durable.keys.contains_key(&(agent.id.to_string(), it.key.clone())) {
        turn.effect(taken);
        return;
    }
    let is_live =
        turn.durable.sessions.get(&team.session).is_some_and(|it| it.state == SessionState::Live);
    if turn.live.disk_full || !is_live || it.key.len() > limits::KEY_LEN_MAX {
        return;
    }
    let caller = agent.id.to_string();
    let key = it.key.clone();
    if take_over(turn, agent, it) {
        turn.record(Record::Keyed { caller, key, to: Keyed::Seen, at_ms: turn.now.wall_ms });
        turn.effect(taken);
    } else {
        turn.take_back();
    }
}

/// Whether it was taken over; otherwise nothing may have changed.
fn take_over(turn: &mut Turn<'_>, agent: &Agent, it: Left) -> bool {
    let to = it.to.as_ref().and_then(|id| turn.durable.agents.get(id));
    let lead = turn.durable.lead_of(&agent.session);
    let draft = |kind: Kind, text: String, summary: String| Draft {
        from: Sender::Agent(agent.id.clone()),
        kind,
        text,
        summary,
    };
    match it.said {
        Said::Text(text) => say(turn, agent, to, &it.inbox, draft(Kind::Text, text, it.summary)),
        Said::PlanApprovalRequest { given, plan } => {
            let kind = Kind::PlanApprovalRequest { given, answered: false };
            say(turn, agent, lead, &it.inbox, draft(kind, plan, it.summary))
        }
        Said::Idle { result } if agent.run_is_open() => {
            let done = Outcome {
                status: Status::Completed,
                class: None,
                reason: String::new(),
                result,
                usage: Usage::default(),
            };
            runs::end(turn, agent, agent.runs + 1, done);
            true
        }
        // A turn that its user began, or one whose beginning was not seen: its words are not lost.
        Said::Idle { result } if result.is_empty() => true,
        Said::Idle { result } => {
            let summary = "has ended a turn".to_owned();
            say(turn, agent, lead, &it.inbox, draft(Kind::Text, result, summary))
        }
        Said::ShutdownResponse { request, approve, reason } => {
            answer_shutdown(turn, agent, request, approve, &reason)
        }
    }
}

/// Puts a message of a member into a mailbox. Where that is refused the member is told why, if it can be.
fn say(turn: &mut Turn<'_>, from: &Agent, to: Option<&Agent>, inbox: &str, draft: Draft) -> bool {
    let text = &draft.text;
    let refused = match to {
        None => Some(format!("nobody in the team is called {inbox}")),
        Some(to) if text.len() > limits::BODY_LEN_MAX => Some(format!(
            "the message to {} has {} bytes, and at most {} are allowed",
            to.name,
            text.len(),
            limits::BODY_LEN_MAX
        )),
        Some(to) if outbox::check(turn, to, text).is_err() => {
            Some(format!("the machine of {} cannot be reached at the moment", to.name))
        }
        Some(to) => {
            mailbox::check(to, text).err().map(|_| format!("the mailbox of {} is full", to.name))
        }
    };
    match (refused, to) {
        (None, Some(to)) => {
            mailbox::accept(turn, to, draft);
            true
        }
        (refused, _) => {
            let why = refused.unwrap_or_default();
            let text = format!("Undeliverable: {why}. The message began with: {}", head(text));
            // Full too: then it waits in the file, which is bounded by who writes it.
            if mailbox::check(from, &text).is_err() {
                return false;
            }
            let summary = "undeliverable".to_owned();
            let draft = Draft { from: Sender::System, kind: Kind::Text, text, summary };
            mailbox::accept(turn, from, draft);
            true
        }
    }
}

fn head(text: &str) -> String {
    text.chars().take(limits::SUMMARY_LEN_MAX).collect()
}

fn answer_shutdown(
    turn: &mut Turn<'_>,
    agent: &Agent,
    request: MessageId,
    approve: bool,
    reason: &str,
) -> bool {
    let open =
        turn.durable.messages.get(&request).filter(|it| {
            it.to == agent.id && it.kind == (Kind::ShutdownRequest { answered: false })
        });
    let Some(open) = open else {
        let text = format!("{} answered a request to shut down that is not open", agent.name);
        turn.publish(&agent.session, Event::Warning(text));
        return true;
    };
    // The client that asked in the user's name is not there to hear the answer; the lead has to know which member leaves.
    let asker = match &open.from {
        Sender::Agent(id) => turn.durable.agents.get(id),
        Sender::User | Sender::Outside(_) | Sender::System => turn.durable.lead_of(&agent.session),
    };
    let kind = Kind::ShutdownResponse { approve };
    let text = reason.chars().take(limits::REASON_LEN_MAX / 4).collect();
    if let Some(asker) = asker {
        if mailbox::check(asker, reason).is_err() {
            return false;
        }
        let summary = String::new();
        let draft = Draft { from: Sender::Agent(agent.id.clone()), kind, text, summary };
        mailbox::accept(turn, asker, draft);
    }
    turn.record(Record::RequestAnswered { message: open.id });
    if agent.has_mail(open.id) {
        // A program that exits at once leaves it unread.
        turn.record(Record::MessagesConsumed {
            agent: agent.id.clone(),
            messages: [open.id].to_vec(),
            run: agent.runs,
            at_ms: turn.now.wall_ms,
        });
    }
    if approve && agent.run_is_open() {
        let ended = runs::killed("its agreement to shut down");
        runs::end(turn, agent, agent.runs + 1, ended);
    }
    true
}
