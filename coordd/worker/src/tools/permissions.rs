//! Whether a tool call may run: rules, the mode, and what is plainly harmless.
//!
//! ```text
//! call --deny rule--> Deny
//!      --ask rule---> Ask
//!      --mode, allow rule, harmless--> Allow
//!      --else-------> Ask   (plan and dontAsk: Deny)
//! ```
//!
//! It looks at symlinks, because a path is what it leads to, and at nothing else outside. It must not ask anyone, remember an
//! answer by itself, or change anything. Rules about `Bash` judge a text; they keep an honest agent from mistakes and
//! are no wall against a malicious one.

mod always;
mod boxed;
mod command;
mod guards;
mod pattern;
mod plain;
mod reach;
mod rule;
mod shell;
mod spelling;
mod wrapper;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use self::guards::{Guarded, Guards};
use self::rule::{Anchors, Effect, RULES_MAX, Rule};
use super::context::PathFilter;
use super::{glob, paths};

pub(crate) use self::guards::{CONFIGURES, Places, state_of};
pub(crate) use self::plain::ShellSettings;
pub(crate) use self::rule::RuleError;
pub(crate) use self::shell::programs_of;

/// Folders inside a workspace whose files configure what runs: writing there always asks.
const PROTECTED_FOLDERS: [&str; 3] = [".git", ".claude", ".coordd"];

/// How much an agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PermissionMode {
    /// Reading is free, edits ask.
    Default,
    /// Edits in the workspace are free too.
    #[default]
    AcceptEdits,
    /// Nothing is changed but in the scratchpad.
    Plan,
    /// All is free but what rules deny or ask about.
    BypassPermissions,
    /// What would ask is denied.
    DontAsk,
}

/// Rules as text, by what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuleTexts {
    pub(crate) allow: Vec<String>,
    pub(crate) ask: Vec<String>,
    pub(crate) deny: Vec<String>,
}

/// Whether an agent could read a rule, whatever it would be for.
pub(crate) fn check_rule(text: &str) -> Result<(), RuleError> {
    let anchors = Anchors { workspace: Path::new("/"), home: None };
    Rule::parse(text, Effect::Deny, anchors).map(drop)
}

/// Where an agent works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    pub(crate) cwd: PathBuf,
    pub(crate) scratchpad: Option<PathBuf>,
    pub(crate) additional_dirs: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) places: Places,
    pub(crate) shell: ShellSettings,
}

/// What is to happen with a call. The reasons are for the model and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allow,
    Deny {
        reason: String,
    },
    Ask {
        reason: String,
        /// An allow rule that would cover the call from now on; none if no rule of sensible length does.
        subject: Option<String>,
    },
}

/// The permissions of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Permissions {
    mode: PermissionMode,
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    /// Resolved.
    cwd: PathBuf,
    /// The same as a shell may call it.
    written_cwd: PathBuf,
    scratchpad: Option<PathBuf>,
    shell: ShellSettings,
    /// Where edits are free in `acceptEdits`; resolved, the workspace first.
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
    guards: Arc<Guards>,
    /// Commands run in a box.
    boxed: bool,
    /// Or behind a fence, in which nothing of a workspace is protected.
    fenced: bool,
    /// But for these.
    outside: Vec<Rule>,
}

impl Permissions {
    pub(crate) fn new(
        mode: PermissionMode,
        rules: &RuleTexts,
        workspace: &Workspace,
    ) -> Result<Self, RuleError> {
        let resolved =
            |path: &PathBuf| paths::resolve(path).unwrap_or_else(|_| paths::normalize(path));
        let cwd = resolved(&workspace.cwd);
        let scratchpad = workspace.scratchpad.as_ref().map(resolved);
        let mut roots = vec![cwd.clone()];
        roots.extend(scratchpad.clone());
        roots.extend(workspace.additional_dirs.iter().map(resolved));
        let home = workspace.home.clone();
        let anchors = Anchors { workspace: &cwd, home: home.as_deref() };
        let parse = |texts: &[String], effect| {
            if texts.len() > RULES_MAX {
                return Err(RuleError::TooMany { count: texts.len() });
            }
            texts
                .iter()
                .map(|text| Rule::parse(text, effect, anchors))
                .collect::<Result<Vec<_>, _>>()
        };
        let allow = parse(&rules.allow, Effect::Allow)?;
        let ask = parse(&rules.ask, Effect::Ask)?;
        let deny = parse(&rules.deny, Effect::Deny)?;
        let guards = Guards::new(&workspace.places, home.as_deref(), scratchpad.as_deref(), &roots);
        let guards = Arc::new(guards);
        let written_cwd = paths::normalize(&workspace.cwd);
        let shell = workspace.shell.clone();
        let (boxed, fenced, outside) = (false, false, Vec::new());
        Ok(Self {
            mode,
            allow,
            ask,
            deny,
            cwd,
            written_cwd,
            scratchpad,
            shell,
            roots,
            home,
            guards,
            boxed,
            fenced,
            outside,
        })
    }

