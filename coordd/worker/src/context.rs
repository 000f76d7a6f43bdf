//! What an agent is told about its surroundings: the coordinator's user-context block (C-3) and the
//! `<env>` block (W-1).
//!
//! The user-context block is made anew for each request and the same inputs give the same bytes, so
//! that the prompt cache holds. The `<env>` block is made once for each agent and kept in its folder,
//! so that a request begins with the bytes of the one before it, over processes and days (fM29);
//! what has changed since is told with the message that comes next. Neither is stored in the transcript.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// How long git may take to report the state of a repository. A starting worker must not wait for a
/// huge one.
const GIT_MAX: Duration = Duration::from_secs(2);
/// Most of git's answer that is read; each changed file is a line.
const GIT_LEN_MAX: u64 = 256 * 1024;

/// The block that an agent's prompt has, in its folder, and the one that was told last.
const BLOCK_FILE: &str = "surroundings.txt";
const TOLD_FILE: &str = "surroundings-told.txt";
/// Longest block that is read back: a few lines with two paths.
const BLOCK_LEN_MAX: u64 = 64 * 1024;

/// What the user-context block is made of.
#[derive(Clone, Debug)]
pub(crate) struct UserContext<'a> {
    pub(crate) worker_tools: Vec<&'a str>,
    /// Connected servers; there are none yet.
    pub(crate) mcp_servers: Vec<&'a str>,
    pub(crate) scratchpad: Option<&'a str>,
    pub(crate) cwd: &'a str,
}

/// The block that a coordinator's first turn begins with.
pub(crate) fn user_context(mut it: UserContext<'_>) -> String {
    it.worker_tools.sort_unstable();
    it.mcp_servers.sort_unstable();
    let servers =
        if it.mcp_servers.is_empty() { "none".to_owned() } else { it.mcp_servers.join(", ") };
    let mut lines = vec![
        "<user-context>".to_owned(),
        format!("Worker tools: {}", it.worker_tools.join(", ")),
        format!("MCP servers: {servers}"),
    ];
    if let Some(path) = it.scratchpad {
        lines.push(format!("Scratchpad directory: {path}"));
    }
    lines.push(format!("Working directory: {}", it.cwd));
    lines.push("</user-context>".to_owned());
    lines.join("\n")
}

/// The block that follows the system prompt of all other agents.
pub(crate) async fn env_block(
    cwd: &Path,
    scratchpad: Option<&str>,
    environment: &BTreeMap<String, String>,
) -> String {
    let git = git_state(cwd, environment).await;
    let now = jiff::Timestamp::now().to_string();
    let date = now.split('T').next().unwrap_or_default();
    let mut lines = vec![
        "<env>".to_owned(),
        format!("Working directory: {}", cwd.display()),
        format!("Git: {git}"),
        format!("Platform: {} {}", std::env::consts::OS, std::env::consts::ARCH),
        format!("Date: {date}"),
    ];
    if let Some(path) = scratchpad {
        lines.push(format!("Scratchpad directory: {path}"));
    }
    lines.push("</env>".to_owned());
    lines.join("\n")
}

/// The `<env>` block of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvBlock {
    /// As the system prompt has it, for as long as the agent lives.
    pub(crate) text: String,
    /// What is to be told of today's, where it is another than was told last.
    pub(crate) change: Option<String>,
}

/// The agent's block: that of its first process, kept in its folder. The folder's second file has what was told last.
pub(crate) fn keep_env_block(folder: &Path, today: String) -> EnvBlock {
    let read = |name: &str| {
        let mut text = String::new();
        let file = std::fs::File::open(folder.join(name)).ok()?;
        let mut bounded = std::io::Read::take(file, BLOCK_LEN_MAX);
        std::io::Read::read_to_string(&mut bounded, &mut text).ok()?;
        (!text.is_empty()).then_some(text)
    };
    let write = |name: &str| {
        let path = folder.join(name);
        if let Err(error) = coordd_common::files::replace(&path, today.as_bytes(), 0o600) {
            tracing::warn!(%error, "an agent's surroundings are not kept; its prompt cache does not hold");
        }
    };
    let Some(text) = read(BLOCK_FILE) else {
        write(BLOCK_FILE);
        write(TOLD_FILE);
        return EnvBlock { text: today, change: None };
    };
    let told = read(TOLD_FILE).unwrap_or_else(|| text.clone());
    let changed: Vec<&str> =
        today.lines().filter(|line| !told.lines().any(|it| it == *line)).collect();
    let change = (!changed.is_empty())
        .then(|| format!("[coordd: your surroundings have changed. {}]", changed.join(". ")));
    if change.is_some() {
        write(TOLD_FILE);
    }
    EnvBlock { text, change }
}

