//! Making, stopping, resuming and removing sessions.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::control::one_or_all;
use super::sending;
use crate::rules::bridge;
use crate::rules::call::{Call, Said, Verdict};
use crate::rules::turn::Turn;
use crate::rules::{ending, host, making, route};
use crate::state::agent::{Agent, Life, Runtime};
use crate::state::answer::Answer;
use crate::state::bridge::Allowed;
use crate::state::denial::Denial;
use crate::state::effect::Event;
use crate::state::id::SessionId;
use crate::state::mode::{self, Mode};
use crate::state::name::Name;
use crate::state::record::Keyed;
use crate::state::request::NewSession;
use crate::state::role::Role;
use crate::state::session::{Session, SessionState};
use crate::state::settings::{ApprovalMode, Model, Permissions, Setting};
use crate::state::{Durable, Effect, Live, Moment, Record, limits};

pub(super) fn new(call: &Call, turn: &mut Turn<'_>, new: NewSession) -> Verdict {
    if turn.live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    if turn.durable.sessions.len() >= limits::SESSIONS_MAX {
        return Err(Denial::Full { what: "sessions", max: limits::SESSIONS_MAX });
    }
    let mode = mode::choose(new.mode.as_deref(), new.mode_variable.as_deref())?;
    let model = Setting::of(new.model.clone());
    let permissions = Setting::of(Some(new.permissions.clone()));
    check(&new, mode)?;
    fit(&model, &permissions)?;
    let name = name(turn.durable, &new)?;
    let id = SessionId::from_random(&turn.now.random);
    let host_for = host_for(turn.live, &new)?;
    let mut lead = lead(turn.now, &id, mode);
    lead.runtime = if host_for.is_some() { Runtime::Bridged } else { new.lead_runtime };
    let opened = |peer: &String| Allowed { peer: peer.clone(), inbound: true, outbound: false };
    let pick = |given: u32, default: u32| if given == 0 { default } else { given };
    let session = Session {
        id: id.clone(),
        name,
        mode,
        cwd: new.cwd,
        created_ms: turn.now.wall_ms,
        state: SessionState::Live,
        lead: lead.id.clone(),
        model,
        runtime: new.runtime,
        permissions,
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
    turn.record(Record::SessionPut { session: Box::new(session) });
    turn.record(Record::AgentPut { agent: Box::new(lead.clone()) });
    call.remember(turn, Keyed::Session(id.clone()));
    turn.effect(Effect::OpenSession { session: id.clone(), create: true });
    if let Some(peer) = turn.live.bridge.peer.filter(|_| !new.host_for.is_empty()) {
        turn.effect(Effect::Announce { peer });
    }
    if !new.prompt.is_empty() {
        sending::first_prompt(call, turn, &lead, new.prompt)?;
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
    making::fresh(now, id, Name::lead(), role)
}

fn fit(model: &Setting<Model>, permissions: &Setting<Permissions>) -> Result<(), Denial> {
    let max = limits::SETTINGS_LEN_MAX;
    let lens = [("model", model.len()), ("permissions", permissions.len())];
    match lens.into_iter().find(|(_, len)| *len > max) {
        Some((field, len)) => Err(Denial::TooLarge { field, len, max }),
        None => Ok(()),
    }
}

fn check(new: &NewSession, mode: Mode) -> Result<(), Denial> {
    if !new.cwd.starts_with('/') {
        return Err(Denial::Invalid { field: "cwd", why: "must be an absolute path".to_owned() });
    }
    let bounds = [
        ("cwd", new.cwd.len(), limits::PATH_LEN_MAX),
        ("prompt", new.prompt.len(), limits::BODY_LEN_MAX),
    ];
    if let Some((field, len, max)) = bounds.into_iter().find(|(_, len, max)| len > max) {
        return Err(Denial::TooLarge { field, len, max });
    }
    making::check_runtime("runtime", new.runtime, new.model.is_some())?;
    if !new.host_for.is_empty() {
        return check_for_guests(new);
    }
    // An external lead comes by itself.
    if new.lead_runtime != Runtime::External {
        making::check_runtime("lead_runtime", new.lead_runtime, new.model.is_some())?;
    } else if mode != Mode::Coordinator {
        let why =
            "`external` needs mode coordinator: such a lead has only coordd's tools".to_owned();
        return Err(Denial::Invalid { field: "lead_runtime", why });
    }
    Ok(())
}

/// What a session for another machine's workers may be: they work in a box, where nobody is asked.
fn check_for_guests(new: &NewSession) -> Result<(), Denial> {
    let refused = |field, why: &str| {
        let why = format!("{why}: that is a session for another machine's workers");
        Err(Denial::Invalid { field, why })
    };
    let Permissions { mode, sandbox, .. } = &new.permissions;
    if !new.prompt.is_empty() {
        return refused("prompt", "cannot be given, as there is no lead that reads it");
    }
    if new.runtime != Runtime::Native {
        return refused(
            "runtime",
            "must be native, as another program does not run in the sandbox",
        );
    }
    if !matches!(mode, ApprovalMode::Unsaid | ApprovalMode::DontAsk) {
        return refused("permissions.mode", "must be dontAsk, as nobody answers their questions");
    }
    if sandbox.off || !sandbox.outside.is_empty() {
        return refused("permissions.sandbox", "must hold for all commands");
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
    Ok(making::free(&stem, taken))
}

pub(super) fn show(turn: &Turn<'_>, session: &str) -> Verdict {
    route::session(turn.durable, session).map(|it| Said::Now(Answer::Detail(it.id.clone())))
}

pub(super) fn stop(turn: &mut Turn<'_>, session: &str) -> Verdict {
    let session = route::session(turn.durable, session)?;
    stop_hosted(turn, session);
    let ending = ending::stop_all(turn, session, "the user");
    Ok(Said::Later(ending::wait_for(&ending, 0, None)))
}

/// Its workers on other machines too. A daemon that ends for a while leaves them at work.
fn stop_hosted(turn: &mut Turn<'_>, session: &Session) {
    for agent in turn.durable.agents_of(&session.id) {
        host::stop(turn, agent, "the user");
    }
}

pub(super) fn resume(turn: &mut Turn<'_>, session: &str, mode_variable: Option<&str>) -> Verdict {
    let session = route::session(turn.durable, session)?;
    if turn.live.is_ending() {
        return Err(Denial::ShuttingDown);
    }
    if session.mode == Mode::Coordinator && cfg!(not(feature = "coordinator")) {
        return Err(Denial::CoordinatorNotCompiledIn);
    }
    if session.state == SessionState::Stopped {
        turn.record(Record::SessionState {
            session: session.id.clone(),
            state: SessionState::Live,
        });
    }
    turn.effect(Effect::OpenSession { session: session.id.clone(), create: false });
    let mut note = String::new();
    // G-4: the recorded mode wins; a variable that says the other thing is worth a line.
    let wanted = mode::from_variable(mode_variable);
    if mode_variable.is_some() && wanted != session.mode {
        note = format!(
            "switched from {} mode (your environment) to {} mode, which is this session's own",
            wanted.as_str(),
            session.mode.as_str()
        );
        turn.publish(&session.id, Event::ModeSwitched { from: wanted, to: session.mode });
    }
    let agents = turn.durable.agents_of(&session.id);
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
        turn.live.touch(&it.id);
    }
    Ok(Said::Now(Answer::Resumed {
        session: session.id.clone(),
        note,
        waiting_messages: u32::try_from(waiting).unwrap_or(u32::MAX),
        interrupted,
    }))
}

pub(super) fn remove(call: &Call, turn: &mut Turn<'_>, session: &str, force: bool) -> Verdict {
    let session = route::session(turn.durable, session)?;
    let agents = turn.durable.agents_of(&session.id);
    let some_run = agents.iter().any(|it| it.life != Life::Down);
    if session.state == SessionState::Live && some_run && !force {
        return Err(Denial::SessionLive { name: session.name.to_string() });
    }
    stop_hosted(turn, session);
    let waited_for = ending::stop_all(turn, session, "the user");
    if waited_for.is_empty() {
        ending::remove_now(turn, &session.id, (call.peer, call.id));
        return Ok(Said::ByShell);
    }
    Ok(Said::Later(ending::wait_for(&waited_for, 0, Some(session.id.clone()))))
}

pub(super) fn scratchpad(
    call: &Call,
    turn: &mut Turn<'_>,
    session: &str,
    path: Option<String>,
) -> Verdict {
    let session = route::session(turn.durable, session)?;
    if session.scratchpad.is_none() {
        return Err(Denial::NoSuch { what: "scratchpad", given: session.name.to_string() });
    }
    turn.effect(Effect::ReadScratchpad {
        session: session.id.clone(),
        path,
        peer: call.peer,
        call: call.id,
    });
    Ok(Said::ByShell)
}

pub(super) fn usage(turn: &Turn<'_>, session: &str) -> Verdict {
    one_or_all(turn, session).map(|it| Said::Now(Answer::Usage(it)))
}
