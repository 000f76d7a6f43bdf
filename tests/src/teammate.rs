//! A stand-in for a Claude Code terminal that is a member of a team: it reads and writes inbox
//! files, under the lock and in the ways that were seen of the real ones.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::wait::{until, until_within};

/// How a version reads its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Up to 2.1.150: sets `read`, writes in place, and gives its own entries no ids.
    Marks,
    /// 2.1.332: takes out what it read, replaces the file, and gives its entries ids.
    Takes,
}

/// A member of a team.
#[derive(Debug)]
pub struct Teammate {
    inboxes: PathBuf,
    name: String,
    team: String,
    version: Version,
    left: u32,
}

/// A process that looks like a member's terminal. It ends when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    input: Option<ChildStdin>,
}

impl Terminal {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn close(mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.input.take());
        let _reaped = self.child.wait();
    }
}

impl Teammate {
    pub fn new(sandbox: &Sandbox, team: &str, name: &str, version: Version) -> Self {
        Self {
            inboxes: sandbox.at(&format!("h/.claude/teams/{team}/inboxes")),
            name: name.to_owned(),
            team: team.to_owned(),
            version,
            left: 0,
        }
    }

    /// The file of an inbox.
    pub fn file(&self, inbox: &str) -> PathBuf {
        self.inboxes.join(format!("{inbox}.json"))
    }

    /// All entries of an inbox, when it is one at this moment.
    pub fn entries(&self, inbox: &str) -> Option<Vec<Value>> {
        serde_json::from_slice(&fs::read(self.file(inbox)).ok()?).ok()
    }

    /// Reads what is new in its own inbox, and waits until there is something.
    pub fn read(&self) -> Vec<Value> {
        until(&format!("{} has mail", self.name), || {
            Some(self.read_now()).filter(|it| !it.is_empty())
        })
    }

    /// Reads what is new in its own inbox.
    pub fn read_now(&self) -> Vec<Value> {
        let file = self.file(&self.name);
        if !file.exists() {
            return Vec::new();
        }
        let _lock = Locked::take(&file);
        let mut entries = self.entries(&self.name).expect("coordd leaves whole files");
        let is_fresh = |it: &Value| it["read"] == false;
        let fresh: Vec<_> = entries.iter().filter(|entry| is_fresh(entry)).cloned().collect();
        if fresh.is_empty() {
            return fresh;
        }
        match self.version {
            Version::Marks => entries.iter_mut().for_each(|entry| entry["read"] = true.into()),
            Version::Takes => entries.retain(|entry| !is_fresh(entry)),
        }
        self.write(&file, &entries);
        fresh
    }

    /// Leaves words in an inbox.
    pub fn say(&mut self, inbox: &str, text: &str) {
        let entry = self.entry(text);
        self.leave(inbox, entry);
    }

    /// Leaves a message for programs in the lead's inbox.
    pub fn signal(&mut self, mut signal: Value) {
        signal["from"] = self.name.as_str().into();
        signal["timestamp"] = "2026-11-30T12:00:00.000Z".into();
        self.say("team-lead", &signal.to_string());
    }

    /// That its turn has ended.
    pub fn idle(&mut self, result: &str) {
        let mut signal = json!({ "type": "idle_notification", "idleReason": "available" });
        if self.version == Version::Takes {
            signal["result"] = result.into();
        }
        self.signal(signal);
    }

    /// An entry of its own.
    pub fn entry(&mut self, text: &str) -> Value {
        self.left += 1;
        let mut entry = json!({
            "from": self.name, "text": text, "summary": "in short", "color": "blue",
            "timestamp": format!("2026-11-30T12:00:00.{:03}Z", self.left),
            "type": "message", "read": false
        });
        if self.version == Version::Takes {
            entry["msgV"] = 1.into();
            entry["msg_id"] = format!("17bef363-021c-4f08-be7c-{:012}", self.left).into();
        }
        entry
    }

    /// Leaves an entry in an inbox, as it is.
    pub fn leave(&self, inbox: &str, entry: Value) {
        let file = self.file(inbox);
        let _lock = Locked::take(&file);
        let mut entries = self.entries(inbox).unwrap_or_default();
        entries.push(entry);
        self.write(&file, &entries);
    }

    /// Changes the team's file as all versions from 2.1.150 on do: under its lock, and in place.
    pub fn edit_team(&self, edit: impl FnOnce(&mut Value)) {
        let file = self.inboxes.with_file_name("config.json");
        let _lock = Locked::take(&file);
        let text = fs::read(&file).unwrap();
        let mut team = serde_json::from_slice(&text).expect("a whole file for who has the lock");
        edit(&mut team);
        write_in_pieces(&file, &serde_json::to_string_pretty(&team).unwrap());
    }

    fn write(&self, file: &Path, entries: &[Value]) {
        let text = serde_json::to_string_pretty(entries).unwrap();
        match self.version {
            Version::Takes => {
                let temporary = file.with_extension("json.tmp.0123abcd");
                fs::write(&temporary, text).unwrap();
                fs::rename(temporary, file).unwrap();
            }
            Version::Marks => write_in_pieces(file, &text),
        }
    }

    /// Starts a process that looks like its terminal.
    pub fn terminal(&self, sandbox: &Sandbox) -> Terminal {
        let program = sandbox.write_program("terminal/claude", "read line\n");
        let id = format!("{}@{}", self.name, self.team);
        let mut command = sandbox.command("/bin/sh");
        command.arg(program).args(["--agent-id", &id]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        Terminal { child, input }
    }
}

/// So that a reader without the lock sees half of it.
fn write_in_pieces(file: &Path, text: &str) {
    let mut open = fs::File::create(file).unwrap();
    let (head, tail) = text.as_bytes().split_at(text.len() / 2);
    open.write_all(head).unwrap();
    open.flush().unwrap();
    open.write_all(tail).unwrap();
}

/// This moment, as Claude Code writes it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A lock that nobody has touched for so long is left over, for Claude Code.
const STALE: Duration = Duration::from_secs(10);

/// The lock of a file of a team, as Claude Code takes it: a folder.
#[derive(Debug)]
pub struct Locked(PathBuf);

impl Locked {
    /// Waits for it. One that a killed daemon has left is taken away once it is old, as Claude Code does it.
    pub fn take(file: &Path) -> Self {
        let path = file.with_extension("json.lock");
        until_within(2 * STALE, "the lock is free", || {
            let made = fs::create_dir(&path).ok();
            let modified = fs::metadata(&path).and_then(|found| found.modified()).ok();
            let age = modified.and_then(|modified| modified.elapsed().ok());
            if made.is_none() && age.is_some_and(|age| age > STALE) {
                // Another one that removes it too finds it gone.
                let _gone = fs::remove_dir(&path);
            }
            made
        });
        Self(path)
    }

    /// One that was left behind long ago.
    pub fn left_behind(file: &Path) {
        let path = file.with_extension("json.lock");
        fs::create_dir(&path).unwrap();
        let old = SystemTime::now() - Duration::from_mins(1);
        fs::File::open(&path).unwrap().set_modified(old).unwrap();
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).unwrap();
    }
}
