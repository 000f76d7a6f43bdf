//! C-1, W-2, M-8: who may ask for what, held by the daemon and not by the programs that ask.

use proto::Outcome;
use proto::agent::{Question, Role};
use proto::bridge::{Fate, Row, Says};
use proto::error::ErrorCode;
use proto::json::Json;
use proto::message::Body;
use proto::notification::RunStatus;
use proto::request::{NewAgent, Request};
use proto::response::Response;
use serde_json::json;
use tests::agents::{Agents, outcome};
use tests::rehearsal::{bash, call, lead, say, script, unboxed};
use tests::{Client, Daemon};

/// Every request there is, with its name on the wire. The ones that end something come last.
#[expect(clippy::too_many_lines, reason = "one entry for each request")]
fn every_request(daemon: &Daemon, session: &str) -> Vec<(String, Request)> {
    let some = || "x".to_owned();
    let own = || session.to_owned();
    let agent = NewAgent { description: some(), prompt: some(), ..NewAgent::default() };
    let question = Question {
        tool: "Bash".into(),
        input: Json(json!({ "command": "true" })),
        reason: String::new(),
        rule: String::new(),
        about: String::new(),
        shown: proto::agent::Shown::default(),
    };
    let new = daemon.rehearsal("normal", &script(&json!([lead(&json!([]))])));
    let none = String::new;
    let row = Row {
        to: own(),
        from: some(),
        name: some(),
        bypasses: false,
        message: some(),
        says: Says::Words { text: some(), summary: none() },
    };
    let requests = vec![
        Request::Ping {},
        Request::DaemonStatus {},
        Request::SessionNew { session: Box::new(new) },
        Request::SessionList {},
        Request::SessionShow { session: own() },
        Request::SessionResume {
            session: own(),
            env: std::collections::BTreeMap::new(),
            mode_variable: None,
        },
        Request::Join { session: own(), role: Role::Coordinator, name: none() },
        Request::Prompt { session: own(), agent: None, text: some() },
        Request::Interrupt { session: own() },
        Request::Send {
            session: own(),
            to: "lead".into(),
            body: Body::text("x"),
            summary: some(),
            notify_when_idle: false,
        },
        Request::PeerList {},
        Request::InboundList { session: none() },
        Request::InboundAnswer { message: "m999".into(), accept: true, reason: none() },
        Request::InboundSet { session: own(), cross_session_inbound: "auto".into() },
        Request::Receipt { message: "m1".into() },
        Request::AgentSpawn { agent: Box::new(agent) },
        Request::AgentShow { agent: "lead".into() },
        Request::Transcript { agent: "lead".into(), from: 0, limit: 1 },
        Request::PermissionAsk { question },
        Request::PermissionList { session: none() },
        Request::PermissionAnswer { id: "p999".into(), allow: true, always: true, reason: none() },
        Request::StructuredOutput { output: Json(json!({ "done": true })) },
        Request::TeamCreate {
            session: own(),
            name: none(),
            description: none(),
            agent_type: none(),
        },
        Request::TeamDelete { session: own() },
        Request::TeamInvite(proto::request::Invite {
            team: some(),
            name: some(),
            description: none(),
            start: true,
            arguments: Vec::new(),
        }),
        Request::Screen { agent: some(), size: None },
        Request::ScreenInput { agent: some(), size: None, bytes: proto::screen::Bytes::default() },
        Request::TerminalEnded(proto::view::EndedView { status: 0, said: none() }),
        Request::TeamList {},
        Request::TeamShow { team: some() },
        Request::TaskCreate {
            team: some(),
            subject: some(),
            description: none(),
            blocked_by: Vec::new(),
        },
        Request::TaskList { team: some() },
        Request::TaskGet { team: some(), task: 1 },
        Request::TaskUpdate { team: some(), task: 1, status: None, owner: None, blocked_by: None },
        Request::ScratchpadList { session: own() },
        Request::ScratchpadShow { session: own(), path: some() },
        Request::Usage { session: none() },
        Request::BridgeSet { on: false },
        Request::BridgeAllow { session: own(), peer: some(), inbound: true, outbound: true },
        Request::BridgeStatus {},
        Request::BridgeTold { id: 1, fate: Fate::Taken, reason: none() },
        Request::BridgeBring { peer: some(), name: some(), row },
        Request::BridgeReport { report: proto::bridge::BridgeView::default() },
        Request::Subscribe { session: none(), after: None },
        Request::Attach { session: own(), agent: none(), history: None },
        Request::Acknowledge { messages: Vec::new(), run: 1 },
        Request::RunEnded { run: 99, outcome: outcome(RunStatus::Completed, "x") },
        Request::AgentStop { agent: "nobody".into() },
        Request::SessionStop { session: "nobody".into() },
        Request::SessionRemove { session: "nobody".into(), force: false },
        Request::DaemonStop { keep_agents: true },
    ];
    let name = |it: &Request| {
        let value = serde_json::to_value(it).unwrap();
        value.as_object().unwrap().keys().next().unwrap().clone()
    };
    requests.into_iter().map(|request| (name(&request), request)).collect()
}

