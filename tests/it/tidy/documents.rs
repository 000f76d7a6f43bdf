//! Rules about what is written for people: documents and scripts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{File, files, none, read, root};

/// Enums that other programs meet on the socket; `PROTOCOL.md` names each of their variants.
const ON_THE_WIRE: [(&str, &str); 8] = [
    ("proto/src/lib.rs", "ToDaemon"),
    ("proto/src/lib.rs", "FromDaemon"),
    ("proto/src/request.rs", "Request"),
    ("proto/src/response.rs", "Response"),
    ("proto/src/event.rs", "Event"),
    ("proto/src/agent.rs", "Report"),
    ("proto/src/agent.rs", "Order"),
    ("proto/src/error.rs", "ErrorCode"),
];

/// Where the pages of the guide are.
const GUIDE: &str = "coordctl/guide/";

/// Programs of others that README.md and the guide may call.
const KNOWN: [&str; 16] = [
    "cargo",
    "cat",
    "cd",
    "curl",
    "echo",
    "export",
    "git",
    "jq",
    "journalctl",
    "loginctl",
    "ls",
    "nc",
    "printf",
    "source",
    "systemctl",
    "tmux",
];

/// Languages of code blocks that hold commands.
const SHELLS: [&str; 4] = ["bash", "console", "sh", "shell"];

/// The names of an enum's variants.
fn variants(source: &str, name: &str) -> Vec<String> {
    let start = format!("pub enum {name} {{");
    let body =
        source.lines().skip_while(|line| *line != start).skip(1).take_while(|line| *line != "}");
    body.filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        let end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
        line.starts_with(|c: char| c.is_ascii_uppercase()).then(|| line[..end].to_owned())
    })
    .collect()
}

/// As serde's `rename_all = "snake_case"` has it.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The commands in a document's shell blocks, as words; each part of a pipe or list is one.
fn commands(document: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let block: Vec<_> =
            lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
        if !SHELLS.contains(&language) {
            continue;
        }
        // In a console block, what is typed has a prompt and the rest is what comes back.
        let typed = block.iter().filter_map(|line| match line.trim_start().strip_prefix("$ ") {
            Some(command) => Some(command),
            None => (language != "console").then_some(*line),
        });
        let script = typed.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
        for line in script.lines() {
            found.extend(split(line));
        }
    }
    found
}

/// Splits a line as a shell would, as far as documents go.
fn split(line: &str) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let end = |word: &mut Option<String>, found: &mut Vec<Vec<String>>| {
        if let (Some(word), Some(command)) = (word.take(), found.last_mut()) {
            command.push(word);
        }
    };
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c == '#' && word.is_none() => break,
            None if c.is_whitespace() => end(&mut word, &mut found),
            None if "|&;()".contains(c) => {
                end(&mut word, &mut found);
                found.push(Vec::new());
            }
            Some(_) | None => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut found);
    for command in &mut found {
        let is_setting = |word: &String| {
            word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
            })
        };
        let settings = command.iter().take_while(|word| is_setting(word)).count();
        command.drain(..settings);
    }
    found.retain(|command| !command.is_empty());
    found
}

/// A program of this workspace, as built beside this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.parent().and_then(Path::parent).expect("target/debug/deps");
    folder.join(name)
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Why a command in a document cannot be what a reader should type; none if it can.
fn wrong(command: &[String]) -> Option<String> {
    let (first, arguments) = command.split_first()?;
    let name = first.rsplit('/').next().unwrap_or_default();
    if ["coordctl", "coordd", "coordd-worker"].contains(&name) {
        // With --help at its end a command is read in full, and done not at all.
        let mut arguments = arguments.to_vec();
        arguments.retain(|word| !word.starts_with(['<', '>']));
        let path = program(name);
        let run = Command::new(&path).args(&arguments).arg("--help").output();
        return match run {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Some(format!("{}: {error}; cargo build --workspace", path.display())),
        };
    }
    if first.contains('/') {
        return (!is_executable(&root().join(first))).then(|| "no such program here".to_owned());
    }
    (!KNOWN.contains(&first.as_str())).then(|| "a program that the list does not know".to_owned())
}

#[test]
fn variants_and_commands_are_found() {
    let source = "pub enum A {\n    /// Doc.\n    One {},\n    #[serde(default)]\n    TwoWords(\n        X,\n    ),\n\
                  \x20   Three,\n}\npub enum B {\n    Four,\n}\n";
    assert_eq!(variants(source, "A"), ["One", "TwoWords", "Three"]);
    assert_eq!(snake_case("TwoWords"), "two_words");

    let document = "```sh\n# no\nA=1 cargo build && tests/run 'a | b' # no\nprintf \\\n x | nc -U y\n```\n\
                    ```json\nno\n```\n```console\n$ ls\nno\n```\n";
    let found: Vec<_> = commands(document).iter().map(|words| words.join(" ")).collect();
    assert_eq!(found, ["cargo build", "tests/run a | b", "printf x", "nc -U y", "ls"]);

    let words = |line: &str| split(line).remove(0);
    assert_eq!(wrong(&words("tests/run --fast")), None);
    assert!(wrong(&words("tests/nothing")).is_some());
    assert!(wrong(&words("frobnicate x")).is_some());
    assert_eq!(
        topics_named("`coordctl help` and `coordctl help modes`, `coordctl help TOPIC`"),
        ["modes", "TOPIC"]
    );
}

