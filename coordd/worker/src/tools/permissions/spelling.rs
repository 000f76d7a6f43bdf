//! The paths that the words of a command may mean, in every spelling that is known before it runs.
//!
//! ```text
//! key.txt after `cd secrets`   ~user/x   $PWD/../x   --file=x   -fx   HEAD:x   @x
//! ```
//!
//! A word can mean several paths, because a `cd` may have happened or not. What is not known (`*`, other variables) ends
//! what is known of a path.

use std::path::{Path, PathBuf};

use super::Permissions;
use super::shell::{Part, Piece, Word, assigned_name};
use crate::tools::paths;

/// Most folders in which a command is thought to run: each `cd` may double them.
const FOLDERS_MAX: usize = 16;

/// Most beginnings of paths that are looked for in one word.
const FRAGMENTS_MAX: usize = 16;

/// Characters behind which a path may begin in a word.
const BEFORE_PATHS: [char; 4] = ['=', ':', '@', ','];

/// Builtins that can give a variable another value.
const SETTERS: [&str; 16] = [
    "printf",
    "read",
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "eval",
    "source",
    ".",
    "mapfile",
    "readarray",
    "getopts",
    "let",
    "unset",
    "set",
];

/// Variables whose values are known here.
const KNOWN_VARIABLES: [&str; 3] = ["HOME", "PWD", "COORDD_SCRATCHPAD"];

/// Folders in which the parts of a command may run.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) list: Vec<PathBuf>,
    /// There may be others.
    pub(super) is_open: bool,
    /// A variable or `~` may mean something else than at the beginning.
    pub(super) sets_variables: bool,
}

/// A path that a word may mean.
#[derive(Debug)]
pub(super) struct Meant {
    /// As it is written, made absolute.
    pub(super) written: PathBuf,
    /// Where it leads.
    pub(super) path: PathBuf,
    /// Only its beginning is known. A slash at the end says that a name is complete.
    pub(super) beginning: Option<String>,
}

/// A word with what is known put in.
struct Known {
    text: String,
    /// How much of the text is known, if not all.
    open_at: Option<usize>,
}

impl Permissions {
    /// The folders in which these parts may run: the workspace, and where each `cd` leads.
    pub(super) fn folders_of(&self, parts: &[Part]) -> Folders {
        let is_known_name = |word: &Word| {
            assigned_name(&word.raw).is_none_or(|name| KNOWN_VARIABLES.contains(&name))
        };
        let sets = |part: &Part| {
            part.assignments.iter().any(is_known_name)
                || part.words.first().is_some_and(|word| SETTERS.contains(&word.text().as_str()))
        };
        let sets_variables = parts.iter().any(sets);
        let mut folders = Folders { list: vec![self.cwd.clone()], is_open: false, sets_variables };
        if self.written_cwd != self.cwd {
            folders.list.push(self.written_cwd.clone());
        }
        for part in parts {
            for target in targets_of_moves(part) {
                self.move_to(&mut folders, target.as_ref());
            }
        }
        folders
    }

    fn move_to(&self, folders: &mut Folders, target: Option<&Word>) {
        let home = Word { raw: "~".to_owned(), pieces: vec![Piece::Home(String::new())] };
        let target = target.unwrap_or(&home);
        for at in 0..folders.list.len() {
            let Some(folder) = folders.list.get(at).cloned() else { break };
            let known = self.known(target, &folder);
            if known.open_at.is_some() || known.text == "-" {
                folders.is_open = true;
                continue;
            }
            folders.is_open |= self.shell.has_cd_path && !known.text.starts_with(['/', '.']);
            // Bash takes `..` from the name of the folder, and with -P from where it leads.
            let written = paths::normalize(&folder.join(&known.text));
            let led = paths::resolve(&folder.join(&known.text)).ok();
            for next in std::iter::once(written).chain(led) {
                if folders.list.contains(&next) {
                    continue;
                }
                if folders.list.len() >= FOLDERS_MAX {
                    folders.is_open = true;
                    return;
                }
                folders.list.push(next);
            }
        }
    }

    /// Every path that a word of a part may mean.
    pub(super) fn paths_of(&self, word: &Word, part: &Part, folders: &Folders) -> Vec<Meant> {
        let mut found = Vec::new();
        let is_git = part.is_program("git");
        for folder in &folders.list {
            let known = self.known(word, folder);
            for start in fragments(&known.text) {
                let Some(text) = known.text.get(start..) else { continue };
                let open_at = known.open_at.map(|at| at.saturating_sub(start));
                found.extend(self.meant(text, open_at, folder));
                // `REV:path` begins at the top of the repository.
                if is_git && start > 0 {
                    let top = folder.ancestors().find(|folder| folder.join(".git").exists());
                    found.extend(top.and_then(|top| self.meant(text, open_at, top)));
                }
            }
        }
        found
    }

