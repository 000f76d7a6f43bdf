//! The order in which a box is put together, and the processes in it.
//!
//! ```text
//! this process --unshare, fork--> the first process of the box: view, limits, fence, filter
//!   waits for a status              |--fork--> the command
//!   ends as the command did         reaps until nothing is left, so that what the command left behind can end in order
//! ```

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

use coordd_sandbox::{Level, PROXY_PORT, Policy, READY};
use nix::sched::CloneFlags;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, raise, signal, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::BoxError;
use crate::{fence, filter, kernel, view};

/// What this program ends with when the command did not run. The status descriptor tells it from a command's own.
pub(crate) const NOT_RUN: u8 = 125;

/// What is to run, and whom to tell.
pub(crate) struct Job {
    pub(crate) policy: Policy,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Is told whether the command runs.
    pub(crate) status: Option<OwnedFd>,
    /// Gets the socket for the proxy.
    pub(crate) proxy: Option<OwnedFd>,
}

/// How the command ended, as one line of four bytes between the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ended {
    /// The number is that of a signal.
    by_signal: bool,
    number: u8,
    /// Something that it started is left.
    leaves: bool,
}

/// Runs the command in its box, and ends as it did.
pub(crate) fn run(mut job: Job) -> Result<ExitCode, BoxError> {
    set_limits(&job.policy)?;
    if job.policy.level == Level::Landlock {
        view_of_folder(&job.policy)?;
        lock(&job.policy)?;
        return Err(start(&mut job));
    }
    unshare(&job.policy)?;
    let (from_first, to_us) =
        std::io::pipe().map_err(|source| BoxError::Step { what: "pipe", source })?;
    // SAFETY: this process has one thread, so that the child can go on as it is.
    let forked = unsafe { fork() }.map_err(BoxError::nix("process in the box"))?;
    match forked {
        ForkResult::Child => {
            drop(from_first);
            let told = OwnedFd::from(to_us);
            first(job, told)
        }
        ForkResult::Parent { child } => {
            drop(to_us);
            drop(job);
            kernel::drop_privileges()?;
            let mut bytes = [0; 3];
            let mut reader = from_first;
            match reader.read_exact(&mut bytes).ok().and_then(|()| Ended::read(bytes)) {
                Some(ended) if ended.leaves => Ok(end_as(ended)),
                Some(ended) => {
                    let _: Result<_, _> = waitpid(child, None);
                    Ok(end_as(ended))
                }
                // It was ended from outside, or has said itself why it could not go on.
                None => Ok(waitpid(child, None)
                    .ok()
                    .and_then(Ended::of)
                    .map_or(ExitCode::from(NOT_RUN), |(_, ended)| end_as(ended))),
            }
        }
    }
}

/// The first process of the box.
fn first(mut job: Job, told: OwnedFd) -> Result<ExitCode, BoxError> {
    rustix::process::setsid().map_err(BoxError::step("session of its own"))?;
    view::build(&job.policy)?;
    kernel::bring_loopback_up().map_err(BoxError::step("network of its own"))?;
    hand_over_proxy(&mut job)?;
    limit_numbers(&job.policy);
    lock(&job.policy)?;
    // SAFETY: this process has one thread, so that the child can go on as it is.
    let forked = unsafe { fork() }.map_err(BoxError::nix("process for the command"))?;
    match forked {
        ForkResult::Child => {
            drop(told);
            Err(start(&mut job))
        }
        ForkResult::Parent { child } => {
            drop(job);
            close_output();
            Ok(reap(child, told))
        }
    }
}

/// Runs the command in place of this process. It returns only when that fails.
fn start(job: &mut Job) -> BoxError {
    // The language's start-up ignores it, and the command would inherit that.
    // SAFETY: the default action runs no code of ours.
    let reset = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    if let Err(errno) = reset {
        return BoxError::nix("signals as usual")(errno);
    }
    if job.policy.level == Level::Namespaces
        && let Err(errno) = rustix::process::setsid()
    {
        return BoxError::step("session of its own")(errno);
    }
    if let Some(status) = &job.status
        && let Err(errno) = rustix::io::write(status, READY)
    {
        return BoxError::step("word to the caller")(errno);
    }
    kernel::exec(&job.program, &job.arguments)
}

/// Reaps until nothing is left, and tells how the command ended as soon as it has.
fn reap(command: Pid, told: OwnedFd) -> ExitCode {
    let mut told = Some(told);
    let mut number = NOT_RUN;
    loop {
        let status = match waitpid(None, None) {
            Ok(status) => status,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return ExitCode::from(number),
        };
        if let Some((pid, ended)) = Ended::of(status)
            && pid == command
            && let Some(told) = told.take()
        {
            let leaves = reap_ended();
            number = if ended.by_signal { NOT_RUN } else { ended.number };
            let mut told = std::fs::File::from(told);
            // The other process may be gone, and then nobody waits for this.
            drop(told.write_all(&Ended { leaves, ..ended }.write()));
        }
    }
}

