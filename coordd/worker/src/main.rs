//! `coordd-worker`: the agent process. It holds one agent's conversation, runs its tools, and talks to coordd.
//!
//! coordd starts it with one JSON document on stdin and nothing in its arguments or environment. It outlives coordd: it
//! works on, and says what happened when coordd is back.

mod bootstrap;
mod context;
mod conversation;
mod definition;
#[cfg(test)]
mod fake_daemon;
mod framing;
mod link;
mod memory;
mod model;
mod orchestration;
mod outcome;
mod runtime;
mod tools;
mod transcript;

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

/// Seconds without a daemon after which an agent ends itself (D-7); without bound when it is not set.
const ORPHAN_LIMIT_VARIABLE: &str = "COORDD_ORPHAN_LIMIT_S";

/// The exit status of an agent that coordd no longer wants: nothing is wrong with it.
const GONE: u8 = 3;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("--version" | "-V") => return print_version(),
        Some(_) => return usage(),
    }
    set_up_logs();
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
        credentials,
        orphan_limit: orphan_limit.and_then(|it| it.trim().parse().ok()).map(Duration::from_secs),
        state_dir: boot.state_dir.clone().into(),
    });
    watch_signals(link.orders()).context("cannot watch signals")?;
    let agent = Agent::new(boot, link.clone())?;
    let connection = tokio::task::spawn_local(link.keep());
    let ending = agent.live().await;
    connection.abort();
    Ok(ending)
}

/// SIGTERM stops the agent in order. SIGHUP means nothing: there is no terminal. Both are reset in the processes of tools,
/// since they are caught and not ignored.
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
fn set_up_logs() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
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

#[expect(clippy::print_stderr, reason = "a person called the program by hand")]
fn usage() -> ExitCode {
    eprintln!(
        "error: coordd-worker takes no arguments\n\nhint: coordd starts it; to start an agent use `coordctl run` or `coordctl new`"
    );
    ExitCode::from(2)
}
