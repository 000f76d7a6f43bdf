//! The user's `~/.config/coordd/config.toml`.

use std::path::{Path, PathBuf};

use proto::agent::{Permissions, Runtime, SandboxChoice};
use serde::Deserialize;

use crate::error::Failure;

/// How much agents may do without asking, as `--permission-mode` and `mode` in `[permissions]` say it.
pub(crate) const PERMISSION_MODES: [&str; 5] =
    ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/// All settings have a default, so that no file is as good as an empty one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// As `--model` takes it.
    pub(crate) model: Option<String>,
    /// As `--runtime` takes it.
    pub(crate) runtime: Option<Runtime>,
    /// As `--lead` takes it.
    pub(crate) lead: Option<Runtime>,
    /// The program of Claude Code, when not in PATH.
    pub(crate) claude_path: Option<PathBuf>,
    /// The keys that leave a terminal, as `--detach-keys` takes them.
    pub(crate) detach_keys: Option<String>,
    /// Names of variables that agents get besides the usual ones.
    pub(crate) env_allow: Vec<String>,
    /// Workers running at once.
    pub(crate) workers: Option<u32>,
    /// Model calls in one run of a worker.
    pub(crate) max_turns: Option<u32>,
    /// Seconds of one run of a worker.
    pub(crate) run_s: Option<u32>,
    /// Seconds for which a model's server may be silent.
    pub(crate) silence_s: Option<u32>,
    /// Whether sessions have a scratchpad (S-2).
    pub(crate) scratchpad: Option<bool>,
    pub(crate) anthropic: Endpoint,
    pub(crate) openai: Endpoint,
    pub(crate) permissions: Rules,
    pub(crate) sandbox: Sandbox,
    /// Settings of the daemon itself, which reads and checks them.
    #[serde(rename = "daemon")]
    _daemon: toml::Table,
}

/// Where a provider is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Endpoint {
    pub(crate) base_url: Option<String>,
}

/// The box in which commands run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Sandbox {
    /// Whether there is one, where the machine can.
    enabled: Option<bool>,
    /// Hosts that can be reached from it, or presets.
    hosts: Vec<String>,
    /// Commands that run outside of it, as the pattern of a `Bash` rule.
    outside: Vec<String>,
}

/// What needs no approval, what does, and what is refused.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rules {
    #[serde(deserialize_with = "permission_mode")]
    mode: String,
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

/// A mode that no agent knows would make every run fail; it is refused where it is written.
fn permission_mode<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let mode = String::deserialize(from)?;
    if mode.is_empty() || PERMISSION_MODES.contains(&mode.as_str()) {
        return Ok(mode);
    }
    let known = PERMISSION_MODES.join(", ");
    Err(serde::de::Error::custom(format!("`{mode}` is no permission mode; there are {known}")))
}

impl Config {
    /// The file's settings; those that are not there have their defaults.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                return Err(Failure::usage(message).hint("make it readable, or remove it"));
            }
        };
        Self::parse(&text).map_err(|error| {
            let message =
                format!("{} is not valid: {}", path.display(), error.to_string().trim_end());
            Failure::usage(message).hint("fix that line; `coordctl help models` lists the settings")
        })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    pub(crate) fn permissions(&self) -> Permissions {
        let Rules { mode, allow, ask, deny } = self.permissions.clone();
        let Sandbox { enabled, hosts, outside } = self.sandbox.clone();
        let sandbox = SandboxChoice { off: enabled == Some(false), hosts, outside };
        Permissions { mode, allow, ask, deny, sandbox }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read() {
        let config = Config::parse(
            "model = \"claude-x\"\nruntime = \"claude\"\nlead = \"native\"\nclaude_path = \"/opt/claude\"\ndetach_keys = \"ctrl-a,d\"\nenv_allow = [\"AWS_PROFILE\"]\nworkers = 4\nmax_turns = 50\nrun_s = 600\nsilence_s = 60\n\
             scratchpad = false\n[openai]\nbase_url = \"http://o\"\n[anthropic]\nbase_url = \"http://a\"\n\
             [permissions]\nmode = \"plan\"\nallow = [\"Bash(make *)\"]\nask = [\"Bash\"]\ndeny = [\"Read(.env)\"]\n\
             [daemon]\nanything = 1\n",
        )
        .unwrap();
        assert_eq!(config.workers, Some(4));
        assert_eq!((config.runtime, config.lead), (Some(Runtime::Claude), Some(Runtime::Native)));
        assert_eq!(config.claude_path.as_deref(), Some(Path::new("/opt/claude")));
        assert_eq!((config.scratchpad, config.silence_s), (Some(false), Some(60)));
        assert_eq!(config.anthropic.base_url.as_deref(), Some("http://a"));
        let rules = config.permissions();
        assert_eq!((rules.mode.as_str(), rules.allow.len()), ("plan", 1));
        assert_eq!(rules.deny, ["Read(.env)"]);
    }

    #[test]
    fn an_unknown_setting_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "workers = 2\nmodle = \"x\"\n").unwrap();
        let error = Config::load(&path).unwrap_err();
        assert!(error.message.contains("modle") && error.message.contains("line 2"), "{error}");
        assert_eq!(error.exit, crate::error::Exit::Usage);
    }

    #[test]
    fn fa15_a_permission_mode_that_is_none_is_refused_with_its_line() {
        let error = Config::parse("[permissions]\nmode = \"yolo\"\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("`yolo`"), "{error}");
        assert!(PERMISSION_MODES.iter().all(|mode| error.contains(mode)), "{error}");
        for mode in PERMISSION_MODES {
            let text = format!("[permissions]\nmode = \"{mode}\"\n");
            assert_eq!(Config::parse(&text).unwrap().permissions().mode, mode);
        }
    }

    #[test]
    fn no_file_is_an_empty_one() {
        assert_eq!(Config::load(Path::new("/nonexistent/config.toml")).unwrap(), Config::default());
    }
}
