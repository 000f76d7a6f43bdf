//! A stand-in for Claude Code without a terminal: it speaks the lines of 2.1.332 and does what a
//! script says.
//!
//! ```text
//!   claude -p … --session-id ID | --resume ID      the script is a file, named in STAND_IN_SCRIPT
//! ```
//!
//! The script is a JSON list of steps. They go on where they stopped when it is started again: how
//! far it came is beside the record of the conversation, which is where Claude Code has it, under
//! `~/.claude/projects`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it is a part of tests, which fail by panicking, and ends as the real one does, at once"
)]

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Between two looks at a file that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

struct StandIn {
    session: String,
    record: PathBuf,
    position: PathBuf,
    input: Receiver<Value>,
    /// Lines of the user that no turn has taken up.
    waiting: VecDeque<Value>,
    answers: Vec<Value>,
    interrupted: bool,
    last_call: String,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned()
    };
    let steps =
        std::fs::read_to_string(std::env::var("STAND_IN_SCRIPT").expect("a script")).unwrap();
    let steps: Vec<Value> = serde_json::from_str(&steps).unwrap();
    if let Some(said) = steps.first().and_then(|step| step["refuse"].as_str()) {
        eprintln!("{said}");
        std::process::exit(1);
    }
    let home = std::env::var("HOME").unwrap();
    let folder = Path::new(&home).join(".claude/projects/-somewhere");
    std::fs::create_dir_all(&folder).unwrap();
    let resumed = value("--resume");
    let session = resumed.clone().or(value("--session-id")).expect("a conversation");
    let record = folder.join(format!("{session}.jsonl"));
    if resumed.is_some() != record.exists() {
        let said = if resumed.is_some() {
            format!("No conversation found with session ID: {session}")
        } else {
            format!("Error: Session ID {session} is already in use.")
        };
        eprintln!("{said}");
        std::process::exit(1);
    }
    std::fs::write(format!("{home}/claude.args"), args.join("\n")).unwrap();
    let (sender, input) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).expect("a line of JSON")).is_err() {
                return;
            }
        }
    });
    let mut it = StandIn {
        session,
        record,
        // One script is one job, whatever becomes of the conversation.
        position: Path::new(&home).join("claude.position"),
        input,
        waiting: VecDeque::new(),
        answers: Vec::new(),
        interrupted: false,
        last_call: String::new(),
    };
    it.play(&steps);
}

impl StandIn {
    fn play(&mut self, steps: &[Value]) {
        let mut at: usize = std::fs::read_to_string(&self.position)
            .ok()
            .and_then(|it| it.parse().ok())
            .unwrap_or(0);
        loop {
            self.begin_turn();
            loop {
                let step = steps
                    .get(at)
                    .cloned()
                    .unwrap_or_else(|| json!({ "say": "The script is over." }));
                at += 1;
                std::fs::write(&self.position, at.to_string()).unwrap();
                let ends = self.step(&step);
                if std::mem::take(&mut self.interrupted) {
                    self.say(&json!({ "type": "result", "subtype": "error_during_execution", "is_error": true,
                                      "terminal_reason": "aborted_streaming", "errors": ["interrupted"] }));
                    break;
                }
                if ends {
                    break;
                }
            }
        }
    }

    /// Takes up a line of the user; ends where there will be none.
    fn begin_turn(&mut self) {
        while self.waiting.is_empty() {
            match self.input.recv() {
                Ok(line) => self.take(line),
                Err(_) => std::process::exit(0),
            }
        }
        let line = self.waiting.pop_front().unwrap();
        self.lifecycle(&line, "started");
        self.say(&json!({ "type": "system", "subtype": "init", "claude_code_version": "2.1.332" }));
        self.keep(&json!({ "type": "user", "uuid": line["uuid"], "message": line["message"] }));
        self.echo(&line);
    }

