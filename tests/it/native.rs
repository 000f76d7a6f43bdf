//! the native runtime, in both wire formats, and what becomes of a run when the endpoint or a
//! tool misbehaves.

use proto::agent::{Model, Provider};
use proto::notification::{FailureClass, RunStatus};
use proto::request::NewSession;
use proto::view::LastRun;
use serde_json::{Value, json};
use tests::endpoint::{Answer, Endpoint};
use tests::rehearsal::{bash, call, lead, say, script};
use tests::{Client, Daemon, story};

const KEY: &str = "sk-canary-5d1b";

/// A normal session with a model at this endpoint.
fn session_at(daemon: &Daemon, provider: Provider, url: &str) -> NewSession {
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!([]))])));
    new.model =
        Some(Model { provider, name: "some-model".into(), base_url: None, rehearsal_file: None });
    let (base, key) = match provider {
        Provider::Anthropic => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        Provider::Openai | Provider::Responses | Provider::Rehearsal => {
            ("OPENAI_BASE_URL", "OPENAI_API_KEY")
        }
    };
    new.env.insert(base.into(), url.to_owned());
    new.env.insert(key.into(), KEY.into());
    new.prompt = "look around".into();
    new
}

fn last_run(client: &mut Client, new: NewSession) -> (String, LastRun) {
    let lead = format!("{}/lead", client.new_session(new).name);
    let view = client.agent_until(&lead, "has ended its run", |agent| agent.runs == 1);
    (lead, view.last.unwrap())
}

/// The scripted lead of a normal session, to the end of its run.
fn rehearsed(daemon: &Daemon, client: &mut Client, steps: &Value) -> (String, LastRun) {
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    last_run(client, new)
}

#[test]
fn r1_messages_api_streamed_with_cache_marks_and_tools() {
    let daemon = Daemon::start();
    daemon.write("w/notes.txt", "the heron\n");
    let path = daemon.at("w/notes.txt");
    let endpoint = Endpoint::start(vec![
        Answer::Call(vec![
            ("Read", json!({ "file_path": path })),
            ("Glob", json!({ "pattern": "*" })),
        ]),
        Answer::Say("It is about a heron."),
    ]);
    let mut client = daemon.client();
    let new = session_at(&daemon, Provider::Anthropic, &endpoint.url());
    let (lead, last) = last_run(&mut client, new);
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "It is about a heron."));
    let seen = endpoint.seen();
    let [first, second] = seen.as_slice() else { panic!("not two: {seen:#?}") };
    assert_eq!(first.path, "/v1/messages");
    assert_eq!(first.headers["x-api-key"], KEY);
    assert!(first.headers.contains_key("anthropic-version"));
    assert_eq!((&first.body["stream"], &first.body["model"]), (&json!(true), &json!("some-model")));
    let marks = first.body.to_string().matches("\"cache_control\"").count();
    assert!((1..=4).contains(&marks), "{marks} marks; the API takes four");
    let names: Vec<_> = first.body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted() && names.contains(&"Bash") && names.contains(&"Agent"), "{names:?}");
    // What was said stays as it was, byte for byte, so that the cache serves it.
    for part in ["system", "tools"] {
        assert_eq!(first.body[part].to_string(), second.body[part].to_string(), "{part}");
    }
    // Both results come in one user turn, in the order of the calls.
    let turns = second.body["messages"].as_array().unwrap();
    let results = turns.last().unwrap()["content"].as_array().unwrap();
    let ids: Vec<_> = results.iter().map(|it| it["tool_use_id"].clone()).collect();
    assert_eq!(ids, ["toolu_0", "toolu_1"], "{turns:#?}");
    assert!(results[0].to_string().contains("the heron"), "{results:?}");
    let usage = client.agent(&lead).usage;
    assert_eq!((usage.tool_uses, usage.output_tokens, usage.cache_read_tokens), (2, 20, 60));
    // rel-90: the key is nowhere but in the request.
    assert!(!format!("{:?}", client.transcript(&lead)).contains(KEY));
    assert!(!daemon.log_text().contains(KEY));
}

