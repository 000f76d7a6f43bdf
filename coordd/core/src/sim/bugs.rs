//! Ten bugs that were other people's, for the simulation to find. Each is made of the shipped rules by changing what they are
//! given or what they say, so that nothing of it is in the rules themselves.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cell::Cell;

use super::std;
use crate::agent::{Agent, Life};
use crate::effect::Event;
use crate::id::{AgentId, MessageId, SessionId};
use crate::live::Caller;
use crate::message::{Kind, Message, Sender, State};
use crate::request::Request;
use crate::session::SessionState;
use crate::{Core, Durable, Effect, Input, Live, Moment, Record, Step, rules};

/// A bug, by its row in CASES.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Bug {
    /// A message leaves the mailbox when it is handed over, before it is acknowledged.
    A9,
    /// Mail that is left wakes an agent that was stopped.
    A13,
    /// A later message overtakes an earlier one.
    A17,
    /// The sender of a message that goes back is not told.
    A21,
    /// The end of an earlier process is taken for the end of the present one.
    A33,
    /// A call repeated with its key has its effect again.
    A39,
    /// The lead is not notified while it is in the middle of a run.
    B1,
    /// A removal is answered without being recorded.
    C13,
    /// After a start, processes that live on are taken for gone, and others started in their place.
    D13,
    /// How a run ended, once told, is told and recorded again.
    E3,
}

std::thread_local! {
    // Of a thread, since tests run beside each other in one process.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

pub(super) fn is_any_planted() -> bool {
    PLANTED.get().is_some()
}

/// Does something with a bug planted. It must not panic, or the bug stays.
pub(super) fn with<T>(bug: Bug, act: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(bug));
    let result = act();
    PLANTED.set(None);
    result
}

/// Takes one input by the shipped rules, or by those with the planted bug.
pub(super) fn turn(core: &mut Core, now: &Moment, input: Input) -> Step {
    match PLANTED.get() {
        None => core.turn(now, input),
        Some(bug) => core.turn_by(
            now,
            input,
            |durable, live, now, input| decided(bug, durable, live, now, input),
            |durable, live, now| {
                let touched = live.touched.clone();
                let mut step = rules::settle(durable, live, now);
                if bug == Bug::A13 {
                    wake_parked(durable, live, &touched, &mut step);
                }
                said(bug, durable, live, step)
            },
        ),
    }
}

fn decided(bug: Bug, durable: &Durable, live: &mut Live, now: &Moment, input: Input) -> Step {
    let input = heard(bug, durable, input);
    let again = if bug == Bug::E3 { told_again(durable, live, &input) } else { None };
    let has_started = matches!(input, Input::Started);
    let mut step = rules::decide(durable, live, now, input);
    if bug == Bug::D13 && has_started {
        replace_processes(durable, live, &mut step);
    }
    step.records.extend(again);
    said(bug, durable, live, step)
}

/// What the rules are given.
fn heard(bug: Bug, durable: &Durable, input: Input) -> Input {
    match (bug, input) {
        (Bug::A33, Input::Exited { agent, incarnation, how, outcome }) => {
            let present = durable.agents.get(&agent).map_or(incarnation, |it| it.incarnation);
            Input::Exited { agent, incarnation: present, how, outcome }
        }
        (Bug::A39, Input::Request { peer, call, key: Some(key), request }) => {
            // Another key than before, which comes to the first one when it is recorded.
            let key = alloc::format!("{AGAIN}{key}");
            Input::Request { peer, call, key: Some(key), request }
        }
        (_, input) => input,
    }
}

/// Marks a key that was repeated.
const AGAIN: &str = "again ";

/// The end of a run that is recorded already, once more.
fn told_again(durable: &Durable, live: &Live, input: &Input) -> Option<Record> {
    let Input::Request { peer, request: Request::RunEnded { run, outcome }, .. } = input else {
        return None;
    };
    let Some(Caller::Agent(id)) = live.peers.get(peer) else { return None };
    let agent = durable.agents.get(id).filter(|it| *run <= it.runs)?;
    let (agent, outcome) = (agent.id.clone(), outcome.clone());
    Some(Record::RunEnded { agent, run: *run, outcome, at_ms: 0, thin: false })
}

