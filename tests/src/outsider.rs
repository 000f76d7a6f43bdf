//! A session of another program that speaks for itself: listed where Claude Code 2.1.332 lists
//! itself, with the test's own process behind its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::wait;

/// How long it waits for something to be said, and for its own words to be taken.
const LIMIT: Duration = Duration::from_secs(20);

/// What it does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Reads to the end, and closes: it has the message.
    Takes,
    /// Closes without reading.
    Drops,
    /// Reads, and never closes.
    Hangs,
}

/// The session.
#[derive(Debug)]
pub struct Outsider {
    name: String,
    socket: PathBuf,
    entry: PathBuf,
    heard: Receiver<Value>,
    last: u32,
}

impl Outsider {
    /// A session that is listed, and takes what it is told.
    pub fn new(sandbox: &Sandbox, name: &str) -> Self {
        Self::with(sandbox, name, Manner::Takes)
    }

    /// One that does something else.
    pub fn with(sandbox: &Sandbox, name: &str, manner: Manner) -> Self {
        let socket = folder(sandbox, "r/cc-socks").join(format!("{name}.sock"));
        let heard = listen(&socket, manner);
        let number =
            4_500_000 + name.bytes().fold(0_u64, |sum, it| sum * 31 % 9_973 + u64::from(it));
        let entry = folder(sandbox, "h/.claude/sessions").join(format!("{number}.json"));
        let me = Self { name: name.to_owned(), socket, entry, heard, last: 0 };
        me.list(std::process::id());
        me
    }

    /// Lists it, as the session of this process.
    pub fn list(&self, pid: u32) {
        let entry = json!({
            "pid": pid, "sessionId": "0b7d2f3e-1111-4222-8333-0123456789ab", "cwd": "/elsewhere", "name": self.name,
            "messagingSocketPath": self.socket, "status": "idle", "kind": "interactive", "peerProtocol": 1,
            "pidDomain": "linux:of-the-tests:pid:[1]", "updatedAt": 1_790_000_000_000_u64,
        });
        std::fs::write(&self.entry, entry.to_string()).unwrap();
    }

    /// What it is written to.
    pub fn address(&self) -> String {
        format!("uds:{}", self.socket.display())
    }

    /// Its file in the list.
    pub fn entry(&self) -> &Path {
        &self.entry
    }

    /// The next line that it is told, without the secret.
    pub fn hear(&self) -> Value {
        loop {
            let line = self.heard.recv_timeout(LIMIT).expect("something is said");
            if line["type"] != "auth" {
                return line;
            }
        }
    }

    /// The next line, the secret too.
    pub fn hear_all(&self) -> Value {
        self.heard.recv_timeout(LIMIT).expect("something is said")
    }

    /// That nothing was said to it so far: what it says to itself now is the first.
    pub fn assert_silence(&self) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(b"{\"own\":true}\n").unwrap();
        drop(stream);
        assert_eq!(self.heard.recv_timeout(LIMIT).unwrap(), json!({ "own": true }));
    }

    /// Words from it, under a fresh number.
    pub fn words(&mut self, text: &str, mode: &str) -> Value {
        self.last += 1;
        let (from, name) = (self.address(), &self.name);
        let content = format!(
            "<cross-session-message from=\"{from}\" from-name=\"{name}\" from-mode=\"{mode}\">\n{text}\n</cross-session-message>"
        );
        json!({
            "msgV": 1, "msg_id": format!("{name}-{}", self.last), "type": "user", "priority": "next", "from": from,
            "message": { "role": "user", "content": content },
        })
    }

    /// A line of the control kind.
    pub fn control(&self, action: &str, more: &Value) -> Value {
        let mut line = json!({
            "type": "control", "action": action, "from": self.address(), "msgV": 1,
            "msg_id": format!("{}-{action}", self.name),
        });
        let all = line.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        line
    }
}

/// A folder that is closed to others, made if need be.
fn folder(sandbox: &Sandbox, path: &str) -> PathBuf {
    let path = sandbox.at(path);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

fn listen(socket: &Path, manner: Manner) -> Receiver<Value> {
    let listener = UnixListener::bind(socket).unwrap();
    let (tell, heard) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            if manner == Manner::Drops {
                continue;
            }
            let mut text = String::new();
            let _broken = stream.read_to_string(&mut text);
            for line in text.lines() {
                let line = serde_json::from_str(line).unwrap_or(Value::String(line.to_owned()));
                // The test may be over.
                let _told = tell.send(line);
            }
            if manner == Manner::Hangs {
                kept.push(stream);
            }
        }
    });
    heard
}

/// Says lines to a socket as another program does. Returns whether they were taken: the connection
/// is closed in time, without a byte.
pub fn say(socket: &Path, lines: &[Value]) -> bool {
    let mut stream = UnixStream::connect(socket).unwrap();
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    let text = lines.join("\n");
    if stream.write_all(text.as_bytes()).is_err() {
        return false;
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut said = Vec::new();
    let closed = stream.read_to_end(&mut said).is_ok();
    assert!(said.is_empty(), "a byte is no answer: {said:?}");
    closed
}

/// All who are listed in a sandbox, by the name of their file.
pub fn listed(sandbox: &Sandbox) -> Vec<(String, Value)> {
    let Ok(folder) = std::fs::read_dir(sandbox.at("h/.claude/sessions")) else { return Vec::new() };
    let mut all: Vec<_> = folder
        .map(|folder| folder.unwrap().path())
        .filter(|it| it.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|it| {
            let name = it.file_name().unwrap().to_str().unwrap().to_owned();
            // One that is being written is not there yet.
            if name.starts_with('.') {
                return None;
            }
            Some((name, serde_json::from_slice(&std::fs::read(&it).ok()?).ok()?))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The entry of a session of ours, once it is listed so.
pub fn listed_as(sandbox: &Sandbox, name: &str, status: &str) -> Value {
    wait::until("the session is listed", || {
        let all = listed(sandbox).into_iter().map(|it| it.1);
        all.into_iter().find(|it| it["name"] == name && it["status"] == status)
    })
}

/// The socket in an entry.
pub fn socket_of(entry: &Value) -> PathBuf {
    PathBuf::from(entry["messagingSocketPath"].as_str().unwrap())
}
