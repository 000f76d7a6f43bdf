//! Scenes between clients and a server of the Model Context Protocol: what a server of ours hears
//! from each of them.

use serde_json::{Value, json};

use super::Stage;
use crate::cli::{Cli, Script, gemini_settings};
use crate::sandbox::Ran;

/// The server that keeps what it hears, as the words of a command.
fn server(stage: &Stage) -> [String; 3] {
    let script = stage.sandbox.write("server.py", include_str!("../../../cli/mcp_server.py"));
    ["python3".to_owned(), script.display().to_string(), kept(stage)]
}

fn kept(stage: &Stage) -> String {
    stage.sandbox.at("heard").display().to_string()
}

/// What the server heard, under `mcp`.
fn heard(stage: &mut Stage) {
    let text = std::fs::read_to_string(kept(stage)).expect("the server was started");
    let lines =
        text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    stage.lines.extend(lines.map(|line| json!({ "mcp": line })));
}

pub(super) fn claude(stage: &mut Stage) {
    let note = json!({ "text": "well" });
    stage.model(vec![Script::when("Note it").call("mcp__notes__echo", note).say("Noted.")]);
    stage.sandbox.set("ENABLE_TOOL_SEARCH", "false");
    let [command, args @ ..] = server(stage);
    let servers = json!({ "mcpServers": { "notes": { "command": command, "args": args } } });
    let mut claude = stage.claude(&[
        "--mcp-config",
        &servers.to_string(),
        "--strict-mcp-config",
        "--allowedTools",
        "mcp__notes",
    ]);
    claude.say("Note it");
    claude.result();
    claude.control(&json!({ "subtype": "mcp_status" }));
    stage.end(claude);
    heard(stage);
}

pub(super) fn inspector(stage: &mut Stage) {
    let server = server(stage);
    let mut command = Cli::inspector().command(&stage.sandbox);
    command.arg("--cli").args(&server).args(["--method", "tools/call", "--tool-name", "echo"]);
    command.args(["--tool-arg", "text=well"]);
    let ran = Ran::of(command, "");
    assert!(ran.code == 0 && ran.stdout.contains("again: well"), "{ran:?}");
    heard(stage);
}

pub(super) fn gemini(stage: &mut Stage) {
    let note = json!({ "text": "well" });
    stage.model(vec![Script::when("Note it").call("mcp_notes_echo", note).say("Noted.")]);
    let [command, args @ ..] = server(stage);
    let servers = json!({ "notes": { "command": command, "args": args, "trust": true } });
    gemini_settings(&stage.sandbox, &json!({ "mcpServers": servers }));
    let mut command = Cli::gemini().command(&stage.sandbox);
    command.args(["--skip-trust", "-m", "gemini-2.5-flash", "-o", "json", "-p", "Note it"]);
    let ran = Ran::of(command, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let shown = stage.model.as_ref().expect("a model").shown();
    let answered = shown.last().expect("requests").all().contains("again: well");
    assert!(answered, "{:?} {ran:?}", shown.iter().map(super::Shown::tools).collect::<Vec<_>>());
    heard(stage);
}
