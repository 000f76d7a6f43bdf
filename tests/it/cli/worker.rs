//! Claude Code as the worker of a session, the real one, with all that a native worker
//! can do.

use std::time::{Duration, Instant};

use proto::agent::Runtime;
use proto::entry::{Entry, Origin, What};
use proto::message::{MessageState, SendResult};
use proto::notification::{FailureClass, RunStatus};
use proto::request::{NewSession, Request};
use proto::response::Response;
use proto::view::{AgentState, AgentView, PermissionView};
use serde_json::json;
use tests::cli::{CLI_LIMIT, Cli, Model, Script};
use tests::processes::Process;
use tests::rehearsal::{call, lead, say, script, start};
use tests::wait::{until, until_within};
use tests::{Client, Daemon, Sandbox};

/// W-6 allows two seconds; the rest is for a machine that builds at the same time.
const STOP_LIMIT: Duration = Duration::from_millis(3_500);

/// The model is waited for by its words, and the worker's task is this.
const TASK: &str = "Look into the matter";

/// A daemon whose workers find Claude Code, and the model that it asks.
fn set_up(scripts: Vec<Script>) -> (Daemon, Model) {
    set_up_with("2.1.332", scripts)
}

fn set_up_with(version: &str, scripts: Vec<Script>) -> (Daemon, Model) {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, scripts);
    let program = Cli::claude(version).program_in(&sandbox);
    sandbox.set("COORDD_CLAUDE", program.to_str().unwrap());
    (Daemon::start_in(sandbox), model)
}

/// A session with one worker `w`, which is Claude Code and works on [`TASK`].
fn begin(daemon: &Daemon, client: &mut Client, with: impl Fn(&mut NewSession)) -> String {
    let steps = json!([call("One.", &json!([start("w", TASK)])), say("Sent."), say("Heard.")]);
    let mut new = daemon.rehearsal("coordinator", &script(&json!([lead(&steps)])));
    new.runtime = Runtime::Claude;
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    with(&mut new);
    client.new_session(new).name
}

fn bash(command: &str) -> serde_json::Value {
    json!({ "command": command, "description": "does it" })
}

/// Waits until so many runs of the worker have ended.
fn ended(client: &mut Client, session: &str, runs: u32) -> AgentView {
    until_within(CLI_LIMIT, &format!("{runs} runs have ended"), || {
        let (_, agents) = client.show(session);
        agents.into_iter().find(|agent| agent.name == "w" && agent.runs >= runs)
    })
}

fn told(entries: &[Entry]) -> String {
    let words = entries.iter().map(|entry| match &entry.what {
        What::Input { origin, text, .. } => format!("{} {text}", origin_word(origin)),
        What::Text { text } => format!("said {text}"),
        What::ToolCall { tool, .. } => format!("called {tool}"),
        What::ToolResult { text, is_error, .. } => format!("result {is_error} {text}"),
        What::Reasoning { text, .. } => format!("thought {text}"),
        What::Turn { .. } => "turn".to_owned(),
        What::RunEnded { status, .. } => format!("ended {}", status.as_str()),
    });
    words.collect::<Vec<_>>().join("\n")
}

fn origin_word(origin: &Origin) -> &'static str {
    match origin {
        Origin::User {} => "user:",
        Origin::Agent { .. } => "agent:",
        Origin::Notification { .. } => "notification:",
        Origin::Outside { .. } => "outside:",
        Origin::System {} => "coordd:",
    }
}

fn exists(daemon: &Daemon, path: &str) {
    until_within(CLI_LIMIT, path, || daemon.at(path).exists().then_some(()));
}

fn pid(daemon: &Daemon, path: &str) -> u32 {
    std::fs::read_to_string(daemon.at(path)).unwrap().trim().parse().unwrap()
}

/// A command that writes down whose child it is and waits for a file.
const WAITS: &str = "echo $PPID >claude.pid; mv claude.pid running; while [ ! -e go ]; do sleep 0.05; done; echo went";

