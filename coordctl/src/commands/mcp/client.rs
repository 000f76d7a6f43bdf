//! Where each client keeps its MCP servers, and how an entry there looks.
//!
//! Seen with Claude Code 2.1.332 and Gemini CLI 0.61.0; from the documents of Codex 0.171.0 and
//! opencode 1.18.33. The clients' own commands for this are not used, because they also change
//! other settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::json_text::{self, Dialect};
use super::toml_text;
use crate::paths::{Vars, absolute};

/// The name of the entry.
const NAME: &str = "coordd";

/// A client that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Client {
    Claude,
    Codex,
    Opencode,
    Gemini,
}

/// For whom an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Scope {
    /// In every folder.
    User,
    /// In this folder, for everybody who has it.
    Project,
}

/// What a client is to start.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// The variables that name an unusual place of coordd. Many clients pass on little of their
    /// environment.
    pub(super) env: BTreeMap<String, String>,
}

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EntryError {
    #[error(transparent)]
    Json(#[from] json_text::JsonError),
    #[error(transparent)]
    Toml(#[from] toml_text::TomlError),
}

impl Client {
    /// As on the command line.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
        }
    }

    /// The file with its servers. None where there is no such file, or nobody knows where home is.
    pub(super) fn file(self, scope: Scope, vars: &Vars, folder: &Path) -> Option<PathBuf> {
        let home = absolute(vars, "HOME");
        let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
        match (self, scope) {
            (Self::Claude, Scope::Project) => Some(folder.join(".mcp.json")),
            (Self::Claude, Scope::User) => absolute(vars, "CLAUDE_CONFIG_DIR")
                .map(|it| it.join(".claude.json"))
                .or_else(|| below_home(".claude.json")),
            // Codex reads a project's file only in folders that it trusts.
            (Self::Codex, Scope::Project) => None,
            (Self::Codex, Scope::User) => absolute(vars, "CODEX_HOME")
                .or_else(|| below_home(".codex"))
                .map(|it| it.join("config.toml")),
            (Self::Opencode, Scope::Project) => Some(json_or_jsonc(folder.join("opencode.json"))),
            (Self::Opencode, Scope::User) => absolute(vars, "XDG_CONFIG_HOME")
                .or_else(|| below_home(".config"))
                .map(|it| json_or_jsonc(it.join("opencode/opencode.json"))),
            (Self::Gemini, Scope::Project) => Some(folder.join(".gemini/settings.json")),
            (Self::Gemini, Scope::User) => below_home(".gemini/settings.json"),
        }
    }

    /// The command that starts the server, in this client's format.
    fn entry(self, server: &Server) -> Value {
        let Server { program, arguments, env } = server;
        let (mut entry, env_name) = match self {
            Self::Claude => {
                (json!({ "type": "stdio", "command": program, "args": arguments }), "env")
            }
            Self::Codex | Self::Gemini => (json!({ "command": program, "args": arguments }), "env"),
            Self::Opencode => {
                let command: Vec<_> = std::iter::once(program).chain(arguments).collect();
                let entry = json!({ "type": "local", "command": command, "enabled": true });
                (entry, "environment")
            }
        };
        if let (Some(entry), false) = (entry.as_object_mut(), env.is_empty()) {
            entry.insert(env_name.to_owned(), json!(env));
        }
        entry
    }

    /// What it takes for JSON. Gemini CLI and opencode strip comments first.
    fn dialect(self) -> Dialect {
        match self {
            Self::Claude | Self::Codex => Dialect::Strict,
            Self::Opencode | Self::Gemini => Dialect::Jsonc,
        }
    }

    fn container(self) -> &'static str {
        match self {
            Self::Claude | Self::Gemini => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Opencode => "mcp",
        }
    }

    /// The file's text with the entry in it. Other fields of an existing entry stay.
    pub(super) fn with(self, text: &str, server: &Server) -> Result<String, EntryError> {
        let entry = self.entry(server);
        let container = self.container();
        if self == Self::Codex {
            let found = toml_text::entry(text, container, NAME)?;
            if has_all(found.as_ref(), &entry) {
                return Ok(text.to_owned());
            }
            return Ok(toml_text::with_entry(text, container, NAME, Some(&entry))?);
        }
        let found = json_text::entry(text, self.dialect(), (container, NAME))?;
        if has_all(found.as_ref(), &entry) {
            return Ok(text.to_owned());
        }
        let mut whole = found.filter(Value::is_object).unwrap_or_else(|| json!({}));
        if let (Some(whole), Value::Object(entry)) = (whole.as_object_mut(), entry) {
            whole.extend(entry);
        }
        Ok(json_text::with_entry(text, self.dialect(), (container, NAME), Some(&whole))?)
    }

    /// The file's text without it.
    pub(super) fn without(self, text: &str) -> Result<String, EntryError> {
        let container = self.container();
        if self == Self::Codex {
            let found = toml_text::entry(text, container, NAME)?;
            return match found {
                Some(_) => Ok(toml_text::with_entry(text, container, NAME, None)?),
                None => Ok(text.to_owned()),
            };
        }
        match json_text::entry(text, self.dialect(), (container, NAME))? {
            Some(_) => Ok(json_text::with_entry(text, self.dialect(), (container, NAME), None)?),
            None => Ok(text.to_owned()),
        }
    }
}

