//! Decisions about shell commands.
//!
//! ```text
//! text --reach--> what it may run --deny, ask rules, sealed paths--> Deny, Ask
//!      --shell--> its parts, each covered by a rule or plain ------> Allow
//! ```
//!
//! A rule that forbids is looked for generously, in everything that the text might run; a rule that allows has to cover each
//! part, as it is written. It must not let a command through that was not understood.

use super::always::{exact_subject, subject_of_part};
use super::pattern::Forms;
use super::plain::{self, Surroundings};
use super::reach::{Reach, base_name};
use super::rule::Rule;
use super::shell::{self, Flow, Part, Script, Word};
use super::spelling::{Folders, is_move};
use super::{Decision, PermissionMode, Permissions, ask, asked, covering, denied, plan, wrapper};

/// A command with what was found in it.
struct Judged<'a> {
    command: &'a str,
    script: Script,
    reach: Reach,
    folders: Folders,
}

impl Permissions {
    pub(super) fn decide_command(&self, command: &str) -> Decision {
        let command = shell::trim(command);
        let script = shell::parse(command);
        let reach = Reach::of(&script);
        let folders = self.folders_of(&reach.parts);
        let judged = Judged { command, script, reach, folders };
        if let Some(decision) = self.by_deny_and_ask(&judged) {
            return decision;
        }
        if self.boxed || self.mode == PermissionMode::BypassPermissions {
            return Decision::Allow;
        }
        let is_allowed_whole = self.is_allowed_whole(command);
        if judged.reach.is_cut && !is_allowed_whole {
            return ask("The command is too long to be judged.".to_owned(), None);
        }
        if !is_allowed_whole && let Some(reason) = self.sealed_by(&judged) {
            return ask(reason, exact_subject(command));
        }
        // From here on a command is about nothing that rules forbid, ask about or seal.
        self.by_its_text(&judged, is_allowed_whole)
    }

