//! Scenes that are recorded: short exchanges of each kind that a driver of Claude Code has to understand.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::peer::{self, Peer};
use super::recording::Cleaner;
use super::{Cli, Headless, Model, Script};
use crate::sandbox::Sandbox;

/// One exchange.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    pub version: &'static str,
    /// The name of its recording.
    pub name: &'static str,
    play: fn(&mut Stage),
}

/// What a scene is played on.
#[derive(Debug)]
struct Stage {
    version: &'static str,
    sandbox: Sandbox,
    model: Option<Model>,
    lines: Vec<Value>,
}

/// All of them.
pub const SCENES: &[Scene] = &[
    Scene { version: "2.1.332", name: "turn", play: turn },
    Scene { version: "2.1.150", name: "turn", play: turn },
    Scene { version: "2.1.100", name: "turn", play: turn },
    Scene { version: "2.1.332", name: "control", play: control },
    Scene { version: "2.1.332", name: "questions", play: questions },
    Scene { version: "2.1.150", name: "questions", play: questions },
    Scene { version: "2.1.332", name: "not-asked", play: not_asked },
    Scene { version: "2.1.332", name: "api-error", play: api_error },
    Scene { version: "2.1.332", name: "max-turns", play: max_turns },
    Scene { version: "2.1.332", name: "interrupted", play: interrupted },
    Scene { version: "2.1.332", name: "resume", play: resume },
    Scene { version: "2.1.332", name: "resume-unknown", play: resume_unknown },
    Scene { version: "2.1.332", name: "said-meanwhile", play: said_meanwhile },
    Scene { version: "2.1.332", name: "pieces", play: pieces },
    Scene { version: "2.1.332", name: "background", play: background },
    Scene { version: "2.1.332", name: "schema", play: schema },
    Scene { version: "2.1.332", name: "mcp-failed", play: mcp_failed },
    Scene { version: "2.1.332", name: "peer-in", play: peer_in },
    Scene { version: "2.1.332", name: "peer-out", play: peer_out },
    Scene { version: "2.1.332", name: "peer-held", play: peer_held },
];

impl Scene {
    /// Plays it with the real program. Returns what passed, fit to be kept.
    pub fn record(&self) -> Vec<Value> {
        let sandbox = Sandbox::new();
        let mut stage = Stage { version: self.version, sandbox, model: None, lines: Vec::new() };
        (self.play)(&mut stage);
        let url = stage.model.as_ref().map(Model::url).unwrap_or_default();
        let mut cleaner = Cleaner::new(stage.sandbox.root(), &url);
        stage.lines.iter().map(|it| cleaner.value(it)).collect()
    }

    /// Where its recording is.
    pub fn path(&self) -> PathBuf {
        super::recording::folder().join(self.version).join(format!("{}.jsonl", self.name))
    }
}

impl Stage {
    fn model(&mut self, scripts: Vec<Script>) -> &Model {
        self.model.insert(Model::start(&mut self.sandbox, scripts))
    }

    fn open(&self, gate: &str) {
        self.model.as_ref().expect("a model").open(gate);
    }

    fn claude(&self, arguments: &[&str]) -> Headless {
        Cli::claude(self.version).headless(&self.sandbox, arguments)
    }

    /// Ends it, and keeps what passed.
    fn end(&mut self, claude: Headless) {
        let (traffic, code) = claude.finish();
        self.lines.extend(traffic);
        self.lines.push(json!({ "exit": code }));
    }

    /// Writes a line to a socket, and keeps it.
    fn wire(&mut self, to: &Path, line: &Value) {
        peer::send(to, line);
        self.lines.push(json!({ "wire": line }));
    }
}

const ASKS: [&str; 2] = ["--permission-prompt-tool", "stdio"];

fn touch(file: &str) -> Value {
    json!({ "command": format!("touch {file}"), "description": "makes a file" })
}

