//! What the caller asks for, as one JSON document in a descriptor that the program inherits.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The policy's format. Caller and program are installed together; a mixture is refused in words.
pub const VERSION: u32 = 1;

/// What the status descriptor says when the box stands and the command is about to run. Anything else is why it does not.
pub const READY: &[u8] = b"ready\n";

/// Where programs in the box find the proxy: a port of the box's own network, so that it is always free.
pub const PROXY_PORT: u16 = 3128;

/// Longest policy. A path has at most 4 KiB, and far fewer than a thousand are named.
const POLICY_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Most paths of one kind: each can cost a mount, and the kernel's own bound is 100,000.
const PATHS_MAX: usize = 4_096;

/// How the walls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A view of its own of files, processes and network; Landlock and seccomp besides.
    Namespaces,
    /// Landlock and seccomp alone: nothing can be taken out of a folder that is writable, and there is no network at all.
    Landlock,
}

/// What a command may see and change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// [`VERSION`].
    pub version: u32,
    /// How the walls are made.
    pub level: Level,
    /// Where the command begins.
    pub cwd: Place,
    /// What can be written. All else is read-only.
    #[serde(default)]
    pub writable: Vec<Bind>,
    /// Folders that can be written, and whose real content stays as it is. One that the kernel cannot make so stays read-only.
    #[serde(default)]
    pub overlays: Vec<Overlay>,
    /// What stays read-only inside of what can be written. Passed over where it is gone.
    #[serde(default)]
    pub read_only: Vec<Place>,
    /// What can be written and neither moved nor replaced. Passed over where it is gone.
    #[serde(default)]
    pub pinned: Vec<Place>,
    /// What cannot be seen: an empty folder or file stands in its place. Passed over where it is gone.
    #[serde(default)]
    pub hidden: Vec<Place>,
    /// Whether a listening socket for a proxy is made in the box's network, and handed to the caller.
    #[serde(default)]
    pub proxy: bool,
    /// What it may use up.
    #[serde(default)]
    pub limits: Limits,
}

/// A folder or file of the machine at a place in the box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// The folder or file of the machine.
    pub from: Place,
    /// Its place in the box.
    pub at: Place,
}

/// A folder whose changes go elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// The folder.
    pub at: Place,
    /// Where changes go.
    pub upper: Place,
    /// An empty folder on the same file system, for the kernel.
    pub work: Place,
}

/// What a command may use up. Zero means no bound but the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of memory that one process may write to.
    pub data_bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Processes and threads at once.
    pub processes: u32,
}

/// An absolute path. It may be no UTF-8, which JSON text cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "WirePlace", into = "WirePlace")]
pub struct Place(pub PathBuf);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WirePlace {
    Text(String),
    Bytes(Vec<u8>),
}

/// Why a policy is not followed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The descriptor is not what it should be.
    #[error("the policy cannot be read")]
    Read(#[source] std::io::Error),
    /// More than is read.
    #[error("the policy is longer than {POLICY_LEN_MAX} bytes")]
    TooLong,
    /// No policy.
    #[error(
        "the policy is not the JSON that this version expects; install the programs of one build"
    )]
    Malformed(#[source] serde_json::Error),
    /// Another build's.
    #[error(
        "the policy is of version {0}, and this program knows version {VERSION}; install the programs of one build"
    )]
    Version(u32),
    /// Too many mounts.
    #[error("the policy names {count} {kind} paths; at most {PATHS_MAX} are followed")]
    TooMany {
        /// Of these.
        kind: &'static str,
        /// The number of them.
        count: usize,
    },
    /// A path that means something else in another folder.
    #[error("the policy names {}, which is not absolute or has `..` in it", path.display())]
    BadPath {
        /// The path as the policy names it.
        path: PathBuf,
    },
}

