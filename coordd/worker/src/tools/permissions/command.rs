//! Decisions about shell commands.
//!
//! A rule that forbids is looked for generously, in everything that the text might run; a rule that allows has to cover each
//! part, as it is written. It must not let a command through that was not understood.

use std::path::PathBuf;

use super::rule::{RULE_LEN_MAX, Rule, escape};
use super::shell::{self, Part, Script, Word};
use super::{Decision, PermissionMode, Permissions, ask, asked, covering, denied, plain, plan};
use crate::tools::paths;

impl Permissions {
    pub(super) fn decide_command(&self, command: &str) -> Decision {
        let command = shell::trim(command);
        let candidates = shell::candidates(command);
        let covers = |rule: &&Rule| {
            rule.covers_tool("Bash")
                && (rule.covers_command(command)
                    || candidates.iter().any(|it| rule.covers_command(it)))
        };
        if let Some(rule) = self.deny.iter().find(covers) {
            return denied(rule);
        }
        let script = shell::parse(command);
        if let Some(rule) = self.rule_about_words(&self.deny, &script) {
            return denied(rule);
        }
        let exact = exact_subject(command);
        if let Some(rule) = self.ask.iter().find(covers) {
            return asked(rule, exact);
        }
        if let Some(rule) = self.rule_about_words(&self.ask, &script) {
            return asked(rule, exact);
        }
        if self.mode == PermissionMode::BypassPermissions {
            return Decision::Allow;
        }
        let rules = || self.allow.iter().filter(|it| it.covers_tool("Bash"));
        if !rules().any(|it| it.is_blanket() || it.is_exactly(command))
            && let Some(reason) = self.sealed_by(&script)
        {
            return ask(reason, exact);
        }
        let secret = self.has_read_limits() && script.parts.iter().any(plain::reads_unnamed_files);
        if plain::is_plain(&script) && !secret {
            return Decision::Allow;
        }
        if self.mode == PermissionMode::Plan {
            return plan("The command is not on the list of those that only read.");
        }
        self.allow_command(command, &script, secret)
    }

    /// Why a command may get at what is sealed, if it may.
    fn sealed_by(&self, script: &Script) -> Option<String> {
        let bases = self.folders_of(script);
        script.parts.iter().find_map(|part| {
            let recursive = plain::goes_through_folders(part);
            if recursive && let Some(it) = bases.iter().find_map(|it| self.guards.sealed_below(it))
            {
                return Some(format!(
                    "The command goes through {}, which {}.",
                    it.top.display(),
                    it.why
                ));
            }
            let names_only = plain::shows_names_only(part) && !is_move(part);
            let redirects = part.redirects.iter().map(|it| &it.target);
            let words = part.words.iter().skip(1).chain(redirects);
            words
                .into_iter()
                .find_map(|word| self.sealed_by_word(word, &bases, recursive, names_only))
        })
    }

    fn sealed_by_word(
        &self,
        word: &Word,
        bases: &[PathBuf],
        recursive: bool,
        names_only: bool,
    ) -> Option<String> {
        let home = self.home.as_ref().map(|it| it.to_string_lossy()).unwrap_or_default();
        let text = word.text.replace("${HOME}", &home).replace("$HOME", &home);
        let text = if text == "~" { home.into_owned() } else { text };
        let behind = text.split_once('=').map(|(_, value)| value);
        // As in `-f/a/b`.
        let attached = text.strip_prefix('-').and_then(|it| it.get(it.find('/')?..));
        let found = std::iter::once(text.as_str()).chain(behind).chain(attached).find_map(|it| {
            bases.iter().find_map(|base| {
                let home = self.home.as_ref().map(|it| it.as_os_str());
                let wild = it.find(['*', '?', '[', '{']).filter(|_| word.wildcard_at.is_some());
                let written = it.get(..wild.unwrap_or(it.len())).unwrap_or(it);
                let absolute =
                    paths::absolute(written, base, home).unwrap_or_else(|_| base.clone());
                let path =
                    paths::resolve(&absolute).unwrap_or_else(|_| paths::normalize(&absolute));
                let is_folder = written.is_empty() || written.ends_with('/');
                let beginning = path.to_string_lossy();
                let beginning = beginning.trim_end_matches('/');
                let beginning = format!("{beginning}{}", if is_folder { "/" } else { "" });
                let below = || recursive.then(|| self.guards.sealed_below(&path)).flatten();
                let behind = || {
                    (wild.is_some() && !names_only)
                        .then(|| self.guards.sealed_behind(&beginning))?
                };
                self.guards.sealed(&path).or_else(below).or_else(behind)
            })
        });
        let found = found.or_else(|| self.guards.sealed_in(&text))?;
        Some(format!("`{}` may get at {}, which {}.", word.raw, found.top.display(), found.why))
    }

