//! What the daemon has put into the file system is looked at again, and made anew where it is gone.
//!
//! ```text
//!  inotify: a name is gone ─┐         ┌─▶ socket.rs, locks: made anew here
//!                           ├─▶ look ─┼─▶ Arrival::Look: is the store where the next start reads it? else the daemon ends
//!  tick ────────────────────┘         ├─▶ peers: sessions' sockets, entries in Claude Code's list
//!                                     └─▶ jobs: scratchpads
//! ```
//!
//! Each is compared with what is held by device and inode. What somebody else has put in its place is never removed.

pub(crate) mod note;
mod socket;
mod watch;

use std::sync::Arc;

use interprocess::local_socket::tokio::Listener;
use proto::event::Event;
pub(crate) use socket::Socket;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
pub(crate) use watch::Watch;

use crate::dir::FileId;
use crate::hub::Hub;
use crate::jobs::{Job, Jobs, SessionJob};
use crate::limits;
use crate::paths::StateDir;
use crate::peers::{self, Peers};
use crate::reactor::{self, Arrival};
use crate::store::lock::{InstanceLock, LockError, NAME as LOCK};

/// What a person has to do where the socket that is gone was the service manager's.
const UNMANAGED: &str = "the socket that systemd listens on was removed, and coordd has made one of its own: after `coordctl daemon \
                         stop`, `systemctl --user restart coordd.socket` has systemd listen again";

/// Where it is told what was found.
struct Told {
    listener: mpsc::Sender<Listener>,
    reactor: mpsc::Sender<Arrival>,
    hub: Hub,
    peers: Peers,
    jobs: Jobs,
}

/// The task that looks, until it is ended.
pub(crate) struct Looking {
    end: oneshot::Sender<()>,
    task: JoinHandle<Option<Ground>>,
}

impl Looking {
    /// Ends it, takes the socket away, and tells the next daemon where this one has lost what it kept. Returns what is to be
    /// given back last.
    pub(crate) async fn end(self, ended: &anyhow::Result<()>) -> Option<Ground> {
        let _told = self.end.send(());
        let ground = self.task.await.ok().flatten()?;
        ground.socket.remove();
        if let Err(error) = ended
            && reactor::ground::is_gone(error)
        {
            let why = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
            ground.socket.leave(&why);
        }
        Some(ground)
    }
}

/// What is looked at here.
pub(crate) struct Ground {
    pub(crate) socket: Socket,
    pub(crate) state: Arc<StateDir>,
    pub(crate) state_lock: InstanceLock,
}

impl Ground {
    /// Begins to look. Listeners that are made anew come out of what is returned.
    pub(crate) fn start(
        self,
        watch: Arc<Watch>,
        reactor: mpsc::Sender<Arrival>,
        hub: Hub,
        (peers, jobs): (Peers, Jobs),
    ) -> (Looking, mpsc::Receiver<Listener>) {
        let (listener, anew) = mpsc::channel(1);
        let (end, ended) = oneshot::channel();
        let told = Told { listener, reactor, hub, peers, jobs };
        let task = tokio::task::spawn(self.run(watch, told, ended));
        (Looking { end, task }, anew)
    }

    /// Looks, whenever something may have changed, until it is told to end. Returns what it holds.
    async fn run(
        mut self,
        watch: Arc<Watch>,
        told: Told,
        mut end: oneshot::Receiver<()>,
    ) -> Option<Self> {
        self.watch(&watch);
        let mut tick = tokio::time::interval(limits::LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // What is wrong with the socket, as it was said.
        let mut wrong = None;
        // What goes between being made anew and being watched is not heard of: so it is looked at once more.
        let mut is_fresh = false;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = tokio::time::sleep(limits::SETTLE_QUIET), if is_fresh => {}
                () = settled(&watch) => {}
                _ = &mut end => return Some(self),
            }
            // Before and after: what is gone while it is looked at is heard of, too.
            self.watch(&watch);
            let was_the_managers = self.socket.is_the_managers();
            let looked = tokio::task::spawn_blocking(move || {
                let found = self.look();
                (self, found)
            });
            let (held, (socket, lock)) = looked.await.ok()?;
            self = held;
            if let Err(lost) = lock {
                let _told = told.reactor.send(Arrival::Lost(lost)).await;
            }
            // The store, the sockets of sessions and the scratchpads are looked at by who holds them.
            let _told = told.reactor.send(Arrival::Look).await;
            // Full queues: the next tick looks.
            let _taken = told.peers.push(peers::Order::Look);
            told.jobs.push(Job::Session(SessionJob::Look));
            is_fresh = matches!(socket, Ok(Some(_)));
            wrong = self.say(socket, wrong, &told).await;
            if was_the_managers && !self.socket.is_the_managers() {
                let _told = told.reactor.send(Arrival::Degraded(UNMANAGED.to_owned())).await;
            }
            self.watch(&watch);
        }
    }

    /// Both are asked for each time: one that is well says nothing about the other.
    fn look(&mut self) -> (Result<Option<Listener>, String>, Result<(), LockError>) {
        let socket = self.socket.look().map_err(|error| coordd_common::chain(&error));
        (socket, self.look_at_state())
    }

    /// Its folder is looked at with the store, which is what it is for.
    fn look_at_state(&mut self) -> Result<(), LockError> {
        let dir = self.state.dir();
        let is_elsewhere = FileId::at(dir.path()) != FileId::held(dir);
        if is_elsewhere || self.state_lock.is_in_place(dir.path()) {
            return Ok(());
        }
        self.state_lock = InstanceLock::take(dir)?;
        tracing::warn!(folder = %dir.path().display(), "the lock of the state folder was gone; it is taken again");
        Ok(())
    }

    fn watch(&self, watch: &Watch) {
        let (folder, name) = self.socket.watched();
        watch.name(folder, name);
        watch.folder(folder.path());
        watch.folder(self.state.dir().path());
        watch.name(folder, LOCK.as_ref());
        for name in [LOCK, "coordd.db", "coordd.db-wal"] {
            watch.name(self.state.dir(), name.as_ref());
        }
    }

    /// Says what became of the socket. Returns what is still wrong.
    async fn say(
        &self,
        found: Result<Option<Listener>, String>,
        wrong: Option<String>,
        told: &Told,
    ) -> Option<String> {
        let path = self.socket.path().display();
        let listener = match found {
            Ok(listener) => listener,
            Err(why) => {
                let text = format!(
                    "clients do not find coordd at {path}: {why}; agents go on, and it is tried again"
                );
                if wrong.as_ref() != Some(&text) {
                    let mended = wrong.map(Arrival::Mended);
                    for arrival in mended.into_iter().chain([Arrival::Degraded(text.clone())]) {
                        let _told = told.reactor.send(arrival).await;
                    }
                }
                return Some(text);
            }
        };
        if let Some(text) = wrong {
            let _told = told.reactor.send(Arrival::Mended(text)).await;
        }
        if let Some(listener) = listener {
            let _served = told.listener.send(listener).await;
            let text = format!("the socket {path} was gone; it was made anew");
            tracing::warn!("{text}");
            told.hub.publish("", Event::Warning { text });
        }
        None
    }
}

/// Returns once a watched name is gone and nothing has happened for a moment: who removes a folder is to find it empty.
async fn settled(watch: &Watch) {
    watch.changed().await;
    let until = tokio::time::Instant::now() + limits::SETTLE_TIME_MAX;
    while tokio::time::Instant::now() < until
        && tokio::time::timeout(limits::SETTLE_QUIET, watch.changed()).await.is_ok()
    {}
}