#[test]
fn r1_chat_completions_streamed_with_tools() {
    let daemon = Daemon::start();
    daemon.write("w/notes.txt", "the heron\n");
    let endpoint = Endpoint::start(vec![
        Answer::Call(vec![
            ("Grep", json!({ "pattern": "heron" })),
            ("Glob", json!({ "pattern": "*" })),
        ]),
        Answer::Say("One file has it."),
    ]);
    let mut client = daemon.client();
    let url = format!("{}/v1", endpoint.url());
    let (lead, last) = last_run(&mut client, session_at(&daemon, Provider::Openai, &url));
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "One file has it."));
    let seen = endpoint.seen();
    let [first, second] = seen.as_slice() else { panic!("not two: {seen:#?}") };
    assert_eq!(first.path, "/v1/chat/completions");
    assert_eq!(first.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(first.body["stream"], true);
    let messages = second.body["messages"].as_array().unwrap();
    let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 2, "{messages:#?}");
    assert!(results[0]["content"].to_string().contains("notes.txt"), "{results:?}");
    let usage = client.agent(&lead).usage;
    assert_eq!((usage.total_tokens(), usage.tool_uses), (120, 2));
}

/// C-1, C-2, C-3: the coordinator's own prompt and its own tools, and the context apart from both.
#[test]
fn c1_c2_a_coordinator_has_its_own_prompt_and_tools() {
    let daemon = Daemon::start();
    let endpoint = Endpoint::start(vec![Answer::Say("Hello."), Answer::Say("Hello again.")]);
    let mut client = daemon.client();
    let mut new = session_at(&daemon, Provider::Anthropic, &endpoint.url());
    new.mode = Some("coordinator".into());
    let (lead, _) = last_run(&mut client, new);
    client.prompt(lead.split('/').next().unwrap(), "and now?");
    client.agent_until(&lead, "has answered again", |agent| agent.runs == 2);
    let seen = endpoint.seen();
    let names: Vec<_> = seen[0].body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let want = [
        "Agent",
        "ListPeers",
        "SendMessage",
        "StructuredOutput",
        "TaskStop",
        "TeamCreate",
        "TeamDelete",
    ];
    assert_eq!(names, want);
    let system = seen[0].body["system"].to_string();
    let scratchpad = client.show(lead.split('/').next().unwrap()).0.scratchpad.unwrap();
    assert!(!system.contains(&scratchpad), "what changes is not in the system prompt");
    let said = seen[0].body["messages"].to_string();
    assert!(said.contains(&scratchpad) && said.contains("Bash"), "{said}");
    assert_eq!(system, seen[1].body["system"].to_string());
    let before = seen[0].body["messages"][0]["content"][0]["text"].as_str();
    assert_eq!(before, seen[1].body["messages"][0]["content"][0]["text"].as_str());
}

/// Told to wait, it waits as told and goes on; nothing is lost.
#[test]
fn r1_w8_busy_endpoints_are_waited_for() {
    let daemon = Daemon::start();
    let busy =
        "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}";
    let endpoint = Endpoint::start(vec![
        Answer::Fail(429, "retry-after: 1\r\n", busy),
        Answer::Fail(529, "retry-after: 1\r\n", busy),
        Answer::Say("Now."),
    ]);
    let mut client = daemon.client();
    let new = session_at(&daemon, Provider::Anthropic, &endpoint.url());
    let begun = std::time::Instant::now();
    let (_, last) = last_run(&mut client, new);
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "Now."));
    assert_eq!(endpoint.seen().len(), 3);
    assert!(begun.elapsed() >= std::time::Duration::from_secs(2), "it waited as it was told");
}

/// W-9: what a cut-off answer had is not lost, and the model goes on from there.
#[test]
fn r1_w9_a_cut_off_answer_goes_on() {
    let daemon = Daemon::start();
    let endpoint =
        Endpoint::start(vec![Answer::CutOff("The first half"), Answer::Say("and the second.")]);
    let mut client = daemon.client();
    let (lead, last) =
        last_run(&mut client, session_at(&daemon, Provider::Anthropic, &endpoint.url()));
    assert_eq!(last.status, RunStatus::Completed, "{last:?}");
    let entries = client.transcript(&lead);
    assert_eq!(story::texts(&entries), ["The first half", "and the second."]);
    assert!(endpoint.seen()[1].body["messages"].to_string().contains("The first half"));
}

