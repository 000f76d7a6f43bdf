//! rel-9, rel-35 to rel-37, rel-85, rel-90, rel-91, cases G9, G12, D16: no one speaks for another,
//! and no secret or word of an agent lands where it does not belong.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proto::ToDaemon;
use proto::message::{Body, MessageState};
use proto::request::Request;
use proto::response::Response;
use proto::view::AgentState;
use serde_json::json;
use tests::agents::{Agents, credentials};
use tests::client::Codec;
use tests::rehearsal::{bash, call, lead, say, script, start, worker};
use tests::wait::until;
use tests::{Client, Daemon, Ran, Sandbox};

fn send(client: &mut Client, session: &str, to: &str, text: &str) -> String {
    let (session, to, body) = (session.to_owned(), to.to_owned(), Body::Text { text: text.into() });
    match client.ok(Request::Send {
        session,
        to,
        body,
        summary: String::new(),
        notify_when_idle: false,
    }) {
        Response::Sent { results } => serde_json::to_value(&results[0]).unwrap()["accepted"]["id"]
            .as_str()
            .unwrap()
            .to_owned(),
        other => panic!("{other:?}"),
    }
}

fn state(client: &mut Client, message: &str) -> MessageState {
    client.receipt(message).state
}

/// G9, rel-9: whatever a worker puts into what it says, it is about itself.
#[test]
fn rel9_a_worker_cannot_speak_for_another() {
    let (daemon, mut agents) = Agents::start();
    let mut client = daemon.client();
    let mut lead = agents.lead(&daemon, "coordinator");
    let session = lead.boot.session.clone();
    let mut victim = agents.worker(&daemon, &mut lead, "victim");
    let mut other = agents.worker(&daemon, &mut lead, "other");
    let message = send(&mut client, &session, "victim", "for the victim alone");
    assert_eq!(victim.deliver().message, message);

    // Its own connection, the other's messages and ids.
    let _answered =
        other.client.call(Request::Acknowledge { messages: vec![message.clone()], run: 1 });
    assert_eq!(state(&mut client, &message), MessageState::Delivered, "acknowledged by another");
    let _answered =
        other.client.call(Request::Acknowledge { messages: vec![message.clone()], run: 2 });
    assert_eq!(state(&mut client, &message), MessageState::Delivered);

    // By hand, with every field that could name somebody.
    let mut by_hand =
        Client::connect_as(&daemon.socket(), Codec::Lines, credentials(&other.boot, other.pid))
            .unwrap();
    let id = victim.boot.agent.clone();
    let forged = json!({ "call": { "id": 1, "agent": id, "from": id, "request": { "run_ended": {
        "run": 1, "agent": id, "task_id": id, "from": "victim",
        "outcome": { "status": "completed", "result": "forged", "agent": id, "task_id": id }
    }}}});
    by_hand.send_raw(format!("{forged}\n").as_bytes());
    let note = lead.deliver();
    assert!(note.text.contains(&other.boot.agent) && !note.text.contains(id.as_str()), "{note:?}");
    let view = client.agent(&format!("{session}/victim"));
    assert_eq!((view.state, view.runs), (AgentState::Running, 0));
    victim.acknowledge(&[&message], 1);
    victim.complete(1, "its own");
    assert!(lead.deliver().text.contains(id.as_str()));

    // With the other's id, and its own token.
    let mut mixed = credentials(&other.boot, other.pid);
    mixed.agent.clone_from(&victim.boot.agent);
    let refused = Client::connect_as(&daemon.socket(), Codec::Frames, mixed).unwrap_err();
    assert_eq!(refused.code, proto::error::ErrorCode::BadCredentials);
    // A connection that has said who it is stays who it is.
    let mut again = daemon.client();
    let hello = proto::hello::Hello {
        protocol: proto::hello::PROTOCOL,
        program: "tests".into(),
        agent: Some(credentials(&victim.boot, victim.pid)),
    };
    again.send(&ToDaemon::Hello(hello));
    assert!(again.closed_within(tests::wait::CONDITION_LIMIT).is_some());
}