    /// What deny and ask rules say, and what they may say about something that is not seen.
    fn by_deny_and_ask(&self, judged: &Judged<'_>) -> Option<Decision> {
        let mut forms: Vec<Forms> = judged.reach.parts.iter().map(Forms::of).collect();
        forms.push(Forms::text(judged.command));
        let parts = judged.script.all_parts();
        forms.extend(parts.iter().map(|part| Forms::text(&part.raw_with_assignments())));
        let about = |rules: &'_ [Rule]| -> Option<usize> {
            rules.iter().position(|rule| {
                rule.covers_tool("Bash") && forms.iter().any(|forms| rule.forbids_command(forms))
            })
        };
        let exact = exact_subject(judged.command);
        let words = |rules| {
            if judged.reach.is_cut { None } else { self.rule_about_words(rules, judged) }
        };
        if let Some(rule) = about(&self.deny).and_then(|at| self.deny.get(at)) {
            return Some(denied(rule));
        }
        if let Some(rule) = words(&self.deny) {
            return Some(denied(rule));
        }
        if let Some(rule) = about(&self.ask).and_then(|at| self.ask.get(at)) {
            return Some(asked(rule, exact));
        }
        if let Some(rule) = words(&self.ask) {
            return Some(asked(rule, exact));
        }
        if judged.reach.is_cut {
            let mut limits = self.deny.iter().chain(&self.ask);
            let rule = limits.find(|rule| rule.has_pattern())?;
            let reason = format!("The command is too long to be judged by the rule {}.", rule.text);
            return Some(ask(reason, None));
        }
        let rule = possible(&self.deny, judged).or_else(|| possible(&self.ask, judged))?;
        let reason = format!(
            "The rule {} may be about this: the command runs something whose text is not all in view.",
            rule.text
        );
        Some(ask(reason, exact))
    }

    /// Whether a rule allows every command, or exactly this one.
    fn is_allowed_whole(&self, command: &str) -> bool {
        let mut rules = self.allow.iter().filter(|rule| rule.covers_tool("Bash"));
        rules.any(|rule| rule.is_blanket() || rule.is_exactly(command))
    }

    /// Why a command may get at what is sealed, if it may.
    fn sealed_by(&self, judged: &Judged<'_>) -> Option<String> {
        let folders = &judged.folders;
        judged.reach.parts.iter().find_map(|part| {
            let recursive = plain::goes_through_folders(part);
            let below = |folder: &std::path::PathBuf| self.guards.sealed_below(folder);
            if recursive && let Some(guarded) = folders.list.iter().find_map(below) {
                let top = guarded.top.display();
                return Some(format!("The command goes through {top}, which {}.", guarded.why));
            }
            let names_only = plain::shows_names_only(part) && !is_move(part);
            words_of(part)
                .into_iter()
                .find_map(|word| self.sealed_by_word(word, part, folders, (recursive, names_only)))
        })
    }

    fn sealed_by_word(
        &self,
        word: &Word,
        part: &Part,
        folders: &Folders,
        (recursive, names_only): (bool, bool),
    ) -> Option<String> {
        let meant = self.paths_of(word, part, folders);
        let found = meant.iter().find_map(|meant| {
            let below = || recursive.then(|| self.guards.sealed_below(&meant.path)).flatten();
            let behind = || {
                let beginning = meant.beginning.as_deref().filter(|_| !names_only)?;
                self.guards.sealed_behind(beginning)
            };
            // Only what is known whole is a path.
            let whole = || {
                let sealed = |path| self.guards.sealed(path);
                sealed(&meant.path).or_else(|| sealed(&meant.written))
            };
            whole().or_else(below).or_else(behind)
        });
        let found = found.or_else(|| self.guards.sealed_in(&word.text()))?;
        Some(format!("`{}` may get at {}, which {}.", word.raw, found.top.display(), found.why))
    }

    /// Plain reading, and commands of which each part is covered by an allow rule.
    fn by_its_text(&self, judged: &Judged<'_>, is_allowed_whole: bool) -> Decision {
        let (script, folders) = (&judged.script, &judged.folders);
        let around =
            Surroundings { folders: &folders.list, roots: &self.roots, shell: &self.shell };
        let is_secret = self.has_read_limits()
            && judged.reach.parts.iter().any(|part| self.reads_unknown_files(part, folders));
        if plain::is_plain(script, &around) && !is_secret && !folders.is_open {
            return Decision::Allow;
        }
        if self.mode == PermissionMode::Plan {
            return plan("The command is not on the list of those that only read.");
        }
        if is_allowed_whole {
            return Decision::Allow;
        }
        self.by_its_parts(judged, &around, is_secret)
    }

    fn by_its_parts(
        &self,
        judged: &Judged<'_>,
        around: &Surroundings<'_>,
        is_secret: bool,
    ) -> Decision {
        let script = &judged.script;
        let exact = exact_subject(judged.command);
        if let Some(what) = script.opaque {
            let reason = format!("The command has {what}, so no rule about its text can allow it.");
            return ask(reason, exact);
        }
        if script.parts.is_empty() || !plain::nested_are_plain(script, around) {
            return ask("No rule allows the command.".to_owned(), exact);
        }
        let is_plain = |part: &Part| plain::is_plain_part(part, around);
        let missing: Vec<&Part> =
            script.parts.iter().filter(|part| !self.covers_part(part, around)).collect();
        if !script.parts.iter().all(is_plain) && !self.stays_inside(script) {
            let reason =
                "The command goes to a folder outside the workspace and runs something there.";
            return ask(reason.to_owned(), exact);
        }
        if judged.folders.is_open {
            return ask("It is not clear in which folder the command runs.".to_owned(), exact);
        }
        if let Some(reason) = self.redirect_to_ask_about(judged, around) {
            return ask(reason, exact);
        }
        if is_secret {
            return ask("The command may read files that a rule protects.".to_owned(), exact);
        }
        match missing.as_slice() {
            [] => Decision::Allow,
            [part] => {
                let reason = format!("No rule allows `{}`.", part.raw_with_assignments());
                ask(reason, subject_of_part(part))
            }
            [part, ..] => {
                let raw = part.raw_with_assignments();
                ask(format!("No rule allows `{raw}` and other parts."), exact)
            }
        }
    }

    /// Whether a part is plain or allowed by a rule, as it is or without what goes in front of it.
    fn covers_part(&self, part: &Part, around: &Surroundings<'_>) -> bool {
        if part.words.is_empty() {
            // Redirections are looked at by themselves.
            return part.assignments.iter().all(plain::is_plain_assignment);
        }
        let rules = || self.allow.iter().filter(|rule| rule.covers_tool("Bash"));
        if rules().any(|rule| rule.allows_with_assignments(part)) {
            return true;
        }
        if !part.assignments.iter().all(plain::is_plain_assignment) {
            return false;
        }
        let mut words = part.words.as_slice();
        loop {
            let inner = Part { words: words.to_vec(), ..Part::default() };
            if plain::is_plain_part(&inner, around)
                || rules().any(|rule| rule.allows_command(&inner))
            {
                return true;
            }
            let Some(wrapped) = wrapper::wrapped(words) else { return false };
            words = wrapped;
        }
    }

    /// Whether each `cd` leads to a folder of the workspace. What a rule allows here, it does not allow elsewhere.
    fn stays_inside(&self, script: &Script) -> bool {
        let moves = script.parts.iter().filter(|part| is_move(part));
        moves.into_iter().all(|part| {
            let [program, target] = part.words.as_slice() else { return false };
            let text = target.text();
            // Relative to the workspace, not to an earlier `cd`: two of them only pass if both are inside either way.
            let path = crate::tools::paths::resolve(&self.cwd.join(&text));
            let inside =
                path.is_ok_and(|path| self.roots.iter().any(|root| path.starts_with(root)));
            program.raw == "cd"
                && target.is_literal()
                && !text.starts_with('-')
                && !text.contains("..")
                && (!self.shell.has_cd_path || text.starts_with(['/', '.']))
                && inside
        })
    }

    fn has_read_limits(&self) -> bool {
        Self::read_rules(&self.deny).chain(Self::read_rules(&self.ask)).next().is_some()
    }

    /// Whether a part may read files that its words do not name.
    fn reads_unknown_files(&self, part: &Part, folders: &Folders) -> bool {
        let is_open = |word: &&Word| self.is_open(word, folders);
        let words = words_of(part);
        plain::goes_through_folders(part)
            || (!plain::shows_names_only(part) && words.iter().any(is_open))
    }

    /// A `Read` or `Edit` rule that a word or a redirection of a command falls under.
    fn rule_about_words<'a>(&self, rules: &'a [Rule], judged: &Judged<'_>) -> Option<&'a Rule> {
        if !rules.iter().any(|rule| rule.has_pattern() && rule.is_about_paths()) {
            return None;
        }
        let find = |tool: &str, word: &Word, part: &Part| {
            let meant = self.paths_of(word, part, &judged.folders);
            meant.iter().filter(|meant| meant.beginning.is_none()).find_map(|meant| {
                covering(rules, tool, &meant.path, &meant.written)
                    .filter(|rule| rule.has_pattern() && rule.is_about_paths())
            })
        };
        for part in &judged.reach.parts {
            let name = part.program().unwrap_or_default();
            let writes = WRITERS.contains(&base_name(&name));
            for word in part.words.iter().skip(1) {
                let edit = || writes.then(|| find("Edit", word, part)).flatten();
                if let Some(rule) = find("Read", word, part).or_else(edit) {
                    return Some(rule);
                }
            }
            for redirect in &part.redirects {
                let tools: &[&str] = match redirect.flow {
                    Flow::Read => &["Read"],
                    Flow::Write => &["Edit"],
                    Flow::ReadWrite => &["Read", "Edit"],
                    Flow::Copy | Flow::Text => &[],
                };
                let mut found = tools.iter().map(|tool| find(tool, &redirect.target, part));
                if let Some(rule) = found.find_map(|rule| rule) {
                    return Some(rule);
                }
            }
        }
        None
    }

    /// A redirection writes a file like `Edit` does, and may do what `Edit` may; it reads files that end.
    fn redirect_to_ask_about(
        &self,
        judged: &Judged<'_>,
        around: &Surroundings<'_>,
    ) -> Option<String> {
        let moves = judged.script.parts.iter().any(is_move);
        for redirect in judged.script.parts.iter().flat_map(|part| &part.redirects) {
            if redirect.is_harmless() || redirect.flow == Flow::Text {
                continue;
            }
            let raw = &redirect.target.raw;
            let known = self.known_text(&redirect.target, &judged.folders);
            if redirect.is_network() || known.as_deref().is_some_and(is_connection) {
                return Some(format!("`{raw}` opens a connection."));
            }
            let is_clear =
                |target: &String| redirect.flow == Flow::Read || !moves || target.starts_with('/');
            let Some(target) = known.filter(is_clear) else {
                return Some(format!("It is not clear which file `{raw}` is."));
            };
            match redirect.flow {
                Flow::Read if around.is_ordinary_file(&target) => {}
                Flow::Read | Flow::Copy => return Some(format!("`{raw}` is no ordinary file.")),
                Flow::Write | Flow::ReadWrite => match self.decide_path("Edit", &target, true) {
                    Decision::Allow => {}
                    Decision::Ask { reason, .. } | Decision::Deny { reason } => {
                        return Some(reason);
                    }
                },
                Flow::Text => {}
            }
        }
        None
    }
}

