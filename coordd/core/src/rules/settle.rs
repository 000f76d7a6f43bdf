//! Compares what is with what should be, and does what is missing. It looks at state only, never at what happened:
//! after a crash the same rules lead on from wherever things stood.
//!
//! | agent | and | then |
//! |---|---|---|
//! | in a terminal | its session is live, and it has mail that is not in its inbox | the inbox is served |
//! | `Down`, not parked, started from here | its session is live, and it has mail or a run in the middle, or its terminal is wanted | `Waiting` |
//! | `Waiting` | its session is live and a place is free | `Up`, and its process is started |
//! | `Waiting` | its session is stopped | `Down` |
//! | `Up` or `Down`, a lead | it has neither mail nor a run, and somebody outside wants to know | they are told |
//! | `Up` | its process is connected, and has not got some of its mail | the mail is handed over |
//! | `Up`, a worker | its process is connected, and it has no mail and no run | it is told to leave |
//! | `Stopping` | its process is connected and was not told | it is told |

use crate::rules::{Step, bridge, lifecycle, outside, pty, requests, terminal};
use crate::state::agent::{Agent, Life};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::id::{AgentId, SessionId, hex};
use crate::state::live::{Link, Waiter, Waiting};
use crate::state::message::State;
use crate::state::planted::{Bug, is_planted};
use crate::state::role::Role;
use crate::state::session::SessionState;
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use sha2::Digest as _;

/// One round. Nothing in the step means that all is as it should be.
pub fn settle(durable: &Durable, live: &mut Live, now: &Moment) -> Step {
    let mut step = Step::default();
    let touched = core::mem::take(&mut live.touched);
    let freed = core::mem::take(&mut live.place_freed);
    for agent in touched.iter().filter_map(|id| durable.agents.get(id)) {
        match &agent.life {
            Life::Down if agent.is_in_terminal() && !agent.has_pty() => {
                terminal::serve(durable, live, &mut step, agent);
            }
            Life::Down if should_wake(durable, live, agent) => {
                if agent.has_pty() {
                    terminal::serve(durable, live, &mut step, agent);
                }
                step.record(Record::AgentWaiting { agent: agent.id.clone() });
                let reason = starts_used_up(live, now).filter(|_| agent.role == Role::Worker);
                let reason = reason.map(|it| format!("waits for: {it}")).unwrap_or_default();
                lifecycle::publish_life(&mut step, agent, Life::Waiting, &reason);
                live.touch(&agent.id);
            }
            Life::Down | Life::Up if agent.has_pty() => {
                terminal::serve(durable, live, &mut step, agent);
            }
            Life::Down => outside::tell_watchers(durable, &mut step, now, agent),
            Life::Waiting => {}
            Life::Up => {
                outside::tell_watchers(durable, &mut step, now, agent);
                hand_over(durable, live, &mut step, now, agent);
                let_go(live, &mut step, now, agent);
            }
            Life::Stopping { by, keep_mail } => {
                let keeps_run = lifecycle::waits_for_user(durable, agent, *keep_mail);
                if let Some(link) = live.links.get_mut(&agent.id) {
                    lifecycle::order_stop(&mut step, link, by, keeps_run);
                }
            }
        }
    }
    let some_wait =
        |id: &AgentId| durable.agents.get(id).is_some_and(|it| it.life == Life::Waiting);
    if freed || touched.iter().any(some_wait) {
        fill_places(durable, live, &mut step, now);
    }
    bridge::hand_over(durable, live, &mut step);
    answer_waiters(durable, live, &mut step, now);
    end_daemon(durable, live, &mut step);
    step
}

fn should_wake(durable: &Durable, live: &Live, agent: &Agent) -> bool {
    let is_live =
        durable.sessions.get(&agent.session).is_some_and(|it| it.state == SessionState::Live);
    let wants = if agent.has_pty() {
        pty::is_wanted(durable, agent)
    } else {
        !agent.mailbox.is_empty() || agent.run_is_open()
    };
    let is_parked = agent.parked && !is_planted(Bug::A13);
    is_live && !live.is_ending() && !is_parked && agent.is_started_here() && wants
}

