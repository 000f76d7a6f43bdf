//! A CLI without a terminal that is spoken to in lines of JSON, and answers in them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::CLI_LIMIT;
use crate::processes::Process;
use crate::wait;

#[derive(Debug, Default)]
struct Out {
    lines: Vec<Value>,
    /// What passed both ways, each line under `in` (to the CLI) or `out`.
    traffic: Vec<Value>,
    is_over: bool,
}

/// A running CLI. It ends when this is dropped.
#[derive(Debug)]
pub struct Headless {
    child: Child,
    input: Option<ChildStdin>,
    out: Arc<(Mutex<Out>, Condvar)>,
    errors: Option<JoinHandle<String>>,
    /// So many lines were looked at.
    read: usize,
    calls: usize,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; 128 and more for a signal.
    pub code: i32,
    /// All that it said.
    pub lines: Vec<Value>,
    pub stderr: String,
}

impl Headless {
    /// Starts it with pipes.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = Arc::new((Mutex::new(Out::default()), Condvar::new()));
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let kept = Arc::clone(&out);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // What is no JSON is kept too, so that a failed test shows it.
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                let mut out = kept.0.lock().unwrap();
                out.traffic.push(json!({ "out": line }));
                out.lines.push(line);
                drop(out);
                kept.1.notify_all();
            }
            kept.0.lock().unwrap().is_over = true;
            kept.1.notify_all();
        });
        let mut stderr = child.stderr.take().expect("a pipe");
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _broken = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let input = child.stdin.take();
        Self { child, input, out, errors: Some(errors), read: 0, calls: 0 }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line.
    pub fn write(&mut self, line: &Value) {
        self.out.0.lock().unwrap().traffic.push(json!({ "in": line }));
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("it reads");
    }

    /// Says something as the user.
    pub fn say(&mut self, text: &str) {
        self.write(&json!({ "type": "user", "message": { "role": "user", "content": text } }));
    }

    /// Asks for something of the control protocol, and waits for the answer.
    pub fn control(&mut self, request: &Value) -> Value {
        self.calls += 1;
        let id = format!("of-the-test-{}", self.calls);
        self.write(&json!({ "type": "control_request", "request_id": id, "request": request }));
        self.wait_for("an answer of the control protocol", |line| {
            (line["type"] == "control_response" && line["response"]["request_id"] == id.as_str())
                .then(|| line["response"].clone())
        })
    }

    /// Grants a tool call that it asked about.
    pub fn allow(&mut self, question: &Value) {
        let input = &question["request"]["input"];
        self.answer(question, &json!({ "behavior": "allow", "updatedInput": input }));
    }

    /// Refuses a tool call that it asked about.
    pub fn deny(&mut self, question: &Value, why: &str) {
        self.answer(question, &json!({ "behavior": "deny", "message": why }));
    }

    fn answer(&mut self, question: &Value, response: &Value) {
        let id = &question["request_id"];
        let response = json!({ "subtype": "success", "request_id": id, "response": response });
        self.write(&json!({ "type": "control_response", "response": response }));
    }

    /// The next line, of those that were not looked at, in which this finds something.
    pub fn wait_for<T>(&mut self, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        if let Some(found) = self.wait_within(CLI_LIMIT, look) {
            return found;
        }
        let _gone = self.child.kill();
        let errors = self.errors.take().and_then(|error| error.join().ok()).unwrap_or_default();
        panic!("it did not say {what}; it said\n{}\n{errors}", shown(&self.lines()));
    }

    /// The same for what may not come: nothing when the time is up, or when it has ended.
    pub fn wait_within<T>(
        &mut self,
        limit: Duration,
        look: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut out = self.out.0.lock().unwrap();
        loop {
            while let Some(line) = out.lines.get(self.read) {
                self.read += 1;
                if let Some(found) = look(line) {
                    return Some(found);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if out.is_over || left.is_zero() {
                return None;
            }
            out = self.out.1.wait_timeout(out, left).unwrap().0;
        }
    }

    /// The next line of this type, and of this subtype where there is one.
    pub fn line(&mut self, kind: &str) -> Value {
        let (kind, subtype) = kind.split_once('/').unwrap_or((kind, ""));
        self.wait_for(kind, |line| {
            let fits = line["type"] == kind && (subtype.is_empty() || line["subtype"] == subtype);
            fits.then(|| line.clone())
        })
    }

    /// The result of the turn.
    pub fn result(&mut self) -> Value {
        self.line("result")
    }

    /// The next question about a tool call.
    pub fn question(&mut self) -> Value {
        self.wait_for("a question about a tool", |line| {
            let asks =
                line["type"] == "control_request" && line["request"]["subtype"] == "can_use_tool";
            asks.then(|| line.clone())
        })
    }

    /// All that it said so far.
    pub fn lines(&self) -> Vec<Value> {
        self.out.0.lock().unwrap().lines.clone()
    }

    /// All that passed both ways so far, each line under `in` (to the CLI) or `out`.
    pub fn traffic(&self) -> Vec<Value> {
        self.out.0.lock().unwrap().traffic.clone()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = Process::open(self.pid()) {
            process.signal(signal);
        }
    }

    /// Closes its input, and waits for its end.
    pub fn end(mut self) -> Ended {
        drop(self.input.take());
        self.wait()
    }

    /// The same for a recording: what passed both ways, and its exit code.
    pub(super) fn finish(self) -> (Vec<Value>, i32) {
        let out = Arc::clone(&self.out);
        let code = self.end().code;
        let traffic = out.0.lock().unwrap().traffic.clone();
        (traffic, code)
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let status =
            wait::until_within(CLI_LIMIT, "the CLI ends", || self.child.try_wait().unwrap());
        let stderr = self.errors.take().map(|error| error.join().unwrap()).unwrap_or_default();
        let out = self.out.0.lock().unwrap();
        let out = self.out.1.wait_timeout_while(out, CLI_LIMIT, |it| !it.is_over).unwrap().0;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default();
        Ended { code: status.code().unwrap_or(128 + signal), lines: out.lines.clone(), stderr }
    }
}

impl Drop for Headless {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Lines, each cut to what a person can read.
fn shown(lines: &[Value]) -> String {
    let cut = |it: &Value| it.to_string().chars().take(400).collect::<String>();
    lines.iter().map(cut).collect::<Vec<_>>().join("\n")
}
