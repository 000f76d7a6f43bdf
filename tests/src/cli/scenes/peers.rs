//! Scenes between sessions: a Claude Code and a stand-in for a session of another program.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Stage;
use crate::cli::peer::Peer;
use crate::cli::{CLI_LIMIT, Headless, Script};
use crate::wait;

fn message(from: &Path, text: &str, mode: &str) -> Value {
    let from = format!("uds:{}", from.display());
    let content = format!(
        "<cross-session-message from=\"{from}\" from-name=\"coordd\" from-mode=\"{mode}\">\n{text}\n</cross-session-message>"
    );
    json!({ "msgV": 1, "msg_id": "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e06", "type": "user", "priority": "next",
            "message": { "role": "user", "content": content }, "from": from })
}

/// The socket of a claude, once it has one, and what it says about itself in its file.
fn registered(stage: &mut Stage, claude: &mut Headless) -> PathBuf {
    claude.control(&json!({ "subtype": "initialize" }));
    let file = stage.sandbox.at(&format!("h/.claude/sessions/{}.json", claude.pid()));
    let entry = wait::until_within(CLI_LIMIT, "its file", || {
        let text = std::fs::read_to_string(&file).ok()?;
        let entry: Value = serde_json::from_str(&text).ok()?;
        (entry["status"] == "idle").then_some(entry)
    });
    let socket = entry["messagingSocketPath"].as_str().unwrap().into();
    stage.lines.push(json!({ "registry": entry }));
    socket
}

pub(super) fn peer_in(stage: &mut Stage) {
    stage.model(vec![Script::when("Hello there").say("Hello.").after("asked")]);
    let peer = Peer::register(&stage.sandbox, "coordd", 4_194_400);
    let mut claude = stage.claude(&["--name", "alice"]);
    let socket = registered(stage, &mut claude);
    let line = message(peer.socket(), "Hello there", "prompting");
    let notify = json!({ "type": "control", "action": "notify_when_idle", "from": line["from"],
                         "from_mode": "prompting", "msgV": 1, "msg_id": "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e07" });
    stage.wire(&socket, &line);
    claude.line("system/init");
    stage.wire(&socket, &notify);
    stage.open("asked");
    claude.result();
    stage.lines.extend(peer.told("peer_idle_notice"));
    stage.end(claude);
}

pub(super) fn peer_out(stage: &mut Stage) {
    let ask = json!({ "to": "coordd", "message": "Are you there?", "summary": "asks", "notify_when_idle": true });
    stage.model(vec![
        Script::when("Ask coordd")
            .call("ListAgents", json!({}))
            .call("SendMessage", ask)
            .call("SendMessage", json!({ "to": "nobody", "message": "x", "summary": "x" }))
            .say("Asked."),
    ]);
    let peer = Peer::register(&stage.sandbox, "coordd", 4_194_400);
    let mut claude = stage.claude(&["--name", "alice"]);
    claude.say("Ask coordd");
    claude.result();
    stage.lines.extend(peer.told("notify_when_idle"));
    stage.end(claude);
}

pub(super) fn peer_held(stage: &mut Stage) {
    stage.sandbox.set("IS_SANDBOX", "1");
    stage.model(vec![Script::when("Hello there").say("Hello.")]);
    let peer = Peer::register(&stage.sandbox, "coordd", 4_194_400);
    let mut claude = stage.claude(&["--name", "alice", "--permission-mode", "bypassPermissions"]);
    let socket = registered(stage, &mut claude);
    stage.wire(&socket, &message(peer.socket(), "Hello there", "prompting"));
    claude.line("system/peer_message_hold");
    stage.lines.extend(peer.told("peer_message_status"));
    stage.end(claude);
}

pub(super) fn peer_refused(stage: &mut Stage) {
    stage.model(Vec::new());
    let peer = Peer::register(&stage.sandbox, "coordd", 4_194_400);
    let settings = json!({ "crossSessionInbound": "refuse" }).to_string();
    let mut claude = stage.claude(&["--name", "alice", "--settings", &settings]);
    let socket = registered(stage, &mut claude);
    stage.wire(&socket, &message(peer.socket(), "Hello there", "prompting"));
    stage.lines.extend(peer.told("peer_message_status"));
    stage.end(claude);
}

/// What comes while it is busy is one turn afterwards.
pub(super) fn peer_several(stage: &mut Stage) {
    stage.model(vec![
        Script::when("Number two").say("All three."),
        Script::when("Wait").say("Waited.").after("all there"),
    ]);
    let peer = Peer::register(&stage.sandbox, "coordd", 4_194_400);
    let mut claude = stage.claude(&["--name", "alice"]);
    let socket = registered(stage, &mut claude);
    claude.say("Wait");
    claude.line("system/init");
    for text in ["Number one", "Number two"] {
        stage.wire(&socket, &message(peer.socket(), text, "prompting"));
    }
    stage.open("all there");
    claude.result();
    claude.result();
    stage.end(claude);
}
