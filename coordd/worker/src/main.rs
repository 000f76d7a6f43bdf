//! `coordd-worker`: the agent process. It holds one agent's conversation, runs its tools, and talks
//! to coordd.
//!
//! coordd starts it with one JSON document on stdin and nothing in its arguments or environment. It
//! outlives coordd: it works on, and reports when coordd is back.
//!
//! ```text
//! coordd-worker                         the agent process
//! coordd-worker --mcp …                 joins a session and serves its tools on stdin and stdout; `coordctl mcp` runs it
//! coordd-worker --mcp-pipe SOCKET       copies stdin and stdout to and from the socket, for programs that an agent starts
//! coordd-worker --version
//! coordd-worker --check-rehearsal FILE  whether a script can be played
//! coordd-worker --check-rules RULE…     whether permission rules can be read
//!     for coordctl; they start nothing. Exit 0: yes; 1: no, and stderr has one line that says why
//! ```

mod bootstrap;
mod context;
mod conversation;
mod definition;
mod failpoint;
#[cfg(test)]
mod fake_daemon;
mod framing;
mod instructions;
mod link;
mod mcp;
mod memory;
mod model;
mod orchestration;
mod outcome;
mod runtime;
mod tools;
mod transcript;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use proto::agent::Bootstrap;
use proto::hello::Credentials;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use self::link::{Link, LinkConfig, Orders};
use self::runtime::{Agent, Ending};

/// Seconds without a daemon after which an agent ends itself (D-7); without bound when it is not
/// set.
const ORPHAN_LIMIT_VARIABLE: &str = "COORDD_ORPHAN_LIMIT_S";

/// The exit status of an agent that coordd no longer wants: nothing is wrong with it.
const GONE: u8 = 3;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("--version" | "-V") => return print_version(),
        Some("--check-rehearsal") => {
            return std::env::args_os()
                .nth(2)
                .map_or_else(usage, |file| checked(check_rehearsal(&file)));
        }
        Some("--mcp") => return mcp(std::env::args_os().skip(2)),
        Some("--mcp-pipe") => {
            return std::env::args_os()
                .nth(2)
                .map_or_else(usage, |socket| checked(mcp_pipe(Path::new(&socket))));
        }
        Some("--check-rules") => return checked(check_rules(std::env::args_os().skip(2))),
        Some(_) => return usage(),
    }
    set_up_logs("info,rmcp=warn");
    match run() {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Gone(reason)) => {
            tracing::warn!(reason, "the agent ends itself");
            ExitCode::from(GONE)
        }
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the agent cannot go on");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<Ending> {
    let boot = bootstrap::read()?;
    bootstrap::become_independent();
    failpoint::arm(&boot);
    tracing::info!(
        agent = boot.agent,
        incarnation = boot.incarnation,
        session = boot.session,
        "agent process started"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let local = LocalSet::new();
    let ending = local.block_on(&runtime, live(boot));
    // A read that hangs on a dead network file system must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ending
}

async fn live(mut boot: Bootstrap) -> anyhow::Result<Ending> {
    let credentials = Credentials {
        agent: boot.agent.clone(),
        incarnation: boot.incarnation,
        token: std::mem::take(&mut boot.token),
        pid: std::process::id(),
    };
    let orphan_limit = boot.env.get(ORPHAN_LIMIT_VARIABLE).cloned();
    let orphan_limit = orphan_limit.or_else(|| std::env::var(ORPHAN_LIMIT_VARIABLE).ok());
    let link = Link::new(LinkConfig {
        socket: boot.socket.clone().into(),
        credentials: Some(credentials),
        orphan_limit: orphan_limit
            .and_then(|limit| limit.trim().parse().ok())
            .map(Duration::from_secs),
        state_dir: Some(boot.state_dir.clone().into()),
    });
    watch_signals(link.orders()).context("cannot watch signals")?;
    if boot.runtime == proto::agent::Runtime::Terminal {
        let connection = tokio::task::spawn_local(link.clone().keep());
        let ending = runtime::terminal::live(boot, link).await;
        connection.abort();
        return Ok(ending);
    }
    let agent = Agent::new(boot, link.clone())?;
    let connection = tokio::task::spawn_local(link.keep());
    let ending = agent.live().await;
    connection.abort();
    Ok(ending)
}

