//! coordd: runs LLM coding agents in the background for one user. `ARCHITECTURE.md` beside this
//! crate's manifest is the map.

mod bridge;
mod clock;
mod config;
mod dir;
mod environment;
mod failpoint;
mod ground;
mod hub;
mod jobs;
mod limits;
mod listener;
mod paths;
mod peer;
mod peers;
mod process;
mod reactor;
mod run;
mod scratchpad;
mod sd;
mod store;
mod team_files;
mod transcript;
mod translate;

use std::io::Write as _;
use std::process::ExitCode;

const HELP: &str = "\
coordd: runs LLM coding agents in the background for one user

usage: coordd [--foreground]

It serves $XDG_RUNTIME_DIR/coordd/coordd.sock, or the socket that systemd hands over, and runs until it is told
to exit: SIGTERM stops the agents in order, SIGUSR1 leaves them running for the next coordd to adopt.
You rarely start it yourself: `coordctl` does, or `systemctl --user start coordd`.

  --foreground   stay in the foreground (it always does; for clarity in scripts)
  --version      print the version
  --help         print this

environment: RUST_LOG (log levels, default info), COORDD_SOCKET, COORDD_STATE_DIR, COORDD_WORKER, CLAUDE_CODE_TMPDIR

exit status: 0 stopped as told, or another coordd already runs; 1 failed; 2 wrong usage

example: RUST_LOG=debug coordd --foreground
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["--foreground"] => start(),
        ["--version"] => say(&format!("coordd {}\n", env!("CARGO_PKG_VERSION"))),
        ["--help" | "-h"] => say(HELP),
        _ => {
            let _written =
                writeln!(std::io::stderr(), "error: unknown arguments\n\nhint: coordd --help");
            ExitCode::from(2)
        }
    }
}

fn say(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn start() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    // The journal has its own clock.
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.without_time().init();
    } else {
        log.init();
    }
    failpoint::arm(&std::env::var(failpoint::VARIABLE).unwrap_or_default(), "");
    match run::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let chain: Vec<_> = error.chain().map(ToString::to_string).collect();
            tracing::error!(error = chain.join(": "), "coordd ends");
            ExitCode::FAILURE
        }
    }
}
