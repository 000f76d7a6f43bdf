//! The command line. Each verb's own arguments are in its file under `commands/`.

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    attach, bridge, completions, daemon, demo, doctor, events, help, inbound, logs, ls, mcp, new,
    peers, permit, resume, rm, run, scratchpad, send, status, stop, task, team, trust, usage, wait,
};
use crate::guide::TOPICS;

/// The exit codes of verbs that have none of their own.
const COMMON_CODES: &str =
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 denied by coordd, 4 no coordd.";

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 denied by coordd, 4 no coordd, 5 an agent asks something and nobody is
there to answer, 6 not in the time given.

Sessions are named by name, id, or a unique prefix of an id; agents by session/name, id, or
name alone where only one has it. `coordctl VERB --help` shows an example.

Example: coordctl demo";

/// Starts, watches and steers LLM coding agents through coordd.
#[derive(Debug, Parser)]
#[command(
    name = "coordctl",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Print the response as one JSON document; streams as JSON Lines.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(demo::Args),
    Run(run::Args),
    New(new::Args),
    Attach(attach::Args),
    Ls(ls::Args),
    Status(status::Args),
    Send(send::Args),
    Wait(wait::Args),
    Stop(stop::Args),
    Resume(resume::Args),
    Rm(rm::Args),
    Logs(logs::Args),
    Events(events::Args),
    Permit(permit::Args),
    Trust(trust::Args),
    Peers(peers::Args),
    Inbound(inbound::Args),
    Bridge(bridge::Args),
    Usage(usage::Args),
    Team(team::Args),
    Task(task::Args),
    Scratchpad(scratchpad::Args),
    Mcp(mcp::Args),
    Daemon(daemon::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Help(help::Args),
}

pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches()?)
}

/// The command line, with the exit codes in the help of every verb, and the guide's topics.
pub(crate) fn command() -> clap::Command {
    let command = with_exit_codes(Cli::command());
    let mut words: Vec<String> = TOPICS.iter().map(|topic| topic.name.to_owned()).collect();
    words.extend(command.get_subcommands().map(|verb| verb.get_name().to_owned()));
    command.after_help(format!("{}\n{EXIT_CODES}", help::topics())).mut_subcommand("help", |help| {
        help.mut_arg("topic", |topic| topic.value_parser(PossibleValuesParser::new(words)))
    })
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|verb| {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        if help.contains("Exit codes") {
            return verb;
        }
        verb.after_help(format!("{COMMON_CODES}\n\n{help}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn l1_every_verb_has_help_with_an_example() {
        for verb in command().get_subcommands_mut() {
            let name = verb.get_name().to_owned();
            let help = verb.render_long_help().to_string();
            assert!(help.contains("Example"), "{name} has no example");
            assert!(help.contains("Exit codes: 0"), "{name} says nothing of its exit codes");
            assert!(
                help.contains(&format!("coordctl {name}")),
                "{name}'s example is of another verb"
            );
            assert!(verb.get_about().is_some(), "{name} says not what it does");
        }
    }

    #[test]
    fn l1_exit_codes_are_in_the_help() {
        let help = command().render_long_help().to_string();
        assert!(help.contains("0 done, 1 failed, 2 wrong usage, 3 denied by coordd, 4 no coordd"));
    }

    #[test]
    fn l1_json_is_taken_before_and_after_every_verb() {
        let json = |args: &[&str]| Cli::try_parse_from(args).unwrap().json;
        assert!(json(&["coordctl", "ls", "--json"]));
        assert!(json(&["coordctl", "--json", "team", "ls"]));
        assert!(json(&["coordctl", "daemon", "status", "--json"]));
        assert!(!json(&["coordctl", "ls"]));
    }

    #[test]
    fn wrong_usage_is_told_from_help() {
        let error = Cli::try_parse_from(["coordctl", "lss"]).unwrap_err();
        assert!(error.use_stderr());
        assert!(!Cli::try_parse_from(["coordctl", "ls", "--help"]).unwrap_err().use_stderr());
    }
}