    /// The folders in which a script's parts may run: the workspace, and where each `cd` leads.
    fn folders_of(&self, script: &Script) -> Vec<PathBuf> {
        let mut folders = vec![self.cwd.clone()];
        for part in script.parts.iter().filter(|it| is_move(it)) {
            let home = self.home.as_deref().unwrap_or(&self.cwd);
            let target = part.words.get(1).map_or("~", |it| it.text.as_str());
            for at in 0..folders.len().min(FOLDERS_MAX - folders.len()) {
                let Some(folder) = folders.get(at) else { break };
                let next = match target {
                    "~" => home.to_owned(),
                    target => paths::absolute(target, folder, Some(home.as_os_str()))
                        .and_then(|it| paths::resolve(&it))
                        .unwrap_or_else(|_| folder.clone()),
                };
                if !folders.contains(&next) {
                    folders.push(next);
                }
            }
        }
        folders
    }

    /// What remains of a command: each part has to be allowed by a rule or be plain.
    fn allow_command(&self, command: &str, script: &Script, secret: bool) -> Decision {
        let exact = exact_subject(command);
        let rules = || self.allow.iter().filter(|it| it.covers_tool("Bash"));
        if rules().any(|it| it.is_blanket() || it.is_exactly(command)) {
            return Decision::Allow;
        }
        if let Some(what) = script.opaque {
            return ask(
                format!("The command has {what}, so no rule about its text can allow it."),
                exact,
            );
        }
        let git_elsewhere = plain::is_git_elsewhere(script);
        let is_plain = |part: &Part| {
            plain_but_for_redirects(part) && !secret && !(git_elsewhere && part.program() == "git")
        };
        let allowed = |part: &Part| {
            let raw = part.raw();
            is_plain(part) || rules().any(|it| it.covers_command(&raw))
        };
        let missing: Vec<&Part> = script.parts.iter().filter(|it| !allowed(it)).collect();
        if !script.parts.iter().all(is_plain) && !self.stays_inside(script) {
            let reason =
                "The command goes to a folder outside the workspace and runs something there.";
            return ask(reason.to_owned(), exact);
        }
        if let Some(reason) = self.redirect_to_ask_about(script) {
            return ask(reason, exact);
        }
        match missing.as_slice() {
            [] if script.parts.is_empty() => ask("The command is empty.".to_owned(), None),
            [] => Decision::Allow,
            [_] if secret => {
                ask("The command may read files that a rule protects.".to_owned(), exact)
            }
            [part] => ask(format!("No rule allows `{}`.", part.raw()), subject_of_part(part)),
            [part, ..] => ask(format!("No rule allows `{}` and other parts.", part.raw()), exact),
        }
    }

    /// Whether each `cd` leads to a folder of the workspace. What a rule allows here, it does not allow elsewhere.
    fn stays_inside(&self, script: &Script) -> bool {
        let moves = script.parts.iter().filter(|it| is_move(it));
        moves.into_iter().all(|part| {
            let [_, target] = part.words.as_slice() else { return false };
            // Relative to the workspace, not to an earlier `cd`: two of them only pass if both are inside either way.
            let path = paths::resolve(&self.cwd.join(&target.text));
            let inside = path.is_ok_and(|path| self.roots.iter().any(|it| path.starts_with(it)));
            target.is_literal()
                && !target.text.starts_with('-')
                && !target.text.contains("..")
                && inside
        })
    }

    fn has_read_limits(&self) -> bool {
        Self::read_rules(&self.deny).chain(Self::read_rules(&self.ask)).next().is_some()
    }