#[test]
fn w8_errors_of_the_endpoint_have_their_class() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for (status, message, class) in [
        (401, "invalid x-api-key", FailureClass::Fatal),
        (400, "prompt is too long: 250000 tokens > 200000 maximum", FailureClass::Adjust),
    ] {
        let error = json!({ "error": { "status": status, "message": message } });
        let (lead, last) = rehearsed(&daemon, &mut client, &json!([error]));
        assert_eq!((last.status, last.class), (RunStatus::Failed, Some(class)), "{last:?}");
        assert!(last.reason.contains(message), "{last:?}");
        client.ok(proto::request::Request::SessionRemove {
            session: lead.split('/').next().unwrap().into(),
            force: true,
        });
    }
}

/// Errors of tools go back to the model, and the run goes on.
#[test]
fn r1_errors_of_tools_are_told_to_the_model() {
    let daemon = Daemon::start();
    daemon.write("w/twice.txt", "same\nsame\n");
    let tool = |name: &str, input: Value| json!({ "name": name, "input": input });
    let edit = |old: &str| json!({ "file_path": "{{cwd}}/twice.txt", "old_string": old, "new_string": "x" });
    let steps = json!([
        call("1", &json!([bash("echo oh; exit 7")])),
        call("2", &json!([tool("Dance", json!({}))])),
        call("3", &json!([tool("Read", json!({ "file_path": "{{cwd}}/missing.txt" }))])),
        call("4", &json!([tool("Edit", edit("same"))])),
        call("5", &json!([tool("Read", json!({ "file_path": "{{cwd}}/twice.txt" }))])),
        call("6", &json!([tool("Edit", edit("same"))])),
        call("7", &json!([tool("Bash", json!({ "comand": "true" }))])),
        say("All of it failed.")
    ]);
    let mut client = daemon.client();
    let (lead, last) = rehearsed(&daemon, &mut client, &steps);
    assert_eq!((last.status, last.result.as_str()), (RunStatus::Completed, "All of it failed."));
    let entries = client.transcript(&lead);
    let results = story::results(&entries);
    let failed: Vec<_> = results.iter().map(|it| it.1).collect();
    assert_eq!(failed, [true, true, true, true, false, true, true], "{results:#?}");
    for (at, words) in
        [(0, "7"), (1, "Dance"), (2, "missing.txt"), (3, "ead"), (5, "2"), (6, "comand")]
    {
        assert!(results[at].0.contains(words), "{words}: {:?}", results[at]);
    }
    assert!(results[0].0.contains("oh"), "what it printed comes too: {:?}", results[0]);
    assert_eq!(std::fs::read_to_string(daemon.at("w/twice.txt")).unwrap(), "same\nsame\n");
}

/// W-1: an agent works with the caller's environment, in the session's folder, and sees nothing of
/// the daemon's.
#[test]
fn w1_tools_have_the_callers_environment() {
    let mut sandbox = tests::Sandbox::new();
    sandbox.set("DAEMONS_OWN", "secret");
    let daemon = Daemon::start_in(sandbox);
    let mut client = daemon.client();
    let steps = json!([
        call("Where?", &json!([bash("pwd; echo \"<$CALLER><$DAEMONS_OWN><$COORDD_TOKEN>\"")])),
        say("So.")
    ]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.env.remove("DAEMONS_OWN");
    new.env.insert("CALLER".into(), "me".into());
    new.prompt = "go".into();
    let (lead, _) = last_run(&mut client, new);
    let entries = client.transcript(&lead);
    let result = story::results(&entries)[0].0;
    assert!(result.contains(daemon.work().to_str().unwrap()), "{result}");
    assert!(result.contains("<me><><>"), "{result}");
    // rel-91: no secret in the arguments or the environment of a process.
    let pid = client.agent(&lead).pid.unwrap();
    let environ = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let cmdline = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!environ.contains("TOKEN") && !environ.contains("secret"), "{environ}");
    assert_eq!(cmdline.split('\0').filter(|part| !part.is_empty()).count(), 1, "{cmdline}");
}