async fn git_state(cwd: &Path, environment: &BTreeMap<String, String>) -> String {
    match timeout(GIT_MAX, git_status(cwd, environment)).await {
        Ok(Some(status)) => describe_status(&status),
        Ok(None) => "not a repository".to_owned(),
        Err(_) => "unknown (git did not answer in time)".to_owned(),
    }
}

/// A repository's own settings must not make this run a program: `status` would run a monitor, and filters for changed files.
async fn git_status(cwd: &Path, environment: &BTreeMap<String, String>) -> Option<String> {
    let names = git(cwd, environment, &[], &["config", "--list", "--name-only", "-z"]).await?;
    let mut off = vec![
        ("core.fsmonitor".to_owned(), "false"),
        ("core.hooksPath".to_owned(), "/dev/null"),
        ("safe.bareRepository".to_owned(), "explicit"),
    ];
    for name in names.split('\0').filter(|it| it.to_ascii_lowercase().starts_with("filter.")) {
        let (_, setting) = name.rsplit_once('.').unwrap_or_default();
        match setting.to_ascii_lowercase().as_str() {
            "required" => off.push((name.to_owned(), "false")),
            "clean" | "smudge" | "process" => off.push((name.to_owned(), "")),
            _ => {}
        }
    }
    let status = ["status", "--porcelain=v2", "--branch", "--ignore-submodules=all"];
    git(cwd, environment, &off, &status).await
}