    /// Adds an allow rule: the subject of an [`Decision::Ask`] that was answered with "always".
    pub(crate) fn allow_always(&mut self, rule: &str) -> Result<(), RuleError> {
        if self.allow.iter().any(|known| known.text == rule) {
            return Ok(());
        }
        let count = self.allow.len() + 1;
        if count > RULES_MAX {
            return Err(RuleError::TooMany { count });
        }
        let anchors = Anchors { workspace: &self.cwd, home: self.home.as_deref() };
        self.allow.push(Rule::parse(rule, Effect::Allow, anchors)?);
        Ok(())
    }

    /// Whether this rule, added, would let the call run. Where rules ask or a path is guarded, no allow rule may.
    pub(crate) fn would_allow(&self, rule: &str, tool: &str, input: &Value) -> bool {
        let mut with = self.clone();
        with.allow_always(rule).is_ok() && with.decide(tool, input) == Decision::Allow
    }

    /// Which paths `Read` deny rules hide, for the searches; none if there are no such rules.
    pub(crate) fn hidden(&self) -> Option<PathFilter> {
        let rules: Vec<Rule> = Self::read_rules(&self.deny).cloned().collect();
        if rules.is_empty() {
            return None;
        }
        Some(Arc::new(move |path: &Path| rules.iter().any(|it| it.covers_path(path))))
    }

    /// Which paths `Edit` deny rules keep as they are; none if there are no such rules.
    pub(crate) fn kept(&self) -> Option<PathFilter> {
        let about = |it: &&Rule| it.covers_tool("Write") && it.is_about_paths();
        let rules: Vec<Rule> = self.deny.iter().filter(about).cloned().collect();
        if rules.is_empty() {
            return None;
        }
        Some(Arc::new(move |path: &Path| rules.iter().any(|it| it.covers_path(path))))
    }

    /// Which paths a search leaves out unless it begins at one of them.
    pub(crate) fn withheld(&self) -> Option<PathFilter> {
        if self.opens_all() {
            return None;
        }
        let guards = Arc::clone(&self.guards);
        Some(Arc::new(move |path: &Path| guards.withholds(path)))
    }

    /// Whether nothing is sealed. What bypasses questions does not bypass the box, for commands and for files alike.
    fn opens_all(&self) -> bool {
        self.mode == PermissionMode::BypassPermissions && !self.boxed
    }

    pub(crate) fn decide(&self, tool: &str, input: &Value) -> Decision {
        let text = |field: &str| input.get(field).and_then(Value::as_str);
        let folder = text("path").filter(|it| !it.is_empty()).unwrap_or(".");
        let decision = match tool {
            "Bash" => self.decide_bash(input),
            "Read" => self.decide_path(tool, text("file_path").unwrap_or_default(), false),
            "Grep" => self.decide_path(tool, folder, false),
            "Glob" => {
                // A pattern may name the folder as well.
                let (prefix, _) = glob::split_literal(text("pattern").unwrap_or_default());
                let path = Path::new(folder).join(prefix);
                self.decide_path(tool, &path.to_string_lossy(), false)
            }
            "Write" | "Edit" => self.decide_path(tool, text("file_path").unwrap_or_default(), true),
            "TodoWrite" => self.decide_by_name(tool, true),
            _ => self.decide_by_name(tool, false),
        };
        self.without_asking(decision)
    }

