//! L-4 with the real clients: what `coordctl mcp install` sets up leads workers, or takes part.

use std::path::Path;

use proto::agent::Runtime;
use proto::view::AgentView;
use serde_json::{Value, json};
use tests::cli::{Cli, Model, Script, gemini_settings, node};
use tests::rehearsal::{bash, call, say, script, worker};
use tests::sandbox::program;
use tests::wait::until;
use tests::{Client, Codec, Ran, Sandbox};

/// Where workers play this script.
fn workers(sandbox: &Sandbox, steps: &Value) {
    let script = script(&json!([worker(steps)]));
    let file = sandbox.write("workers.json", serde_json::to_vec(&script).unwrap());
    let config = format!(
        "model = \"rehearsal:{}\"\n[permissions]\nmode = \"bypassPermissions\"\n",
        file.display()
    );
    sandbox.write("c/coordd/config.toml", config);
}

fn installed(sandbox: &Sandbox, client: &str, further: &[&str]) {
    let arguments = [&["mcp", "install", client], further].concat();
    let ran = sandbox.coordctl(&arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn agents(sandbox: &Sandbox, session: &str) -> Vec<AgentView> {
    Client::connect(&sandbox.socket(), Codec::Frames).show(session).1
}

/// The tools of the job as one client names them.
fn job(when: &str, prefix: &str) -> Script {
    let tool = |name: &str| format!("{prefix}{name}");
    let agent = json!({ "name": "look", "description": "looks for it", "prompt": "Look for it." });
    let again = json!({ "to": "{{agent_id: (a[0-9a-f]{16})}}", "message": "And again?" });
    let output = json!({ "summary": "{{<result>([^<]+)</result>}}", "status": "completed" });
    let wait = || json!({ "timeout_s": 60 });
    Script::when(when)
        .call(&tool("Agent"), agent)
        .call(&tool("WaitForMessages"), wait())
        .call(&tool("SendMessage"), again)
        .call(&tool("WaitForMessages"), wait())
        .call(&tool("StructuredOutput"), output)
        .say("It is so: {{<result>([^<]+)</result>}}")
}

/// What the job has come to by the daemon's word.
fn assert_done(sandbox: &Sandbox) {
    assert_eq!(std::fs::read_to_string(sandbox.work().join("found.txt")).unwrap(), "found\n");
    let agents = agents(sandbox, "w");
    assert_eq!((agents[0].runtime, agents[1].name.as_str()), (Runtime::External, "look"));
    assert_eq!(agents[1].runs, 2, "started, and continued");
    let session = Client::connect(&sandbox.socket(), Codec::Frames).show("w").0;
    assert_eq!(session.output.unwrap().0["summary"], "Found twice.");
    until("the client's place is free", || agents_down(sandbox).then_some(()));
}

fn agents_down(sandbox: &Sandbox) -> bool {
    agents(sandbox, "w").iter().all(|agent| agent.pid.is_none())
}

fn steps() -> Value {
    json!([
        call("I look.", &json!([bash("echo found >found.txt")])),
        say("Found once."),
        say("Found twice.")
    ])
}

#[test]
fn l4_claude_code_coordinates_workers_by_mcp() {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, vec![job("Coordinate", "mcp__coordd__")]);
    workers(&sandbox, &steps());
    installed(&sandbox, "claude", &[]);
    sandbox.set("ENABLE_TOOL_SEARCH", "false");
    let arguments = ["--tools", "", "--allowedTools", "mcp__coordd"];
    let mut claude = Cli::claude("2.1.332").headless(&sandbox, &arguments);
    claude.say("Coordinate");
    let init = claude.line("system/init");
    let servers = init["mcp_servers"].as_array().unwrap();
    assert!(servers.iter().any(|it| it["name"] == "coordd"), "{init}");
    let result = claude.result();
    assert_eq!(result["result"], "It is so: Found twice.", "{result}");
    let shown = model.shown_to("Coordinate").remove(0);
    let tools = shown.tools();
    assert!(tools.contains(&"mcp__coordd__WaitForMessages".to_owned()), "{tools:?}");
    assert_eq!(claude.end().code, 0);
    model.assert_all_scripted();
    assert_done(&sandbox);
}

#[test]
fn l4_claude_code_takes_part_as_a_peer() {
    let mut sandbox = Sandbox::new();
    let script = Script::when("Tell the lead")
        .call("mcp__coordd__SendMessage", json!({ "to": "lead", "message": "hello from claude" }))
        .call("mcp__coordd__WaitForMessages", json!({ "timeout_s": 60 }))
        .say("Heard.");
    let model = Model::start(&mut sandbox, vec![script]);
    workers(&sandbox, &json!([]));
    let mut lead = tests::McpClient::start(&sandbox, &[]);
    installed(&sandbox, "claude", &["--as", "peer"]);
    sandbox.set("ENABLE_TOOL_SEARCH", "false");
    let arguments = ["--tools", "", "--allowedTools", "mcp__coordd"];
    let mut claude = Cli::claude("2.1.332").headless(&sandbox, &arguments);
    claude.say("Tell the lead");
    let told = lead.until("hello from claude");
    assert!(told.contains("from the agent peer, not from the user"), "{told}");
    lead.ok("SendMessage", &json!({ "to": "peer", "message": "hello from the lead" }));
    assert_eq!(claude.result()["result"], "Heard.");
    let shown = model.shown();
    assert!(shown.last().unwrap().all().contains("hello from the lead"));
    let want =
        ["ListPeers", "SendMessage", "WaitForMessages"].map(|it| format!("mcp__coordd__{it}"));
    assert_eq!(shown[0].tools(), want);
    assert_eq!(claude.end().code, 0);
}

#[test]
fn l4_gemini_coordinates_workers_by_mcp() {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, vec![job("Coordinate", "mcp_coordd_")]);
    workers(&sandbox, &steps());
    gemini_settings(&sandbox, &json!({}));
    installed(&sandbox, "gemini", &[]);
    let mut command = Cli::gemini().command(&sandbox);
    command.args([
        "--skip-trust",
        "-y",
        "-m",
        "gemini-2.5-flash",
        "-o",
        "json",
        "-p",
        "Coordinate",
    ]);
    let ran = Ran::of(command, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(said["response"], "It is so: Found twice.", "{ran:?}");
    model.assert_all_scripted();
    assert_done(&sandbox);
}

/// The inspector hands on next to nothing of its environment, as clients do that are made of the
/// same kit.
#[test]
fn l4_the_mcp_inspector_lists_and_calls() {
    let sandbox = Sandbox::new();
    workers(&sandbox, &json!([]));
    let coordctl = program("coordctl");
    let ask = |code: i32, further: &[&str]| {
        let mut command = Cli::inspector().command(&sandbox);
        let path = format!("{}:{}", node().parent().unwrap().display(), sandbox.vars()["PATH"]);
        command.env("PATH", path);
        command.arg("--cli");
        for name in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "CLAUDE_CODE_TMPDIR"] {
            command.arg("-e").arg(format!("{name}={}", sandbox.vars()[name]));
        }
        command.arg(Path::new(&coordctl)).arg("mcp").args(further);
        let ran = Ran::of(command, "");
        assert_eq!(ran.code, code, "{ran:?}");
        serde_json::from_str::<Value>(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    let listed = ask(0, &["--method", "tools/list"]);
    let tools = listed["tools"].as_array().unwrap();
    let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(has("Agent") && has("WaitForMessages"), "{listed}");
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
    }
    let called = ask(
        0,
        &["--method", "tools/call", "--tool-name", "WaitForMessages", "--tool-arg", "timeout_s=0"],
    );
    assert!(called["content"][0]["text"].as_str().unwrap().starts_with("Nothing came"), "{called}");
    // Its code for a tool that fails.
    let wrong = ask(
        5,
        &["--method", "tools/call", "--tool-name", "TaskStop", "--tool-arg", "task_id=nobody"],
    );
    assert_eq!(wrong["isError"], true, "{wrong}");
}
