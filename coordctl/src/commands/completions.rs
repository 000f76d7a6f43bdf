//! `coordctl completions`: a completion script for a shell.

use serde::Serialize;

use crate::error::Exit;
use crate::output;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: coordctl completions bash > ~/.local/share/bash-completion/completions/coordctl"
)]
pub(crate) struct Args {
    /// The shell.
    shell: clap_complete::Shell,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Answer {
    script: String,
}

pub(crate) fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let answer = answer(args);
    if json {
        output::json(&answer)?;
    } else {
        output::print(&answer.script)?;
    }
    Ok(Exit::Done)
}

fn answer(args: &Args) -> Answer {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::command(), "coordctl", &mut bytes);
    Answer { script: String::from_utf8_lossy(&bytes).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_as_json_it_is_a_document_with_the_script() {
        let answer = answer(&Args { shell: clap_complete::Shell::Bash });
        let json = serde_json::to_value(answer).unwrap();
        assert!(json["script"].as_str().unwrap().contains("complete -F _coordctl"));
    }
}