    fn meant(&self, text: &str, open_at: Option<usize>, folder: &Path) -> Option<Meant> {
        let text = text.get(..open_at.unwrap_or(text.len())).unwrap_or(text);
        let home = self.home.as_ref().map(|home| home.as_os_str());
        let absolute = match paths::absolute(text, folder, home) {
            Ok(absolute) => absolute,
            Err(_) if open_at.is_some() => folder.to_owned(),
            Err(_) => return None,
        };
        let written = paths::normalize(&absolute);
        let path = paths::resolve(&absolute).unwrap_or_else(|_| written.clone());
        let beginning = open_at.map(|_| {
            let shown = path.to_string_lossy();
            let is_complete = text.is_empty() || text.ends_with('/');
            format!("{}{}", shown.trim_end_matches('/'), if is_complete { "/" } else { "" })
        });
        Some(Meant { written, path, beginning })
    }

    /// A word as a text, if what a shell puts into it is known and the same in each folder.
    pub(super) fn known_text(&self, word: &Word, folders: &Folders) -> Option<String> {
        if word.is_literal() {
            return Some(word.text());
        }
        let mut texts = folders.list.iter().map(|folder| {
            let known = self.known(word, folder);
            known.open_at.is_none().then_some(known.text)
        });
        let first = texts.next()??;
        let is_sure = !folders.sets_variables && texts.all(|text| text.as_ref() == Some(&first));
        is_sure.then_some(first)
    }

    /// Whether a shell may put something into a word that is not known.
    pub(super) fn is_open(&self, word: &Word, folders: &Folders) -> bool {
        let is_open = |folder: &PathBuf| self.known(word, folder).open_at.is_some();
        !word.is_literal() && (folders.sets_variables || folders.list.iter().any(is_open))
    }

    fn known(&self, word: &Word, folder: &Path) -> Known {
        let mut known = Known { text: String::new(), open_at: None };
        for piece in &word.pieces {
            let value = match piece {
                Piece::Text(text) => Some(text.clone()),
                Piece::Number => Some("0".to_owned()),
                Piece::Home(user) => self.home_of(user, folder),
                Piece::Variable(name) => self.value_of(name, folder),
                Piece::Pattern(_) | Piece::Unknown => None,
            };
            if let Some(value) = value {
                known.text.push_str(&value);
                continue;
            }
            known.open_at.get_or_insert(known.text.len());
            if let Piece::Pattern(character) = piece {
                known.text.push(*character);
            }
        }
        known
    }

    fn home_of(&self, user: &str, folder: &Path) -> Option<String> {
        match user {
            "" => self.home.as_deref().and_then(plain_text),
            "+" => plain_text(folder),
            user => {
                let found = nix::unistd::User::from_name(user).ok().flatten();
                // No such user: the word stays as it is.
                found.map_or_else(|| Some(format!("~{user}")), |user| plain_text(&user.dir))
            }
        }
    }

    fn value_of(&self, name: &str, folder: &Path) -> Option<String> {
        match name {
            "HOME" => self.home.as_deref().and_then(plain_text),
            "PWD" => plain_text(folder),
            "COORDD_SCRATCHPAD" => self.scratchpad.as_deref().and_then(plain_text),
            _ => None,
        }
    }
}

/// A path that a shell leaves as it is, quoted or not.
fn plain_text(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let is_plain = !text
        .contains(|character: char| character.is_whitespace() || "*?[]{}\\".contains(character));
    is_plain.then(|| text.to_owned())
}

/// Where paths may begin in a word.
fn fragments(text: &str) -> Vec<usize> {
    let mut starts = vec![0];
    starts.extend(text.match_indices(BEFORE_PATHS).map(|(at, _)| at + 1).take(FRAGMENTS_MAX));
    if text.starts_with('-') {
        // As in `-fx` and `-f/x`.
        starts.extend(text.char_indices().nth(2).map(|(at, _)| at));
        starts.extend(text.find(['/', '~']));
    }
    starts.retain(|start| *start < text.len() || *start == 0);
    starts
}

/// Whether a part changes the folder.
pub(super) fn is_move(part: &Part) -> bool {
    part.words.first().is_some_and(|word| matches!(word.text().as_str(), "cd" | "pushd" | "popd"))
}

/// Where a part may lead: none for home.
fn targets_of_moves(part: &Part) -> Vec<Option<Word>> {
    let mut targets = Vec::new();
    let arguments = part.words.get(1..).unwrap_or_default();
    if is_move(part) {
        let is_option = |word: &&Word| word.text().starts_with('-') && word.text().len() > 1;
        targets.push(arguments.iter().find(|word| !is_option(word)).cloned());
    }
    // `git -C folder`, `env -C folder`, `make -C folder`.
    for (at, word) in arguments.iter().enumerate() {
        let text = word.text();
        if matches!(text.as_str(), "-C" | "--chdir" | "--directory") {
            targets.extend(arguments.get(at + 1).cloned().map(Some));
        } else if text.starts_with("-C") {
            targets.push(word.behind(2));
        }
    }
    targets
}
