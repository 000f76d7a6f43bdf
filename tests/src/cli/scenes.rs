//! Scenes that are recorded: short exchanges of each kind that a driver of Claude Code has to
//! understand.

mod conversations;
mod mcp;
mod peers;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::peer;
use super::recording::Cleaner;
use super::{Cli, Headless, Model, Script, Shown};
use crate::sandbox::Sandbox;

/// One exchange.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// The version of Claude Code; another CLI stands there with its name.
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
    Scene { version: "2.1.332", name: "turn", play: conversations::turn },
    Scene { version: "2.1.150", name: "turn", play: conversations::turn },
    Scene { version: "2.1.100", name: "turn", play: conversations::turn },
    Scene { version: "2.1.332", name: "control", play: conversations::control },
    Scene { version: "2.1.332", name: "questions", play: conversations::questions },
    Scene { version: "2.1.150", name: "questions", play: conversations::questions },
    Scene { version: "2.1.332", name: "not-asked", play: conversations::not_asked },
    Scene { version: "2.1.332", name: "api-error", play: conversations::api_error },
    Scene { version: "2.1.332", name: "api-retry", play: conversations::api_retry },
    Scene { version: "2.1.332", name: "cut-off", play: conversations::cut_off },
    Scene { version: "2.1.332", name: "max-turns", play: conversations::max_turns },
    Scene { version: "2.1.332", name: "interrupted", play: conversations::interrupted },
    Scene { version: "2.1.332", name: "resume", play: conversations::resume },
    Scene { version: "2.1.332", name: "resume-unknown", play: conversations::resume_unknown },
    Scene { version: "2.1.332", name: "said-meanwhile", play: conversations::said_meanwhile },
    Scene { version: "2.1.332", name: "pieces", play: conversations::pieces },
    Scene { version: "2.1.332", name: "background", play: conversations::background },
    Scene { version: "2.1.332", name: "schema", play: conversations::schema },
    Scene { version: "2.1.332", name: "mcp-failed", play: conversations::mcp_failed },
    Scene { version: "2.1.332", name: "mcp", play: mcp::claude },
    Scene { version: "inspector-2.12.0", name: "mcp", play: mcp::inspector },
    Scene { version: "gemini-0.61.0", name: "mcp", play: mcp::gemini },
    Scene { version: "2.1.332", name: "peer-in", play: peers::peer_in },
    Scene { version: "2.1.332", name: "peer-out", play: peers::peer_out },
    Scene { version: "2.1.332", name: "peer-held", play: peers::peer_held },
    Scene { version: "2.1.332", name: "peer-refused", play: peers::peer_refused },
    Scene { version: "2.1.332", name: "peer-several", play: peers::peer_several },
];

impl Scene {
    /// Plays it with the real program. Returns what passed, fit to be kept.
    pub fn record(&self) -> Vec<Value> {
        let sandbox = Sandbox::new();
        let mut stage = Stage { version: self.version, sandbox, model: None, lines: Vec::new() };
        (self.play)(&mut stage);
        let url = stage.model.as_ref().map(Model::url).unwrap_or_default();
        let mut cleaner = Cleaner::new(stage.sandbox.root(), &url);
        stage.lines.iter().map(|line| cleaner.value(line)).collect()
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
