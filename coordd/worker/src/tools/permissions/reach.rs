//! What a command may run, found generously: for rules that forbid or ask.
//!
//! ```text
//! sudo -u x timeout 5 sh -c 'ls; rm -rf d'
//!   sudo …    timeout 5 sh …    sh -c …    ls    rm -rf d
//! ```
//!
//! Wrappers are taken off one by one, texts that a shell would run are read as commands, and git's global options are left out.
//! It must find too much rather than too little; what it cannot follow it says.

mod programs;

use self::programs::{GIT_VALUED, INTERPRETERS, KEYWORDS, REBINDS, RUN_WORDS, SHELLS, WRAPPERS};
use super::shell::{self, Flow, Part, Redirect, Script, Word, assigned_name};

/// How deep texts in texts are followed (`sh -c 'sh -c …'`).
const DEPTH_MAX: usize = 8;

/// Most commands that are looked at. Each one is compared with each rule.
const PARTS_MAX: usize = 500;

/// Most words of all these commands. Each one may be a path in several folders.
const WORDS_MAX: usize = 4_000;

/// Most ways in which one wrapper's arguments are read: options may have values or not.
const READINGS_MAX: usize = 8;

/// What a command may run.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Commands with their words; wrappers appear with and without what they wrap.
    pub(super) parts: Vec<Part>,
    /// The name of a program is not known before it runs.
    pub(super) has_unknown_program: bool,
    /// Something may run that was not read: code of another language, input of a shell, odd text.
    pub(super) has_unread_code: bool,
    /// There is more than is looked at.
    pub(super) is_cut: bool,
    words: usize,
}

impl Reach {
    pub(super) fn of(script: &Script) -> Self {
        let mut reach = Self::default();
        reach.script(script, 0);
        reach
    }

    fn script(&mut self, script: &Script, depth: usize) {
        self.has_unread_code |= script.is_unclear();
        let parts = script.all_parts();
        let mut shell_reads = false;
        for part in &parts {
            shell_reads |= !self.is_cut && self.part(part, depth);
        }
        if !shell_reads {
            return;
        }
        // `echo 'rm x' | sh`: what is said may be what runs.
        self.has_unread_code = true;
        for part in &parts {
            let arguments = part.words.get(1..).unwrap_or_default();
            self.text(&joined(arguments), depth + 1);
            let texts = part.redirects.iter().filter(|redirect| redirect.flow == Flow::Text);
            for redirect in texts {
                self.text(&redirect.target.text(), depth + 1);
            }
        }
    }

    fn text(&mut self, text: &str, depth: usize) {
        if depth > DEPTH_MAX {
            self.is_cut = true;
            return;
        }
        self.script(&shell::parse(text), depth);
    }

    /// Returns whether it has a shell that reads its commands from a stream.
    fn part(&mut self, part: &Part, depth: usize) -> bool {
        let mut words = part.words.as_slice();
        while let [first, rest @ ..] = words {
            let is_keyword = KEYWORDS.contains(&first.raw.as_str());
            if !is_keyword && assigned_name(&first.raw).is_none() {
                break;
            }
            words = rest;
            if matches!(first.raw.as_str(), "coproc" | "function") && rest.len() > 1 {
                // It may have a name of its own.
                self.words(rest, &part.redirects, depth);
                words = rest.get(1..).unwrap_or_default();
            }
        }
        if words.is_empty() && part.redirects.is_empty() {
            return false;
        }
        self.words(words, &part.redirects, depth)
    }

    fn words(&mut self, words: &[Word], redirects: &[Redirect], depth: usize) -> bool {
        if !self.has_room(words.len()) {
            return false;
        }
        let part = Part { words: words.to_vec(), redirects: redirects.to_vec(), ..Part::default() };
        self.parts.push(part);
        let [first, rest @ ..] = words else { return false };
        if !first.is_literal() {
            self.has_unknown_program = true;
            // It may be a wrapper, or nothing.
            self.readings(rest, 0, depth);
            return false;
        }
        let program = first.text();
        let name = base_name(&program);
        if SHELLS.contains(&name) {
            return self.shell(rest, redirects, depth);
        }
        self.texts_of(name, rest, depth);
        if let Some((_, operands)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
            let is_query = name == "command"
                && rest.first().is_some_and(|word| matches!(word.raw.as_str(), "-v" | "-V"));
            return !is_query && self.readings(rest, *operands, depth);
        }
        if let Some(at) =
            rest.iter().take(4).position(|word| RUN_WORDS.contains(&word.raw.as_str()))
        {
            let behind = rest.get(at + 1..).unwrap_or_default();
            return self.readings(behind, 0, depth) | self.readings(behind, 1, depth);
        }
        false
    }

