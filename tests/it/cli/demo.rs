//! the whole job of `coordctl demo`, with Claude Code as lead and as workers, the real one.
//! Only what its model says is scripted.

use std::process::Stdio;

use proto::agent::Runtime;
use serde_json::{Value, json};
use tests::cli::{Cli, Model, Script};
use tests::client::{Client, Codec};
use tests::sandbox::program;
use tests::{Ran, Sandbox};

fn agent(name: &str, phase: &str, prompt: &str) -> (&'static str, Value) {
    let input = json!({ "name": name, "description": name, "phase": phase, "prompt": prompt });
    ("mcp__coordd__Agent", input)
}

/// What the lead says: each time that something is reported it starts who comes next.
fn lead() -> Vec<Script> {
    let next = |told: &str, (tool, input): (&str, Value)| {
        Script::when(told).call(tool, input).say("I wait for it.")
    };
    let output = json!({ "summary": "Centuries follow the rule now.", "status": "completed" });
    vec![
        Script::when("Make the failing test in this repository pass")
            .calls(vec![
                agent("find-cause", "research", "Find out why it is red"),
                agent("survey-tests", "research", "Run all tests once"),
            ])
            .say("Two look."),
        Script::when("cause-is-known").say("One more."),
        next("tests-are-red", agent("record-spec", "synthesis", "Write down what is to be done")),
        next("spec-is-written", agent("fix-leap", "implementation", "Mend the function")),
        next("leap-is-mended", agent("verify-fix", "verification", "Try it for yourself")),
        Script::when("check-is-green").call("mcp__coordd__StructuredOutput", output).say("Fixed."),
    ]
}

fn workers() -> Vec<Script> {
    let file = json!("{{Primary working directory: (\\S+)}}/src/dates.sh");
    let bash = |command: &str| json!({ "command": command, "description": "does it" });
    let edit = json!({
        "file_path": file,
        "old_string": "[ $(($1 % 4)) -eq 0 ]",
        "new_string": "[ $(($1 % 4)) -eq 0 ] && { [ $(($1 % 100)) -ne 0 ] || [ $(($1 % 400)) -eq 0 ]; }",
    });
    let spec = json!({
        "file_path": "{{/\\S+/scratchpad}}/leap-years.md",
        "content": "Only every fourth century has a leap year.\n",
    });
    vec![
        Script::when("Find out why it is red")
            .call("Read", json!({ "file_path": file }))
            .say("cause-is-known"),
        // Second, so that the reports come one after the other.
        Script::when("Run all tests once")
            .call("Bash", bash("sh tests/run.sh"))
            .say("tests-are-red: {{\\d+ failed}}")
            .after("the cause was told"),
        Script::when("Write down what is to be done").call("Write", spec).say("spec-is-written"),
        Script::when("Mend the function")
            .call("Read", json!({ "file_path": file }))
            .call("Edit", edit)
            .call("Bash", bash("sh tests/run.sh"))
            .say("leap-is-mended: {{\\d+ failed}}"),
        Script::when("Try it for yourself")
            .call("Bash", bash("sh tests/run.sh"))
            .call("Bash", bash("git status --short"))
            .say("check-is-green: {{\\d+ failed}}"),
    ]
}

#[test]
fn r2_the_whole_demo_is_done_by_claude_code() {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, [lead(), workers()].concat());
    let claude = Cli::claude("2.1.332").program_in(&sandbox);
    sandbox.set("COORDD_CLAUDE", claude.to_str().unwrap());
    assert_eq!(sandbox.coordctl(&["daemon", "start"]).code, 0);
    let mut command = sandbox.command(program("coordctl"));
    command.args(["demo", "--lead", "claude", "--json", "--keep"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let demo = command.spawn().unwrap();
    model.wait_for("the cause is told", |it| it.script.as_deref() == Some("cause-is-known"));
    model.open("the cause was told");
    let ran = Ran::finish(demo, "", "coordctl demo");
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("with your login"), "{}", ran.stderr);
    let [summary] = <[Value; 1]>::try_from(ran.json_lines()).unwrap();
    assert_eq!((&summary["red_before"], &summary["green_after"]), (&json!(true), &json!(true)));
    let phases = ["research", "synthesis", "implementation", "verification"];
    assert_eq!(summary["phases"], json!(phases));
    assert_eq!(summary["scratchpad_files"], json!(["leap-years.md"]));
    assert_eq!(summary["notifications"], 5, "{summary}");
    let mut client = Client::connect(&sandbox.socket(), Codec::Frames);
    let (session, agents) = client.show(summary["session"].as_str().unwrap());
    assert_eq!((agents.len(), session.model), (6, None));
    assert!(agents.iter().all(|agent| agent.runtime == Runtime::Claude), "{agents:#?}");
    assert_eq!(session.output.unwrap().0["status"], "completed");
    let verdict =
        agents.iter().find(|agent| agent.name == "verify-fix").unwrap().last.clone().unwrap();
    assert_eq!(verdict.result, "check-is-green: 0 failed");
    model.assert_all_scripted();
}
