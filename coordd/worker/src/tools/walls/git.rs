//! What of a git repository can be written: enough to commit, and nothing that makes git run a program.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// In a git folder: what names programs, or another folder that does.
const CONFIGURES: [&str; 6] = ["config", "config.worktree", "hooks", "info", "commondir", "gitdir"];

/// What a linked worktree changes in the folder that it shares.
const SHARED: [&str; 3] = ["objects", "refs", "logs"];

/// Longest file with the name of a folder in it.
const LINK_LEN_MAX: u64 = 8 * 1024;
/// Longest configuration that is read to see what it does.
const CONFIG_LEN_MAX: u64 = 256 * 1024;

/// How deep submodules lie in each other, and how many are looked at.
const MODULES_DEPTH: usize = 3;
const MODULES_MAX: usize = 200;

/// One repository, as far as it can be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repository {
    /// Its git folder, or the file that names it.
    pub(super) git: PathBuf,
    /// What has to be made writable because it lies outside of the workspace.
    pub(super) opened: Vec<PathBuf>,
    pub(super) pinned: Vec<PathBuf>,
    /// What exists and stays as it is.
    pub(super) protected: Vec<PathBuf>,
}

/// The repository of a folder in which there is something called `.git`.
pub(super) fn in_folder(folder: &Path, is_inside: bool) -> Option<Repository> {
    let git = folder.join(".git");
    let metadata = git.symlink_metadata().ok()?;
    if metadata.is_dir() {
        let mut it = of_git_folder(&git);
        it.pinned.push(git.clone());
        if !is_inside {
            if metadata.uid() != rustix::process::geteuid().as_raw() {
                return None;
            }
            it.opened.push(git);
        }
        return Some(it);
    }
    let mut it = Repository { git: git.clone(), ..Repository::default() };
    it.protected.push(git.clone());
    if let Some(named) = metadata.is_file().then(|| named_by(&git)).flatten() {
        it.open_linked(folder, &git, &named);
    }
    Some(it)
}

/// A folder that git takes for a repository without being told: it needs no name of its own.
pub(super) fn looks_bare(folder: &Path) -> bool {
    folder.join("HEAD").symlink_metadata().is_ok()
        && folder.join("objects").is_dir()
        && folder.join("refs").is_dir()
}

pub(super) fn of_git_folder(git: &Path) -> Repository {
    let mut it = Repository { git: git.to_owned(), ..Repository::default() };
    it.protect(git);
    let worktrees = std::fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten();
    for worktree in worktrees.take(MODULES_MAX) {
        it.protect(&worktree.path());
    }
    let mut open = vec![(git.join("modules"), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if it.protected.len() > MODULES_MAX || !entry.file_type().is_ok_and(|it| it.is_dir()) {
                continue;
            }
            if path.join("HEAD").is_file() {
                it.protect(&path);
                open.push((path.join("modules"), depth + 1));
            } else if depth < MODULES_DEPTH {
                open.push((path, depth + 1));
            }
        }
    }
    it
}

impl Repository {
    fn protect(&mut self, git: &Path) {
        let names = CONFIGURES.into_iter().map(|name| git.join(name));
        self.protected.extend(names.filter(|it| it.symlink_metadata().is_ok()));
    }

    /// A linked worktree, or a submodule. What the file names counts only when that folder says the same of this one: the
    /// file may be an agent's.
    fn open_linked(&mut self, folder: &Path, git: &Path, named: &Path) {
        let own = |path: &Path| {
            path.metadata()
                .is_ok_and(|it| it.is_dir() && it.uid() == rustix::process::geteuid().as_raw())
        };
        let linked_back = read_line(&named.join("gitdir"))
            .is_some_and(|it| super::real(named.join(it)) == super::real(git.to_owned()));
        let in_parent = folder
            .ancestors()
            .skip(1)
            .any(|it| named.starts_with(it.join(".git/modules")) && it.join(".git").is_dir());
        if !own(named) || !(linked_back || in_parent) {
            return;
        }
        self.opened.push(named.to_owned());
        self.protect(named);
        if let Some(common) = read_line(&named.join("commondir")).filter(|_| linked_back) {
            let common = super::real(named.join(common));
            if named.starts_with(common.join("worktrees")) {
                let shared = SHARED.into_iter().map(|name| common.join(name));
                self.opened.extend(shared.filter(|it| own(it)));
            }
        }
    }
}

/// Whether a git folder that an agent made runs no program: what `git init` and `git clone` write, and no more.
pub(super) fn is_harmless(git: &Path) -> bool {
    let only_samples = |folder: &Path| {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        names.into_iter().all(|it| it.file_name().to_string_lossy().ends_with(".sample"))
    };
    let hooks = git.join("hooks");
    let is_link = |it: &Path| it.symlink_metadata().is_ok_and(|it| it.is_symlink());
    let absent = |name: &str| git.join(name).symlink_metadata().is_err();
    !is_link(git)
        && !is_link(&hooks)
        && only_samples(&hooks)
        && absent("commondir")
        && absent("config.worktree")
        && absent("modules")
        && absent("worktrees")
        && is_harmless_config(&git.join("config"))
}

/// The git folder that a `.git` file makes a worktree of, when all between them is as git itself writes it.
pub(super) fn worktree_of(file: &Path) -> Option<PathBuf> {
    let named = named_by(file)?;
    let back = read_line(&named.join("gitdir"))?;
    let as_written = super::real(named.join(back)) == super::real(file.to_owned())
        && read_line(&named.join("commondir")).is_some_and(|it| it == "../..")
        && is_harmless_config(&named.join("config.worktree"))
        && named.parent()?.ends_with("worktrees");
    as_written.then(|| named.ancestors().nth(2).map(Path::to_owned))?
}

/// Whether a configuration has nothing but settings that name no program and no other file.
pub(super) fn is_harmless_config(path: &Path) -> bool {
    let Ok(metadata) = path.symlink_metadata() else { return true };
    if !metadata.is_file() || metadata.len() > CONFIG_LEN_MAX {
        return false;
    }
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let mut section = String::new();
    text.lines().map(str::trim).all(|line| {
        if line.is_empty() || line.starts_with(['#', ';']) {
            return true;
        }
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']') else { return false };
            section = name.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            return true;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        is_harmless_setting(&section, &key.trim().to_ascii_lowercase(), value.trim())
    })
}

fn is_harmless_setting(section: &str, key: &str, value: &str) -> bool {
    // A value that goes on in the next line could hide a setting from this reader.
    if value.ends_with('\\') {
        return false;
    }
    match section {
        "core" => matches!(
            key,
            "repositoryformatversion"
                | "filemode"
                | "bare"
                | "logallrefupdates"
                | "ignorecase"
                | "precomposeunicode"
                | "symlinks"
                | "autocrlf"
                | "eol"
        ),
        "user" => matches!(key, "name" | "email"),
        "init" => key == "defaultbranch",
        "branch" => matches!(key, "remote" | "merge" | "rebase"),
        "extensions" => key == "objectformat",
        // `ext::` and the like name a program.
        "remote" => match key {
            "fetch" => true,
            "url" | "pushurl" => !value.contains("::") && !value.starts_with('-'),
            _ => false,
        },
        _ => false,
    }
}

fn named_by(git: &Path) -> Option<PathBuf> {
    let line = read_line(git)?;
    let named = line.strip_prefix("gitdir:")?.trim();
    Some(super::real(git.parent()?.join(named)))
}

fn read_line(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    file.take(LINK_LEN_MAX).read_to_string(&mut text).ok()?;
    text.lines().next().map(|it| it.trim().to_owned())
}
