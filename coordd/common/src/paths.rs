//! Where the files of the daemon are, for the daemon and for those who look for it.
//!
//! ```text
//! runtime  $XDG_RUNTIME_DIR/coordd, else ${CLAUDE_CODE_TMPDIR:-/tmp}/claude-<uid>/run     coordd.sock, coordd.lock
//! state    ${XDG_STATE_HOME:-~/.local/state}/coordd                                       the store, sessions/
//! config   ${XDG_CONFIG_HOME:-~/.config}/coordd/config.toml                               read only
//! ```
//!
//! `COORDD_SOCKET` and `COORDD_STATE_DIR` name the socket and the state folder outright. Nothing is made by finding out.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Longest path of a socket that every Unix takes, without its ending zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

/// The environment, or a made-up one.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Why there is no place for the daemon's files.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// The socket would have a path that is no address.
    #[error(
        "the socket's path would be {len} bytes long, and a socket can have {SOCKET_PATH_BYTES_MAX}: {} is too long",
        prefix.display()
    )]
    SocketTooLong {
        /// What the user can shorten.
        prefix: PathBuf,
        /// How long the path would be.
        len: usize,
        /// What names the prefix.
        variable: &'static str,
    },
    /// A variable has a value that depends on who reads it.
    #[error("{variable} is {}, which is no absolute path", value.display())]
    NotAbsolute {
        /// Which variable.
        variable: &'static str,
        /// Its value.
        value: PathBuf,
    },
    /// Neither the environment nor the password file names a home folder.
    #[error("there is no home folder for user {uid}")]
    NoHome {
        /// The user.
        uid: u32,
    },
}

impl PathsError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::SocketTooLong { variable: "COORDD_SOCKET", .. } => {
                "set COORDD_SOCKET to a shorter path".to_owned()
            }
            Self::SocketTooLong { variable, .. } => {
                format!("set {variable} to a shorter folder, or COORDD_SOCKET to a shorter path")
            }
            Self::NotAbsolute { variable, .. } => {
                format!("set {variable} to an absolute path, or unset it")
            }
            Self::NoHome { .. } => "set HOME to your home folder".to_owned(),
        }
    }
}

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The user's home folder.
    pub home: PathBuf,
    /// `${CLAUDE_CODE_TMPDIR:-/tmp}`, where scratchpads are.
    pub tmp: PathBuf,
    /// `$XDG_RUNTIME_DIR`, where it is what the rules demand.
    pub xdg_runtime: Option<PathBuf>,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The folder of the socket and its lock.
    pub runtime: Place,
    /// The folder of all that lasts.
    pub state: Place,
    /// What the user sets.
    pub config_file: PathBuf,
    /// The user's own units of systemd.
    pub unit_dir: PathBuf,
}

/// A folder of ours: one that stands already, and what we make below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What stands already.
    pub base: PathBuf,
    /// The folders below it, from the top.
    pub names: Vec<String>,
    /// What the user sets to have it elsewhere.
    pub variable: &'static str,
    /// Whether the user named it, so that it is checked but never changed.
    pub is_named: bool,
}

impl Place {
    /// The folder itself.
    pub fn path(&self) -> PathBuf {
        self.names.iter().fold(self.base.clone(), |path, name| path.join(name))
    }
}

impl Paths {
    /// Finds out for a user from an environment.
    pub fn find(env: Env<'_>, uid: u32) -> Result<Self, PathsError> {
        let home = home(env, uid)?;
        let tmp = absolute(env, "CLAUDE_CODE_TMPDIR")?.unwrap_or_else(|| PathBuf::from("/tmp"));
        let xdg_runtime =
            xdg(env, "XDG_RUNTIME_DIR").filter(|folder| is_runtime_folder(folder, uid));
        let (runtime, socket) = runtime(env, &tmp, xdg_runtime.as_deref(), uid)?;
        let state = state(env, &home)?;
        let config = xdg(env, "XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        Ok(Self {
            config_file: config.join("coordd/config.toml"),
            unit_dir: config.join("systemd/user"),
            home,
            tmp,
            xdg_runtime,
            socket,
            runtime,
            state,
        })
    }
}

