//! A real small model behind a real HTTP server, for the tests that need one.
//!
//! It speaks Anthropic's Messages API (`/v1/messages`) and OpenAI's Chat Completions API
//! (`/v1/chat/completions`), both with streaming. It follows no instruction worth the name, so a
//! test forces what it wants (`tool_choice`) and asserts structure, never wit.
//!
//! It installs nothing: `tests/run` does. Where that was not done, a test fails and says so.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// What the server announces itself with, before its URL.
const ANNOUNCEMENT: &str = "LISTENING ";

/// Loading takes about a second; the rest is for a machine that builds at the same time.
const START_LIMIT: Duration = Duration::from_mins(1);

/// What was installed must be what this source names.
const REQUIREMENTS: &str = include_str!("../llm/requirements.txt");

/// A running model server. It ends when this is dropped, or with the process that holds it.
#[derive(Debug)]
pub struct Llm {
    url: String,
    process: Child,
}

impl Llm {
    /// Starts a server that takes any key.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server that answers 401 to every other key.
    pub fn start_with_key(key: &str) -> anyhow::Result<Self> {
        Self::start_with(&["--api-key", key])
    }

    /// `http://127.0.0.1:PORT`, as `ANTHROPIC_BASE_URL` has it. `OPENAI_BASE_URL` wants `/v1`
    /// behind.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn start_with(options: &[&str]) -> anyhow::Result<Self> {
        let python = python()?;
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("llm/server.py");
        let process = Command::new(&python)
            .arg(server)
            .args(options)
            // Its end tells the server to end; dropping the child closes it.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The test's own, so that a failed test shows what the server said.
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("starting the model server with {}", python.display()))?;
        let mut llm = Self { url: String::new(), process };
        llm.url = llm.announced()?;
        Ok(llm)
    }

    fn announced(&mut self) -> anyhow::Result<String> {
        let stdout = self.process.stdout.take().context("the server's output is not a pipe")?;
        let (found, wait) = mpsc::sync_channel(1);
        // A thread, because reading a pipe has no time limit. It ends with the server at the
        // latest, and reads on so that the server never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(url) = line.strip_prefix(ANNOUNCEMENT) {
                    let _late = found.try_send(url.trim().to_owned());
                }
            }
        });
        match wait.recv_timeout(START_LIMIT) {
            Ok(url) => Ok(url),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("the model server announced nothing within {START_LIMIT:?}")
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = self.process.wait().context("waiting for the model server")?;
                bail!("the model server ended before it listened: {status}; its reason is above")
            }
        }
    }
}

impl Drop for Llm {
    fn drop(&mut self) {
        // Kill, not only a closed input: it may be in the middle of a long generation.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The interpreter that `tests/run` installed the model for.
fn python() -> anyhow::Result<PathBuf> {
    let folder = cache_folder()?.join("coordd-tests/llm");
    let python = folder.join("bin/python");
    ensure!(
        python.exists(),
        "no model server in {}; tests/run installs it (tests/run llm:: runs these tests alone)",
        folder.display(),
    );
    let installed = std::fs::read_to_string(folder.join("requirements.txt")).unwrap_or_default();
    ensure!(
        installed == REQUIREMENTS,
        "the model server in {} is not the one of tests/llm/requirements.txt; tests/run renews it",
        folder.display(),
    );
    Ok(python)
}

fn cache_folder() -> anyhow::Result<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    named("XDG_CACHE_HOME")
        .or_else(|| named("HOME").map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")
}
