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

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec::Vec;

use crate::rules::call::reply;
use crate::rules::requests::outside::told;
use crate::rules::starting::{starts_used_up, token_for};
use crate::rules::turn::{Step, Turn};
use crate::rules::{bridge, ending, lifecycle, outside, pty, terminal};
use crate::state::agent::{Agent, Life};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::id::AgentId;
use crate::state::live::{Ending, Link, Seen, Waiter, Waiting};
use crate::state::role::Role;
use crate::state::secret;
use crate::state::session::SessionState;
use crate::state::{Durable, Effect, Live, Moment, Record, limits};

/// One round. Nothing in the step means that all is as it should be.
pub fn settle(durable: &Durable, live: &mut Live, now: &Moment) -> Step {
    let mut turn = Turn::new(durable, live, now);
    look(&mut turn);
    turn.done()
}

fn look(turn: &mut Turn<'_>) {
    let touched = core::mem::take(&mut turn.live.touched);
    let freed = core::mem::take(&mut turn.live.place_freed);
    for agent in touched.iter().filter_map(|id| turn.durable.agents.get(id)) {
        match &agent.life {
            Life::Down if agent.is_in_terminal() && !agent.has_pty() => {
                terminal::serve(turn, agent);
            }
            Life::Down if should_wake(turn.durable, turn.live, agent) => {
                if agent.has_pty() {
                    terminal::serve(turn, agent);
                }
                let reason = starts_used_up(turn.live, turn.now);
                let reason = reason.filter(|_| agent.role == Role::Worker);
                let reason = reason.map(|it| format!("waits for: {it}")).unwrap_or_default();
                turn.record_because(Record::AgentWaiting { agent: agent.id.clone() }, &reason);
            }
            Life::Down | Life::Up if agent.has_pty() => {
                terminal::serve(turn, agent);
            }
            Life::Down => outside::tell_watchers(turn, agent),
            Life::Waiting => {}
            Life::Up => {
                outside::tell_watchers(turn, agent);
                hand_over(turn, agent);
                let_go(turn, agent);
            }
            Life::Stopping { by, keep_mail } => {
                let keeps_run = lifecycle::waits_for_user(turn.durable, agent, *keep_mail);
                lifecycle::order_stop(turn, agent, by, keeps_run);
            }
        }
    }
    let some_wait =
        |id: &AgentId| turn.durable.agents.get(id).is_some_and(|it| it.life == Life::Waiting);
    if freed || touched.iter().any(some_wait) {
        fill_places(turn);
    }
    bridge::hand_over(turn);
    answer_waiters(turn);
    end_daemon(turn);
}

fn should_wake(durable: &Durable, live: &Live, agent: &Agent) -> bool {
    let is_live =
        durable.sessions.get(&agent.session).is_some_and(|it| it.state == SessionState::Live);
    let wants = if agent.has_pty() {
        pty::is_wanted(durable, agent)
    } else {
        !agent.mailbox.is_empty() || agent.run_is_open()
    };
    is_live && !live.is_ending() && !agent.parked && agent.is_started_here() && wants
}

fn hand_over(turn: &mut Turn<'_>, agent: &Agent) {
    let Some(link) = turn.live.links.get_mut(&agent.id) else { return };
    let Some(peer) = link.peer else { return };
    // A process that was let go reads no more.
    if link.told_to_stop {
        return;
    }
    // The connection holds a prefix of the mailbox, so scanning from the back visits only what is new.
    let fresh = agent.mailbox.iter().rev().take_while(|id| !link.handed.contains(id)).count();
    let fresh = agent.mailbox.iter().skip(agent.mailbox.len() - fresh);
    link.handed.extend(fresh.clone());
    for id in fresh {
        turn.record(Record::MessageDelivered { message: *id, at_ms: turn.now.wall_ms });
        turn.effect(Effect::Deliver { peer, message: *id });
    }
}

