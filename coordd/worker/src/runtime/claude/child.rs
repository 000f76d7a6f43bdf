//! The process of Claude Code: started, read, written to, ended.
//!
//! ```text
//!   spawn --initialize--> ready --lines both ways--> stdin closed --> exit
//!                \--> ended, silent                   \--TERM, KILL--> all that it started is gone
//! ```
//!
//! Reading goes on beside the run, so that a full pipe on one side never waits for one on the
//! other. It must not know what the lines are about.

use std::cell::RefCell;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::command::Invocation;
use super::wire::{self, LINE_LEN_MAX, Line};
use crate::tools::{ProcessTree, new_marker};

/// Lines that were read and not looked at: a few, since one may be long.
const LINES_MAX: usize = 8;
/// Lines that wait to be written: a full mailbox, and answers to as many questions.
const WRITES_MAX: usize = 2_048;
/// The most bytes that are kept of its stderr.
const STDERR_LEN_MAX: usize = 2_048;
/// How long Claude Code may take to start: 400 MB, cold, on a busy machine.
const READY_MAX: Duration = Duration::from_mins(2);
/// How long Claude Code may take to exit by itself when its stdin is closed.
const EXIT_MAX: Duration = Duration::from_secs(3);
/// Between TERM and KILL; with the killing it stays below two seconds (W-6).
const GRACE_MS: u64 = 400;
/// The oldest supported version.
const VERSION_MIN: [u32; 3] = [2, 1, 100];

/// Why it is not ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("cannot start {program}: check that it can be run here")]
    Spawn {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "Claude Code ended before it was ready ({status}): {said}. Run `claude -p hello` in a terminal to see why"
    )]
    Ended { status: String, said: String },
    #[error("Claude Code was not ready after {} s: try again when the machine is less busy", READY_MAX.as_secs())]
    Silent,
    #[error("Claude Code {version} is too old: at least 2.1.100 is needed. Run `claude update`")]
    TooOld { version: String },
    #[error(
        "Claude Code refused to start: {said}. Its version may not be supported; `coordctl help other-clis` lists those that do"
    )]
    Refused { said: String },
}

/// A running Claude Code.
pub(super) struct Child {
    process: tokio::process::Child,
    tree: ProcessTree,
    lines: mpsc::Receiver<Line>,
    writer: Option<mpsc::Sender<String>>,
    said: Rc<RefCell<Vec<u8>>>,
    tasks: Vec<JoinHandle<()>>,
    requests: u32,
}

impl Child {
    /// Starts it.
    pub(super) fn spawn(invocation: &Invocation, cwd: &str) -> Result<Self, StartError> {
        let program = invocation.program.display().to_string();
        let fail = |source| StartError::Spawn { program: program.clone(), source };
        let marker = new_marker();
        let mut command = invocation.command(cwd, &marker);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let mut process = command.spawn().map_err(fail)?;
        let tree = ProcessTree::new(process.id().unwrap_or(0), &marker.to_string_lossy());
        let said = Rc::new(RefCell::default());
        let (to_us, lines) = mpsc::channel(LINES_MAX);
        let (writer, from_us) = mpsc::channel(WRITES_MAX);
        let mut tasks = Vec::new();
        if let Some(stdout) = process.stdout.take() {
            tasks.push(tokio::task::spawn_local(read_lines(stdout, to_us)));
        }
        if let Some(stderr) = process.stderr.take() {
            tasks.push(tokio::task::spawn_local(keep_tail(stderr, Rc::clone(&said))));
        }
        if let Some(stdin) = process.stdin.take() {
            tasks.push(tokio::task::spawn_local(write_lines(stdin, from_us)));
        }
        Ok(Self { process, tree, lines, writer: Some(writer), said, tasks, requests: 0 })
    }

    /// Waits until Claude Code is ready. Returns its version, if it reports one.
    pub(super) async fn ready(&mut self) -> Result<String, StartError> {
        let request = self.request_id();
        self.write(wire::initialize(&request));
        let answer = async {
            while let Some(line) = self.lines.recv().await {
                if let Line::Answered { request: of, error, version } = line
                    && of == request
                {
                    return Some((error, version));
                }
            }
            None
        };
        match timeout(READY_MAX, answer).await {
            Err(_) => Err(StartError::Silent),
            Ok(None) => Err(self.ended().await),
            Ok(Some((Some(said), _))) => Err(StartError::Refused { said }),
            Ok(Some((None, version))) if is_too_old(&version) => {
                Err(StartError::TooOld { version })
            }
            Ok(Some((None, version))) => Ok(version),
        }
    }