/// The names of those that are not refused for the caller's role. `except` are left out, since they
/// would end the test.
fn allowed(client: &mut Client, requests: Vec<(String, Request)>, except: &[&str]) -> Vec<String> {
    let mut allowed = Vec::new();
    for (name, request) in requests {
        if except.contains(&name.as_str()) {
            continue;
        }
        let id = client.start_call(request, None);
        // An approval is asked of the user, who says nothing: no refusal is enough.
        let answer = if name == "permission_ask" {
            client.answer_by_now(id)
        } else {
            Some(client.reply(id))
        };
        let forbidden = answer.is_some_and(
            |answer| matches!(answer, Outcome::Error(error) if error.code == ErrorCode::Forbidden),
        );
        if !forbidden {
            allowed.push(name);
        }
    }
    allowed.sort();
    allowed
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_request_is_tried() {
    let daemon = Daemon::start();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/src/request.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let body = source.split("pub enum Request {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
    let is_variant = |line: &&str| {
        line.starts_with("    ") && line[4..].starts_with(|c: char| c.is_ascii_uppercase())
    };
    let there = body.lines().filter(is_variant).count();
    assert_eq!(every_request(&daemon, "x").len(), there);
}

#[test]
fn c1_a_coordinator_may_orchestrate_and_nothing_else() {
    let (daemon, mut agents) = Agents::start();
    let mut it = agents.lead(&daemon, "coordinator");
    assert_eq!(it.boot.role, Role::Coordinator);
    let requests = every_request(&daemon, &it.boot.session);
    let want = [
        "ping",
        "peer_list",
        "send",
        "agent_spawn",
        "agent_stop",
        "structured_output",
        "team_create",
        "team_delete",
        "acknowledge",
        "run_ended",
    ];
    assert_eq!(allowed(&mut it.client, requests, &[]), sorted(&want));
}

#[test]
fn f1_a_lead_may_delegate_and_ask() {
    let (daemon, mut agents) = Agents::start();
    let mut it = agents.lead(&daemon, "normal");
    assert_eq!(it.boot.role, Role::Lead);
    let requests = every_request(&daemon, &it.boot.session);
    let want = [
        "ping",
        "peer_list",
        "send",
        "agent_spawn",
        "agent_stop",
        "permission_ask",
        "team_create",
        "team_delete",
        "acknowledge",
        "run_ended",
    ];
    assert_eq!(allowed(&mut it.client, requests, &[]), sorted(&want));
}

#[test]
fn w2_m8_c6_a_worker_may_report_and_ask_and_nothing_else() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let mut it = agents.worker(&daemon, &mut lead, "w");
    assert_eq!(it.boot.role, Role::Worker);
    let requests = every_request(&daemon, &it.boot.session);
    // How a terminal's program ended is told by its process, which is a worker's.
    let want = ["ping", "permission_ask", "terminal_ended", "acknowledge", "run_ended"];
    assert_eq!(allowed(&mut it.client, requests, &[]), sorted(&want));
}

/// L-4: a program that only takes part writes and reads, and nothing else.
#[test]
fn l4_a_peer_may_write_and_read_and_nothing_else() {
    let (daemon, mut agents) = Agents::start();
    let lead = agents.lead(&daemon, "coordinator");
    let session = lead.boot.session.clone();
    let join = Request::Join { session: session.clone(), role: Role::Peer, name: String::new() };
    let Response::Joined { credentials, role, .. } = daemon.client().ok(join) else { panic!() };
    assert_eq!((role, credentials.pid), (Role::Peer, std::process::id()));
    let mut peer = Client::connect_as(&daemon.socket(), tests::Codec::Lines, credentials).unwrap();
    let requests = every_request(&daemon, &session);
    assert_eq!(
        allowed(&mut peer, requests, &[]),
        sorted(&["ping", "send", "peer_list", "acknowledge"])
    );
}

/// The user's programs have no agent's requests: nobody can end a run that is not theirs.
#[test]
fn c1_a_user_has_no_agents_requests() {
    let (daemon, mut agents) = Agents::start();
    let it = agents.lead(&daemon, "coordinator");
    let requests = every_request(&daemon, &it.boot.session);
    let all: Vec<_> = requests.iter().map(|request| request.0.clone()).collect();
    let mut client = daemon.client();
    // Ending the daemon is tried elsewhere.
    let allowed = allowed(&mut client, requests, &["daemon_stop"]);
    let refused: Vec<_> =
        all.iter().filter(|it| !allowed.contains(it) && *it != "daemon_stop").collect();
    assert_eq!(
        refused,
        [
            "agent_spawn",
            "permission_ask",
            "structured_output",
            "terminal_ended",
            "bridge_told",
            "bridge_bring",
            "bridge_report",
            "acknowledge",
            "run_ended"
        ]
    );
}

/// rel-9: what an agent says of itself in a request changes nothing; its connection says who it is.
#[test]
fn c1_rel9_an_agent_acts_in_its_own_session_only() {
    let (daemon, mut agents) = Agents::start();
    let mut it = agents.lead(&daemon, "coordinator");
    let other = agents.lead(&daemon, "coordinator");
    // Another session's lead, by its id and by its session's name.
    for to in [other.boot.agent.clone(), other.boot.session.clone()] {
        let error = it.client.denied(Request::Send {
            session: other.boot.session.clone(),
            to,
            body: Body::text("x"),
            summary: String::new(),
            notify_when_idle: false,
        });
        assert_eq!(error.code, ErrorCode::NotFound, "{error:?}");
    }
    let error = it.client.denied(Request::AgentStop { agent: other.boot.agent.clone() });
    assert_eq!(error.code, ErrorCode::NotFound, "{error:?}");
}

/// rel-91: the secret of an earlier incarnation is worth nothing.
#[test]
fn c1_rel91_an_earlier_incarnation_is_refused() {
    let (daemon, mut agents) = Agents::start();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!([]))])));
    new.prompt = "go".into();
    daemon.client().new_session(new);
    let first = agents.next(&daemon);
    let old = tests::agents::credentials(&first.boot, first.pid);
    // It dies in the middle, and is started again.
    first.exit();
    let second = agents.next(&daemon);
    assert_eq!(second.boot.agent, first.boot.agent);
    assert!(second.boot.incarnation > first.boot.incarnation);
    assert_ne!(second.boot.token, first.boot.token);
    let error = Client::connect_as(&daemon.socket(), tests::Codec::Frames, old).unwrap_err();
    assert_eq!(error.code, ErrorCode::BadCredentials);
}

