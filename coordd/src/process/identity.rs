//! The identity of a process, so that another one with the same pid is never taken for it (rel-32).

use std::os::fd::OwnedFd;

use coordd_common::processes;
use coordd_core::agent::Process;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A unique identity: a pid is reused, but not together with start time and boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// When it was started, in the kernel's clock ticks since the boot.
    pub(crate) start_ticks: u64,
    /// The kernel's id of the boot. After a reboot every process is another one (rel-66).
    pub(crate) boot_id: String,
}

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Alive,
    /// It ended.
    Gone,
    /// The process ended, and its pid belongs to another one.
    Other,
}

impl Identity {
    /// The identity of the process that has this pid now, if any.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let process = processes::read(pid)?;
        Some(Self { pid, start_ticks: process.start_ticks, boot_id: boot_id() })
    }

    /// The identity of an agent's unrecorded process: the oldest one with the agent's mark, since
    /// the agent's tools carry it too and are younger.
    pub(crate) fn of_agent(agent: &str) -> Option<Self> {
        let mark = format!("{}={agent}", super::AGENT_ID).into_bytes();
        let table = processes::read_all();
        let marked = table.values().filter(|it| !it.is_dead && processes::carries(it.pid, &mark));
        let oldest = marked.min_by_key(|it| (it.start_ticks, it.pid))?;
        Some(Self { pid: oldest.pid, start_ticks: oldest.start_ticks, boot_id: boot_id() })
    }

    /// As the core records it.
    pub(crate) fn recorded(&self) -> Process {
        Process { pid: self.pid, start_ticks: self.start_ticks, boot_id: self.boot_id.clone() }
    }

    pub(crate) fn alive(&self) -> State {
        if self.boot_id != boot_id() {
            return State::Gone;
        }
        match processes::read(self.pid) {
            None => State::Gone,
            Some(process) if process.start_ticks != self.start_ticks => State::Other,
            Some(process) if process.is_dead => State::Gone,
            Some(_) => State::Alive,
        }
    }

    /// A pidfd of this very process. None when it has ended.
    pub(crate) fn pidfd(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
        // Checked after the pidfd was opened, which stays with the process that is checked.
        (self.alive() == State::Alive).then_some(pidfd)
    }
}

/// The kernel's id of this boot; empty if unknown.
pub(crate) fn boot_id() -> String {
    // Lets a test pretend a reboot.
    #[cfg(feature = "failpoints")]
    if let Ok(id) = std::env::var("COORDD_BOOT_ID") {
        return id;
    }
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|it| it.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// C14: whatever else runs under the number is another process.
    #[test]
    fn rel32_a_process_is_known_by_more_than_its_pid() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        assert_eq!(identity.boot_id.len(), 36);
        assert_eq!(identity.alive(), State::Alive);
        assert!(identity.pidfd().is_some());
        let other = Identity { start_ticks: identity.start_ticks + 1, ..identity.clone() };
        assert_eq!(other.alive(), State::Other);
        assert!(other.pidfd().is_none());
        let before = Identity { boot_id: "an earlier boot".to_owned(), ..identity.clone() };
        assert_eq!(before.alive(), State::Gone);
        assert!(before.pidfd().is_none());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_ne!(identity.alive(), State::Alive);
        assert!(identity.pidfd().is_none());
    }

    #[test]
    fn no_number_that_means_many_is_a_process() {
        for pid in [0, u32::MAX] {
            let identity = Identity { pid, start_ticks: 0, boot_id: boot_id() };
            assert!(identity.pidfd().is_none());
        }
    }
}
