//! Every command in README.md and in the guide is run, as a reader would type it: block by block,
//! each document in a home of its own.
//!
//! What cannot be done inside of a test is exchanged for what can, in the open (see [`EXCHANGED`]).
//! A command that is neither run nor exchanged fails, and so does an exchange that nothing needs
//! any more.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;
use tests::rehearsal::{bash, call, lead, say, script};
use tests::sandbox::program;
use tests::{Daemon, Ran, Sandbox};

/// Beginnings of commands that are exchanged: what is written, what is run, why.
const EXCHANGED: [(&str, &str, &str); 16] = [
    (
        "coordctl run --runtime claude",
        "coordctl run --runtime claude --help",
        "Claude Code is in the tests `cli::worker`",
    ),
    (
        "coordctl run --lead claude",
        "coordctl run --lead claude --runtime claude --help",
        "Claude Code is in the tests `cli::coordinator`",
    ),
    (
        "cargo build --release",
        "cargo tree --quiet --locked --offline --depth 0 -p coordd",
        "this test was built by the same; here only its flags are read",
    ),
    ("tests/run", "tests/run --help", "this test is a part of it"),
    ("target/release/coordctl", "coordctl", "the programs beside this test are the same ones"),
    ("export PATH=", "export PATH=\"$PROGRAMS:$PATH\"", "likewise"),
    (
        "coordctl demo --model anthropic:",
        "coordctl demo --model anthropic:claude-opus-5-5 --help",
        "no test speaks to a model of anybody's",
    ),
    (
        "coordctl run --model openai:",
        "coordctl run --model rehearsal:$SAYS 'a goal'",
        "the same with a script",
    ),
    ("coordctl run \"", "coordctl run --model rehearsal:$SAYS 'a goal'", "likewise"),
    (
        "coordctl permit allow",
        "coordctl permit allow p1 --always",
        "the question that is open here",
    ),
    (
        "coordctl permit deny",
        "coordctl permit deny p2 --note 'use the staging database'",
        "likewise",
    ),
    (
        "coordctl daemon install",
        "coordctl daemon install --help",
        "systemd:: does it, with a real manager",
    ),
    ("systemctl --user", "true", "systemd:: does it, with a real manager"),
    ("loginctl", "true", "it is about logins, and there is none here"),
    ("journalctl", "true", "there is no journal here"),
    ("curl", "true", "nothing leaves the machine"),
];