fn runtime(
    env: Env<'_>,
    tmp: &Path,
    xdg_runtime: Option<&Path>,
    uid: u32,
) -> Result<(Place, PathBuf), PathsError> {
    if let Some(socket) = absolute(env, "COORDD_SOCKET")? {
        let folder = socket.parent().unwrap_or(Path::new("/"));
        let place = named(folder, "COORDD_SOCKET");
        return checked(socket.clone(), &socket, "COORDD_SOCKET").map(|socket| (place, socket));
    }
    let (base, names, variable) = match xdg_runtime {
        Some(base) => (base, vec!["coordd".to_owned()], "XDG_RUNTIME_DIR"),
        None => (tmp, vec![format!("claude-{uid}"), "run".to_owned()], "CLAUDE_CODE_TMPDIR"),
    };
    let place = Place { base: base.to_path_buf(), names, variable, is_named: false };
    let socket = checked(place.path().join("coordd.sock"), base, variable)?;
    Ok((place, socket))
}

fn checked(socket: PathBuf, prefix: &Path, variable: &'static str) -> Result<PathBuf, PathsError> {
    let len = socket.as_os_str().len();
    if len > SOCKET_PATH_BYTES_MAX {
        return Err(PathsError::SocketTooLong { prefix: prefix.to_path_buf(), len, variable });
    }
    Ok(socket)
}

fn state(env: Env<'_>, home: &Path) -> Result<Place, PathsError> {
    if let Some(path) = absolute(env, "COORDD_STATE_DIR")? {
        return Ok(named(&path, "COORDD_STATE_DIR"));
    }
    let base = xdg(env, "XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state"));
    let names = vec!["coordd".to_owned()];
    Ok(Place { base, names, variable: "XDG_STATE_HOME", is_named: false })
}

/// A folder that the user named: its parent is the base, so that the folder itself is checked as ours.
fn named(path: &Path, variable: &'static str) -> Place {
    let base = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Place { base, names: name.into_iter().collect(), variable, is_named: true }
}

/// Whether this is the runtime folder of a login session, as the XDG rules demand it: there, the user's, closed to others.
/// Another one, as `su` leaves it, is as good as unset.
pub fn is_runtime_folder(path: &Path, uid: u32) -> bool {
    let closed = |mode: u32| matches!(mode & 0o077, 0);
    path.metadata().is_ok_and(|found| found.is_dir() && found.uid() == uid && closed(found.mode()))
}

fn home(env: Env<'_>, uid: u32) -> Result<PathBuf, PathsError> {
    if let Some(home) = absolute(env, "HOME")? {
        return Ok(home);
    }
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    let home = user.map(|user| user.dir).filter(|home| home.is_absolute());
    home.ok_or(PathsError::NoHome { uid })
}

/// A variable that must name an absolute path where it has a value.
fn absolute(env: Env<'_>, variable: &'static str) -> Result<Option<PathBuf>, PathsError> {
    match env(variable).filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(Some(path)),
        Some(value) => Err(PathsError::NotAbsolute { variable, value }),
        None => Ok(None),
    }
}

