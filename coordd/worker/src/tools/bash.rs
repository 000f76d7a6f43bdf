//! `Bash`: runs a command, with an end to everything it started.
//!
//! ```text
//! spawn --> running --exit------> drain <= 250 ms --> end what is left --> output
//!              |----timeout--\
//!              \----stop------> end all (TERM, grace, KILL), reading on --> output so far
//! ```
//!
//! Output goes through one pipe, so that both streams stay in order, into a bounded capture: a command can print without
//! end and neither blocks nor grows this process. It must not wait for a grandchild that holds the pipe open.

mod alone;
mod boxed;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, sleep_until};

use self::boxed::Boxed;
use super::ToolOutput;
use super::bounded::BoundedCapture;
use super::child;
use super::context::ToolContext;
use super::input::number;
use super::process_tree::{MARKER_NAME, ProcessTree, new_marker};
use super::walls::WallsError;

/// How long a command may take: builds and test suites fit in two minutes mostly, and ten is as long as anyone should wait for
/// one call.
const TIMEOUT_MS_DEFAULT: u64 = 120_000;
const TIMEOUT_MS_MAX: u64 = 600_000;
/// Nobody means less: such a number is one of seconds.
const TIMEOUT_MS_MIN: u64 = 1_000;

/// Longest command: the kernel takes 128 KiB in one argument.
const COMMAND_LEN_MAX: usize = 100 * 1024;

/// Between TERM and KILL at a stop or timeout; all of it has to fit in two seconds (W-6).
const GRACE_MS: u64 = 700;

/// The same for what a finished command left running.
const LEFTOVER_GRACE_MS: u64 = 300;

/// How long the output is read on after the command itself has ended (rel-30).
const DRAIN_MS: u64 = 250;

/// How long it is read on when no process is left: what lies in the pipe is there already.
const LAST_DRAIN_MS: u64 = 50;

const READ_LEN: usize = 64 * 1024;

pub(super) const DESCRIPTION: &str = "Runs a shell command (bash) and returns its output, standard error included. \
Each call starts a new shell in the working directory; a `cd` or a variable does not last until the next call. \
Standard input is empty, so pass options that avoid questions. When the command ends, everything that it started ends with \
it: a process sent to the background with `&` does not outlive the call. A command that takes longer than `timeout` is ended \
and counts as failed. Of long output the first and the last part are returned. For files prefer Read, Edit, Write, Grep and \
Glob where you have them. Quote paths with spaces. Where the machine has a sandbox, commands run in it: they write in the \
working directory, the scratchpad and a /tmp of yours alone, have no network, and do not see the user's keys. Leave `needs` \
out unless a command failed for that.";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    command: String,
    /// For people who watch; nothing here depends on it.
    #[serde(default)]
    #[expect(dead_code, reason = "shown by those who see the call, not used by the tool")]
    description: Option<String>,
    #[serde(default, deserialize_with = "number")]
    timeout: Option<u64>,
    /// For the permissions.
    #[serde(default)]
    #[expect(dead_code, reason = "looked at before the call may run")]
    needs: Option<Needs>,
}

/// What a command needs besides what it has in the sandbox.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Needs {
    Write,
    Outside,
}

#[derive(Debug, thiserror::Error)]
enum BashError {
    #[error("The command is empty. Give one.")]
    Empty,
    #[error("The command contains a NUL byte, which no shell takes. Leave it out.")]
    Nul,
    #[error(
        "The command has {len} bytes; at most {COMMAND_LEN_MAX} fit. \
         Put long text into a file first, and use the file."
    )]
    TooLong { len: usize },
    #[error(
        "`timeout` is in milliseconds: {given} would end the command after less than a second. Give {} for {given} seconds, or \
         leave it out for {TIMEOUT_MS_DEFAULT}.",
        given.saturating_mul(1_000)
    )]
    TooShort { given: u64 },
    #[error(
        "{editor} needs a terminal, and there is none. Change files with Edit or Write, or with a program such as sed."
    )]
    NeedsTerminal { editor: &'static str },
    #[error(
        "The working directory {} is gone, so no command can run. Tell the user.",
        cwd.display()
    )]
    NoCwd { cwd: PathBuf },
    #[error("No shell could be started. Tell the user")]
    Spawn(#[source] io::Error),
    #[error("The command was not run, since its sandbox could not be built. Tell the user")]
    NoBox(#[source] WallsError),
    #[error("The command was not run, since its sandbox could not be built: {0}. Tell the user.")]
    BoxFailed(String),
    #[error("The command's end could not be awaited. Try it again")]
    Wait(#[source] io::Error),
}

/// How a command came to its end.
#[derive(Debug)]
enum Ending {
    Exited(ExitStatus),
    TimedOut,
    Stopped,
}

struct Running {
    child: Child,
    tree: ProcessTree,
    output: pipe::Receiver,
    capture: BoundedCapture,
    /// No writer is left.
    closed: bool,
    boxed: Option<Boxed>,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": { "type": "string", "description": "What the shell is to run." },
            "description": {
                "type": "string",
                "description": "What the command does, in five to ten words, for the people who watch."
            },
            "timeout": {
                "type": "integer",
                "description": "Milliseconds, not seconds, until the command is ended: 120000 if left out, at least 1000, at most 600000."
            },
            "needs": {
                "type": "string",
                "enum": ["write", "outside"],
                "description": "What the sandbox refused: `write` where the workspace is read-only, `outside` to leave the \
                    sandbox. The user is asked."
            }
        },
        "required": ["command"],
        "additionalProperties": false
    })
}

