//! The process table, read from `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;

/// Longest line of `/proc/<pid>/stat`: 52 numbers and a name.
const STAT_BYTES_MAX: u64 = 4096;

/// Longest environment that is searched: the kernel's own usual bound for arguments and
/// environment.
const ENVIRON_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// The most bytes of a command line that are read: the member's id stands at its beginning.
const COMMAND_BYTES_MAX: u64 = 8 * 1024;

/// How many words of it are.
const COMMAND_WORDS_MAX: usize = 8;

/// One line of the process table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) parent: u32,
    pub(super) session: u32,
    pub(super) start_ticks: u64,
    /// Ended, and only waits to be reaped.
    pub(super) is_dead: bool,
}

/// One process. None when there is none with this pid.
pub(super) fn read(pid: u32) -> Option<Process> {
    let bytes = read_bounded(&format!("/proc/{pid}/stat"), STAT_BYTES_MAX)?;
    parse(pid, &String::from_utf8_lossy(&bytes))
}

/// All processes.
pub(super) fn read_all() -> BTreeMap<u32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, read(pid)?)))
        .collect()
}

/// Whether a process is of user `uid` and has `variable`, as in `NAME=value`, in the environment
/// that it was started with.
pub(super) fn carries(pid: u32, uid: u32, variable: &[u8]) -> bool {
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|metadata| metadata.uid());
    owner.is_ok_and(|owner| owner == uid)
        && read_bounded(&format!("/proc/{pid}/environ"), ENVIRON_BYTES_MAX)
            .is_some_and(|it| it.split(|byte| *byte == 0).any(|part| part == variable))
}

/// The words that a process of user `uid` was started with, as far as they are text.
pub(super) fn command_line(pid: u32, uid: u32) -> Option<Vec<String>> {
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|metadata| metadata.uid());
    let line = owner
        .is_ok_and(|owner| owner == uid)
        .then(|| read_bounded(&format!("/proc/{pid}/cmdline"), COMMAND_BYTES_MAX))??;
    let words = line.split(|byte| *byte == 0).take(COMMAND_WORDS_MAX);
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// What a variable had as its value in the environment that a process was started with. None where
/// it had none, or does not say.
pub(super) fn variable(pid: u32, name: &str) -> Option<OsString> {
    let environ = read_bounded(&format!("/proc/{pid}/environ"), ENVIRON_BYTES_MAX)?;
    let value =
        |it: &[u8]| it.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
    environ.split(|byte| *byte == 0).find_map(value).map(OsString::from_vec)
}

fn read_bounded(path: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The name stands in parentheses and may have anything in it, parentheses too.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    // The session is field 6, the start is field 22.
    let start_ticks = fields.nth(15)?.parse().ok()?;
    let is_dead = matches!(state, "Z" | "X" | "x");
    Some(Process { pid, name: name.to_owned(), parent, session, start_ticks, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_other_fields() {
        let stat = "7 (a) R 1 1 1) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 4711 23";
        let process = parse(7, stat).unwrap();
        assert_eq!(process.name, "a) R 1 1 1");
        assert_eq!((process.parent, process.session, process.start_ticks), (2, 4, 4711));
        assert!(!process.is_dead);
    }

    #[test]
    fn we_are_in_the_table_and_carry_our_environment() {
        let pid = std::process::id();
        let us = read(pid).unwrap();
        assert_eq!(read_all().get(&pid).map(|it| it.start_ticks), Some(us.start_ticks));
        let (name, value) = std::env::vars().next().unwrap();
        let uid = crate::dir::euid();
        assert!(carries(pid, uid, format!("{name}={value}").as_bytes()));
        assert!(!carries(pid, uid, format!("{name}={value}x").as_bytes()));
        assert!(!carries(pid, uid + 1, format!("{name}={value}").as_bytes()));
        assert_eq!(read(u32::MAX), None);
    }
}
