//! Commands that plainly only read.
//!
//! A short list, read strictly: a program that is not on it, an option that is not listed for it, a word that a shell would
//! expand, and the command is not plain. It must not be extended by a program that can run another one, nor by one that
//! writes to an operand, nor by git: a repository's settings name programs that run at a mere `git status`.

mod programs;

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use self::programs::{Operands, PROGRAMS};
use super::shell::{Flow, Part, Piece, Script, Word};
use crate::tools::paths;

/// Builtins of the shell, which no other program can stand for.
const BUILTINS: [&str; 7] = ["cd", "echo", "pwd", "true", "false", "type", ":"];

/// Expressions of `find` without a word behind them.
const FIND_ALONE: [&str; 13] = [
    "-o", "-or", "-a", "-and", "!", "-not", "(", ")", "-print", "-print0", "-prune", "-empty",
    "-depth",
];

/// Expressions of `find` with one word behind them.
const FIND_VALUED: [&str; 17] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-type",
    "-maxdepth",
    "-mindepth",
    "-size",
    "-mtime",
    "-mmin",
    "-newer",
    "-perm",
    "-user",
    "-group",
    "-regex",
    "-iregex",
];

/// Files of the kernel that tell of the machine and of no process.
const OF_THE_KERNEL: [&str; 6] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
];

/// What a shell's environment says about how commands are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellSettings {
    pub(crate) search_path: Option<String>,
    /// Functions in the environment: they go before programs.
    pub(crate) functions: Vec<String>,
    /// `CDPATH` is set, so that `cd x` may lead elsewhere.
    pub(crate) has_cd_path: bool,
}

impl ShellSettings {
    pub(crate) fn of<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut settings = Self::default();
        for (name, value) in variables {
            match name {
                "PATH" => settings.search_path = Some(value.to_owned()),
                "CDPATH" => settings.has_cd_path = !value.is_empty(),
                name => {
                    let function = name.strip_prefix("BASH_FUNC_");
                    let function = function.and_then(|name| name.split(['%', '(']).next());
                    settings.functions.extend(function.map(str::to_owned));
                }
            }
        }
        settings
    }
}

/// Where a command runs, as far as it matters here.
pub(super) struct Surroundings<'a> {
    /// Every folder in which a part of it may run.
    pub(super) folders: &'a [PathBuf],
    /// Folders whose files an agent may write.
    pub(super) roots: &'a [PathBuf],
    pub(super) shell: &'a ShellSettings,
}

/// Whether all of the command only reads.
pub(super) fn is_plain(script: &Script, around: &Surroundings<'_>) -> bool {
    script.opaque.is_none()
        && !script.parts.is_empty()
        && script
            .parts
            .iter()
            .all(|part| is_plain_part(part, around) && has_plain_redirects(part, around))
        && nested_are_plain(script, around)
}

/// Scripts inside of words that count as texts: `$(cat <<'EOF' …)`.
pub(super) fn nested_are_plain(script: &Script, around: &Surroundings<'_>) -> bool {
    script.nested.iter().all(|nested| is_plain(nested, around))
}

/// Whether one part of a command only reads, but for its redirections.
pub(super) fn is_plain_part(part: &Part, around: &Surroundings<'_>) -> bool {
    let [program, arguments @ ..] = part.words.as_slice() else { return false };
    // The name as it stands: no quotes, no wildcard, no variable, no folder.
    if !program.is_bare() || !part.assignments.iter().all(is_plain_assignment) {
        return false;
    }
    let name = program.raw.as_str();
    let is_clear = |word: &Word| word.is_literal() || (name == "echo" && shows_only_codes(word));
    if !arguments.iter().all(is_clear) || !around.finds_the_usual(name) {
        return false;
    }
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    match name {
        "echo" | "type" => true,
        "pwd" | "true" | "false" | ":" => texts.is_empty(),
        "cd" => is_plain_move(&texts, around.shell),
        "git" => texts == ["--version"],
        "date" => texts
            .iter()
            .all(|text| text.starts_with('+') || matches!(text.as_str(), "-u" | "-R" | "-I")),
        "sed" => sed(&texts).is_some_and(|files| around.are_ordinary(files, Operands::Files)),
        "find" => {
            find(&texts).is_some_and(|folders| around.are_ordinary(&folders, Operands::Files))
        }
        name => {
            let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else {
                return false;
            };
            program.operands(&texts).is_some_and(|operands| {
                let searches = goes_through_folders(part);
                let folders: Vec<String> =
                    if searches && operands.is_empty() { vec![".".to_owned()] } else { operands };
                around.are_ordinary(&folders, program.operands)
                    && (!searches || !around.holds_devices(&folders))
            })
        }
    }
}

/// Variables that change what is shown and not what runs.
const PLAIN_VARIABLES: [&str; 26] = [
    "CI",
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PROPTEST_CASES",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
    "TERM",
    "VERBOSE",
];

/// `NAME=value` that no rule has to name: a known name, and a value that is no path and no list of words.
pub(super) fn is_plain_assignment(word: &Word) -> bool {
    let text = word.text();
    let Some((name, value)) = text.split_once('=') else { return false };
    let is_value =
        |character: char| character.is_ascii_alphanumeric() || "_-.,:=@%+".contains(character);
    word.is_literal() && PLAIN_VARIABLES.contains(&name) && value.chars().all(is_value)
}

/// Whether a word has no variable but exit codes.
fn shows_only_codes(word: &Word) -> bool {
    word.pieces.iter().all(|piece| match piece {
        Piece::Text(_) | Piece::Number => true,
        Piece::Variable(name) => name == "PIPESTATUS",
        Piece::Home(_) | Piece::Pattern(_) | Piece::Unknown => false,
    })
}

