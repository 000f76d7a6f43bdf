//! The folder in which sessions of Claude Code list themselves: `~/.claude/sessions`, as version
//! 2.1.332 reads and writes it.
//!
//! ```text
//!   <number>.json            who it is, and where its socket is. The number is the pid, or, for others, any number
//!   <number>.<hash>.key      its secret: only processes of this user can read it
//! ```
//!
//! What another program wrote is read and never changed or removed (M-10). Ours carry a mark that
//! no other daemon has.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::dir::{Demand, Dir, DirError, FileError};
use crate::ground::Watch;

/// The most files that are read: a person has tens of sessions.
const FILES_MAX: usize = 4_096;
/// Bytes of one file; those of 2.1.332 have less than one thousand.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// The version whose format this is.
const OBSERVED: &str = "2.1.332";
/// Ours are above every number that Linux gives to a process.
const NUMBER_MIN: u64 = 1_000_000_000_000;
/// The digits of a session's id that its number is made of.
const NUMBER_DIGITS: usize = 12;

/// One who is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) pid: Option<u32>,
    pub(super) start_ticks: Option<u64>,
    pub(super) domain: String,
    pub(super) session: String,
    pub(super) name: String,
    pub(super) cwd: String,
    pub(super) status: String,
    pub(super) socket: PathBuf,
    pub(super) heard_ms: u64,
    pub(super) entrypoint: String,
}

/// One of ours, as it is to be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) session: String,
    pub(super) name: String,
    pub(super) cwd: String,
    pub(super) status: &'static str,
    pub(super) created_ms: u64,
    pub(super) socket: PathBuf,
    pub(super) token: String,
}

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Registry {
    home: PathBuf,
    /// What marks our own.
    domain: String,
    pid: u32,
    start_ticks: Option<u64>,
}

impl Registry {
    pub(super) fn new(home: &Path, mark: &str) -> Self {
        let pid = std::process::id();
        let start_ticks = crate::process::identity::Identity::of(pid).map(|it| it.start_ticks);
        Self { home: home.into(), domain: format!("coordd:{mark}"), pid, start_ticks }
    }

    fn dir(&self) -> Result<Dir, DirError> {
        let claude = Dir::base(&self.home)?.enter(".claude", Demand::Shared)?.0;
        Ok(claude.enter("sessions", Demand::Shared)?.0)
    }

    /// The folder, if it is there.
    fn existing(&self) -> Result<Option<Dir>, DirError> {
        let claude = Dir::base(&self.home)?.existing(".claude", Demand::Shared)?;
        claude.map_or(Ok(None), |it| it.existing("sessions", Demand::Shared))
    }

