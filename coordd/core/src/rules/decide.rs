//! One input, one step: who may ask is decided here, what comes of it in `request/` and `lifecycle.rs`.

use crate::rules::may::may;
use crate::rules::requests::{self, Call, Said};
use crate::rules::{Step, bridge, handing, lifecycle, outside, pty, terminal, tick};
use crate::state::agent::Life;
use crate::state::answer::Answer;
use crate::state::bridge::AGENT;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::id::{PeerId, SessionId};
use crate::state::input::{Credentials, Input};
use crate::state::live::{Caller, Ending, Link};
use crate::state::planted::{Bug, is_planted};
use crate::state::record::Keyed;
use crate::state::request::{Kind, Request};
use crate::state::role::{Asker, Role};
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};

/// Decides what an input leads to. It reads durable state and cannot change it.
#[expect(clippy::too_many_lines, reason = "one short arm for each input")]
pub fn decide(durable: &Durable, live: &mut Live, now: &Moment, input: Input) -> Step {
    let mut step = Step::default();
    tick::watch_clocks(live, now);
    match input {
        Input::Started => started(durable, live, &mut step, now),
        Input::Connected { peer, credentials } => {
            connected(durable, live, &mut step, peer, credentials);
        }
        Input::Disconnected { peer } => {
            pty::look_away(live, &mut step, peer);
            disconnected(live, now, peer);
        }
        Input::Request { peer, call, key, request } => {
            asked(durable, live, &mut step, now, (peer, call, key), request);
        }
        Input::Spawned { agent, incarnation, process } => {
            if durable
                .agents
                .get(&agent)
                .is_some_and(|it| it.incarnation == incarnation && it.has_process())
            {
                step.record(Record::AgentSpawned { agent, incarnation, process });
            }
        }
        Input::SpawnFailed { agent: id, incarnation, why } => {
            let exit = lifecycle::Exit { agent: id, incarnation, how: why, outcome: None };
            lifecycle::spawn_failed(durable, live, &mut step, now, exit);
        }
        Input::Exited { agent, incarnation, how, outcome } => {
            lifecycle::exited(
                durable,
                live,
                &mut step,
                now,
                lifecycle::Exit { agent, incarnation, how, outcome },
            );
        }
        Input::EnvironmentChanged { session } => {
            environment_changed(durable, live, &mut step, now, &session);
        }
        Input::ScratchpadReady { session, path } => {
            let it = durable.sessions.get(&session);
            if it.is_some_and(|it| it.scratchpad.as_deref() != Some(&path)) {
                step.record(Record::ScratchpadReady { session, path });
            }
        }
        Input::TeamEdited { team, description, outside } => {
            requests::teams::edited(durable, &mut step, team, description, outside);
        }
        Input::TaskEdited { team, task, edit } => {
            requests::tasks::edited(durable, live, &mut step, now, (&team, task), *edit);
        }
        Input::TeamRemoved { team, all } => {
            if let Some(it) = durable.teams.get(&team).filter(|it| all && it.deleting) {
                let session = it.session.clone();
                step.record(Record::TeamDeleted { team: team.clone() });
                step.effect(Effect::Publish { session, event: Event::TeamDeleted(team) });
            }
        }
        Input::Outside { ticket, session, from, says } => {
            let to = session.as_ref();
            let taken = outside::heard(durable, live, &mut step, now, to, from, says);
            step.effect(Effect::Heard { ticket, taken });
        }
        Input::BridgeEnded { why } => live.bridge.ended = why,
        Input::BridgeStarting { incarnation, token } => bridge::starting(live, incarnation, token),
        Input::Damaged => bridge::renumber(durable, &mut step, now),
        Input::Handed { outgoing, failed } => {
            handing::handed(durable, &mut step, now, outgoing, failed.as_deref());
        }
        Input::InboxWritten { agent, messages } => {
            terminal::written(durable, &mut step, now, &agent, &messages);
        }
        Input::InboxRead { agent, messages } => {
            terminal::read(durable, live, &mut step, now, &agent, &messages);
        }
        Input::InboxLeft(left) => terminal::left(durable, live, &mut step, now, *left),
        Input::TerminalSeen { agent, process } => {
            terminal::seen(durable, live, &mut step, now, &agent, process);
        }
        Input::Terminate { keep_agents } => terminate(durable, live, &mut step, now, keep_agents),
        Input::Tick => tick::tick(durable, live, &mut step, now),
    }
    step
}