/// Reaps what has ended. Returns whether something is left.
fn reap_ended() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// The output is the command's: it has ended when the last of its processes has.
fn close_output() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        for replace in [nix::unistd::dup2_stdout, nix::unistd::dup2_stderr] {
            let _: Result<_, _> = replace(&null);
        }
    }
}

fn unshare(policy: &Policy) -> Result<(), BoxError> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC;
    debug_assert_eq!(policy.level, Level::Namespaces);
    nix::sched::unshare(flags).map_err(BoxError::nix("namespaces"))?;
    let (user, group) = (user.as_raw(), group.as_raw());
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1\n")),
        ("/proc/self/gid_map", format!("{group} {group} 1\n")),
    ] {
        std::fs::write(path, text)
            .map_err(|source| BoxError::Step { what: "users of its own", source })?;
    }
    Ok(())
}

/// What no process of the box can undo. The view must stand.
fn lock(policy: &Policy) -> Result<(), BoxError> {
    kernel::drop_privileges()?;
    fence::put_on(policy)?;
    filter::put_on(policy.level)
}

fn view_of_folder(policy: &Policy) -> Result<(), BoxError> {
    std::env::set_current_dir(&policy.cwd.0).map_err(|source| BoxError::Path {
        path: policy.cwd.0.clone(),
        done: "worked in",
        source,
    })
}

fn set_limits(policy: &Policy) -> Result<(), BoxError> {
    let limits = policy.limits;
    for (resource, bound) in [
        (Resource::Data, limits.data_bytes),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nproc, u64::from(limits.processes)),
    ] {
        // Without namespaces the processes that count are all of the user's.
        let counts = resource != Resource::Nproc || policy.level == Level::Namespaces;
        if bound > 0 && counts {
            lower(resource, bound)?;
        }
    }
    lower(Resource::Core, 0)
}

fn lower(resource: Resource, bound: u64) -> Result<(), BoxError> {
    let hard = rustix::process::getrlimit(resource).maximum;
    let bound = hard.map_or(bound, |hard| hard.min(bound));
    let limit = Rlimit { current: Some(bound), maximum: Some(bound) };
    setrlimit(resource, limit).map_err(BoxError::step("limits"))
}

/// Newer kernels count process numbers for each namespace, which holds for root as well. Older ones have the limit alone.
fn limit_numbers(policy: &Policy) {
    /// The smallest that the kernel takes.
    const NUMBERS_MIN: u32 = 301;
    let bound = policy.limits.processes;
    if bound > 0 {
        // The table is read-only for everybody, so it is mounted once more for this.
        let _: Result<_, _> =
            view::write_setting("kernel/pid_max", &bound.max(NUMBERS_MIN).to_string());
    }
}

fn hand_over_proxy(job: &mut Job) -> Result<(), BoxError> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let Some(to) = job.proxy.take().filter(|_| job.policy.proxy) else { return Ok(()) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))
        .map_err(|source| BoxError::Step { what: "socket for the proxy", source })?;
    let descriptors = [listener.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let bytes = [std::io::IoSlice::new(b"p")];
    sendmsg(to, &bytes, &mut control, SendFlags::empty())
        .map_err(BoxError::step("socket for the proxy"))?;
    Ok(())
}

/// Ends this process in the same way, so that the caller sees what a shell of its own would have shown.
fn end_as(ended: Ended) -> ExitCode {
    if !ended.by_signal {
        return ExitCode::from(ended.number);
    }
    if let Ok(number) = Signal::try_from(i32::from(ended.number)) {
        // SAFETY: the default action runs no code of ours. For KILL and STOP it fails, and need not be set.
        let _: Result<_, _> = unsafe { signal(number, SigHandler::SigDfl) };
        let _: Result<_, _> = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
        let _: Result<_, _> = raise(number);
    }
    // A real-time signal, or one whose default ends nothing.
    ExitCode::from(128_u8.saturating_add(ended.number))
}

impl Ended {
    fn of(status: WaitStatus) -> Option<(Pid, Self)> {
        match status {
            WaitStatus::Exited(pid, code) => {
                let number = u8::try_from(code & 0xff).unwrap_or(NOT_RUN);
                Some((pid, Self { by_signal: false, number, leaves: false }))
            }
            WaitStatus::Signaled(pid, signal, _) => {
                let number = u8::try_from(signal as i32).unwrap_or(0);
                Some((pid, Self { by_signal: true, number, leaves: false }))
            }
            WaitStatus::Stopped(..)
            | WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive => None,
        }
    }

    fn write(self) -> [u8; 3] {
        [u8::from(self.by_signal), self.number, u8::from(self.leaves)]
    }

    fn read([by_signal, number, leaves]: [u8; 3]) -> Option<Self> {
        (by_signal <= 1 && leaves <= 1).then_some(Self {
            by_signal: by_signal == 1,
            number,
            leaves: leaves == 1,
        })
    }
}
