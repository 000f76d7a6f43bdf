//! Bad input, one test each: one clear message that says what to do, and nothing is lost.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use proto::agent::{Model, Provider};
use proto::hello::PROTOCOL;
use proto::notification::{FailureClass, RunStatus};
use proto::request::Request;
use proto::view::AgentState;
use serde_json::json;
use tests::endpoint::{Answer, Endpoint};
use tests::rehearsal::{lead, say, script};
use tests::sandbox::program;
use tests::wait::until;
use tests::{Daemon, Ran, Sandbox, story};

/// The message on stderr, which has its form: what is the matter, and after a blank line what to
/// do.
fn message(ran: &Ran, code: i32) -> &str {
    assert_eq!(ran.code, code, "{ran:?}");
    assert!(ran.stderr.starts_with("error: "), "{ran:?}");
    assert!(ran.stderr.contains("\n\nhint: "), "it says what to do: {ran:?}");
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("RUST_BACKTRACE"), "{ran:?}");
    &ran.stderr
}

fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn no_model_configured() {
    let sandbox = Sandbox::new();
    for verb in ["run", "new"] {
        let ran = sandbox.coordctl(&[verb, "do it"]);
        let ways = [
            "no model is configured",
            "--model",
            "config.toml",
            "ANTHROPIC_API_KEY",
            "coordctl demo",
        ];
        assert_says(message(&ran, 2), &ways);
    }
    let ran = sandbox.coordctl_with(&["run", "x"], &[("OPENAI_API_KEY", "k")], "");
    assert_says(message(&ran, 2), &["OPENAI_MODEL"]);
    let ran = sandbox.coordctl(&["run", "--model", "llama", "x"]);
    assert_says(message(&ran, 2), &["`llama`", "anthropic:NAME", "openai:NAME"]);
}

#[test]
fn a_wrong_key() {
    let sandbox = Sandbox::new();
    let body = "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key\"}}";
    let endpoint = Endpoint::start(vec![Answer::Fail(401, "", body)]);
    let vars = [("ANTHROPIC_BASE_URL", endpoint.url()), ("ANTHROPIC_API_KEY", "sk-canary".into())];
    let vars: Vec<_> = vars.iter().map(|it| (it.0, it.1.as_str())).collect();
    let ran = sandbox.coordctl_with(&["run", "--name", "x", "do it"], &vars, "");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_says(&ran.said(), &["401", "invalid x-api-key", "ANTHROPIC_API_KEY"]);
    assert!(!ran.said().contains("sk-canary"), "rel-90: {ran:?}");
    assert_eq!(endpoint.seen().len(), 1, "asking again would not help");
    // Nothing is lost: with a good key the same session goes on.
    let last = sandbox.coordctl_json(&["status", "x"]);
    assert!(last.to_string().contains("fatal"), "{last}");
    let ran = sandbox.coordctl_with(&["resume", "x"], &vars, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = sandbox.coordctl(&["send", "x", "and now?", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    until("the endpoint is asked with both prompts", || {
        let asked = endpoint.seen().last()?.body["messages"].to_string();
        (asked.contains("do it") && asked.contains("and now?")).then_some(())
    });
}

/// It waits, says so, and goes on as soon as the endpoint is there.
#[test]
fn the_endpoint_is_down() {
    let daemon = Daemon::start();
    let port = Endpoint::free_port();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!([]))])));
    new.model = Some(Model {
        provider: Provider::Anthropic,
        name: "m".into(),
        base_url: None,
        rehearsal_file: None,
    });
    new.env.insert("ANTHROPIC_BASE_URL".into(), format!("http://127.0.0.1:{port}"));
    new.env.insert("ANTHROPIC_API_KEY".into(), "k".into());
    new.prompt = "are you there?".into();
    let mut client = daemon.client();
    let session = client.new_session(new).name;
    let lead = format!("{session}/lead");
    let waits = client.agent_until(&lead, "waits", |agent| {
        agent.activity.as_ref().is_some_and(|activity| activity.doing.starts_with("waiting"))
    });
    assert_eq!(waits.state, AgentState::Running);
    let shown = daemon.coordctl(&["status", &session]);
    assert_says(&shown.stdout, &["waiting"]);
    let endpoint = Endpoint::start_at(port, vec![Answer::Say("Here I am.")]);
    let done = until("it has asked again", || {
        let view = client.agent(&lead);
        (view.runs == 1).then_some(view)
    });
    let last = done.last.unwrap();
    assert_eq!(
        (last.status, last.result.as_str()),
        (RunStatus::Completed, "Here I am."),
        "{last:?}"
    );
    assert_eq!(endpoint.seen().len(), 1);
}

