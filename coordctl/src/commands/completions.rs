//! `coordctl completions`: a completion script for a shell.

use crate::args::Cli;
use crate::error::Exit;
use crate::output;
use clap::CommandFactory as _;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: coordctl completions bash > ~/.local/share/bash-completion/completions/coordctl"
)]
pub(crate) struct Args {
    /// Which shell.
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "coordctl", &mut bytes);
    output::print(&String::from_utf8_lossy(&bytes))?;
    Ok(Exit::Done)
}