/// Programs that may be called besides ours.
const KNOWN: [&str; 10] =
    ["cargo", "cat", "cd", "echo", "export", "git", "ls", "printf", "tests/run", "true"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The commands of each shell block: in a console block those after a prompt.
fn blocks(document: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for block in document.split("\n```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').unwrap_or((block, ""));
        let body = body.replace("\\\n", " ");
        let typed = |line: &str| match language.trim() {
            "console" => line.strip_prefix("$ ").map(str::to_owned),
            "sh" | "bash" | "shell" => Some(line.to_owned()),
            _ => None,
        };
        let commands = body.lines().filter_map(typed).filter(|it| !it.trim().is_empty());
        let commands: Vec<_> = commands.filter(|command| !command.starts_with('#')).collect();
        if !commands.is_empty() {
            found.push(commands);
        }
    }
    found
}

/// Each part of a list of commands, exchanged where it must be.
fn runnable(line: &str, used: &mut BTreeSet<&'static str>) -> String {
    let line = line.split(" #").next().unwrap_or(line);
    let parts = line.split(" && ").map(|part| {
        let part = part.trim();
        let exchanged = EXCHANGED.iter().find(|it| part.starts_with(it.0));
        let run = exchanged.map_or_else(
            || part.to_owned(),
            |(written, run, _)| {
                used.insert(written);
                // The program is exchanged, the rest is what was written.
                if *written == "target/release/coordctl" {
                    part.replacen(written, run, 1)
                } else {
                    (*run).to_owned()
                }
            },
        );
        let first = run.split_whitespace().next().unwrap_or_default();
        assert!(
            first == "coordctl" || first == "coordd" || KNOWN.contains(&first),
            "`{part}` is nothing that this test knows: run it, or exchange it with a reason"
        );
        run
    });
    parts.collect::<Vec<_>>().join(" && ")
}

fn bash_in(sandbox: &Sandbox, block: &str) -> Ran {
    let mut command = sandbox.command("bash");
    let programs = program("coordctl").parent().unwrap().to_owned();
    let path = format!("{}:{}", programs.display(), sandbox.vars()["PATH"]);
    command.args(["--noprofile", "--norc", "-c", block]).current_dir(root());
    let says = script(&json!([lead(&json!([say("Done.")]))])).to_string();
    let says = sandbox.write("says.json", says);
    command.env("PATH", path).env("PROGRAMS", programs).env("SAYS", says);
    Ran::of(command, "")
}

/// Two questions are open: p1 and p2.
fn ask_twice(daemon: &Daemon) {
    for n in 1..=2 {
        let steps =
            json!([call("May I?", &json!([bash(&format!("mkdir folder-{n}"))])), say("So.")]);
        let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
        (new.name, new.prompt) = (format!("asks-{n}"), "go".into());
        let mut client = daemon.client();
        client.new_session(new);
        client.agent_until(&format!("asks-{n}/lead"), "asks", |agent| {
            agent.state == proto::view::AgentState::NeedsInput
        });
    }
}

/// Runs the blocks of one document in a home of its own; how many there were.
fn follow(path: &Path, used: &mut BTreeSet<&'static str>) -> usize {
    let document = std::fs::read_to_string(path).expect("a document");
    let daemon = Daemon::start();
    daemon.git_repo();
    std::fs::create_dir_all(daemon.at("h/src/project")).unwrap();
    ask_twice(&daemon);
    let blocks = blocks(&document);
    for block in &blocks {
        let lines: Vec<_> = block.iter().map(|line| runnable(line, used)).collect();
        let ran = bash_in(&daemon, &format!("set -euo pipefail\n{}", lines.join("\n")));
        let path = path.display();
        assert_eq!(
            ran.code,
            0,
            "{path}: {}\n--- as\n{}\n--- {ran:#?}",
            block.join("\n"),
            lines.join("\n")
        );
    }
    blocks.len()
}

#[test]
fn readme_and_guide_commands_work_as_they_are_written() {
    let mut used = BTreeSet::new();
    assert!(follow(&root().join("README.md"), &mut used) > 3, "README.md shows what to type");
    let guide = std::fs::read_dir(root().join("coordctl/guide")).expect("the guide");
    let mut pages: Vec<_> = guide.map(|page| page.expect("a page").path()).collect();
    pages.sort();
    let blocks: usize = pages.iter().map(|page| follow(page, &mut used)).sum();
    assert!(blocks > 3, "the guide shows what to type: {pages:?}");
    let rare = ["journalctl", "curl"];
    let unused: Vec<_> = EXCHANGED
        .iter()
        .map(|it| it.0)
        .filter(|it| !used.contains(it) && !rare.contains(it))
        .collect();
    assert!(unused.is_empty(), "no document has these; take them off the list: {unused:?}");
}

#[test]
fn blocks_are_found_and_unknown_commands_refused() {
    let document = "x\n```sh\nls\necho a \\\n b\n```\ny\n```console\n$ git x   # why\nout\n```\n```json\n{}\n```\n";
    assert_eq!(blocks(document), [vec!["ls", "echo a   b"], vec!["git x   # why"]]);
    let mut used = BTreeSet::new();
    assert_eq!(runnable("tests/run --fast", &mut used), "tests/run --help");
    assert_eq!(runnable("target/release/coordctl demo && ls", &mut used), "coordctl demo && ls");
    assert_eq!(used.len(), 2);
    let refused = std::panic::catch_unwind(|| runnable("frobnicate", &mut BTreeSet::new()));
    assert!(refused.is_err());
}
