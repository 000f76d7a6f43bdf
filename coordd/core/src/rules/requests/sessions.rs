//! Making, stopping, resuming and removing sessions.

use super::control::one_or_all;
use super::{Call, Said, Verdict, agents, sending};
use crate::rules::bridge;
use crate::rules::{Step, host, lifecycle, outside, route};
use crate::state::agent::{Agent, Life, Runtime};
use crate::state::answer::Answer;
use crate::state::bridge::Allowed;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::id::{PeerId, SessionId};
use crate::state::live::Waiter;
use crate::state::mode::{self, Mode};
use crate::state::name::Name;
use crate::state::planted::{Bug, is_planted};
use crate::state::record::Keyed;
use crate::state::request::NewSession;
use crate::state::role::Role;
use crate::state::session::{Session, SessionState};
use crate::state::{Durable, Effect, Live, Moment, Record, limits, outgoing};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

pub(super) fn new(call: &Call<'_>, live: &mut Live, step: &mut Step, new: NewSession) -> Verdict {
    if live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    if call.durable.sessions.len() >= limits::SESSIONS_MAX {
        return Err(Denial::Full { what: "sessions", max: limits::SESSIONS_MAX });
    }
    let mode = mode::choose(new.mode.as_deref(), new.mode_variable.as_deref())?;
    check(&new, mode)?;
    let name = name(call.durable, &new)?;
    let id = SessionId::from_random(&call.now.random);
    let host_for = host_for(live, &new)?;
    let mut lead = lead(call.now, &id, mode);
    lead.runtime = if host_for.is_some() { Runtime::Bridged } else { new.lead_runtime };
    let opened = |peer: &String| Allowed { peer: peer.clone(), inbound: true, outbound: false };
    let pick = |given: u32, default: u32| if given == 0 { default } else { given };
    let session = Session {
        id: id.clone(),
        name,
        mode,
        cwd: new.cwd,
        created_ms: call.now.wall_ms,
        state: SessionState::Live,
        lead: lead.id.clone(),
        model: new.model,
        runtime: new.runtime,
        permissions: new.permissions,
        rules_learned: Vec::new(),
        simple_tools: mode::is_truthy(new.simple_variable.as_deref()),
        // The shell makes it, and says where it is; until then the empty path says that there is to be one.
        scratchpad: new.scratchpad.then(String::new),
        definitions: new.definitions,
        worker_turns: pick(new.worker_turns, limits::WORKER_TURNS_DEFAULT),
        worker_run_ms: if new.worker_run_ms == 0 {
            limits::WORKER_RUN_MS_DEFAULT
        } else {
            new.worker_run_ms
        },
        workers_running_max: pick(new.workers, limits::WORKERS_RUNNING_DEFAULT)
            .min(limits::WORKERS_RUNNING_MAX),
        output: None,
        bypasses: new.bypasses,
        inbound: new.inbound,
        bridged: host_for.iter().map(opened).collect(),
        host_for,
        watchers: Vec::new(),
    };
    step.record(Record::SessionPut { session: Box::new(session) });
    step.record(Record::AgentPut { agent: Box::new(lead.clone()) });
    call.remember(step, Keyed::Session(id.clone()));
    step.effect(Effect::OpenSession { session: id.clone(), create: true });
    step.effect(Effect::Publish { session: id.clone(), event: Event::SessionCreated });
    if let Some(peer) = live.bridge.peer.filter(|_| !new.host_for.is_empty()) {
        step.effect(Effect::Announce { peer });
    }
    if !new.prompt.is_empty() {
        sending::first_prompt(call, live, step, &lead, new.prompt)?;
    }
    Ok(Said::Now(Answer::Session(id)))
}

/// The daemon whose workers the session is for, if it is.
fn host_for(live: &Live, new: &NewSession) -> Result<Option<String>, Denial> {
    let given = Some(new.host_for.as_str()).filter(|it| !it.is_empty());
    given.map(|it| bridge::daemon(live, it)).transpose()
}

fn lead(now: &Moment, id: &SessionId, mode: Mode) -> Agent {
    let role = match mode {
        Mode::Coordinator => Role::Coordinator,
        Mode::Fork | Mode::Normal => Role::Lead,
    };
    agents::fresh(now, id, Name::lead(), role)
}

