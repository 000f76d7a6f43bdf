//! Where a program at the other end of the socket comes from. What an agent started speaks for neither the agent nor the user (fP14, W-16),
//! and says so by nothing that it could leave out: the kernel knows its parents.
//!
//! ```text
//! who connected --parent--> ... --parent--> this daemon, or the first process
//!      each: its identity, the leader of its session, the mark in its environment
//! ```
//!
//! An agent's process is the parent of what its children leave behind, so that a program is found that has left its own parent, its session
//! or its mark. One that has left all of them before it connects is not; `SECURITY.md` says so.

use coordd_common::processes;
use coordd_core::agent::Process;
use coordd_core::id::AgentId;
use coordd_core::input::Lineage;

use super::AGENT_ID;
use super::identity::boot_id;

/// Most parents that are looked at. A shell's pipeline is some ten deep.
const DEPTH_MAX: usize = 128;

/// How often it is looked again when a parent ended meanwhile.
const LOOKS_MAX: usize = 3;

/// The lineage of a process of this machine, with the process itself. None when it has ended.
pub(crate) fn of(pid: u32) -> Option<Lineage> {
    let own = std::process::id();
    let mut looked = None;
    for _ in 0..LOOKS_MAX {
        let (lineage, is_whole) = look(pid, own)?;
        looked = Some(lineage);
        if is_whole {
            break;
        }
    }
    looked
}

/// What is found, and whether it reached the end. Between two looks at the table a parent can end, and its children get another one.
fn look(pid: u32, own: u32) -> Option<(Lineage, bool)> {
    let boot_id = boot_id();
    let recorded = |process: &processes::Process| Process {
        pid: process.pid,
        start_ticks: process.start_ticks,
        boot_id: boot_id.clone(),
    };
    let mut lineage = Lineage::default();
    let mut next = processes::read(pid)?;
    for _ in 0..DEPTH_MAX {
        lineage.processes.push(recorded(&next));
        let leader = (next.session != next.pid && next.session != own).then_some(next.session);
        lineage.processes.extend(leader.and_then(processes::read).as_ref().map(recorded));
        let mark = processes::variable(next.pid, AGENT_ID).and_then(|it| it.into_string().ok());
        let mark = mark.filter(|it| !it.is_empty()).map(AgentId);
        lineage.marks.extend(mark.filter(|it| !lineage.marks.contains(it)));
        if next.parent == 0 || next.parent == own {
            return Some((lineage, true));
        }
        match processes::read(next.parent) {
            Some(parent) => next = parent,
            None => return Some((lineage, false)),
        }
    }
    Some((lineage, true))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::super::identity::Identity;
    use super::*;

    /// A shell that says a process's number and waits.
    fn start(script: &str, mark: &str) -> (Child, u32) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .env(AGENT_ID, mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().parse().unwrap())
    }

    fn end(mut child: Child, pid: u32) {
        drop(child.stdin.take());
        if let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()) {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        child.wait().unwrap();
    }

    /// FP-14: by its parents, although it has another session and no mark.
    #[test]
    fn fp14_a_program_is_known_by_its_parents() {
        let (child, pid) = start(
            "env -u COORDD_AGENT_ID setsid sh -c 'echo $$; kill -STOP $$' </dev/null & read x",
            "a1",
        );
        let lineage = of(pid).unwrap();
        let agent = Identity::of(child.id()).unwrap().recorded();
        assert!(lineage.processes.contains(&agent), "{lineage:?}");
        assert_eq!(lineage.processes[0].pid, pid);
        // The mark of the parent.
        assert_eq!(lineage.marks, [AgentId("a1".to_owned())]);
        // This process is where it ends: what is above is not the daemon's agents'.
        assert!(lineage.processes.iter().all(|it| it.pid != std::process::id()));
        end(child, pid);
    }

    /// FP-14: by its own mark, although its parent has ended and its session is another.
    #[test]
    fn fp14_a_program_is_known_by_its_mark() {
        let (child, pid) =
            start("(setsid sh -c 'echo $$; kill -STOP $$' </dev/null &) ; read x", "a2");
        assert_eq!(of(pid).unwrap().marks, [AgentId("a2".to_owned())]);
        end(child, pid);
    }

    /// FP-14: by the leader of its session, although its parent has ended and its mark is gone.
    #[test]
    fn fp14_a_program_is_known_by_its_session() {
        let script = "setsid sh -c '(env -u COORDD_AGENT_ID sh -c \"echo \\$\\$; kill -STOP \\$\\$\" </dev/null &); read x'";
        let (child, pid) = start(script, "a3");
        let process = processes::read(pid).unwrap();
        assert_ne!(process.session, pid);
        let leader = Identity::of(process.session).unwrap().recorded();
        assert!(of(pid).unwrap().processes.contains(&leader));
        end(child, pid);
    }

    #[test]
    fn who_has_ended_has_none() {
        assert_eq!(of(u32::MAX), None);
    }
}