    /// In `dontAsk` nobody is asked.
    fn without_asking(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Ask { reason, .. } if self.mode == PermissionMode::DontAsk => {
                let reason = format!("{reason} Nobody can be asked in this mode; do without it.");
                Decision::Deny { reason }
            }
            Decision::Allow | Decision::Ask { .. } | Decision::Deny { .. } => decision,
        }
    }

    fn decide_by_name(&self, tool: &str, harmless: bool) -> Decision {
        // A pattern for a tool that is not known here cannot be judged: it forbids everything and allows nothing.
        if let Some(rule) = self.deny.iter().find(|it| it.covers_tool(tool)) {
            return denied(rule);
        }
        if let Some(rule) = self.ask.iter().find(|it| it.covers_tool(tool)) {
            return asked(rule, Some(tool.to_owned()));
        }
        let allowed = self.allow.iter().any(|it| it.covers_tool(tool) && !it.has_pattern());
        if harmless || allowed || self.mode == PermissionMode::BypassPermissions {
            return Decision::Allow;
        }
        if self.mode == PermissionMode::Plan {
            return plan(&format!("{tool} may change something."));
        }
        ask(format!("No rule allows {tool}."), Some(tool.to_owned()))
    }

    fn decide_path(&self, tool: &str, path: &str, writes: bool) -> Decision {
        let absolute =
            paths::absolute(path, &self.cwd, self.home.as_ref().map(|it| it.as_os_str()));
        let resolved = absolute.and_then(|it| Ok((paths::resolve(&it)?, paths::normalize(&it))));
        let (path, written) = match resolved {
            Ok(it) => it,
            Err(error) => {
                let reason = super::ToolOutput::from_error(&error).text;
                return Decision::Deny { reason: format!("The path cannot be used: {reason}.") };
            }
        };
        if let Some(rule) = covering(&self.deny, tool, &path, &written) {
            return denied(rule);
        }
        if let Some(rule) = covering(&self.ask, tool, &path, &written) {
            return asked(rule, Some(self.subject_of_path(tool, &path)));
        }
        let sealed = self.guards.sealed(&path).or_else(|| self.guards.sealed(&written));
        if !self.opens_all()
            && let Some(it) = sealed
            && !self.allow.iter().any(|rule| {
                rule.covers_tool(tool) && rule.covers_path(&path) && it.is_meant_by(rule)
            })
        {
            let subject = Some(self.subject_of_path(tool, &path));
            return ask(guarded_text(&path, it), subject);
        }
        if writes { self.decide_write(tool, &path, &written) } else { Decision::Allow }
    }

    /// The path is resolved, and no deny or ask rule is about it.
    fn decide_write(&self, tool: &str, path: &Path, written: &Path) -> Decision {
        let in_scratchpad = self.scratchpad.as_ref().is_some_and(|it| path.starts_with(it));
        if self.opens_all() || in_scratchpad {
            return Decision::Allow;
        }
        if self.mode == PermissionMode::Plan {
            return plan(&format!("{tool} changes a file outside the scratchpad."));
        }
        let protected = self.protected_folder(path);
        let configured = self.guards.configured(path).or_else(|| self.guards.configured(written));
        let is_allowed = |rule: &Rule| {
            rule.covers_tool(tool)
                && rule.covers_path(path)
                && protected.is_none_or(|folder| rule.names_folder(folder))
                && configured.is_none_or(|it| it.is_meant_by(rule))
        };
        if self.allow.iter().any(is_allowed) {
            return Decision::Allow;
        }
        let shown = path.display();
        let subject = Some(self.subject_of_path(tool, path));
        if let Some(it) = configured {
            return ask(guarded_text(path, it), subject);
        }
        if let Some(folder) = protected {
            return ask(format!("{shown} is in {folder}, which configures what runs."), subject);
        }
        let inside = self.roots.iter().any(|it| path.starts_with(it));
        if !inside {
            return ask(format!("{shown} is outside the workspace."), subject);
        }
        if matches!(self.mode, PermissionMode::AcceptEdits | PermissionMode::BypassPermissions) {
            return Decision::Allow;
        }
        ask(format!("{tool} changes {shown}."), subject)
    }

    /// The protected folder in which a path lies, unless some root begins below it.
    fn protected_folder(&self, path: &Path) -> Option<&'static str> {
        let mut found = None;
        for root in &self.roots {
            let Ok(inside) = path.strip_prefix(root) else { continue };
            let folder = PROTECTED_FOLDERS
                .into_iter()
                .find(|it| inside.components().any(|part| part.as_os_str() == *it));
            found = Some(folder?);
        }
        found
    }

    fn read_rules(rules: &[Rule]) -> impl Iterator<Item = &Rule> {
        rules.iter().filter(|it| it.covers_tool("Read") && it.is_about_paths())
    }
}

fn guarded_text(path: &Path, it: Guarded<'_>) -> String {
    format!("{} {}.", path.display(), it.why)
}

fn covering<'a>(rules: &'a [Rule], tool: &str, path: &Path, written: &Path) -> Option<&'a Rule> {
    rules
        .iter()
        .find(|it| it.covers_tool(tool) && (it.covers_path(path) || it.covers_path(written)))
}

fn denied(rule: &Rule) -> Decision {
    Decision::Deny { reason: format!("The rule {} forbids this. Do without it.", rule.text) }
}

fn asked(rule: &Rule, subject: Option<String>) -> Decision {
    ask(format!("The rule {} asks about this.", rule.text), subject)
}

fn ask(reason: String, subject: Option<String>) -> Decision {
    Decision::Ask { reason, subject }
}

fn plan(what: &str) -> Decision {
    let reason = format!("{what} In plan mode nothing is changed: read, and write down the plan.");
    Decision::Deny { reason }
}

#[cfg(test)]
mod tests;
