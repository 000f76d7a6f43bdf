//! an agent whose turns Claude Code drives, with a stand-in that speaks its lines and does
//! what no real one does on demand. The real one is in `cli::worker`.

use proto::agent::Runtime;
use proto::event::Event;
use proto::message::{MessageState, SendResult};
use proto::notification::{FailureClass, RunStatus};
use proto::request::{NewSession, Request};
use proto::response::Response;
use proto::view::{AgentState, AgentView, LastRun};
use serde_json::{Value, json};
use tests::rehearsal::{call, lead, say, script, start};
use tests::wait::until;
use tests::{Client, Daemon, Sandbox, story};

/// A daemon whose workers find the stand-in, which plays these steps.
fn set_up(steps: &Value) -> Daemon {
    let mut sandbox = Sandbox::new();
    let script = sandbox.write("stand-in.json", steps.to_string());
    sandbox.set("STAND_IN_SCRIPT", script.to_str().unwrap());
    sandbox.set("COORDD_CLAUDE", env!("CARGO_BIN_EXE_claude_stand_in"));
    Daemon::start_in(sandbox)
}

/// A session whose worker `w` is Claude Code.
fn begin(daemon: &Daemon, client: &mut Client, with: impl Fn(&mut NewSession)) -> String {
    let steps =
        json!([call("One.", &json!([start("w", "the task")])), say("Sent."), say("Heard.")]);
    let mut new = daemon.rehearsal("coordinator", &script(&json!([lead(&steps)])));
    new.runtime = Runtime::Claude;
    new.prompt = "go".into();
    with(&mut new);
    client.new_session(new).name
}

fn ended(client: &mut Client, session: &str, runs: u32) -> (AgentView, LastRun) {
    let w = until(&format!("{runs} runs have ended"), || {
        client.show(session).1.into_iter().find(|it| it.name == "w" && it.runs >= runs)
    });
    let last = w.last.clone().unwrap();
    (w, last)
}