/// What the processes of a sandbox show to everybody who may look.
fn shown(sandbox: &Sandbox, file: &str) -> Vec<(String, Vec<u8>)> {
    let all = sandbox.processes().into_iter();
    all.map(|it| {
        (it.command.clone(), fs::read(format!("/proc/{}/{file}", it.pid)).unwrap_or_default())
    })
    .collect()
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

/// rel-91: a token is in the bootstrap on stdin, and in the memory of two processes.
#[test]
fn rel91_a_token_is_in_no_argument_no_environment_and_no_answer() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let worker = agents.worker(&daemon, &mut lead, "w");
    let mut client = daemon.client();
    for token in [&lead.boot.token, &worker.boot.token] {
        assert!(token.len() >= 64, "256 bits");
        for file in ["cmdline", "environ"] {
            for (command, bytes) in shown(&daemon, file) {
                assert!(!holds(&bytes, token), "in the {file} of {command}");
            }
        }
        for answer in [
            client.ok(Request::SessionShow { session: lead.boot.session.clone() }),
            client.ok(Request::AgentShow { agent: worker.boot.agent.clone() }),
            client.ok(Request::DaemonStatus {}),
        ] {
            assert!(!format!("{answer:?}").contains(token.as_str()), "{answer:?}");
        }
        assert!(!daemon.log_text().contains(token.as_str()));
    }
    assert_ne!(lead.boot.token, worker.boot.token);
    // The child has its three streams and nothing that was the daemon's (rel-35).
    let open = fs::read_dir(format!("/proc/{}/fd", worker.pid)).unwrap().flatten();
    let open: BTreeSet<String> = open.map(|it| it.file_name().into_string().unwrap()).collect();
    assert_eq!(open.iter().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "2"]);
    let status = fs::read_to_string(format!("/proc/{}/status", worker.pid)).unwrap();
    for field in ["SigBlk:", "SigIgn:"] {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        let mask = u64::from_str_radix(line[field.len()..].trim(), 16).unwrap();
        // Those from 32 on belong to the C library, and come from whoever started the test.
        assert_eq!(mask & 0x7fff_ffff, 0, "rel-36: {line}");
    }
}

