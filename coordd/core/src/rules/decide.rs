//! One input, one step: who may ask is decided here, what comes of it in `requests/` and `lifecycle.rs`.

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};

use crate::rules::call::{Call, Said, Verdict, key_of, reply};
use crate::rules::may::may;
use crate::rules::turn::{Step, Turn};
use crate::rules::{
    bridge, ending, handing, lifecycle, outside, pty, requests, scratchpad, terminal, tick,
};
use crate::state::agent::Life;
use crate::state::answer::Answer;
use crate::state::bridge::AGENT;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::id::{AgentId, PeerId, SessionId};
use crate::state::input::{Credentials, Input, Lineage};
use crate::state::live::{Caller, Link, Seen, Waiter};
use crate::state::record::Keyed;
use crate::state::request::{Kind, Request};
use crate::state::role::{Asker, Role};
use crate::state::secret;
use crate::state::{Durable, Effect, Live, Moment, Record, limits};

/// Decides what an input leads to. It reads durable state and cannot change it.
pub fn decide(durable: &Durable, live: &mut Live, now: &Moment, input: Input) -> Step {
    tick::watch_clocks(live, now);
    let mut turn = Turn::new(durable, live, now);
    take(&mut turn, input);
    turn.done()
}

#[expect(clippy::too_many_lines, reason = "one short arm for each input")]
fn take(turn: &mut Turn<'_>, input: Input) {
    match input {
        Input::Started => started(turn),
        Input::Connected { peer, credentials: Some(credentials), .. } => {
            connected(turn, peer, &credentials);
        }
        Input::Connected { peer, credentials: None, lineage } => {
            let caller = whose(turn.durable, &lineage).map_or(Caller::User, Caller::ProgramOf);
            turn.live.peers.insert(peer, caller);
            turn.effect(Effect::Welcome { peer, agent: None });
        }
        Input::Disconnected { peer } => {
            pty::look_away(turn, peer);
            disconnected(turn, peer);
        }
        Input::Request { peer, call, key, request } => {
            asked(turn, peer, call, key, request);
        }
        Input::Spawned { agent, incarnation, process } => {
            if turn
                .durable
                .agents
                .get(&agent)
                .is_some_and(|it| it.incarnation == incarnation && it.has_process())
            {
                turn.record(Record::AgentSpawned { agent, incarnation, process });
            }
        }
        Input::SpawnFailed { agent: id, incarnation, why } => {
            let exit = lifecycle::Exit { agent: id, incarnation, how: why, outcome: None };
            lifecycle::spawn_failed(turn, exit);
        }
        Input::Exited { agent, incarnation, how, outcome } => {
            lifecycle::exited(turn, lifecycle::Exit { agent, incarnation, how, outcome });
        }
        Input::EnvironmentChanged { session } => {
            environment_changed(turn, &session);
        }
        Input::ScratchpadReady { session, path } => {
            let it = turn.durable.sessions.get(&session);
            if it.is_some_and(|it| it.scratchpad.as_deref() != Some(&path)) {
                turn.record(Record::ScratchpadReady { session, path });
            }
        }
        Input::ScratchpadLost { session, path } => {
            scratchpad::lost(turn, &session, &path);
        }
        Input::TeamEdited { team, description, outside } => {
            requests::teams::edited(turn, &team, description, outside);
        }
        Input::TaskEdited { team, task, edit } => {
            requests::tasks::edited(turn, &team, task, *edit);
        }
        Input::TeamRemoved { team, all } => {
            if turn.durable.teams.get(&team).is_some_and(|it| all && it.deleting) {
                turn.record(Record::TeamDeleted { team });
            }
        }
        Input::Outside { ticket, session, from, says } => {
            let to = session.as_ref();
            let taken = outside::heard(turn, to, from, says);
            turn.effect(Effect::Heard { ticket, taken });
        }
        Input::BridgeEnded { why } => turn.live.bridge.ended = why,
        Input::BridgeStarting { incarnation, token } => {
            bridge::starting(turn.live, incarnation, token);
        }
        Input::Damaged => bridge::renumber(turn),
        Input::Handed { outgoing, failed } => {
            handing::handed(turn, outgoing, failed.as_deref());
        }
        Input::InboxWritten { agent, messages } => {
            terminal::written(turn, &agent, &messages);
        }
        Input::InboxRead { agent, messages } => {
            terminal::read(turn, &agent, &messages);
        }
        Input::InboxLeft(left) => terminal::left(turn, *left),
        Input::TerminalSeen { agent, process } => {
            terminal::seen(turn, &agent, process);
        }
        Input::Terminate { keep_agents } => ending::terminate(turn, keep_agents),
        Input::Tick => tick::tick(turn),
    }
}

