//! Agent processes: started, watched, ended. What is known of a process is told as soon as it is known.

use super::World;
use crate::cause::chain;
use crate::process::identity::Identity;
use crate::process::spawn::{Spawned, Start};
use crate::process::watch::{self, Ended};
use crate::process::{kill, outcome, spawn as spawning};
use crate::translate;
use coordd_core::Input;
use coordd_core::agent::{Outcome, Process};
use coordd_core::id::AgentId;
use proto::agent::Bootstrap;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How often a start is tried again when the system had no room for it.
const TRIES_MAX: u32 = 5;
/// How long to wait before the first of them; doubled for each next one.
const TRY_AGAIN_MS: u64 = 200;

/// Starts an agent's process, and stays with it to its end.
pub(super) async fn spawn(world: World, bootstrap: Bootstrap, starts: &Semaphore) {
    let agent = AgentId(bootstrap.agent.clone());
    let incarnation = bootstrap.incarnation;
    let dir = PathBuf::from(&bootstrap.state_dir);
    let place = starts.acquire().await;
    let started = start(&world, &bootstrap).await;
    drop(place);
    let Spawned { child, identity } = match started {
        Ok(spawned) => spawned,
        Err(why) => {
            tracing::warn!(%agent, incarnation, why, "an agent could not be started");
            return world.tell(Input::SpawnFailed { agent, incarnation, why }).await;
        }
    };
    tracing::info!(%agent, incarnation, pid = identity.pid, "an agent was started");
    let process = Process {
        pid: identity.pid,
        start_ticks: identity.start_ticks,
        boot_id: identity.boot_id.clone(),
    };
    world.tell(Input::Spawned { agent: agent.clone(), incarnation, process }).await;
    let ended = watch::child(child).await;
    report_end(world, agent, incarnation, Some(identity), ended, Some(dir)).await;
}

async fn start(world: &World, bootstrap: &Bootstrap) -> Result<Spawned, String> {
    let text = serde_json::to_vec(bootstrap).map_err(|error| chain(&error))?;
    let mut pause_ms = TRY_AGAIN_MS;
    for attempt in 1.. {
        let program =
            spawning::program(&|name| std::env::var_os(name)).map_err(|error| chain(&error))?;
        let folder = world
            .state
            .agent(&bootstrap.session, &bootstrap.agent)
            .map_err(|error| chain(&error))?;
        let env = environment(bootstrap);
        let start = Start {
            program: &program,
            agent: &bootstrap.agent,
            env: &env,
            state: &folder,
            bootstrap: text.clone(),
        };
        match spawning::spawn(start) {
            Ok(spawned) => return Ok(spawned),
            Err(error) if error.is_passing() && attempt < TRIES_MAX => {
                tracing::warn!(error = chain(&error), attempt, "starting an agent is tried again");
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                pause_ms *= 2;
            }
            Err(error) => return Err(chain(&error)),
        }
    }
    Err("starting was given up".to_owned())
}

/// What the agent process itself gets; the session's environment is in its bootstrap, for itself and its tools.
fn environment(bootstrap: &Bootstrap) -> BTreeMap<OsString, OsString> {
    let mut env = BTreeMap::new();
    for name in ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "RUST_LOG", "RUST_BACKTRACE"] {
        if let Some(value) = bootstrap.env.get(name) {
            env.insert(name.into(), value.into());
        }
    }
    if let Some(level) = std::env::var_os("RUST_LOG") {
        env.insert("RUST_LOG".into(), level);
    }
    env
}

/// Finds out about a process that an earlier daemon started, and stays with it to its end.
pub(super) async fn watch(
    world: World,
    agent: AgentId,
    incarnation: u32,
    process: Option<Process>,
    dir: Option<PathBuf>,
) {
    // The daemon died between starting it and writing it down. If it lives it says hello; if not, the core's
    // deadline ends the waiting.
    let Some(process) = process else { return };
    let identity =
        Identity { pid: process.pid, start_ticks: process.start_ticks, boot_id: process.boot_id };
    tracing::info!(%agent, incarnation, pid = identity.pid, state = ?identity.alive(), "expecting an agent back");
    let ended = watch::adopted(identity.clone()).await;
    report_end(world, agent, incarnation, Some(identity), ended, dir).await;
}

/// Ends a process with all that it started.
pub(super) async fn kill(
    world: World,
    agent: AgentId,
    incarnation: u32,
    process: Option<Process>,
    dir: Option<PathBuf>,
) {
    let identity = process.map(|it| Identity {
        pid: it.pid,
        start_ticks: it.start_ticks,
        boot_id: it.boot_id,
    });
    if let Some(identity) = &identity {
        let end = kill::end_tree(identity.clone(), &agent.0, 0).await;
        tracing::info!(%agent, incarnation, killed = end.killed.len(), left = end.left, "an agent was killed");
    }
    let outcome = outcome_of(dir.as_deref());
    world.tell(Input::Exited { agent, incarnation, how: "being killed".to_owned(), outcome }).await;
}

/// Tells that a process ended, after what it may have left behind is gone too.
async fn report_end(
    world: World,
    agent: AgentId,
    incarnation: u32,
    identity: Option<Identity>,
    ended: Ended,
    dir: Option<PathBuf>,
) {
    let how = match ended {
        Ended::Exited(code) => format!("exit status {code}"),
        Ended::Signalled(signal) => format!("signal {signal}"),
        Ended::Unknown => "an unknown status while no daemon watched".to_owned(),
    };
    // One that ended as it should has ended its tools itself.
    if ended != Ended::Exited(0)
        && let Some(identity) = identity
    {
        let end = kill::end_tree(identity, &agent.0, 0).await;
        if !end.killed.is_empty() || end.left > 0 {
            tracing::warn!(%agent, killed = end.killed.len(), left = end.left, "an agent left processes behind");
        }
    }
    let outcome = outcome_of(dir.as_deref());
    tracing::info!(%agent, incarnation, how, "an agent's process ended");
    world.tell(Input::Exited { agent, incarnation, how, outcome }).await;
}

fn outcome_of(dir: Option<&Path>) -> Option<(u32, Outcome)> {
    let folder = crate::dir::Dir::base(dir?).ok()?;
    match outcome::last(&folder) {
        Ok(written) => written.map(|it| (it.run, translate::core_outcome(it.outcome))),
        Err(error) => {
            tracing::warn!(error = chain(&error), "the outcome of a run cannot be read");
            None
        }
    }
}