/// Has a worker's process leave that has nothing to do: after its run, or when its last run turns out to have ended before.
fn let_go(turn: &mut Turn<'_>, agent: &Agent) {
    if agent.role != Role::Worker || !agent.mailbox.is_empty() || agent.run_is_open() {
        return;
    }
    lifecycle::order_stop(turn, agent, "coordd, since nothing is left to do", false);
    if let Some(link) = turn.live.links.get_mut(&agent.id).filter(|it| it.peer.is_some()) {
        link.deadline_mono_ms.get_or_insert(turn.now.mono_ms.saturating_add(limits::LEAVE_MS));
    }
}

/// Starts waiting agents, first come first served, as far as there are places. Leads need none, and who waits for a person holds none
/// (fA6): another one works meanwhile. With its answer it goes on at once, and no other starts before there is a place again.
fn fill_places(turn: &mut Turn<'_>) {
    let mut waiting: Vec<&Agent> =
        turn.durable.agents.values().filter(|it| it.life == Life::Waiting).collect();
    waiting.sort_by_key(|it| it.queued);
    let mut running = turn.live.places_taken(turn.durable);
    let asks = turn.durable.askers();
    for agent in waiting {
        let Some(session) = turn.durable.sessions.get(&agent.session) else { continue };
        if session.state == SessionState::Stopped || turn.live.is_ending() {
            turn.record(Record::AgentDown { agent: agent.id.clone() });
            continue;
        }
        if let Some(why) = session.unreadable() {
            lifecycle::cannot_start(turn, agent, &why);
            continue;
        }
        if agent.role == Role::Worker {
            let needs_place = agent.takes_a_place() && !asks.contains(&agent.id);
            let running = running.entry(&agent.session).or_default();
            if needs_place && *running >= session.workers_running_max {
                continue;
            }
            if let Some((_, until)) = turn.live.starts_used_up(turn.now.mono_ms) {
                turn.live.start_due_mono_ms = Some(until);
                continue;
            }
            turn.live.count_start(turn.now.mono_ms);
            *running += u32::from(needs_place);
        }
        let incarnation = agent.incarnation + 1;
        let token = token_for(turn.now, agent, incarnation);
        let kept = secret::kept(&token);
        let id = || agent.id.clone();
        turn.record(Record::AgentStarted { agent: id(), incarnation, token: kept });
        turn.effect(Effect::Spawn { agent: id(), token });
        let mut link = Link::new(incarnation, Seen::Start);
        link.deadline_mono_ms = Some(turn.now.mono_ms.saturating_add(limits::HELLO_MS));
        turn.live.links.insert(agent.id.clone(), link);
    }
}

/// Answers the calls whose time has come.
fn answer_waiters(turn: &mut Turn<'_>) {
    let waiters = core::mem::take(&mut turn.live.waiters);
    for Waiting { peer, call, waiter } in waiters {
        if let Waiter::Gone { agents, then_remove: Some(id), .. } = &waiter {
            // Resumed while its agents were ending: the later word counts.
            let resumed = turn.durable.sessions.get(id).filter(|it| it.state == SessionState::Live);
            if let Some(session) = resumed {
                let denial = Denial::SessionLive { name: session.name.to_string() };
                turn.effect(reply(peer, call, Err(denial)));
                continue;
            }
            if all_gone(turn.live, agents) {
                ending::remove_now(turn, id, (peer, call));
                continue;
            }
        }
        match outcome_of(turn.durable, turn.live, &waiter) {
            Some(Ok(answer)) => turn.effect(reply(peer, call, Ok(answer))),
            Some(Err(denial)) => turn.effect(reply(peer, call, Err(denial))),
            None => turn.live.waiters.push(Waiting { peer, call, waiter }),
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
        Waiter::Handed(id) => told(durable, *id),
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

fn end_daemon(turn: &mut Turn<'_>) {
    let Some(ending) = turn.live.ending.filter(|it| !it.told) else { return };
    let some_left = turn.live.links.keys().any(|id| turn.durable.agents.contains_key(id));
    if ending.keep_agents || !some_left {
        turn.live.ending = Some(Ending { told: true, ..ending });
        turn.effect(Effect::Exit);
    }
}