    /// All entries of the list, ours included. Unreadable files are ignored.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let Ok(Some(dir)) = self.existing() else { return Vec::new() };
        let (names, _) = dir.names(FILES_MAX).unwrap_or_default();
        let mut entries: Vec<_> = names
            .iter()
            .filter_map(|name| entry(&dir, number(name.to_str()?.strip_suffix(".json")?)?))
            .collect();
        entries.sort_by(|a, b| (&a.name, a.number).cmp(&(&b.name, b.number)));
        entries
    }

    pub(super) fn is_ours(&self, entry: &Entry) -> bool {
        entry.domain == self.domain
    }

    /// The secret of one who is listed.
    pub(super) fn token(&self, entry: &Entry) -> Option<String> {
        let name = key_name(entry.number, &entry.socket);
        let bytes = self.dir().ok()?.read(Path::new(&name), FILE_BYTES_MAX).ok()?.bytes;
        let key: Value = serde_json::from_slice(&bytes).ok()?;
        key.get("peerToken")?.as_str().map(str::to_owned)
    }

    /// Writes the entry of one of our sessions. A foreign file under its number stays.
    pub(super) fn put(&self, own: &Own, now_ms: u64) -> Result<(), RegistryError> {
        let dir = self.dir()?;
        let number = own_number(&own.session);
        if entry(&dir, number).is_some_and(|it| !self.is_ours(&it)) {
            return Err(RegistryError::Taken { path: dir.path().join(format!("{number}.json")) });
        }
        let start = self.start_ticks.map(|it| it.to_string()).unwrap_or_default();
        let key = json!({
            "peerToken": own.token, "procStart": start, "pidDomain": self.domain,
        });
        dir.write_atomic(&key_name(number, &own.socket), key.to_string().as_bytes())?;
        let listed = json!({
            "pid": self.pid,
            "sessionId": own.session,
            "cwd": own.cwd,
            "startedAt": own.created_ms,
            "procStart": start,
            "version": OBSERVED,
            "peerProtocol": 1,
            "peerFeatures": ["notify_idle", "reply_across_default_dirs"],
            "kind": "interactive",
            "entrypoint": "coordd",
            "pidDomain": self.domain,
            "messagingSocketPath": own.socket,
            "name": own.name,
            "nameSource": "user",
            "status": own.status,
            "updatedAt": now_ms,
            "statusUpdatedAt": now_ms,
        });
        dir.write_atomic(&format!("{number}.json"), listed.to_string().as_bytes())?;
        Ok(())
    }

    /// Whether one of ours stands there as it is to.
    pub(super) fn has(&self, own: &Own) -> bool {
        let Ok(Some(dir)) = self.existing() else { return false };
        let Some(it) = entry(&dir, own_number(&own.session)) else { return false };
        self.is_of_this_daemon(&it)
            && (&it.session, &it.name, &it.cwd) == (&own.session, &own.name, &own.cwd)
            && it.status == own.status
            && it.socket == own.socket
            && self.token(&it).as_ref() == Some(&own.token)
    }

    /// Hears from now on when it goes.
    pub(super) fn watch(&self, watch: &Watch, own: &Own) {
        let Ok(Some(dir)) = self.existing() else { return };
        let number = own_number(&own.session);
        for name in [format!("{number}.json"), key_name(number, &own.socket)] {
            watch.name(&dir, OsStr::new(&name));
        }
        watch.folder(dir.path());
    }

    /// Takes one of this daemon's off the list. One that a successor has put there stays (fR6).
    pub(super) fn remove(&self, session: &str) {
        let Ok(Some(dir)) = self.existing() else { return };
        let number = own_number(session);
        if let Some(it) = entry(&dir, number).filter(|it| self.is_of_this_daemon(it)) {
            take_off(&dir, &it);
        }
    }

    fn is_of_this_daemon(&self, entry: &Entry) -> bool {
        self.is_ours(entry) && entry.pid == Some(self.pid) && entry.start_ticks == self.start_ticks
    }

    /// Removes the entries that an earlier daemon of this state folder left. Returns their sockets.
    pub(super) fn clean(&self) -> Vec<PathBuf> {
        let mut sockets = Vec::new();
        let Ok(Some(dir)) = self.existing() else { return sockets };
        for it in self.entries().into_iter().filter(|it| self.is_ours(it)) {
            if own_number(&it.session) == it.number {
                take_off(&dir, &it);
                sockets.push(it.socket);
            }
        }
        sockets
    }
}

/// Why one of ours is not listed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegistryError {
    #[error("{} belongs to another program; move it away", path.display())]
    Taken { path: PathBuf },
    #[error("the folder of sessions cannot be used; fix its permissions")]
    Folder {
        #[from]
        source: DirError,
    },
    #[error("the list of sessions cannot be written; fix the folder's permissions")]
    File {
        #[from]
        source: FileError,
    },
}

/// Its file, and its secret.
fn take_off(dir: &Dir, entry: &Entry) {
    unlink(dir, &format!("{}.json", entry.number));
    unlink(dir, &key_name(entry.number, &entry.socket));
}

fn unlink(dir: &Dir, name: &str) {
    if let Err(error) = unlinkat(dir, name, AtFlags::empty())
        && error != Errno::NOENT
    {
        tracing::warn!(%error, name, "a session is still listed");
    }
}

/// A file's name counts only if it is a number and nothing else.
fn number(name: &str) -> Option<u64> {
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| name.parse().ok()).flatten()
}

/// A number that is stable for a session, and different for each.
fn own_number(session: &str) -> u64 {
    let digits: String =
        session.chars().filter(char::is_ascii_hexdigit).take(NUMBER_DIGITS).collect();
    NUMBER_MIN + u64::from_str_radix(&digits, 16).unwrap_or_default()
}

fn key_name(number: u64, socket: &Path) -> String {
    let hash = super::sha256_hex(socket.as_os_str().as_encoded_bytes());
    format!("{number}.{hash}.key")
}

