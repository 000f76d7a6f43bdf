//! The daemon dies at each of its named points, the first time that it gets there, the second, …:
//! what was accepted is there, and nothing is there twice.

use tests::Sandbox;
use tests::kept::Kept;

use super::{figure, play, with_failpoint};

/// The times that the usual run tries. A long run tries all, to where the story no longer gets to.
const TIMES: [usize; 5] = [1, 3, 6, 12, 24];

/// Plays the story with a death at this point. Whether it got there.
fn dies_at(point: &str, time: usize) -> bool {
    let mut kept = Kept::start(Sandbox::new(), with_failpoint(&format!("{point}=abort@{time}")));
    play(&mut kept);
    let deaths = kept.end();
    assert!(deaths <= 1, "{point} {time}: the daemon died {deaths} times");
    deaths == 1
}

fn all(point: &str) {
    let mut reached = 0;
    if figure("COORDD_TEST_EVERY_SYSCALL", 0) == 0 {
        for time in TIMES {
            reached += usize::from(dies_at(point, time));
        }
    } else {
        while dies_at(point, reached + 1) {
            reached += 1;
        }
    }
    assert!(reached > 0, "{point} is never reached");
    eprintln!("{point}: {reached} deaths, nothing lost, nothing doubled");
}

#[test]
fn m3_n4_after_decide() {
    all("after-decide");
}

#[test]
fn m3_n4_before_commit() {
    all("before-commit");
}

#[test]
fn m3_n4_after_commit() {
    all("after-commit");
}

#[test]
fn m3_n4_between_effects() {
    all("between-effects");
}

#[test]
fn m3_n4_after_spawn_and_after_exit() {
    all("after-spawn");
    all("after-exit");
}
