//! A stand-in for a session of another program, as Claude Code 2.1.332 finds it: a socket, a key,
//! and a file that says so.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::CLI_LIMIT;
use crate::sandbox::Sandbox;
use crate::wait;

/// A peer that is no Claude Code. It reads whatever it is told.
#[derive(Debug)]
pub struct Peer {
    socket: PathBuf,
    /// What it was told, line by line, under `wire`.
    told: Arc<Mutex<Vec<Value>>>,
}

impl Peer {
    /// Makes it known to the claudes of a sandbox. The number is that of its file: one that no
    /// process has.
    pub fn register(sandbox: &Sandbox, name: &str, number: u64) -> Self {
        let folder = sandbox.at("r/cc-socks");
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join(format!("{name}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&told);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut text = String::new();
                let _broken = stream.read_to_string(&mut text);
                let line = |it| json!({ "wire": serde_json::from_str::<Value>(it).unwrap() });
                kept.lock().unwrap().extend(text.lines().map(line));
            }
        });
        let (pid, domain) = (json!(number), "of:the-tests");
        let entry = json!({
            "pid": pid, "sessionId": "6f0b5f3c-9a4e-4c1e-8d55-2b1f6a7c9e05", "cwd": sandbox.work(),
            "name": name, "kind": "interactive", "peerProtocol": 1, "peerFeatures": ["notify_idle"],
            "pidDomain": domain, "procStart": "1", "messagingSocketPath": socket, "status": "idle",
        });
        let ran = sandbox.shell(&format!("printf %s '{}' | sha256sum", socket.display()));
        let digest = ran.stdout.split(' ').next().unwrap_or_default().to_owned();
        let key = json!({ "peerToken": "0123456789abcdef0123456789abcdef", "procStart": "1", "pidDomain": domain });
        sandbox.write(&format!("h/.claude/sessions/{number}.{digest}.key"), key.to_string());
        sandbox.write(&format!("h/.claude/sessions/{number}.json"), entry.to_string());
        Self { socket, told }
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// All that it was told, once it was told something with this word in it.
    pub fn told(&self, word: &str) -> Vec<Value> {
        wait::until_within(CLI_LIMIT, "the peer is told something", || {
            let told = self.told.lock().unwrap().clone();
            told.iter().any(|it| it.to_string().contains(word)).then_some(told)
        })
    }
}

/// Writes a line to a socket, as a peer does, and waits for the end, which is the answer.
pub fn send(to: &Path, line: &Value) {
    let mut stream = UnixStream::connect(to).unwrap();
    writeln!(stream, "{line}").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}