/// An idle lead is started afresh with its next prompt; a working one keeps its environment.
fn environment_changed(turn: &mut Turn<'_>, session: &SessionId) {
    for agent in turn.durable.agents_of(session) {
        let waits = agent.life == Life::Up && !agent.run_is_open() && agent.mailbox.is_empty();
        if waits && agent.role != Role::Worker && !agent.is_external() {
            lifecycle::stop(turn, agent, "its new environment", true);
        }
    }
}

/// After a start: every agent that had a process is expected back or found to be gone; everything else goes on by `settle`.
fn started(turn: &mut Turn<'_>) {
    // A client repeats a call soon after a start: its key is kept until then, whatever the clock says.
    turn.live.forgot_mono_ms = Some(turn.now.mono_ms);
    for session in turn.durable.sessions.keys() {
        turn.effect(Effect::OpenSession { session: session.clone(), create: false });
    }
    for team in turn.durable.teams.values().filter(|it| !it.deleting) {
        turn.effect(Effect::WriteTeam { team: team.name.clone() });
    }
    handing::hand_out_again(turn);
    if turn.durable.bridge.is_some_and(|it| it.on) {
        turn.effect(Effect::WantBridge { on: true });
    }
    for agent in turn.durable.agents.values() {
        turn.live.touch(&agent.id);
        if agent.has_process() {
            let mut link = Link::new(agent.incarnation, Seen::Nothing);
            // An agent that was being stopped when the last daemon died has had its time; an unknown one gets some to show up.
            link.deadline_mono_ms = match (&agent.life, &agent.process) {
                (Life::Stopping { .. }, _) => {
                    Some(turn.now.mono_ms.saturating_add(limits::STOP_GRACE_MS))
                }
                (_, None) => Some(turn.now.mono_ms.saturating_add(limits::ADOPT_MS)),
                (_, Some(_)) => Some(turn.now.mono_ms.saturating_add(limits::RETURN_MS)),
            };
            turn.live.links.insert(agent.id.clone(), link);
            turn.effect(Effect::Watch {
                agent: agent.id.clone(),
                incarnation: agent.incarnation,
                process: agent.process.clone(),
                tree: !agent.is_external(),
            });
        }
    }
}

/// The agent that a program comes from, if it comes from one of ours: by its process, or by the mark that its tools inherit.
fn whose(durable: &Durable, lineage: &Lineage) -> Option<AgentId> {
    let by_process = lineage.processes.iter().find_map(|process| {
        let mut agents = durable.agents.values();
        agents.find(|agent| agent.process.as_ref() == Some(process)).map(|agent| agent.id.clone())
    });
    by_process.or_else(|| lineage.marks.iter().find(|id| durable.agents.contains_key(id)).cloned())
}

fn connected(turn: &mut Turn<'_>, peer: PeerId, credentials: &Credentials) {
    if credentials.agent.0 == AGENT {
        bridge::connected(turn, peer, credentials);
        return;
    }
    let known = turn.durable.agents.get(&credentials.agent).filter(|it| {
        it.has_process()
            && it.incarnation == credentials.incarnation
            && secret::proves(&it.token, &credentials.token)
    });
    let (Some(agent), Some(link)) = (known, turn.live.links.get_mut(&credentials.agent)) else {
        turn.effect(Effect::Close { peer, denial: Denial::BadCredentials });
        return;
    };
    let old = link.peer.replace(peer);
    link.handed.clear();
    link.told_to_stop = false;
    link.seen = Seen::Hello;
    if agent.life == Life::Up {
        link.deadline_mono_ms = None;
    }
    turn.live.stillborn.remove(&agent.id);
    if let Some(old) = old {
        turn.live.forget_peer(old);
        turn.effect(Effect::Close { peer: old, denial: Denial::BadCredentials });
    }
    turn.live.peers.insert(peer, Caller::Agent(agent.id.clone()));
    turn.live.touch(&agent.id);
    turn.effect(Effect::Welcome { peer, agent: Some(agent.id.clone()) });
    requests::permissions::teach(turn, peer, agent);
    pty::connected(turn, &agent.id);
    // Whether it is there is part of what an agent is seen to do.
    let (agent, session, life) = (agent.id.clone(), &agent.session, agent.life.clone());
    turn.publish(session, Event::AgentChanged { agent, life, reason: String::new() });
}

