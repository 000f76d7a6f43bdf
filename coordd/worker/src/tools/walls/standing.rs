//! What stands in a workspace before a command that configures what runs outside of the box, and what has appeared after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::git::{self, Repository};

/// In a workspace: read and run by programs of the user's that nobody asked.
const CONFIGURES: [&str; 14] = [
    ".claude",
    ".coordd",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".husky",
    ".envrc",
    ".gitmodules",
    ".cargo/config.toml",
    ".cargo/config",
    ".devcontainer",
    ".codex",
    ".gemini",
    ".cursor",
];

/// Folders that are looked at for repositories below the workspace, and how deep. A call must not take long for that.
const FOLDERS_MAX: usize = 1_000;
const DEPTH_MAX: usize = 5;

/// Folders full of what others made, with repositories rarely and folders many.
const PASSED_OVER: [&str; 5] = ["node_modules", "target", ".venv", "__pycache__", ".tox"];

#[derive(Debug, Default)]
pub(super) struct Standing {
    repositories: Vec<Repository>,
    /// What configures and is no part of a repository.
    files: BTreeSet<PathBuf>,
    /// Folders that git would take for a repository as they are.
    bare: BTreeSet<PathBuf>,
    /// Links among the above, each with where it leads.
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Standing {
    pub(super) fn of(roots: &[PathBuf]) -> Self {
        let mut it = Self::default();
        for root in roots {
            let names = CONFIGURES.into_iter().map(|name| root.join(name));
            it.files.extend(names.filter(|it| it.symlink_metadata().is_ok()));
            it.look_below(root);
            if root.join(".git").symlink_metadata().is_err() {
                let above =
                    root.ancestors().skip(1).find(|it| it.join(".git").symlink_metadata().is_ok());
                it.repositories.extend(above.and_then(|it| git::in_folder(it, false)));
            }
        }
        it.links = it.read_links();
        it
    }

    /// Links among all of it, each with where it leads.
    pub(super) fn links(&self) -> &BTreeMap<PathBuf, PathBuf> {
        &self.links
    }

    fn look_below(&mut self, root: &Path) {
        let mut open = std::collections::VecDeque::from([(root.to_owned(), 0)]);
        let mut looked_at = 0;
        while let Some((folder, depth)) = open.pop_front() {
            looked_at += 1;
            if looked_at > FOLDERS_MAX {
                return;
            }
            self.repositories.extend(git::in_folder(&folder, true));
            if git::looks_bare(&folder) {
                self.repositories.push(git::of_git_folder(&folder));
                self.bare.insert(folder.clone());
                continue;
            }
            if depth == DEPTH_MAX {
                continue;
            }
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let passed = name == ".git" || PASSED_OVER.iter().any(|it| name == *it);
                if !passed && entry.file_type().is_ok_and(|it| it.is_dir()) {
                    open.push_back((entry.path(), depth + 1));
                }
            }
        }
    }

    pub(super) fn repositories(&self) -> impl Iterator<Item = &Repository> {
        self.repositories.iter()
    }

    pub(super) fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    pub(super) fn bare(&self) -> &BTreeSet<PathBuf> {
        &self.bare
    }

    pub(super) fn repository(&self, git: &Path) -> Option<&Repository> {
        self.repositories.iter().find(|it| it.git == git)
    }

    fn read_links(&self) -> BTreeMap<PathBuf, PathBuf> {
        let target = |it: &PathBuf| Some((it.clone(), std::fs::read_link(it).ok()?));
        self.protected().filter_map(target).collect()
    }

    /// All that exists and stays as it is.
    pub(super) fn protected(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(self.repositories.iter().flat_map(|it| &it.protected))
    }
}
