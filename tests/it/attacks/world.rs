//! The user's things that attacks are about, somebody who listens, and what is looked at afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tests::Daemon;
use tests::sandbox::program;

/// What a row prints that has got at a secret.
pub(super) const SECRET: &str = "k3y-of-the-user";

/// Something that hands over a stream for each that connects.
type Accept = Box<dyn FnMut() -> Option<Box<dyn std::io::Read + Send>> + Send>;

/// Secrets of the user's, below the home folder.
const SECRETS: [&str; 15] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".cargo/credentials.toml",
    ".npmrc",
    ".pypirc",
    ".config/gh/hosts.yml",
    ".mozilla/firefox/logins.json",
    ".bash_history",
    ".claude.json",
    ".claude/projects/x.jsonl",
    ".docker/config.json",
    ".kube/config",
    ".gnupg/key",
    "private/note",
];

/// Files of the user's that must stay as they are.
const KEPT: [&str; 8] = [
    ".bashrc",
    ".profile",
    ".gitconfig",
    ".ssh/authorized_keys",
    ".cargo/bin/tool",
    ".cache/pip/wheel",
    ".npm/index",
    "keep/file",
];

/// Files of a workspace that programs of the user's obey. None was there.
const CONFIGURES: [&str; 6] = [
    ".vscode/tasks.json",
    ".claude/settings.json",
    ".mcp.json",
    ".cargo/config.toml",
    ".envrc",
    ".husky/pre-commit",
];

/// A machine with a user's things, and somebody who listens.
pub(super) struct World {
    folder: TempDir,
    victims: BTreeMap<usize, Child>,
    heard: Arc<Mutex<Vec<u8>>>,
    port: u16,
    abstract_name: String,
}

impl World {
    pub(super) fn new() -> Self {
        // Not in /tmp, which a box has for itself: nothing here is to be out of reach by accident.
        let folder = tempfile::Builder::new().prefix("ca.").tempdir_in("/var/tmp").unwrap();
        let root = folder.path().to_owned();
        let secrets = SECRETS.iter().map(|it| (format!("home/{it}"), format!("{SECRET}\n")));
        let kept = KEPT.iter().map(|it| (format!("home/{it}"), "as it was\n".to_owned()));
        let work = [
            ("w/.env", SECRET),
            ("w/secrets/key.txt", SECRET),
            ("w/src", "text"),
            ("out/.keep", ""),
        ];
        let work = work.map(|(name, text)| (name.to_owned(), format!("{text}\n")));
        for (name, text) in secrets.chain(kept).chain(work) {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        // Git reads what it says here, so it is of no use to say that it was as it was.
        std::fs::write(root.join("home/.gitconfig"), "[user]\n\tname = A\n\temail = a@b.c\n")
            .unwrap();
        let it = Self {
            heard: Arc::default(),
            port: 0,
            abstract_name: format!("a{}", root.file_name().unwrap().to_str().unwrap()),
            victims: BTreeMap::new(),
            folder,
        };
        it.git(&it.at("w"), &["init", "-q", "-b", "main"]);
        it.git(&it.at("w"), &["add", "src"]);
        it.git(&it.at("w"), &["commit", "-qm", "first"]);
        it
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn git(&self, folder: &Path, arguments: &[&str]) {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(folder)
            .env("HOME", self.at("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        drop(output);
    }

    /// Listens on everything that a command could reach.
    pub(super) fn listen(&mut self) {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        self.port = tcp.local_addr().unwrap().port();
        let heard = |heard: &Arc<Mutex<Vec<u8>>>| Arc::clone(heard);
        let udp = UdpSocket::bind(("127.0.0.1", self.port)).unwrap();
        let into = heard(&self.heard);
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(len) = udp.recv(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..len]);
            }
        });
        let name = SocketAddr::from_abstract_name(&self.abstract_name).unwrap();
        let mut streams: Vec<Accept> = Vec::new();
        streams.push(Box::new(move || Some(Box::new(tcp.accept().ok()?.0) as _)));
        if let Ok(tcp) = TcpListener::bind(("::1", self.port)) {
            streams.push(Box::new(move || Some(Box::new(tcp.accept().ok()?.0) as _)));
        }
        let unix = [
            UnixListener::bind_addr(&name),
            UnixListener::bind(self.at("out/sock")),
            UnixListener::bind(self.at("w/sock")),
        ];
        for unix in unix {
            let unix = unix.unwrap();
            streams.push(Box::new(move || Some(Box::new(unix.accept().ok()?.0) as _)));
        }
        for mut accept in streams {
            let into = heard(&self.heard);
            std::thread::spawn(move || {
                while let Some(mut stream) = accept() {
                    let mut bytes = Vec::new();
                    let _read = stream.read_to_end(&mut bytes);
                    into.lock().unwrap().extend_from_slice(&bytes);
                }
            });
        }
    }