/// F-1: a normal lead waits for its worker, and has its report as the answer to the call.
#[test]
fn f1_a_normal_lead_waits_for_its_worker() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let lead_steps = json!([
        call("A worker looks.", &json!([tests::rehearsal::start("w", "look")])),
        say("It says: {{re:(found [a-z]+)}}")
    ]);
    let worker_steps = json!([call("Looking.", &json!([bash("echo one")])), say("found nothing")]);
    let script = script(&json!([lead(&lead_steps), tests::rehearsal::worker(&worker_steps)]));
    let mut new = daemon.rehearsal("normal", &script);
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let (lead, last) = last_run(&mut client, new);
    assert_eq!(last.result, "It says: found nothing");
    let entries = client.transcript(&lead);
    assert!(story::results(&entries)[0].0.contains("found nothing"));
    assert_eq!(story::notifications(&entries), [], "its answer is not told a second time");
}

/// fT34: what a run has read may be edited by the next one, in another process, as long as the file is the same.
#[test]
fn ft34_a_file_that_was_read_in_an_earlier_run_may_be_edited() {
    let daemon = Daemon::start();
    for name in ["same", "changed"] {
        daemon.write(&format!("w/{name}"), "one\n");
    }
    let path = |name: &str| daemon.at(&format!("w/{name}")).display().to_string();
    let read = |name: &str| json!({ "name": "Read", "input": { "file_path": path(name) } });
    let edit = |name: &str| {
        let input = json!({ "file_path": path(name), "old_string": "one", "new_string": "two" });
        json!({ "name": "Edit", "input": input })
    };
    let steps = json!([
        call("Reading.", &json!([read("same"), read("changed")])),
        say("Read."),
        call("Editing.", &json!([edit("same"), edit("changed")])),
        say("Edited.")
    ]);
    let mut client = daemon.client();
    let (lead, _) = rehearsed(&daemon, &mut client, &steps);
    daemon.write("w/changed", "one\nby another\n");
    let session = lead.trim_end_matches("/lead").to_owned();
    // Its process ends with the session.
    assert_eq!(daemon.coordctl(&["stop", &session]).code, 0);
    assert_eq!(daemon.coordctl(&["resume", &session]).code, 0);
    client.ok(proto::request::Request::Prompt { session, agent: None, text: "go on".into() });
    client.agent_until(&lead, "has ended its second run", |agent| agent.runs == 2);
    assert_eq!(std::fs::read_to_string(daemon.at("w/same")).unwrap(), "two\n");
    assert_eq!(std::fs::read_to_string(daemon.at("w/changed")).unwrap(), "one\nby another\n");
}

/// fT32, fM6: a call that cannot run is answered at once, and nobody is asked about it.
#[test]
fn ft32_a_call_that_cannot_run_is_not_asked_about() {
    let daemon = Daemon::start();
    let seconds = json!({ "name": "Bash", "input": { "command": "mkdir made", "timeout": 120 } });
    let editor = bash("vim notes");
    let unknown =
        json!({ "name": "Write", "input": { "file_path": "/x", "content": "", "mode": 1 } });
    let steps = json!([call("Trying.", &json!([seconds, editor, unknown])), say("Done.")]);
    let mut client = daemon.client();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.permissions = tests::rehearsal::unboxed();
    new.prompt = "go".into();
    let (lead, last) = last_run(&mut client, new);
    assert_eq!(last.status, RunStatus::Completed);
    let entries = client.transcript(&lead);
    let told = format!("{:?}", story::results(&entries));
    for part in ["Give 120000 for 120 seconds", "vim needs a terminal", "has no field `mode`"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!daemon.at("w/made").exists());
}

