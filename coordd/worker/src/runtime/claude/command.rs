//! How Claude Code is found and called: program, arguments, environment.
//!
//! A worker has the tools of one and no others; a lead has those of coordd, by MCP, and a
//! coordinator none besides. It asks us before it uses a tool that needs it, and knows of no server
//! and no command but ours. Arguments as of Claude Code 2.1.332. It starts nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use coordd_common::trust::Trusted;
use proto::agent::{Bootstrap, Provider, Role};
use serde_json::json;
use tokio::process::Command;

use super::super::kit::Kit;
use super::history::History;
use crate::tools::{MARKER_NAME, child};

/// Where Claude Code is, when not in PATH. `coordctl` sets it from `claude_path`.
const PATH_VARIABLE: &str = "COORDD_CLAUDE";
/// What it is called in PATH.
const PROGRAM: &str = "claude";
/// Its settings for this agent, in the agent's folder.
const SETTINGS_FILE: &str = "claude-settings.json";

/// The file that names our server of tools, in the agent's folder.
const SERVERS_FILE: &str = "claude-mcp.json";
/// The name of that server.
const SERVER: &str = "coordd";
/// What the names of its tools begin with in Claude Code.
pub(super) const SERVER_PREFIX: &str = "mcp__coordd__";
/// What a lead is told about them.
const SERVER_NOTE: &str = "The tools Agent, SendMessage, TaskStop and others that are named here are called mcp__coordd__Agent, \
     mcp__coordd__SendMessage, mcp__coordd__TaskStop and so on.";
/// How long a call of one may take, in milliseconds: a lead may wait for the whole run of a worker.
const CALL_MAX_MS: &str = "86400000";

/// Tools that a worker has, by the names of Claude Code. It passes over those that it does not
/// have.
const TOOLS: [&str; 9] =
    ["Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "WebFetch", "WebSearch", "Write"];
/// The small set (G-6).
const TOOLS_SIMPLE: [&str; 3] = ["Bash", "Edit", "Read"];

/// Variables that say who the user is to Claude Code and where it keeps things. All others that
/// begin as its own do describe the session that we were started from, and never pass.
const KEPT: [&str; 9] = [
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_TMPDIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
];

/// Why it cannot be called.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error(
        "Claude Code is not installed: no program `{PROGRAM}` in PATH. Install it, or set `claude_path` in the configuration"
    )]
    NotInPath,
    #[error(
        "Claude Code is not installed: {} is not a program. Correct `claude_path` in the configuration", path.display()
    )]
    NotAt { path: PathBuf },
    #[error("the path of this program is not known: check that /proc is mounted")]
    OwnPath {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write {}: check that the disk is not full", path.display())]
    Settings {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// A call of Claude Code.
#[derive(Debug)]
pub(in crate::runtime) struct Invocation {
    pub(in crate::runtime) program: PathBuf,
    pub(in crate::runtime) args: Vec<String>,
    pub(in crate::runtime) env: BTreeMap<String, String>,
}

/// How a conversation is begun or gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    New,
    Resume,
}

impl Invocation {
    /// The command as a process with its mark; it ends when its handle is dropped. The caller
    /// connects its ends.
    pub(in crate::runtime) fn command(&self, cwd: &str, marker: &OsStr) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .current_dir(cwd)
            .env_clear()
            .envs(&self.env)
            .env(MARKER_NAME, marker)
            .kill_on_drop(true);
        child::prepare(&mut command);
        command
    }

    /// The call for this agent. `turns` bounds the calls of the model, 0 does not; `server` is
    /// where its tools of coordd's are.
    pub(super) fn new(
        boot: &Bootstrap,
        kit: &Kit,
        history: &History,
        opening: Opening,
        turns: u32,
        server: Option<&Path>,
    ) -> Result<Self, CommandError> {
        let settings = write(boot, SETTINGS_FILE, &settings_text(boot))?;
        let mut args: Vec<String> = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-partial-messages",
            "--replay-user-messages",
            "--permission-mode",
            "default",
            "--permission-prompt-tool",
            "stdio",
            "--strict-mcp-config",
            "--disable-slash-commands",
        ]
        .map(str::to_owned)
        .into();
        let mut flag = |name: &str, value: String| args.extend([name.to_owned(), value]);
        match opening {
            Opening::New => flag("--session-id", history.session.clone()),
            Opening::Resume => flag("--resume", history.session.clone()),
        }
        flag("--settings", settings);
        // What a repository's files would switch on, hooks and addresses of servers among it, is the user's to allow.
        if !is_trusted(boot) {
            flag("--setting-sources", "user".to_owned());
        }
        flag("--tools", tools(boot, kit).join(","));
        if let Some(server) = server {
            flag("--mcp-config", write(boot, SERVERS_FILE, &servers_text(server)?)?);
            flag("--allowedTools", SERVER_PREFIX.trim_end_matches('_').to_owned());
        }
        if turns > 0 {
            flag("--max-turns", turns.to_string());
        }
        if let Some(name) = model(boot) {
            flag("--model", name);
        }
        match boot.role {
            Role::Coordinator => flag("--system-prompt", prompt(boot, kit)),
            Role::Lead | Role::Worker | Role::Peer => {
                flag("--append-system-prompt", prompt(boot, kit));
            }
        }
        if let Some(path) = &boot.scratchpad {
            flag("--add-dir", path.clone());
        }
        Ok(Self { program: find(&boot.env)?, args, env: environment(boot) })
    }
}

