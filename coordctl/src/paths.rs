//! Where things lie: the socket, the state folder, the configuration. Every rule about a path is
//! here, and coordd follows the same ones.

use crate::error::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes that fit into a socket address, without its ending zero.
pub(crate) const SOCKET_PATH_LEN_MAX: usize = 103;

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
        let home = absolute(vars, "HOME").or_else(|| home_of(uid));
        let below_home = |name: &str, rest: &str| {
            absolute(vars, name).or_else(|| home.as_ref().map(|home| home.join(rest))).ok_or_else(
                || {
                    Failure::failed(format!("neither HOME nor {name} names a folder"))
                        .hint("set HOME to your home folder")
                },
            )
        };
        let state_dir = match chosen(vars, "COORDD_STATE_DIR")? {
            Some(path) => path,
            None => below_home("XDG_STATE_HOME", ".local/state")?.join("coordd"),
        };
        let config_dir = below_home("XDG_CONFIG_HOME", ".config")?;
        Ok(Self {
            socket: socket(vars, uid)?,
            socket_is_chosen: absolute(vars, "COORDD_SOCKET").is_some(),
            state_dir,
            config_file: config_dir.join("coordd/config.toml"),
            unit_dir: config_dir.join("systemd/user"),
        })
    }

    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.state_dir.join("coordd.log")
    }
}

/// A variable of ours, whose value must be an absolute path.
fn chosen(vars: &Vars, name: &str) -> Result<Option<PathBuf>, Failure> {
    match vars.get(name).filter(|it| !it.is_empty()).map(PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(Some(path)),
        Some(path) => Err(Failure::usage(format!(
            "{name} is {}, which is not an absolute path",
            path.display()
        ))
        .hint(format!("set {name} to an absolute path, or unset it"))),
        None => Ok(None),
    }
}

/// The runtime folder of a login session, as the XDG rules demand it: there, ours, closed to
/// others. A folder of another user, as `su` leaves it, counts as unset.
fn is_runtime_folder(path: &Path, uid: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let closed = |mode: u32| matches!(mode & 0o077, 0);
    path.metadata()
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == uid && closed(metadata.mode()))
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

/// The home folder in the password file.
fn home_of(uid: u32) -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok()??;
    Some(user.dir).filter(|it| it.is_absolute())
}

/// coordd's socket, if its path is short enough to be one.
fn socket(vars: &Vars, uid: u32) -> Result<PathBuf, Failure> {
    let (path, prefix, cure) = if let Some(path) = chosen(vars, "COORDD_SOCKET")? {
        (path.clone(), path, "set COORDD_SOCKET to a shorter path")
    } else if let Some(run) =
        absolute(vars, "XDG_RUNTIME_DIR").filter(|it| is_runtime_folder(it, uid))
    {
        let cure = "set XDG_RUNTIME_DIR to a shorter folder, or COORDD_SOCKET to a shorter path";
        (run.join("coordd/coordd.sock"), run, cure)
    } else {
        let temp = chosen(vars, "CLAUDE_CODE_TMPDIR")?.unwrap_or_else(|| "/tmp".into());
        let cure = "set CLAUDE_CODE_TMPDIR to a shorter folder, or COORDD_SOCKET to a shorter path";
        (temp.join(format!("claude-{uid}/run/coordd.sock")), temp, cure)
    };
    check_length(&path, &prefix, cure)?;
    Ok(path)
}

fn check_length(path: &Path, prefix: &Path, cure: &str) -> Result<(), Failure> {
    let len = path.as_os_str().len();
    if len <= SOCKET_PATH_LEN_MAX {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the socket's path would be {len} bytes long, and a socket can have {SOCKET_PATH_LEN_MAX}: {} is too long",
        prefix.display()
    ))
    .hint(cure))
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
        let uid = rustix::process::geteuid().as_raw();
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
        (folder, rustix::process::geteuid().as_raw())
    }

    #[test]
    fn d2_the_socket_is_in_the_runtime_folder_or_below_tmp() {
        let (folder, uid) = runtime();
        let run = folder.path().to_str().unwrap();
        let at = |pairs: &[(&str, &str)], uid| socket(&vars(pairs), uid).unwrap();
        assert_eq!(at(&[("XDG_RUNTIME_DIR", run)], uid), folder.path().join("coordd/coordd.sock"));
        let below_tmp = |uid| PathBuf::from(format!("/tmp/claude-{uid}/run/coordd.sock"));
        assert_eq!(at(&[], uid), below_tmp(uid));
        assert_eq!(at(&[("XDG_RUNTIME_DIR", "relative")], uid), below_tmp(uid));
        assert_eq!(at(&[("XDG_RUNTIME_DIR", "/nonexistent")], uid), below_tmp(uid));
        assert_eq!(at(&[("XDG_RUNTIME_DIR", run)], uid + 1), below_tmp(uid + 1), "of another user");
        assert_eq!(
            at(&[("CLAUDE_CODE_TMPDIR", "/t")], 7),
            Path::new("/t/claude-7/run/coordd.sock")
        );
        assert_eq!(at(&[("COORDD_SOCKET", "/s"), ("XDG_RUNTIME_DIR", run)], uid), Path::new("/s"));
        let error = socket(&vars(&[("COORDD_SOCKET", "s")]), uid).unwrap_err();
        assert!(error.hint.contains("COORDD_SOCKET"));
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

    #[test]
    fn rel92_a_long_path_is_refused_with_its_prefix() {
        let (folder, uid) = runtime();
        let room =
            SOCKET_PATH_LEN_MAX - "/coordd/coordd.sock".len() - folder.path().as_os_str().len();
        let make = |len: usize| {
            let long = folder.path().join("x".repeat(len - 1));
            std::fs::create_dir(&long).unwrap();
            std::fs::set_permissions(&long, std::os::unix::fs::PermissionsExt::from_mode(0o700))
                .unwrap();
            long.to_str().unwrap().to_owned()
        };
        let long = make(room + 1);
        let error = socket(&vars(&[("XDG_RUNTIME_DIR", &long)]), uid).unwrap_err();
        assert!(error.message.contains("104 bytes") && error.message.contains(&long), "{error}");
        assert!(error.hint.contains("XDG_RUNTIME_DIR"));
        assert!(socket(&vars(&[("XDG_RUNTIME_DIR", &make(room))]), uid).is_ok());
        let chosen =
            socket(&vars(&[("COORDD_SOCKET", &format!("{long}{long}"))]), uid).unwrap_err();
        assert!(chosen.hint.contains("COORDD_SOCKET"));
    }

    #[test]
    fn state_and_configuration_follow_the_usual_variables() {
        let paths = Paths::of(&vars(&[("HOME", "/h")]), 7).unwrap();
        assert_eq!(paths.state_dir, Path::new("/h/.local/state/coordd"));
        assert_eq!(paths.config_file, Path::new("/h/.config/coordd/config.toml"));
        assert_eq!(paths.unit_dir, Path::new("/h/.config/systemd/user"));
        let set = [("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")];
        let paths = Paths::of(&vars(&set), 7).unwrap();
        assert_eq!(paths.daemon_log(), Path::new("/s/coordd/coordd.log"));
        assert_eq!(paths.config_file, Path::new("/c/coordd/config.toml"));
    }
}
