//! Questions to the user: asked by agents, answered by users only (W-3, M-8).

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::control::one_or_all;
use crate::rules::call::{Call, Said, Verdict};
use crate::rules::mailbox::{self, Draft};
use crate::rules::turn::Turn;
use crate::state::agent::{Agent, Life};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::Order;
use crate::state::id::{PeerId, PermissionId, SessionId};
use crate::state::live::Waiter;
use crate::state::message::{Kind, Sender};
use crate::state::permission::{self, By, Permission, Question};
use crate::state::record::Keyed;
use crate::state::{Effect, Record, limits};

pub(super) fn ask(call: &Call, turn: &mut Turn<'_>, question: Question) -> Verdict {
    let agent = call.agent(turn.durable)?;
    let len = question.len();
    if len > limits::QUESTION_LEN_MAX {
        return Err(Denial::TooLarge { field: "question", len, max: limits::QUESTION_LEN_MAX });
    }
    if question.rule.len() > limits::RULE_LEN_MAX {
        let len = question.rule.len();
        return Err(Denial::TooLarge { field: "rule", len, max: limits::RULE_LEN_MAX });
    }
    let open = turn.durable.permissions.values().filter(|it| it.answer.is_none()).count();
    if open >= limits::QUESTIONS_OPEN_MAX {
        return Err(Denial::Full { what: "open questions", max: limits::QUESTIONS_OPEN_MAX });
    }
    let id = PermissionId(turn.durable.last_permission + 1);
    let permission = Permission {
        id,
        session: agent.session.clone(),
        agent: agent.id.clone(),
        question,
        asked_ms: turn.now.wall_ms,
        answer: None,
    };
    turn.record(Record::PermissionPut { permission: Box::new(permission) });
    // Its place is another one's until it is answered.
    turn.live.place_freed = true;
    call.remember(turn, Keyed::Permission(id));
    Ok(Said::Later(Waiter::Answered(id)))
}

pub(super) fn list(turn: &Turn<'_>, session: &str) -> Verdict {
    let session = one_or_all(turn, session)?;
    let open = turn.durable.permissions.values().filter(|it| it.answer.is_none());
    let wanted = open.filter(|it| session.as_ref().is_none_or(|of| it.session == *of));
    Ok(Said::Now(Answer::Permissions(wanted.map(|it| it.id).collect())))
}

/// The asker hears the answer now, after all, and may begin the call: the next incarnation is no longer to be told that
/// it has not begun.
pub(crate) fn heard(turn: &mut Turn<'_>, id: PermissionId) {
    let question = turn.durable.permissions.get(&id);
    let Some((question, answer)) = question.and_then(|it| Some((it, it.answer.clone()?))) else {
        return;
    };
    let asker = turn.durable.agents.get(&question.agent);
    if answer.unheard_by > 0 && asker.is_some_and(|it| it.incarnation == answer.unheard_by) {
        let answer = permission::Answer { unheard_by: 0, ..answer };
        turn.record(Record::PermissionAnswered { id, answer });
    }
}

/// The user's answer. *Always* answers all open questions of the session that name the same rule. What the user adds reaches
/// the agent with either answer.
pub(super) fn answer(
    turn: &mut Turn<'_>,
    given: &str,
    allow: bool,
    always: bool,
    mut reason: String,
) -> Verdict {
    let durable = turn.durable;
    let found = PermissionId::parse(given).and_then(|id| durable.permissions.get(&id));
    let open = found.ok_or_else(|| Denial::NoSuch { what: "question", given: given.to_owned() })?;
    if open.answer.is_some() {
        return Err(Denial::Answered { id: given.to_owned() });
    }
    if reason.len() > limits::REASON_LEN_MAX {
        return Err(Denial::TooLarge {
            field: "reason",
            len: reason.len(),
            max: limits::REASON_LEN_MAX,
        });
    }
    if allow {
        tell(turn, open, &reason)?;
    } else if reason.is_empty() {
        "the user said no".clone_into(&mut reason);
    }
    let session = durable.sessions.get(&open.session);
    let room = session.is_some_and(|it| it.rules_learned.len() < limits::RULES_LEARNED_MAX);
    let rule = if allow && always && room { open.question.rule.clone() } else { String::new() };
    if !rule.is_empty() {
        learn(turn, &open.session, &rule);
        for other in open.covers(durable) {
            let answer = answered(true, String::new(), rule.clone());
            close(turn, other, permission::Answer { by: By::With(open.id), ..answer });
        }
    }
    close(turn, open, answered(allow, reason, rule));
    Ok(Said::Now(Answer::Done))
}

/// A rule holds in the session from now on: for agents that are started later, and for those that run.
fn learn(turn: &mut Turn<'_>, session: &SessionId, rule: &str) {
    let known = turn.durable.sessions.get(session);
    if known.is_some_and(|it| it.rules_learned.iter().any(|learned| learned == rule)) {
        return;
    }
    let rule = rule.to_owned();
    turn.record(Record::RuleLearned { session: session.clone(), rule: rule.clone() });
    let links = turn.live.links.iter().filter_map(|(id, link)| Some((id, link.peer?)));
    let peers: Vec<_> = links
        .filter(|(id, _)| {
            let agent = turn.durable.agents.get(*id);
            agent.is_some_and(|agent| agent.session == *session && agent.has_rules())
        })
        .map(|(_, peer)| peer)
        .collect();
    for peer in peers {
        turn.effect(Effect::Order { peer, order: Order::Learned { rule: rule.clone() } });
    }
}

/// Tells a process that has just connected the rules of its session: one may have been learned since it was started, while it was
/// not there.
pub(crate) fn teach(turn: &mut Turn<'_>, peer: PeerId, agent: &Agent) {
    let session = turn.durable.sessions.get(&agent.session).filter(|_| agent.has_rules());
    for rule in session.into_iter().flat_map(|session| &session.rules_learned) {
        turn.effect(Effect::Order { peer, order: Order::Learned { rule: rule.clone() } });
    }
}

/// What the user adds to a yes, as a message of its own. A no carries it itself, as the reason.
fn tell(turn: &mut Turn<'_>, open: &Permission, note: &str) -> Result<(), Denial> {
    let Some(asker) = turn.durable.agents.get(&open.agent).filter(|_| !note.is_empty()) else {
        return Ok(());
    };
    let tool = &open.question.tool;
    let text =
        format!("I have allowed what you asked about ({tool}, {}), and add: {note}", open.id);
    mailbox::check(asker, &text)?;
    let (from, kind, summary) = (Sender::User, Kind::Prompt, String::new());
    mailbox::accept(turn, asker, Draft { from, kind, text, summary });
    Ok(())
}

fn answered(allow: bool, reason: String, rule: String) -> permission::Answer {
    permission::Answer { allow, reason, rule, at_ms: 0, unheard_by: 0, by: By::User }
}

/// Closes a question with an answer, but for when that was and who hears it.
fn close(turn: &mut Turn<'_>, open: &Permission, answer: permission::Answer) {
    // Where no process hears it, the next one is told that the call has not begun.
    let asker = turn.durable.agents.get(&open.agent);
    let is_heard = asker.is_some_and(|it| it.life == Life::Up) && turn.live.is_awaited(open.id);
    let unheard_by = asker.filter(|_| !is_heard).map_or(0, |it| it.incarnation);
    let answer = permission::Answer { at_ms: turn.now.wall_ms, unheard_by, ..answer };
    turn.record(Record::PermissionAnswered { id: open.id, answer });
}