/// Whoever waits for a prompt is started afresh by it; whoever works keeps what it began with.
fn environment_changed(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    session: &SessionId,
) {
    for agent in durable.agents_of(session) {
        let waits = agent.life == Life::Up && !agent.run_is_open() && agent.mailbox.is_empty();
        if waits && agent.role != Role::Worker && !agent.is_external() {
            lifecycle::stop(durable, live, step, now, agent, "its new environment", true);
        }
    }
}

/// After a start: every agent that had a process is expected back or found to be gone; everything else goes on by `settle`.
fn started(durable: &Durable, live: &mut Live, step: &mut Step, now: &Moment) {
    // Whoever repeats a call does so soon after a start: its key is there until then, whatever the clock says.
    live.forgot_mono_ms = Some(now.mono_ms);
    for session in durable.sessions.keys() {
        step.effect(Effect::OpenSession { session: session.clone(), create: false });
    }
    for team in durable.teams.values().filter(|it| !it.deleting) {
        step.effect(Effect::WriteTeam { team: team.name.clone() });
    }
    handing::hand_out_again(durable, step, now);
    if durable.bridge.is_some_and(|it| it.on) {
        step.effect(Effect::WantBridge { on: true });
    }
    for agent in durable.agents.values() {
        live.touch(&agent.id);
        if agent.has_process() && is_planted(Bug::D13) {
            lifecycle::gone(live, step, agent, true, "");
        } else if agent.has_process() {
            let mut link = Link::new(agent.incarnation);
            // Whoever was told to end when the last daemon died has had its time; whoever is unknown gets some to show up.
            link.deadline_mono_ms = match (&agent.life, &agent.process) {
                (Life::Stopping { .. }, _) => {
                    Some(now.mono_ms.saturating_add(limits::STOP_GRACE_MS))
                }
                (_, None) => Some(now.mono_ms.saturating_add(limits::ADOPT_MS)),
                (_, Some(_)) => Some(now.mono_ms.saturating_add(limits::RETURN_MS)),
            };
            live.links.insert(agent.id.clone(), link);
            step.effect(Effect::Watch {
                agent: agent.id.clone(),
                incarnation: agent.incarnation,
                process: agent.process.clone(),
                tree: !agent.is_external(),
            });
        }
    }
}

fn connected(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    peer: PeerId,
    credentials: Option<Credentials>,
) {
    let Some(credentials) = credentials else {
        live.peers.insert(peer, Caller::User);
        step.effect(Effect::Welcome { peer, agent: None });
        return;
    };
    if credentials.agent.0 == AGENT {
        bridge::connected(durable, live, step, peer, &credentials);
        return;
    }
    let known = durable.agents.get(&credentials.agent).filter(|it| {
        it.has_process()
            && it.incarnation == credentials.incarnation
            && same_secret(&it.token, &credentials.token)
    });
    let (Some(agent), Some(link)) = (known, live.links.get_mut(&credentials.agent)) else {
        step.effect(Effect::Close { peer, denial: Denial::BadCredentials });
        return;
    };
    let old = link.peer.replace(peer);
    link.handed.clear();
    link.told_to_stop = false;
    if agent.life == Life::Up {
        link.deadline_mono_ms = None;
    }
    if let Some(old) = old {
        live.forget_peer(old);
        step.effect(Effect::Close { peer: old, denial: Denial::BadCredentials });
    }
    live.peers.insert(peer, Caller::Agent(agent.id.clone()));
    live.touch(&agent.id);
    step.effect(Effect::Welcome { peer, agent: Some(agent.id.clone()) });
    pty::connected(live, step, &agent.id);
    lifecycle::publish_life(step, agent, agent.life.clone(), "");
}

