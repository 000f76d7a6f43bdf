//! Scripts for the rehearsal model. Its file format is described in
//! `coordd/worker/src/model/rehearsal.rs`.

use proto::agent::{Model, Permissions, Provider, Runtime};
use proto::request::NewSession;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A session to be made in a sandbox's workspace, in this mode, with a script for its agents.
pub fn session(sandbox: &Sandbox, mode: &str, script: &Value) -> NewSession {
    let file = sandbox.root().join(format!("script-{}.json", fresh_number()));
    std::fs::write(&file, serde_json::to_vec_pretty(script).unwrap()).unwrap();
    NewSession {
        name: String::new(),
        cwd: sandbox.work().to_str().unwrap().to_owned(),
        mode: Some(mode.to_owned()),
        mode_variable: None,
        simple_variable: None,
        env: sandbox.vars().clone(),
        model: Some(Model {
            provider: Provider::Rehearsal,
            name: String::new(),
            base_url: None,
            rehearsal_file: Some(file.to_str().unwrap().to_owned()),
        }),
        runtime: Runtime::Native,
        lead_runtime: Runtime::Native,
        permissions: unboxed(),
        scratchpad: true,
        max_turns: 0,
        run_s: 0,
        workers: 0,
        prompt: String::new(),
        cross_session_inbound: String::new(),
        host_for: String::new(),
    }
}

/// No rules, and no box: for tests about other things, whose commands meet in files all over the test's folder.
pub fn unboxed() -> Permissions {
    let mut permissions = Permissions::default();
    permissions.sandbox.off = true;
    permissions
}

fn fresh_number() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// A script without pauses.
pub fn script(agents: &Value) -> Value {
    json!({ "pace_ms": 0, "agents": agents })
}

/// What leads say: those who can start others.
pub fn lead(steps: &Value) -> Value {
    json!({ "when": { "has_tool": "Agent" }, "steps": steps, "after": "Nothing more to do." })
}

/// What workers say.
pub fn worker(steps: &Value) -> Value {
    json!({ "when": { "lacks_tool": "Agent" }, "steps": steps, "after": "Nothing more to do." })
}

/// What those workers say whose task fits the pattern.
pub fn worker_of(prompt_matches: &str, steps: &Value) -> Value {
    json!({
        "when": { "lacks_tool": "Agent", "prompt_matches": prompt_matches },
        "steps": steps, "after": "Nothing more to do."
    })
}

/// A call that starts a worker.
pub fn start(name: &str, prompt: &str) -> Value {
    json!({ "name": "Agent", "input": { "name": name, "description": name, "prompt": prompt } })
}

/// A shell command.
pub fn bash(command: &str) -> Value {
    json!({ "name": "Bash", "input": { "command": command, "description": "a step of the script" } })
}

/// A step that only says something.
pub fn say(text: &str) -> Value {
    json!({ "text": text })
}

/// A step that calls tools.
pub fn call(text: &str, tools: &Value) -> Value {
    json!({ "text": text, "tools": tools })
}
