//! Where coordctl looks: for the daemon by the daemon's own rules, in `coordd-common`, and for programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coordd_common::paths::{Paths as Found, PathsError, is_runtime_folder};

use crate::error::Failure;

/// The environment as it was at the start.
pub(crate) type Vars = BTreeMap<String, String>;

/// Where this user's coordd has its things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    pub(crate) socket: PathBuf,
    /// Whether `COORDD_SOCKET` named it; then no service manager is asked.
    pub(crate) socket_is_chosen: bool,
    pub(crate) state_dir: PathBuf,
    pub(crate) config_file: PathBuf,
    pub(crate) unit_dir: PathBuf,
}

impl Paths {
    pub(crate) fn of(vars: &Vars, uid: u32) -> Result<Self, Failure> {
        let found = Found::find(&|name| vars.get(name).map(Into::into), uid)
            .map_err(|error| failed(&error))?;
        Ok(Self {
            socket_is_chosen: found.runtime.is_named,
            socket: found.socket,
            state_dir: found.state.path(),
            config_file: found.config_file,
            unit_dir: found.unit_dir,
        })
    }

    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.state_dir.join("coordd.log")
    }
}

fn failed(error: &PathsError) -> Failure {
    let hint = error.hint();
    let failure = match error {
        PathsError::NotAbsolute { .. } => Failure::usage(error.to_string()),
        PathsError::SocketTooLong { .. } | PathsError::NoHome { .. } => {
            Failure::failed(error.to_string())
        }
    };
    failure.hint(hint)
}

/// Where a login session of this user has its runtime folder on usual systems.
pub(crate) fn login_runtime_folder(uid: u32) -> PathBuf {
    PathBuf::from(format!("/run/user/{uid}"))
}

/// The usual folder of this user, if it exists and the environment names none.
pub(crate) fn missing_runtime_folder(vars: &Vars, folder: PathBuf, uid: u32) -> Option<String> {
    let named = |name: &str| vars.get(name).is_some_and(|it| !it.is_empty());
    if named("XDG_RUNTIME_DIR") || named("COORDD_SOCKET") || !is_runtime_folder(&folder, uid) {
        return None;
    }
    folder.into_os_string().into_string().ok()
}

/// The runtime folder in the environment, if it is unusable and therefore ignored.
pub(crate) fn unusable_runtime_folder(vars: &Vars, uid: u32) -> Option<String> {
    let chosen = vars.get("COORDD_SOCKET").is_some_and(|it| !it.is_empty());
    let named = vars.get("XDG_RUNTIME_DIR").filter(|it| !it.is_empty() && !chosen)?;
    let path = Path::new(named);
    (!path.is_absolute() || !is_runtime_folder(path, uid)).then(|| named.clone())
}

/// The value of a variable that holds an absolute path; other values count as unset.
pub(crate) fn absolute(vars: &Vars, name: &str) -> Option<PathBuf> {
    vars.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A program of this project: named by a variable, beside our own executable, or in PATH.
pub(crate) fn program(vars: &Vars, variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(path) = vars.get(variable).filter(|it| !it.is_empty()) {
        return Some(PathBuf::from(path));
    }
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(name)));
    beside.filter(|path| is_executable(path)).or_else(|| in_path(vars, name))
}

/// A program in PATH.
pub(crate) fn in_path(vars: &Vars, name: &str) -> Option<PathBuf> {
    let folders = vars.get("PATH")?;
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-4: clients that hand on next to nothing of their environment.
    #[test]
    fn l4_a_login_sessions_folder_stands_in_for_a_variable_that_is_missing() {
        use std::os::unix::fs::PermissionsExt as _;
        let uid = coordd_common::processes::euid();
        let folder = tempfile::tempdir().unwrap();
        let open_to = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path(), permissions).unwrap();
        };
        open_to(0o700);
        let found = |pairs: &[(&str, &str)]| {
            missing_runtime_folder(&vars(pairs), folder.path().to_owned(), uid)
        };
        assert_eq!(found(&[]).as_deref(), folder.path().to_str());
        assert_eq!(found(&[("XDG_RUNTIME_DIR", "")]).as_deref(), folder.path().to_str());
        assert_eq!(found(&[("XDG_RUNTIME_DIR", "/elsewhere")]), None);
        assert_eq!(found(&[("COORDD_SOCKET", "/s")]), None);
        open_to(0o755);
        assert_eq!(found(&[]), None, "open to others");
    }

    fn vars(pairs: &[(&str, &str)]) -> Vars {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// A runtime folder as a login makes it, and its owner.
    fn runtime() -> (tempfile::TempDir, u32) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .unwrap();
        (folder, coordd_common::processes::euid())
    }

    #[test]
    fn a_runtime_folder_that_is_passed_over_is_known() {
        let (folder, uid) = runtime();
        let run = folder.path().to_str().unwrap();
        let passed_over = |pairs: &[(&str, &str)]| unusable_runtime_folder(&vars(pairs), uid);
        assert_eq!(passed_over(&[]), None);
        assert_eq!(passed_over(&[("XDG_RUNTIME_DIR", run)]), None);
        assert_eq!(passed_over(&[("XDG_RUNTIME_DIR", "/gone")]).as_deref(), Some("/gone"));
        assert_eq!(passed_over(&[("XDG_RUNTIME_DIR", "/gone"), ("COORDD_SOCKET", "/s")]), None);
    }
}