fn send(client: &mut Client, session: &str, text: &str) -> String {
    let agent = Some("w".to_owned());
    match client.ok(Request::Prompt { session: session.into(), agent, text: text.into() }) {
        Response::Sent { results } => match results.into_iter().next() {
            Some(SendResult::Accepted { id, .. }) => id,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn state(client: &mut Client, message: &str) -> MessageState {
    client.receipt(message).state
}

fn tool() -> Value {
    json!({ "tool": "Bash", "input": { "command": "mkdir x" } })
}

fn path(daemon: &Daemon, name: &str) -> String {
    daemon.at(name).display().to_string()
}

/// what is said, done and used is in the transcript, and lines that nobody knows do no
/// harm.
#[test]
fn r2_lines_become_a_transcript_and_odd_ones_do_no_harm() {
    let steps = json!([
        { "garbage": "Warning: not JSON at all" },
        { "raw": { "type": "novelty", "x": [1, 2] } },
        tool(),
        { "long": 17 * 1024 * 1024 },
        { "result": "made" },
        { "say": "It is done." }
    ]);
    let daemon = set_up(&steps);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    let (w, last) = ended(&mut client, &session, 1);
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "It is done."));
    assert_eq!((w.usage.input_tokens, w.usage.output_tokens, w.usage.tool_uses), (200, 20, 1));
    assert_eq!(w.usage.cost_micro_usd, 500_000);
    let shown = daemon.coordctl(&["usage", &session]).stdout;
    assert_eq!(shown.lines().filter(|line| line.ends_with("$0.50")).count(), 2, "{shown}");
    let entries = client.transcript(&w.id);
    assert_eq!(story::calls(&entries), ["Bash"]);
    assert_eq!(story::results(&entries), [("made", false)]);
    assert_eq!(story::texts(&entries), ["It is done."]);
    let args = std::fs::read_to_string(daemon.at("h/claude.args")).unwrap();
    for flag in [
        "--strict-mcp-config",
        "--permission-prompt-tool\nstdio",
        "--max-turns\n200",
        "--add-dir\n",
    ] {
        assert!(args.contains(flag), "no {flag} in {args}");
    }
    daemon.stop_and_leave_nothing();
}

/// a program that is missing, too old or refuses is a failure that says what to do.
#[test]
fn r2_a_claude_code_that_cannot_be_used_is_told_plainly() {
    let cases = [
        ("COORDD_CLAUDE", "", "no program `claude` in PATH. Install it"),
        ("COORDD_CLAUDE", "/nonexistent/claude", "/nonexistent/claude is not a program"),
        ("STAND_IN_VERSION", "2.0.14", "2.0.14 is too old"),
        ("STAND_IN_SCRIPT", "/nonexistent/script", "ended before it was ready (exit status"),
    ];
    let daemon = set_up(&json!([{ "say": "never" }]));
    let mut client = daemon.client();
    for (name, value, word) in cases {
        let session = begin(&daemon, &mut client, |new| {
            // Where the tests run there may be a real one.
            new.env.insert("PATH".into(), "/usr/sbin".into());
            new.env.insert(name.into(), value.into());
        });
        let (w, last) = ended(&mut client, &session, 1);
        assert_eq!((last.status, last.class), (RunStatus::Failed, Some(FailureClass::Fatal)));
        assert!(last.reason.contains(word), "{}", last.reason);
        // What it was for is read, so that nothing waits for it.
        assert_eq!(w.mail, 0);
        client.agent_until(&w.id, "is gone", |agent| agent.state == AgentState::Stopped);
    }
}

/// A27: a message is read when Claude Code has it, not when it was written to it.
#[test]
fn a27_a_message_is_acknowledged_when_it_is_in_the_conversation() {
    let daemon = set_up(&json!([]));
    let steps = json!([
        tool(), { "touch": path(&daemon, "running") }, { "told": true }, { "touch": path(&daemon, "told") },
        { "until": path(&daemon, "go") }, { "result": "made" }, { "say": "With that." }
    ]);
    daemon.write("stand-in.json", steps.to_string());
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    until("the tool runs", || daemon.at("running").exists().then_some(()));
    let id = send(&mut client, &session, "one more thing");
    until("it is written", || daemon.at("told").exists().then_some(()));
    assert_eq!(state(&mut client, &id), MessageState::Delivered);
    daemon.write("go", "");
    let (w, last) = ended(&mut client, &session, 1);
    assert_eq!((last.result.as_str(), w.runs), ("With that.", 1));
    assert_eq!(state(&mut client, &id), MessageState::Consumed);
    let inputs = client.transcript(&w.id);
    assert!(story::inputs(&inputs).iter().any(|(_, text)| *text == "one more thing"));
}

/// A27, A8: a message that Claude Code dropped was not read, and has a run of its own.
#[test]
fn a27_a_message_that_was_dropped_is_for_the_next_run() {
    let daemon = set_up(&json!([]));
    let steps = json!([
        { "touch": path(&daemon, "running") }, { "told": true }, { "drop": true }, { "say": "Without it." }, { "say": "With it." }
    ]);
    daemon.write("stand-in.json", steps.to_string());
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    until("it runs", || daemon.at("running").exists().then_some(()));
    let id = send(&mut client, &session, "one more thing");
    let (w, last) = ended(&mut client, &session, 2);
    assert_eq!(last.result, "With it.");
    assert_eq!(state(&mut client, &id), MessageState::Consumed);
    let told: Vec<_> = client
        .transcript(&w.id)
        .iter()
        .filter(|it| {
            story::inputs(&[(*it).clone()]).iter().any(|(_, text)| text.contains("one more thing"))
        })
        .map(|it| it.run)
        .collect();
    assert_eq!(told, [2]);
}

/// it is started again with its conversation, and given up when it dies again and again
/// without a word.
#[test]
fn r7_a_claude_code_that_dies_is_started_again_and_given_up_at_last() {
    let daemon = set_up(&json!([tool(), { "die": "out of luck" }, { "say": "Here again." }]));
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    let (w, last) = ended(&mut client, &session, 1);
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "Here again."));
    let entries = client.transcript(&w.id);
    assert!(story::results(&entries)[0].1, "the call that was open has a result");
    assert!(story::inputs(&entries).iter().any(|(_, text)| text.contains("was restarted here")));
    assert!(std::fs::read_to_string(daemon.at("h/claude.args")).unwrap().contains("--resume\n"));

    let daemon = set_up(&json!([{ "die": "a" }, { "die": "b" }, { "die": "c" }, { "die": "d" }]));
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    let (_, last) = ended(&mut client, &session, 1);
    assert_eq!((last.status, last.class), (RunStatus::Failed, Some(FailureClass::Retryable)));
    assert!(
        last.reason.contains("3 times in a row") && last.reason.contains("exit status 7"),
        "{}",
        last.reason
    );
}

/// W-5: a conversation that Claude Code no longer has is begun again, and the model is told.
#[test]
fn w5_a_lost_conversation_is_begun_again_and_said_so() {
    let daemon = set_up(&json!([{ "say": "One." }, { "say": "Two." }]));
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    ended(&mut client, &session, 1);
    std::fs::remove_dir_all(daemon.at("h/.claude/projects")).unwrap();
    send(&mut client, &session, "Again");
    let (_, last) = ended(&mut client, &session, 2);
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "Two."));
    let folder = std::fs::read_dir(daemon.at("h/.claude/projects/-somewhere")).unwrap();
    let record = folder
        .map(|folder| std::fs::read_to_string(folder.unwrap().path()).unwrap())
        .collect::<String>();
    assert!(record.contains("no longer has the record"), "{record}");
}

