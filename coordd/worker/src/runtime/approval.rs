//! Whether a tool call may run: decided by the rules, else by the user, who is asked through coordd
//! (W-3).
//!
//! A question is never answered by silence: it waits for as long as the user takes, over restarts
//! of the daemon.

use std::path::{Path, PathBuf};

use proto::agent::{Bootstrap, Place, Question, Runtime, Shown};
use proto::json::Json;
use proto::notification::FailureClass;
use proto::request::Request;
use proto::response::Response;

use super::{Agent, walled};
use crate::conversation::OpenCall;
use crate::link::CallError;
use crate::outcome::Shortfall;
use crate::tools::permissions::{
    Decision, PermissionMode, Permissions, Places, RuleTexts, ShellSettings, Workspace,
};
use crate::tools::walls::Reach;
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
    /// What a status view says of the box in which commands run.
    pub(super) sandbox: String,
}

impl Approvals {
    /// Reads the rules, and makes the tools hide what they forbid to read.
    pub(super) fn new(boot: &Bootstrap, tools: &mut ToolContext) -> Self {
        let read = read_rules(boot, tools).and_then(|mut rules| {
            tools.hidden = rules.hidden();
            let sandbox = walled::put_up(boot, &mut rules, tools)?;
            tools.withheld = rules.withheld();
            Ok((rules, sandbox))
        });
        match read {
            Ok((rules, sandbox)) => Self { rules: Ok(rules), sandbox },
            Err(why) => Self { rules: Err(why), sandbox: String::new() },
        }
    }

    /// Whether a file may be read without a question.
    pub(super) fn may_read(&self, path: &Path) -> bool {
        let input = serde_json::json!({ "file_path": path });
        self.rules.as_ref().is_ok_and(|rules| rules.decide("Read", &input) == Decision::Allow)
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
        folder_only: boot.folder_only,
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
    /// None when the call may run; else what the model is told.
    pub(super) async fn permit(
        &mut self,
        call: &OpenCall,
        decided: Option<&PathBuf>,
        elapsed_ms: u64,
    ) -> Option<ToolOutput> {
        self.learn_from_others();
        let question = match self.judge_at(call, decided) {
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

    /// How far a call reaches that may run.
    pub(super) fn reach(&self, call: &OpenCall) -> Reach {
        match &self.approvals.rules {
            Ok(rules) if call.tool == "Bash" => rules.reach(&call.input),
            Ok(_) | Err(_) => Reach::default(),
        }
    }

    /// The path that a file tool's call is about, now. The tool works there, wherever the name leads later.
    pub(super) fn decided(&self, call: &OpenCall) -> Option<PathBuf> {
        if !matches!(call.tool.as_str(), "Read" | "Write" | "Edit") {
            return None;
        }
        let given = call.input.get("file_path")?.as_str()?;
        let home = self.tools.environment().get(std::ffi::OsStr::new("HOME"));
        let home = home.map(std::ffi::OsString::as_os_str);
        let absolute = crate::tools::paths::absolute(given, &self.tools.cwd, home).ok()?;
        let walls = self.tools.walls.as_ref();
        if let Some(own) = walls.and_then(|it| it.in_own_temp(&absolute, &self.tools)) {
            return Some(own);
        }
        crate::tools::paths::resolve(&absolute).ok()
    }

    /// What the rules say about a call that is about this path: of the words for the name and for the path, the stricter ones.
    fn judge_at(&self, call: &OpenCall, decided: Option<&PathBuf>) -> Verdict {
        let by_name = self.judge(call);
        if let (Some(walls), Some(decided)) = (&self.tools.walls, decided)
            && decided.starts_with(walls.temp())
            && !matches!(by_name, Verdict::Denied(_))
        {
            // The agent's own, which commands write to without a question.
            return Verdict::Allowed;
        }
        let Some(decided) = decided.and_then(|it| it.to_str()) else { return by_name };
        let mut resolved = call.clone();
        if let Some(path) = resolved.input.get_mut("file_path") {
            *path = decided.into();
        }
        match (by_name, self.judge(&resolved)) {
            (Verdict::Denied(why), _) | (_, Verdict::Denied(why)) => Verdict::Denied(why),
            (Verdict::Allowed, by_path) => by_path,
            (by_name @ Verdict::Asked(_), _) => by_name,
        }
    }

    /// What the rules say about a call.
    pub(super) fn judge(&self, call: &OpenCall) -> Verdict {
        if self.boot.runtime == Runtime::Native
            && let Some(fault) = crate::tools::fault(&call.tool, &call.input)
        {
            return Verdict::Denied(fault);
        }
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

    /// What would hold a call.
    fn place(&self, call: &OpenCall) -> Place {
        if call.tool != "Bash" || self.boot.runtime != Runtime::Native {
            return Place::Unsaid;
        }
        match (&self.tools.walls, self.reach(call)) {
            (None, _) => Place::Unboxed,
            (Some(_), Reach::Outside) => Place::Leaves,
            (Some(_), Reach::Workspace | Reach::ReadOnly) => Place::Boxed,
        }
    }

    /// What the user is asked, with all that is needed to judge it.
    fn question(&self, call: &OpenCall, reason: String, rule: String) -> Question {
        let input = Json(call.input.clone());
        let told = call.input.to_string().len() + reason.len() + rule.len();
        let room = QUESTION_LEN_MAX.saturating_sub(told);
        let change = change::of(&call.tool, &call.input, &self.tools, room);
        let shown = Shown { place: self.place(call), change };
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

    /// Takes in what an *always* at another agent's question has added to the rules.
    pub(super) fn learn_from_others(&mut self) {
        for rule in self.orders.take_learned() {
            self.learn(&rule);
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
