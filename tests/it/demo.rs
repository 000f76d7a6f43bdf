//! The main job on real input: `coordctl demo` and `coordctl run`, to the end, and with everything
//! killed in the middle.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use proto::event::Event;
use proto::request::Request;
use proto::response::Response;
use proto::view::{AgentView, SessionState};
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::client::{Client, Codec};
use tests::processes::Process;
use tests::rehearsal::{bash, call, say};
use tests::sandbox::program;
use tests::wait::{until, until_within};
use tests::{Ran, Sandbox, story};

/// The whole job takes some seconds; more when the machine builds at the same time.
const JOB_LIMIT: Duration = Duration::from_mins(1);

fn client(sandbox: &Sandbox) -> Client {
    Client::connect(&sandbox.socket(), Codec::Frames)
}

/// The demo in the background, kept at its end so that it can be looked at.
fn begin(sandbox: &Sandbox) -> Child {
    let started = sandbox.coordctl(&["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    let mut command = sandbox.command(program("coordctl"));
    command.args(["demo", "--json", "--keep"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What the demo must have come to, by its own words and by the daemon's.
fn assert_green(sandbox: &Sandbox, ran: &Ran) {
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let [summary] = <[Value; 1]>::try_from(ran.json_lines()).unwrap();
    assert_eq!(summary["red_before"], true, "{summary}");
    assert_eq!(summary["green_after"], true, "{summary}");
    let phases = ["research", "synthesis", "implementation", "verification"];
    assert_eq!(summary["phases"], json!(phases));
    let files = summary["scratchpad_files"].as_array().unwrap();
    assert!(files.contains(&json!("leap-years.md")), "{summary}");

    let mut client = client(sandbox);
    let session = summary["session"].as_str().unwrap();
    let (_, agents) = client.show(session);
    let told = client.transcript(&agents[0].id);
    let mut by_worker = BTreeMap::new();
    for (id, ..) in story::notifications(&told) {
        *by_worker.entry(id.to_owned()).or_insert(0) += 1;
    }
    let runs: BTreeMap<_, _> =
        agents[1..].iter().map(|agent| (agent.id.clone(), i64::from(agent.runs))).collect();
    assert_eq!(by_worker, runs, "one notification for each run");
    assert_eq!(summary["notifications"], runs.values().sum::<i64>());
    assert!(runs.len() >= 4, "two researchers, one that writes, a fresh one that verifies");
    let asked = client.ok(Request::PermissionList { session: String::new() });
    assert!(
        matches!(&asked, Response::Permissions { permissions } if permissions.is_empty()),
        "{asked:?}"
    );
    assert_real_work(&mut client, &agents, session);
    assert!(agents[1..].iter().all(|agent| agent.pid.is_none()), "{agents:#?}");
}

/// Real tools of real processes: the tests were run by agents too, red at first and green at last.
fn assert_real_work(client: &mut Client, agents: &[AgentView], session: &str) {
    let of_phase = |phase: &'static str| agents.iter().filter(move |agent| agent.phase == phase);
    let results = |client: &mut Client, agent: &AgentView| -> String {
        let entries = client.transcript(&agent.id);
        story::results(&entries).iter().map(|it| it.0).collect::<Vec<_>>().join("\n")
    };
    let red = of_phase("research").any(|it| results(client, it).contains("2 failed"));
    assert!(red, "a researcher ran the tests and saw them fail");
    for agent in of_phase("verification") {
        let seen = results(client, agent);
        assert!(seen.contains("0 failed") && !seen.contains("2 failed"), "{seen}");
    }
    assert_eq!(of_phase("verification").count(), 1);
    let writer = of_phase("implementation").next().unwrap();
    let verifier = of_phase("verification").next().unwrap();
    assert_ne!(writer.id, verifier.id, "who verifies has not written");
    assert!(client.show(session).0.output.is_some(), "the result is there in a structured form");
}

/// Ends the daemon in order; nothing may be left then.
fn assert_all_ends(sandbox: &Sandbox) {
    let stopped = sandbox.coordctl(&["daemon", "stop"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    sandbox.assert_nothing_runs();
}

#[test]
fn demo_ends_green_with_one_notification_for_each_run() {
    let sandbox = Sandbox::new();
    let ran = Ran::finish(begin(&sandbox), "", "coordctl demo");
    assert_green(&sandbox, &ran);
    assert_all_ends(&sandbox);
}

/// What a newcomer sees. No daemon runs before; only the daemon runs after.
#[test]
fn demo_tells_its_story_and_cleans_up() {
    let sandbox = Sandbox::new();
    let ran = sandbox.coordctl(&["demo"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(lines[0].contains("a script (the rehearsal model)"), "{}", lines[0]);
    assert!(lines[0].contains("--model anthropic:"), "how to have a real one: {}", lines[0]);
    let at = |text: &str| {
        lines
            .iter()
            .position(|line| line.contains(text))
            .unwrap_or_else(|| panic!("no {text:?} in\n{}", ran.stdout))
    };
    let order = [
        "red: exit 1",
        "(research)",
        "(synthesis)",
        "(implementation)",
        "(verification)",
        "green: exit 0",
        "git diff",
        "red before, green after",
    ];
    let places: Vec<_> = order.iter().map(|it| at(it)).collect();
    assert!(places.is_sorted(), "{order:?} are at {places:?} in\n{}", ran.stdout);
    assert!(lines.iter().any(|line| line.trim_start().starts_with('+') && line.contains("% 400")));
    assert!(!ran.stdout.contains('\u{1b}'), "no colours without a terminal");

    assert_eq!(client(&sandbox).sessions(), [], "it removes its session");
    let left = sandbox.processes();
    assert!(matches!(left.as_slice(), [daemon] if daemon.command.contains("coordd")), "{left:?}");
    let mut temporary = sandbox.at("tmp").read_dir().unwrap();
    assert!(temporary.next().is_none(), "it removes its repository");
    assert_all_ends(&sandbox);
}

/// The first session that there is, with a subscription to what happens in it.
fn follow(sandbox: &Sandbox) -> (Client, String) {
    let mut client = client(sandbox);
    let session = until("the demo has made its session", || Some(client.sessions().pop()?.id));
    client.subscribe(&session);
    (client, session)
}

/// When the first worker's run has ended: in the middle of the job.
fn until_first_run_ended(client: &mut Client) {
    client.event_within(JOB_LIMIT, "a first run ended", |event| match event {
        Event::RunEnded { .. } => Some(()),
        _ => None,
    });
}

#[test]
fn demo_ends_green_although_the_daemon_is_killed_in_the_middle() {
    let sandbox = Sandbox::new();
    let demo = begin(&sandbox);
    let (mut client, session) = follow(&sandbox);
    until_first_run_ended(&mut client);
    let killed = client.welcome().pid;
    Process::open(killed).unwrap().kill9();
    let started = sandbox.coordctl(&["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    assert_ne!(self::client(&sandbox).welcome().pid, killed);
    let ran = Ran::finish(demo, "", "coordctl demo");
    assert_green(&sandbox, &ran);
    assert_eq!(self::client(&sandbox).show(&session).0.state, SessionState::Live);
    assert_all_ends(&sandbox);
}

/// The coordinator's process, and a worker's, in the middle of their work.
#[test]
fn demo_ends_green_although_agents_are_killed_in_the_middle() {
    let sandbox = Sandbox::new();
    let demo = begin(&sandbox);
    let (mut client, session) = follow(&sandbox);
    // Its calls only read, so a restarted one can make them again.
    let worker = format!("{session}/find-cause");
    let at_work = client.agent_until(&worker, "works", |agent| {
        agent.pid.is_some() && agent.activity.as_ref().is_some_and(|activity| activity.turns > 0)
    });
    Process::open(at_work.pid.unwrap()).unwrap().kill9();
    until_first_run_ended(&mut client);
    let lead = client.agent_until(&format!("{session}/lead"), "runs", |agent| agent.pid.is_some());
    Process::open(lead.pid.unwrap()).unwrap().kill9();
    let ran = Ran::finish(demo, "", "coordctl demo");
    assert_green(&sandbox, &ran);
    let mut client = self::client(&sandbox);
    assert!(client.agent(&worker).incarnation > at_work.incarnation);
    assert!(client.agent(&lead.id).incarnation > lead.incarnation);
    assert_all_ends(&sandbox);
}

/// All of them at once, again and again, while they do not know of each other's death.
#[test]
fn demo_ends_green_although_daemon_and_coordinator_die_together() {
    let sandbox = Sandbox::new();
    let demo = begin(&sandbox);
    let (mut client, session) = follow(&sandbox);
    until_first_run_ended(&mut client);
    let lead = client.agent_until(&format!("{session}/lead"), "runs", |agent| agent.pid.is_some());
    let daemon = Process::open(client.welcome().pid).unwrap();
    let lead = Process::open(lead.pid.unwrap()).unwrap();
    daemon.kill9();
    lead.kill9();
    let started = sandbox.coordctl(&["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    let ran = Ran::finish(demo, "", "coordctl demo");
    assert_green(&sandbox, &ran);
    assert_all_ends(&sandbox);
}

/// Ctrl-C ends the demo with everything that it began.
#[test]
fn demo_interrupted_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.coordctl(&["daemon", "start"]);
    let mut command = sandbox.command(program("coordctl"));
    command.arg("demo").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let demo = command.spawn().unwrap();
    let (mut client, _) = follow(&sandbox);
    until_first_run_ended(&mut client);
    let agents = sandbox.processes();
    assert!(agents.iter().any(|agent| agent.command.contains("coordd-worker")), "{agents:?}");
    Process::open(demo.id()).unwrap().signal(Signal::INT);
    let ran = Ran::finish(demo, "", "coordctl demo");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(client.sessions(), []);
    until_within(JOB_LIMIT, "only the daemon is left", || {
        (sandbox.processes().len() == 1).then_some(())
    });
    assert_all_ends(&sandbox);
}

/// The script of a small real change to this very repository, with a real check.
fn own_repository_script() -> Value {
    let worker = |name: &str, phase: &str, prompt: &str| {
        json!({ "name": "Agent", "input": {
            "name": name, "description": name, "subagent_type": "worker", "phase": phase, "prompt": prompt } })
    };
    let tool = |name: &str, input: Value| json!({ "name": name, "input": input });
    let file = "{{cwd}}/tests/README.md";
    let edit =
        json!({ "file_path": file, "old_string": "# Tests\n", "new_string": "# The tests\n" });
    json!({ "pace_ms": 0, "agents": [
        { "when": { "has_tool": "Agent" }, "steps": [
            call("I look first.", &json!([worker("look", "research", "Find the heading of tests/README.md and who else uses it.")])),
            { "needs": ["look"], "text": "Now the change.", "tools":
                [worker("change", "implementation", "Change the heading of tests/README.md from Tests to The tests.")] },
            { "needs": ["change"], "text": "Now the check.", "tools":
                [worker("check", "verification", "Verify that only the heading of tests/README.md differs.")] },
            { "needs": ["check"], "text": "The check: {{result:check}}", "tools":
                [tool("StructuredOutput", json!({ "status": "completed", "summary": "The heading is changed." }))] },
            say("Done: one line of one file differs.")
        ] },
        { "when": { "lacks_tool": "Agent", "prompt_matches": "Find the heading" }, "steps": [
            call("Searching.", &json!([tool("Grep", json!({ "pattern": "^# Tests$", "path": "{{cwd}}", "glob": "*.md" }))])),
            say("[HIGH] Only tests/README.md has it.")
        ] },
        { "when": { "lacks_tool": "Agent", "prompt_matches": "Change the heading" }, "steps": [
            call("Reading.", &json!([tool("Read", json!({ "file_path": file }))])),
            call("Editing.", &json!([tool("Edit", edit)])),
            say("Changed.")
        ] },
        { "when": { "lacks_tool": "Agent", "prompt_matches": "Verify that only" }, "steps": [
            call("Checking.", &json!([bash("git diff --numstat && head -n 1 tests/README.md && bash -n tests/run && echo sound")])),
            say("{{tool_result}}")
        ] }
    ] })
}

#[test]
fn run_in_a_clone_of_this_repository() {
    let sandbox = Sandbox::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let clone = sandbox.at("w/clone");
    let cloned = sandbox.shell(&format!("git clone -q '{}' clone", root.display()));
    assert_eq!(cloned.code, 0, "{cloned:?}");
    sandbox.write("script.json", own_repository_script().to_string());
    let model = format!("rehearsal:{}", sandbox.at("script.json").display());
    let cwd = clone.to_str().unwrap().to_owned();
    let goal = "call the page about tests `The tests`";
    let mut arguments = vec!["run", "--name", "own", "--cwd", &cwd, "--model", &model];
    for rule in ["Bash(git diff*)", "Bash(head *)", "Bash(bash -n *)"] {
        arguments.extend(["--allow", rule]);
    }
    arguments.push(goal);
    let ran = sandbox.coordctl(&arguments);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("Done: one line of one file differs."), "{}", ran.stdout);

    let differs = sandbox.shell("cd clone && git diff --numstat");
    assert_eq!(differs.stdout, "1\t1\ttests/README.md\n", "{differs:?}");
    let mut client = client(&sandbox);
    let check = client.agent("own/check").last.unwrap().result;
    assert!(check.contains("1\t1\ttests/README.md") && check.contains("# The tests"), "{check}");
    assert!(check.contains("sound"), "{check}");
    let (session, agents) = client.show("own");
    assert_eq!(session.output.unwrap().0["status"], "completed");
    assert_eq!(agents.len(), 4);
    assert_all_ends(&sandbox);
}

/// `--json` for scripts: one document at the end, and nothing else on stdout. fA17: what did nothing is not done.
#[test]
fn fa17_run_prints_one_document_for_scripts() {
    let sandbox = Sandbox::new();
    let ran = sandbox.coordctl(&["run", "--json", "--model", "rehearsal", "do something"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("nothing was done"), "{ran:?}");
    let [summary] = <[Value; 1]>::try_from(ran.json_lines()).unwrap();
    assert!(summary.is_object(), "{summary}");
}
