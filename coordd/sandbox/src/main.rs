//! `coordd-sandbox`: builds the box that a policy describes, and runs a command in it.
//!
//! ```text
//! coordd-sandbox --policy FD [--status FD] [--proxy FD] -- PROGRAM [ARGUMENT…]
//!     FD are descriptors that it inherits. It ends as the command ends. When the command did not run, it ends with 125 and
//!     says why: on the status descriptor, else on stderr.
//! coordd-sandbox --probe      what this machine can do, as JSON
//! coordd-sandbox --version
//! ```

mod error;
mod fence;
mod filter;
mod kernel;
mod probe;
mod view;
mod walls;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::process::ExitCode;

use coordd_sandbox::Policy;

use self::error::BoxError;
use self::walls::{Job, NOT_RUN};

/// The descriptors and the command, as the command line names them.
struct Given {
    policy: RawFd,
    status: Option<RawFd>,
    proxy: Option<RawFd>,
    program: OsString,
    arguments: Vec<OsString>,
}

#[expect(clippy::print_stdout, reason = "it is what the flags ask for")]
fn main() -> ExitCode {
    let mut given = std::env::args_os().skip(1).peekable();
    match given.peek().and_then(|it| it.to_str()) {
        Some("--version") => {
            println!("coordd-sandbox {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Some("--probe") => {
            return match serde_json::to_string(&probe::probe()) {
                Ok(text) => {
                    println!("{text}");
                    ExitCode::SUCCESS
                }
                Err(_) => ExitCode::from(NOT_RUN),
            };
        }
        _ => {}
    }
    let Some(arguments) = parse(given) else { return usage() };
    let status = arguments.status.and_then(inherited);
    let told = status.as_ref().and_then(|it| it.try_clone().ok());
    match prepare(arguments, status).and_then(walls::run) {
        Ok(code) => code,
        Err(error) => {
            tell(told, &error);
            ExitCode::from(NOT_RUN)
        }
    }
}

fn prepare(given: Given, status: Option<OwnedFd>) -> Result<Job, BoxError> {
    let no_policy = || BoxError::Step {
        what: "policy in that descriptor",
        source: std::io::Error::from(std::io::ErrorKind::NotFound),
    };
    let policy = inherited(given.policy).ok_or_else(no_policy)?;
    let policy = Policy::read(File::from(policy))?;
    let Given { proxy, program, arguments, .. } = given;
    Ok(Job { policy, program, arguments, status, proxy: proxy.and_then(inherited) })
}

/// A descriptor by its number, which the command does not get.
fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the caller of this program names the descriptor as one that is handed over, each once, and nothing here has
    // opened one before; were it none, the next call fails.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    if rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).is_ok() {
        return Some(fd);
    }
    std::mem::forget(fd);
    None
}

fn parse(mut given: impl Iterator<Item = OsString>) -> Option<Given> {
    let (mut policy, mut status, mut proxy) = (None, None, None);
    loop {
        let flag = given.next()?;
        let field = match flag.to_str()? {
            "--policy" => &mut policy,
            "--status" => &mut status,
            "--proxy" => &mut proxy,
            "--" => break,
            _ => return None,
        };
        let number = number(&given.next()?)?;
        if field.replace(number).is_some() {
            return None;
        }
    }
    let numbers = [policy, status, proxy];
    let differ = numbers.iter().flatten().collect::<std::collections::BTreeSet<_>>().len()
        == numbers.iter().flatten().count();
    if !differ {
        return None;
    }
    Some(Given {
        policy: policy?,
        status,
        proxy,
        program: given.next()?,
        arguments: given.collect(),
    })
}

/// Descriptors below 3 are the command's.
fn number(text: &OsStr) -> Option<RawFd> {
    text.to_str()?.parse().ok().filter(|number| *number > 2)
}

#[expect(clippy::print_stderr, reason = "whoever called it by hand reads it there")]
fn tell(status: Option<OwnedFd>, error: &BoxError) {
    let line = error.line();
    match status {
        Some(status) => {
            let _: Result<_, _> = rustix::io::write(status, line.as_bytes());
        }
        None => eprintln!("coordd-sandbox: {line}; the command did not run"),
    }
}

#[expect(clippy::print_stderr, reason = "a person called the program by hand")]
fn usage() -> ExitCode {
    eprintln!(
        "usage: coordd-sandbox --policy FD [--status FD] [--proxy FD] -- PROGRAM [ARGUMENT…]\n       coordd-sandbox --probe"
    );
    ExitCode::from(2)
}
