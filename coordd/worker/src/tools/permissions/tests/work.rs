//! Ordinary work: what is free without a rule, and what a rule covers in the forms that people and models write.

use super::*;

/// What people and models read with.
const READING: &[&str] = &[
    "ls",
    "ls -la src",
    "ls -la src/a.rs Cargo.toml",
    "ls --color=never -1 src",
    "cat a b | head -n 5 | wc -l",
    "cat -n src/a.rs",
    "head -20 a",
    "head -n 20 a",
    "tail -n +5 a",
    "tail -c 100 a",
    "wc -l src/a.rs",
    "grep -rn 'foo|bar; baz' src",
    "grep -rn --include='*.rs' foo .",
    "grep -c x a",
    "grep -n -A 3 -B 2 'fn main' src/a.rs",
    "grep -e x -e y a",
    "rg -n \"fn .*\" src -g '*.rs'",
    "rg --files",
    "find . -name '*.rs' -type f",
    "find src tests -maxdepth 2 -not -name x",
    "find . \\( -name a -o -name b \\) -print",
    "find . -newer a -mtime -1",
    "pwd && ls",
    "cd src && ls",
    "cd src; cat a",
    "echo 'hello > world'",
    "echo hello",
    "echo ---; ls; echo rc=$?",
    "echo \"$?\"",
    "ls | wc -l; echo ${PIPESTATUS[0]}",
    "ls 2>/dev/null || true",
    "ls 2>&1 | tail",
    "ls > /dev/null",
    "ls >/dev/null 2>&1",
    "wc -l < a",
    "cat <<'EOF'\nhello\nEOF",
    "grep x <<< 'xyz'",
    "sort -k2 -n a | uniq -c",
    "sort -u a",
    "cut -d: -f1 a | sort | uniq -c | sort -rn | head -n 5",
    "tr a-z A-Z < a",
    "sed -n '3,5p' a",
    "sed -n '$p' a",
    "sed -n 10p a b",
    "date +%s",
    "date -u +%Y-%m-%d",
    "stat -c %s a",
    "du -sh src",
    "df -h",
    "id -u",
    "uname -a",
    "whoami",
    "hostname",
    "which cargo",
    "type -a ls",
    "basename src/a.rs .rs",
    "dirname src/a.rs",
    "realpath src",
    "readlink -f src",
    "diff -u a b",
    "cmp a b",
    "sha256sum a",
    "nl a",
    "# what is here\nls",
    "ls # all of it",
    "ls\nls src",
    "ls \\\n  -la",
    "! grep -q x a",
    "time ls",
    "LC_ALL=C sort a",
    "true",
    "false || echo no",
    "cat src/../a",
    "cat \"a b\" 'c d'",
    "ls &",
    "git --version",
];

/// Reading that needs no rule, in every mode.
#[test]
fn plain_reading_is_free() {
    for command in READING {
        for mode in MODES {
            assert_eq!(world().decide(mode, "Bash", command), "allow", "{mode:?} {command:?}");
        }
    }
}

/// Rules that trust some commands.
const TRUSTED: &[&str] = &[
    "Bash(cargo test *)",
    "Bash(cargo build)",
    "Bash(git commit *)",
    "Bash(git add *)",
    "Bash(git status)",
    "Bash(npm test)",
    "Bash(npm run *)",
    "Bash(pytest*)",
    "Bash(mkdir *)",
    "Bash(cp *)",
];