/// What git prints, with settings that win over all others.
async fn git(
    cwd: &Path,
    environment: &BTreeMap<String, String>,
    settings: &[(String, &str)],
    arguments: &[&str],
) -> Option<String> {
    let numbered = settings.iter().enumerate();
    let settings_given = numbered.flat_map(|(at, (name, value))| {
        // By variables, since a name may have any character.
        [
            (format!("GIT_CONFIG_KEY_{at}"), name.clone()),
            (format!("GIT_CONFIG_VALUE_{at}"), (*value).to_owned()),
        ]
    });
    let mut child = Command::new("git")
        .args(["--no-optional-locks", "-C"])
        .arg(cwd)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .envs(settings_given)
        .env("GIT_CONFIG_COUNT", settings.len().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut bytes = Vec::new();
    child.stdout.take()?.take(GIT_LEN_MAX).read_to_end(&mut bytes).await.ok()?;
    // Reading stopped early when there is more than that; the rest is of no interest.
    if (bytes.len() as u64) < GIT_LEN_MAX && !child.wait().await.ok()?.success() {
        return None;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn describe_status(status: &str) -> String {
    let header = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default()
    };
    let branch = match header("# branch.head") {
        "" | "(detached)" => {
            let commit = header("# branch.oid");
            format!("detached at {}", commit.get(..12).unwrap_or(commit))
        }
        name => format!("branch {}", proto::notification::visible(name)),
    };
    match status.lines().filter(|line| !line.starts_with('#')).count() {
        0 => format!("{branch}, clean"),
        1 => format!("{branch}, 1 changed file"),
        count => format!("{branch}, {count} changed files"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample<'a>(worker_tools: Vec<&'a str>, scratchpad: Option<&'a str>) -> String {
        user_context(UserContext {
            worker_tools,
            mcp_servers: Vec::new(),
            scratchpad,
            cwd: "/repo",
        })
    }

    #[test]
    fn c3_the_block_is_byte_identical_for_the_same_inputs_in_any_order() {
        let block = sample(vec!["Read", "Bash", "Grep"], Some("/tmp/s"));
        assert_eq!(block, sample(vec!["Grep", "Read", "Bash"], Some("/tmp/s")));
        let expected = "<user-context>\nWorker tools: Bash, Grep, Read\nMCP servers: none\n\
                        Scratchpad directory: /tmp/s\nWorking directory: /repo\n</user-context>";
        assert_eq!(block, expected);
    }

    /// What the coordinator's prompt promises of the block is what the block has.
    #[test]
    #[cfg(feature = "coordinator")]
    fn c3_the_prompt_promises_what_the_block_holds() {
        let prompt = include_str!("../prompts/coordinator.md");
        let row =
            prompt.lines().find(|line| line.starts_with("| The user-context block |")).unwrap();
        let block = sample(vec!["Bash"], Some("/tmp/s"));
        for (promised, line) in [
            ("workers' tools", "Worker tools:"),
            ("MCP servers", "MCP servers:"),
            ("skills", "Skills:"),
            ("scratchpad path", "Scratchpad directory:"),
            ("working directory", "Working directory:"),
        ] {
            assert_eq!(row.contains(promised), block.contains(line), "{promised}");
        }
    }

    /// fA21: what a lead in normal mode gets is explained to it.
    #[test]
    fn fa21_the_leads_prompt_explains_notifications() {
        let prompt = include_str!("../prompts/lead.md");
        for part in
            ["`<task-notification>`", "not from the user", "`<result>`", "`failed`", "`killed`"]
        {
            assert!(prompt.contains(part), "{part}");
        }
    }

    /// fM29: the block of the first process stays, and what changes is told once.
    #[test]
    fn fm29_the_block_stays_as_it_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let block = |git: &str| format!("<env>\nGit: {git}\nDate: 2026-12-01\n</env>");
        let keep = |git: &str| keep_env_block(folder.path(), block(git));
        assert_eq!(keep("clean"), EnvBlock { text: block("clean"), change: None });
        assert_eq!(keep("clean").change, None);
        let later = keep("1 changed file");
        assert_eq!(later.text, block("clean"));
        assert_eq!(
            later.change.unwrap(),
            "[coordd: your surroundings have changed. Git: 1 changed file]"
        );
        assert_eq!(keep("1 changed file"), EnvBlock { text: block("clean"), change: None });
        assert!(keep("clean").change.is_some(), "back again");
        std::fs::write(folder.path().join(BLOCK_FILE), "").unwrap();
        assert_eq!(keep("damaged").text, block("damaged"));
    }

    #[test]
    fn s2_without_a_scratchpad_none_is_named() {
        assert!(!sample(vec!["Bash"], None).contains("Scratchpad"));
    }

    #[test]
    fn w1_the_state_of_git_in_a_few_words() {
        let clean = "# branch.oid 0123456789abcdef0123\n# branch.head main\n";
        assert_eq!(describe_status(clean), "branch main, clean");
        let dirty = format!("{clean}1 .M N... a b c d e f\n? new file\n");
        assert_eq!(describe_status(&dirty), "branch main, 2 changed files");
        let detached = "# branch.oid 0123456789abcdef0123\n# branch.head (detached)\n? x\n";
        assert_eq!(describe_status(detached), "detached at 0123456789ab, 1 changed file");
    }

    #[tokio::test]
    async fn w1_the_env_block_says_where_the_agent_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = BTreeMap::from([("PATH".to_owned(), path)]);
        let block = env_block(folder.path(), Some("/tmp/s"), &environment).await;
        let cwd = format!("<env>\nWorking directory: {}\nGit: ", folder.path().display());
        assert!(block.starts_with(&cwd), "{block}");
        assert!(block.contains("\nPlatform: linux ") && block.contains("\nDate: 20"), "{block}");
        assert!(block.ends_with("\nScratchpad directory: /tmp/s\n</env>"), "{block}");
    }

    /// rel-38: what a repository configures is not run.
    #[tokio::test]
    async fn rel38_fp11_looking_at_a_repository_runs_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = BTreeMap::from([
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), folder.path().display().to_string()),
        ]);
        let repository = folder.path().join("r");
        let git = |args: &[&str]| {
            let status = std::process::Command::new("git").args(args).envs(&environment).status();
            assert!(status.unwrap().success());
        };
        git(&["init", "-q", "-b", "main", repository.to_str().unwrap()]);
        let trap = folder.path().join("ran");
        let hook = folder.path().join("hook");
        std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", trap.display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, mode).unwrap();
        git(&[
            "-C",
            repository.to_str().unwrap(),
            "config",
            "core.fsmonitor",
            hook.to_str().unwrap(),
        ]);
        let block = env_block(&repository, None, &environment).await;
        assert!(block.contains("Git: branch main, clean"), "{block}");
        assert!(!trap.exists());
        // fP11: nor a filter, under a name that a command line would split.
        git(&["-C", repository.to_str().unwrap(), "config", "--unset", "core.fsmonitor"]);
        let name = format!("filter.a=b.clean={}; cat", hook.display());
        let (name, value) = name.split_once(".clean=").unwrap();
        std::fs::write(repository.join("f"), "one\n").unwrap();
        git(&["-C", repository.to_str().unwrap(), "add", "f"]);
        git(&["-C", repository.to_str().unwrap(), "config", &format!("{name}.clean"), value]);
        std::fs::write(repository.join(".gitattributes"), "f filter=a=b\n").unwrap();
        std::fs::write(repository.join("f"), "two\n").unwrap();
        let block = env_block(&repository, None, &environment).await;
        assert!(block.contains("changed"), "{block}");
        assert!(!trap.exists(), "a filter of the repository has run");
    }
}