/// FP-14: what an agent starts is not the user, however it was started: it may look, and nothing else.
#[test]
fn fp14_a_program_of_an_agent_is_not_the_user() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let coordctl = tests::sandbox::program("coordctl");
    let verbs = [
        "permit allow p1",
        "permit ls",
        "new --model rehearsal --permission-mode bypassPermissions x",
        "inbound set mine accept",
        "send mine/lead hear",
        "stop mine",
        "rm --force mine",
        "daemon stop",
    ];
    // The last one has left parent, session and mark together when it connects, but for the process that is its parent now.
    let ways = [
        "",
        "env -u COORDD_AGENT_ID",
        "setsid -w",
        "env -i XDG_RUNTIME_DIR=\"$XDG_RUNTIME_DIR\" HOME=\"$HOME\"",
        "env -u COORDD_AGENT_ID setsid -f",
    ];
    let mut lines = Vec::new();
    for (n, way) in ways.iter().enumerate() {
        for (m, verb) in verbs.iter().enumerate() {
            let program = coordctl.display();
            lines.push(format!("{way} {program} {verb} >said-{n}-{m} 2>&1"));
        }
        lines.push(format!("{way} {} ls >seen-{n} 2>&1", coordctl.display()));
    }
    let wait = "for n in 1 2 3 4 5 6 7 8 9 10; do for f in said-* seen-*; do [ -s $f ] || { sleep 0.5; continue 2; }; done; break; done; true";
    lines.push(wait.to_owned());
    let steps = json!([call("Trying.", &json!([bash(&lines.join("\n"))])), say("Done.")]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.name = "mine".into();
    new.permissions = unboxed();
    new.permissions.mode = "bypassPermissions".into();
    new.prompt = "go".into();
    client.new_session(new);
    client.agent_until("mine/lead", "is done", |agent| agent.runs == 1);
    for (n, way) in ways.iter().enumerate() {
        let seen = std::fs::read_to_string(daemon.at(&format!("w/seen-{n}"))).unwrap();
        assert!(seen.contains("mine"), "{way}: {seen}");
        for (m, verb) in verbs.iter().enumerate() {
            let said = std::fs::read_to_string(daemon.at(&format!("w/said-{n}-{m}"))).unwrap();
            assert!(
                said.contains("this program was started by agent `lead`"),
                "{way} {verb}: {said}"
            );
        }
    }
    let Response::Sessions { sessions } = client.ok(Request::SessionList {}) else { panic!() };
    assert_eq!(sessions.len(), 1);
}
