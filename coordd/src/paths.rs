//! The daemon's folders, made and checked. Where they are is found in `coordd-common`, by the rules that `coordctl` follows too.

use coordd_common::files::make_closed_folder;
pub(crate) use coordd_common::paths::{Env, Paths};
use coordd_common::paths::{PathsError as NotFound, Place};

use crate::dir::{Demand, Dir, DirError, Removal, euid};

/// Longest id that becomes the name of a folder.
const ID_BYTES_MAX: usize = 64;

/// Why there is no place for the daemon's files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathsError {
    #[error("{0}; {hint}", hint = .0.hint())]
    NotFound(NotFound),
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

/// Finds out from this process's environment.
pub(crate) fn from_env() -> Result<Paths, PathsError> {
    find(&|name| std::env::var_os(name))
}

/// Finds out from an environment.
pub(crate) fn find(env: Env<'_>) -> Result<Paths, PathsError> {
    Paths::find(env, euid()).map_err(PathsError::NotFound)
}

/// Opens the folder of the socket and the lock; it is ours and 0700.
pub(crate) fn open_runtime(paths: &Paths) -> Result<Dir, PathsError> {
    open(&paths.runtime, "the socket")
}

/// Opens the folder of everything that lasts; it is ours and 0700.
pub(crate) fn open_state(paths: &Paths) -> Result<StateDir, PathsError> {
    let (what, Place { base, variable, .. }) = ("the state", &paths.state);
    // The user's own folders on the way (`~/.local/state`) may not be there yet.
    make_closed_folder(base).map_err(|source| {
        let source = DirError::Io { action: "create", path: base.clone(), source };
        PathsError::Folder { what, variable, source }
    })?;
    Ok(StateDir { dir: open(&paths.state, what)? })
}

/// Opens a folder of ours, and makes what is missing of it.
fn open(place: &Place, what: &'static str) -> Result<Dir, PathsError> {
    let failed = |source| PathsError::Folder { what, variable: place.variable, source };
    let mut dir = Dir::base(&place.base).map_err(failed)?;
    let demand = if place.is_named { Demand::Strict } else { Demand::Repaired };
    for name in &place.names {
        dir = dir.enter(name, demand).map_err(failed)?.0;
    }
    Ok(dir)
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        super::find(&|name| variables.iter().find(|it| it.0 == name).map(|it| OsString::from(it.1)))
    }

    #[test]
    fn d2_the_runtime_folder_of_the_login_is_used_when_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().to_str().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let paths = find(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", base)]).unwrap();
        assert_eq!(paths.socket, folder.path().join("coordd/coordd.sock"));
        open_runtime(&paths).unwrap();
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
        assert_eq!(open_runtime(&paths).unwrap().path(), expected);
        assert_eq!(paths.config_file, Path::new("/h/.config/coordd/config.toml"));
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
        for error in [open_runtime(&paths).unwrap_err(), open_state(&paths).unwrap_err()] {
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
        let state = open_state(&paths).unwrap();
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
}