#[test]
fn unknown_sessions_and_names() {
    let daemon = Daemon::start();
    let made = daemon.coordctl(&["new", "--name", "dates", "--model", "rehearsal"]);
    assert_eq!(made.code, 0, "{made:?}");
    for arguments in [
        ["status", "datse"].as_slice(),
        &["stop", "datse"],
        &["rm", "datse"],
        &["logs", "datse"],
        &["send", "datse", "x"],
        &["resume", "datse"],
        &["attach", "datse"],
        &["wait", "datse"],
        &["scratchpad", "ls", "datse"],
    ] {
        let ran = daemon.coordctl(arguments);
        assert_says(message(&ran, 3), &["datse", "dates"]);
    }
    let ran = daemon.coordctl(&["send", "dates/laed", "x"]);
    assert_says(message(&ran, 3), &["laed", "lead"]);
    let ran = daemon.coordctl(&["permit", "allow", "p99"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_says(&ran.stderr, &["p99"]);
    let ran = daemon.coordctl(&["team", "show", "nobody"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_says(&ran.stderr, &["nobody"]);
}

/// rel-92, D25
#[test]
fn a_socket_path_that_is_too_long() {
    let mut sandbox = Sandbox::new();
    let long = sandbox.at(&"x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&long, mode).unwrap();
    sandbox.set("XDG_RUNTIME_DIR", long.to_str().unwrap());
    let mut command = sandbox.command(program("coordd"));
    command.arg("--foreground");
    let coordd = Ran::of(command, "");
    assert_ne!(coordd.code, 0, "{coordd:?}");
    let coordctl = sandbox.coordctl(&["ls"]);
    assert_ne!(coordctl.code, 0, "{coordctl:?}");
    for ran in [coordd, coordctl] {
        assert_says(&ran.stderr, &["103", "XDG_RUNTIME_DIR", long.to_str().unwrap()]);
    }
}

#[test]
fn a_working_directory_that_vanished() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let folder = daemon.at("w/gone");
    std::fs::create_dir(&folder).unwrap();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!([say("Hello.")]))])));
    new.cwd = folder.to_str().unwrap().into();
    let session = client.new_session(new).name;
    let lead = format!("{session}/lead");
    std::fs::remove_dir(&folder).unwrap();
    client.prompt(&session, "are you there?");
    let last = client.agent_until(&lead, "has failed", |agent| agent.runs == 1).last.unwrap();
    assert_eq!((last.status, last.class), (RunStatus::Failed, Some(FailureClass::Fatal)));
    assert_says(&last.reason, &[folder.to_str().unwrap(), "no longer exists", "create it again"]);
    // Made again, as it says, the same session goes on.
    std::fs::create_dir(&folder).unwrap();
    client.prompt(&session, "and now?");
    let last = client.agent_until(&lead, "has run", |agent| agent.runs == 2).last.unwrap();
    assert_eq!(last.status, RunStatus::Completed, "{last:?}");
    let entries = client.transcript(&lead);
    assert!(story::inputs(&entries).iter().any(|input| input.1.contains("are you there?")));

    // One that never was, and one that goes under coordctl itself.
    let ran = daemon.coordctl(&["new", "--model", "rehearsal", "--cwd", "nowhere"]);
    assert_says(message(&ran, 2), &["nowhere", "--cwd"]);
    let ran = daemon.shell(&format!(
        "mkdir under && cd under && rmdir ../under && '{}' new --model rehearsal",
        program("coordctl").display()
    ));
    assert_says(message(&ran, 1), &["current folder"]);
}

