//! What is installed is what `tests/cli` pins.

use tests::cli::{Cli, Model};
use tests::{Ran, Sandbox};

fn version(cli: &Cli, arguments: &[&str]) -> String {
    let mut sandbox = Sandbox::new();
    let _model = Model::start(&mut sandbox, Vec::new());
    let mut command = cli.command(&sandbox);
    command.args(arguments);
    let ran = Ran::of(command, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    sandbox.assert_nothing_runs();
    ran.stdout.trim().to_owned()
}

#[test]
fn the_installed_claudes_are_the_pinned_ones() {
    for wanted in ["2.1.332", "2.1.150", "2.1.100"] {
        let cli = Cli::claude(wanted);
        assert_eq!(cli.pinned().1, wanted);
        assert_eq!(version(&cli, &["--version"]), format!("{wanted} (Claude Code)"));
    }
}

#[test]
fn the_installed_mcp_clients_are_the_pinned_ones() {
    for (cli, arguments) in
        [(Cli::inspector(), &["--cli", "--version"][..]), (Cli::gemini(), &["--version"][..])]
    {
        assert_eq!(version(&cli, arguments), cli.pinned().1);
    }
}

/// Whoever starts a CLI by its name gets the same one.
#[test]
fn a_program_in_the_sandbox_is_the_cli() {
    for (cli, wanted) in [(Cli::claude("2.1.332"), "2.1.332"), (Cli::claude("2.1.100"), "2.1.100")]
    {
        let sandbox = Sandbox::new();
        let program = cli.program_in(&sandbox);
        assert!(program.starts_with(sandbox.root()) && program.ends_with("claude"), "{program:?}");
        let mut command = sandbox.command(program);
        command.arg("--version");
        let ran = Ran::of(command, "");
        assert_eq!(ran.stdout.trim(), format!("{wanted} (Claude Code)"), "{ran:?}");
    }
}
