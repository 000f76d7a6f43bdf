//! The floors: the least that has to happen for the same thing, in processes of their own.
//!
//! ```text
//!   router   two sockets, a header is read, the rest is passed on
//!   store    sockets and one thread that commits what has come, in SQLite, WAL, FULL
//!   agent    connects and says hello         client   connects, asks for the sessions, prints
//! ```

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use proto::frame::{self, FrameDecoder, PREAMBLE_LEN};
use proto::hello::{Hello, PROTOCOL, REVISION};
use proto::request::Request;
use proto::{Call, FromDaemon, ToDaemon};

/// Messages in one commit, as in coordd.
const GROUP_MAX: usize = 256;
/// What a message is long.
pub(crate) const BODY_LEN: usize = 1024;

/// Becomes one of the floors.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["router", socket] => router(Path::new(socket)),
        ["store", socket, file] => store(Path::new(socket), Path::new(file)),
        ["agent", socket] => agent(Path::new(socket)),
        ["client", socket] => client(Path::new(socket)),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

/// A floor that runs; it ends when this is dropped.
pub(crate) struct Floor(Child);

impl Drop for Floor {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts a floor that listens, behind a program such as `taskset`.
pub(crate) fn start(through: &[&str], role: &str, socket: &Path, more: &[PathBuf]) -> Floor {
    let own = std::env::current_exe().unwrap();
    let mut all: Vec<PathBuf> = through.iter().map(PathBuf::from).collect();
    all.extend([own, "floor".into(), role.into(), socket.into()]);
    all.extend_from_slice(more);
    let child = Command::new(&all[0]).args(&all[1..]).stdin(Stdio::null()).spawn().unwrap();
    tests::wait::until_true("the floor listens", || UnixStream::connect(socket).is_ok());
    Floor(child)
}

/// A frame with one byte for where it goes.
pub(crate) fn write_to(stream: &mut UnixStream, to: u8, body: &[u8]) {
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    stream.write_all(&[&[to][..], &len, body].concat()).unwrap();
}

/// The next frame: where it goes, and all of it.
pub(crate) fn read_frame(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).ok()?;
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut frame = vec![0; 5 + len];
    frame[..5].copy_from_slice(&head);
    stream.read_exact(&mut frame[5..]).ok()?;
    Some((head[0], frame))
}

/// Each connection says its number first; then its frames go to those that they name.
fn router(socket: &Path) {
    let peers: Arc<Mutex<BTreeMap<u8, UnixStream>>> = Arc::default();
    for stream in UnixListener::bind(socket).unwrap().incoming() {
        let (mut stream, peers) = (stream.unwrap(), Arc::clone(&peers));
        std::thread::spawn(move || {
            let mut own = [0];
            if stream.read_exact(&mut own).is_err() {
                return;
            }
            peers.lock().unwrap().insert(own[0], stream.try_clone().unwrap());
            while let Some((to, frame)) = read_frame(&mut stream) {
                if let Some(peer) = peers.lock().unwrap().get_mut(&to) {
                    let _closed = peer.write_all(&frame);
                }
            }
        });
    }
}

/// The tables and settings of a minimal store.
pub(crate) fn open_store(file: &Path) -> rusqlite::Connection {
    let store = rusqlite::Connection::open(file).unwrap();
    store
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE IF NOT EXISTS m(id INTEGER PRIMARY KEY, body BLOB NOT NULL);",
        )
        .unwrap();
    store
}

/// One commit.
pub(crate) fn commit(store: &rusqlite::Connection, bodies: &[Vec<u8>]) {
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    {
        let mut insert = store.prepare_cached("INSERT INTO m(body) VALUES(?1)").unwrap();
        for body in bodies {
            insert.execute([body]).unwrap();
        }
    }
    store.execute_batch("COMMIT").unwrap();
}

fn store(socket: &Path, file: &Path) {
    let (sender, queue) = sync_channel::<(Vec<u8>, UnixStream)>(1024);
    let store = open_store(file);
    std::thread::spawn(move || commit_all(&store, &queue));
    for stream in UnixListener::bind(socket).unwrap().incoming() {
        let (mut stream, sender) = (stream.unwrap(), sender.clone());
        std::thread::spawn(move || {
            while let Some((_, frame)) = read_frame(&mut stream) {
                let answer = stream.try_clone().unwrap();
                if sender.send((frame, answer)).is_err() {
                    return;
                }
            }
        });
    }
}

fn commit_all(store: &rusqlite::Connection, queue: &Receiver<(Vec<u8>, UnixStream)>) {
    let mut rows = 0;
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(GROUP_MAX - 1));
        let (bodies, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        commit(store, &bodies);
        for mut answer in answers {
            let _closed = answer.write_all(&[1]);
        }
        rows += bodies.len();
        if rows > 20_000 {
            rows = 0;
            store.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        }
    }
}

fn greet(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let hello = Hello { protocol: PROTOCOL, program: "floor".into(), agent: None };
    let hello = frame::encode(&ToDaemon::Hello(hello)).unwrap();
    stream.write_all(&[&frame::preamble(REVISION)[..], &hello].concat()).unwrap();
    stream
}

fn agent(socket: &Path) {
    let mut stream = greet(socket);
    // Until the other side closes.
    let _closed = stream.read_to_end(&mut Vec::new());
}

fn client(socket: &Path) {
    let mut stream = greet(socket);
    let call = Call { id: 1, key: None, request: Request::SessionList {} };
    stream.write_all(&frame::encode(&ToDaemon::Call(call)).unwrap()).unwrap();
    stream.read_exact(&mut [0; PREAMBLE_LEN]).unwrap();
    let mut decoder = FrameDecoder::default();
    let mut buf = vec![0; 64 * 1024];
    loop {
        while let Some(body) = decoder.next_frame().unwrap() {
            if let FromDaemon::Reply(reply) = frame::decode(&body).unwrap() {
                println!("{reply:?}");
                return;
            }
        }
        let len = stream.read(&mut buf).unwrap();
        decoder.feed(&buf[..len]);
    }
}
