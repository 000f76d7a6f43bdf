//! The processes that one tool call started, and their end.
//!
//! A command can leave its process group (`setsid`) and its parent (double fork), so a group signal
//! is not enough. The agent process is a child subreaper: whatever a tool starts stays somewhere
//! below it. A process below it belongs to the call if it is the command itself, is in its group,
//! carries the call's marker in its environment, is the child of a member, or is in the session of
//! a member that left ours.
//!
//! ```text
//! running --TERM all--> grace --STOP until nothing new appears--> KILL all --> none left
//!                         \--> all gone, done
//! ```
//!
//! It must not signal a number: each signal goes through a pidfd that was checked against the start
//! time seen in `/proc`. It must not reap the command itself, which belongs to the code that
//! spawned it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use coordd_common::processes::{self, Process};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tokio::time::{Instant, sleep};

/// Environment variable that marks the processes of a tool call.
pub(crate) const MARKER_NAME: &str = "COORDD_TOOL_CALL";

/// Most processes of one call that are followed. Each holds a file descriptor, and 1024 are usual.
const MEMBERS_MAX: usize = 600;

/// Most ended processes of one call that are remembered: more than a usual process table holds.
const DEAD_MAX: usize = 100_000;

/// How often the tree is looked at while it is asked to end.
const POLL_MS: u64 = 15;

/// How long new processes are raced after, before what is there is killed and all begins anew.
const FREEZE_MS_MAX: u64 = 200;

/// After so many looks without a new process, there is none.
const QUIET_LOOKS: usize = 3;

/// How long killed processes may take to vanish. With the grace time of a stop it stays below two
/// seconds.
const KILL_MS_MAX: u64 = 1_100;

#[derive(Debug)]
struct Member {
    start_ticks: u64,
    session: u32,
    pidfd: OwnedFd,
}

/// The processes of one tool call.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    root: u32,
    marker: Vec<u8>,
    /// Those alive.
    members: BTreeMap<u32, Member>,
    /// Those that ended and wait to be reaped, with their start time. A parent that never waits can
    /// leave thousands, so they hold no descriptor.
    dead: BTreeMap<u32, u64>,
    /// Sessions that members opened. Ours is never among them.
    sessions: BTreeSet<u32>,
    /// What is found from now on is stopped at once.
    freezing: bool,
    armed: bool,
}

impl ProcessTree {
    /// Follows the process `root`, which must be an unreaped child of the caller and the leader of
    /// its group.
    pub(crate) fn new(root: u32, marker: &str) -> Self {
        let mut tree = Self {
            root,
            marker: format!("{MARKER_NAME}={marker}").into_bytes(),
            members: BTreeMap::new(),
            dead: BTreeMap::new(),
            sessions: BTreeSet::new(),
            freezing: false,
            armed: true,
        };
        if let Some(process) = processes::read(root) {
            tree.take_in(process);
        }
        tree
    }

    /// Looks for processes of the call. Returns how many are alive.
    pub(crate) fn scan(&mut self) -> usize {
        let table = processes::read_all();
        self.update(&table);
        loop {
            let before = self.members.len();
            for process in table.values() {
                self.examine(*process, &table);
            }
            if self.members.len() == before || before >= MEMBERS_MAX {
                break;
            }
        }
        self.reap(&table);
        self.members.len()
    }

    /// Takes a process in if it belongs to the call and is new.
    fn examine(&mut self, process: Process, table: &BTreeMap<u32, Process>) {
        let known = self.members.contains_key(&process.pid) || self.dead.contains_key(&process.pid);
        if !known && is_below_us(process, table) && self.owns(process) {
            self.take_in(process);
        }
    }

    /// Asks all to end, kills what is left after the grace time, and returns how many could not be
    /// ended.
    pub(crate) async fn end(&mut self, grace_ms: u64) -> usize {
        if self.scan() == 0 {
            self.close();
            return 0;
        }
        self.signal_all(Signal::TERM);
        // A stopped process sees TERM only when it goes on.
        self.signal_all(Signal::CONT);
        let deadline = Instant::now() + Duration::from_millis(grace_ms);
        while Instant::now() < deadline {
            sleep(Duration::from_millis(POLL_MS)).await;
            if self.scan() == 0 {
                self.close();
                return 0;
            }
        }
        let deadline = Instant::now() + Duration::from_millis(KILL_MS_MAX);
        loop {
            self.freeze_and_kill();
            sleep(Duration::from_millis(POLL_MS)).await;
            let left = self.scan();
            if left == 0 {
                self.close();
            }
            if left == 0 || Instant::now() >= deadline {
                return left;
            }
        }
    }

    /// All have ended. The dead whose parent died after them were handed to us a moment ago.
    fn close(&mut self) {
        self.armed = false;
        if !self.dead.is_empty() {
            self.scan();
        }
    }

    /// Stops each process first, so that none can start another one behind our back, then kills
    /// them.
    fn freeze_and_kill(&mut self) {
        self.freeze();
        // The command last: while it lives, what loses its parent is handed to it and stays visible
        // below it.
        for (pid, member) in &self.members {
            if *pid != self.root {
                send(&member.pidfd, Signal::KILL);
            }
        }
        if let Some(member) = self.members.get(&self.root) {
            send(&member.pidfd, Signal::KILL);
        }
    }

