use std::collections::BTreeMap;

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

use super::super::{StopSwitch, become_subreaper};
use super::*;

/// As in the agent process: orphans come to us.
fn context() -> (tempfile::TempDir, ToolContext) {
    become_subreaper().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let environment = BTreeMap::from([("PATH".into(), path)]);
    let context = ToolContext::new(dir.path().canonicalize().unwrap(), environment);
    (dir, context)
}

fn input(command: &str, timeout_ms: Option<u64>) -> Input {
    Input { command: command.to_owned(), description: None, timeout: timeout_ms, needs: None }
}

async fn bash(context: &ToolContext, command: &str) -> ToolOutput {
    run(input(command, Some(60_000)), context).await
}

/// How many processes wrote their number into a file, and which of them are still there, zombies included.
fn survivors(context: &ToolContext, file: &str) -> (usize, Vec<String>) {
    let pids = std::fs::read_to_string(context.cwd.join(file)).unwrap();
    let lines = pids.split_whitespace().map(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        line.chars().take(40).collect::<String>()
    });
    // A number may be in use again: only what could be the same process counts.
    let same = |line: &String| line.contains("(sleep)") || line.contains("sh)");
    let lines: Vec<String> = lines.collect();
    (lines.len(), lines.into_iter().filter(same).collect())
}