    /// A row's command with everything that it names.
    pub(super) fn written(&mut self, daemon: &Daemon, number: usize, command: &str) -> String {
        if command.contains("@V") {
            let victim = Command::new("sleep").arg("600").spawn().unwrap();
            self.victims.insert(number, victim);
        }
        let victim = self.victims.get(&number).map_or(0, Child::id).to_string();
        let binaries = program("coordctl").parent().unwrap().display().to_string();
        let path = |path: &Path| path.display().to_string();
        let (port, name) = (self.port.to_string(), marker(self, number));
        [
            ("@O", path(&self.at("out"))),
            ("@H", path(&self.at("home"))),
            ("@W", path(&self.at("w"))),
            ("@U", path(&self.at("out/sock"))),
            ("@S", path(&daemon.state())),
            ("@R", path(&daemon.at("r"))),
            ("@T", path(&daemon.at("t"))),
            ("@A", self.abstract_name.clone()),
            ("@B", binaries),
            ("@P", port),
            ("@V", victim),
            ("@N", name),
        ]
        .into_iter()
        .fold(command.to_owned(), |text, (from, to)| text.replace(from, &to))
    }

    /// What the user does afterwards, in every folder that git or a shell would look at.
    fn go_on_as_the_user(&self) {
        let mut folders = vec![self.at("w")];
        let mut open = vec![self.at("w")];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|it| it.is_dir()) && entry.file_name() != ".git" {
                    open.push(entry.path());
                    folders.push(entry.path());
                }
            }
        }
        for folder in
            folders.iter().filter(|it| it.join(".git").exists() || it.join("HEAD").exists())
        {
            self.git(folder, &["status"]);
            self.git(folder, &["add", "-A", "."]);
            self.git(folder, &["commit", "-qm", "mine"]);
        }
        for file in [".envrc", ".husky/pre-commit"] {
            let _ran = Command::new("sh").arg(self.at("w").join(file)).output();
        }
        for file in [".bashrc", ".profile"] {
            let _ran = Command::new("sh").arg(self.at("home").join(file)).output();
        }
    }

    /// The rows that got through.
    pub(super) fn through(
        &mut self,
        commands: &[String],
        results: &BTreeMap<usize, String>,
    ) -> BTreeSet<usize> {
        let there: Vec<_> =
            CONFIGURES.into_iter().filter(|it| self.at("w").join(it).exists()).collect();
        self.go_on_as_the_user();
        let heard = self.heard.lock().unwrap().clone();
        let heard = String::from_utf8_lossy(&heard).into_owned();
        let mut through = BTreeSet::new();
        for (number, text) in results {
            let name = marker(self, *number);
            let out = self.at("out").join(&name).symlink_metadata().is_ok();
            let killed =
                self.victims.get_mut(number).is_some_and(|it| it.try_wait().unwrap().is_some());
            let left = ["/dev/shm/ca-", "/var/tmp/ca-"].map(|it| format!("{it}{name}"));
            let beside = left.into_iter().any(|it| std::fs::remove_file(it).is_ok());
            let configures = there.iter().any(|it| commands[*number].contains(it));
            if configures
                || out
                || beside
                || killed
                || text.contains(SECRET)
                || heard.contains(&name)
            {
                through.insert(*number);
            }
        }
        through
    }

    pub(super) fn changed(&self) -> Vec<&'static str> {
        let same = |name: &&str| {
            let text = std::fs::read_to_string(self.at("home").join(name)).unwrap_or_default();
            *name == ".gitconfig" && text.starts_with("[user]") && text.lines().count() == 3
                || text == "as it was\n"
        };
        KEPT.into_iter().filter(|it| !same(it)).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for victim in self.victims.values_mut() {
            let _gone = victim.kill();
            let _reaped = victim.wait();
        }
    }
}

/// A word that is in no other row.
fn marker(world: &World, number: usize) -> String {
    format!("{}row{number:03}x", world.abstract_name)
}