    /// A `Read` or `Edit` rule that a word or a redirection of a command falls under.
    fn rule_about_words<'a>(&self, rules: &'a [Rule], script: &Script) -> Option<&'a Rule> {
        if !rules.iter().any(|it| it.has_pattern() && it.is_about_paths()) {
            return None;
        }
        let find = |tool: &str, word: &str| {
            let home = self.home.as_ref().map(|it| it.as_os_str());
            let absolute = paths::absolute(word, &self.cwd, home).ok()?;
            let written = paths::normalize(&absolute);
            let path = paths::resolve(&absolute).unwrap_or_else(|_| written.clone());
            covering(rules, tool, &path, &written)
                .filter(|it| it.has_pattern() && it.is_about_paths())
        };
        for part in &script.parts {
            for word in part.words.iter().skip(1) {
                let behind = word.text.split_once('=').map(|(_, value)| value);
                let mut texts = std::iter::once(word.text.as_str()).chain(behind);
                if let Some(rule) = texts.find_map(|it| find("Read", it)) {
                    return Some(rule);
                }
            }
            for redirect in &part.redirects {
                let tool = if redirect.writes { "Edit" } else { "Read" };
                if let Some(rule) = find(tool, &redirect.target.text) {
                    return Some(rule);
                }
            }
        }
        None
    }

    /// A redirection writes a file like `Edit` does, and may do what `Edit` may.
    fn redirect_to_ask_about(&self, script: &Script) -> Option<String> {
        let moves = script.parts.iter().any(is_move);
        let writes =
            |part: &Part| part.redirects.iter().filter(|it| it.writes).cloned().collect::<Vec<_>>();
        for redirect in script.parts.iter().flat_map(writes) {
            let target = &redirect.target;
            if plain::is_null(target) {
                continue;
            }
            let relative = !target.text.starts_with('/');
            if !target.is_literal() || (moves && relative) {
                return Some(format!("It is not clear which file `{}` is.", target.raw));
            }
            match self.decide_path("Edit", &target.text, true) {
                Decision::Allow => {}
                Decision::Ask { reason, .. } | Decision::Deny { reason } => return Some(reason),
            }
        }
        None
    }
}

/// Most folders in which a command is thought to run: each `cd` may double them.
const FOLDERS_MAX: usize = 32;

fn is_move(part: &Part) -> bool {
    matches!(part.program(), "cd" | "pushd" | "popd")
}

fn plain_but_for_redirects(part: &Part) -> bool {
    let without = Part { words: part.words.clone(), redirects: Vec::new() };
    plain::is_plain_part(&without)
}

/// Programs for which "the same program with other arguments" is no sensible thing to allow: they run what their arguments
/// say, or change what these name.
const NEVER_WIDE: [&str; 71] = [
    "sudo",
    "doas",
    "su",
    "runuser",
    "pkexec",
    "env",
    "xargs",
    "parallel",
    "eval",
    "exec",
    "source",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "ash",
    "csh",
    "tcsh",
    "busybox",
    "toybox",
    "ssh",
    "command",
    "builtin",
    "coproc",
    "time",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "nohup",
    "setsid",
    "stdbuf",
    "timeout",
    "unshare",
    "nsenter",
    "chroot",
    "prlimit",
    "flock",
    "script",
    "strace",
    "ltrace",
    "gdb",
    "watch",
    "entr",
    "perl",
    "node",
    "deno",
    "bun",
    "ruby",
    "php",
    "lua",
    "awk",
    "gawk",
    "mawk",
    "tclsh",
    "find",
    "rm",
    "mv",
    "cp",
    "chmod",
    "chown",
    "dd",
    "kill",
    "curl",
    "wget",
    "docker",
    "podman",
    "systemd-run",
    "ld.so",
];

fn is_never_wide(program: &str) -> bool {
    NEVER_WIDE.contains(&program) || program.starts_with("python") || program.starts_with("pypy")
}

/// A rule for a command: with its subcommand and any arguments if it has one, otherwise for itself alone.
fn subject_of_part(part: &Part) -> Option<String> {
    let is_subcommand = |word: &Word| {
        word.raw.starts_with(|it: char| it.is_ascii_lowercase())
            && word.raw.chars().all(|it| {
                it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, '-' | ':' | '_')
            })
    };
    match part.words.as_slice() {
        [program, subcommand, ..]
            if is_subcommand(program)
                && is_subcommand(subcommand)
                && !is_never_wide(&program.raw) =>
        {
            Some(format!("Bash({} {} *)", program.raw, subcommand.raw))
        }
        _ => exact_subject(&part.raw()),
    }
}

fn exact_subject(command: &str) -> Option<String> {
    let subject = format!("Bash({})", escape(command));
    (!command.is_empty() && subject.len() <= RULE_LEN_MAX).then_some(subject)
}
