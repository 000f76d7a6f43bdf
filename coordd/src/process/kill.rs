//! Ending an agent with everything that it started.
//!
//! ```text
//! TERM to the agent --grace--> STOP what is left, until nothing new appears --> KILL all --> none left
//!                      \--> none left
//! ```
//!
//! A process belongs to the agent if it is the agent's own, is below a member, is in the session
//! that the agent leads, or is ours and carries the agent's mark in its environment. Where the
//! agent's own process has ended before, its number and the number of its session prove nothing,
//! and only the mark counts. Every signal goes through a pidfd that was checked against the start
//! time in the table (rel-29, rel-32). What the store says is not enough either: the agent's own
//! process must carry the mark too.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use coordd_common::processes::{self, Process};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::AGENT_ID;
use super::identity::Identity;

/// Most processes that are followed at a time. Each holds a file descriptor, and 1024 are usual.
const MEMBERS_MAX: usize = 400;

/// How often the table is looked at for new processes, at least.
const LOOK_MS: u16 = 50;

/// Longer than an exec takes.
const EXEC_MS: u64 = 20;

/// The most passes while the tree is frozen: a fork bomb loses one generation each time.
const FREEZE_ROUNDS_MAX: usize = 40;

/// How long killing may take in all.
const KILL_MS_MAX: u64 = 5_000;

/// What became of an agent's processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeEnd {
    /// Processes that did not end after TERM.
    pub(crate) killed: Vec<Killed>,
    /// The number of processes that could not be ended: stuck in the kernel, or of another user.
    pub(crate) left: usize,
}

/// A process that was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Killed {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

/// Ends the process of an agent and all that it started: asks, waits for `grace_ms`, kills. Goes on
/// to its end even when the future is dropped.
pub(crate) async fn end_tree(identity: Identity, agent: &str, grace_ms: u64) -> TreeEnd {
    let mark = format!("{AGENT_ID}={agent}").into_bytes();
    let work = move || Tree::new(identity, mark).end(Duration::from_millis(grace_ms));
    match tokio::task::spawn_blocking(work).await {
        Ok(end) => end,
        Err(error) => {
            tracing::warn!(%error, "ending an agent's processes was cut off");
            TreeEnd::default()
        }
    }
}

struct Member {
    start_ticks: u64,
    name: String,
    pidfd: OwnedFd,
    is_frozen: bool,
    is_killed: bool,
}

struct Tree {
    identity: Identity,
    /// The agent's own process, while it lives.
    root: Option<OwnedFd>,
    /// Whether the numbers in the identity were seen to be the agent's.
    is_verified: bool,
    mark: Vec<u8>,
    members: BTreeMap<u32, Member>,
    end: TreeEnd,
}

impl Tree {
    fn new(identity: Identity, mark: Vec<u8>) -> Self {
        let root = root_of(&identity, &mark);
        let is_verified = root.is_some();
        Self {
            identity,
            root,
            is_verified,
            mark,
            members: BTreeMap::new(),
            end: TreeEnd::default(),
        }
    }

    fn end(mut self, grace: Duration) -> TreeEnd {
        // Who is there now is known even if the agent ends first and its children go to somebody
        // else.
        if self.is_over() {
            return self.end;
        }
        if let Some(root) = &self.root {
            send(root, Signal::TERM);
            // A stopped process sees TERM only after CONT.
            send(root, Signal::CONT);
            let deadline = Instant::now() + grace;
            while Instant::now() < deadline && self.scan() > 0 {
                self.wait(deadline);
            }
        }
        let deadline = Instant::now() + Duration::from_millis(KILL_MS_MAX);
        loop {
            let is_over = self.is_over();
            self.end.left = self.members.len();
            if is_over || Instant::now() >= deadline {
                return self.end;
            }
            self.freeze();
            self.kill();
            self.wait(deadline);
        }
    }

    /// Checks twice: during an exec a process has no environment, and so no mark.
    fn is_over(&mut self) -> bool {
        if self.scan() > 0 {
            return false;
        }
        std::thread::sleep(Duration::from_millis(EXEC_MS));
        self.scan() == 0
    }

