//! Rules as people write them: `Bash(git *)`, `Edit(src/**)`, `Read(//etc/**)`, `WebFetch`.
//!
//! ```text
//! Tool              every call of it
//! Bash(text)        this command; * stands for anything, \* for a star; "git *" is also "git"; see [`pattern`]
//! Edit(path glob)   //x from the root, ~/x from home, /x ./x a/x from the workspace, x at any depth
//! ```
//!
//! `Edit` rules also cover `Write`, and `Read` rules `Grep` and `Glob`.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::pattern::{self, Forms, escape, wildcard_match};
use super::shell::Part;

/// Longest rule.
pub(crate) const RULE_LEN_MAX: usize = 8 * 1024;

/// Why a rule was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuleError {
    #[error("the rule {rule:?} has no form like Tool or Tool(pattern); write it so")]
    BadForm { rule: String },
    #[error("a rule has {len} bytes; at most {RULE_LEN_MAX} are allowed, so shorten it")]
    TooLong { len: usize },
    #[error("the path of the rule {rule:?} is no glob; correct it")]
    BadGlob {
        rule: String,
        #[source]
        source: globset::Error,
    },
    #[error("there are {count} rules; at most {RULES_MAX} are allowed, so combine some")]
    TooMany { count: usize },
}

/// Most rules of one kind: each is looked at for each call.
pub(crate) const RULES_MAX: usize = 1_000;

/// What a rule says about the calls that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Ask,
    Deny,
}

/// Where the paths of rules begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchors<'a> {
    pub(super) workspace: &'a Path,
    pub(super) home: Option<&'a Path>,
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// As it was written.
    pub(super) text: String,
    tool: String,
    pattern: Option<String>,
    paths: GlobSet,
}

impl Rule {
    pub(super) fn parse(
        text: &str,
        effect: Effect,
        anchors: Anchors<'_>,
    ) -> Result<Self, RuleError> {
        let text = text.trim();
        if text.len() > RULE_LEN_MAX {
            return Err(RuleError::TooLong { len: text.len() });
        }
        let bad = || RuleError::BadForm { rule: text.to_owned() };
        let (tool, pattern) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(bad)?)),
        };
        let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '*' | '.');
        if tool.is_empty() || !tool.chars().all(is_name) {
            return Err(bad());
        }
        let pattern = pattern.map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned);
        let paths = match &pattern {
            Some(pattern) if is_file_tool(tool) => {
                let globs = path_globs(pattern, effect, anchors);
                globs.map_err(|source| RuleError::BadGlob { rule: text.to_owned(), source })?
            }
            Some(_) | None => GlobSet::empty(),
        };
        Ok(Self { text: text.to_owned(), tool: tool.to_owned(), pattern, paths })
    }

    /// Whether it is about this tool.
    pub(super) fn covers_tool(&self, tool: &str) -> bool {
        let family = match self.tool.as_str() {
            "Edit" => matches!(tool, "Write" | "NotebookEdit"),
            "Read" => matches!(tool, "Grep" | "Glob"),
            _ => false,
        };
        family || wildcard_match(&self.tool, tool)
    }

    /// Whether it covers every call of its tool.
    pub(super) fn is_blanket(&self) -> bool {
        match self.pattern.as_deref() {
            None => true,
            Some(pattern) => pattern == "*" && !is_file_tool(&self.tool),
        }
    }

    pub(super) fn has_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// Whether it is about paths.
    pub(super) fn is_about_paths(&self) -> bool {
        is_file_tool(&self.tool)
    }

    pub(super) fn covers_path(&self, path: &Path) -> bool {
        self.is_blanket() || self.paths.is_match(path)
    }

    /// Whether the path that it gives has this folder in it by name.
    pub(super) fn names_folder(&self, folder: &str) -> bool {
        self.pattern.as_deref().is_some_and(|it| it.split('/').any(|part| part == folder))
    }

    /// Whether it is about a command in any spelling: for rules that forbid or ask.
    pub(super) fn forbids_command(&self, forms: &Forms) -> bool {
        self.pattern.as_deref().is_none_or(|pattern| pattern::forbids(pattern, forms))
    }

    /// Whether it allows a command as it is written.
    pub(super) fn allows_command(&self, part: &Part) -> bool {
        self.pattern.as_deref().is_none_or(|pattern| pattern::allows(pattern, part))
    }

    /// Whether it allows a command and names the variables that are set for it.
    pub(super) fn allows_with_assignments(&self, part: &Part) -> bool {
        self.pattern
            .as_deref()
            .is_none_or(|pattern| pattern::allows_with_assignments(pattern, part))
    }

    /// Whether a command whose program is one of these, or is not known (none), might be what it is about.
    pub(super) fn may_be_about(&self, programs: Option<&[&str]>) -> bool {
        let Some(pattern) = self.pattern.as_deref() else { return false };
        match (programs, pattern::program(pattern)) {
            (None, _) | (Some(_), None) => true,
            (Some(programs), Some(program)) => programs.contains(&program.as_str()),
        }
    }

    /// Whether it is this very command, without wildcards.
    pub(super) fn is_exactly(&self, command: &str) -> bool {
        let pattern = self.pattern.as_deref().unwrap_or_default();
        pattern == escape(command)
    }
}