/// fP17: what stands around an allowed command does not take it out of its rule.
#[test]
fn fp17_an_allow_rule_holds_in_each_usual_form() {
    let world = world().with(TRUSTED, &[], &[]);
    for command in [
        "cargo test",
        "cargo   test",
        "cargo test --all",
        "cargo test -p x -- --nocapture",
        "cargo test 'a b'",
        "# list\ncargo test",
        "# one\n# two\n\ncargo test # three",
        "cargo test # why: it's red",
        "RUST_BACKTRACE=1 cargo test",
        "RUST_LOG=debug,x=trace RUST_BACKTRACE=full cargo test",
        "CI=1 npm test",
        "NO_COLOR=1 cargo test --all",
        "timeout 60 cargo test",
        "timeout 1.5m cargo test",
        "timeout -k 5 60s cargo test",
        "timeout --signal=KILL 60 cargo test",
        "timeout -s INT 60 cargo test",
        "nice cargo test",
        "nice -n 10 cargo test",
        "nohup cargo test",
        "stdbuf -oL cargo test",
        "time cargo test",
        "RUST_BACKTRACE=1 timeout 60 nice -n 5 cargo test",
        "! cargo test",
        "cargo test; echo rc=$?",
        "cargo test; echo \"exit: $?\"",
        "cargo test 2>&1; echo $?",
        "cargo test 2>&1 | tail -n 20; echo rc=${PIPESTATUS[0]}",
        "cargo test 2>&1 | tail -n 20",
        "cargo test 2>&1 | grep -E 'FAILED|panicked' | head -20",
        "cargo test > ../scratch/log 2>&1",
        "cargo test > $COORDD_SCRATCHPAD/log",
        "cargo test > \"$COORDD_SCRATCHPAD/log\" 2>&1",
        "cargo test > target.log",
        "cargo test && cargo build",
        "cargo build &&\ncargo test",
        "cargo test &&\\\n  cargo build",
        "cargo test \\\n  --all",
        "cargo test\ncargo build",
        "cargo test || true",
        "cargo test | cat",
        "cd src && cargo test",
        "cd ./src; cargo test",
        "cargo test --features a,b",
        "cargo test x::y",
        "git commit -m x",
        "git commit -m 'a: b (c)'",
        "git commit -m \"a: it's\"",
        "git commit -m \"$(cat <<'EOF'\nSubject: it's done\n\n- a (b) `c` $d; rm x | y\n\nEOF\n)\"",
        "git commit -m \"$(cat <<EOF\nSubject\n\nBody.\nEOF\n)\"",
        "git commit -F - <<'EOF'\nSubject\n\n$(not run)\nEOF",
        "git commit -F - <<EOF\nSubject\nEOF",
        "git commit -F - <<< 'Subject'",
        "git add -A && git commit -m 'x'",
        "git add src/a.rs src/*.rs",
        "git add -- *.rs",
        "git add . && git status && git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\" && git status",
        "npm test",
        "npm test 2>&1 | tail -5",
        "npm run build",
        "npm run build -- --prod",
        "pytest",
        "pytest -q tests/test_a.py::test_b",
        "PYTHONDONTWRITEBYTECODE=1 pytest -x",
        "mkdir -p a/b",
        "mkdir -p $COORDD_SCRATCHPAD/d && cp a $COORDD_SCRATCHPAD/d/",
        "cp a \"$PWD/b\"",
        "cp ~/x/a b",
    ] {
        assert_eq!(world.bash(command), "allow", "{command:?}");
    }
}

/// What an "always" adds answers the same question from then on, in each form of it.
#[test]
fn fp17_an_always_answers_the_next_question() {
    for (first, next) in [
        ("cargo test", "RUST_BACKTRACE=1 cargo test x; echo rc=$?"),
        ("cargo test a", "timeout 60 cargo test b"),
        ("git commit -m a", "git commit -m \"$(cat <<'EOF'\nb\nEOF\n)\""),
        ("npm test", "npm test 2>&1 | tail -n 3"),
        ("make check", "make check"),
        ("cd src && cargo test", "cargo test"),
        ("X=1 make check", "X=1 make check | cat"),
    ] {
        let world = world();
        let mut permissions = world.permissions(AcceptEdits);
        let bash = |permissions: &Permissions, command: &str| {
            permissions.decide("Bash", &json!({ "command": command }))
        };
        let Decision::Ask { subject: Some(subject), .. } = bash(&permissions, first) else {
            panic!("{first}")
        };
        permissions.allow_always(&subject).unwrap();
        for command in [first, next] {
            assert_eq!(bash(&permissions, command), Decision::Allow, "{subject}: {command:?}");
        }
    }
}

/// Ordinary long commands are judged in a moment, and so is what is made to take long.
#[test]
fn a_decision_takes_no_time() {
    let world = world().with(&["Bash(cargo test *)"], &[], &["Bash(rm -rf *)", "Read(.env)"]);
    let begin = std::time::Instant::now();
    for command in [
        "sudo ".repeat(10_000),
        "sh -c '".repeat(3_000),
        "$(".repeat(20_000),
        "`".repeat(50_001),
        "cd a; ".repeat(5_000),
        "a=b:c=d:".repeat(5_000),
        "env -a ".repeat(10_000),
        "echo x | ".repeat(5_000),
        format!("cat {}", "x ".repeat(20_000)),
        format!("xargs {} rm", "-a b ".repeat(10_000)),
        "find . -exec ".repeat(5_000),
        "cat <<E\n".repeat(5_000),
    ] {
        assert_ne!(world.bash(&command), "allow", "{}", command.get(..40).unwrap());
    }
    let spent = begin.elapsed();
    assert!(spent.as_secs() < 20, "{spent:?}");
}