    /// Looks for processes of the agent, and returns how many are alive.
    fn scan(&mut self) -> usize {
        let table = processes::read_all();
        if table
            .get(&self.identity.pid)
            .is_some_and(|it| it.start_ticks != self.identity.start_ticks)
        {
            // The pid belongs to another process by now, and so may its session id.
            self.is_verified = false;
        }
        self.members.retain(|pid, member| {
            table.get(pid).is_some_and(|it| it.start_ticks == member.start_ticks && !it.is_dead)
        });
        loop {
            let before = self.members.len();
            for process in table.values() {
                if before < MEMBERS_MAX
                    && !self.members.contains_key(&process.pid)
                    && self.owns(process)
                {
                    self.adopt(process);
                }
            }
            if self.members.len() == before || before >= MEMBERS_MAX {
                return self.members.len();
            }
        }
    }

    fn owns(&self, process: &Process) -> bool {
        // Neither init nor this process is a tool.
        if process.is_dead || process.pid <= 1 || process.pid == std::process::id() {
            return false;
        }
        let is_root =
            process.pid == self.identity.pid && process.start_ticks == self.identity.start_ticks;
        let by_number = is_root || process.session == self.identity.pid;
        (self.is_verified && by_number)
            || self.members.contains_key(&process.parent)
            || processes::carries(process.pid, &self.mark)
    }

    fn adopt(&mut self, process: &Process) {
        if self.members.len() >= MEMBERS_MAX {
            return;
        }
        let Some(pidfd) = process.open() else { return };
        let member = Member {
            start_ticks: process.start_ticks,
            name: processes::name(process.pid),
            pidfd,
            is_frozen: false,
            is_killed: false,
        };
        self.members.insert(process.pid, member);
    }

    /// Stops every process, so that none starts another behind our back.
    fn freeze(&mut self) {
        for _ in 0..FREEZE_ROUNDS_MAX {
            let mut is_new = false;
            for member in self.members.values_mut().filter(|member| !member.is_frozen) {
                send(&member.pidfd, Signal::STOP);
                member.is_frozen = true;
                is_new = true;
            }
            if !is_new {
                return;
            }
            self.scan();
        }
    }

    fn kill(&mut self) {
        for (pid, member) in &mut self.members {
            send(&member.pidfd, Signal::KILL);
            if !member.is_killed {
                member.is_killed = true;
                self.end.killed.push(Killed { pid: *pid, name: member.name.clone() });
            }
        }
    }

    /// Until a member ends, or for a moment.
    fn wait(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let timeout = u16::try_from(left).unwrap_or(LOOK_MS).min(LOOK_MS);
        let mut fds: Vec<_> = self
            .members
            .values()
            .map(|member| PollFd::new(member.pidfd.as_fd(), PollFlags::POLLIN))
            .collect();
        if let Err(error) = poll(&mut fds, PollTimeout::from(timeout)) {
            tracing::debug!(%error, "waiting for processes was interrupted");
        }
    }
}

/// The agent's own process, if it lives and is the agent's.
fn root_of(identity: &Identity, mark: &[u8]) -> Option<OwnedFd> {
    // In the middle of an exec a process has no environment.
    let is_marked = processes::carries(identity.pid, mark) || {
        std::thread::sleep(Duration::from_millis(EXEC_MS));
        processes::carries(identity.pid, mark)
    };
    identity.pidfd().filter(|_| is_marked)
}