pub(super) async fn run(input: Input, context: &ToolContext) -> ToolOutput {
    match execute(&input, context).await {
        Ok(output) => output,
        Err(error) => ToolOutput::from_error(&error),
    }
}

/// What is wrong with an input that fits the schema.
pub(super) fn fault(input: &Input) -> Option<ToolOutput> {
    check(input).err().map(|error| ToolOutput::from_error(&error))
}

async fn execute(input: &Input, context: &ToolContext) -> Result<ToolOutput, BashError> {
    let timeout_ms = check(input)?;
    let boxed = Boxed::prepare(context).await?;
    let mut running = spawn(&input.command, context, boxed)?;
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    let ending = running.until_end(deadline, context).await.map_err(BashError::Wait)?;
    let left = match ending {
        Ending::Exited(_) => {
            running.drain(DRAIN_MS).await;
            running.end_all(LEFTOVER_GRACE_MS).await
        }
        Ending::TimedOut | Ending::Stopped => running.end_all(GRACE_MS).await,
    };
    running.drain(LAST_DRAIN_MS).await;
    let mut boxed = running.boxed.take();
    if let (Some(boxed), Ending::Exited(_)) = (&mut boxed, &ending) {
        boxed.began().await?;
    }
    let mut text = running.capture.into_text();
    if left > 0 {
        let note = "that it started could not be ended; they may belong to another user.";
        text = format!("{}\n[{left} processes {note}]", text.trim_end());
    }
    let mut output = report(&ending, timeout_ms, text.trim_end());
    if let Some(boxed) = boxed {
        for remark in boxed.remarks(context, output.is_error, &text).await {
            output.text = format!("{}\n{remark}", output.text.trim_end());
        }
    }
    if let Some(remark) = context.take_remark() {
        output.text = format!("{}\n[{remark}]", output.text.trim_end());
    }
    Ok(output)
}

fn check(input: &Input) -> Result<u64, BashError> {
    let len = input.command.len();
    if input.command.trim().is_empty() {
        return Err(BashError::Empty);
    }
    if input.command.contains('\0') {
        return Err(BashError::Nul);
    }
    if len > COMMAND_LEN_MAX {
        return Err(BashError::TooLong { len });
    }
    if let Some(editor) = alone::editor_of(&input.command) {
        return Err(BashError::NeedsTerminal { editor });
    }
    match input.timeout {
        Some(given) if given < TIMEOUT_MS_MIN => Err(BashError::TooShort { given }),
        given => Ok(given.unwrap_or(TIMEOUT_MS_DEFAULT).min(TIMEOUT_MS_MAX)),
    }
}

