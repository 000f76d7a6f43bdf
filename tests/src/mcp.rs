//! A client of the Model Context Protocol that writes its lines by hand: what a program that starts
//! `coordctl mcp` does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, program};
use crate::wait;

/// Lines of a server that wait to be looked at.
const LINES_MAX: usize = 1_000;

/// A server that was started, and its client.
#[derive(Debug)]
pub struct McpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    last_id: u64,
}

/// What a tool gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub text: String,
    pub is_error: bool,
}

impl McpClient {
    /// Starts `coordctl mcp` with these arguments, and shakes hands.
    pub fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut client = Self::spawn(sandbox, arguments);
        client.initialize();
        client
    }

    /// Starts it only.
    pub fn spawn(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut command = sandbox.command(program("coordctl"));
        command.arg("mcp").args(arguments);
        Self::of(command)
    }

    /// Starts this.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = sync_channel(LINES_MAX);
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = child.stderr.take().map(|it| thread::spawn(move || whole(it)));
        let stdin = child.stdin.take();
        Self { child, stdin, lines, stderr, last_id: 0 }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one message.
    pub fn say(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("its end is open");
        stdin.write_all(format!("{message}\n").as_bytes()).expect("the server reads");
    }

    /// The next message. Everything on the server's stdout is one.
    pub fn hear(&mut self) -> Value {
        let line = self.lines.recv_timeout(wait::CONDITION_LIMIT).expect("the server answers");
        let message: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("on stdout, and no MCP: {line:?}: {error}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// Shakes hands.
    pub fn initialize(&mut self) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                             "clientInfo": { "name": "a test", "version": "1" } });
        let answer = self.request("initialize", &params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "coordd", "{answer}");
        assert!(answer["result"]["instructions"].as_str().unwrap().contains("WaitForMessages"));
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Sends a request and does not wait. Returns its id.
    pub fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The answer to a request.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        loop {
            let answer = self.hear();
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// The names of the tools.
    pub fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, input: &Value) -> ToolResult {
        let answer = self.request("tools/call", &json!({ "name": tool, "arguments": input }));
        let result = &answer["result"];
        ToolResult {
            text: result["content"][0]["text"]
                .as_str()
                .unwrap_or_else(|| panic!("{tool}: {answer}"))
                .to_owned(),
            is_error: result["isError"] == true,
        }
    }

    /// Calls a tool, which must succeed.
    pub fn ok(&mut self, tool: &str, input: &Value) -> String {
        let result = self.call(tool, input);
        assert!(!result.is_error, "{tool}: {}", result.text);
        result.text
    }

    /// Waits until a message has this in it. What came before it is passed over.
    pub fn until(&mut self, what: &str) -> String {
        wait::until(what, || {
            let text = self.ok("WaitForMessages", &json!({ "timeout_s": 5 }));
            text.contains(what).then_some(text)
        })
    }

    /// Closes its end and waits for the server's.
    pub fn close(&mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.ended()
    }

    /// Waits for the end of the server.
    pub fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait::until("the server ends", || child.try_wait().unwrap())
    }

    /// Ends it in the middle.
    pub fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The same of one that is to end by itself.
    pub fn said_at_end(mut self) -> String {
        self.ended();
        self.said()
    }

    /// What it said on stderr, once it has ended.
    pub fn said(&mut self) -> String {
        self.stderr.take().map(|it| it.join().unwrap()).unwrap_or_default()
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn whole(mut from: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _read = std::io::Read::read_to_end(&mut from, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
