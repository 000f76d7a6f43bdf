//! Starting the parts of the daemon, and stopping them.
//!
//! ```text
//!  lock ▶ store ▶ replay ▶ socket ▶ reactor thread ┐
//!                                    hub, jobs, peers, signals (this thread) ┘ ▶ … ▶ end
//! ```
//!
//! Ready is told as soon as the socket is served: agents of an earlier daemon come back meanwhile.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use coordd_core::id::SessionId;
use coordd_core::{Core, Input, Live, Record};
use interprocess::local_socket::tokio::Listener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::clock::{self, Clock};
use crate::config::Config;
use crate::dir::Dir;
use crate::environment::Environments;
use crate::ground::{Ground, Socket, Watch, note};
use crate::hub::Hub;
use crate::jobs::{self, Job, Jobs, SessionJob, World};
use crate::paths::{self, Paths, StateDir};
use crate::peer::Routes;
use crate::peers::Peers;
use crate::reactor::{Arrival, Reactor, outside::Outsiders, space::Space};
use crate::store::lock::{InstanceLock, LockError};
use crate::store::reserve::Reserve;
use crate::store::{self, Store};
use crate::translate::Facts;
use crate::{bridge, limits, listener, sd};

/// Runs the daemon to its end.
pub(crate) fn run() -> anyhow::Result<()> {
    if !coordd_common::descriptors::keep_from_children() {
        tracing::warn!("/proc is not there, so inherited files stay open in agent processes");
    }
    let paths = paths::from_env().context("finding the folders to use")?;
    let config = Config::read(&paths.config_file).context("reading the configuration")?;
    // Before the first thread: it takes descriptors out of the environment.
    let handed =
        sd::listen_fds(&paths.socket).context("taking the socket that the service manager made")?;
    let runtime_dir = paths::open_runtime(&paths).context("opening the runtime folder")?;
    let lock = match InstanceLock::take(&runtime_dir) {
        Ok(lock) => lock,
        // A coordd serves already, which is what the starter of this one wanted.
        Err(error @ LockError::Busy { .. }) => {
            tracing::info!("{error}");
            return Ok(());
        }
        Err(error) => return Err(error).context("taking the instance lock"),
    };
    // Nothing may depend on the folder that this was started in (case D18).
    std::env::set_current_dir("/").context("changing to /")?;
    raise_descriptor_limit();
    let state = Arc::new(paths::open_state(&paths).context("opening the state folder")?);
    // Two runtime folders may share a home, and so a state folder: after a logout that an old daemon outlived, for one.
    let state_lock = match InstanceLock::take(state.dir()) {
        Ok(lock) => lock,
        Err(error @ LockError::Busy { .. }) if handed.is_none() => {
            // It may be about to make its socket here anew, which it cannot while this one has the lock.
            drop(lock);
            if is_served_soon(&paths.socket) {
                tracing::info!("{error}");
                return Ok(());
            }
            return Err(error).context(OTHER_SERVES);
        }
        Err(error) => return Err(error).context(OTHER_SERVES),
    };
    let mut reserve = Reserve::new(Arc::clone(&state));
    let mut opened = Opened::new(&paths, &mut reserve)?;
    if let Some(text) = note::take(&runtime_dir) {
        tracing::error!("{text}");
        opened.degraded.push(text);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let served = runtime.block_on(async {
        let under_systemd = handed.is_some() || std::env::var_os("INVOCATION_ID").is_some();
        let (listener, socket) = listen(paths.clone(), handed, runtime_dir, lock)?;
        let ground = Ground { socket, state, state_lock };
        serve((paths, config), under_systemd, listener, (ground, reserve), opened).await
    });
    runtime.shutdown_timeout(limits::ENDING_TIME_MAX);
    // Last, with the locks: whoever takes them finds everything at rest.
    let (ended, ground) = served?;
    drop(ground);
    ended
}

/// Why the state folder's lock is not to be had.
const OTHER_SERVES: &str = "taking the lock of the state folder; end the other coordd, or set COORDD_STATE_DIR for this one";

/// Whether somebody serves the socket, or does so in a moment.
fn is_served_soon(socket: &Path) -> bool {
    let until = std::time::Instant::now() + limits::OTHERS_TIME_MAX;
    loop {
        if listener::is_served(socket) {
            return true;
        }
        if std::time::Instant::now() >= until {
            return false;
        }
        std::thread::sleep(limits::OTHERS_LOOK_EVERY);
    }
}

/// The socket that clients find: the service manager's, or one of our own.
fn listen(
    paths: Paths,
    handed: Option<std::os::unix::net::UnixListener>,
    folder: Dir,
    lock: InstanceLock,
) -> anyhow::Result<(Listener, Socket)> {
    if let Some(handed) = handed {
        return Ok((listener::adopt(handed)?, Socket::handed(paths, folder, lock)));
    }
    let (listener, id) = listener::bind(&paths.socket)?;
    Ok((listener, Socket::bound(paths, folder, lock, id)))
}

/// The store with what it held.
struct Opened {
    store: store::SqliteStore,
    core: Core,
    degraded: Vec<String>,
}

impl Opened {
    fn new(paths: &Paths, reserve: &mut Reserve) -> anyhow::Result<Self> {
        let path = paths.state.path().join("coordd.db");
        let opened = match store::open(&path) {
            // The space that an earlier daemon kept is for this.
            Err(store::StoreError::DiskFull { .. }) if reserve.release() => store::open(&path),
            opened => opened,
        };
        let opened = opened.context("opening the store")?;
        let mut degraded = Vec::new();
        if let Some(damage) = opened.damage {
            let text = format!(
                "the store was damaged ({}): it is kept as {}, and {} records of it could be used",
                damage.cause,
                damage.set_aside.display(),
                damage.rescued
            );
            tracing::error!("{text}");
            degraded.push(text);
        }
        let mut store = opened.store;
        let core = replay(&mut store, &mut degraded)?;
        Ok(Self { store, core, degraded })
    }
}

/// The state that the records make. One that this build cannot read is passed over and said, never
/// removed.
fn replay(store: &mut impl Store, degraded: &mut Vec<String>) -> anyhow::Result<Core> {
    let lines = store.load().context("reading the store")?;
    let mut core = Core { durable: coordd_core::Durable::default(), live: Live::default() };
    let mut unread = 0_usize;
    for line in &lines {
        match serde_json::from_str::<Record>(line) {
            Ok(record) => core.durable.apply(&record),
            Err(error) => {
                tracing::warn!(%error, "a record cannot be read");
                unread += 1;
            }
        }
    }
    if unread > 0 {
        degraded.push(format!(
            "{unread} records of the store were written by another version and are passed over"
        ));
        // Their place in the order matters to the version that knows them, so nothing is cleaned
        // up.
        return Ok(core);
    }
    let snapshot = core.durable.snapshot();
    if lines.len() > snapshot.len() + limits::RECORDS_STALE_MAX {
        let lines = snapshot.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let lines = lines.context("writing a snapshot as JSON")?;
        // The records are as good as what they lead to, so a clean-up that fails keeps nobody from
        // starting.
        if let Err(error) = store.replace(&lines) {
            let text =
                format!("the store could not be cleaned up: {}", coordd_common::chain(&error));
            tracing::warn!("{text}");
            if !matches!(error, store::StoreError::DiskFull { .. }) {
                degraded.push(text);
            }
        }
    }
    tracing::info!(
        records = lines.len(),
        sessions = core.durable.sessions.len(),
        agents = core.durable.agents.len(),
        "state read"
    );
    Ok(core)
}

/// As many descriptors as the system allows: each agent and client needs one.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    // A dump would hold keys and messages.
    let _set = setrlimit(
        Resource::Core,
        Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum },
    );
}