fn spawn(
    command: &str,
    context: &ToolContext,
    mut boxed: Option<Boxed>,
) -> Result<Running, BashError> {
    if !context.cwd.is_dir() {
        return Err(BashError::NoCwd { cwd: context.cwd.clone() });
    }
    let (reader, writer) = io::pipe().map_err(BashError::Spawn)?;
    let errors = writer.try_clone().map_err(BashError::Spawn)?;
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(BashError::Spawn)?;
    let marker = new_marker();
    let bash = Path::new("/bin/bash");
    let program = if bash.exists() { bash } else { Path::new("/bin/sh") };
    let mut shell = boxed.as_ref().map_or_else(|| Command::new(program), |it| it.command(program));
    shell
        .arg("-c")
        .arg("--")
        .arg(command)
        .current_dir(&context.cwd)
        .env_clear()
        .envs(context.environment())
        .envs(alone::variables())
        .env(MARKER_NAME, &marker)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(errors)
        .process_group(0)
        .kill_on_drop(true);
    if let Some(scratchpad) = &context.scratchpad {
        shell.env("COORDD_SCRATCHPAD", scratchpad);
    }
    child::prepare(&mut shell);
    if let Some(boxed) = &boxed {
        boxed.equip(&mut shell, context);
    }
    let child = shell.spawn().map_err(BashError::Spawn)?;
    // The shell's ends of the pipe are closed here, or the output would never end.
    drop(shell);
    if let Some(boxed) = &mut boxed {
        boxed.started();
    }
    let tree = ProcessTree::new(child.id().unwrap_or(0), &marker.to_string_lossy());
    let capture = BoundedCapture::new(context.output_len_max);
    Ok(Running { child, tree, output, capture, closed: false, boxed })
}

impl Running {
    async fn until_end(&mut self, deadline: Instant, context: &ToolContext) -> io::Result<Ending> {
        let mut buffer = vec![0; READ_LEN];
        loop {
            tokio::select! {
                status = self.child.wait() => return Ok(Ending::Exited(status?)),
                () = context.stop.stopped() => return Ok(Ending::Stopped),
                () = sleep_until(deadline) => return Ok(Ending::TimedOut),
                read = self.output.read(&mut buffer), if !self.closed => {
                    self.closed = take(&mut self.capture, &buffer, &read);
                }
            }
        }
    }

    /// Ends every process of the call and reads on meanwhile, so that one that prints its last words can.
    async fn end_all(&mut self, grace_ms: u64) -> usize {
        let mut buffer = vec![0; READ_LEN];
        let Self { child, tree, output, capture, closed, .. } = self;
        let end = tree.end(grace_ms);
        tokio::pin!(end);
        let mut reaped = false;
        loop {
            tokio::select! {
                left = &mut end => return left,
                // It has to be reaped while we wait, or it would stay in the process table.
                _ = child.wait(), if !reaped => reaped = true,
                read = output.read(&mut buffer), if !*closed => {
                    *closed = take(capture, &buffer, &read);
                }
            }
        }
    }

    async fn drain(&mut self, drain_ms: u64) {
        let mut buffer = vec![0; READ_LEN];
        let end = sleep(Duration::from_millis(drain_ms));
        tokio::pin!(end);
        while !self.closed {
            tokio::select! {
                () = &mut end => return,
                read = self.output.read(&mut buffer) => {
                    self.closed = take(&mut self.capture, &buffer, &read);
                }
            }
        }
    }
}

/// Keeps what was read. Returns whether that was the end.
fn take(capture: &mut BoundedCapture, buffer: &[u8], read: &io::Result<usize>) -> bool {
    match read {
        Ok(0) | Err(_) => true,
        Ok(len) => {
            capture.push(buffer.get(..*len).unwrap_or(buffer));
            false
        }
    }
}

fn report(ending: &Ending, timeout_ms: u64, text: &str) -> ToolOutput {
    let so_far = if text.is_empty() {
        "It had printed nothing.".to_owned()
    } else {
        format!("Output until then:\n{text}")
    };
    let status = match ending {
        Ending::Exited(status) => status,
        Ending::TimedOut => {
            return ToolOutput::error(format!(
                "The command was ended, with all that it had started, because it took longer than {timeout_ms} ms. Make it \
                 shorter, or give a larger `timeout` (at most {TIMEOUT_MS_MAX}). {so_far}"
            ));
        }
        Ending::Stopped => {
            return ToolOutput::error(format!(
                "The command was ended, with all that it had started, because the agent was stopped. {so_far}"
            ));
        }
    };
    let shown = if text.is_empty() { "(no output)" } else { text };
    if status.success() {
        return ToolOutput::ok(shown);
    }
    match (status.code(), status.signal()) {
        (Some(code), _) => ToolOutput::error(format!("Exit code {code}\n{shown}")),
        (None, number) => {
            let number = number.unwrap_or(0);
            let name =
                nix::sys::signal::Signal::try_from(number).map_or("unknown", |it| it.as_str());
            ToolOutput::error(format!("Ended by signal {number} ({name})\n{shown}"))
        }
    }
}

#[cfg(test)]
mod tests;
