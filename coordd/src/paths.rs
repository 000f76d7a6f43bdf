//! Where the daemon's files are.
//!
//! ```text
//! runtime  $XDG_RUNTIME_DIR/coordd, else ${CLAUDE_CODE_TMPDIR:-/tmp}/claude-<uid>/run     coordd.sock, coordd.lock
//! state    ${XDG_STATE_HOME:-~/.local/state}/coordd                                       the store, sessions/
//! config   ${XDG_CONFIG_HOME:-~/.config}/coordd/config.toml                               read only
//! ```
//!
//! `COORDD_SOCKET` and `COORDD_STATE_DIR` name the socket and the state folder outright. `coordctl`
//! finds the socket by the same rules. Nothing is made by finding out; [`Paths::open_runtime`] and
//! [`Paths::open_state`] make and check.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::dir::{Demand, Dir, DirError, Removal, euid};

/// Longest path of a socket that every Unix takes.
pub(crate) const SOCKET_PATH_BYTES_MAX: usize = 103;

/// Longest id that becomes the name of a folder.
const ID_BYTES_MAX: usize = 64;

/// The environment, or a made-up one.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Why there is no place for the daemon's files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathsError {
    #[error(
        "the socket's path {} has {len} bytes and {SOCKET_PATH_BYTES_MAX} fit; {} is too long: set {variable} to \
         something shorter",
        socket.display(),
        prefix.display()
    )]
    SocketTooLong { socket: PathBuf, prefix: PathBuf, len: usize, variable: &'static str },
    #[error("{variable} is {value:?}; set it to an absolute path, or unset it")]
    NotAbsolute { variable: &'static str, value: PathBuf },
    #[error("there is no home folder for user {uid}; set HOME")]
    NoHome { uid: u32 },
    #[error("the folder for {what} cannot be used; fix it, or set {variable} to another place")]
    Folder { what: &'static str, variable: &'static str, source: DirError },
    #[error(
        "{id:?} is not an id; ids have at most {ID_BYTES_MAX} letters, digits, `.`, `_` and `-`, and begin with a letter or digit"
    )]
    BadId { id: String },
}

/// Folders of sessions that are looked at; there are at most a thousand sessions, and what is over
/// is looked at next time.
const SESSIONS_MAX: usize = 10_000;

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    pub(crate) home: PathBuf,
    /// `${CLAUDE_CODE_TMPDIR:-/tmp}`, where scratchpads are.
    pub(crate) tmp: PathBuf,
    /// `$XDG_RUNTIME_DIR`, where it is what the rules demand.
    pub(crate) xdg_runtime: Option<PathBuf>,
    pub(crate) socket: PathBuf,
    pub(crate) runtime: Place,
    pub(crate) state: Place,
    pub(crate) config_file: PathBuf,
}

/// A folder of ours: one that stands already, and what we make below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    base: PathBuf,
    names: Vec<String>,
    /// What the user sets to have it elsewhere.
    variable: &'static str,
    /// Whether the user named it, so that it is checked but never changed.
    named: bool,
}

impl Place {
    pub(crate) fn path(&self) -> PathBuf {
        self.names.iter().fold(self.base.clone(), |path, name| path.join(name))
    }

    /// Opens the folder, and creates what is missing of it.
    fn open(&self, what: &'static str) -> Result<Dir, PathsError> {
        let failed = |source| PathsError::Folder { what, variable: self.variable, source };
        let mut dir = Dir::base(&self.base).map_err(failed)?;
        let demand = if self.named { Demand::Strict } else { Demand::Repaired };
        for name in &self.names {
            dir = dir.enter(name, demand).map_err(failed)?.0;
        }
        Ok(dir)
    }
}

impl Paths {
    /// Finds out from this process's environment.
    pub(crate) fn from_env() -> Result<Self, PathsError> {
        Self::find(&|name| std::env::var_os(name))
    }

    pub(crate) fn find(env: Env<'_>) -> Result<Self, PathsError> {
        let home = home(env)?;
        let tmp = absolute(env, "CLAUDE_CODE_TMPDIR")?.unwrap_or_else(|| PathBuf::from("/tmp"));
        let (runtime, socket) = runtime(env, &tmp)?;
        let state = state(env, &home)?;
        let config = xdg(env, "XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let config_file = config.join("coordd/config.toml");
        let xdg_runtime = xdg(env, "XDG_RUNTIME_DIR").filter(|it| is_runtime_base(it));
        Ok(Self { home, tmp, xdg_runtime, socket, runtime, state, config_file })
    }

    /// Opens the folder of the socket and the lock; it is ours and 0700.
    pub(crate) fn open_runtime(&self) -> Result<Dir, PathsError> {
        self.runtime.open("the socket")
    }

    /// Opens the folder of everything that lasts; it is ours and 0700.
    pub(crate) fn open_state(&self) -> Result<StateDir, PathsError> {
        let failed = |source| PathsError::Folder {
            what: "the state",
            variable: self.state.variable,
            source,
        };
        // The user's own folders on the way (`~/.local/state`) may not be there yet.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.state.base).map_err(
            |source| {
                failed(DirError::Io { action: "create", path: self.state.base.clone(), source })
            },
        )?;
        Ok(StateDir { dir: self.state.open("the state")? })
    }
}