/// Waits, bounded, until the command has made the file.
async fn wait_for(context: &ToolContext, file: &str, lines: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(context.cwd.join(file)).unwrap_or_default();
        if text.lines().count() >= lines {
            return;
        }
        assert!(Instant::now() < deadline, "the command did not start");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Starts a command, waits until `file` has `lines` lines, stops it, and returns how long the stop took.
async fn stop_when(
    context: &ToolContext,
    command: &str,
    file: &str,
    lines: usize,
) -> (ToolOutput, Duration) {
    let (switch, stop) = StopSwitch::new();
    let stopped = context.with_stop(stop);
    let input = input(command, Some(60_000));
    let call = tokio::spawn(async move { run(input, &stopped).await });
    wait_for(context, file, lines).await;
    let start = Instant::now();
    switch.stop();
    (call.await.unwrap(), start.elapsed())
}

#[tokio::test]
async fn output_and_errors_come_in_order() {
    let (_dir, context) = context();
    let output = bash(&context, "echo one; echo two >&2; echo three").await;
    assert_eq!(output, ToolOutput::ok("one\ntwo\nthree"));
    assert_eq!(bash(&context, "true").await, ToolOutput::ok("(no output)"));
    assert_eq!(bash(&context, "-x").await.text.lines().next(), Some("Exit code 127"));
    assert_eq!(bash(&context, "pwd").await.text, context.cwd.display().to_string());
    assert_eq!(bash(&context, "cat").await, ToolOutput::ok("(no output)"), "stdin is empty");
}

#[tokio::test]
async fn failure_says_how() {
    let (_dir, context) = context();
    assert_eq!(bash(&context, "echo x; exit 3").await, ToolOutput::error("Exit code 3\nx"));
    let output = bash(&context, "kill -SEGV $$").await;
    assert_eq!(output, ToolOutput::error("Ended by signal 11 (SIGSEGV)\n(no output)"));
}

#[tokio::test]
async fn wrong_input_says_what_to_do() {
    let (dir, context) = context();
    let long = "x".repeat(COMMAND_LEN_MAX + 1);
    for (command, timeout, expected) in [
        (" ", None, "is empty"),
        ("a\0b", None, "NUL byte"),
        (long.as_str(), None, "into a file first"),
        ("true", Some(0), "in milliseconds"),
        // fT32: seconds were meant.
        ("true", Some(120), "Give 120000 for 120 seconds"),
        ("true", Some(999), "in milliseconds"),
    ] {
        let output = run(input(command, timeout), &context).await;
        assert!(output.is_error && output.text.contains(expected), "{}", output.text);
    }
    drop(dir);
    assert!(bash(&context, "true").await.text.contains("is gone"));
}

#[tokio::test]
async fn bytes_that_are_no_text_are_shown_as_such() {
    let (_dir, context) = context();
    let output = bash(&context, r"printf 'a\377b\000c'").await;
    assert_eq!(output.text, "a\u{fffd}b\u{2400}c");
}

/// rel-35, rel-36, rel-37: exactly three descriptors, no ignored or blocked signal, the given environment.
#[tokio::test]
async fn a_command_starts_clean() {
    let (_dir, context) = context();
    // One that is inherited by whatever is started.
    let inherited = rustix::io::dup(io::stderr()).unwrap();
    // The fourth is the folder that `ls` itself looks at.
    assert_eq!(bash(&context, "ls /proc/self/fd | wc -l").await.text, "4");
    drop(inherited);
    // SAFETY: to ignore a signal runs no code.
    unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }.unwrap();
    SigSet::from(Signal::SIGUSR1).thread_block().unwrap();
    let output = bash(&context, "grep -hE 'SigBlk|SigIgn' /proc/self/status | cut -f2").await;
    let masks: Vec<u64> =
        output.text.lines().map(|it| u64::from_str_radix(it, 16).unwrap()).collect();
    // The C library keeps signals 32 and 33 for itself and lets nobody set them.
    let masks: Vec<u64> = masks.iter().map(|it| it & !(0b11 << 31)).collect();
    assert_eq!(masks, [0, 0]);
    let output = bash(&context, "/usr/bin/env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    let added: Vec<String> = alone::variables().map(|(name, _)| name.to_owned()).collect();
    let names: Vec<&str> =
        output.text.split(' ').filter(|name| !added.iter().any(|it| it == name)).collect();
    assert_eq!(names, ["COORDD_TOOL_CALL", "PATH", "PWD", "SHLVL", "_"]);
    let output = bash(&context, "yes | head -n 1; echo ${PIPESTATUS[0]}").await;
    assert_eq!(output.text, "y\n141", "SIGPIPE has its default action");
}

/// rel-30: a grandchild that holds the output open does not hold up the end, and does not outlive it.
#[tokio::test]
async fn a_background_process_does_not_hold_up_the_end() {
    let (_dir, context) = context();
    let start = Instant::now();
    let output = bash(&context, "sh -c 'sleep 1000 & echo $! > pids; exit 0'; echo done").await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(output, ToolOutput::ok("done"));
    assert_eq!(survivors(&context, "pids"), (1, vec![]));
}

/// rel-30: what a process substitution still has to say is not lost.
#[tokio::test]
async fn a_filter_behind_the_command_is_read_to_its_end() {
    let (_dir, context) = context();
    let start = Instant::now();
    let command = "exec > >(while read -r line; do sleep 0.05; echo \"$line\"; done); echo hello";
    let output = bash(&context, command).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(output, ToolOutput::ok("hello"));
}

#[tokio::test]
async fn a_timeout_ends_the_command_and_keeps_its_output() {
    let (_dir, context) = context();
    let start = Instant::now();
    let output = run(input("echo before; exec sleep 1000", Some(1_000)), &context).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(output.is_error);
    assert!(output.text.contains("longer than 1000 ms"), "{}", output.text);
    assert!(output.text.ends_with("Output until then:\nbefore"), "{}", output.text);
}

/// W-6, rel-29: a process that left the group, the session and its parent is found.
#[tokio::test]
async fn a_double_forked_process_in_its_own_session_ends_with_a_timeout() {
    let (_dir, context) = context();
    let command = "setsid sh -c 'setsid sh -c \"echo \\$\\$ >> pids; exec sleep 1000\" & echo $$ >> pids; sleep 1000' \
                   </dev/null >/dev/null 2>&1 & sleep 1000";
    let output = run(input(command, Some(1_000)), &context).await;
    assert!(output.text.contains("longer than"), "{}", output.text);
    assert_eq!(survivors(&context, "pids"), (2, vec![]));
}

/// rel-29: not even one that has thrown away its environment, while the command runs.
#[tokio::test]
async fn a_process_without_the_marker_ends_with_a_stop() {
    let (_dir, context) = context();
    let command = "env -i /bin/sh -c '/usr/bin/setsid /bin/sh -c \"(/bin/sleep 1000 & echo \\$! >> pids) & \
                   (/bin/sleep 1000 & echo \\$! >> pids)\" &' >/dev/null 2>&1; /bin/sleep 1000";
    let (output, _) = stop_when(&context, command, "pids", 2).await;
    assert!(output.text.contains("the agent was stopped"), "{}", output.text);
    assert_eq!(survivors(&context, "pids"), (2, vec![]));
}

/// rel-29: a process in its own session that the finished command left behind.
#[tokio::test]
async fn a_process_left_behind_ends_with_the_command() {
    let (_dir, context) = context();
    let command = "setsid sh -c 'echo $$ > pids; exec sleep 1000' >/dev/null 2>&1 & while [ ! -s pids ]; do :; done; echo ok";
    assert_eq!(bash(&context, command).await, ToolOutput::ok("ok"));
    assert_eq!(survivors(&context, "pids"), (1, vec![]));
}

/// rel-29: and what was started in that session, even if it has lost its parent and its environment.
#[tokio::test]
async fn a_whole_session_left_behind_ends_with_the_command() {
    let (_dir, context) = context();
    let inner = "env -i /bin/sh -c \"(/bin/sleep 1000 & echo \\$! >> pids) &\"; echo $$ >> pids; exec sleep 1000";
    let command = format!(
        "setsid sh -c '{inner}' >/dev/null 2>&1 & \
         while [ \"$(cat pids 2>/dev/null | wc -l)\" -lt 2 ]; do :; done; echo ok"
    );
    assert_eq!(bash(&context, &command).await, ToolOutput::ok("ok"));
    assert_eq!(survivors(&context, "pids"), (2, vec![]));
}

/// W-6: within two seconds, although TERM is ignored.
#[tokio::test]
async fn processes_that_ignore_term_end_within_two_seconds() {
    let (_dir, context) = context();
    let command = "trap '' TERM; for i in 1 2 3; do sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 0.1; done' & done; \
                   while :; do sleep 0.1; done";
    let (output, took) = stop_when(&context, command, "pids", 3).await;
    assert!(output.is_error);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(survivors(&context, "pids"), (3, vec![]));
}

/// A command that handles TERM can say its last words.
#[tokio::test]
async fn last_words_are_kept() {
    let (_dir, context) = context();
    let command = "trap 'echo bye; exit 0' TERM; echo > ready; while :; do sleep 0.05; done";
    let (output, _) = stop_when(&context, command, "ready", 1).await;
    assert!(output.text.ends_with("bye"), "{}", output.text);
}

/// rel-29: two hundred children in sessions of their own, which ignore TERM.
#[tokio::test]
async fn two_hundred_children_end_within_two_seconds() {
    let (_dir, context) = context();
    let command = "trap '' TERM; for i in $(seq 200); do setsid sh -c 'echo $$ >> pids; exec sleep 1000' & done; wait";
    let (_, took) = stop_when(&context, command, "pids", 200).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(survivors(&context, "pids"), (200, vec![]));
}

/// rel-29: a process that starts another one for each that dies.
#[tokio::test]
async fn a_process_that_keeps_forking_ends() {
    let (_dir, context) = context();
    std::fs::write(
        context.cwd.join("again"),
        "trap '' TERM\necho $$ >> pids\nsleep 0.01\nsetsid sh ./again >/dev/null 2>&1 &\nsleep 0.05\n",
    )
    .unwrap();
    let (_, took) = stop_when(&context, "trap '' TERM; sh ./again; sleep 1000", "pids", 10).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (_, left) = survivors(&context, "pids");
    assert_eq!(left, Vec::<String>::new());
    let before = std::fs::read_to_string(context.cwd.join("pids")).unwrap();
    assert_eq!(bash(&context, "sleep 0.3; cat pids").await.text, before.trim_end(), "none goes on");
}

/// A call that is given up half-way leaves no process behind.
#[tokio::test]
async fn a_dropped_call_ends_its_processes() {
    let (_dir, context) = context();
    let command = "setsid sleep 1000 & echo $! > pids; sleep 1000";
    let call = run(input(command, None), &context);
    tokio::select! {
        _ = call => panic!("it ended by itself"),
        () = wait_for(&context, "pids", 1) => {}
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    let alive = |pid: &str| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        line.contains("(sleep) S") || line.contains("(setsid) S")
    };
    let pid = std::fs::read_to_string(context.cwd.join("pids")).unwrap();
    while alive(pid.trim()) {
        assert!(Instant::now() < deadline, "it lives");
        sleep(Duration::from_millis(5)).await;
    }
}

/// rel-94: a hundred megabytes go by, thirty kilobytes stay, and the process does not block.
#[tokio::test]
async fn endless_output_is_bounded_in_memory() {
    let (_dir, context) = context();
    let before = peak_kib();
    let command = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last";
    let output = bash(&context, command).await;
    assert!(!output.is_error);
    assert!(output.text.starts_with("first\nxxx") && output.text.ends_with("xxx\nlast"));
    assert!(output.text.contains("bytes left out …]"));
    assert!(output.text.len() < super::super::context::OUTPUT_LEN_MAX + 100);
    let grown = peak_kib() - before;
    assert!(grown < 80_000, "{grown} KiB");
}

/// The largest memory that this process has had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|it| it.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// fT17: who would wait for a person at a terminal ends at once, and says which way there is.
#[tokio::test]
async fn ft17_editors_pagers_and_prompts_end_at_once() {
    let (dir, context) = context();
    let repository = "git init -q . && git config user.name a && git config user.email a@b && echo x >f && git add f";
    assert!(!bash(&context, repository).await.is_error);
    for (command, says) in [
        ("git commit", "git commit -m"),
        ("git commit -q -m one && git commit --amend", "git commit -m"),
        ("git rebase -i --root", "no editor can be opened"),
        ("vim f", "vim needs a terminal"),
        ("vi f; exit 3", "vi needs a terminal"),
        ("nano f", "nano needs a terminal"),
    ] {
        let start = Instant::now();
        let output = run(input(command, Some(20_000)), &context).await;
        assert!(output.is_error && output.text.contains(says), "{command}: {}", output.text);
        assert!(start.elapsed() < Duration::from_secs(15), "{command}: {:?}", start.elapsed());
    }
    for command in ["git log", "git --paginate log", "read x || echo none", "git diff HEAD~0"] {
        let output = run(input(command, Some(20_000)), &context).await;
        assert!(!output.is_error, "{command}: {}", output.text);
    }
    drop(dir);
}