fn replace_processes(durable: &Durable, live: &mut Live, step: &mut Step) {
    for agent in durable.agents.values().filter(|it| it.has_process()) {
        let is_its =
            |effect: &Effect| matches!(effect, Effect::Watch { agent: id, .. } if *id == agent.id);
        step.effects.retain(|effect| !is_its(effect));
        live.links.remove(&agent.id);
        live.place_freed = true;
        let (agent, incarnation) = (agent.id.clone(), agent.incarnation);
        step.records.push(Record::AgentExited { agent, incarnation, again: true, counted: false });
    }
}

fn wake_parked(durable: &Durable, live: &mut Live, touched: &BTreeSet<AgentId>, step: &mut Step) {
    let is_live = |session: &SessionId| {
        durable.sessions.get(session).is_some_and(|it| it.state == SessionState::Live)
    };
    let has_mail = |it: &&Agent| it.parked && it.life == Life::Down && !it.mailbox.is_empty();
    for agent in touched.iter().filter_map(|id| durable.agents.get(id)).filter(has_mail) {
        if is_live(&agent.session) && !live.is_ending() && agent.is_started_here() {
            step.records.push(Record::AgentWaiting { agent: agent.id.clone() });
            live.touch(&agent.id);
        }
    }
}

/// What the rules say.
fn said(bug: Bug, durable: &Durable, live: &mut Live, mut step: Step) -> Step {
    match bug {
        Bug::A9 => {
            let records = core::mem::take(&mut step.records);
            step.records = records.into_iter().flat_map(|it| and_read(durable, it)).collect();
        }
        Bug::A17 => {
            let delivers = |it: &Effect| matches!(it, Effect::Deliver { .. });
            let (mut last, rest): (Vec<_>, Vec<_>) = step.effects.drain(..).partition(delivers);
            last.reverse();
            step.effects = rest.into_iter().chain(last).collect();
        }
        Bug::A21 => {
            let is_word =
                |it: &Message| it.from == Sender::System && it.text.starts_with("Undeliverable to");
            drop_messages(live, &mut step, is_word);
        }
        Bug::A39 => {
            for record in &mut step.records {
                if let Record::Keyed { key, .. } = record {
                    *key = key.trim_start_matches(AGAIN).into();
                }
            }
        }
        Bug::B1 => {
            let works = |id: &AgentId| durable.agents.get(id).is_some_and(Agent::run_is_open);
            let is_lost =
                |it: &Message| matches!(it.kind, Kind::Notification { .. }) && works(&it.to);
            drop_messages(live, &mut step, is_lost);
        }
        Bug::C13 => step.records.retain(|it| !matches!(it, Record::SessionRemoved { .. })),
        Bug::A13 | Bug::A33 | Bug::D13 | Bug::E3 => {}
    }
    step
}

/// A message that is handed over is taken for read.
fn and_read(durable: &Durable, record: Record) -> Vec<Record> {
    let Record::MessageDelivered { message, at_ms } = record else { return [record].to_vec() };
    let receiver = durable.messages.get(&message).and_then(|it| durable.agents.get(&it.to));
    let read = receiver.map(|agent| Record::MessagesConsumed {
        agent: agent.id.clone(),
        messages: [message].to_vec(),
        run: agent.runs,
        at_ms,
    });
    [record].into_iter().chain(read).collect()
}

fn drop_messages(live: &mut Live, step: &mut Step, which: impl Fn(&Message) -> bool) {
    let mut dropped: Vec<MessageId> = Vec::new();
    step.records.retain(|record| {
        let Record::MessagePut { message } = record else { return true };
        if which(message) {
            dropped.push(message.id);
            live.touched.remove(&message.to);
        }
        !which(message)
    });
    step.effects.retain(|effect| {
        let Effect::Publish { event: Event::MessageChanged { message, state }, .. } = effect else {
            return true;
        };
        *state != State::Accepted || !dropped.contains(message)
    });
}
