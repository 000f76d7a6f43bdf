//! A socket that is not what it is taken for gets not one byte.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::sync::mpsc;

use coordd_core::outgoing::Kind;

use super::*;
use crate::peers::outbound::{Saying, say};
use crate::peers::registry::Own;

const SESSION: &str = "7e1f7f5c-7f3c-4d0a-9c86-0a51f6f6a001";

/// A home with a list, and a socket in a folder of its own that keeps what every connection said.
struct Stage {
    home: tempfile::TempDir,
    registry: Registry,
    socket: PathBuf,
    said: mpsc::Receiver<String>,
}

impl Stage {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("socks");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let socket = folder.join("a.sock");
        let said = keeper(&socket);
        let registry = Registry::new(home.path(), "mark");
        Self { home, registry, socket, said }
    }

    /// Lists a socket as this process's.
    fn list(&self, socket: &Path) {
        let own = Own {
            session: SESSION.into(),
            name: "alice".into(),
            cwd: "/w".into(),
            status: "idle",
            created_ms: 5,
            socket: socket.into(),
            token: "00ff".into(),
        };
        self.registry.put(&own, 9).unwrap();
    }

    fn say(&self, path: &Path) -> Result<(), String> {
        say(path, &self.registry, &saying())
    }

    /// All that was said to the socket so far.
    fn heard(&self) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(b"END").unwrap();
        drop(stream);
        let mut all = String::new();
        loop {
            let said = self.said.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
            if said == "END" {
                return all;
            }
            all.push_str(&said);
        }
    }
}

fn saying() -> Saying {
    let from = crate::peers::claude::Speaker {
        address: "uds:/x".into(),
        name: "dates".into(),
        bypasses: false,
    };
    let kind = Kind::Words { summary: String::new(), notice_id: None };
    let wire_id = "0f3c9a21-1111-4222-8333-444455556666".into();
    Saying { from, wire_id, kind, text: "hello".into() }
}

fn keeper(socket: &Path) -> mpsc::Receiver<String> {
    let listener = UnixListener::bind(socket).unwrap();
    let (tell, said) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut text = String::new();
            stream.unwrap().read_to_string(&mut text).unwrap();
            if tell.send(text).is_err() {
                return;
            }
        }
    });
    said
}

#[test]
fn m6_a_listed_session_is_spoken_to_with_its_secret_first() {
    let stage = Stage::new();
    stage.list(&stage.socket);
    stage.say(&stage.socket).unwrap();
    let heard = stage.heard();
    let lines: Vec<_> = heard.lines().collect();
    let first: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(first, serde_json::json!({ "type": "auth", "token": "00ff" }));
    assert!(lines[1].contains("hello") && lines.len() == 2, "{heard}");
}

/// A docker.sock, an agent of keys or a bus is a live socket of this user that nobody listed.
#[test]
fn rel14_what_is_on_no_list_gets_nothing() {
    let stage = Stage::new();
    assert!(stage.say(&stage.socket).unwrap_err().contains("not in the list"));
    let other = stage.socket.with_file_name("b.sock");
    stage.list(&other);
    assert!(stage.say(&stage.socket).unwrap_err().contains("not in the list"));
    assert_eq!(stage.heard(), "");
}

#[test]
fn rel14_a_link_gets_nothing() {
    let stage = Stage::new();
    let link = stage.socket.with_file_name("link.sock");
    symlink(&stage.socket, &link).unwrap();
    stage.list(&link);
    assert!(stage.say(&link).unwrap_err().contains("symbolic link"));
    let folder = stage.home.path().join("elsewhere");
    symlink(stage.socket.parent().unwrap(), &folder).unwrap();
    let through = folder.join("a.sock");
    stage.list(&through);
    assert!(stage.say(&through).unwrap_err().contains("symbolic link"));
    assert_eq!(stage.heard(), "");
}

#[test]
fn rel14_another_name_for_the_same_path_gets_nothing() {
    let stage = Stage::new();
    let folder = stage.socket.parent().unwrap();
    for path in [folder.join("../socks/a.sock"), folder.join("./a.sock")] {
        stage.list(&path);
        assert!(stage.say(&path).is_err(), "{}", path.display());
    }
    let doubled = PathBuf::from(stage.socket.to_str().unwrap().replace("/socks", "//socks"));
    stage.list(&doubled);
    assert!(stage.say(&doubled).unwrap_err().contains("must not contain `.`"));
    assert_eq!(stage.heard(), "");
}

#[test]
fn rel14_a_folder_that_others_can_write_to_gets_nothing() {
    let stage = Stage::new();
    stage.list(&stage.socket);
    let folder = stage.socket.parent().unwrap();
    for mode in [0o777, 0o1777, 0o720] {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        assert!(
            stage.say(&stage.socket).unwrap_err().contains("other users can write"),
            "{mode:o}"
        );
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    // Directly in a folder of the system's: nobody's, or root's.
    let name = format!("coordd-test-{}.sock", std::process::id());
    let shared = Path::new("/tmp").join(name);
    let said = keeper(&shared);
    stage.list(&shared);
    let why = stage.say(&shared).unwrap_err();
    fs::remove_file(&shared).unwrap();
    assert!(why.contains("other users can write") || why.contains("belongs to user 0"), "{why}");
    assert!(said.try_recv().is_err());
    assert_eq!(stage.heard(), "");
}

#[test]
fn rel14_another_process_than_the_listed_one_gets_nothing() {
    let stage = Stage::new();
    let sessions = stage.home.path().join(".claude/sessions");
    fs::create_dir_all(&sessions).unwrap();
    fs::set_permissions(&sessions, fs::Permissions::from_mode(0o700)).unwrap();
    let own = std::process::id();
    for (pid, start) in [(1, ""), (own, "1")] {
        let entry = serde_json::json!({
            "pid": pid, "procStart": start, "name": "alice", "messagingSocketPath": stage.socket,
        });
        fs::write(sessions.join("4711.json"), entry.to_string()).unwrap();
        let why = stage.say(&stage.socket).unwrap_err();
        assert!(why.contains("the process that listens there is not"), "{why}");
    }
    assert_eq!(stage.heard(), "");
}

#[test]
fn m6_a22_what_is_no_socket_or_dead_is_told_so() {
    let stage = Stage::new();
    let file = stage.socket.with_file_name("file");
    fs::write(&file, "x").unwrap();
    stage.list(&file);
    assert!(stage.say(&file).unwrap_err().contains("is not a socket"));
    let none = stage.socket.with_file_name("none.sock");
    stage.list(&none);
    assert!(stage.say(&none).unwrap_err().contains("does not exist"));
    let dead = stage.socket.with_file_name("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    stage.list(&dead);
    assert!(stage.say(&dead).unwrap_err().contains("nobody listens"));
}

/// M-6: what the other side does with it is told as it is.
#[test]
fn m6_no_answer_and_a_broken_connection_are_no_success() {
    let stage = Stage::new();
    let path = stage.socket.with_file_name("odd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    stage.list(&path);
    let thread = std::thread::spawn(move || {
        // Closed without being read.
        let (stream, _) = listener.accept().unwrap();
        drop(stream);
        // Never closed.
        let (stream, _) = listener.accept().unwrap();
        (listener, stream)
    });
    let long = Saying { text: "x".repeat(400_000), ..saying() };
    let why = say(&path, &stage.registry, &long).unwrap_err();
    assert!(why.contains("without reading"), "{why}");
    let why = stage.say(&path).unwrap_err();
    assert!(why.contains("within 5 s; it may have the message"), "{why}");
    drop(thread.join().unwrap());
}