/// The file of that name, or the one in which opencode reads the same with `.jsonc` at the end, if
/// there is only that.
fn json_or_jsonc(json: PathBuf) -> PathBuf {
    let jsonc = json.with_extension("jsonc");
    if !json.exists() && jsonc.exists() { jsonc } else { json }
}

/// Whether all that is wanted is there.
fn has_all(found: Option<&Value>, wanted: &Value) -> bool {
    let Some(wanted) = wanted.as_object() else { return false };
    found.is_some_and(|found| wanted.iter().all(|(key, value)| found.get(key) == Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Client; 4] = [Client::Claude, Client::Codex, Client::Opencode, Client::Gemini];

    #[test]
    fn l4_each_client_has_its_own_file() {
        let vars = Vars::from([("HOME".to_owned(), "/h".to_owned())]);
        let file = |client: Client, scope| {
            let found = client.file(scope, &vars, Path::new("/w"));
            found.map(|it| it.display().to_string())
        };
        let of = |scope| ALL.map(|it| file(it, scope).unwrap_or_default());
        assert_eq!(
            of(Scope::User),
            [
                "/h/.claude.json",
                "/h/.codex/config.toml",
                "/h/.config/opencode/opencode.json",
                "/h/.gemini/settings.json"
            ]
        );
        assert_eq!(
            of(Scope::Project),
            ["/w/.mcp.json", "", "/w/opencode.json", "/w/.gemini/settings.json"]
        );
        let moved = [("CLAUDE_CONFIG_DIR", "/c"), ("CODEX_HOME", "/x"), ("XDG_CONFIG_HOME", "/g")];
        let vars: Vars = moved.map(|(name, path)| (name.to_owned(), path.to_owned())).into();
        let file = |it: Client| it.file(Scope::User, &vars, Path::new("/w"));
        assert_eq!(file(Client::Claude).unwrap(), Path::new("/c/.claude.json"));
        assert_eq!(file(Client::Codex).unwrap(), Path::new("/x/config.toml"));
        assert_eq!(file(Client::Opencode).unwrap(), Path::new("/g/opencode/opencode.json"));
        assert_eq!(file(Client::Gemini), None);
    }

    #[test]
    fn l4_a_file_with_comments_in_its_name_is_the_one_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = || Client::Opencode.file(Scope::Project, &Vars::new(), folder.path()).unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(file(), at("opencode.json"));
        std::fs::write(at("opencode.jsonc"), "{}").unwrap();
        assert_eq!(file(), at("opencode.jsonc"));
        std::fs::write(at("opencode.json"), "{}").unwrap();
        assert_eq!(file(), at("opencode.json"));
    }

    #[test]
    fn l4_an_entry_that_is_there_changes_nothing_and_another_keeps_what_is_not_ours() {
        let server = |program: &str| {
            let env = [("XDG_RUNTIME_DIR".to_owned(), "/r".to_owned())].into();
            Server { program: program.to_owned(), arguments: vec!["mcp".to_owned()], env }
        };
        for client in ALL {
            let new = client.with("", &server("/bin/coordctl")).unwrap();
            assert!(new.contains("/bin/coordctl") && new.contains("mcp"), "{new}");
            assert!(new.contains("XDG_RUNTIME_DIR") && new.contains("\"/r\""), "{new}");
            assert_eq!(client.with(&new, &server("/bin/coordctl")).unwrap(), new);
            let other = client.with(&new, &server("/opt/coordctl")).unwrap();
            assert!(other.contains("/opt/") && !other.contains("/bin/"), "{other}");
            let without = client.without(&other).unwrap();
            assert!(!without.contains("coordd"), "{without}");
            assert_eq!(client.without(&without).unwrap(), without);
        }
        let own = r#"{"mcpServers":{"coordd":{"command":"old","timeout":9}}}"#;
        let bare = Server { env: BTreeMap::new(), ..server("new") };
        let after = Client::Gemini.with(own, &bare).unwrap();
        assert_eq!(
            after,
            r#"{"mcpServers":{"coordd":{"command":"new","timeout":9,"args":["mcp"]}}}"#
        );
    }
}
