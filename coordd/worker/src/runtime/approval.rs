//! Whether a tool call may run: decided by the rules, else by the user, who is asked through coordd
//! (W-3).
//!
//! A question is never answered by silence: it waits for as long as the user takes, over restarts
//! of the daemon.

use std::path::PathBuf;

use proto::agent::{Bootstrap, Place, Question, Shown};
use proto::json::Json;
use proto::notification::FailureClass;
use proto::request::Request;
use proto::response::Response;

use super::Agent;
use crate::conversation::OpenCall;
use crate::link::CallError;
use crate::outcome::Shortfall;
use crate::tools::permissions::{
    Decision, PermissionMode, Permissions, Places, RuleTexts, ShellSettings, Workspace,
};
use crate::tools::{ToolContext, ToolOutput, change};

/// What an agent does while the user decides.
pub(super) const WAITING: &str = "waiting for approval";

/// Bytes of all that a question says: coordd takes no more, and its other parts need some.
const QUESTION_LEN_MAX: usize = 120 * 1024;
/// Bytes of what a question is about.
const ABOUT_LEN_MAX: usize = 2 * 1024;

/// The rules of an agent, or why they cannot be used: then nothing runs.
pub(super) struct Approvals {
    rules: Result<Permissions, String>,
}

impl Approvals {
    /// Reads the rules, and makes the tools hide what they forbid to read.
    pub(super) fn new(boot: &Bootstrap, tools: &mut ToolContext) -> Self {
        let rules = read_rules(boot, tools);
        if let Ok(rules) = &rules {
            tools.hidden = rules.hidden();
            tools.withheld = rules.withheld();
        }
        Self { rules }
    }

    pub(super) fn check(&self) -> Result<(), Shortfall> {
        match &self.rules {
            Ok(_) => Ok(()),
            Err(error) => {
                let reason = format!("the permission rules cannot be used: {error}");
                Err(Shortfall::failed(FailureClass::Fatal, reason))
            }
        }
    }
}

/// What calls have in common that are about the same, so that what was said about one is remembered at the next.
fn about(tool: &str, input: &serde_json::Value) -> String {
    let fields = ["command", "file_path", "notebook_path", "url", "path", "query"];
    let told = fields.iter().find_map(|name| input.get(name)?.as_str());
    let text = told.map_or_else(|| format!("{tool} {input}"), |text| text.trim().to_owned());
    crate::tools::cut(&text, ABOUT_LEN_MAX).to_owned()
}

fn read_rules(boot: &Bootstrap, tools: &ToolContext) -> Result<Permissions, String> {
    let given = &boot.permissions;
    let mode = if given.mode.is_empty() {
        PermissionMode::default()
    } else {
        serde_json::from_value(given.mode.clone().into()).map_err(|error| error.to_string())?
    };
    let rules =
        RuleTexts { allow: given.allow.clone(), ask: given.ask.clone(), deny: given.deny.clone() };
    let variable = |name: &str| boot.env.get(name).filter(|it| it.starts_with('/'));
    let places = Places {
        agent_state: Some(PathBuf::from(&boot.state_dir)),
        socket: Some(PathBuf::from(&boot.socket)),
        config_home: variable("XDG_CONFIG_HOME").map(PathBuf::from),
        temp: Some(variable("CLAUDE_CODE_TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from)),
    };
    let workspace = Workspace {
        cwd: tools.cwd.clone(),
        scratchpad: tools.scratchpad.clone(),
        additional_dirs: tools.additional_dirs.clone(),
        home: boot.env.get("HOME").map(PathBuf::from),
        places,
        shell: ShellSettings::of(
            boot.env.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        ),
    };
    Permissions::new(mode, &rules, &workspace).map_err(|error| error.to_string())
}

/// What is to happen with a call.
pub(super) enum Verdict {
    Allowed,
    /// The model reads why.
    Denied(String),
    Asked(Box<Question>),
}

impl Agent {
    /// None when the call may run; else the text for the model.
    pub(super) async fn permit(&mut self, call: &OpenCall, elapsed_ms: u64) -> Option<ToolOutput> {
        let question = match self.judge(call) {
            Verdict::Allowed => return None,
            Verdict::Denied(why) => return Some(ToolOutput::error(why)),
            Verdict::Asked(question) => *question,
        };
        self.activity(WAITING, elapsed_ms);
        let asked = self.link.call(Request::PermissionAsk { question }, Some(call.id.clone()));
        let answer = tokio::select! {
            biased;
            () = self.orders.run_ends() => {
                return Some(ToolOutput::error("Not run: the agent was stopped before the user answered."));
            }
            answer = asked => answer,
        };
        self.hear(answer).map(ToolOutput::error)
    }

    /// What the rules say about a call.
    pub(super) fn judge(&self, call: &OpenCall) -> Verdict {
        let rules = match &self.approvals.rules {
            Ok(rules) => rules,
            Err(error) => return Verdict::Denied(error.clone()),
        };
        match rules.decide(&call.tool, &call.input) {
            Decision::Allow => Verdict::Allowed,
            Decision::Deny { reason } => Verdict::Denied(format!("Permission denied. {reason}")),
            Decision::Ask { reason, subject } => {
                let rule = subject.filter(|rule| rules.would_allow(rule, &call.tool, &call.input));
                Verdict::Asked(Box::new(self.question(call, reason, rule.unwrap_or_default())))
            }
        }
    }

    /// What the user is asked, with all that is needed to judge it.
    fn question(&self, call: &OpenCall, reason: String, rule: String) -> Question {
        let input = Json(call.input.clone());
        let told = call.input.to_string().len() + reason.len() + rule.len();
        let room = QUESTION_LEN_MAX.saturating_sub(told);
        let change = change::of(&call.tool, &call.input, &self.tools, room);
        let shown = Shown { place: Place::Unsaid, change };
        let about = about(&call.tool, &call.input);
        Question { tool: call.tool.clone(), input, reason, rule, about, shown }
    }

    /// Takes the answer to a question in. None when the call may run; else what the model is told.
    pub(super) fn hear(&mut self, answer: Result<Response, CallError>) -> Option<String> {
        match answer {
            Ok(Response::Permitted { allow: true, rule, .. }) => {
                self.learn(&rule);
                None
            }
            Ok(Response::Permitted { allow: false, reason, .. }) => {
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                Some(format!("Permission denied by the user{why}."))
            }
            Ok(_) => Some("Permission denied: coordd gave no answer to the question.".to_owned()),
            Err(CallError::Denied(denial)) => {
                Some(format!("Permission denied: {}", crate::link::denial_text(&denial)))
            }
            Err(error @ CallError::Gone) => Some(error.to_string()),
        }
    }

    fn learn(&mut self, rule: &str) {
        if let (Ok(rules), false) = (&mut self.approvals.rules, rule.is_empty())
            && let Err(error) = rules.allow_always(rule)
        {
            tracing::warn!(%error, "a rule cannot be used");
        }
    }
}
