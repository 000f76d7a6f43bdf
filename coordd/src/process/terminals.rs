//! Team members in the user's own terminals, found by their command lines.
//!
//! They are not our children and have no connection to us, so the process table is polled. It must
//! not send them a signal.

use std::collections::BTreeMap;
use std::path::Path;

use coordd_common::processes;
use coordd_core::agent::Process;
use proto::teammate::started_as;

use super::identity;

/// Where in its command line a member's id can stand: after the program, or after an interpreter
/// and its script. Further behind, the line is that of something that starts one, as a terminal
/// multiplexer.
const WORDS_BEFORE_ID_MAX: usize = 3;

/// The processes of this user, with this home, that were started as members of teams, by
/// `<name>@<team>`. Of several the oldest: it has the inbox. With another home a team of the same
/// name is another one.
pub(crate) fn find(home: &Path) -> BTreeMap<String, Process> {
    let mut found: BTreeMap<String, Process> = BTreeMap::new();
    for process in processes::read_all().values().filter(|it| !it.is_dead) {
        let Some(words) = processes::command_line(process.pid) else { continue };
        let first = words.iter().take(WORDS_BEFORE_ID_MAX + 1).map(String::as_str);
        let Some(id) = started_as(first).filter(|_| has_home(process.pid, home)) else { continue };
        let is_older = found.get(id).is_none_or(|it| process.start_ticks < it.start_ticks);
        if is_older {
            let boot_id = identity::boot_id();
            let start_ticks = process.start_ticks;
            found.insert(id.to_owned(), Process { pid: process.pid, start_ticks, boot_id });
        }
    }
    found
}

/// A process without HOME in its environment has the user's home.
fn has_home(pid: u32, home: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    processes::variable(pid, "HOME").is_none_or(|it| real(Path::new(&it)) == real(home))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn t2_a_member_is_found_by_its_command_line_until_it_ends() {
        let id = format!("m1@team-{}", std::process::id());
        let home = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let path = home.path().join("claude");
        std::fs::write(&path, "read x\n").unwrap();
        let start = |before: &[&str]| {
            let mut command = Command::new("sh");
            command.args(before).args(["--agent-id", &id]).env("HOME", home.path());
            command.stdin(Stdio::piped()).spawn().unwrap()
        };
        // What follows a script are words of its own.
        let mut starter = start(&["-c", "read x; exit 0", "sh"]);
        assert_eq!(find(home.path()).get(&id), None, "too far behind: it may only start one");
        let mut member = start(&[path.to_str().unwrap()]);
        // The kernel shows a command line a moment after the program was started.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let seen = loop {
            let seen = find(home.path()).get(&id).map(|it| it.pid);
            if seen.is_some() || std::time::Instant::now() > end {
                break seen;
            }
            std::thread::yield_now();
        };
        assert_eq!(seen, Some(member.id()));
        assert_eq!(find(other.path()).get(&id), None, "another home has other teams");
        for it in [&mut starter, &mut member] {
            drop(it.stdin.take());
            it.wait().unwrap();
        }
        assert_eq!(find(home.path()).get(&id), None);
    }
}