fn send(pidfd: &OwnedFd, signal: Signal) {
    if let Err(error) = pidfd_send_signal(pidfd, signal) {
        // It ended meanwhile, as a rule.
        tracing::debug!(%error, "a signal was not sent");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::{Child, ChildStdout, Command, Stdio};

    use super::*;
    use crate::process::identity::State;

    /// A shell that stands for an agent: leader of a session, marked, and killed at the latest when
    /// the test ends.
    struct Agent {
        child: Child,
        output: BufReader<ChildStdout>,
        name: String,
    }

    impl Agent {
        /// Waits until the script has said `ready`.
        fn start(script: &str) -> Self {
            static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let name = format!("test-{}-{number}", std::process::id());
            let mut child = Command::new("setsid")
                .args(["sh", "-c", script])
                .env(AGENT_ID, &name)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let output = BufReader::new(child.stdout.take().unwrap());
            let mut agent = Self { child, output, name };
            assert_eq!(agent.line(), "ready");
            agent
        }

        fn line(&mut self) -> String {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        }

        fn identity(&self) -> Identity {
            Identity::of(self.child.id()).unwrap()
        }

        /// All are gone when nobody holds the output any more.
        fn no_survivors(mut self) -> bool {
            self.child.wait().unwrap();
            let mut rest = Vec::new();
            self.output.read_to_end(&mut rest).unwrap();
            true
        }
    }

    #[tokio::test]
    async fn w6_an_agent_that_ends_when_asked_is_not_killed() {
        let agent = Agent::start("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done");
        let end = end_tree(agent.identity(), &agent.name, 5_000).await;
        assert_eq!(end.left, 0);
        // Its last sleep may outlive it by a moment.
        assert!(end.killed.iter().all(|it| it.name == "sleep"), "{end:?}");
        assert!(agent.no_survivors());
    }

    #[tokio::test]
    async fn w6_one_that_ignores_it_is_killed_after_the_grace_time() {
        let agent = Agent::start("trap '' TERM; echo ready; while :; do sleep 1000; done");
        let start = Instant::now();
        let end = end_tree(agent.identity(), &agent.name, 200).await;
        assert!(start.elapsed() >= Duration::from_millis(200));
        assert_eq!(end.left, 0);
        assert!(end.killed.iter().any(|it| it.pid == agent.child.id()), "{end:?}");
        assert!(agent.no_survivors());
    }

    /// rel-29: double forks, own sessions, ignored signals, lost marks and many children.
    #[tokio::test]
    async fn rel29_what_escapes_its_parent_and_session_is_found() {
        let script = "trap '' TERM
            (setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &)
            (env -u COORDD_AGENT_ID sleep 1000 &)
            env -u COORDD_AGENT_ID setsid sleep 1000 &
            for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1000 & done
            echo ready
            wait";
        let agent = Agent::start(script);
        let end = end_tree(agent.identity(), &agent.name, 0).await;
        assert_eq!(end.left, 0);
        assert!(end.killed.len() >= 23, "{end:?}");
        assert!(agent.no_survivors());
    }

    #[tokio::test]
    async fn rel29_what_outlived_its_agent_is_found_by_its_mark() {
        let mut agent = Agent::start("(setsid sleep 1000 &); echo ready");
        let identity = agent.identity();
        agent.child.wait().unwrap();
        assert_ne!(identity.alive(), State::Alive);
        let end = end_tree(identity, &agent.name, 5_000).await;
        assert_eq!((end.killed.len(), end.left), (1, 0), "{end:?}");
        assert!(agent.no_survivors());
    }

    /// rel-32: what the store says may be about a process that has nothing to do with us.
    #[tokio::test]
    async fn rel32_a_process_that_only_has_the_number_is_untouched() {
        let mut bystander = Agent::start("echo ready; sleep 1000");
        let real = bystander.identity();
        let forged = [
            Identity { start_ticks: real.start_ticks + 1, ..real.clone() },
            Identity { boot_id: "an earlier boot".to_owned(), ..real.clone() },
            Identity { pid: 0, ..real.clone() },
            Identity { pid: 1, ..real.clone() },
            Identity { pid: u32::MAX, ..real.clone() },
            // Right in all, and still not this agent's.
            real.clone(),
        ];
        for identity in forged {
            let end = end_tree(identity, "another-agent", 0).await;
            assert_eq!(end, TreeEnd::default());
        }
        assert_eq!(real.alive(), State::Alive);
        assert!(bystander.child.try_wait().unwrap().is_none());
        end_tree(real, &bystander.name.clone(), 0).await;
        assert!(bystander.no_survivors());
    }

    #[tokio::test]
    async fn rel29_a_stopped_agent_is_ended_too() {
        let agent = Agent::start("trap 'exit 0' TERM; echo ready; kill -STOP $$; sleep 1000");
        let end = end_tree(agent.identity(), &agent.name, 2_000).await;
        assert_eq!(end.left, 0);
        assert!(agent.no_survivors());
    }
}
