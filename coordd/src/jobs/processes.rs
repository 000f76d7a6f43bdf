//! Agent processes: started, watched, ended. Every fact about a process is reported as soon as it
//! is known.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coordd_common::chain;
use coordd_core::Input;
use coordd_core::agent::{Outcome, Process};
use coordd_core::id::AgentId;
use proto::agent::Bootstrap;
use tokio::sync::Semaphore;

use super::World;
use crate::failpoint;
use crate::process::identity::Identity;
use crate::process::spawn::{Spawned, Start};
use crate::process::watch::{self, Ended};
use crate::process::{kill, outcome, spawn as spawning};

/// How often a start is tried again when the system had no room for it.
const TRIES_MAX: u32 = 5;
/// The wait before the first retry; doubled for each next one.
const TRY_AGAIN_MS: u64 = 200;

/// How often to look for a process that no record names. A process carries its mark as soon as its
/// program runs; a start that the daemon's death cut off gets there within milliseconds, or never.
const FIND_LOOKS_MAX: u32 = 5;
/// Between two looks.
const FIND_AGAIN_MS: u64 = 100;

/// The processes that are being started or were started here. The core's knowledge of them is
/// older.
#[derive(Clone, Debug, Default)]
pub(super) struct Starting {
    starts: Arc<Mutex<Starts>>,
}

type Incarnation = (AgentId, u32);

#[derive(Debug, Default)]
struct Starts {
    /// To be reported. A process that is removed before that is no longer wanted.
    waiting: BTreeSet<Incarnation>,
    /// Told of, and not seen to end. Nobody need look for their marks, which cannot be read yet
    /// when a process is new.
    made: BTreeMap<Incarnation, Process>,
}

impl Starting {
    pub(super) fn begin(&self, bootstrap: &Bootstrap) {
        let agent = AgentId(bootstrap.agent.clone());
        self.lock().waiting.insert((agent, bootstrap.incarnation));
    }

    /// Whether it was still to be told of.
    pub(super) fn end(&self, agent: &AgentId, incarnation: u32) -> bool {
        self.lock().waiting.remove(&(agent.clone(), incarnation))
    }

    /// The agent's process, if it was started here and has not exited.
    pub(super) fn made(&self, agent: &AgentId, incarnation: u32) -> Option<Process> {
        self.lock().made.get(&(agent.clone(), incarnation)).cloned()
    }

    /// Turns a start into a process in one step: at any time it is either still to be reported, or
    /// can be ended.
    fn make(&self, agent: &AgentId, incarnation: u32, process: &Process) -> bool {
        let mut starts = self.lock();
        let key = (agent.clone(), incarnation);
        let is_wanted = starts.waiting.remove(&key);
        if is_wanted {
            starts.made.insert(key, process.clone());
        }
        is_wanted
    }

    fn ended(&self, agent: &AgentId, incarnation: u32) {
        self.lock().made.remove(&(agent.clone(), incarnation));
    }