fn check(new: &NewSession, mode: Mode) -> Result<(), Denial> {
    if !new.cwd.starts_with('/') {
        return Err(Denial::Invalid { field: "cwd", why: "must be an absolute path".to_owned() });
    }
    let bounds = [
        ("cwd", new.cwd.len(), limits::PATH_LEN_MAX),
        ("model", new.model.len(), limits::SETTINGS_LEN_MAX),
        ("permissions", new.permissions.len(), limits::SETTINGS_LEN_MAX),
        ("prompt", new.prompt.len(), limits::BODY_LEN_MAX),
    ];
    if let Some((field, len, max)) = bounds.into_iter().find(|(_, len, max)| len > max) {
        return Err(Denial::TooLarge { field, len, max });
    }
    agents::check_runtime("runtime", new.runtime, &new.model)?;
    if !new.host_for.is_empty() {
        return if new.prompt.is_empty() {
            Ok(())
        } else {
            let why = "cannot be given: nobody reads in a session for another machine's workers";
            Err(Denial::Invalid { field: "prompt", why: why.to_owned() })
        };
    }
    // An external lead comes by itself.
    if new.lead_runtime != Runtime::External {
        agents::check_runtime("lead_runtime", new.lead_runtime, &new.model)?;
    } else if mode != Mode::Coordinator {
        let why =
            "`external` is for mode coordinator: such a lead has coordd's tools only".to_owned();
        return Err(Denial::Invalid { field: "lead_runtime", why });
    }
    Ok(())
}

/// The given name, which must be free, or one made of the folder's.
fn name(durable: &Durable, new: &NewSession) -> Result<Name, Denial> {
    let taken = |name: &Name| durable.sessions.values().any(|it| it.name.is(name.as_str()));
    if !new.name.is_empty() {
        let name = Name::new(&new.name)
            .map_err(|why| Denial::Invalid { field: "name", why: why.to_owned() })?;
        return if taken(&name) {
            Err(Denial::NameTaken { what: "session", name: name.to_string() })
        } else {
            Ok(name)
        };
    }
    let stem = Name::from_words(new.cwd.rsplit('/').next().unwrap_or_default(), "session");
    Ok(free(&stem, taken))
}

/// The name, or the first of `name-2`, `name-3`, … that is not taken.
pub(crate) fn free(stem: &Name, taken: impl Fn(&Name) -> bool) -> Name {
    if !taken(stem) {
        return stem.clone();
    }
    // Bounded by the number of names that there can be: one of them is free.
    let found = (2..=limits::SESSIONS_MAX + 2).map(|n| stem.numbered(n)).find(|name| !taken(name));
    found.unwrap_or_else(|| stem.clone())
}

pub(super) fn show(call: &Call<'_>, session: &str) -> Verdict {
    route::session(call.durable, session).map(|it| Said::Now(Answer::Detail(it.id.clone())))
}

pub(super) fn stop(call: &Call<'_>, live: &mut Live, step: &mut Step, session: &str) -> Verdict {
    let session = route::session(call.durable, session)?;
    stop_hosted(call, step, session);
    let ending = stop_all(call.durable, live, step, call.now, session, "the user");
    Ok(Said::Later(wait_for(&ending, 0, None)))
}

/// Its workers on other machines too. A daemon that ends for a while leaves them at work.
fn stop_hosted(call: &Call<'_>, step: &mut Step, session: &Session) {
    for agent in call.durable.agents_of(&session.id) {
        host::stop(call.durable, step, call.now, agent, "the user");
    }
}

/// What a call waits for that ended these agents.
pub(super) fn wait_for(ending: &[&Agent], bounced: u32, then_remove: Option<SessionId>) -> Waiter {
    Waiter::Gone {
        agents: ending.iter().map(|it| (it.id.clone(), it.incarnation)).collect(),
        names: ending.iter().map(|it| it.name.to_string()).collect(),
        bounced,
        then_remove,
    }
}

/// Stops a session with all its agents; mail is kept. Returns the agents that have a process.
pub(crate) fn stop_all<'a>(
    durable: &'a Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    session: &'a Session,
    by: &str,
) -> Vec<&'a Agent> {
    if session.state == SessionState::Live {
        step.record(Record::SessionState {
            session: session.id.clone(),
            state: SessionState::Stopped,
        });
        let event = Event::SessionChanged(SessionState::Stopped);
        step.effect(Effect::Publish { session: session.id.clone(), event });
    }
    let mut waited_for = Vec::new();
    for agent in durable.agents_of(&session.id) {
        let (has_process, _) = lifecycle::stop(durable, live, step, now, agent, by, true);
        if has_process {
            waited_for.push(agent);
        }
    }
    waited_for
}

