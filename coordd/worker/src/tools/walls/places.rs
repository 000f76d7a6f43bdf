//! What lies on a machine that no command of an agent is to see.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use coordd_sandbox::Policy;

use super::Site;
use crate::tools::context::PathFilter;

/// Folders that each box has of its own, so that what lies in them has to be put there.
pub(super) const COVERED: [&str; 3] = ["/tmp", "/run", "/dev/shm"];

/// Below the home folder: keys, tokens, browsers, histories, other programs' conversations.
const SECRETS: [&str; 74] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".oci",
    ".fly",
    ".age",
    ".vault-token",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".boto",
    ".s3cfg",
    ".dockercfg",
    ".docker",
    ".git-credentials",
    ".config/git/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".terraform.d",
    ".subversion/auth",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/doctl",
    ".config/hcloud",
    ".config/scw",
    ".config/netlify",
    ".config/heroku",
    ".config/rclone",
    ".config/sops",
    ".config/age",
    ".config/containers",
    ".config/configstore",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".config/Signal",
    ".config/Slack",
    ".config/discord",
    ".mozilla",
    ".thunderbird",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/opencode",
    ".local/share/opencode",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".mysql_history",
    ".python_history",
    ".node_repl_history",
    ".local/share/fish",
    ".local/share/com.vercel.cli",
];

/// What a machine has at its root for programs. All else there is somebody's data.
const SYSTEM_ROOTS: [&str; 18] = [
    "bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc",
    "run", "sbin", "sys", "tmp", "usr", "var",
];

/// Data in folders of the system.
const DATA: [&str; 9] = [
    "/boot",
    "/var/backups",
    "/var/cache",
    "/var/crash",
    "/var/log",
    "/var/mail",
    "/var/spool",
    "/var/tmp",
    "/var/www",
];

/// Folders of tools below the home folder: what is not theirs in the home folder is its user's own.
pub(super) const TOOLS: [&str; 4] = [".cargo", ".rustup", ".nvm", "go"];

/// On the machine: what matters when the agent runs as root.
const SYSTEM: [&str; 12] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers.d",
    "/etc/NetworkManager/system-connections",
    "/etc/wireguard",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/var/run/secrets",
];

/// Variables that name sockets of the user's session, or are keys to it.
pub(super) const LEADING_OUT: [&str; 14] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DOCKER_HOST",
    "COORDD_SOCKET",
    "TMUX",
    "STY",
    "XDG_RUNTIME_DIR",
    "GNOME_KEYRING_CONTROL",
    "VSCODE_IPC_HOOK_CLI",
];

/// Most sockets that are covered one by one.
const SOCKETS_MAX: usize = 512;
/// Longest list of sockets that is read.
const LIST_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Most home folders of others whose keys are named.
const OTHER_HOMES_MAX: usize = 100;

/// Most names that are looked at for rules: some tenths of a second.
const NAMES_MAX: usize = 200_000;

/// How far below the root of all scratchpads one lies is not needed here: the root is covered, and the session's own is put back.
pub(super) fn secrets(site: &Site) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = private(site.home.as_deref());
    all.push(crate::tools::permissions::state_of(&site.agent_state).to_owned());
    let listens = site.socket.parent().filter(|it| it.ends_with("coordd"));
    all.push(listens.unwrap_or(&site.socket).to_owned());
    let name = format!("claude-{}", rustix::process::geteuid().as_raw());
    all.push(site.temp.join(name));
    let mut resolved: Vec<PathBuf> = all.into_iter().map(super::real).collect();
    resolved.sort();
    resolved.dedup();
    resolved
}

/// Keys and private data of the user, of other users and of the machine, whether they are there or not.
pub(crate) fn private(home: Option<&Path>) -> Vec<PathBuf> {
    let below_home = home.into_iter().flat_map(|home| SECRETS.map(|name| home.join(name)));
    // Keys of other users are theirs by their modes, but root's agent could read them.
    let homes = std::fs::read_dir("/home").into_iter().flatten().flatten().take(OTHER_HOMES_MAX);
    let others = homes.flat_map(|it| [".ssh", ".gnupg", ".aws"].map(|name| it.path().join(name)));
    below_home.chain(SYSTEM.map(PathBuf::from)).chain(others).collect()
}

/// What is neither the system's nor made for a session: home folders, data, other file systems.
pub(crate) fn foreign(home: Option<&Path>) -> Vec<PathBuf> {
    let at_root = std::fs::read_dir("/").into_iter().flatten().flatten();
    let others = at_root
        .filter(|it| !SYSTEM_ROOTS.iter().any(|name| it.file_name() == *name))
        .map(|it| it.path());
    let always = ["/home", "/root", "/media", "/mnt", "/srv"].into_iter().chain(DATA);
    let mut all: Vec<PathBuf> = always.map(PathBuf::from).chain(others).collect();
    all.extend(home.map(Path::to_owned).filter(|it| it != Path::new("/")));
    all.sort();
    all.dedup();
    all
}

/// Where programs of this machine listen, as far as it is not covered anyway.
pub(super) fn sockets(policy: &Policy) -> BTreeSet<PathBuf> {
    use std::io::Read as _;
    let mut list = String::new();
    let read = std::fs::File::open("/proc/net/unix")
        .and_then(|it| it.take(LIST_LEN_MAX).read_to_string(&mut list));
    if read.is_err() {
        return BTreeSet::new();
    }
    let covered = |path: &Path| {
        COVERED.iter().any(|it| path.starts_with(it))
            || policy.hidden.iter().any(|it| path.starts_with(&it.0))
    };
    let own = |path: &Path| policy.writable.iter().any(|it| path.starts_with(&it.at.0));
    let paths = list.lines().skip(1).filter_map(|line| line.split_whitespace().nth(7));
    let paths = paths.filter(|it| it.starts_with('/')).map(PathBuf::from);
    let is_socket = |it: &PathBuf| it.symlink_metadata().is_ok_and(|it| it.file_type().is_socket());
    paths
        .map(|it| {
            it.parent()
                .map(|up| super::real(up.to_owned()))
                .unwrap_or_default()
                .join(it.file_name().unwrap_or_default())
        })
        .filter(|it| (!covered(it) || own(it)) && is_socket(it))
        .take(SOCKETS_MAX)
        .collect()
}

/// What a filter covers below some folders, the folder itself where all of it is covered. None when there is too much to look at.
pub(super) fn found_by(filter: &PathFilter, from: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = from.to_vec();
    let mut looked_at = 0;
    while let Some(path) = open.pop() {
        looked_at += 1;
        if looked_at > NAMES_MAX {
            return None;
        }
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_symlink() {
            // The kernel covers what it leads to.
            let real = super::real(path.clone());
            if filter(&path) && real.exists() {
                found.insert(real);
            }
        } else if filter(&path) {
            found.insert(path);
        } else if metadata.is_dir() {
            open.extend(
                std::fs::read_dir(&path).into_iter().flatten().flatten().map(|it| it.path()),
            );
        }
    }
    Some(found)
}
