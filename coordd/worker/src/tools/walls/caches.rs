//! Caches of build tools: they are read as they are, and what one agent adds stays its own, so that none can put something
//! under another's build or under the user's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use coordd_sandbox::Overlay;

/// Folders below the home folder that tools write to while they build.
const FOLDERS: [&str; 14] = [
    ".cargo",
    ".rustup",
    ".cache",
    ".npm",
    ".yarn",
    ".bun",
    ".deno",
    "go",
    ".gradle",
    ".m2",
    ".nuget",
    ".ivy2",
    ".local/share/pnpm",
    ".local/share/uv",
];

/// Variables that put such a folder elsewhere.
const VARIABLES: [&str; 4] = ["CARGO_HOME", "RUSTUP_HOME", "GOPATH", "XDG_CACHE_HOME"];

/// Where a tool keeps its cache when it has none yet: the variable, the folder that it would make, and its name in `/tmp`.
const USUAL: [(&str, &str, &str); 8] = [
    ("XDG_CACHE_HOME", ".cache", ".cache"),
    ("CARGO_HOME", ".cargo", ".cargo"),
    ("npm_config_cache", ".npm", ".npm"),
    ("GOPATH", "go", "go"),
    ("GRADLE_USER_HOME", ".gradle", ".gradle"),
    ("PNPM_HOME", ".local/share/pnpm", ".pnpm"),
    ("YARN_CACHE_FOLDER", ".yarn", ".yarn"),
    ("DENO_DIR", ".deno", ".deno"),
];

/// A copy of the agent's own of each cache that is there.
pub(super) fn overlays(
    folder: &Path,
    home: Option<&Path>,
    environment: &BTreeMap<OsString, OsString>,
) -> Vec<Overlay> {
    let below_home = home.into_iter().flat_map(|home| FOLDERS.map(|name| home.join(name)));
    let named =
        VARIABLES.into_iter().filter_map(|it| environment.get(OsStr::new(it))).map(PathBuf::from);
    let mut places: Vec<PathBuf> = below_home
        .chain(named)
        .filter(|it| it.is_absolute() && it.is_dir())
        .map(super::real)
        .collect();
    places.sort();
    places.dedup();
    let inside = |it: &PathBuf, all: &[PathBuf]| {
        all.iter().any(|other| it != other && it.starts_with(other))
    };
    let all = places.clone();
    places.retain(|it| !inside(it, &all));
    places.into_iter().filter_map(|at| overlay(folder, at)).collect()
}

fn overlay(folder: &Path, at: PathBuf) -> Option<Overlay> {
    let name: String = at.to_str()?.chars().map(|it| if it == '/' { '-' } else { it }).collect();
    let kept = folder.join("caches").join(name);
    let (upper, work) = (kept.join("changes"), kept.join("work"));
    super::make_private(&upper).ok()?;
    super::make_private(&work).ok()?;
    Some(Overlay { at: at.into(), upper: upper.into(), work: work.into() })
}

/// What tools are told about their caches: `/tmp` for one that is not there, and for all where there are no copies.
pub(super) fn variables(
    temp: &Path,
    home: Option<&Path>,
    environment: &BTreeMap<OsString, OsString>,
    copies: bool,
) -> Vec<(OsString, Option<OsString>)> {
    let is_there = |name: &str| home.is_some_and(|home| home.join(name).is_dir());
    USUAL
        .into_iter()
        .filter(|(variable, folder, _)| {
            // What cargo has is needed without a network; it goes on with a cache that it cannot write.
            let usable = copies || *variable == "CARGO_HOME";
            let is_set = environment.contains_key(OsStr::new(variable));
            !(is_set && copies) && !(usable && (is_there(folder) || is_set))
        })
        .map(|(variable, _, name)| (variable.into(), Some(temp.join(name).into_os_string())))
        .collect()
}

/// The kernel leaves a folder without any mode behind, which nobody but root could remove.
pub(super) fn open_work_folders(folder: &Path) {
    let caches = std::fs::read_dir(folder.join("caches")).into_iter().flatten().flatten();
    for left in caches.map(|it| it.path().join("work/work")) {
        if left.is_dir() {
            // Where it fails, the folder's removal says so.
            drop(std::fs::set_permissions(left, std::fs::Permissions::from_mode(0o700)));
        }
    }
}
