//! Scenes between one Claude Code and its driver.

use std::time::Duration;

use serde_json::{Value, json};

use super::Stage;
use crate::cli::Script;

/// Between two tries to interrupt.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(5);

/// A minute of tries: one is enough on a machine that has time.
const INTERRUPTS_MAX: usize = 12;

const ASKS: [&str; 2] = ["--permission-prompt-tool", "stdio"];

fn touch(file: &str) -> Value {
    json!({ "command": format!("touch {file}"), "description": "makes a file" })
}

pub(super) fn turn(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

pub(super) fn control(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.control(&json!({ "subtype": "initialize" }));
    claude.control(&json!({ "subtype": "set_permission_mode", "mode": "acceptEdits" }));
    claude.control(&json!({ "subtype": "set_model", "model": "claude-sonnet-4-5" }));
    claude.control(&json!({ "subtype": "mcp_status" }));
    claude.control(&json!({ "subtype": "stop_task", "task_id": "nobody" }));
    claude.control(&json!({ "subtype": "interrupt" }));
    claude.control(&json!({ "subtype": "unheard_of" }));
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

pub(super) fn questions(stage: &mut Stage) {
    stage.model(vec![
        Script::when("Two files")
            .call("Bash", touch("one"))
            .call("Bash", touch("two"))
            .say("One of them."),
    ]);
    let mut claude = stage.claude(&ASKS);
    claude.say("Two files");
    let question = claude.question();
    claude.allow(&question);
    let question = claude.question();
    claude.deny(&question, "One is enough.");
    claude.result();
    stage.end(claude);
}

pub(super) fn not_asked(stage: &mut Stage) {
    stage.model(vec![Script::when("A file").call("Bash", touch("one")).say("None.")]);
    let mut claude = stage.claude(&[]);
    claude.say("A file");
    claude.result();
    stage.end(claude);
}

pub(super) fn api_error(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").fail(400, "not today", 99).say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

pub(super) fn api_retry(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").fail(529, "busy", 1).say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

pub(super) fn cut_off(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").cut_off("As I was").say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

pub(super) fn max_turns(stage: &mut Stage) {
    let look = || json!({ "command": "true", "description": "looks" });
    stage.model(vec![
        Script::when("Look").call("Bash", look()).call("Bash", look()).call("Bash", look()),
    ]);
    let mut claude = stage.claude(&["--max-turns", "2"]);
    claude.say("Look");
    claude.result();
    stage.end(claude);
}

pub(super) fn interrupted(stage: &mut Stage) {
    stage.model(vec![
        // First: where nothing was said before the interrupt, both are one message.
        Script::when("Shorter").say("It was."),
        Script::when("Tell me").begin("It was a long", "never"),
    ]);
    let mut claude = stage.claude(&[]);
    claude.say("Tell me");
    claude.line("system/init");
    let model = stage.model.as_ref().expect("a model");
    model.wait_for("the request", |it| it.script.is_some());
    // On a busy machine one was said to have succeeded, and had no effect.
    let is_result = |line: &Value| (line["type"] == "result").then_some(());
    let is_over = (0..INTERRUPTS_MAX).any(|_| {
        claude.control(&json!({ "subtype": "interrupt" }));
        claude.wait_within(INTERRUPT_LIMIT, is_result).is_some()
    });
    assert!(is_over, "it was not interrupted");
    claude.say("Shorter");
    claude.result();
    stage.end(claude);
}

pub(super) fn resume(stage: &mut Stage) {
    let id = "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e01";
    stage.model(vec![
        Script::when("How are you?").say("Fine."),
        Script::when("Still?").say("Still fine."),
    ]);
    for (arguments, says) in [(["--session-id", id], "How are you?"), (["--resume", id], "Still?")]
    {
        let mut claude = stage.claude(&arguments);
        claude.say(says);
        claude.result();
        stage.end(claude);
    }
}

pub(super) fn resume_unknown(stage: &mut Stage) {
    stage.model(Vec::new());
    let mut claude = stage.claude(&["--resume", "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e02"]);
    claude.result();
    stage.end(claude);
}

pub(super) fn said_meanwhile(stage: &mut Stage) {
    let wait = json!({ "command": "until [ -e go ]; do sleep 0.05; done", "description": "waits" });
    let news = Script::when("And the news?").say("Heard.");
    stage.model(vec![news, Script::when("Wait").call("Bash", wait)]);
    let mut claude = stage.claude(&["--replay-user-messages", "--allowedTools", "Bash"]);
    let said = |text: &str, uuid: &str| json!({ "type": "user", "uuid": uuid, "message": { "role": "user", "content": text } });
    claude.write(&said("Wait", "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e03"));
    claude.line("assistant");
    claude.write(&said("And the news?", "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e04"));
    claude.wait_for("it is queued", |line| (line["state"] == "queued").then_some(()));
    stage.sandbox.write("w/go", "");
    claude.result();
    stage.end(claude);
}

pub(super) fn pieces(stage: &mut Stage) {
    stage.model(vec![
        Script::when("How are you?")
            .call("Bash", json!({ "command": "true", "description": "looks" }))
            .say("Quite fine."),
    ]);
    let mut claude = stage.claude(&["--include-partial-messages"]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

pub(super) fn background(stage: &mut Stage) {
    let agent =
        json!({ "description": "counts", "prompt": "Count to three", "run_in_background": true });
    stage.model(vec![
        Script::when("<task-notification>").say("It has counted."),
        Script::when("Count to three").say("1 2 3").after("counted"),
        Script::when("Have it counted").call("Agent", agent).say("It counts."),
    ]);
    let mut claude = stage.claude(&[]);
    claude.say("Have it counted");
    claude.result();
    stage.open("counted");
    claude.result();
    stage.end(claude);
}

pub(super) fn schema(stage: &mut Stage) {
    stage.model(vec![
        Script::when("How are you?")
            .call("StructuredOutput", json!({ "mood": "fine" }))
            .say("Said."),
    ]);
    let schema = json!({ "type": "object", "required": ["mood"], "properties": { "mood": { "type": "string" } } });
    let mut claude = stage.claude(&["--json-schema", &schema.to_string()]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

pub(super) fn mcp_failed(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").say("Fine.")]);
    let servers = json!({ "mcpServers": { "gone": { "type": "stdio", "command": "/bin/false" } } });
    let mut claude = stage.claude(&["--mcp-config", &servers.to_string(), "--strict-mcp-config"]);
    claude.say("How are you?");
    claude.result();
    claude.control(&json!({ "subtype": "mcp_status" }));
    stage.end(claude);
}