fn is_file_tool(tool: &str) -> bool {
    matches!(tool, "Read" | "Edit" | "Write" | "NotebookEdit" | "Grep" | "Glob")
}

fn path_globs(
    pattern: &str,
    effect: Effect,
    anchors: Anchors<'_>,
) -> Result<GlobSet, globset::Error> {
    let escaped = |path: &Path| globset::escape(&path.to_string_lossy());
    let workspace = escaped(anchors.workspace);
    let workspace = workspace.trim_end_matches('/');
    let absolute = pattern.strip_prefix("//");
    let pattern = pattern.trim_end_matches('/');
    let full = if let Some(rest) = absolute {
        format!("/{}", rest.trim_end_matches('/'))
    } else if let (Some(rest), Some(home)) = (pattern.strip_prefix("~/"), anchors.home) {
        format!("{}/{rest}", escaped(home))
    } else if let Some(rest) = pattern.strip_prefix('/').or_else(|| pattern.strip_prefix("./")) {
        format!("{workspace}/{rest}")
    } else if pattern.contains('/') {
        format!("{workspace}/{pattern}")
    } else if effect == Effect::Allow {
        format!("{workspace}/**/{pattern}")
    } else {
        // What is forbidden by name is forbidden everywhere.
        format!("/**/{pattern}")
    };
    let below = format!("{}/**", full.trim_end_matches('/'));
    GlobSetBuilder::new().add(glob(&full)?).add(glob(&below)?).build()
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str, effect: Effect) -> Result<Rule, RuleError> {
        // A folder whose name would be a wildcard.
        let anchors = Anchors { workspace: Path::new("/w[1]"), home: Some(Path::new("/home/me")) };
        Rule::parse(text, effect, anchors)
    }

    #[test]
    fn forms() {
        for text in
            ["Bash", "Bash(git *)", "mcp__x__*", "Read(//etc/**)", " Edit(a) ", "Bash(echo (a))"]
        {
            assert!(rule(text, Effect::Allow).is_ok(), "{text}");
        }
        for text in ["", "(x)", "Bash(x", "Bash(x) y", "Ba sh", "Read(a[)"] {
            assert!(rule(text, Effect::Allow).is_err(), "{text}");
        }
        let long = "a".repeat(RULE_LEN_MAX + 1);
        assert!(matches!(rule(&long, Effect::Allow), Err(RuleError::TooLong { .. })));
    }

    #[test]
    fn tools() {
        for (text, tool, expected) in [
            ("Bash", "Bash", true),
            ("Bash", "Edit", false),
            ("Edit", "Write", true),
            ("Write", "Edit", false),
            ("Read", "Grep", true),
            ("Read", "Glob", true),
            ("Grep", "Read", false),
            ("mcp__x__*", "mcp__x__y", true),
            ("mcp__x__*", "mcp__z__y", false),
            ("*", "Anything", true),
        ] {
            assert_eq!(
                rule(text, Effect::Deny).unwrap().covers_tool(tool),
                expected,
                "{text} {tool}"
            );
        }
        for (text, expected) in [
            ("Bash", true),
            ("Bash()", true),
            ("Bash(*)", true),
            ("Bash(a*)", false),
            ("Edit(*)", false),
        ] {
            assert_eq!(rule(text, Effect::Allow).unwrap().is_blanket(), expected, "{text}");
        }
    }

    #[test]
    fn paths() {
        use Effect::{Allow, Deny};
        for (text, effect, path, expected) in [
            ("Edit(src/**)", Allow, "/w[1]/src/a/b", true),
            ("Edit(src/**)", Allow, "/w1/src/a/b", false),
            ("Edit(src/**)", Allow, "/x/src/a", false),
            ("Edit(src/*.rs)", Allow, "/w[1]/src/a.rs", true),
            ("Edit(src/*.rs)", Allow, "/w[1]/src/a/b.rs", false),
            ("Edit(/src)", Allow, "/w[1]/src/a", true),
            ("Edit(./src/)", Allow, "/w[1]/src/a", true),
            ("Edit(//etc/**)", Allow, "/etc/passwd", true),
            ("Edit(~/x/**)", Allow, "/home/me/x/y", true),
            ("Edit(*.md)", Allow, "/w[1]/a/b.md", true),
            ("Edit(*.md)", Allow, "/x/b.md", false),
            ("Read(.env)", Deny, "/x/.env", true),
            ("Read(.env)", Deny, "/w[1]/a/.env", true),
            ("Read(.env)", Deny, "/w[1]/a/.envx", false),
            ("Read(secrets)", Deny, "/w[1]/secrets/a/b", true),
            ("Edit(//)", Allow, "/anything/at/all", true),
            ("Edit", Allow, "/x", true),
        ] {
            let rule = rule(text, effect).unwrap();
            assert_eq!(rule.covers_path(Path::new(path)), expected, "{text} {path}");
        }
    }
}