/// W-3: our rules decide, and what they leave open the user does.
#[test]
fn w3_questions_go_by_the_rules_and_then_to_the_user() {
    let ask = |command: &str| json!({ "ask": { "command": command } });
    let steps = json!([
        tool(), ask("mkdir allowed"), tool(), ask("rm -rf denied"), tool(), ask("mkdir asked"),
        { "say": "Tried all." }
    ]);
    let daemon = set_up(&steps);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |new| {
        new.permissions.allow = vec!["Bash(mkdir allowed)".into()];
        new.permissions.deny = vec!["Bash(rm *)".into()];
    });
    let id = until("a question", || {
        match client.ok(Request::PermissionList { session: String::new() }) {
            Response::Permissions { permissions } => {
                permissions.into_iter().next().map(|permission| permission.id)
            }
            other => panic!("{other:?}"),
        }
    });
    let answer = Request::PermissionAnswer { id, allow: false, always: false, reason: "no".into() };
    client.ok(answer);
    let (w, last) = ended(&mut client, &session, 1);
    assert_eq!(last.result, "Tried all.");
    let entries = client.transcript(&w.id);
    let results = story::results(&entries);
    assert_eq!(results[0], ("It ran.", false));
    assert!(results[1].1 && results[1].0.starts_with("Permission denied."), "{results:?}");
    assert_eq!(results[2], ("Permission denied by the user: no.", true));
}

/// G1: the same call after a death of Claude Code is the same question.
#[test]
fn g1_a_question_outlives_the_process_that_asked() {
    let daemon = set_up(&json!([]));
    let ask = json!({ "ask": { "command": "mkdir x" } });
    let steps = json!([tool(), { "asks_and_dies": path(&daemon, "asked") }, tool(), ask, { "say": "At last." }]);
    daemon.write("stand-in.json", steps.to_string());
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    let questions =
        |client: &mut Client| match client.ok(Request::PermissionList { session: String::new() }) {
            Response::Permissions { permissions } => permissions,
            other => panic!("{other:?}"),
        };
    let first = until("a question", || questions(&mut client).into_iter().next());
    daemon.write("asked", "");
    until("it is started again", || {
        let args = std::fs::read_to_string(daemon.at("h/claude.args")).unwrap_or_default();
        (args.contains("--resume\n") && daemon.at("h/claude.asked").exists()).then_some(())
    });
    assert_eq!(
        questions(&mut client).iter().map(|question| &question.id).collect::<Vec<_>>(),
        [&first.id]
    );
    client.ok(Request::PermissionAnswer {
        id: first.id,
        allow: true,
        always: false,
        reason: String::new(),
    });
    let (w, last) = ended(&mut client, &session, 1);
    assert_eq!(last.result, "At last.");
    let entries = client.transcript(&w.id);
    assert_eq!(story::results(&entries).last(), Some(&("It ran.", false)));
}

/// W-7, W-9: at the end of its time it is interrupted and writes its report.
#[test]
fn w9_at_the_end_of_its_time_it_writes_its_report() {
    let steps = json!([tool(), { "until": "/nonexistent" }, { "say": "So far: little." }]);
    let daemon = set_up(&steps);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |new| new.run_s = 1);
    let (w, last) = ended(&mut client, &session, 1);
    assert_eq!((last.status, last.class), (RunStatus::Failed, Some(FailureClass::Adjust)));
    assert_eq!(
        (last.reason.as_str(), last.result.as_str()),
        ("out of time (1.0 s)", "So far: little.")
    );
    let entries = client.transcript(&w.id);
    assert_eq!(story::results(&entries).len(), 1, "the call that was open has a result");
}

/// W-9, W-6: one that is stopped hands on what it had said.
#[test]
fn w9_a_stopped_run_hands_on_what_was_said() {
    let daemon = set_up(&json!([{ "begin": "Half a thought" }, { "until": "/nonexistent" }]));
    let mut client = daemon.client();
    let mut viewer = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    let w = format!("{session}/w");
    client.agent_until(&w, "is there", |_| true);
    viewer.ok(Request::Attach { session: session.clone(), agent: "w".into(), history: None });
    let begun = viewer.event("a piece of the answer", |event| match event {
        Event::Delta { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(begun, "Half a thought");
    client.ok(Request::AgentStop { agent: w });
    let (_, last) = ended(&mut client, &session, 1);
    assert_eq!(last.status, RunStatus::Killed);
    assert!(last.result.contains("Half a thought"), "{}", last.result);
}