/// A variable of the XDG rules, by which a relative path counts as unset.
fn xdg(env: Env<'_>, variable: &str) -> Option<PathBuf> {
    env(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn find(variables: &[(&str, &str)], uid: u32) -> Result<Paths, PathsError> {
        let value = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.into());
        Paths::find(&|name| value(name).or_else(|| (name == "HOME").then(|| "/h".into())), uid)
    }

    fn close(folder: &Path) {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).unwrap();
    }

    /// A runtime folder as a login makes it, and its owner.
    fn login() -> (tempfile::TempDir, u32) {
        let folder = tempfile::tempdir().unwrap();
        close(folder.path());
        (folder, rustix::process::geteuid().as_raw())
    }

    #[test]
    fn d2_the_socket_is_in_the_runtime_folder_or_below_tmp() {
        let (folder, uid) = login();
        let run = folder.path().to_str().unwrap();
        let at = |pairs: &[(&str, &str)], uid| find(pairs, uid).unwrap().socket;
        assert_eq!(at(&[("XDG_RUNTIME_DIR", run)], uid), folder.path().join("coordd/coordd.sock"));
        let below_tmp = |uid| PathBuf::from(format!("/tmp/claude-{uid}/run/coordd.sock"));
        assert_eq!(at(&[], uid), below_tmp(uid));
        assert_eq!(at(&[("XDG_RUNTIME_DIR", "relative")], uid), below_tmp(uid));
        assert_eq!(at(&[("XDG_RUNTIME_DIR", "/nonexistent")], uid), below_tmp(uid));
        assert_eq!(at(&[("XDG_RUNTIME_DIR", run)], uid + 1), below_tmp(uid + 1), "of another user");
        let tmp = [("CLAUDE_CODE_TMPDIR", "/t")];
        assert_eq!(at(&tmp, 7), Path::new("/t/claude-7/run/coordd.sock"));
        assert_eq!(at(&[("COORDD_SOCKET", "/s"), ("XDG_RUNTIME_DIR", run)], uid), Path::new("/s"));
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(at(&[("XDG_RUNTIME_DIR", run)], uid), below_tmp(uid), "open to others");
    }

    #[test]
    fn rel92_a_long_path_is_refused_with_its_prefix_and_what_to_set() {
        let (folder, uid) = login();
        let room =
            SOCKET_PATH_BYTES_MAX - "/coordd/coordd.sock".len() - folder.path().as_os_str().len();
        let make = |len: usize| {
            let long = folder.path().join("x".repeat(len - 1));
            std::fs::create_dir(&long).unwrap();
            close(&long);
            long.to_str().unwrap().to_owned()
        };
        let long = make(room + 1);
        let error = find(&[("XDG_RUNTIME_DIR", &long)], uid).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("104 bytes") && said.contains(&long), "{said}");
        assert!(said.contains("103") && error.hint().contains("set XDG_RUNTIME_DIR"));
        assert!(find(&[("XDG_RUNTIME_DIR", &make(room))], uid).is_ok());
        let error = find(&[("CLAUDE_CODE_TMPDIR", &long)], uid).unwrap_err();
        assert!(error.hint().contains("set CLAUDE_CODE_TMPDIR"), "{error}");
        let socket = format!("/tmp/{}", "x".repeat(98));
        assert_eq!(socket.len(), SOCKET_PATH_BYTES_MAX);
        find(&[("COORDD_SOCKET", &socket)], uid).unwrap();
        let error = find(&[("COORDD_SOCKET", &(socket + "x"))], uid).unwrap_err();
        assert_eq!(error.hint(), "set COORDD_SOCKET to a shorter path");
    }

    #[test]
    fn state_and_configuration_follow_the_usual_variables() {
        let paths = find(&[], 7).unwrap();
        assert_eq!(paths.state.path(), Path::new("/h/.local/state/coordd"));
        assert_eq!(paths.config_file, Path::new("/h/.config/coordd/config.toml"));
        assert_eq!(paths.unit_dir, Path::new("/h/.config/systemd/user"));
        let paths = find(&[("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")], 7).unwrap();
        assert_eq!(paths.state.path(), Path::new("/s/coordd"));
        assert_eq!(paths.config_file, Path::new("/c/coordd/config.toml"));
        let paths = find(&[("COORDD_STATE_DIR", "/own/state")], 7).unwrap();
        assert_eq!(paths.state.path(), Path::new("/own/state"));
        assert!(paths.state.is_named);
    }

    #[test]
    fn home_comes_from_the_password_file_when_the_variable_is_unset() {
        let uid = nix::unistd::geteuid();
        let paths = Paths::find(&|_| None, uid.as_raw()).unwrap();
        assert_eq!(paths.home, nix::unistd::User::from_uid(uid).unwrap().unwrap().dir);
        let nobody = Paths::find(&|_| None, u32::MAX - 7).unwrap_err();
        assert!(matches!(nobody, PathsError::NoHome { .. }), "{nobody}");
    }

    #[test]
    fn a_relative_path_is_refused_with_the_variable() {
        for variable in ["COORDD_SOCKET", "COORDD_STATE_DIR", "CLAUDE_CODE_TMPDIR", "HOME"] {
            let error = find(&[(variable, "x")], 7).unwrap_err();
            assert!(error.to_string().contains(variable), "{error}");
            assert!(error.hint().contains(variable), "{error}");
        }
        // By the XDG rules a relative one counts as unset.
        let paths = find(&[("XDG_STATE_HOME", "x"), ("XDG_CONFIG_HOME", "x")], 7).unwrap();
        assert_eq!(paths.state.path(), Path::new("/h/.local/state/coordd"));
        assert_eq!(paths.config_file, Path::new("/h/.config/coordd/config.toml"));
    }
}