/// W-14: the model is told what files of the user and of the project say, before its first message, and of changes once.
#[test]
fn w14_instructions_in_files_are_told_before_the_first_message() {
    let daemon = Daemon::start();
    daemon.write("h/.claude/CLAUDE.md", "Prefer short words.\n");
    daemon.write("w/AGENTS.md", "Run `make check` before you are done.\n");
    daemon.write("w/deep/CLAUDE.md", "Nothing here is generated.\n");
    daemon.write("w/deep/notes.txt", "the heron\n");
    let path = daemon.at("w/deep/notes.txt");
    let endpoint = Endpoint::start(vec![
        Answer::Call(vec![("Read", json!({ "file_path": path }))]),
        Answer::Say("Read."),
        Answer::Say("Again."),
        Answer::Say("And again."),
    ]);
    let mut client = daemon.client();
    let new = session_at(&daemon, Provider::Anthropic, &endpoint.url());
    let (lead, last) = last_run(&mut client, new);
    assert_eq!(last.status, RunStatus::Completed, "{last:?}");
    let told = |request: usize| endpoint.seen()[request].body["messages"].to_string();
    let first = told(0);
    let places = ["Prefer short words.", "make check", "look around"].map(|it| first.find(it));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{first}");
    assert!(!first.contains("Nothing here is generated"), "{first}");
    assert!(told(1).contains("Nothing here is generated"), "{}", told(1));
    let session = lead.trim_end_matches("/lead").to_owned();
    let mut again = |runs: u32| {
        let text = "go on".to_owned();
        client.ok(proto::request::Request::Prompt { session: session.clone(), agent: None, text });
        client.agent_until(&lead, "has ended another run", |agent| agent.runs == runs);
        told(usize::try_from(runs).unwrap()).matches("make check").count()
    };
    assert_eq!(again(2), 1, "it is not told again");
    daemon.write("w/AGENTS.md", "Run `make check` twice.\n");
    assert_eq!(again(3), 2, "a change is told");
}

/// fM29: what was sent once stays as it was sent, over processes and changes; what changed is told behind it.
#[test]
fn fm29_a_request_begins_with_the_bytes_of_the_one_before() {
    let daemon = Daemon::start();
    let answers = (0..4).map(|_| Answer::Say("Yes.")).collect();
    let endpoint = Endpoint::start(answers);
    let mut client = daemon.client();
    let new = session_at(&daemon, Provider::Anthropic, &endpoint.url());
    let (lead, _) = last_run(&mut client, new);
    let session = lead.trim_end_matches("/lead").to_owned();
    for runs in 2..=4 {
        // Another process each time, and once another state of the folder.
        assert_eq!(daemon.coordctl(&["stop", &session]).code, 0);
        assert_eq!(daemon.coordctl(&["resume", &session]).code, 0);
        if runs == 3 {
            let made = std::process::Command::new("git")
                .args(["init", "-q", "-b", "main"])
                .arg(daemon.at("w"))
                .status();
            assert!(made.unwrap().success());
        }
        let text = "go on".to_owned();
        client.ok(proto::request::Request::Prompt { session: session.clone(), agent: None, text });
        client.agent_until(&lead, "has ended another run", |agent| agent.runs == runs);
    }
    // Marks of the cache move; all else is compared.
    let plain = |value: &Value| {
        value.to_string().replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
    };
    let requests = endpoint.seen();
    for (one, next) in requests.iter().zip(requests.iter().skip(1)) {
        for part in ["system", "tools"] {
            assert_eq!(plain(&one.body[part]), plain(&next.body[part]), "{part}");
        }
        let turns = |value: &Value| -> Vec<String> {
            value["messages"].as_array().unwrap().iter().map(plain).collect()
        };
        let (before, after) = (turns(&one.body), turns(&next.body));
        assert_eq!(before[..], after[..before.len()]);
    }
    let told = |request: usize| {
        requests[request].body.to_string().matches("surroundings have changed").count()
    };
    assert_eq!([0, 1, 2, 3].map(told), [0, 0, 1, 1]);
}