/// The folder of everything that lasts.
#[derive(Debug)]
pub(crate) struct StateDir {
    dir: Dir,
}

impl StateDir {
    /// The folder itself, for the lock on it: two daemons with two sockets must not share one
    /// state.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// `sessions/<session>/`
    pub(crate) fn session(&self, session: &str) -> Result<Dir, PathsError> {
        Self::enter(&Self::enter(&self.dir, "sessions")?, id(session)?)
    }

    /// `sessions/<session>/agents/<agent>/`
    pub(crate) fn agent(&self, session: &str, agent: &str) -> Result<Dir, PathsError> {
        let agents = Self::enter(&self.session(session)?, "agents")?;
        Self::enter(&agents, id(agent)?)
    }

    /// The names of the sessions that have a folder.
    pub(crate) fn sessions(&self) -> Result<Vec<String>, PathsError> {
        let (names, _) =
            Self::enter(&self.dir, "sessions")?.names(SESSIONS_MAX).map_err(Self::failed)?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Removes a session's folder. A missing one is no error.
    pub(crate) fn remove_session(&self, session: &str) -> Result<Removal, PathsError> {
        let sessions = Self::enter(&self.dir, "sessions")?;
        sessions.remove_tree(id(session)?).map_err(Self::failed)
    }

    fn enter(dir: &Dir, name: &str) -> Result<Dir, PathsError> {
        Ok(dir.enter(name, Demand::Repaired).map_err(Self::failed)?.0)
    }

    fn failed(source: DirError) -> PathsError {
        PathsError::Folder { what: "the state", variable: "XDG_STATE_HOME", source }
    }
}

/// Refuses an id that could be more than a file name, or be confused with another one.
pub(crate) fn id(id: &str) -> Result<&str, PathsError> {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-');
    let first = id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if first && id.len() <= ID_BYTES_MAX && id.bytes().all(plain) {
        Ok(id)
    } else {
        Err(PathsError::BadId { id: id.chars().take(ID_BYTES_MAX).collect() })
    }
}

fn runtime(env: Env<'_>, tmp: &Path) -> Result<(Place, PathBuf), PathsError> {
    let place = if let Some(socket) = absolute(env, "COORDD_SOCKET")? {
        let folder = socket.parent().unwrap_or(Path::new("/"));
        let place = named(folder, "COORDD_SOCKET");
        let prefix = folder.to_path_buf();
        return checked(socket, prefix, "COORDD_SOCKET").map(|socket| (place, socket));
    } else if let Some(base) = xdg(env, "XDG_RUNTIME_DIR").filter(|it| is_runtime_base(it)) {
        let names = vec!["coordd".to_owned()];
        Place { base, names, variable: "XDG_RUNTIME_DIR", named: false }
    } else {
        let names = vec![format!("claude-{}", euid()), "run".to_owned()];
        Place { base: tmp.to_path_buf(), names, variable: "CLAUDE_CODE_TMPDIR", named: false }
    };
    let socket = place.path().join("coordd.sock");
    let socket = checked(socket, place.base.clone(), place.variable)?;
    Ok((place, socket))
}

fn checked(
    socket: PathBuf,
    prefix: PathBuf,
    variable: &'static str,
) -> Result<PathBuf, PathsError> {
    let len = socket.as_os_str().as_bytes().len();
    if len > SOCKET_PATH_BYTES_MAX {
        return Err(PathsError::SocketTooLong { socket, prefix, len, variable });
    }
    Ok(socket)
}

fn state(env: Env<'_>, home: &Path) -> Result<Place, PathsError> {
    if let Some(path) = absolute(env, "COORDD_STATE_DIR")? {
        return Ok(named(&path, "COORDD_STATE_DIR"));
    }
    let base = xdg(env, "XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state"));
    let names = vec!["coordd".to_owned()];
    Ok(Place { base, names, variable: "XDG_STATE_HOME", named: false })
}

/// A folder that the user named: its parent is the base, so that the folder itself is checked as
/// ours.
fn named(path: &Path, variable: &'static str) -> Place {
    let base = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Place { base, names: name.into_iter().collect(), variable, named: true }
}

/// The runtime folder of a login session, as the XDG rules demand it: there, ours, 0700.
fn is_runtime_base(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| {
        metadata.is_dir() && metadata.uid() == euid() && matches!(metadata.mode() & 0o077, 0)
    })
}

fn home(env: Env<'_>) -> Result<PathBuf, PathsError> {
    if let Some(home) = absolute(env, "HOME")? {
        return Ok(home);
    }
    let uid = euid();
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map(|user| user.dir).filter(|it| it.is_absolute()).ok_or(PathsError::NoHome { uid })
}

fn absolute(env: Env<'_>, variable: &'static str) -> Result<Option<PathBuf>, PathsError> {
    match env(variable).filter(|it| !it.is_empty()).map(PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(Some(path)),
        Some(value) => Err(PathsError::NotAbsolute { variable, value }),
        None => Ok(None),
    }
}