/// SIGTERM stops the agent in order. SIGHUP means nothing: there is no terminal. Both are reset in
/// the processes of tools, since they are caught and not ignored.
fn watch_signals(orders: Rc<Orders>) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::task::spawn_local(async move {
        loop {
            tokio::select! {
                got = terminate.recv() => match got {
                    Some(()) => orders.stop("the process was told to end (SIGTERM)".to_owned()),
                    None => return,
                },
                got = hangup.recv() => if got.is_none() { return },
            }
        }
    });
    Ok(())
}

/// Logs go to stderr, which coordd pointed at the agent's log file. `RUST_LOG` sets the level.
fn set_up_logs(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

#[expect(clippy::print_stdout, reason = "it is what the flag asks for")]
fn print_version() -> ExitCode {
    println!("coordd-worker {}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

/// Its stdout is the client's: everything else goes to stderr, where clients keep a log.
#[expect(clippy::print_stderr, reason = "people who look for the reason find it there")]
fn mcp(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    set_up_logs("warn,rmcp=error");
    match mcp::external::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            eprintln!("coordd: {:#}", anyhow::Error::from(error));
            ExitCode::from(code)
        }
    }
}

fn mcp_pipe(socket: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let copied = runtime.block_on(mcp::pipe::run(socket, tokio::io::stdin(), tokio::io::stdout()));
    // A read from stdin cannot be taken back; its thread must not keep the process.
    runtime.shutdown_background();
    Ok(copied?)
}

fn check_rehearsal(file: &OsStr) -> anyhow::Result<()> {
    model::rehearsal::Rehearsal::load(Some(file.as_ref()))?;
    Ok(())
}

fn check_rules(rules: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    for rule in rules {
        let rule = rule.into_string().ok().context("a rule is not UTF-8; write it so")?;
        tools::permissions::check_rule(&rule)?;
    }
    Ok(())
}

/// The result of a check that an agent would make, without an agent.
#[expect(clippy::print_stderr, reason = "the caller reads it there")]
fn checked(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a person called the program by hand")]
fn usage() -> ExitCode {
    eprintln!(
        "error: coordd-worker takes no arguments but --version, --mcp-pipe SOCKET, --check-rehearsal FILE and --check-rules RULE…\n\nhint: coordd starts it; to start an agent use `coordctl run` or `coordctl new`"
    );
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-6: what the agent would refuse is refused before there is one.
    #[test]
    fn r6_a_script_is_checked_as_the_agent_would() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.json");
        let check = |text: &str| {
            std::fs::write(&path, text).unwrap();
            check_rehearsal(path.as_os_str())
        };
        assert!(check(r#"{"agents": [{"steps": [{"text": "hello"}]}]}"#).is_ok());
        for bad in [
            "{}",
            r#"{"agents": [{"steps": [{"txt": "hello"}]}]}"#,
            r#"{"agents": [{"steps": [{"text": "{{last}}"}]}]}"#,
        ] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains("script.json:1:"), "{bad}: {error}");
        }
    }

    /// W-3: so are rules, with the globs in them.
    #[test]
    fn w3_rules_are_checked_as_the_agent_would() {
        let check = |rules: &[&str]| check_rules(rules.iter().map(OsString::from));
        assert!(check(&["Bash(cargo test *)", "Edit(src/**)", "mcp__x__*"]).is_ok());
        for bad in ["Bash(unclosed", "Ba sh", "", "Read(a[)"] {
            assert!(check(&["Bash", bad]).is_err(), "{bad}");
        }
    }
}