    /// Commands that programs other than shells and wrappers find in their arguments.
    fn texts_of(&mut self, name: &str, arguments: &[Word], depth: usize) {
        match name {
            "eval" => self.text(&joined(arguments), depth + 1),
            "trap" | "alias" | "env" | "sudo" | "su" | "runuser" | "ssh" | "script" | "watch"
            | "flock" | "parallel" | "npx" | "xargs" | "nix-shell" => {
                for word in arguments {
                    let text = word.text();
                    let value = text.split_once('=').map(|(_, value)| value.to_owned());
                    // As in `env -S'rm x'`.
                    let attached = text.strip_prefix("-S").map(str::to_owned);
                    for text in [value, attached, Some(text)].into_iter().flatten() {
                        if text.contains([' ', '\t', '\n']) || name == "alias" {
                            self.text(&text, depth + 1);
                        }
                    }
                }
                self.has_unread_code |= arguments.iter().any(|word| !word.is_literal());
            }
            "find" | "fd" | "fdfind" | "git" if arguments.is_empty() => {}
            "find" | "fd" | "fdfind" => self.executed_by_find(arguments, depth),
            "git" => self.git(arguments, depth),
            name if REBINDS.contains(&name) => self.has_unread_code = true,
            name => {
                let family =
                    name.trim_end_matches(|digit: char| digit.is_ascii_digit() || digit == '.');
                let family =
                    if matches!(family, "gawk" | "mawk" | "nawk") { "awk" } else { family };
                let known = INTERPRETERS.iter().find(|(interpreter, _)| *interpreter == family);
                self.has_unread_code |= known.is_some_and(|(_, options)| {
                    arguments
                        .iter()
                        .any(|word| options.iter().any(|option| word.text().starts_with(option)))
                });
            }
        }
    }

    fn shell(&mut self, arguments: &[Word], redirects: &[Redirect], depth: usize) -> bool {
        let mut reads = true;
        for word in arguments {
            let text = word.text();
            if matches!(text.as_str(), "-" | "-s" | "/dev/stdin") {
                continue;
            }
            if text.starts_with(['-', '+']) {
                continue;
            }
            reads = false;
            self.has_unread_code |= !word.is_literal();
            self.text(&text, depth + 1);
        }
        for redirect in redirects {
            match redirect.flow {
                Flow::Text => self.text(&redirect.target.text(), depth + 1),
                Flow::Read | Flow::ReadWrite => self.has_unread_code = true,
                Flow::Write | Flow::Copy => {}
            }
        }
        reads
    }

    /// The commands that the words behind a wrapper may be. An option may have the next word as its value or not.
    fn readings(&mut self, words: &[Word], operands: usize, depth: usize) -> bool {
        let mut left = operands;
        let mut after_option = false;
        let (mut count, mut shell_reads) = (0, false);
        for (at, word) in words.iter().enumerate() {
            let text = word.text();
            let is_option = text.starts_with('-') && text.len() > 1;
            let is_setting = assigned_name(&word.raw).is_some();
            let is_number = text.starts_with(|first: char| first.is_ascii_digit());
            if is_option || is_setting || is_number {
                after_option = is_option;
                continue;
            }
            if count == READINGS_MAX {
                self.is_cut = true;
                break;
            }
            count += 1;
            shell_reads |= self.words(words.get(at..).unwrap_or_default(), &[], depth);
            if !after_option {
                if left == 0 {
                    break;
                }
                left -= 1;
            }
            after_option = false;
        }
        shell_reads
    }

    fn executed_by_find(&mut self, arguments: &[Word], depth: usize) {
        let begins = |word: &Word| {
            matches!(
                word.text().as_str(),
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
            )
        };
        for (at, _) in arguments.iter().enumerate().filter(|(_, word)| begins(word)).take(PARTS_MAX)
        {
            let behind = arguments.get(at + 1..).unwrap_or_default();
            let ends = |word: &Word| matches!(word.text().as_str(), ";" | "+");
            let len = behind.iter().position(ends).unwrap_or(behind.len());
            self.words(behind.get(..len).unwrap_or_default(), &[], depth + 1);
        }
    }

    /// The same call without global options, and what options and subcommands run.
    fn git(&mut self, arguments: &[Word], depth: usize) {
        let (options, rest) = git_split(arguments);
        if !options.is_empty() && !rest.is_empty() {
            let words = std::iter::once(Word::literal("git")).chain(rest.iter().cloned()).collect();
            self.push(Part { words, ..Part::default() });
        }
        for word in options {
            let Some((name, value)) =
                word.text().split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()))
            else {
                continue;
            };
            match value.strip_prefix('!') {
                Some(command) => self.text(command, depth + 1),
                None if name.contains("alias.") => self.text(&format!("git {value}"), depth + 1),
                None => self.text(&value, depth + 1),
            }
        }
        let runs = |word: &Word| {
            matches!(word.text().as_str(), "run" | "foreach" | "-x" | "--exec" | "--extcmd")
        };
        if let Some(at) = rest.iter().position(runs) {
            let behind = rest.get(at + 1..).unwrap_or_default();
            self.readings(behind, 0, depth + 1);
            self.text(&joined(behind), depth + 1);
        }
        for word in rest {
            let text = word.text();
            if let Some((_, value)) = text.split_once('=').filter(|_| text.starts_with("--ex")) {
                self.text(value, depth + 1);
            }
        }
    }

    fn push(&mut self, part: Part) {
        if self.has_room(part.words.len()) {
            self.parts.push(part);
        }
    }

    fn has_room(&mut self, words: usize) -> bool {
        self.words += words;
        self.is_cut |= self.parts.len() >= PARTS_MAX || self.words > WORDS_MAX;
        !self.is_cut
    }
}

/// git's arguments, parted before the subcommand.
pub(super) fn git_split(arguments: &[Word]) -> (&[Word], &[Word]) {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let text = word.text();
        if !text.starts_with('-') {
            break;
        }
        at += if GIT_VALUED.contains(&text.as_str()) { 2 } else { 1 };
    }
    arguments.split_at(at.min(arguments.len()))
}

pub(super) fn base_name(program: &str) -> &str {
    program.rsplit_once('/').map_or(program, |(_, name)| name)
}

fn joined(words: &[Word]) -> String {
    words.iter().map(Word::text).collect::<Vec<_>>().join(" ")
}
