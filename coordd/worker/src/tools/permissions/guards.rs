//! What no rule has to name: folders that hold the secrets of others, and files that configure what runs.
//!
//! ```text
//! sealed      reading and writing ask: coordd's state (keys of all sessions), its socket, other sessions' scratchpads, keys and
//!             private data: what is covered in an agent's box, its file tools do not open either
//! configures  writing asks: coordd's settings, ssh, start-up files of shells, units
//! ```
//!
//! An allow rule counts for them only when it is about them: one that covers what lies beside them as well does not. It must
//! not forbid anything: the user may say yes.

use std::path::{Path, PathBuf};

use super::rule::Rule;
use crate::tools::paths;
use crate::tools::walls::places;

/// Below the home folder: what is read and run without being asked for by name.
pub(crate) const CONFIGURES: [&str; 29] = [
    ".config/coordd",
    ".config/systemd",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/git",
    ".local/share/systemd",
    ".local/bin",
    ".ssh",
    ".gnupg",
    ".gitconfig",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".inputrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".xprofile",
    ".xsessionrc",
];

/// How far below the root of all scratchpads one lies: `claude-<uid>/<folder>/<session>/scratchpad`.
const SCRATCHPAD_DEPTH: usize = 3;
/// How far below coordd's state an agent's folder lies: `sessions/<id>/agents/<agent>`.
const AGENT_DEPTH: usize = 4;

/// Where coordd and its settings are, as far as an agent knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The agent's own folder in coordd's state.
    pub(crate) agent_state: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, where it is set.
    pub(crate) config_home: Option<PathBuf>,
    /// Where scratchpads begin, in `claude-<uid>`.
    pub(crate) temp: Option<PathBuf>,
    /// Whether the session's folders and the system are all that the agent may see.
    pub(crate) folder_only: bool,
}

/// A folder or file that is guarded, under each of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guard {
    paths: Vec<PathBuf>,
    /// Whether a workspace in it is free.
    opens: bool,
    why: &'static str,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    sealed: Vec<Guard>,
    configures: Vec<Guard>,
    /// The session's own folders, resolved.
    roots: Vec<PathBuf>,
}

/// Why a path is guarded, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guarded<'a> {
    /// The guarded folder or file.
    pub(super) top: &'a Path,
    pub(super) why: &'static str,
}

/// What `/proc` tells of processes: their environments, and ways into every folder.
fn process() -> Guarded<'static> {
    Guarded {
        top: Path::new("/proc/any/environ"),
        why: "tells of a process, keys in its environment included",
    }
}

/// Whether a path is below the folder of a process.
fn is_of_a_process(path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix("/proc") else { return false };
    let mut parts = inside.components().map(|part| part.as_os_str().to_string_lossy());
    let is_process = |name: &str| {
        matches!(name, "self" | "thread-self") || name.bytes().all(|byte| byte.is_ascii_digit())
    };
    parts.next().is_some_and(|name| is_process(&name))
}

impl Guarded<'_> {
    /// Whether an allow rule that covers the path is meant for what is guarded.
    pub(super) fn is_meant_by(self, rule: &Rule) -> bool {
        let beside = self.top.with_file_name("any other name");
        !rule.covers_path(&beside)
    }
}

impl Guards {
    /// `roots` are the session's own folders, resolved.
    pub(super) fn new(
        known: &Places,
        home: Option<&Path>,
        scratchpad: Option<&Path>,
        roots: &[PathBuf],
    ) -> Self {
        let mut sealed = Vec::new();
        if let Some(folder) = &known.agent_state {
            let why = "is coordd's own state, with the keys of all sessions";
            sealed.push(guard(state_of(folder), false, why));
        }
        if let Some(socket) = &known.socket {
            let why = "is where coordd listens";
            let folder = socket.parent().filter(|it| it.ends_with("coordd"));
            sealed.push(guard(folder.unwrap_or(socket), false, why));
        }
        let name = format!("claude-{}", coordd_common::processes::euid());
        let around = scratchpad.and_then(|it| it.ancestors().nth(SCRATCHPAD_DEPTH));
        let around = around.filter(|it| it.ends_with(&name)).map(Path::to_owned);
        let usual = known.temp.as_ref().map(|it| it.join(&name));
        for root in around.into_iter().chain(usual) {
            sealed.push(guard(&root, true, "is another session's"));
        }
        let why = "is where keys or private data are kept";
        sealed.extend(places::private(home).iter().map(|it| guard(it, true, why)));
        if known.folder_only {
            let why = "is not this session's; work for another machine has the session's folder and the system alone";
            let outside = |it: &&PathBuf| !roots.iter().any(|root| it.starts_with(root));
            let foreign = places::foreign(home);
            sealed.extend(foreign.iter().filter(outside).map(|it| guard(it, true, why)));
        }
        let why = "configures what runs";
        let below_home = |home: &Path| CONFIGURES.map(|it| guard(&home.join(it), false, why));
        let mut configures: Vec<Guard> = home.map(below_home).into_iter().flatten().collect();
        for name in ["coordd", "systemd", "autostart", "environment.d", "fish", "git"] {
            let it = known.config_home.as_ref().map(|it| guard(&it.join(name), false, why));
            configures.extend(it);
        }
        Self { sealed, configures, roots: roots.to_vec() }
    }