    fn lock(&self) -> MutexGuard<'_, Starts> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts an agent's process, and watches it until it exits.
pub(super) async fn spawn(
    world: World,
    bootstrap: Bootstrap,
    starts: &Semaphore,
    starting: &Starting,
) {
    let agent = AgentId(bootstrap.agent.clone());
    let incarnation = bootstrap.incarnation;
    let dir = PathBuf::from(&bootstrap.state_dir);
    let place = starts.acquire().await;
    let started = start(&world, &bootstrap).await;
    drop(place);
    let Spawned { child, identity } = match started {
        Ok(spawned) => spawned,
        Err(why) => {
            starting.end(&agent, incarnation);
            tracing::warn!(%agent, incarnation, why, "an agent could not be started");
            return world.tell(Input::SpawnFailed { agent, incarnation, why }).await;
        }
    };
    failpoint::reach(failpoint::AFTER_SPAWN);
    tracing::info!(%agent, incarnation, pid = identity.pid, "an agent was started");
    let process = identity.recorded();
    if !starting.make(&agent, incarnation, &process) {
        // Stopped meanwhile. The end is reported only when no process is left (W-6).
        return kill(world, agent, incarnation, Some(process), Some(dir)).await;
    }
    if !failpoint::skips(failpoint::SPAWNED_REPORT) {
        world.tell(Input::Spawned { agent: agent.clone(), incarnation, process }).await;
    }
    let ended = watch::child(child).await;
    report_end(world, agent.clone(), incarnation, Some(identity), ended, Some(dir)).await;
    starting.ended(&agent, incarnation);
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

/// What the agent process itself gets; the session's environment is in its bootstrap, for itself
/// and its tools.
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

/// Identifies a process that an earlier daemon started, and watches it until it exits.
pub(super) async fn watch(
    world: World,
    agent: AgentId,
    incarnation: u32,
    process: Option<Process>,
    dir: Option<PathBuf>,
) {
    let known = process.map(identity_of);
    let found = if known.is_some() { known } else { find(&world, &agent, incarnation).await };
    let Some(identity) = found else {
        let outcome = outcome_of(&world, dir.as_deref()).await;
        let how = "never having been started".to_owned();
        return world.tell(Input::Exited { agent, incarnation, how, outcome }).await;
    };
    tracing::info!(%agent, incarnation, pid = identity.pid, state = ?identity.alive(), "expecting an agent back");
    let ended = watch::adopted(identity.clone()).await;
    report_end(world, agent, incarnation, Some(identity), ended, dir).await;
}

/// Looks for a process that was started just before the daemon died, and writes down which it is
/// (rel-56, case D11): without that its end would never be seen, and it could not be ended.
async fn find(world: &World, agent: &AgentId, incarnation: u32) -> Option<Identity> {
    for look in 0..FIND_LOOKS_MAX {
        if look > 0 {
            tokio::time::sleep(Duration::from_millis(FIND_AGAIN_MS)).await;
        }
        let Some(identity) = Identity::of_agent(&agent.0) else { continue };
        let process = identity.recorded();
        world.tell(Input::Spawned { agent: agent.clone(), incarnation, process }).await;
        return Some(identity);
    }
    None
}

/// A recorded process, to be looked for.
pub(super) fn identity_of(process: Process) -> Identity {
    Identity { pid: process.pid, start_ticks: process.start_ticks, boot_id: process.boot_id }
}

/// Ends a process with all that it started.
pub(super) async fn kill(
    world: World,
    agent: AgentId,
    incarnation: u32,
    process: Option<Process>,
    dir: Option<PathBuf>,
) {
    let known = process.map(identity_of);
    // A process that no record names is recognised by its mark.
    if let Some(identity) = &known.or_else(|| Identity::of_agent(&agent.0)) {
        let end = kill::end_tree(identity.clone(), &agent.0, 0).await;
        tracing::info!(%agent, incarnation, killed = end.killed.len(), left = end.left, "an agent was killed");
    }
    let outcome = outcome_of(&world, dir.as_deref()).await;
    world.tell(Input::Exited { agent, incarnation, how: "being killed".to_owned(), outcome }).await;
}

/// Reports that a process ended, after the processes that it left behind are gone too.
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
    // A process that exited normally has ended its tools itself.
    if ended != Ended::Exited(0)
        && let Some(identity) = identity
    {
        let end = kill::end_tree(identity, &agent.0, 0).await;
        if !end.killed.is_empty() || end.left > 0 {
            tracing::warn!(%agent, killed = end.killed.len(), left = end.left, "an agent left processes behind");
        }
    }
    let outcome = outcome_of(&world, dir.as_deref()).await;
    failpoint::reach(failpoint::AFTER_EXIT);
    tracing::info!(%agent, incarnation, how, "an agent's process ended");
    world.tell(Input::Exited { agent, incarnation, how, outcome }).await;
}

/// The outcome of the last run that the process left on disk. A damaged one is set aside and
/// reported (rel-41); the run is then not over, and the next incarnation continues it.
async fn outcome_of(world: &World, dir: Option<&Path>) -> Option<(u32, Outcome)> {
    let folder = crate::dir::Dir::base(dir?).ok()?;
    match outcome::last(&folder) {
        Ok(written) => written.map(|it| (it.run, it.outcome)),
        Err(error) => {
            let aside = outcome::set_aside(&folder, &error);
            let kept = aside.map(|it| format!("; it is kept as {}", it.display()));
            world.degraded(format!("{}{}", chain(&error), kept.unwrap_or_default())).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-6, D11: a stop that knows of no process finds the one that was just made, whose mark
    /// cannot be read yet.
    #[test]
    fn w6_d11_a_process_can_be_ended_from_the_moment_it_is_made() {
        let (starting, agent) = (Starting::default(), AgentId("a1".into()));
        let process = Process { pid: 7, start_ticks: 8, boot_id: "b".into() };
        let wanted = (agent.clone(), 1);
        starting.lock().waiting.insert(wanted.clone());
        assert_eq!(starting.made(&agent, 1), None);
        assert!(starting.make(&agent, 1, &process));
        assert!(!starting.end(&agent, 1), "a stop has to end it");
        assert_eq!(starting.made(&agent, 1), Some(process.clone()));
        assert_eq!(starting.made(&agent, 2), None);
        starting.ended(&agent, 1);
        assert_eq!(starting.made(&agent, 1), None);
        // Stopped before the process was there: the thread that starts it ends it.
        starting.lock().waiting.insert(wanted);
        assert!(starting.end(&agent, 1));
        assert!(!starting.make(&agent, 1, &process));
        assert_eq!(starting.made(&agent, 1), None);
    }
}