pub(super) fn resume(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    session: &str,
    mode_variable: Option<&str>,
) -> Verdict {
    let session = route::session(call.durable, session)?;
    if live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    if session.mode == Mode::Coordinator && cfg!(not(feature = "coordinator")) {
        return Err(Denial::CoordinatorNotCompiledIn);
    }
    if session.state == SessionState::Stopped {
        step.record(Record::SessionState {
            session: session.id.clone(),
            state: SessionState::Live,
        });
        let event = Event::SessionChanged(SessionState::Live);
        step.effect(Effect::Publish { session: session.id.clone(), event });
    }
    step.effect(Effect::OpenSession { session: session.id.clone(), create: false });
    let mut note = String::new();
    // G-4: the recorded mode wins; a variable that says the other thing is worth a line.
    let wanted = mode::from_variable(mode_variable);
    if mode_variable.is_some() && wanted != session.mode {
        note = format!(
            "switched from {} mode (your environment) to {} mode, in which this session was made",
            wanted.as_str(),
            session.mode.as_str()
        );
        let event = Event::ModeSwitched { from: wanted, to: session.mode };
        step.effect(Effect::Publish { session: session.id.clone(), event });
    }
    let agents = call.durable.agents_of(&session.id);
    let waiting = agents.iter().map(|it| it.mailbox.len()).sum::<usize>();
    let was_cut = |it: &&&Agent| {
        it.run_is_open()
            || it
                .last
                .as_ref()
                .is_some_and(|it| it.outcome.status == crate::state::agent::Status::Killed)
    };
    let interrupted = agents.iter().filter(was_cut).map(|it| it.name.to_string()).collect();
    for it in &agents {
        live.touch(&it.id);
    }
    Ok(Said::Now(Answer::Resumed {
        session: session.id.clone(),
        note,
        waiting_messages: u32::try_from(waiting).unwrap_or(u32::MAX),
        interrupted,
    }))
}

pub(super) fn remove(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    session: &str,
    force: bool,
) -> Verdict {
    let session = route::session(call.durable, session)?;
    let agents = call.durable.agents_of(&session.id);
    let some_run = agents.iter().any(|it| it.life != Life::Down);
    if session.state == SessionState::Live && some_run && !force {
        return Err(Denial::SessionLive { name: session.name.to_string() });
    }
    stop_hosted(call, step, session);
    let waited_for = stop_all(call.durable, live, step, call.now, session, "the user");
    if waited_for.is_empty() {
        remove_now(call.durable, step, call.now, &session.id, (call.peer, call.id));
        return Ok(Said::ByShell);
    }
    Ok(Said::Later(wait_for(&waited_for, 0, Some(session.id.clone()))))
}

/// Removes a session whose agents are gone. The removal is durable before it is answered (case C13).
pub(crate) fn remove_now(
    durable: &Durable,
    step: &mut Step,
    now: &Moment,
    id: &SessionId,
    (peer, call): (PeerId, u64),
) {
    let Some(session) = durable.sessions.get(id) else {
        let given = id.to_string();
        step.effect(super::reply(peer, call, Err(Denial::NoSuch { what: "session", given })));
        return;
    };
    let unread = durable.messages.values().filter(|it| it.session == *id && !it.state.is_final());
    for message in unread {
        let reason = "the session was removed";
        outside::give_back(durable, step, now, message, outgoing::Verdict::Refused, reason);
    }
    for guest in durable.agents_of(id).into_iter().filter(|it| it.owes_outcome()) {
        if let Some(far) = guest.far_lead() {
            let killed = lifecycle::killed("the removal of its session");
            host::guest::tell_end(durable, step, now, guest, far, killed);
        }
    }
    if !is_planted(Bug::C13) {
        step.record(Record::SessionRemoved { session: id.clone() });
    }
    step.effect(Effect::Publish { session: id.clone(), event: Event::SessionRemoved });
    step.effect(Effect::RemoveSession {
        session: id.clone(),
        scratchpad: session.scratchpad.clone(),
        team: durable.team_of(id).map(|it| it.name.clone()),
        peer,
        call,
    });
}

pub(super) fn scratchpad(
    call: &Call<'_>,
    step: &mut Step,
    session: &str,
    path: Option<String>,
) -> Verdict {
    let session = route::session(call.durable, session)?;
    if session.scratchpad.is_none() {
        return Err(Denial::NoSuch { what: "scratchpad", given: session.name.to_string() });
    }
    step.effect(Effect::ReadScratchpad {
        session: session.id.clone(),
        path,
        peer: call.peer,
        call: call.id,
    });
    Ok(Said::ByShell)
}

pub(super) fn usage(call: &Call<'_>, session: &str) -> Verdict {
    one_or_all(call, session).map(|it| Said::Now(Answer::Usage(it)))
}
