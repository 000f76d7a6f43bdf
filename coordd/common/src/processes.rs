//! The process table, read from `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Longest line of `/proc/<pid>/stat`: 52 numbers and a name.
const STAT_BYTES_MAX: u64 = 4096;

/// Longest environment that is searched: the kernel's own usual bound for arguments and environment.
const ENVIRON_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// How much of a command line is looked at: what tells who a process is stands at its beginning.
const COMMAND_BYTES_MAX: u64 = 8 * 1024;

/// How many words of it are.
const COMMAND_WORDS_MAX: usize = 8;

/// Longest name that the kernel keeps of a program of the user's, with its newline.
const NAME_BYTES_MAX: u64 = 64;

/// One line of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process's number.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session. Zero when the session's leader is outside of our namespace of process numbers.
    pub session: u32,
    /// When it was started, in the kernel's clock ticks since the boot.
    pub start_ticks: u64,
    /// Ended, and only waits to be reaped.
    pub is_dead: bool,
}

impl Process {
    /// A descriptor of the process that was seen in the table, and of no later one with its number (rel-32).
    pub fn open(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Looked at after the descriptor was opened: the descriptor stays with the process that is looked at.
        (read(self.pid)?.start_ticks == self.start_ticks).then_some(pidfd)
    }
}

/// The user that this process acts as.
pub fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// One process. None when there is none with this pid.
pub fn read(pid: u32) -> Option<Process> {
    let bytes = read_bounded(pid, "stat", STAT_BYTES_MAX)?;
    parse(pid, &String::from_utf8_lossy(&bytes))
}

/// The numbers of all processes.
pub fn numbers() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// All processes.
pub fn read_all() -> BTreeMap<u32, Process> {
    numbers().filter_map(|pid| Some((pid, read(pid)?))).collect()
}

/// Whether a process runs: one that has ended and was not reaped by its parent does not.
pub fn is_alive(pid: u32) -> bool {
    read(pid).is_some_and(|process| !process.is_dead)
}

/// The name of the program that a process runs, cut as the kernel cuts it. Empty when the process is gone.
pub fn name(pid: u32) -> String {
    let name = read_bounded(pid, "comm", NAME_BYTES_MAX).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()
}

/// Whether a process is of this user and has `variable`, as in `NAME=value`, in the environment that it was started with.
pub fn carries(pid: u32, variable: &[u8]) -> bool {
    is_ours(pid)
        && read_bounded(pid, "environ", ENVIRON_BYTES_MAX)
            .is_some_and(|environ| environ.split(|byte| *byte == 0).any(|it| it == variable))
}

/// The words that a process of this user was started with, as far as they are text.
pub fn command_line(pid: u32) -> Option<Vec<String>> {
    let line = is_ours(pid).then(|| read_bounded(pid, "cmdline", COMMAND_BYTES_MAX))??;
    let words = line.split(|byte| *byte == 0).take(COMMAND_WORDS_MAX);
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The value of a variable in the environment that a process was started with. None where it had none, or does not say.
pub fn variable(pid: u32, name: &str) -> Option<OsString> {
    let environ = read_bounded(pid, "environ", ENVIRON_BYTES_MAX)?;
    let value = |variable: &[u8]| {
        variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
    };
    environ.split(|byte| *byte == 0).find_map(value).map(OsString::from_vec)
}

fn is_ours(pid: u32) -> bool {
    std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == euid())
}

fn read_bounded(pid: u32, file: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/{file}")).ok()?;
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The name stands in parentheses and may have anything in it, parentheses too.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // The session is field 6, the start is field 22.
    let start_ticks = fields.nth(15)?.parse().ok()?;
    let is_dead = matches!(state, "Z" | "X" | "x");
    Some(Process { pid, parent, group, session, start_ticks, is_dead })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_cannot_pass_for_other_fields() {
        let stat = "7 (a) R 1 1 1) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 4711 23";
        let expected =
            Process { pid: 7, parent: 2, group: 3, session: 4, start_ticks: 4711, is_dead: false };
        assert_eq!(parse(7, stat), Some(expected));
        let ended = "7 (a b) Z 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 4711 23";
        assert_eq!(parse(7, ended), Some(Process { is_dead: true, ..expected }));
    }

    #[test]
    fn half_a_line_is_no_process() {
        for line in ["", "1 (x", "1 (x) S", "1 (x) S a b c", "1 (x) S 1 2 3 4 5"] {
            assert_eq!(parse(1, line), None, "{line:?}");
        }
    }

    #[test]
    fn we_are_in_the_table_and_carry_our_environment() {
        let pid = std::process::id();
        let us = read(pid).unwrap();
        assert_eq!(read_all().get(&pid).map(|it| it.start_ticks), Some(us.start_ticks));
        let (name, value) = std::env::vars().next().unwrap();
        assert!(carries(pid, format!("{name}={value}").as_bytes()));
        assert!(!carries(pid, format!("{name}={value}x").as_bytes()));
        assert_eq!(variable(pid, &name), Some(value.into()));
        assert!(is_alive(pid) && !super::name(pid).is_empty());
        assert_eq!(read(u32::MAX), None);
        assert!(!is_alive(u32::MAX));
    }

    /// W-6: what another user started is nobody's tool, whatever it says of itself.
    #[test]
    fn w6_a_process_of_another_user_carries_nothing() {
        // Where we are the superuser, the process is made another user's.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let start = |uid: u32| {
            let mut command = Command::new("sleep");
            command.arg("600").env("COORDD_TEST", "1").uid(uid).spawn().unwrap()
        };
        let (mut foreign, mut ours) = (start(65_534), start(0));
        // In the middle of an exec a process has no environment.
        while variable(ours.id(), "COORDD_TEST").is_none()
            || variable(foreign.id(), "COORDD_TEST").is_none()
        {
            std::thread::yield_now();
        }
        assert!(carries(ours.id(), b"COORDD_TEST=1"));
        assert!(!carries(foreign.id(), b"COORDD_TEST=1"));
        assert!(command_line(foreign.id()).is_none());
        for child in [&mut foreign, &mut ours] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// rel-32: a process whose start time differs from the one on record is a stranger.
    #[test]
    fn rel32_a_number_that_means_another_process_is_not_opened() {
        let us = read(std::process::id()).unwrap();
        assert!(us.open().is_some());
        assert!(Process { start_ticks: us.start_ticks + 1, ..us }.open().is_none());
    }

    #[test]
    fn a_process_that_ended_is_dead_before_it_is_reaped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_alive(child.id()));
        child.kill().unwrap();
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert!(read(child.id()).is_some_and(|it| it.is_dead));
        child.wait().unwrap();
        assert_eq!(read(child.id()), None);
    }
}