    /// What seals a resolved path, if something does.
    pub(super) fn sealed(&self, path: &Path) -> Option<Guarded<'_>> {
        self.sealed
            .iter()
            .find_map(|it| it.covering(path, &self.roots))
            .or_else(|| is_of_a_process(path).then(process))
    }

    /// What makes a write to a path a question, if something does.
    pub(super) fn configured(&self, path: &Path) -> Option<Guarded<'_>> {
        self.configures.iter().find_map(|it| it.covering(path, &[]))
    }

    /// Whether a search that began above leaves a path out.
    pub(super) fn withholds(&self, path: &Path) -> bool {
        self.sealed(path).is_some() && !self.roots.iter().any(|root| root.starts_with(path))
    }

    /// What is sealed somewhere below a folder.
    pub(super) fn sealed_below(&self, folder: &Path) -> Option<Guarded<'_>> {
        self.sealed_where(|top| top.starts_with(folder))
    }

    /// What is sealed and could be meant by a path that begins with this text.
    pub(super) fn sealed_behind(&self, beginning: &str) -> Option<Guarded<'_>> {
        let begins =
            |top: &Path| top.to_str().is_some_and(|it| format!("{it}/").starts_with(beginning));
        let is_process = beginning.starts_with("/proc/") || "/proc/".starts_with(beginning);
        self.sealed_where(begins).or_else(|| is_process.then(process))
    }

    /// What is sealed and named somewhere inside a text.
    pub(super) fn sealed_in(&self, text: &str) -> Option<Guarded<'_>> {
        let own = self.roots.iter().any(|it| it.to_str().is_some_and(|it| text.contains(it)));
        if own {
            return None;
        }
        self.sealed_where(|top| top.to_str().is_some_and(|it| text.contains(it)))
    }

    fn sealed_where(&self, is_it: impl Fn(&Path) -> bool) -> Option<Guarded<'_>> {
        self.sealed.iter().find_map(|guard| {
            let top = guard.paths.iter().find(|it| is_it(it))?;
            Some(Guarded { top, why: guard.why })
        })
    }
}

impl Guard {
    fn covering(&self, path: &Path, roots: &[PathBuf]) -> Option<Guarded<'_>> {
        let top = self.paths.iter().find(|it| path.starts_with(it))?;
        let inside = |root: &&PathBuf| root.starts_with(top) && root.as_path() != top;
        let own = self.opens && roots.iter().filter(inside).any(|root| path.starts_with(root));
        (!own).then_some(Guarded { top, why: self.why })
    }
}

fn guard(path: &Path, opens: bool, why: &'static str) -> Guard {
    let mut names = vec![paths::normalize(path)];
    names.extend(paths::resolve(path).ok().filter(|it| !names.contains(it)));
    Guard { paths: names, opens, why }
}

/// coordd's state folder, or the agent's own one where it does not lie as coordd lays it.
pub(crate) fn state_of(agent: &Path) -> &Path {
    let as_laid = agent.ancestors().nth(1).is_some_and(|it| it.ends_with("agents"))
        && agent.ancestors().nth(3).is_some_and(|it| it.ends_with("sessions"));
    agent.ancestors().nth(AGENT_DEPTH).filter(|_| as_laid).unwrap_or(agent)
}