/// Whether the user lets the settings of the workspace count (W-14). A list that cannot be read lets none.
fn is_trusted(boot: &Bootstrap) -> bool {
    let state = crate::tools::permissions::state_of(Path::new(&boot.state_dir));
    match Trusted::load(state) {
        Ok(trusted) => trusted.covering(Path::new(&boot.cwd)).is_some(),
        Err(error) => {
            tracing::warn!(
                why = coordd_common::chain(&error),
                "settings of the workspace do not count"
            );
            false
        }
    }
}

fn write(boot: &Bootstrap, name: &str, text: &str) -> Result<String, CommandError> {
    let path = Path::new(&boot.state_dir).join(name);
    coordd_common::files::replace(&path, text.as_bytes(), 0o600)
        .map_err(|source| CommandError::Settings { path: path.clone(), source })?;
    Ok(path.display().to_string())
}

fn servers_text(socket: &Path) -> Result<String, CommandError> {
    let program = std::env::current_exe().map_err(|source| CommandError::OwnPath { source })?;
    let program = program.display().to_string();
    // The program may have been replaced while we run; its successor does as well.
    let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
    let args = ["--mcp-pipe".to_owned(), socket.display().to_string()];
    let server = json!({ "type": "stdio", "command": program, "args": args });
    Ok(json!({ "mcpServers": { SERVER: server } }).to_string())
}

/// The folder of Claude Code's settings and records.
pub(super) fn config_folder(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let given = env.get("CLAUDE_CONFIG_DIR").filter(|it| !it.is_empty()).map(PathBuf::from);
    given.or_else(|| env.get("HOME").map(|home| Path::new(home).join(".claude")))
}

pub(super) fn find(env: &BTreeMap<String, String>) -> Result<PathBuf, CommandError> {
    if let Some(path) = env.get(PATH_VARIABLE).filter(|it| !it.is_empty()) {
        let path = PathBuf::from(path);
        return if is_program(&path) { Ok(path) } else { Err(CommandError::NotAt { path }) };
    }
    let path = env.get("PATH").map_or("", String::as_str);
    let mut places = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    places
        .find_map(|it| Some(it.join(PROGRAM)).filter(|it| is_program(it)))
        .ok_or(CommandError::NotInPath)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The user's own part of an environment, without the variables of another Claude Code session or
/// of coordd.
pub(super) fn user_environment(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let passes = |name: &str| {
        let theirs = name.starts_with("CLAUDE") || name == "AI_AGENT";
        let ours = name == PATH_VARIABLE || name == "COORDD_TOKEN";
        (!theirs || KEPT.contains(&name)) && !ours
    };
    let own = env.iter().filter(|(name, _)| passes(name));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn environment(boot: &Bootstrap) -> BTreeMap<String, String> {
    let mut env = user_environment(&boot.env);
    env.extend(super::super::marks(boot));
    if let Some(url) = boot.model.as_ref().filter(|it| it.provider == Provider::Anthropic) {
        // The session's settings win over the environment's, as for a native agent.
        env.extend(
            url.base_url.clone().map(|base_url| ("ANTHROPIC_BASE_URL".to_owned(), base_url)),
        );
    }
    for (name, value) in [
        // It is the user's to update, not an agent's.
        ("DISABLE_AUTOUPDATER", "1"),
        // Background tasks are off: they would outlive the run.
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
        ("ENABLE_TOOL_SEARCH", "false"),
        ("MCP_TOOL_TIMEOUT", CALL_MAX_MS),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
    env
}

/// The session's model, if Claude Code can use it.
fn model(boot: &Bootstrap) -> Option<String> {
    let model = boot.model.as_ref().filter(|it| it.provider == Provider::Anthropic)?;
    Some(model.name.clone()).filter(|it| !it.is_empty())
}

/// The tools of a worker that is Claude Code.
pub(in crate::runtime) fn tools_of_workers(simple: bool) -> &'static [&'static str] {
    if simple { &TOOLS_SIMPLE } else { &TOOLS }
}

fn tools(boot: &Bootstrap, kit: &Kit) -> Vec<&'static str> {
    let all = match boot.role {
        Role::Coordinator => &[],
        Role::Worker if boot.simple_tools => &TOOLS_SIMPLE[..],
        Role::Lead | Role::Worker | Role::Peer => &TOOLS,
    };
    let given = |it: &&&str| boot.role != Role::Worker || kit.allows(it);
    all.iter().filter(given).copied().collect()
}

fn prompt(boot: &Bootstrap, kit: &Kit) -> String {
    let mut text = kit.prompt().to_owned();
    if boot.role != Role::Worker {
        text.push_str("\n\n");
        text.push_str(SERVER_NOTE);
    }
    if let Some(path) = &boot.scratchpad {
        text.push_str("\n\nScratchpad for files that you share or throw away: ");
        text.push_str(path);
    }
    text
}

/// The session's rules bound what it may read without asking; only coordd decides whose messages
/// reach it.
fn settings_text(boot: &Bootstrap) -> String {
    let rules = &boot.permissions;
    json!({
        "permissions": { "deny": rules.deny, "ask": rules.ask },
        "crossSessionInbound": "refuse",
    })
    .to_string()
}
