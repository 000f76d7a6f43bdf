//! Scripts for the rehearsal model. Its file format is described in `coordd/worker/src/model/rehearsal.rs`.

use serde_json::{Value, json};

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
