//! A real `nats-server` for a test: its own process, folder, port and store. Installed by
//! `tests/run`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::wait;

/// What clients show where a test says nothing else.
pub const TOKEN: &str = "a-token-of-the-tests";

/// Where `tests/run` installs it.
fn program() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let path = base.expect("HOME is set").join("coordd-tests/nats/bin/nats-server");
    assert!(path.exists(), "{} is not there; run: tests/run --set-up", path.display());
    path
}

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    /// What it is started through, such as a program that enters a network namespace.
    through: Vec<String>,
    /// Its configuration but for the port.
    more: String,
    /// What more is said of its store; none where it has no store.
    jetstream: Option<String>,
    host: String,
    port: u16,
    /// Where leaf nodes connect, if they can.
    leaves: Option<u16>,
    child: Option<Child>,
}

impl Server {
    /// Starts one with a token for its clients.
    pub fn start(folder: &Path) -> Self {
        Self::start_with(
            folder,
            &[],
            "127.0.0.1",
            &format!("authorization {{ token: \"{TOKEN}\" }}"),
        )
    }

    /// Starts one through a program, on an address, with more configuration.
    pub fn start_with(folder: &Path, through: &[String], host: &str, more: &str) -> Self {
        Self::start_as(folder, through, host, more, Some(""))
    }

    /// The same, with more about its store, or without one.
    pub fn start_as(
        folder: &Path,
        through: &[String],
        host: &str,
        more: &str,
        jetstream: Option<&str>,
    ) -> Self {
        fs::create_dir_all(folder).unwrap();
        let mut server = Self {
            folder: folder.to_owned(),
            through: through.to_vec(),
            more: more.to_owned(),
            jetstream: jetstream.map(str::to_owned),
            host: host.to_owned(),
            port: 0,
            leaves: None,
            child: None,
        };
        server.restart();
        server
    }

    /// Where it is.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The same for a client.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Where leaf nodes connect.
    pub fn leaves(&self) -> u16 {
        self.leaves.expect("it takes leaf nodes")
    }

    /// Takes another configuration from the next start on.
    pub fn configure(&mut self, more: &str) {
        more.clone_into(&mut self.more);
    }

    /// Takes another configuration now, as its operator would have it do.
    pub fn reload(&mut self, more: &str) {
        self.configure(more);
        self.write_configuration();
        self.signal(rustix::process::Signal::HUP);
    }

    /// Holds it, with all its connections open.
    pub fn stall(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.child.as_ref().expect("it runs").id();
        let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn write_configuration(&self) {
        let listen = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let store = self.jetstream.as_ref().map_or_else(String::new, |more| {
            let store = self.folder.join("store");
            format!(
                "jetstream {{ store_dir: \"{}\", max_mem: 64M, max_file: 1G, sync_interval: always\n{more} }}\n",
                store.display()
            )
        });
        let config = format!(
            "listen: \"{}:{listen}\"\nserver_name: \"{}\"\nports_file_dir: \"{}\"\n{}\n{store}",
            self.host,
            self.folder.file_name().unwrap().to_str().unwrap(),
            self.folder.display(),
            self.more,
        );
        fs::write(self.folder.join("server.conf"), config).unwrap();
    }

    /// Starts it again on the same port.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let at = |name: &str| self.folder.join(name).display().to_string();
        self.write_configuration();
        for old in self.ports_files() {
            fs::remove_file(old).unwrap();
        }
        let all = [self.through.clone(), vec!["setpriv".to_owned()]].concat();
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).args(["--pdeathsig", "KILL"]).arg(program());
        command.args(["-c", &at("server.conf"), "-l", &at("log")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("nats-server starts");
        let ports = wait::until("nats-server listens", || {
            if let Some(status) = child.try_wait().unwrap() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!("nats-server ended: {status}\n{log}");
            }
            let text = fs::read_to_string(self.ports_files().first()?).ok()?;
            serde_json::from_str::<serde_json::Value>(&text).ok()
        });
        let port = |name: &str| ports[name][0].as_str()?.rsplit(':').next()?.parse().ok();
        self.port = port("nats").expect("a port for clients");
        // The file does not tell of it, the log does.
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let said = log.rsplit_once("Listening for leafnode connections on ");
        self.leaves = said.and_then(|(_, it)| it.lines().next()?.rsplit(':').next()?.parse().ok());
        self.child = Some(child);
    }

    fn ports_files(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|it| it.extension().is_some_and(|extension| extension == "ports")).collect()
    }

    /// SIGKILL, and the wait for its end.
    pub fn kill9(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Keeps a copy of its store as it is on the disk.
    pub fn copy_store(&self, name: &str) {
        copy(&self.folder.join("store"), &self.folder.join(name));
    }

    /// Puts a copy in the place of its store. The server must not run.
    pub fn roll_back(&self, name: &str) {
        assert!(self.child.is_none(), "it runs");
        self.lose_store();
        copy(&self.folder.join(name), &self.folder.join("store"));
    }

    /// Removes its store. The server must not run.
    pub fn lose_store(&self) {
        assert!(self.child.is_none(), "it runs");
        fs::remove_dir_all(self.folder.join("store")).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill9();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            // What the server removes meanwhile is not in the copy.
            let _gone = fs::copy(entry.path(), to);
        }
    }
}

/// A client that says what it likes: what an operator of the server, or somebody with a stolen
/// token, can do.
#[derive(Debug)]
pub struct Raw {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Raw {
    /// Connects with the token.
    pub fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut raw = Self { reader: BufReader::new(stream.try_clone().unwrap()), writer: stream };
        let hello = format!(
            "CONNECT {{\"auth_token\":\"{TOKEN}\",\"verbose\":false,\"headers\":true,\"lang\":\"t\",\"version\":\"1\",\"protocol\":1}}\r\n"
        );
        raw.writer.write_all(hello.as_bytes()).unwrap();
        raw.flush();
        raw
    }

    /// Sends bytes to a subject, stored where that is stored.
    pub fn publish(&mut self, subject: &str, bytes: &[u8]) {
        self.writer.write_all(format!("PUB {subject} {}\r\n", bytes.len()).as_bytes()).unwrap();
        self.writer.write_all(bytes).unwrap();
        self.writer.write_all(b"\r\n").unwrap();
    }

    /// Hears all that is sent to subjects from now on.
    pub fn listen(&mut self, subject: &str) {
        self.writer.write_all(format!("SUB {subject} 1\r\n").as_bytes()).unwrap();
        self.flush();
    }

    /// Waits until the server has had all of it.
    pub fn flush(&mut self) {
        self.writer.write_all(b"PING\r\n").unwrap();
        loop {
            match self.line().as_str() {
                "PONG" => return,
                line => assert!(!line.starts_with("-ERR"), "{line}"),
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        if line.trim_end() == "PING" {
            self.writer.write_all(b"PONG\r\n").unwrap();
        }
        line.trim_end().to_owned()
    }

    /// The next that is heard: subject and bytes, without headers.
    pub fn hear(&mut self) -> (String, Vec<u8>) {
        loop {
            let line = self.line();
            let parts: Vec<_> = line.split(' ').collect();
            let (headers, whole) = match parts[0] {
                "MSG" => (0, parts[parts.len() - 1].parse().unwrap()),
                "HMSG" => {
                    let at = |back: usize| parts[parts.len() - back].parse::<usize>().unwrap();
                    (at(2), at(1))
                }
                _ => continue,
            };
            let mut bytes = vec![0; whole + 2];
            self.reader.read_exact(&mut bytes).unwrap();
            return (parts[1].to_owned(), bytes[headers..whole].to_vec());
        }
    }
}