/// W-1, W-3, R-7: tools, usage, transcript, environment, scratchpad.
#[test]
fn r2_a_worker_works_reports_and_leaves_nothing() {
    let looks =
        "env | sort >../environment; echo number-$((40 + 2)); echo shared >$COORDD_SCRATCHPAD/note";
    let steps = Script::when(TASK)
        .call("Bash", bash(looks))
        .call(
            "Write",
            json!({ "file_path": "{{Primary working directory: (\\S+)}}/made", "content": "yes" }),
        )
        .say("It is {{number-([0-9]+)}}.");
    let (mut daemon, model) = set_up(vec![steps]);
    for (name, value) in [("CLAUDECODE", "1"), ("CLAUDE_CODE_SESSION_ID", "x"), ("AI_AGENT", "me")]
    {
        daemon.set(name, value);
    }
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    let w = ended(&mut client, &session, 1);
    let last = w.last.as_ref().unwrap();
    assert_eq!(
        (last.status, last.result.as_str()),
        (RunStatus::Completed, "It is 42."),
        "{last:?}"
    );
    assert_eq!((w.runtime, w.usage.tool_uses), (Runtime::Claude, 2));
    assert!(w.usage.input_tokens > 0 && w.usage.output_tokens > 0, "{:?}", w.usage);
    assert!(w.usage.cost_micro_usd > 0, "{:?}", w.usage);
    assert_eq!(std::fs::read_to_string(daemon.at("w/made")).unwrap(), "yes");
    let told = told(&client.transcript(&w.id));
    for part in [
        "called Bash",
        "result false number-42",
        "called Write",
        "said It is 42.",
        "ended completed",
    ] {
        assert!(told.contains(part), "no `{part}` in\n{told}");
    }
    // What Claude Code sets for its own tools is there; nothing of another session is.
    let environment = std::fs::read_to_string(daemon.at("environment")).unwrap();
    assert!(!environment.contains("CLAUDE_CODE_SESSION_ID=x\n"), "{environment}");
    assert!(!environment.contains("AI_AGENT=me\n") && environment.contains("COORDD_AGENT=w\n"));
    let shown = model.shown_to(TASK).remove(0);
    assert_eq!(
        shown.tools(),
        ["Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "WebFetch", "WebSearch", "Write"]
    );
    let scratchpad = client.show(&session).0.scratchpad.unwrap();
    assert!(shown.system().contains(&scratchpad), "{}", shown.system());
    assert_eq!(std::fs::read_to_string(format!("{scratchpad}/note")).unwrap(), "shared\n");
    model.assert_all_scripted();
    until("the lead is told", || {
        let (_, agents) = client.show(&session);
        agents.iter().find(|agent| agent.name == "lead").filter(|agent| agent.runs == 2).map(|_| ())
    });
    daemon.stop_and_leave_nothing();
}

/// A27, A8: a message enters at the next tool round, and counts as read when the model has it.
#[test]
fn a27_a_message_enters_a_run_at_its_next_tool_round() {
    for version in ["2.1.332", "2.1.150", "2.1.100"] {
        let steps = Script::when(TASK).call("Bash", bash(WAITS)).say("Went.");
        let scripts = vec![steps, Script::when("leap years").say("With leap years.")];
        let (daemon, model) = set_up_with(version, scripts);
        let mut client = daemon.client();
        let session = begin(&daemon, &mut client, |_| {});
        exists(&daemon, "w/running");
        let w = format!("{session}/w");
        let id = send(&mut client, &session, "w", "and what about leap years?");
        assert_ne!(state(&mut client, &id), MessageState::Consumed);
        daemon.write("w/go", "");
        let shown = model.wait_for("the message", |it| it.all().contains("leap years"));
        assert!(shown.all().contains("went"), "{version}: it came without the tool's result");
        let last = ended(&mut client, &session, 1).last.unwrap();
        // The older ones put it into the tool's result, where the model of the tests does not look
        // for words of a user.
        let expected = if version == "2.1.332" { "With leap years." } else { "Went." };
        assert_eq!(last.result, expected, "{version}");
        assert_eq!(state(&mut client, &id), MessageState::Consumed);
        let transcript = client.transcript(&w);
        let told = told(&transcript);
        assert!(told.contains("user: and what about leap years?"), "{told}");
        assert_eq!(transcript.iter().map(|it| it.run).max(), Some(1));
        daemon.stop_and_leave_nothing();
    }
}

/// A8: one that comes too late for the turn has a turn of its own, in the same run.
#[test]
fn a8_a_message_that_came_too_late_has_a_turn_of_its_own() {
    let steps = Script::when(TASK).begin("Nearly done.", "late");
    let (daemon, model) = set_up(vec![steps, Script::when("leap years").say("With leap years.")]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    model.wait_for("the task", |it| it.script.as_deref() == Some(TASK));
    let id = send(&mut client, &session, "w", "/clear and what about leap years?");
    until("it is handed over", || {
        (state(&mut client, &id) == MessageState::Delivered).then_some(())
    });
    model.open("late");
    let w = ended(&mut client, &session, 1);
    assert_eq!(w.last.unwrap().result, "Nearly done.\n\nWith leap years.");
    assert_eq!(w.runs, 1);
    assert_eq!(state(&mut client, &id), MessageState::Consumed);
}

/// The user's words to one agent. The message's id.
fn send(client: &mut Client, session: &str, agent: &str, text: &str) -> String {
    let request =
        Request::Prompt { session: session.into(), agent: Some(agent.into()), text: text.into() };
    match client.ok(request) {
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

/// W-5, W-6: a stop leaves nothing, and the next message goes on with the same conversation.
#[test]
fn w6_a_stop_leaves_nothing_and_a_message_goes_on() {
    let stubborn =
        "trap '' TERM; setsid sleep 1000 & echo $! >child.pid; mv child.pid ready; sleep 1000";
    let steps = Script::when(TASK).call("Bash", bash(stubborn)).say("I slept.");
    let (daemon, model) = set_up(vec![steps, Script::when("Go on").say("I was asleep.")]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    exists(&daemon, "w/ready");
    let child = Process::open(pid(&daemon, "w/ready")).unwrap();
    let begun = Instant::now();
    let stopped = daemon.coordctl(&["stop", &format!("{session}/w")]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(begun.elapsed() < STOP_LIMIT, "{:?}", begun.elapsed());
    assert!(!child.runs());
    let w = ended(&mut client, &session, 1);
    assert_eq!(w.last.unwrap().status, RunStatus::Killed);
    send(&mut client, &session, "w", "Go on");
    let w = ended(&mut client, &session, 2);
    assert_eq!(w.last.unwrap().result, "I was asleep.");
    let shown = model.shown_to("Go on").remove(0);
    assert!(shown.all().contains(TASK), "the conversation is lost: {}", shown.all());
}

/// Whatever dies in the middle, the run goes on with its conversation, and the task is not said
/// twice.
#[test]
fn r7_a_run_goes_on_after_the_end_of_any_process() {
    for dies in ["claude", "agent", "daemon"] {
        let steps = Script::when(TASK).call("Bash", bash(WAITS)).say("Went.");
        let goes_on = Script::when("process was restarted")
            .call("Bash", bash("echo again"))
            .say("Done again.");
        let (mut daemon, model) = set_up(vec![steps, goes_on]);
        let mut client = daemon.client();
        let session = begin(&daemon, &mut client, |_| {});
        exists(&daemon, "w/running");
        match dies {
            "claude" => Process::open(pid(&daemon, "w/running")).unwrap().kill9(),
            "agent" => {
                let agent = client.agent(&format!("{session}/w")).pid.unwrap();
                Process::open(agent).unwrap().kill9();
            }
            _ => {
                daemon.kill9();
                daemon.restart();
                client = daemon.client();
                daemon.write("w/go", "");
            }
        }
        let w = ended(&mut client, &session, 1);
        let last = w.last.unwrap();
        assert_eq!(last.status, RunStatus::Completed, "{dies}: {last:?}");
        let expected = if dies == "daemon" { "Went." } else { "Done again." };
        assert_eq!(last.result, expected, "{dies}");
        let shown = model.shown().pop().unwrap();
        assert_eq!(shown.all().matches(TASK).count(), 1, "{dies}: {}", shown.all());
    }
}

/// W-7, W-9: out of turns, with a report.
#[test]
fn w7_max_turns_end_a_run_with_a_report() {
    let mut steps = Script::when(TASK);
    for _ in 0..5 {
        steps = steps.call("Bash", bash("true"));
    }
    let report = Script::when("2 turns").say("So far: nothing.");
    let (daemon, _model) = set_up(vec![steps, report]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |it| it.max_turns = 2);
    let w = ended(&mut client, &session, 1);
    let last = w.last.unwrap();
    assert_eq!((last.status, last.class), (RunStatus::Failed, Some(FailureClass::Adjust)));
    assert_eq!(
        (last.reason.as_str(), last.result.as_str()),
        ("out of turns (2 turns)", "So far: nothing.")
    );
}

/// W-8: an error of the API is a failure, though its line says `success`.
#[test]
fn w8_an_error_of_the_model_fails_the_run_with_its_class() {
    for (status, class, word) in [
        (400, FailureClass::Fatal, "400"),
        (401, FailureClass::Fatal, "log in"),
        (529, FailureClass::Retryable, "529"),
    ] {
        let steps = Script::when(TASK).fail(status, "no such luck", 100);
        let (daemon, _model) = set_up(vec![steps]);
        let mut client = daemon.client();
        let session = begin(&daemon, &mut client, |it| {
            it.env.insert(
                "CLAUDE_CODE_MAX_RETRIES".into(),
                if status == 401 { "9" } else { "1" }.into(),
            );
        });
        let last = ended(&mut client, &session, 1).last.unwrap();
        assert_eq!(
            (last.status, last.class),
            (RunStatus::Failed, Some(class)),
            "{status}: {last:?}"
        );
        assert!(last.reason.to_lowercase().contains(word), "{status}: {}", last.reason);
    }
}

fn question(client: &mut Client, about: &str) -> PermissionView {
    until_within(CLI_LIMIT, &format!("a question about `{about}`"), || {
        match client.ok(Request::PermissionList { session: String::new() }) {
            Response::Permissions { permissions } => permissions.into_iter().find(|it| {
                it.question.input.0["command"].as_str().is_some_and(|it| it.contains(about))
            }),
            other => panic!("{other:?}"),
        }
    })
}

/// G1: what the rules leave open is asked of the user, over restarts of the daemon, and the answer
/// is what happens.
#[test]
fn g1_questions_reach_the_user_and_answers_the_tool() {
    let steps = Script::when(TASK)
        .call("Bash", bash("mkdir one"))
        .call("Bash", bash("mkdir two"))
        .say("Tried both.");
    let (mut daemon, model) = set_up(vec![steps]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |it| it.permissions.allow.clear());
    let first = question(&mut client, "mkdir one");
    let w = client.agent(&format!("{session}/w"));
    assert_eq!(w.state, AgentState::NeedsInput);
    daemon.kill9();
    daemon.restart();
    client = daemon.client();
    let allowed = daemon.coordctl(&["permit", "allow", &first.id]);
    assert_eq!(allowed.code, 0, "{allowed:?}");
    let second = question(&mut client, "mkdir two");
    let denied = daemon.coordctl(&["permit", "deny", &second.id, "--reason", "one is enough"]);
    assert_eq!(denied.code, 0, "{denied:?}");
    let last = ended(&mut client, &session, 1).last.unwrap();
    assert_eq!(last.result, "Tried both.");
    assert!(daemon.at("w/one").is_dir() && !daemon.at("w/two").exists());
    let heard = model.shown().pop().unwrap().last_tool_result().unwrap();
    assert!(heard.contains("denied by the user: one is enough"), "{heard}");
}

/// W-3: what a rule forbids to read is not read, though Claude Code reads the workspace freely.
#[test]
fn w3_a_file_that_a_rule_forbids_is_not_read() {
    let steps = Script::when(TASK)
        .call("Read", json!({ "file_path": "{{Primary working directory: (\\S+)}}/.env" }))
        .say("I could not.");
    let (daemon, model) = set_up(vec![steps]);
    daemon.write("w/.env", "KEY=secret-of-the-user\n");
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |it| it.permissions.deny = vec!["Read(.env)".into()]);
    ended(&mut client, &session, 1);
    assert!(model.shown().iter().all(|it| !it.body.to_string().contains("secret-of-the-user")));
    assert!(model.shown().pop().unwrap().last_tool_result().unwrap().contains("denied"));
}

/// The story of a job in words that a person would see.
#[test]
fn r2_status_says_what_drives_a_worker() {
    let (daemon, model) = set_up(vec![Script::when(TASK).begin("Looking.", "end")]);
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    model.wait_for("the task", |it| it.script.is_some());
    until("status says so", || {
        let shown = daemon.coordctl(&["status", &session]).stdout;
        (shown.contains("workers: claude") && shown.contains("thinking")).then_some(())
    });
    assert!(daemon.coordctl(&["ls"]).stdout.contains("coordinator, claude"));
    model.open("end");
    ended(&mut client, &session, 1);
}

/// fR1, A-7: what Claude Code would expand in a text is a text in the words of others; what the user types is as in its own screen.
#[test]
fn a7_fr1_only_the_users_own_words_open_a_file() {
    for version in ["2.1.332", "2.1.150", "2.1.100"] {
        let mut sandbox = Sandbox::new();
        let secret = sandbox.write("elsewhere/notes", "SECRET-OF-THE-USER");
        let scripts = vec![Script::when(TASK).say("Done."), Script::when("look here").say("Seen.")];
        let model = Model::start(&mut sandbox, scripts);
        let program = Cli::claude(version).program_in(&sandbox);
        sandbox.set("COORDD_CLAUDE", program.to_str().unwrap());
        let daemon = Daemon::start_in(sandbox);
        let mut client = daemon.client();
        let secret = secret.display();
        let task = format!("{TASK} @{secret} (@{secret}) @\"{secret}\"");
        let steps = json!([call("One.", &json!([start("w", &task)])), say("Sent."), say("Heard.")]);
        let mut new = daemon.rehearsal("coordinator", &script(&json!([lead(&steps)])));
        new.runtime = Runtime::Claude;
        new.prompt = "go".into();
        let session = client.new_session(new).name;
        ended(&mut client, &session, 1);
        let shown = || model.shown().iter().map(|it| it.body.to_string()).collect::<String>();
        let asked = shown();
        assert!(asked.contains(&format!("\u{ff20}{secret}")), "{version}: {asked}");
        assert!(!asked.contains("SECRET-OF-THE-USER"), "{version}: {asked}");
        let prompt = Request::Prompt {
            session: session.clone(),
            agent: Some("w".into()),
            text: format!("look here @{secret}"),
        };
        client.ok(prompt);
        ended(&mut client, &session, 2);
        assert!(shown().contains("SECRET-OF-THE-USER"), "{version}: the user's own is expanded");
    }
}

/// fP12, W-14: a repository's own settings run nothing and lead nowhere until the user trusts its folder, whoever stands in it.
#[test]
fn w14_fp12_a_repository_is_not_trusted_because_one_stands_in_it() {
    let steps = || Script::when(TASK).say("Done.");
    let (daemon, model) = set_up(vec![steps(), steps()]);
    let hook = format!("touch {}", daemon.at("hooked").display());
    let settings = json!({
        "hooks": { "SessionStart": [{ "hooks": [{ "type": "command", "command": hook }] }] },
        "env": { "FROM_THE_REPOSITORY": "yes", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1" },
        "permissions": { "allow": ["Bash"] },
    });
    daemon.write("w/.claude/settings.json", settings.to_string());
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |_| {});
    let last = ended(&mut client, &session, 1).last.unwrap();
    assert_eq!(last.status, RunStatus::Completed, "{last:?}");
    assert!(!daemon.at("hooked").exists(), "the hook ran");
    assert_eq!(model.shown_to(TASK).len(), 1);
    let work = daemon.at("w");
    let work = work.to_str().unwrap();
    let refused = daemon.coordctl(&["trust", work]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains(&hook) && refused.stderr.contains("ANTHROPIC_BASE_URL"),
        "{refused:?}"
    );
    let trusted = daemon.coordctl(&["trust", work, "--yes"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    // The address of the repository is its user's choice now: nobody answers there, but the hook has run.
    begin(&daemon, &mut client, |_| {});
    exists(&daemon, "hooked");
    let removed = daemon.coordctl(&["trust", "--remove", work]);
    assert!(removed.code == 0 && removed.stderr.contains("no longer"), "{removed:?}");
    assert_eq!(daemon.coordctl(&["trust", "--list"]).stdout, "");
}

/// fP13: what Claude Code asks about when it is alone is asked about under coordd as well, by coordd's rules or by its own.
#[test]
fn fp13_nothing_runs_that_claude_code_alone_would_ask_about() {
    let commands = [
        "cat notes",
        "git status",
        "git config --list --no-list core.fsmonitor 'touch made; false'",
        "echo x | uniq - made",
        "cat notes </dev/tcp/127.0.0.1/1 >&0",
        "git -c core.pager='touch made' log",
        "git log --output=made",
        "find . -name notes -exec touch made {} +",
        "find . -name notes -fprint made",
        "rg --pre ./notes x",
        "sort -o made notes",
        "sed -n w\\ made notes",
        "env touch made",
        "tar cf - --checkpoint=1 --checkpoint-action=exec='touch made' notes",
        "awk 'BEGIN { system(\"touch made\") }'",
        "xargs touch <<< made",
        "ls $(touch made)",
        "curl -s http://127.0.0.1:1/",
    ];
    let steps = || {
        let begun = Script::when(TASK);
        commands.iter().fold(begun, |steps, it| steps.call("Bash", bash(it))).say("Done.")
    };
    // Alone.
    let mut sandbox = Sandbox::new();
    let _model = Model::start(&mut sandbox, vec![steps()]);
    sandbox.write("w/notes", "x\n");
    let arguments = ["--permission-prompt-tool", "stdio", "--permission-mode", "acceptEdits"];
    let mut claude = Cli::claude("2.1.332").headless(&sandbox, &arguments);
    claude.say(TASK);
    let mut alone = Vec::new();
    loop {
        let line = claude.wait_for("a question or the end", |line| {
            let asks = line["request"]["subtype"] == "can_use_tool";
            (asks || line["type"] == "result").then(|| line.clone())
        });
        if line["type"] == "result" {
            break;
        }
        let command = line["request"]["input"]["command"].as_str().unwrap_or_default().to_owned();
        alone.push(command);
        claude.deny(&line, "no");
    }
    assert!(alone.len() > commands.len() / 2, "{alone:?}");
    // Under coordd.
    let (daemon, _model) = set_up(vec![steps()]);
    daemon.write("w/notes", "x\n");
    let mut client = daemon.client();
    let session = begin(&daemon, &mut client, |it| it.permissions.allow.clear());
    let mut asked = Vec::new();
    until_within(CLI_LIMIT, "its run has ended", || {
        let open = client.ok(Request::PermissionList { session: String::new() });
        let Response::Permissions { permissions } = open else { panic!("{open:?}") };
        for it in permissions {
            asked.push(it.question.input.0["command"].as_str().unwrap_or_default().to_owned());
            let no = Request::PermissionAnswer {
                id: it.id,
                allow: false,
                always: false,
                reason: String::new(),
            };
            client.ok(no);
        }
        let (_, agents) = client.show(&session);
        agents.into_iter().find(|agent| agent.name == "w" && agent.runs == 1)
    });
    let laxer: Vec<_> = alone.iter().filter(|it| !asked.contains(it)).collect();
    assert!(laxer.is_empty(), "asked alone, not under coordd: {laxer:#?}");
    assert!(!daemon.at("w/made").exists());
}
