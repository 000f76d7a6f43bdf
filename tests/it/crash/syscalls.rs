//! rel-10, rel-15, rel-39: the daemon dies at the n-th of its writing system calls, for each n.

use std::process::Command;

use tests::kept::Kept;
use tests::{Daemon, Sandbox};

use super::{figure, play};

/// Everything that changes a file, or sends. `write` also wakes threads; the others are rarer.
const CALLS: [&str; 7] = [
    "pwrite64",
    "fsync,fdatasync",
    "write",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "ftruncate",
    "sendto",
];

/// The daemon under strace, which kills it at the n-th of these calls in any of its threads. The
/// agents are let go at their exec.
fn killed_at(calls: &str, time: usize) -> impl FnOnce(&Sandbox) -> Command {
    let inject = format!("inject={calls}:signal=KILL:when={time}");
    let trace = format!("trace={calls}");
    move |sandbox| {
        let plain = Daemon::foreground(sandbox);
        let program = tests::sandbox::program("coordd");
        let mut command = sandbox.command("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "strace",
            "-f",
            "-qq",
            "-b",
            "execve",
            "-o",
            "/dev/null",
        ]);
        command.args(["-e", &trace, "-e", &inject]).arg(program).arg("--foreground");
        drop(plain);
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(sandbox.log()).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        command
    }
}

/// Plays the story. Whether the daemon died in it.
fn dies_at(calls: &str, time: usize) -> bool {
    let mut kept = Kept::start(Sandbox::new(), killed_at(calls, time));
    play(&mut kept);
    let deaths = kept.end();
    assert!(deaths <= 1, "{calls} {time}: the daemon died {deaths} times");
    deaths == 1
}

fn every(calls: &[&str], usual: &[usize]) {
    for calls in calls {
        let mut deaths = 0;
        if figure("COORDD_TEST_EVERY_SYSCALL", 0) == 0 {
            for time in usual {
                deaths += usize::from(dies_at(calls, *time));
            }
        } else {
            while dies_at(calls, deaths + 1) {
                deaths += 1;
            }
        }
        eprintln!("{calls}: {deaths} deaths, nothing lost, nothing doubled");
        assert!(deaths > 0, "{calls}: the daemon makes none");
    }
}

#[test]
fn m3_rel15_rel39_the_store_and_its_syncs() {
    every(&CALLS[..2], &[1, 9, 30]);
}

#[test]
fn m3_rel39_files_and_sockets() {
    every(&CALLS[2..], &[1, 4, 16]);
}
