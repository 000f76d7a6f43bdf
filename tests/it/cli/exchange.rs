//! What passes between a CLI, whoever drives it, and its model.

use serde_json::{Value, json};
use tests::cli::{Cli, Model, Script, gemini_settings};
use tests::sandbox::program;
use tests::{Agents, Daemon, Ran, Sandbox};

/// A turn of each version that is driven over its standard input and output.
#[test]
fn a_headless_claude_answers_a_turn() {
    for version in ["2.1.332", "2.1.150", "2.1.100"] {
        let mut sandbox = Sandbox::new();
        let model = Model::start(&mut sandbox, vec![Script::when("How are you?").say("Fine.")]);
        let mut claude = Cli::claude(version).headless(&sandbox, &[]);
        claude.say("How are you?");
        let init = claude.line("system/init");
        assert_eq!(init["claude_code_version"], version, "{init}");
        let result = claude.result();
        assert_eq!((&result["result"], &result["is_error"]), (&json!("Fine."), &json!(false)));
        let ended = claude.end();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        model.assert_all_scripted();
        // One step, one request: nothing else was asked.
        assert_eq!(model.shown().len(), 1, "{version}");
        let shown = model.shown_to("How are you?").remove(0);
        assert!(shown.tools().contains(&"Bash".to_owned()), "{:?}", shown.tools());
        assert!(!shown.system().is_empty());
        sandbox.assert_nothing_runs();
    }
}

#[test]
fn a_claude_calls_the_tools_that_its_model_asks_for() {
    let mut sandbox = Sandbox::new();
    let script = Script::when("Look around")
        .call(
            "Bash",
            json!({ "command": "touch seen; echo number-$((40 + 2))", "description": "counts" }),
        )
        .say("It is {{number-([0-9]+)}}.");
    let model = Model::start(&mut sandbox, vec![script]);
    let mut claude =
        Cli::claude("2.1.332").headless(&sandbox, &["--permission-prompt-tool", "stdio"]);
    claude.say("Look around");
    let question = claude.question();
    assert_eq!(question["request"]["tool_name"], "Bash", "{question}");
    assert!(!sandbox.at("w/seen").exists());
    claude.allow(&question);
    assert_eq!(claude.result()["result"], "It is 42.");
    assert_eq!(model.shown()[1].last_tool_result().unwrap().trim(), "number-42");
    assert_eq!(claude.end().code, 0);
}

/// What README.md says of the shell of any agent.
#[test]
fn a_claude_reaches_an_agent_with_coordctl() {
    let mut sandbox = Sandbox::new();
    let mut agents = Agents::set_up(&mut sandbox);
    let coordctl = program("coordctl").display().to_string();
    let send = |session: &str| {
        let command = format!("{coordctl} send {session}/lead 'from another CLI'");
        json!({ "command": command, "description": "writes to an agent" })
    };
    let daemon = Daemon::start_in(sandbox);
    let mut lead = agents.lead(&daemon, "normal");
    let mut sandbox = Sandbox::new();
    let script = Script::when("Tell the lead").call("Bash", send(&lead.boot.session)).say("Told.");
    let _model = Model::start(&mut sandbox, vec![script]);
    // Where the daemon listens is what both have in common.
    sandbox.set("XDG_RUNTIME_DIR", daemon.at("r").to_str().unwrap());
    let mut claude = Cli::claude("2.1.332").headless(&sandbox, &["--allowedTools", "Bash"]);
    claude.say("Tell the lead");
    let delivered = lead.deliver();
    assert_eq!(delivered.text, "from another CLI");
    assert_eq!(claude.result()["result"], "Told.");
    assert_eq!(claude.end().code, 0);
}

/// The second MCP client of the tests, with the same model in its own format.
#[test]
fn gemini_answers_a_turn() {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, vec![Script::when("How are you?").say("Fine.")]);
    gemini_settings(&sandbox, &json!({}));
    let mut command = Cli::gemini().command(&sandbox);
    command.args(GEMINI_ASKS);
    let ran = Ran::of(command, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(said["response"], "Fine.", "{ran:?}");
    model.assert_all_scripted();
    sandbox.assert_nothing_runs();
}

const GEMINI_ASKS: [&str; 7] =
    ["--skip-trust", "-m", "gemini-2.5-flash", "-o", "json", "-p", "How are you?"];

/// No test tells anybody anything: each connection of a CLI stays on this machine, and no name is
/// looked up.
#[test]
fn the_clis_speak_to_nobody_but_their_model() {
    let claude = &["-p", "How are you?"][..];
    for (cli, arguments) in [
        (Cli::claude("2.1.332"), claude),
        (Cli::claude("2.1.150"), claude),
        (Cli::claude("2.1.100"), claude),
        (Cli::gemini(), &GEMINI_ASKS),
    ] {
        let mut sandbox = Sandbox::new();
        let model = Model::start(&mut sandbox, vec![Script::when("How are you?").say("Fine.")]);
        gemini_settings(&sandbox, &json!({}));
        let seen = sandbox.at("connections");
        let watch = ["strace", "-f", "-qq", "-e", "trace=connect", "-o", seen.to_str().unwrap()];
        let mut command = cli.command_through(&sandbox, &watch);
        command.args(arguments);
        let ran = Ran::of(command, "");
        assert!(ran.code == 0 && ran.stdout.contains("Fine."), "{ran:?}");
        let seen = std::fs::read_to_string(seen).unwrap();
        let (here, elsewhere): (Vec<_>, Vec<_>) = seen
            .lines()
            .filter(|line| line.contains("AF_INET"))
            .partition(|line| line.contains("127.0.0.1"));
        assert!(!here.is_empty(), "it was not watched: {seen}");
        assert!(elsewhere.is_empty(), "{cli:?} {elsewhere:#?}");
        model.assert_all_scripted();
    }
}