fn hand_over(durable: &Durable, live: &mut Live, step: &mut Step, now: &Moment, agent: &Agent) {
    let Some(link) = live.links.get_mut(&agent.id) else { return };
    let Some(peer) = link.peer else { return };
    // A process that was let go reads no more.
    if link.told_to_stop {
        return;
    }
    // What a connection has got is the mailbox's beginning, so that how much that is does not matter.
    let fresh = agent.mailbox.iter().rev().take_while(|id| !link.handed.contains(id)).count();
    for id in agent.mailbox.iter().skip(agent.mailbox.len() - fresh) {
        link.handed.insert(*id);
        step.record(Record::MessageDelivered { message: *id, at_ms: now.wall_ms });
        step.effect(Effect::Deliver { peer, message: *id });
        if durable.messages.get(id).is_some_and(|it| it.state == State::Accepted) {
            let event = Event::MessageChanged { message: *id, state: State::Delivered };
            step.effect(Effect::Publish { session: agent.session.clone(), event });
        }
    }
    if is_planted(Bug::A17) {
        step.effects.reverse();
    }
}

/// Has a worker's process leave that has nothing to do: after its run, or when its last run turns out to have ended before.
fn let_go(live: &mut Live, step: &mut Step, now: &Moment, agent: &Agent) {
    if agent.role != Role::Worker || !agent.mailbox.is_empty() || agent.run_is_open() {
        return;
    }
    if let Some(link) = live.links.get_mut(&agent.id).filter(|it| it.peer.is_some()) {
        lifecycle::order_stop(step, link, "coordd, since nothing is left to do", false);
        link.deadline_mono_ms.get_or_insert(now.mono_ms.saturating_add(limits::LEAVE_MS));
    }
}

/// Why no worker may be started now, if none may (W-7).
pub(crate) fn starts_used_up(live: &Live, now: &Moment) -> Option<String> {
    let (count, _) = live.starts_used_up(now.mono_ms)?;
    Some(format!("{count} agents were started in the last minute"))
}

/// Starts waiting agents, first come first served, as far as there are places. Leads need none.
fn fill_places(durable: &Durable, live: &mut Live, step: &mut Step, now: &Moment) {
    let mut waiting: Vec<&Agent> =
        durable.agents.values().filter(|it| it.life == Life::Waiting).collect();
    waiting.sort_by_key(|it| it.queued);
    let mut running = workers_by_session(durable, live);
    for agent in waiting {
        let Some(session) = durable.sessions.get(&agent.session) else { continue };
        if session.state == SessionState::Stopped || live.is_ending() {
            step.record(Record::AgentDown { agent: agent.id.clone() });
            lifecycle::publish_life(step, agent, Life::Down, "");
            continue;
        }
        if agent.role == Role::Worker {
            let place = u32::from(agent.takes_a_place());
            let running = running.entry(&agent.session).or_default();
            if place > 0 && *running >= session.workers_running_max {
                continue;
            }
            if let Some((_, until)) = live.starts_used_up(now.mono_ms) {
                live.start_due_mono_ms = Some(until);
                continue;
            }
            live.count_start(now.mono_ms);
            *running += place;
        }
        let incarnation = agent.incarnation + 1;
        let token = token_for(now, agent, incarnation);
        step.record(Record::AgentStarted { agent: agent.id.clone(), incarnation, token });
        step.effect(Effect::Spawn { agent: agent.id.clone() });
        let mut link = Link::new(incarnation);
        link.deadline_mono_ms = Some(now.mono_ms.saturating_add(limits::HELLO_MS));
        live.links.insert(agent.id.clone(), link);
        lifecycle::publish_life(step, agent, Life::Up, "");
    }
}

