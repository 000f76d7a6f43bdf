//! What this machine can do, found out by doing it in a process that ends then.

use std::path::Path;

use coordd_sandbox::{Abilities, Level, Obstacle, Policy, VERSION};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use crate::error::BoxError;
use crate::kernel;
use crate::walls::{self, Job};

/// Builds a box of each kind around a program that does nothing.
pub(crate) fn probe() -> Abilities {
    Abilities {
        no_namespaces: attempt(Level::Namespaces)
            .err()
            .map(|what| Obstacle { what, remedy: remedy() }),
        no_landlock: without_landlock(),
        overlays: has_overlays(),
        inside: is_inside(),
    }
}

fn without_landlock() -> Option<Obstacle> {
    let what = match kernel::landlock_version() {
        Ok(_) => attempt(Level::Landlock).err()?,
        Err(errno) => format!("the kernel has no Landlock: {}", std::io::Error::from(errno)),
    };
    let remedy = "boot with `landlock` in the kernel's lsm= list, Linux 5.13 or newer".to_owned();
    Some(Obstacle { what, remedy })
}

/// Builds a box in another process. The error is its message.
fn attempt(level: Level) -> Result<(), String> {
    let (reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    // SAFETY: this process has one thread, so that the child can go on as it is.
    match unsafe { fork() } {
        Err(errno) => Err(format!("no process: {errno}")),
        Ok(ForkResult::Child) => {
            drop(reader);
            let told = writer.try_clone();
            let job = Job {
                policy: nothing(level),
                program: "/bin/true".into(),
                arguments: Vec::new(),
                status: Some(writer.into()),
                proxy: None,
            };
            if let (Err(error), Ok(told)) = (walls::run(job), told) {
                say(told.into(), &error);
            }
            // SAFETY: it only ends this process, which holds nothing that has to be put away.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => {
            drop(writer);
            let mut said = String::new();
            // What was read until an error is looked at like all else.
            drop(std::io::Read::read_to_string(&mut &reader, &mut said));
            let status = waitpid(child, None);
            match said.strip_prefix("ready\n") {
                Some("") => Ok(()),
                Some(why) => Err(why.to_owned()),
                None if said.is_empty() => Err(match status {
                    Ok(WaitStatus::Signaled(_, signal, _)) => format!("ended by {signal}"),
                    Ok(_) | Err(_) => "it ended without a word".to_owned(),
                }),
                None => Err(said),
            }
        }
    }
}

fn say(told: std::os::fd::OwnedFd, error: &BoxError) {
    let _: Result<_, _> = rustix::io::write(told, error.line().as_bytes());
}

fn nothing(level: Level) -> Policy {
    Policy {
        version: VERSION,
        level,
        cwd: "/".into(),
        writable: Vec::new(),
        overlays: Vec::new(),
        read_only: Vec::new(),
        pinned: Vec::new(),
        hidden: Vec::new(),
        proxy: false,
        limits: coordd_sandbox::Limits::default(),
    }
}

/// The setting that is in the way of namespaces, where one is known.
fn remedy() -> String {
    let says =
        |path: &str, value: &str| std::fs::read_to_string(path).is_ok_and(|it| it.trim() == value);
    let text = if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor forbids user namespaces: `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or a profile for \
         coordd-sandbox with `userns,`"
    } else if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "user namespaces are switched off: `sysctl kernel.unprivileged_userns_clone=1`"
    } else if says("/proc/sys/user/max_user_namespaces", "0") {
        "user namespaces are switched off: `sysctl user.max_user_namespaces=10000`"
    } else if is_inside() {
        "this is a container or a sandbox already, which forbids namespaces: allow them there (for Docker: \
         --security-opt seccomp=unconfined --security-opt systempaths=unconfined), or run coordd outside"
    } else {
        "the kernel must be Linux 5.12 or newer, with user namespaces"
    };
    text.to_owned()
}

fn has_overlays() -> bool {
    std::fs::read_to_string("/proc/filesystems")
        .is_ok_and(|it| it.lines().any(|line| line.split_whitespace().last() == Some("overlay")))
}

/// Whether somebody has put this process into a container or behind a filter.
fn is_inside() -> bool {
    let marks = ["/.dockerenv", "/run/.containerenv"];
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let filtered = status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]));
    filtered || marks.iter().any(|it| Path::new(it).exists())
}