/// Compares without telling by its duration how much is right.
pub(crate) fn same_secret(a: &str, b: &str) -> bool {
    !a.is_empty()
        && a.len() == b.len()
        && a.bytes().zip(b.bytes()).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

fn disconnected(live: &mut Live, now: &Moment, peer: PeerId) {
    bridge::disconnected(live, peer);
    if let Some(Caller::Agent(agent)) = live.forget_peer(peer)
        && let Some(link) = live.links.get_mut(&agent)
        && link.peer == Some(peer)
    {
        link.peer = None;
        link.handed.clear();
        link.deadline_mono_ms.get_or_insert(now.mono_ms.saturating_add(limits::RETURN_MS));
        live.touch(&agent);
    }
}

type Place = (PeerId, u64, Option<String>);

fn asked(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    place: Place,
    request: Request,
) {
    let (peer, id, key) = place;
    let Some(caller) = live.peers.get(&peer).cloned() else {
        step.effect(requests::reply(peer, id, Err(Denial::BadCredentials)));
        return;
    };
    let call = Call { durable, now, caller, peer, id, key };
    let said = checked(&call, live, step, request);
    match said {
        Ok(Said::Now(answer)) => step.effect(requests::reply(peer, id, Ok(answer))),
        Ok(Said::ByShell) => {}
        Ok(Said::Later(waiter)) => live.wait(peer, id, waiter),
        Err(denial) => {
            // A denied call changed nothing.
            *step = Step::default();
            step.effect(requests::reply(peer, id, Err(denial)));
        }
    }
}

fn checked(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    request: Request,
) -> requests::Verdict {
    let asker = match &call.caller {
        Caller::User => Asker::User,
        Caller::Bridge => Asker::Bridge,
        Caller::Agent(id) => {
            Asker::Agent(call.durable.agents.get(id).ok_or(Denial::BadCredentials)?.role)
        }
    };
    let kind = request.kind();
    if !may(asker, kind) {
        return Err(Denial::Forbidden { asker: asker.as_str(), request: kind.as_str() });
    }
    if request.may_wait() {
        live.has_room_to_wait()?;
    }
    if live.disk_full && grows(kind) {
        return Err(Denial::DiskFull);
    }
    if let Some(key) = &call.key {
        if key.is_empty() || key.len() > limits::KEY_LEN_MAX {
            return Err(Denial::Invalid {
                field: "key",
                why: "must have 1 to 128 bytes".to_owned(),
            });
        }
        let before = call.durable.keys.get(&(caller_key(&call.caller), key.clone()));
        if let Some((before, _)) = before.filter(|_| !is_planted(Bug::A39)) {
            if let Keyed::Permission(id) = before {
                requests::permissions::heard(call, step, *id);
            }
            return Ok(repeated(call, before));
        }
    }
    requests::answer(call, live, step, request)
}

/// Whether a request puts something new on the disk that is to stay there. Acknowledgements, ends and answers make
/// room in the end, and must get through.
fn grows(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::SessionNew
            | Kind::Join
            | Kind::Prompt
            | Kind::Send
            | Kind::AgentSpawn
            | Kind::TeamCreate
            | Kind::TeamInvite
            | Kind::TaskCreate
    )
}

/// The caller's part of an idempotency key.
pub(crate) fn caller_key(caller: &Caller) -> String {
    match caller {
        Caller::User => "user".to_owned(),
        Caller::Bridge => AGENT.to_owned(),
        Caller::Agent(id) => id.to_string(),
    }
}

/// The answer to a call that was answered before: the same, without doing anything.
fn repeated(call: &Call<'_>, before: &Keyed) -> Said {
    match before {
        Keyed::Session(id) => Said::Now(Answer::Session(id.clone())),
        Keyed::Agent(id) => match call.durable.agents.get(id) {
            Some(agent) if agent.is_in_terminal() => Said::Now(Answer::Invited(id.clone())),
            Some(agent) if agent.waited_for => {
                Said::Later(crate::state::live::Waiter::Ran(id.clone()))
            }
            _ => Said::Now(Answer::Spawned {
                agent: id.clone(),
                waits_for: None,
                note: String::new(),
            }),
        },
        Keyed::Sent(rows) => Said::Now(Answer::Sent(rows.clone())),
        Keyed::Outgoing(id) => Said::Later(crate::state::live::Waiter::Handed(*id)),
        Keyed::Permission(id) => Said::Later(crate::state::live::Waiter::Answered(*id)),
        Keyed::Team(name) => Said::Now(Answer::Team(name.clone())),
        Keyed::Task(team, task) => Said::Now(Answer::Task { team: team.clone(), task: *task }),
    }
}

pub(crate) fn terminate(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    keep_agents: bool,
) {
    if live.ending.is_some_and(|it| !it.keep_agents || keep_agents) {
        return;
    }
    live.ending = Some(Ending { keep_agents, told: false });
    if keep_agents {
        return;
    }
    for session in durable.sessions.values() {
        requests::sessions::stop_all(durable, live, step, now, session, "the end of the daemon");
    }
}
