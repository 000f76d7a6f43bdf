//! Claude Code as the lead of a session, the real one: a coordinator has coordd's tools by MCP
//! and no others, and the whole of a job goes through it.

use proto::agent::{Mode, Runtime};
use proto::entry::Origin;
use proto::notification::RunStatus;
use proto::request::Request;
use proto::view::{AgentState, AgentView, SessionView};
use serde_json::{Value, json};
use tests::cli::{CLI_LIMIT, Cli, Model, Script, Shown};
use tests::processes::Process;
use tests::rehearsal::{bash, call, say, script, worker_of};
use tests::wait::until_within;
use tests::{Client, Daemon, Sandbox, story};

/// What the user wants, and what the lead's script waits for.
const GOAL: &str = "Make the flaky date test pass";

fn set_up(scripts: Vec<Script>) -> (Daemon, Model) {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, scripts);
    let program = Cli::claude("2.1.332").program_in(&sandbox);
    sandbox.set("COORDD_CLAUDE", program.to_str().unwrap());
    (Daemon::start_in(sandbox), model)
}

/// A session led by Claude Code, whose native workers play these.
fn begin(daemon: &Daemon, client: &mut Client, mode: Mode, workers: &Value) -> SessionView {
    let word = if mode == Mode::Coordinator { "coordinator" } else { "normal" };
    let mut new = daemon.rehearsal(word, &script(workers));
    new.lead_runtime = Runtime::Claude;
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = GOAL.into();
    client.new_session(new)
}

fn agent(name: &str, prompt: &str, more: &[(&str, &str)]) -> Value {
    let mut input = json!({ "description": name, "name": name, "prompt": prompt });
    for (field, value) in more {
        input[field] = json!(value);
    }
    input
}

fn lead_until(client: &mut Client, session: &str, what: &str, fits: impl Fn(&AgentView) -> bool) {
    until_within(CLI_LIMIT, what, || {
        client.show(session).1.into_iter().find(|it| it.name == "lead" && fits(it)).map(|_| ())
    });
}

/// C-1, C-2, C-4, N-2: prompt, tools, fan-out, notifications, a worker that goes on, the structured
/// result.
#[test]
#[expect(clippy::too_many_lines, reason = "one job, from the goal to the result")]
fn r2_claude_code_coordinates_a_whole_job() {
    let goal = Script::when(GOAL)
        .calls(vec![
            (
                "mcp__coordd__Agent",
                agent("research", "Research the cause", &[("phase", "research")]),
            ),
            ("mcp__coordd__Agent", agent("history", "Read the history", &[("phase", "research")])),
        ])
        .say("Two look.");
    let found = Script::when("cause-is-the-clock")
        .call(
            "mcp__coordd__SendMessage",
            json!({ "to": "research", "message": "Freeze the clock now" }),
        )
        .say("It mends that.");
    let mended = Script::when("clock-is-frozen")
        .call(
            "mcp__coordd__Agent",
            agent(
                "check",
                "Check it for yourself",
                &[("phase", "verification"), ("runtime", "claude")],
            ),
        )
        .say("Checking.");
    let checked = Script::when("test-is-green")
        .call(
            "mcp__coordd__StructuredOutput",
            json!({ "summary": "The test passes.", "status": "completed" }),
        )
        .say("Done: the test passes.");
    let checks = Script::when("Check it for yourself")
        .call("Bash", json!({ "command": "cat made" }))
        .say("test-is-green");
    let nothing = Script::when("history-is-short").say("Noted.");
    let (daemon, model) = set_up(vec![goal, found, mended, checked, checks, nothing]);
    let workers = json!([
        worker_of(
            "Research the cause",
            &json!([
                say("cause-is-the-clock"),
                call("Mending.", &json!([bash("echo frozen >made; touch history-may-go")])),
                say("clock-is-frozen")
            ])
        ),
        worker_of(
            "Read the history",
            &json!([
                // So that notifications come one after the other, and each has a turn of its own.
                call(
                    "Reading.",
                    &json!([bash("while [ ! -e history-may-go ]; do sleep 0.05; done")])
                ),
                say("history-is-short")
            ])
        ),
    ]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, Mode::Coordinator, &workers);
    let output =
        until_within(CLI_LIMIT, "the structured result", || client.show(&session.id).0.output);
    assert_eq!(output.0["summary"], "The test passes.");
    lead_until(&mut client, &session.id, "the lead is idle", |it| it.state == AgentState::Idle);
    let (_, agents) = client.show(&session.id);
    let runs = |name: &str| agents.iter().find(|agent| agent.name == name).map(|agent| agent.runs);
    assert_eq!((runs("research"), runs("history"), runs("check")), (Some(2), Some(1), Some(1)));
    // Its prompt is ours, its tools are those of a coordinator, and coordd's own words come first.
    let shown = model.shown_to(GOAL).remove(0);
    let tools = [
        "Agent",
        "ListPeers",
        "SendMessage",
        "StructuredOutput",
        "TaskStop",
        "TeamCreate",
        "TeamDelete",
    ];
    assert_eq!(shown.tools(), tools.map(|tool| format!("mcp__coordd__{tool}")));
    let prompt = include_str!("../../../coordd/worker/prompts/coordinator.md");
    assert!(shown.system().contains(prompt.trim_end()), "{}", shown.system());
    let context = format!("Working directory: {}\n</user-context>", daemon.at("w").display());
    assert!(shown.all().contains(&context), "{}", shown.all());
    // A notification is what coordd wrote, and the user's words are the user's.
    let lead = client.transcript(&format!("{}/lead", session.name));
    let inputs = story::inputs(&lead);
    assert!(inputs.iter().any(|(origin, text)| **origin == Origin::User {} && *text == GOAL));
    let told = inputs.iter().filter(|(origin, _)| matches!(origin, Origin::Notification { .. }));
    assert!(told.clone().all(|(_, text)| text.starts_with("<task-notification>")));
    assert_eq!(told.count(), 4);
    assert_eq!(story::calls(&lead)[..2], ["Agent", "Agent"], "tools have the names of coordd");
    model.assert_all_scripted();
    daemon.stop_and_leave_nothing();
}