/// A variable of the XDG rules, by which a relative path counts as unset.
fn xdg(env: Env<'_>, variable: &str) -> Option<PathBuf> {
    env(variable).map(PathBuf::from).filter(|it| it.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        Paths::find(&|name| {
            variables
                .iter()
                .find(|variable| variable.0 == name)
                .map(|variable| OsString::from(variable.1))
        })
    }

    #[test]
    fn d2_the_runtime_folder_of_the_login_is_used_when_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().to_str().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let paths = find(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", base)]).unwrap();
        assert_eq!(paths.socket, folder.path().join("coordd/coordd.sock"));
        paths.open_runtime().unwrap();
        let mode = fs::metadata(folder.path().join("coordd")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let paths = find(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", base)]).unwrap();
        assert_eq!(paths.socket, PathBuf::from(format!("/tmp/claude-{}/run/coordd.sock", euid())));
    }

    #[test]
    fn d2_without_a_login_the_socket_is_below_the_temporary_folder() {
        let folder = tempfile::tempdir().unwrap();
        let tmp = folder.path().to_str().unwrap();
        let paths = find(&[("HOME", "/h"), ("CLAUDE_CODE_TMPDIR", tmp)]).unwrap();
        let expected = folder.path().join(format!("claude-{}/run", euid()));
        assert_eq!(paths.socket, expected.join("coordd.sock"));
        assert_eq!(paths.open_runtime().unwrap().path(), expected);
        assert_eq!(paths.config_file, Path::new("/h/.config/coordd/config.toml"));
    }

    #[test]
    fn rel92_a_socket_path_that_is_too_long_names_what_to_set() {
        let long = format!("/{}", "x".repeat(90));
        let error = find(&[("HOME", "/h"), ("CLAUDE_CODE_TMPDIR", &long)]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("set CLAUDE_CODE_TMPDIR"), "{text}");
        assert!(text.contains(&long) && text.contains("103"), "{text}");
        let socket = format!("/tmp/{}", "x".repeat(98));
        assert_eq!(socket.len(), 103);
        find(&[("HOME", "/h"), ("COORDD_SOCKET", &socket)]).unwrap();
        let error = find(&[("HOME", "/h"), ("COORDD_SOCKET", &(socket + "x"))]).unwrap_err();
        assert!(error.to_string().contains("set COORDD_SOCKET"), "{error}");
    }

    #[test]
    fn a_folder_that_the_user_named_is_checked_and_never_changed() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(open.join("file"), "x").unwrap();
        let socket = open.join("s").to_str().unwrap().to_owned();
        let state = open.to_str().unwrap().to_owned();
        let paths =
            find(&[("HOME", "/h"), ("COORDD_SOCKET", &socket), ("COORDD_STATE_DIR", &state)])
                .unwrap();
        for error in [paths.open_runtime().unwrap_err(), paths.open_state().unwrap_err()] {
            let PathsError::Folder { source, .. } = &error else { panic!("{error}") };
            assert!(matches!(source, DirError::BadMode { .. }), "{source}");
        }
        assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o777);
        assert!(open.join("file").exists());
    }

    #[test]
    fn the_state_folders_are_made_closed_and_removed_whole() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let paths = find(&[("HOME", home)]).unwrap();
        let state = paths.open_state().unwrap();
        let agent = state.agent("s1", "a1").unwrap();
        let expected = folder.path().join(".local/state/coordd/sessions/s1/agents/a1");
        assert_eq!(agent.path(), expected);
        for path in expected.ancestors().take_while(|it| *it != folder.path()) {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700, "{path:?}");
        }
        fs::write(expected.join("transcript"), "x").unwrap();
        assert!(state.remove_session("s1").unwrap().is_complete());
        assert!(!expected.exists());
        assert_eq!(state.remove_session("s1").unwrap().removed, 0);
    }

    #[test]
    fn rel27_an_id_cannot_lead_elsewhere() {
        for good in ["a", "0", "A.b_c-9", &"x".repeat(64)] {
            assert_eq!(id(good).unwrap(), good);
        }
        let long = "x".repeat(65);
        for bad in
            ["", ".", "..", "../x", "a/b", "a\0b", "-rf", ".x", "\u{202e}", "Ａ", "a\n", &long]
        {
            assert!(id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn home_comes_from_the_password_file_when_the_variable_is_unset() {
        let paths = find(&[]).unwrap();
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
        assert_eq!(paths.home, user.dir);
    }

    #[test]
    fn a_relative_path_is_refused_with_the_variable() {
        let error = find(&[("HOME", "/h"), ("COORDD_SOCKET", "x.sock")]).unwrap_err();
        assert!(error.to_string().contains("COORDD_SOCKET"), "{error}");
        // By the XDG rules a relative one counts as unset.
        let paths = find(&[("HOME", "/h"), ("XDG_STATE_HOME", "x")]).unwrap();
        assert_eq!(paths.state.path(), Path::new("/h/.local/state/coordd"));
    }
}
