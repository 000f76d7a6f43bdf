//! Whether the programs that run are the ones on the disk: after an update they are not, until they are started anew (fR10).

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use proto::request::Request;
use proto::response::Response;

use super::{Check, ok, warn};
use crate::context::Context;
use crate::{format, paths};

/// Sessions whose agents are looked at; a person has tens.
const SESSIONS_MAX: usize = 200;

/// The daemon's program, and those of its agents.
pub(super) fn checks(context: &mut Context, daemon: u32) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut compared = Compared::default();
    if let Some(disk) = paths::program(&context.vars, "COORDD_BIN", "coordd") {
        checks.push(if compared.is_other(daemon, &disk) {
            let text = format!(
                "the coordd that runs (pid {daemon}) is not the one on the disk, {}: `coordctl daemon restart` puts that in its \
                 place, and agents go on meanwhile",
                disk.display()
            );
            warn("running program", text)
        } else {
            ok("running program", "coordd is the one on the disk")
        });
    }
    if let Some(disk) = paths::program(&context.vars, "COORDD_WORKER", "coordd-worker") {
        let others = agents(context).into_iter().filter(|pid| compared.is_other(*pid, &disk));
        let count = others.count();
        if count > 0 {
            let text = format!(
                "{} with a process of another coordd-worker than the one on the disk, {}: each has that when it is next started",
                format::count(count as u64, "agent"),
                disk.display()
            );
            checks.push(warn("running program", text));
        }
    }
    checks
}

/// The processes of agents.
fn agents(context: &mut Context) -> Vec<u32> {
    let Ok(Response::Sessions { sessions }) = context.call_running(Request::SessionList {}) else {
        return Vec::new();
    };
    let mut pids = Vec::new();
    for session in sessions.into_iter().take(SESSIONS_MAX) {
        let show = Request::SessionShow { session: session.id };
        if let Ok(Response::SessionDetail { agents, .. }) = context.call_running(show) {
            let native = agents.into_iter().filter(|it| is_a_worker(it.pid));
            pids.extend(native.filter_map(|it| it.pid));
        }
    }
    pids
}

/// A program that joined is an agent, too, and not ours.
fn is_a_worker(pid: Option<u32>) -> bool {
    let name = pid.map(|it| std::fs::read_to_string(format!("/proc/{it}/comm")));
    name.is_some_and(|it| it.is_ok_and(|it| it.trim() == "coordd-worker"))
}

/// Files that were compared already: agents have the same program.
#[derive(Default)]
struct Compared {
    files: HashMap<(u64, u64), bool>,
}

impl Compared {
    /// Whether a process runs another program than the one at this path. What cannot be seen is no other.
    fn is_other(&mut self, pid: u32, disk: &Path) -> bool {
        let running = PathBuf::from(format!("/proc/{pid}/exe"));
        let (Ok(runs), Ok(there)) = (running.metadata(), disk.metadata()) else { return false };
        let id = |it: &Metadata| (it.dev(), it.ino());
        if id(&runs) == id(&there) {
            return false;
        }
        let compared = self.files.entry(id(&runs));
        *compared.or_insert_with(|| runs.len() != there.len() || !same_bytes(&running, disk))
    }
}

fn same_bytes(one: &Path, other: &Path) -> bool {
    let (Ok(mut one), Ok(mut other)) = (File::open(one), File::open(other)) else { return true };
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let (Ok(len), Ok(other_len)) = (fill(&mut one, &mut left), fill(&mut other, &mut right))
        else {
            return true;
        };
        if left.get(..len) != right.get(..other_len) {
            return false;
        }
        if len == 0 {
            return true;
        }
    }
}

/// As much as there is room for, or as there is.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while let Some(space) = buffer.get_mut(len..).filter(|space| !space.is_empty()) {
        match file.read(space)? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fr10_another_file_with_the_same_bytes_is_the_same_program() {
        let folder = tempfile::tempdir().unwrap();
        let exe = std::env::current_exe().unwrap();
        let copy = folder.path().join("copy");
        std::fs::copy(&exe, &copy).unwrap();
        let own = std::process::id();
        let is_other = |disk: &Path| Compared::default().is_other(own, disk);
        assert!(!is_other(&exe) && !is_other(&copy));
        let mut bytes = std::fs::read(&copy).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&copy, bytes).unwrap();
        assert!(is_other(&copy));
        assert!(!is_other(&folder.path().join("none")), "what is not there is said elsewhere");
    }
}