/// C-1: what a coordinator may not do is not there, whatever its model asks for.
#[test]
fn c1_a_coordinator_has_no_tool_of_its_own() {
    let goal = Script::when(GOAL)
        .call("Bash", json!({ "command": "touch ../out-of-role" }))
        .call("mcp__coordd__TaskStop", json!({ "task_id": "nobody" }))
        .say("I cannot.");
    let (daemon, model) = set_up(vec![goal]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, Mode::Coordinator, &json!([]));
    lead_until(&mut client, &session.id, "the run is over", |it| it.runs == 1);
    assert!(!daemon.at("out-of-role").exists());
    let results: Vec<_> = model.shown().iter().filter_map(Shown::last_tool_result).collect();
    assert!(results[0].contains("No such tool"), "{results:?}");
    assert!(results[1].contains("nobody"), "{results:?}");
}

/// F-1: a lead in normal mode has its own tools and coordd's, and waits for a worker.
#[test]
fn f1_a_lead_works_itself_and_waits_for_a_worker() {
    let goal = Script::when(GOAL)
        .call("Bash", json!({ "command": "echo mine >by-the-lead" }))
        .call("mcp__coordd__Agent", agent("helper", "Help with it", &[]))
        .say("It said: {{help-number-[0-9]+}}");
    let (daemon, model) = set_up(vec![goal]);
    let workers = json!([worker_of("Help with it", &json!([say("help-number-7")]))]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, Mode::Normal, &workers);
    lead_until(&mut client, &session.id, "the run is over", |it| it.runs == 1);
    let (_, agents) = client.show(&session.id);
    let last = agents.iter().find(|agent| agent.name == "lead").unwrap().last.clone().unwrap();
    assert_eq!(
        (last.status, last.result.as_str()),
        (RunStatus::Completed, "It said: help-number-7")
    );
    assert!(daemon.at("w/by-the-lead").exists());
    assert!(model.shown()[0].tools().contains(&"Bash".to_owned()));
}

/// the user interrupts, and goes on with the same conversation.
#[test]
fn r7_the_user_interrupts_a_lead_and_goes_on() {
    let goal = Script::when(GOAL).begin("I think about", "never");
    let (daemon, model) = set_up(vec![goal, Script::when("Be brief").say("Brief.")]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, Mode::Coordinator, &json!([]));
    model.wait_for("the goal", |it| it.script.as_deref() == Some(GOAL));
    lead_until(&mut client, &session.id, "it runs", |it| {
        it.state == AgentState::Running && it.run_started_ms.is_some()
    });
    client.ok(Request::Interrupt { session: session.id.clone() });
    lead_until(&mut client, &session.id, "the run is over", |it| it.runs == 1);
    let (_, agents) = client.show(&session.id);
    let lead = agents.iter().find(|agent| agent.name == "lead").unwrap();
    assert_eq!(lead.last.as_ref().unwrap().status, RunStatus::Killed);
    assert!(lead.pid.is_some_and(|pid| Process::open(pid).is_some()), "its process stays");
    client.prompt(&session.id, "Be brief");
    lead_until(&mut client, &session.id, "the next run is over", |it| it.runs == 2);
    let shown = model.shown_to("Be brief").remove(0);
    assert!(shown.all().contains(GOAL), "{}", shown.all());
    let texts = client.transcript(&format!("{}/lead", session.name));
    assert_eq!(story::texts(&texts).last(), Some(&"Brief."));
}

/// A session of Claude Code alone needs no model of ours, and is one command.
#[test]
fn r2_a_session_of_claude_code_alone_is_one_command() {
    let goal = Script::when(GOAL)
        .call("mcp__coordd__Agent", agent("look", "Look closely", &[]))
        .say("One looks.");
    let look = Script::when("Look closely").say("all-is-well");
    let (daemon, model) =
        set_up(vec![goal, look, Script::when("<result>all-is-well").say("All is well.")]);
    let ran = daemon.coordctl(&["run", "--lead", "claude", "--runtime", "claude", GOAL]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("All is well.") && ran.stdout.contains("starts look"), "{ran:?}");
    let mut client = daemon.client();
    let session = client.sessions().remove(0);
    assert_eq!((session.model, session.runtime), (None, Runtime::Claude));
    model.assert_all_scripted();
}