    /// One step. True when the turn ends with it.
    fn step(&mut self, step: &Value) -> bool {
        if let Some(text) = step["say"].as_str() {
            self.answer(&json!({ "type": "text", "text": text }));
            let rest = json!({ "type": "result", "subtype": "success", "is_error": false, "result": text,
                               "usage": { "input_tokens": 100, "output_tokens": 10 }, "terminal_reason": "completed",
                               "total_cost_usd": 7, "model_usage_since_last_result": { "m": { "costUSD": 0.5 } } });
            self.say(&rest);
            return true;
        }
        if let Some(text) = step["begin"].as_str() {
            self.event(&json!({ "type": "message_start", "message": { "usage": { "input_tokens": 100 } } }));
            self.event(&json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": text } }));
        } else if let Some(name) = step["tool"].as_str() {
            self.last_call = format!("toolu_{}", std::fs::read_to_string(&self.position).unwrap());
            self.answer(&json!({ "type": "tool_use", "id": self.last_call, "name": name, "input": step["input"] }));
        } else if let Some(text) = step["result"].as_str() {
            self.result(text, false);
        } else if step["ask"].is_object() {
            self.ask(&step["ask"]);
        } else if let Some(path) = step["until"].as_str() {
            while !Path::new(path).exists() && !self.interrupted {
                self.listen();
            }
        } else if let Some(path) = step["asks_and_dies"].as_str() {
            self.question(&json!({ "command": "mkdir x" }));
            while !Path::new(path).exists() {
                self.listen();
            }
            std::process::exit(9);
        } else if step["drop"].is_boolean() {
            for line in std::mem::take(&mut self.waiting) {
                self.lifecycle(&line, "cancelled");
            }
        } else if step["told"].is_boolean() {
            while self.waiting.is_empty() {
                self.listen();
            }
        } else if let Some(path) = step["touch"].as_str() {
            std::fs::write(path, std::process::id().to_string()).unwrap();
        } else if step["raw"].is_object() {
            self.say(&step["raw"]);
            return step["raw"]["type"] == "result";
        } else if let Some(len) = step["long"].as_u64() {
            println!(
                "{{\"type\":\"user\",\"x\":\"{}\"}}",
                "x".repeat(usize::try_from(len).unwrap())
            );
        } else if let Some(text) = step["garbage"].as_str() {
            println!("{text}");
        } else if let Some(text) = step["die"].as_str() {
            eprintln!("{text}");
            std::process::exit(7);
        } else {
            panic!("no step: {step}");
        }
        false
    }

    fn answer(&self, block: &Value) {
        self.event(
            &json!({ "type": "message_start", "message": { "usage": { "input_tokens": 100 } } }),
        );
        self.say(&json!({ "type": "assistant", "message": { "model": "m", "content": [block] } }));
        self.event(&json!({ "type": "message_delta", "usage": { "output_tokens": 10 } }));
        self.event(&json!({ "type": "message_stop" }));
        self.keep(&json!({ "type": "assistant", "message": { "content": [block] } }));
    }

    /// The result of the last call; what came meanwhile enters with it.
    fn result(&mut self, text: &str, is_error: bool) {
        self.say(&json!({ "type": "user", "message": { "content": [
            { "type": "tool_result", "tool_use_id": self.last_call, "content": text, "is_error": is_error }] } }));
        while let Ok(line) = self.input.try_recv() {
            self.take(line);
        }
        for line in std::mem::take(&mut self.waiting) {
            self.echo(&line);
            self.lifecycle(&line, "started");
            self.keep(&json!({ "attachment": { "source_uuid": line["uuid"] } }));
        }
    }

    fn question(&self, input: &Value) {
        self.say(&json!({ "type": "control_request", "request_id": "ask-1", "request": {
            "subtype": "can_use_tool", "tool_name": "Bash", "input": input, "tool_use_id": self.last_call } }));
    }

    fn ask(&mut self, input: &Value) {
        self.question(input);
        let home = std::env::var("HOME").unwrap();
        std::fs::write(format!("{home}/claude.asked"), "").unwrap();
        while self.answers.is_empty() && !self.interrupted {
            self.listen();
        }
        let Some(answer) = self.answers.pop() else { return };
        let answer = &answer["response"]["response"];
        if answer["behavior"] == "allow" {
            self.result("It ran.", false);
        } else {
            self.result(answer["message"].as_str().unwrap(), true);
        }
    }

    fn listen(&mut self) {
        match self.input.recv_timeout(LOOK_EVERY) {
            Ok(line) => self.take(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::process::exit(0),
        }
    }

    fn take(&mut self, line: Value) {
        let request = &line["request_id"];
        match line["type"].as_str() {
            Some("user") => {
                self.lifecycle(&line, "queued");
                self.waiting.push_back(line);
            }
            Some("control_response") => self.answers.push(line),
            Some("control_request") => {
                self.interrupted |= line["request"]["subtype"] == "interrupt";
                self.say(&json!({ "type": "control_response", "response": { "subtype": "success",
                    "request_id": request, "response": { "claude_code_version": version() } } }));
            }
            other => panic!("a line of {other:?}"),
        }
    }

    fn echo(&self, line: &Value) {
        self.say(&json!({ "type": "user", "uuid": line["uuid"], "message": line["message"], "isReplay": true }));
    }

    fn lifecycle(&self, line: &Value, state: &str) {
        self.say(
            &json!({ "type": "command_lifecycle", "command_uuid": line["uuid"], "state": state }),
        );
    }

    fn event(&self, event: &Value) {
        self.say(&json!({ "type": "stream_event", "event": event }));
    }

    fn say(&self, line: &Value) {
        let mut line = line.clone();
        line["session_id"] = json!(self.session);
        let mut out = std::io::stdout().lock();
        // The reader may be gone.
        let _closed = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    fn keep(&self, line: &Value) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.record).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

fn version() -> String {
    std::env::var("STAND_IN_VERSION").unwrap_or_else(|_| "2.1.332".to_owned())
}