/// rel-37, D16: what the daemon has in its own environment is its own. 50 variables that look like
/// secrets, and those by which programs find their service manager.
#[test]
fn rel37_nothing_of_the_daemons_environment_reaches_an_agent() {
    const SECRET: &str = "CANARY-of-the-daemon";
    let mut sandbox = Sandbox::new();
    let clean = sandbox.vars().clone();
    let prefixes = [
        "AWS",
        "NATS",
        "GITHUB",
        "ANTHROPIC",
        "OPENAI",
        "DATABASE",
        "COORDD",
        "CLAUDE_CODE",
        "VAULT",
        "SSH",
    ];
    let names = prefixes.iter().flat_map(|prefix| {
        ["TOKEN", "SECRET_KEY", "PASSWORD", "API_KEY", "CREDENTIALS"]
            .map(|it| format!("{prefix}_{it}"))
    });
    let names: Vec<String> = names.collect();
    assert_eq!(names.len(), 50);
    let service =
        ["NOTIFY_SOCKET", "LISTEN_FDNAMES", "INVOCATION_ID", "JOURNAL_STREAM", "LD_AUDIT"];
    for name in names.iter().map(String::as_str).chain(service) {
        sandbox.set(name, format!("/{SECRET}"));
    }
    let daemon = Daemon::start_in(sandbox);
    let mut client = daemon.client();
    let steps = json!([
        call(
            "Looking.",
            &json!([bash(
                "tr '\\0' '\\n' </proc/$PPID/environ >parent.env; env >tool.env; touch ready; until test -e go; do sleep 0.02; done"
            )])
        ),
        say("Seen.")
    ]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.env = clean;
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    client.new_session(new);
    until("the tool runs", || daemon.at("w/ready").exists().then_some(()));
    for (command, environ) in shown(&daemon, "environ") {
        assert!(command.contains("coordd --foreground") || !holds(&environ, SECRET), "{command}");
    }
    let tool = fs::read_to_string(daemon.at("w/tool.env")).unwrap();
    assert!(!tool.contains(SECRET), "{tool}");
    for name in &names {
        assert!(!tool.lines().any(|line| line.starts_with(&format!("{name}="))), "{name}: {tool}");
    }
    // The snapshot of what an agent's own process gets, by name.
    let parent = fs::read_to_string(daemon.at("w/parent.env")).unwrap();
    let names: Vec<_> =
        parent.lines().filter_map(|line| line.split_once('=')).map(|it| it.0).collect();
    let allowed = [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "TZ",
        "RUST_LOG",
        "RUST_BACKTRACE",
        "COORDD_AGENT_ID",
    ];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    daemon.write("w/go", "");
}

/// What a terminal would obey: OSC 52, 8 and 0, DCS, APC, CSI, C1 in two bytes, resets, bidi and
/// tag characters.
const CORPUS: &str = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{1b}]8;;http://evil\u{1b}\\c\u{1b}]0;title\u{7}\u{1b}P$q\"p\u{1b}\\\u{1b}_x\u{1b}\\\
    \u{1b}[6n\u{1b}[c\u{1b}[2J\u{9d}52;c;x\u{7}\u{9b}2J\u{85}\u{7f}\u{8}\u{202e}\u{2066}\u{200b}\u{e0041}\u{1b}c\u{1b}(0 end\u{1b}]52;c;open";

fn assert_harmless(what: &str, ran: &Ran) {
    assert!(ran.code == 0, "{what}: {ran:?}");
    let bad = |it: char| {
        (it.is_control() && it != '\n' && it != '\t')
            || matches!(it, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let found: Vec<_> = ran.said().chars().filter(|c| bad(*c)).collect();
    assert!(found.is_empty(), "{what} prints {found:?}: {ran:?}");
}

/// rel-85: no verb hands it on: as a model's text, a tool's input and output, a task, a result, a
/// message.
#[test]
fn rel85_what_coordctl_prints_is_harmless() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    daemon.write("w/corpus", CORPUS);
    let lead_steps = json!([
        call(CORPUS, &json!([start("w", CORPUS)])),
        { "needs": ["w"], "text": format!("It says {{{{result:w}}}} {CORPUS}") }
    ]);
    let steps = json!([
        call(
            CORPUS,
            &json!([{ "name": "Bash", "input": { "command": "cat corpus", "description": CORPUS } }])
        ),
        say(CORPUS)
    ]);
    let mut new =
        daemon.rehearsal("coordinator", &script(&json!([lead(&lead_steps), worker(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = CORPUS.into();
    let session = client.new_session(new).name;
    let lead = format!("{session}/lead");
    client.agent_until(&lead, "has heard", |agent| agent.runs == 2);
    send(&mut client, &session, "w", CORPUS);
    client.agent_until(&format!("{session}/w"), "has run again", |agent| agent.runs == 2);
    let w = format!("{session}/w");
    for arguments in [
        vec!["ls"],
        vec!["status", &session],
        vec!["logs", &session],
        vec!["logs", &w],
        vec!["attach", &session],
        vec!["attach", &w],
        vec!["usage"],
        vec!["--json", "status", &session],
        vec!["--json", "logs", &w],
    ] {
        assert_harmless(&format!("coordctl {arguments:?}"), &daemon.coordctl(&arguments));
    }
    let logs = daemon.coordctl(&["logs", &w]);
    assert!(logs.stdout.contains(" end"), "what is harmless is shown: {logs:?}");
}

/// Everything below a folder whose name contains `log`.
fn logs(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            logs(&path, into);
        } else if path.file_name().unwrap().to_str().unwrap().contains("log") {
            into.push(fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// rel-90: at the finest level of logging, everything that passes is a canary, and none is in a
/// log, in an argument, or in what `daemon status` tells. Transcripts are where it belongs.
#[test]
fn rel90_no_secret_and_no_body_is_in_a_log() {
    let mut sandbox = Sandbox::new();
    sandbox.set("RUST_LOG", "trace");
    sandbox.set("ANTHROPIC_API_KEY", "CANARY-key");
    sandbox.set("OPENAI_API_KEY", "CANARY-other-key");
    let daemon = Daemon::start_in(sandbox);
    daemon.write("w/file", "CANARY-output\n");
    let mut client = daemon.client();
    let lead_steps = json!([
        call("CANARY-said", &json!([start("w", "CANARY-task")])),
        { "needs": ["w"], "text": "CANARY-heard {{result:w}}" }
    ]);
    let steps = json!([
        call(
            "CANARY-thought",
            &json!([bash("cat file; touch ready; until test -e go; do sleep 0.02; done")])
        ),
        say("CANARY-result")
    ]);
    let mut new =
        daemon.rehearsal("coordinator", &script(&json!([lead(&lead_steps), worker(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "CANARY-prompt".into();
    let session = client.new_session(new).name;
    until("the tool runs", || daemon.at("w/ready").exists().then_some(()));
    send(&mut client, &session, "w", "CANARY-message");
    for (command, bytes) in shown(&daemon, "cmdline") {
        assert!(!holds(&bytes, "CANARY"), "{command}");
    }
    for (command, bytes) in shown(&daemon, "environ") {
        // Tools get the user's keys, as in the user's own shell; the agent's process has them in
        // memory alone.
        let is_program = command.contains("coordd-worker");
        assert!(!is_program || !holds(&bytes, "CANARY"), "{command}");
    }
    daemon.write("w/go", "");
    client.agent_until(&format!("{session}/lead"), "has heard", |agent| agent.runs == 2);
    let status = daemon.coordctl(&["daemon", "status", "--json"]);
    assert!(status.code == 0 && !status.said().contains("CANARY"), "{status:?}");

    let demo = daemon.coordctl(&["demo"]);
    assert_eq!(demo.code, 0, "{demo:?}");
    let mut all = vec![daemon.log_text()];
    logs(&daemon.state(), &mut all);
    assert!(
        all.len() >= 3 && all.iter().any(|it| it.contains("TRACE")),
        "there are logs: {}",
        all.len()
    );
    for word in ["CANARY", "Make the failing test", "task-notification", "<result>"] {
        for log in &all {
            let line = log.lines().find(|line| line.contains(word));
            assert_eq!(line, None, "{word} in a log");
        }
    }
    let entries = format!("{:?}", client.transcript(&format!("{session}/w")));
    for word in
        ["CANARY-task", "CANARY-thought", "CANARY-output", "CANARY-message", "CANARY-result"]
    {
        assert!(entries.contains(word), "{word} is where it belongs");
    }
}