/// Programs that change what their operands name.
const WRITERS: [&str; 18] = [
    "rm", "rmdir", "unlink", "mv", "cp", "ln", "tee", "touch", "truncate", "dd", "install",
    "mkdir", "chmod", "chown", "shred", "patch", "sed", "rsync",
];

/// The arguments and the files of redirections.
fn words_of(part: &Part) -> Vec<&Word> {
    let files = part.redirects.iter().filter(|redirect| redirect.flow != Flow::Text);
    part.words.iter().skip(1).chain(files.map(|redirect| &redirect.target)).collect()
}

/// A name for which bash opens a connection.
fn is_connection(target: &str) -> bool {
    ["/dev/tcp/", "/dev/udp/"].iter().any(|folder| target.starts_with(folder))
}

/// A rule about a program that may run, though it was not seen to.
fn possible<'a>(rules: &'a [Rule], judged: &Judged<'_>) -> Option<&'a Rule> {
    let is_about_commands = |rule: &&Rule| rule.covers_tool("Bash");
    let mut rules = rules.iter().filter(is_about_commands);
    if judged.reach.has_unknown_program {
        return rules.find(|rule| rule.may_be_about(None));
    }
    if !judged.reach.has_unread_code {
        return None;
    }
    let text = judged.command.replace("\\\n", "").replace(['\'', '"', '\\'], "");
    let is_name = |character: char| character.is_alphanumeric() || "_.+-".contains(character);
    let names: Vec<&str> = text.split(|character| !is_name(character)).collect();
    rules.find(|rule| rule.may_be_about(Some(&names)))
}