/// What tells this start of the daemon from every other.
fn new_boot() -> anyhow::Result<String> {
    let boot = u64::from_be_bytes(clock::random().context("drawing random numbers")?);
    Ok(format!("{boot:016x}"))
}

/// What serving came to, and what is held until the very end.
type Served = (anyhow::Result<()>, Option<Ground>);

async fn serve(
    (paths, config): (Paths, Config),
    under_systemd: bool,
    listener: Listener,
    (ground, reserve): (Ground, Reserve),
    opened: Opened,
) -> anyhow::Result<Served> {
    let state = Arc::clone(&ground.state);
    let reads = Arc::new(Semaphore::new(limits::READS_AT_ONCE_MAX));
    let (hub, hub_task) = Hub::new(new_boot()?, Arc::clone(&reads));
    let hub_task = tokio::task::spawn(hub_task);
    let (reactor, arrivals) = mpsc::channel(limits::INPUTS_WAITING_MAX);
    let (jobs, queue) = Jobs::new();
    let facts = facts(&paths, &config, opened.degraded, under_systemd);
    let mut core = opened.core;
    core.live.starts_per_minute = config.starts_per_minute;
    let socket = paths.socket.clone();
    let home = config.home.clone().unwrap_or_else(|| paths.home.clone());
    let tmp = Arc::new(paths.tmp.clone());
    let paths = Arc::new(Paths { home, ..paths });
    let routes = Routes { reactor: reactor.clone(), hub: hub.clone(), tmp };
    let watch = Arc::new(Watch::new());
    let (peers, peers_task) =
        Peers::start(Arc::clone(&paths), config.listed, routes.clone(), Arc::clone(&watch));
    let (own, sends) = (Arc::clone(&state), reactor.clone());
    let bridge_state = paths.state.path();
    let looked_at = (peers.clone(), jobs.clone());
    let (looking, anew) = ground.start(Arc::clone(&watch), reactor.clone(), hub.clone(), looked_at);
    let world = World { paths, state: own, reactor: sends, hub: hub.clone(), reads, watch };
    let jobs_task = tokio::task::spawn(jobs::run(world, queue));
    if facts.degraded.is_empty() {
        sweep(&core, &state, &jobs);
    }
    let (bridge, supervised) = bridge::supervise(reactor.clone(), socket.clone(), bridge_state);
    let looped = Reactor {
        core,
        store: opened.store,
        clock: Clock::start(),
        arrivals,
        jobs,
        hub: hub.clone(),
        facts,
        config,
        envs: Environments::new(state),
        space: Space::new(reserve),
        peers: HashMap::new(),
        teams: crate::reactor::teams::Teams::default(),
        outside: Outsiders::new(peers),
        bridge,
        announce_due: false,
        stale_bytes: 0,
        status: (0, 0),
    };
    let (thread, end) = on_own_thread(looped)?;
    let (close, closing) = oneshot::channel();
    let served = tokio::task::spawn(listener::serve(listener, anew, routes, closing));
    sd::ready("serving");
    tracing::info!(socket = %socket.display(), "serving");
    let result = until_end(reactor, end).await;
    sd::stopping("ending");
    if thread.join().is_err() {
        tracing::error!("the reactor's thread panicked");
    }
    bridge::ended(supervised).await;
    jobs_task.abort();
    hub_task.abort();
    // With the reactor and the hub gone, each peer ends once it has been sent what was queued for
    // it.
    let _told = close.send(());
    let _ended = served.await;
    // Before what it looks at is taken away: it would make it anew.
    let ground = looking.end(&result).await;
    // It takes off the list what this daemon put there.
    let _in_time = tokio::time::timeout(limits::ENDING_TIME_MAX, peers_task).await;
    Ok((result, ground))
}