    async fn ended(&mut self) -> StartError {
        let status = self.status().await;
        StartError::Ended { status, said: self.last_words() }
    }

    /// How it ended, in words.
    pub(super) async fn status(&mut self) -> String {
        match timeout(EXIT_MAX, self.process.wait()).await {
            Ok(Ok(status)) => words_of(status),
            Ok(Err(_)) | Err(_) => "it closed its output".to_owned(),
        }
    }

    /// The last of what it said about itself.
    pub(super) fn last_words(&self) -> String {
        let said = self.said.borrow();
        let text = String::from_utf8_lossy(&said);
        let line =
            text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        line.trim().trim_end_matches('.').to_owned()
    }

    /// The next line; none when there will be no more. Nothing is lost when the waiting is given
    /// up.
    pub(super) async fn line(&mut self) -> Option<Line> {
        self.lines.recv().await
    }

    /// Writes a line. False when Claude Code no longer reads.
    pub(super) fn write(&mut self, line: String) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.try_send(line).is_ok())
    }

    /// Tells it to end the turn.
    pub(super) fn interrupt(&mut self) {
        let request = self.request_id();
        self.write(wire::interrupt(&request));
    }

    fn request_id(&mut self) -> String {
        self.requests += 1;
        format!("coordd-{}", self.requests)
    }

    /// Lets Claude Code save its record, and ends it with all that it started.
    pub(super) async fn finish(mut self) {
        self.writer = None;
        let exit = async {
            while self.lines.recv().await.is_some() {}
            drop(self.process.wait().await);
        };
        if timeout(EXIT_MAX, exit).await.is_err() {
            tracing::info!("Claude Code does not exit by itself");
        }
        self.end().await;
    }

    /// Ends it with all that it started.
    pub(super) async fn end(mut self) {
        self.writer = None;
        let Self { process, tree, lines, .. } = &mut self;
        let end = tree.end(GRACE_MS);
        tokio::pin!(end);
        let mut reaped = false;
        let left = loop {
            tokio::select! {
                left = &mut end => break left,
                // It has to be reaped while we wait, or it would stay in the process table.
                _ = process.wait(), if !reaped => reaped = true,
                // It may want to say its last words.
                Some(_) = lines.recv() => {}
            }
        };
        if left > 0 {
            tracing::warn!(left, "processes of Claude Code could not be ended");
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A program without a version counts as new.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    let (Some(a), Some(b), Some(c)) = (next(), next(), next()) else { return false };
    [a, b, c] < VERSION_MIN
}

fn words_of(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, number) => {
            let number = number.unwrap_or(0);
            let name =
                nix::sys::signal::Signal::try_from(number).map_or("unknown", |it| it.as_str());
            format!("signal {number}, {name}")
        }
    }
}

async fn read_lines(stdout: ChildStdout, to: mpsc::Sender<Line>) {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        // One byte more than allowed tells that there is more.
        let mut bounded = (&mut reader).take(LINE_LEN_MAX as u64 + 1);
        match bounded.read_until(b'\n', &mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(len) if len > LINE_LEN_MAX => {
                tracing::warn!("a line of Claude Code is too long and is passed over");
                if skip_line(&mut reader).await.is_err() {
                    return;
                }
                bytes = Vec::new();
            }
            Ok(_) => {
                if to.send(wire::parse(&bytes)).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn skip_line(reader: &mut BufReader<ChildStdout>) -> std::io::Result<()> {
    loop {
        let bytes = reader.fill_buf().await?;
        let (len, ends) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (bytes.len(), bytes.is_empty()),
        };
        reader.consume(len);
        if ends {
            return Ok(());
        }
    }
}

async fn write_lines(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn keep_tail(mut stderr: ChildStderr, said: Rc<RefCell<Vec<u8>>>) {
    let mut buffer = [0; 1_024];
    while let Ok(len @ 1..) = stderr.read(&mut buffer).await {
        let mut said = said.borrow_mut();
        said.extend_from_slice(buffer.get(..len).unwrap_or_default());
        let over = said.len().saturating_sub(STDERR_LEN_MAX);
        said.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_a_version_is_compared_by_its_numbers() {
        for old in ["2.1.99", "1.9.200", "2.0.500", "2.1.9-beta"] {
            assert!(is_too_old(old), "{old}");
        }
        for new in ["2.1.100", "2.1.332", "2.2.0", "3.0.0", "", "next"] {
            assert!(!is_too_old(new), "{new}");
        }
    }
}