fn disconnected(turn: &mut Turn<'_>, peer: PeerId) {
    bridge::disconnected(turn.live, peer);
    if let Some(Caller::Agent(agent)) = turn.live.forget_peer(peer)
        && let Some(link) = turn.live.links.get_mut(&agent)
        && link.peer == Some(peer)
    {
        link.peer = None;
        link.handed.clear();
        link.deadline_mono_ms.get_or_insert(turn.now.mono_ms.saturating_add(limits::RETURN_MS));
        turn.live.touch(&agent);
    }
}

fn asked(turn: &mut Turn<'_>, peer: PeerId, id: u64, key: Option<String>, request: Request) {
    let Some(caller) = turn.live.peers.get(&peer).cloned() else {
        turn.effect(reply(peer, id, Err(Denial::BadCredentials)));
        return;
    };
    let call = Call { caller, peer, id, key };
    let said = checked(&call, turn, request);
    match said {
        Ok(Said::Now(answer)) => turn.effect(reply(peer, id, Ok(answer))),
        Ok(Said::ByShell) => {}
        Ok(Said::Later(waiter)) => turn.live.wait(peer, id, waiter),
        Err(denial) => {
            // A denied call changed nothing.
            turn.take_back();
            turn.effect(reply(peer, id, Err(denial)));
        }
    }
}

fn checked(call: &Call, turn: &mut Turn<'_>, request: Request) -> Verdict {
    let asker = match &call.caller {
        Caller::User => Asker::User,
        Caller::Bridge => Asker::Bridge,
        Caller::Agent(id) => {
            Asker::Agent(turn.durable.agents.get(id).ok_or(Denial::BadCredentials)?.role)
        }
        Caller::ProgramOf(_) => Asker::Program,
    };
    let kind = request.kind();
    if !may(asker, kind) {
        if let Caller::ProgramOf(id) = &call.caller
            && may(Asker::User, kind)
        {
            let agent = turn.durable.agents.get(id).map(|it| it.name.to_string());
            return Err(Denial::NotTheUser {
                agent: agent.unwrap_or_else(|| id.to_string()),
                request: kind.as_str(),
            });
        }
        return Err(Denial::Forbidden { asker: asker.as_str(), request: kind.as_str() });
    }
    if request.may_wait() {
        turn.live.has_room_to_wait()?;
    }
    if turn.live.disk_full && grows(kind) {
        return Err(Denial::DiskFull);
    }
    if let Some(key) = &call.key {
        if key.is_empty() || key.len() > limits::KEY_LEN_MAX {
            return Err(Denial::Invalid {
                field: "key",
                why: "must have 1 to 128 bytes".to_owned(),
            });
        }
        let before = turn.durable.keys.get(&(key_of(&call.caller), key.clone()));
        if let Some((before, _)) = before {
            if let Keyed::Permission(id) = before {
                requests::permissions::heard(turn, *id);
            }
            return Ok(repeated(turn.durable, before));
        }
    }
    requests::answer(call, turn, request)
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

/// The answer to a call that was answered before: the same, without doing anything.
fn repeated(durable: &Durable, before: &Keyed) -> Said {
    match before {
        Keyed::Session(id) => Said::Now(Answer::Session(id.clone())),
        Keyed::Agent(id) => match durable.agents.get(id) {
            Some(agent) if agent.is_in_terminal() => Said::Now(Answer::Invited(id.clone())),
            Some(agent) if agent.waited_for => Said::Later(Waiter::Ran(id.clone())),
            _ => Said::Now(Answer::Spawned {
                agent: id.clone(),
                waits_for: None,
                note: String::new(),
            }),
        },
        Keyed::Sent(rows) => Said::Now(Answer::Sent(rows.clone())),
        Keyed::Outgoing(id) => Said::Later(Waiter::Handed(*id)),
        Keyed::Permission(id) => Said::Later(Waiter::Answered(*id)),
        // No call of a client's has such a key.
        Keyed::Seen => Said::Now(Answer::Done),
        Keyed::Team(name) => Said::Now(Answer::Team(name.clone())),
        Keyed::Task(team, task) => Said::Now(Answer::Task { team: team.clone(), task: *task }),
    }
}