#[test]
fn the_protocol_document_lists_everything_on_the_wire() {
    let document = read("proto/PROTOCOL.md");
    let mut complaints = Vec::new();
    for (path, name) in ON_THE_WIRE {
        let variants = variants(&read(path), name);
        assert!(!variants.is_empty(), "no `pub enum {name}` in {path}; mend the list of this test");
        for variant in variants {
            let wire = snake_case(&variant);
            if !document.contains(&format!("`{wire}`"))
                && !document.contains(&format!("\"{wire}\""))
            {
                complaints.push(format!("{name}: `{wire}`"));
            }
        }
    }
    none("not in proto/PROTOCOL.md", &complaints);
}

/// What a stranger reads before the first command: more words than this belong into the guide.
const README_WORDS_MAX: usize = 1_500;

/// Markdown links aside, as `wc -w` counts.
fn words(document: &str) -> usize {
    document.split_whitespace().count()
}

/// README.md, and the pages of the guide that `coordctl help` shows.
fn guides() -> Vec<File> {
    let mut found = vec![File { path: "README.md".into(), text: read("README.md") }];
    found.extend(files(".md").into_iter().filter(|file| file.path.starts_with(GUIDE)));
    assert!(found.len() > 5, "the guide is in {GUIDE}");
    found
}

#[test]
fn readme_is_short() {
    let words = words(&read("README.md"));
    assert!(
        words <= README_WORDS_MAX,
        "README.md has {words} words, {README_WORDS_MAX} are allowed; the rest belongs into {GUIDE}"
    );
}

#[test]
fn readme_and_guide_commands_exist() {
    let readme = commands(&read("README.md"));
    for wanted in ["cargo build --release", "target/release/coordctl demo", "tests/run"] {
        let said = readme.iter().any(|words| words.join(" ") == wanted);
        assert!(said, "README.md must have the command `{wanted}`, found {readme:?}");
    }
    let mut complaints = Vec::new();
    for file in guides() {
        for command in commands(&file.text) {
            if let Some(reason) = wrong(&command) {
                complaints.push(format!("{}: `{}`: {reason}", file.path, command.join(" ")));
            }
        }
    }
    none("a document tells people to type what does not work", &complaints);
}

/// What follows `coordctl help` in a text between backticks.
fn topics_named(document: &str) -> Vec<String> {
    let spans = document.split("`coordctl help ").skip(1);
    spans.filter_map(|rest| rest.split('`').next()).map(str::to_owned).collect()
}

#[test]
fn pages_of_the_guide_are_linked_and_those_that_are_named_exist() {
    let is_there = |topic: &str| root().join(GUIDE).join(format!("{topic}.md")).is_file();
    let mut complaints = Vec::new();
    for file in files(".md").iter().chain(&files(".rs")) {
        for topic in topics_named(&file.text) {
            let is_word = topic.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            if is_word && !is_there(&topic) {
                complaints.push(format!("{}: `coordctl help {topic}`", file.path));
            }
        }
    }
    let readme = read("README.md");
    for file in guides().iter().skip(1) {
        if !readme.contains(&format!("]({})", file.path)) {
            complaints.push(format!("README.md does not link {}", file.path));
        }
    }
    none("a page of the guide that is not there, or that README.md does not name", &complaints);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut complaints = Vec::new();
    for file in files(".md") {
        let folder = root().join(&file.path).parent().expect("a file in a folder").to_owned();
        for link in file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let elsewhere =
                link.contains("://") || link.starts_with("mailto:") || link.contains(' ');
            if !elsewhere && !path.is_empty() && !folder.join(path).exists() {
                complaints.push(format!("{}: {link}", file.path));
            }
        }
    }
    none("a link to a file that is not there", &complaints);
}

#[test]
fn the_documents_that_others_rely_on_are_there() {
    let wanted = [
        "README.md",
        "LICENSE",
        ".github/CONTRIBUTING.md",
        "coordd/ARCHITECTURE.md",
        "coordd/CHANGELOG.md",
        "coordd/CONTRACT.md",
        "coordd/SECURITY.md",
        "proto/PROTOCOL.md",
        "tests/README.md",
    ];
    let missing = wanted.iter().filter(|path| !root().join(path).is_file());
    none("missing", &missing.map(|path| (*path).to_owned()).collect::<Vec<_>>());
    let licence = read("LICENSE");
    for said in ["MIT OR Apache-2.0", "Permission is hereby granted", "Version 2.0, January 2004"] {
        assert!(licence.contains(said), "LICENSE must say {said:?}");
    }
}

#[test]
fn scripts_can_be_run() {
    let mut complaints = Vec::new();
    for path in [".ci/run", "tests/run", "tests/systemd/user-manager"] {
        let full = root().join(path);
        if !is_executable(&full) {
            complaints.push(format!("{path} is not executable"));
        }
        let parsed = Command::new("bash").arg("-n").arg(&full).output().expect("bash runs");
        if !parsed.status.success() {
            complaints.push(String::from_utf8_lossy(&parsed.stderr).into_owned());
        }
    }
    none("a script that cannot be run", &complaints);
}