/// Has what is left of sessions removed that no record names: their removal was cut off. Which
/// these are is seen before the first new session can be made. Never after damage: then they may be
/// all that is left of a session.
fn sweep(core: &Core, state: &StateDir, jobs: &Jobs) {
    match state.sessions() {
        Ok(names) => {
            let is_known =
                |name: &String| core.durable.sessions.contains_key(&SessionId(name.clone()));
            let unknown: Vec<_> = names.into_iter().filter(|name| !is_known(name)).collect();
            if !unknown.is_empty() {
                jobs.push(Job::Session(SessionJob::Sweep { unknown }));
            }
        }
        Err(error) => {
            tracing::warn!(error = coordd_common::chain(&error), "old sessions are not looked for");
        }
    }
}

fn facts(paths: &Paths, config: &Config, degraded: Vec<String>, under_systemd: bool) -> Facts {
    Facts {
        pid: std::process::id(),
        started_ms: clock::wall_ms(),
        socket: paths.socket.display().to_string(),
        state_dir: paths.state.path().display().to_string(),
        home: config.home.as_ref().unwrap_or(&paths.home).display().to_string(),
        tmp: paths.tmp.display().to_string(),
        under_systemd,
        degraded,
    }
}

type Ended = oneshot::Receiver<anyhow::Result<()>>;

fn on_own_thread<S: Store + Send + 'static>(
    looped: Reactor<S>,
) -> anyhow::Result<(std::thread::JoinHandle<()>, Ended)> {
    let (ended, end) = oneshot::channel();
    let thread = std::thread::Builder::new().name("reactor".to_owned()).spawn(move || {
        let result = on_own_runtime(looped);
        // The receiver is gone only when this thread outlived everything else.
        let _told = ended.send(result);
    });
    Ok((thread.context("starting the reactor's thread")?, end))
}

fn on_own_runtime<S: Store>(reactor: Reactor<S>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.context("starting the reactor's runtime")?.block_on(reactor.run())
}

/// Passes signals on until the reactor has ended. SIGTERM and SIGINT stop the agents in order,
/// SIGUSR1 leaves them running.
async fn until_end(
    reactor: mpsc::Sender<Arrival>,
    mut end: oneshot::Receiver<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let mut leave = signal(SignalKind::user_defined1()).context("listening for SIGUSR1")?;
    // A terminal that goes away is no reason to end.
    let mut hangup = signal(SignalKind::hangup()).context("listening for SIGHUP")?;
    let mut watchdog = tokio::time::interval(
        sd::watchdog_interval().unwrap_or(std::time::Duration::from_hours(1)),
    );
    loop {
        let keep_agents = tokio::select! {
            result = &mut end => return result.unwrap_or_else(|_| Err(anyhow::anyhow!("the reactor's thread panicked"))),
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
            _ = leave.recv() => true,
            _ = hangup.recv() => continue,
            _ = watchdog.tick() => {
                // Through the reactor: a ping means that it still takes and commits.
                let (alive, answered) = oneshot::channel();
                if reactor.try_send(Arrival::Alive(alive)).is_ok() {
                    tokio::task::spawn(async move {
                        if answered.await.is_ok() {
                            sd::watchdog();
                        }
                    });
                }
                continue;
            }
        };
        tracing::info!(keep_agents, "told to end");
        let _told = reactor.send(Arrival::Input(Input::Terminate { keep_agents })).await;
    }
}