    /// Stops all, and races after those that are started meanwhile: a look at the new numbers alone
    /// takes less time than a process needs to start the next one.
    fn freeze(&mut self) {
        self.freezing = true;
        self.signal_all(Signal::STOP);
        let mut table = processes::read_all();
        for process in table.clone().values() {
            self.examine(*process, &table);
        }
        let mut quiet_looks = 0;
        let deadline = Instant::now() + Duration::from_millis(FREEZE_MS_MAX);
        while Instant::now() < deadline {
            let before = self.members.len();
            for pid in processes::numbers() {
                if !table.contains_key(&pid)
                    && let Some(process) = processes::read(pid)
                {
                    table.insert(pid, process);
                    self.examine(process, &table);
                }
            }
            quiet_looks = if self.members.len() == before { quiet_looks + 1 } else { 0 };
            if quiet_looks == QUIET_LOOKS {
                return;
            }
        }
    }

    fn signal_all(&self, signal: Signal) {
        for member in self.members.values() {
            send(&member.pidfd, signal);
        }
    }

    fn owns(&self, process: Process) -> bool {
        process.group == self.root
            || self.members.contains_key(&process.parent)
            || self.sessions.contains(&process.session)
            || processes::carries(process.pid, &self.marker)
    }

    fn take_in(&mut self, process: Process) {
        if process.session != our_session() {
            self.sessions.insert(process.session);
        }
        if process.is_dead {
            if self.dead.len() < DEAD_MAX {
                self.dead.insert(process.pid, process.start_ticks);
            }
        } else if self.members.len() < MEMBERS_MAX
            && let Some(pidfd) = process.open()
        {
            if self.freezing {
                send(&pidfd, Signal::STOP);
            }
            let Process { pid, session, start_ticks, .. } = process;
            self.members.insert(pid, Member { start_ticks, session, pidfd });
        }
    }

    /// Follows what became of the known processes.
    fn update(&mut self, table: &BTreeMap<u32, Process>) {
        self.dead.retain(|pid, start| table.get(pid).is_some_and(|it| it.start_ticks == *start));
        let known = std::mem::take(&mut self.members);
        for (pid, mut member) in known {
            let Some(process) = table.get(&pid) else { continue };
            if process.start_ticks != member.start_ticks {
                continue;
            }
            if process.is_dead {
                self.take_in(*process);
                continue;
            }
            // A process can open a session after it was first seen.
            if process.session != member.session && process.session != our_session() {
                self.sessions.insert(process.session);
            }
            member.session = process.session;
            self.members.insert(pid, member);
        }
    }

    /// Reaps the dead that were handed to us. Others are their parents' to reap.
    fn reap(&mut self, table: &BTreeMap<u32, Process>) {
        let us = std::process::id();
        let root = self.root;
        self.dead.retain(|pid, _| {
            let Some(process) = table.get(pid) else { return false };
            if process.parent != us || *pid == root {
                return true;
            }
            let Some(pidfd) = process.open() else { return false };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            !matches!(waitid(WaitId::PidFd(pidfd.as_fd()), options), Ok(Some(_)))
        });
    }
}

impl Drop for ProcessTree {
    /// A call that is dropped half-way leaves no process behind.
    fn drop(&mut self) {
        if self.armed && self.scan() > 0 {
            self.freeze_and_kill();
        }
    }
}

/// Makes the calling process the one that orphans below it are handed to.
pub(crate) fn become_subreaper() -> Result<(), nix::errno::Errno> {
    nix::sys::prctl::set_child_subreaper(true)
}

/// Zero when the leader of our session is outside our namespace of process numbers, as in a
/// container that was entered from a terminal: the kernel reports it so, for us and for all who
/// share the session.
fn our_session() -> u32 {
    nix::unistd::getsid(None).map_or(0, |session| session.as_raw().unsigned_abs())
}

fn send(pidfd: &OwnedFd, signal: Signal) {
    // It fails when the process has ended, which is what we want, or is not ours to signal, which
    // the next scan shows.
    let _: Result<_, _> = pidfd_send_signal(pidfd, signal);
}

/// Whether a process is a child of this one, at any depth.
fn is_below_us(process: Process, table: &BTreeMap<u32, Process>) -> bool {
    let us = std::process::id();
    let mut parent = process.parent;
    // A table that changed while it was read could hold a circle.
    for _ in 0..table.len() {
        if parent == us {
            return true;
        }
        let Some(next) = table.get(&parent) else { return false };
        parent = next.parent;
    }
    false
}

/// The marker of one call: unique among the calls of this process.
pub(crate) fn new_marker() -> OsString {
    use std::sync::atomic::{AtomicU64, Ordering};
    static CALLS: AtomicU64 = AtomicU64::new(1);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    OsString::from_vec(format!("{}-{call}", std::process::id()).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_line_is_read() {
        let us = processes::read(std::process::id());
        assert_eq!(
            us.map(|it| (it.pid, it.session, it.is_dead)),
            Some((std::process::id(), our_session(), false))
        );
    }

    /// W-6 in a container: the leader of our session is outside its namespace of process numbers,
    /// and has the number 0.
    #[test]
    fn a_session_that_was_opened_outside_of_our_namespace_is_ours() {
        let ordinary = !rustix::process::geteuid().is_root();
        let user: &[&str] = if ordinary { &["--user", "--map-root-user"] } else { &[] };
        let inside = std::process::Command::new("unshare")
            .args(user)
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "tools::process_tree::tests::our_own_line_is_read"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&inside.stdout).into_owned();
        assert!(inside.status.success() && said.contains("1 passed"), "{said} {inside:?}");
    }

    #[test]
    fn markers_differ() {
        assert_ne!(new_marker(), new_marker());
    }
}
