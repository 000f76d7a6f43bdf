//! The processes that belong to a sandbox: found by what they have of it, ended by pidfd.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process, held so that its number cannot come to mean another one.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    /// Its arguments.
    pub command: String,
    fd: OwnedFd,
}

impl Process {
    /// The process with this number, if there is one.
    pub fn open(pid: u32) -> Option<Self> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = pidfd_open(number, PidfdFlags::empty()).ok()?;
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
        Some(Self { pid, command, fd })
    }

    /// Sends a signal; nothing happens when it is gone.
    pub fn signal(&self, signal: Signal) {
        let _gone = pidfd_send_signal(&self.fd, signal);
    }

    /// Ends the process by SIGKILL.
    pub fn kill9(&self) {
        self.signal(Signal::KILL);
    }

    /// Whether it still runs. A zombie does not.
    pub fn runs(&self) -> bool {
        state(self.pid).is_some_and(|state| state != 'Z' && state != 'X')
            && pidfd_send_signal(&self.fd, Signal::CONT).is_ok()
    }
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// All processes that have something of this folder: in their environment, arguments, working
/// directory or open files. The caller's own process does not count.
pub fn of(folder: &Path) -> Vec<Process> {
    let own = std::process::id();
    let numbers = std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| {
        entry.ok()?.file_name().to_str()?.parse::<u32>().ok().filter(|pid| *pid != own)
    });
    let found = numbers.filter_map(|pid| {
        let process = Process::open(pid)?;
        (has(pid, folder) && process.runs()).then_some(process)
    });
    found.collect()
}

fn has(pid: u32, folder: &Path) -> bool {
    let folder_bytes = folder.as_os_str().as_bytes();
    let says = |file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(folder_bytes.len()).any(|window| window == folder_bytes)
    };
    let leads = |link: &Path| std::fs::read_link(link).is_ok_and(|to| to.starts_with(folder));
    let open = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
        files.into_iter().flatten().flatten().any(|file| leads(&file.path()))
    };
    says("environ") || says("cmdline") || leads(Path::new(&format!("/proc/{pid}/cwd"))) || open()
}

/// Ends all of them, and those that they start meanwhile.
pub fn end_all(folder: &Path) {
    crate::wait::until_true("all processes of the sandbox are gone", || {
        let left = of(folder);
        left.iter().for_each(Process::kill9);
        left.is_empty()
    });
}