/// How many workers have a process, for each session.
fn workers_by_session<'a>(durable: &'a Durable, live: &Live) -> BTreeMap<&'a SessionId, u32> {
    let mut running = BTreeMap::new();
    let agents = live.links.keys().filter_map(|id| durable.agents.get(id));
    for worker in agents.filter(|it| it.takes_a_place()) {
        *running.entry(&worker.session).or_default() += 1;
    }
    running
}

/// The secret of an incarnation. Several agents may start in one turn with one moment's randomness; hashing it with who they
/// are keeps whoever knows one secret from finding another.
pub(crate) fn token_for(now: &Moment, agent: &Agent, incarnation: u32) -> String {
    let mut hash = sha2::Sha256::new();
    hash.update(now.random);
    hash.update(agent.id.0.as_bytes());
    hash.update(incarnation.to_be_bytes());
    hex(&hash.finalize())
}

/// Answers the calls whose time has come.
fn answer_waiters(durable: &Durable, live: &mut Live, step: &mut Step, now: &Moment) {
    let waiters = core::mem::take(&mut live.waiters);
    for Waiting { peer, call, waiter } in waiters {
        if let Waiter::Gone { agents, then_remove: Some(id), .. } = &waiter {
            // Resumed while its agents were ending: the later word counts.
            let resumed = durable.sessions.get(id).filter(|it| it.state == SessionState::Live);
            if let Some(session) = resumed {
                let denial = Denial::SessionLive { name: session.name.to_string() };
                step.effect(requests::reply(peer, call, Err(denial)));
                continue;
            }
            if all_gone(live, agents) {
                requests::sessions::remove_now(durable, step, now, id, (peer, call));
                continue;
            }
        }
        match outcome_of(durable, live, &waiter) {
            Some(Ok(answer)) => step.effect(requests::reply(peer, call, Ok(answer))),
            Some(Err(denial)) => step.effect(requests::reply(peer, call, Err(denial))),
            None => live.waiters.push(Waiting { peer, call, waiter }),
        }
    }
}

fn outcome_of(durable: &Durable, live: &Live, waiter: &Waiter) -> Option<Result<Answer, Denial>> {
    match waiter {
        Waiter::Gone { agents, names, bounced, .. } => all_gone(live, agents)
            .then(|| Ok(Answer::Stopped { agents: names.clone(), bounced: *bounced })),
        Waiter::Ran(id) => match durable.agents.get(id) {
            None => Some(Err(Denial::AskerStopped)),
            Some(agent) if agent.runs == 0 => None,
            Some(agent) => {
                let outcome = agent.last.as_ref().map(|it| it.outcome.clone())?;
                Some(Ok(Answer::Ran { agent: id.clone(), outcome }))
            }
        },
        Waiter::Handed(id) => requests::outside::told(durable, *id),
        Waiter::Answered(id) => match durable.permissions.get(id) {
            None => Some(Err(Denial::AskerStopped)),
            Some(it) => {
                let answer = it.answer.clone()?;
                Some(Ok(Answer::Permitted {
                    allow: answer.allow,
                    reason: answer.reason,
                    rule: answer.rule,
                }))
            }
        },
    }
}

fn all_gone(live: &Live, agents: &BTreeMap<AgentId, u32>) -> bool {
    let is_gone = |(id, incarnation): (&AgentId, &u32)| {
        live.links.get(id).is_none_or(|link| link.incarnation > *incarnation)
    };
    agents.iter().all(is_gone)
}

fn end_daemon(durable: &Durable, live: &mut Live, step: &mut Step) {
    let Some(ending) = live.ending.filter(|it| !it.told) else { return };
    let some_left = live.links.keys().any(|id| durable.agents.contains_key(id));
    if ending.keep_agents || !some_left {
        live.ending = Some(crate::state::live::Ending { told: true, ..ending });
        step.effect(Effect::Exit);
    }
}