impl Policy {
    /// Reads and checks a policy, to the end of what it is read from.
    pub fn read(from: impl Read) -> Result<Self, PolicyError> {
        let mut bytes = Vec::new();
        from.take(POLICY_LEN_MAX + 1).read_to_end(&mut bytes).map_err(PolicyError::Read)?;
        if bytes.len() as u64 > POLICY_LEN_MAX {
            return Err(PolicyError::TooLong);
        }
        let policy: Self = serde_json::from_slice(&bytes).map_err(PolicyError::Malformed)?;
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), PolicyError> {
        if self.version != VERSION {
            return Err(PolicyError::Version(self.version));
        }
        for (kind, count) in [
            ("writable", self.writable.len()),
            ("overlaid", self.overlays.len()),
            ("read-only", self.read_only.len()),
            ("pinned", self.pinned.len()),
            ("hidden", self.hidden.len()),
        ] {
            if count > PATHS_MAX {
                return Err(PolicyError::TooMany { kind, count });
            }
        }
        let binds = self.writable.iter().flat_map(|it| [&it.from, &it.at]);
        let overlays = self.overlays.iter().flat_map(|it| [&it.at, &it.upper, &it.work]);
        let plain = self.read_only.iter().chain(&self.pinned).chain(&self.hidden);
        let mut all = binds.chain(overlays).chain(plain).chain([&self.cwd]);
        match all.find(|it| !is_plain(&it.0)) {
            Some(it) => Err(PolicyError::BadPath { path: it.0.clone() }),
            None => Ok(()),
        }
    }
}

fn is_plain(path: &Path) -> bool {
    use std::path::Component::{Normal, RootDir};
    path.is_absolute() && path.components().all(|part| matches!(part, RootDir | Normal(_)))
}

impl From<WirePlace> for Place {
    fn from(wire: WirePlace) -> Self {
        match wire {
            WirePlace::Text(text) => Self(text.into()),
            WirePlace::Bytes(bytes) => Self(OsString::from_vec(bytes).into()),
        }
    }
}

impl From<Place> for WirePlace {
    fn from(place: Place) -> Self {
        match place.0.into_os_string().into_string() {
            Ok(text) => Self::Text(text),
            Err(name) => Self::Bytes(name.as_bytes().to_vec()),
        }
    }
}

impl<P: Into<PathBuf>> From<P> for Place {
    fn from(path: P) -> Self {
        Self(path.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy {
            version: VERSION,
            level: Level::Namespaces,
            cwd: "/w".into(),
            writable: vec![Bind { from: "/a".into(), at: "/b".into() }],
            overlays: Vec::new(),
            read_only: vec![OsString::from_vec(vec![b'/', 0xff]).into()],
            pinned: Vec::new(),
            hidden: vec!["/home/me/.ssh".into()],
            proxy: true,
            limits: Limits { processes: 7, ..Limits::default() },
        }
    }

    fn read(text: &str) -> Result<Policy, PolicyError> {
        Policy::read(text.as_bytes())
    }

    /// W-13: also with a name that is no UTF-8.
    #[test]
    fn w13_a_policy_comes_back_as_it_was() {
        let text = serde_json::to_string(&policy()).unwrap();
        assert_eq!(read(&text).unwrap(), policy());
    }

    /// W-13: what is not understood whole is not followed in part.
    #[test]
    fn w13_a_policy_that_is_not_understood_is_refused() {
        let text = serde_json::to_string(&policy()).unwrap();
        let with = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            read(&changed)
        };
        assert!(matches!(with("\"hidden\"", "\"hiden\""), Err(PolicyError::Malformed(_))));
        assert!(matches!(with("\"version\":1", "\"version\":2"), Err(PolicyError::Version(2))));
        assert!(matches!(with("/home/me", "/home/../me"), Err(PolicyError::BadPath { .. })));
        assert!(matches!(with("\"/w\"", "\"w\""), Err(PolicyError::BadPath { .. })));
        assert!(matches!(with("namespaces", "none"), Err(PolicyError::Malformed(_))));
        let many = Policy { hidden: vec!["/x".into(); PATHS_MAX + 1], ..policy() };
        let many = serde_json::to_string(&many).unwrap();
        assert!(matches!(read(&many), Err(PolicyError::TooMany { kind: "hidden", .. })));
        let long = " ".repeat(4 * 1024 * 1024 + 1);
        assert!(matches!(read(&long), Err(PolicyError::TooLong)));
        assert!(matches!(read(""), Err(PolicyError::Malformed(_))));
    }
}