#[test]
fn an_agent_binary_that_is_missing() {
    let mut sandbox = Sandbox::new();
    sandbox.set("COORDD_WORKER", "/nonexistent/coordd-worker");
    let mut daemon = Daemon::start_in(sandbox);
    let ran = daemon.coordctl(&["run", "--name", "x", "--model", "rehearsal", "do it"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_says(&ran.said(), &["/nonexistent/coordd-worker is missing", "COORDD_WORKER"]);
    let mut client = daemon.client();
    let view = client.agent("x/lead");
    assert_eq!((view.state, view.pid), (AgentState::Stopped, None));
    assert_eq!(view.last.unwrap().class, Some(FailureClass::Fatal));
    // With one that is there, the session goes on.
    daemon.unset("COORDD_WORKER");
    assert!(daemon.stop().success());
    daemon.restart();
    assert_eq!(daemon.coordctl(&["resume", "x"]).code, 0);
    let mut client = daemon.client();
    client.prompt("x", "again");
    let view = client.agent_until("x/lead", "has run", |agent| agent.runs == 2);
    assert_eq!(view.last.unwrap().status, RunStatus::Completed);
}

#[test]
fn a_rehearsal_file_that_does_not_parse() {
    let sandbox = Sandbox::new();
    let run = |file: &str| {
        sandbox.coordctl(&["run", "--name", "x", "--model", &format!("rehearsal:{file}"), "do it"])
    };
    let ran = run("missing.json");
    assert_says(message(&ran, 2), &["missing.json", "cannot be read"]);
    sandbox.write("w/cut.json", "{\"agents\": [\n  {\"steps\": [");
    let ran = run("cut.json");
    assert_says(message(&ran, 2), &["cut.json", "does not parse", "line 2"]);
    // JSON, and no script: the agent says so, with the place.
    sandbox.write("w/odd.json", "{\n  \"agents\": [\n    { \"stepz\": [] } ] }");
    let ran = run("odd.json");
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_says(&ran.said(), &["odd.json:3", "stepz"]);
}

/// A daemon of another time at the socket; what coordctl says of it.
fn with_a_daemon_that(answers: &'static str) -> Ran {
    let sandbox = Sandbox::new();
    let folder = sandbox.at("r/coordd");
    std::fs::create_dir(&folder).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&folder, mode).unwrap();
    let listener = UnixListener::bind(sandbox.socket()).unwrap();
    let server = std::thread::spawn(move || {
        // First the binary codec, which it does not know, then JSON Lines.
        for _ in 0..2 {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut first = [0; 1024];
            let read = stream.read(&mut first).unwrap_or(0);
            if read > 0 && first[0] != 0 {
                let _closed = stream.write_all(answers.as_bytes());
            }
        }
    });
    let ran = sandbox.coordctl(&["ls"]);
    server.join().unwrap();
    ran
}

/// K6
#[test]
fn a_daemon_of_another_protocol_version() {
    assert_eq!(PROTOCOL, 1, "the answers below are from before and after it");
    let ran = with_a_daemon_that(
        "{\"welcome\":{\"protocol\":9,\"version\":\"9.9.9\",\"pid\":1,\"boot\":\"b\"}}\n",
    );
    assert_says(message(&ran, 1), &["protocol 9", "update coordctl"]);
    let ran = with_a_daemon_that(
        "{\"welcome\":{\"protocol\":0,\"version\":\"0.0.1\",\"pid\":1,\"boot\":\"b\"}}\n",
    );
    assert_says(message(&ran, 1), &["protocol 0", "update coordd", "daemon restart"]);
    let refused = "{\"closing\":{\"code\":\"version\",\"message\":\"coordd is too old\",\"hint\":\"update coordd\"}}\n";
    assert_says(message(&with_a_daemon_that(refused), 1), &["coordd is too old", "update coordd"]);
}

#[test]
fn a_daemon_that_cannot_be_started() {
    let mut sandbox = Sandbox::new();
    sandbox.set("COORDD_BIN", "/nonexistent/coordd");
    let ran = sandbox.coordctl(&["ls"]);
    assert_says(message(&ran, 4), &["/nonexistent/coordd", "COORDD_BIN"]);
    sandbox.unset("COORDD_BIN");
    sandbox.write("c/coordd/config.toml", "[daemon]\nworkers = 0\n");
    let ran = sandbox.coordctl(&["ls"]);
    assert_says(message(&ran, 4), &["config.toml", "workers", "from 1"]);
}

#[test]
fn settings_that_are_wrong() {
    let sandbox = Sandbox::new();
    sandbox.write("c/coordd/config.toml", "modle = \"x\"\n");
    let ran = sandbox.coordctl(&["new", "--model", "rehearsal"]);
    assert_says(message(&ran, 2), &["config.toml", "modle", "line 1"]);
    std::fs::remove_file(sandbox.at("c/coordd/config.toml")).unwrap();
    let ran = sandbox.coordctl(&["new", "--model", "rehearsal", "--mode", "boss"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert_says(&ran.stderr, &["boss", "coordinator", "normal"]);
    let ran = sandbox.coordctl(&["new", "--model", "rehearsal", "--mode", "fork"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_says(&ran.stderr, &["fork", "no fork mode"]);
    let ran = sandbox.coordctl(&["run", "--model", "rehearsal", "--deny", "Bash(", "x"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_says(&ran.said(), &["Bash("]);
}

/// The same daemon serves on after all of it.
#[test]
fn what_was_refused_changes_nothing() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let before = client.sessions();
    for arguments in [["new", "--model", "rehearsal", "--name", "-x"].as_slice(), &["stop", ""]] {
        assert_ne!(daemon.coordctl(arguments).code, 0, "{arguments:?}");
    }
    assert_eq!(client.sessions(), before);
    assert!(matches!(client.call(Request::Ping {}), proto::Outcome::Ok(_)));
}