fn entry(dir: &Dir, number: u64) -> Option<Entry> {
    let name = format!("{number}.json");
    let content = dir.read(Path::new(&name), FILE_BYTES_MAX).ok().filter(|it| !it.cut)?;
    let value: Value = serde_json::from_slice(&content.bytes).ok()?;
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let socket = field("messagingSocketPath");
    if socket.is_empty() {
        return None;
    }
    let time = |name: &str| value.get(name).and_then(Value::as_u64);
    Some(Entry {
        number,
        pid: value.get("pid").and_then(Value::as_u64).and_then(|it| u32::try_from(it).ok()),
        start_ticks: field("procStart").parse().ok(),
        domain: field("pidDomain"),
        session: field("sessionId"),
        name: field("name"),
        cwd: field("cwd"),
        status: field("status"),
        socket: PathBuf::from(socket),
        heard_ms: time("updatedAt").or_else(|| time("startedAt")).unwrap_or_default(),
        entrypoint: field("entrypoint"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SESSION: &str = "7e1f7f5c-7f3c-4d0a-9c86-0a51f6f6a001";

    fn own(home: &Path) -> Own {
        Own {
            session: SESSION.into(),
            name: "dates".into(),
            cwd: "/w".into(),
            status: "idle",
            created_ms: 5,
            socket: home.join("x.sock"),
            token: "00ff".into(),
        }
    }

    #[test]
    fn m10_ours_are_listed_with_their_secret_closed_to_others_and_gone_when_removed() {
        let home = tempfile::tempdir().unwrap();
        let registry = Registry::new(home.path(), "mark");
        assert_eq!(registry.entries(), []);
        assert!(!home.path().join(".claude").exists(), "looking makes nothing");
        let own = own(home.path());
        registry.put(&own, 9).unwrap();
        registry.put(&Own { status: "busy", ..own.clone() }, 10).unwrap();
        let entries = registry.entries();
        let [it] = entries.as_slice() else { panic!("{entries:?}") };
        assert!(it.number > 4_194_304, "no process has it: {}", it.number);
        assert_eq!((it.pid, &*it.status, it.heard_ms), (Some(std::process::id()), "busy", 10));
        assert!(registry.is_ours(it));
        assert_eq!(registry.token(it).as_deref(), Some("00ff"));
        let folder = home.path().join(".claude/sessions");
        for file in fs::read_dir(&folder).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0);
        }
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o077, 0);
        registry.remove(SESSION);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn m10_what_others_wrote_is_never_touched() {
        let home = tempfile::tempdir().unwrap();
        let (ours, other) = (Registry::new(home.path(), "a"), Registry::new(home.path(), "b"));
        let own = own(home.path());
        other.put(&own, 9).unwrap();
        let folder = home.path().join(".claude/sessions");
        fs::write(folder.join("4711.json"), r#"{"pid":4711,"messagingSocketPath":"/x"}"#).unwrap();
        fs::write(folder.join("4711.ab.key"), "{}").unwrap();
        fs::write(folder.join("broken.json"), "{").unwrap();
        fs::write(folder.join("12.json"), "{").unwrap();
        let before = fs::read_dir(&folder).unwrap().count();
        // The same session listed by another daemon: ours does not take its place.
        assert!(matches!(ours.put(&own, 10), Err(RegistryError::Taken { .. })));
        ours.remove(SESSION);
        assert!(ours.clean().is_empty());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), before);
        assert_eq!(ours.entries().len(), 2, "what cannot be read is nobody");
        assert_eq!(other.clean(), [own.socket]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), before - 2);
    }

    /// fR6: the next daemon of the same state lists the same sessions; this one, which ends later, leaves them there.
    #[test]
    fn fr6_what_a_successor_has_listed_stays() {
        let home = tempfile::tempdir().unwrap();
        let ours = Registry::new(home.path(), "mark");
        let successor = Registry { pid: ours.pid + 1, ..ours.clone() };
        let own = own(home.path());
        ours.put(&own, 9).unwrap();
        assert!(ours.has(&own) && !successor.has(&own));
        assert!(!ours.has(&Own { token: "other".into(), ..own.clone() }));
        successor.put(&own, 10).unwrap();
        assert!(!ours.has(&own));
        ours.remove(SESSION);
        assert!(successor.has(&own));
        assert_eq!(
            successor.clean(),
            [own.socket],
            "by its mark, whoever of the earlier ones it was"
        );
        assert!(ours.entries().is_empty());
    }

    #[test]
    fn m10_only_numbers_are_names_of_sessions() {
        for (name, is_one) in
            [("1", true), ("123456789012", true), ("1-2", false), ("x", false), ("", false)]
        {
            assert_eq!(number(name).is_some(), is_one, "{name}");
        }
    }
}