/// `cd FOLDER`, as it is read by these rules too.
fn is_plain_move(arguments: &[String], shell: &ShellSettings) -> bool {
    let [folder] = arguments else { return false };
    let is_fixed = ["/", "./", "../"].iter().any(|start| folder.starts_with(start))
        || matches!(folder.as_str(), "." | "..");
    !folder.is_empty() && !folder.starts_with('-') && (is_fixed || !shell.has_cd_path)
}

fn has_plain_redirects(part: &Part, around: &Surroundings<'_>) -> bool {
    part.redirects.iter().all(|redirect| {
        redirect.is_harmless()
            || (redirect.flow == Flow::Read
                && redirect.target.is_literal()
                && around.are_ordinary(&[redirect.target.text()], Operands::Files))
    })
}

impl Surroundings<'_> {
    /// Whether a name means the system's program, and nothing that an agent could have put there.
    fn finds_the_usual(&self, name: &str) -> bool {
        if self.shell.functions.iter().any(|function| function == name) {
            return false;
        }
        if BUILTINS.contains(&name) {
            return true;
        }
        let Some(search_path) = &self.shell.search_path else { return true };
        for folder in search_path.split(':') {
            let folder = Path::new(folder);
            if !folder.is_absolute() {
                return false;
            }
            let resolved = paths::resolve(folder).unwrap_or_else(|_| folder.to_owned());
            let file = resolved.join(name);
            if !file.exists() {
                continue;
            }
            let file = paths::resolve(&file).unwrap_or(file);
            return !self
                .roots
                .iter()
                .any(|root| file.starts_with(root) || resolved.starts_with(root));
        }
        true
    }

    /// Whether all of these are ordinary files, folders, or nothing: no device that never ends, nothing of a process.
    fn are_ordinary(&self, names: &[String], operands: Operands) -> bool {
        names.iter().all(|name| {
            let is_ordinary = |folder: &PathBuf| {
                let written = folder.join(name);
                let Ok(path) = paths::resolve(&written) else { return false };
                is_ordinary(&path)
                    && is_ordinary(&paths::normalize(&written))
                    && (operands != Operands::FilesAlone || !path.is_dir())
            };
            self.folders.iter().all(is_ordinary)
        })
    }

    /// The same for one file.
    pub(super) fn is_ordinary_file(&self, name: &str) -> bool {
        self.are_ordinary(&[name.to_owned()], Operands::Files)
    }

    /// Whether a search through these folders meets devices.
    fn holds_devices(&self, names: &[String]) -> bool {
        let is_root = |folder: &PathBuf, name: &String| {
            paths::resolve(&folder.join(name)).is_ok_and(|path| path == Path::new("/"))
        };
        names.iter().any(|name| self.folders.iter().any(|folder| is_root(folder, name)))
    }
}

fn is_ordinary(path: &Path) -> bool {
    if path == Path::new("/dev/null") || OF_THE_KERNEL.iter().any(|file| path == Path::new(file)) {
        return true;
    }
    if ["/dev", "/proc", "/sys"].iter().any(|folder| path.starts_with(folder)) {
        return false;
    }
    let Ok(found) = path.metadata() else { return true };
    let kind = found.file_type();
    !(kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket())
}

/// Only `sed -n '3,5p' FILE…`. Returns the files.
fn sed(arguments: &[String]) -> Option<&[String]> {
    let [option, script, files @ ..] = arguments else { return None };
    let lines = script.strip_suffix('p')?;
    let is_range =
        lines.chars().all(|character| character.is_ascii_digit() || matches!(character, ',' | '$'));
    let are_files = files.iter().all(|file| !file.starts_with('-'));
    (option == "-n" && is_range && are_files).then_some(files)
}

/// The folders in which a `find` of listed expressions begins, and the files that it compares with.
fn find(arguments: &[String]) -> Option<Vec<String>> {
    let begins_expression =
        |word: &String| word.starts_with('-') || matches!(word.as_str(), "!" | "(" | ")");
    let at = arguments.iter().position(begins_expression).unwrap_or(arguments.len());
    let (folders, expressions) = arguments.split_at(at);
    let mut named = folders.to_vec();
    let mut words = expressions.iter();
    while let Some(word) = words.next() {
        if FIND_VALUED.contains(&word.as_str()) {
            let value = words.next()?;
            if word == "-newer" {
                named.push(value.clone());
            }
        } else if !FIND_ALONE.contains(&word.as_str()) {
            return None;
        }
    }
    Some(named)
}

/// Whether a part reads what lies in the folders that it names.
pub(super) fn goes_through_folders(part: &Part) -> bool {
    let name = part.program().unwrap_or_default();
    let options = || part.words.iter().map(Word::text).filter(|text| text.starts_with('-'));
    let is_recursive = || {
        options().any(|text| {
            text.starts_with("--r")
                || text.starts_with("--d")
                || (!text.starts_with("--") && text.contains(['r', 'R', 'd']))
        })
    };
    match name.as_str() {
        "rg" => true,
        "grep" | "egrep" | "fgrep" | "diff" => is_recursive(),
        _ => false,
    }
}

/// Whether a part shows names, and nothing of what is in files.
pub(super) fn shows_names_only(part: &Part) -> bool {
    let name = part.program().unwrap_or_default();
    matches!(name.as_str(), "ls" | "find" | "stat" | "du" | "echo" | "cd" | "basename")
}