fn turn(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

fn control(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.control(&json!({ "subtype": "initialize" }));
    claude.control(&json!({ "subtype": "set_permission_mode", "mode": "acceptEdits" }));
    claude.control(&json!({ "subtype": "set_model", "model": "claude-sonnet-4-5" }));
    claude.control(&json!({ "subtype": "mcp_status" }));
    claude.control(&json!({ "subtype": "stop_task", "task_id": "nobody" }));
    claude.control(&json!({ "subtype": "interrupt" }));
    claude.control(&json!({ "subtype": "unheard_of" }));
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

fn questions(stage: &mut Stage) {
    stage.model(vec![
        Script::when("Two files")
            .call("Bash", touch("one"))
            .call("Bash", touch("two"))
            .say("One of them."),
    ]);
    let mut claude = stage.claude(&ASKS);
    claude.say("Two files");
    let question = claude.question();
    claude.allow(&question);
    let question = claude.question();
    claude.deny(&question, "One is enough.");
    claude.result();
    stage.end(claude);
}

fn not_asked(stage: &mut Stage) {
    stage.model(vec![Script::when("A file").call("Bash", touch("one")).say("None.")]);
    let mut claude = stage.claude(&[]);
    claude.say("A file");
    claude.result();
    stage.end(claude);
}

fn api_error(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").fail(400, "not today", 99).say("Fine.")]);
    let mut claude = stage.claude(&[]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

fn max_turns(stage: &mut Stage) {
    let look = || json!({ "command": "true", "description": "looks" });
    stage.model(vec![
        Script::when("Look").call("Bash", look()).call("Bash", look()).call("Bash", look()),
    ]);
    let mut claude = stage.claude(&["--max-turns", "2"]);
    claude.say("Look");
    claude.result();
    stage.end(claude);
}

fn interrupted(stage: &mut Stage) {
    stage.model(vec![
        Script::when("Tell me").begin("It was a long", "never"),
        Script::when("Shorter").say("It was."),
    ]);
    let mut claude = stage.claude(&[]);
    claude.say("Tell me");
    claude.line("system/init");
    let model = stage.model.as_ref().expect("a model");
    model.wait_for("the request", |it| it.script.is_some());
    claude.control(&json!({ "subtype": "interrupt" }));
    claude.result();
    claude.say("Shorter");
    claude.result();
    stage.end(claude);
}

fn resume(stage: &mut Stage) {
    let id = "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e01";
    stage.model(vec![
        Script::when("How are you?").say("Fine."),
        Script::when("Still?").say("Still fine."),
    ]);
    for (arguments, says) in [(["--session-id", id], "How are you?"), (["--resume", id], "Still?")]
    {
        let mut claude = stage.claude(&arguments);
        claude.say(says);
        claude.result();
        stage.end(claude);
    }
}

fn resume_unknown(stage: &mut Stage) {
    stage.model(Vec::new());
    let mut claude = stage.claude(&["--resume", "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e02"]);
    claude.result();
    stage.end(claude);
}

fn said_meanwhile(stage: &mut Stage) {
    let wait = json!({ "command": "until [ -e go ]; do sleep 0.05; done", "description": "waits" });
    let news = Script::when("And the news?").say("Heard.");
    stage.model(vec![news, Script::when("Wait").call("Bash", wait)]);
    let mut claude = stage.claude(&["--replay-user-messages", "--allowedTools", "Bash"]);
    let said = |text: &str, uuid: &str| json!({ "type": "user", "uuid": uuid, "message": { "role": "user", "content": text } });
    claude.write(&said("Wait", "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e03"));
    claude.line("assistant");
    claude.write(&said("And the news?", "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e04"));
    claude.wait_for("it is queued", |line| (line["state"] == "queued").then_some(()));
    stage.sandbox.write("w/go", "");
    claude.result();
    stage.end(claude);
}

fn pieces(stage: &mut Stage) {
    stage.model(vec![
        Script::when("How are you?")
            .call("Bash", json!({ "command": "true", "description": "looks" }))
            .say("Quite fine."),
    ]);
    let mut claude = stage.claude(&["--include-partial-messages"]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

fn background(stage: &mut Stage) {
    let agent =
        json!({ "description": "counts", "prompt": "Count to three", "run_in_background": true });
    stage.model(vec![
        Script::when("<task-notification>").say("It has counted."),
        Script::when("Count to three").say("1 2 3").after("counted"),
        Script::when("Have it counted").call("Agent", agent).say("It counts."),
    ]);
    let mut claude = stage.claude(&[]);
    claude.say("Have it counted");
    claude.result();
    stage.open("counted");
    claude.result();
    stage.end(claude);
}

fn schema(stage: &mut Stage) {
    stage.model(vec![
        Script::when("How are you?")
            .call("StructuredOutput", json!({ "mood": "fine" }))
            .say("Said."),
    ]);
    let schema = json!({ "type": "object", "required": ["mood"], "properties": { "mood": { "type": "string" } } });
    let mut claude = stage.claude(&["--json-schema", &schema.to_string()]);
    claude.say("How are you?");
    claude.result();
    stage.end(claude);
}

fn mcp_failed(stage: &mut Stage) {
    stage.model(vec![Script::when("How are you?").say("Fine.")]);
    let servers = json!({ "mcpServers": { "gone": { "type": "stdio", "command": "/bin/false" } } });
    let mut claude = stage.claude(&["--mcp-config", &servers.to_string(), "--strict-mcp-config"]);
    claude.say("How are you?");
    claude.result();
    claude.control(&json!({ "subtype": "mcp_status" }));
    stage.end(claude);
}

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
    let entry = crate::wait::until_within(super::CLI_LIMIT, "its file", || {
        let text = std::fs::read_to_string(&file).ok()?;
        let entry: Value = serde_json::from_str(&text).ok()?;
        (entry["status"] == "idle").then_some(entry)
    });
    let socket = entry["messagingSocketPath"].as_str().unwrap().into();
    stage.lines.push(json!({ "registry": entry }));
    socket
}

fn peer_in(stage: &mut Stage) {
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

fn peer_out(stage: &mut Stage) {
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

fn peer_held(stage: &mut Stage) {
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
