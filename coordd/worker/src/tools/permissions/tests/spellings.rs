//! Commands made by chance from the grammar of a shell, judged here and run by a real bash under strace.
//!
//! Whatever is called plain reading changes no file, opens no connection, reads nothing that is denied or sealed, and starts no
//! program but those on the list. `COORDD_TEST_SPELLINGS` is the count of commands: a few thousand by default, 100000 for long.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// How many commands are made when nothing else is said.
const COUNT: usize = 3_000;

/// How many run in one trace.
const BATCH: usize = 100;

const PROGRAMS: &[&str] = &[
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "rg",
    "pwd",
    "echo",
    "cd",
    "stat",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "which",
    "type",
    "true",
    "false",
    "cut",
    "tr",
    "nl",
    "cmp",
    "diff",
    "du",
    "df",
    "id",
    "whoami",
    "uname",
    "sha256sum",
    "md5sum",
    "find",
    "sort",
    "uniq",
    "sed",
    "date",
    "hostname",
    "cat",
    "cat",
    "cat",
    "head",
    "sort",
    "find",
    "grep",
    "ls",
    "cd",
    "cd",
];

const OTHERS: &[&str] = &[
    "git", "tee", "touch", "rm", "xargs", "env", "sh", "bash", "eval", "exec", "command",
    "builtin", "source", ".", "printf", "test", "[", "[[", "time", "!", "coproc", "nice",
    "timeout", "tac", "./x", "/bin/cat", "l\\s", "'cat'", "c$Z", "$X", "{", "}", "(", ")", "if",
    "then", "fi", "for", "do", "done", "alias", "hash", "awk", "dd", "A=1", "LC_ALL=C", "PATH=.",
    "uniq", "export", "function", "trap",
];

const OPTIONS: &[&str] = &[
    "-a",
    "-l",
    "-n",
    "-n1",
    "-r",
    "-rn",
    "-R",
    "-o",
    "-o f",
    "-of",
    "-c",
    "-u",
    "-k1",
    "-k",
    "-t",
    "-d",
    "-f",
    "-f1",
    "-e",
    "-e x",
    "-i",
    "-s",
    "-x",
    "-z",
    "-L",
    "-P",
    "-T .",
    "-S1",
    "-5",
    "-q",
    "-v",
    "-w",
    "-A1",
    "-m1",
    "--",
    "--output=f",
    "--outp=f",
    "--files",
    "--files0-from=f",
    "--recursive",
    "--color=never",
    "--include=*",
    "--pre=./x",
    "--follow",
    "-name x",
    "-name",
    "-type f",
    "-maxdepth 1",
    "-delete",
    "-exec ./x {} +",
    "-exec",
    "-fprint f",
    "-print",
    "-newer",
    "-o",
    "!",
    "\\(",
    "\\)",
    "-prune",
    "+",
    "\\;",
    "+%s",
    "-d now",
    "1p",
    "'1,2p'",
    "-i",
    "'1w f'",
    "a-z",
    "A-Z",
    "--compress-program=./x",
    "--textconv",
    "-F",
    "--pid=1",
];

const OPERANDS: &[&str] = &[
    "a",
    "b",
    "'a b'",
    "\"a b\"",
    "a\\ b",
    "src",
    "src/a.rs",
    "./a",
    "../ws/a",
    "src/../a",
    ".",
    "..",
    "-",
    "new",
    "f",
    "secrets",
    "secrets/key.txt",
    ".env",
    "s/key.txt",
    "s",
    "e",
    "deep/link",
    "zero",
    "pipe",
    "bare",
    "key.txt",
    "../state/coordd/env.json",
    "state/env.json",
    "state",
    "coordd/env.json",
    "env.json",
    "environ",
    "self/environ",
    "/proc/self/environ",
    "/proc/self",
    "/proc",
    "/dev/null",
    "/dev/zero",
    "/dev/tcp/127.0.0.1/9",
    "/etc/passwd",
    "$PWD/.env",
    "~/ws/.env",
    "~",
    "~root",
    "~+",
    "$HOME",
    "${HOME}",
    "$X",
    "\"$X\"",
    "$Y",
    "${Y}",
    "$Z",
    "${Y:-a}",
    "$?",
    "$$",
    "$!",
    "*",
    "?",
    ".e*",
    "s*/key.txt",
    "[a]",
    "{a,.env}",
    "{a,b}",
    "{}",
    "-*",
    "$'.env'",
    "$'\\x2eenv'",
    "$'a'",
    "''",
    "\"\"",
    "\"$(cat .env)\"",
    "$(cat .env)",
    "`cat .env`",
    "<(cat .env)",
    "$((1))",
    "$[1]",
    "HEAD:.env",
    "x",
    "'x'",
    "10",
    "a[$(touch pwned)]",
    "'a[$(touch pwned)]'",
    "--",
    "-x",
    "'-delete'",
    "-delete",
    "--output=pwned",
    "%s",
];

/// What most commands consist of.
const SIMPLE: &[&str] =
    &["a", "b", "src", ".", "-n", "x", "src/a.rs", "2>/dev/null", "secrets/key.txt", "'a b'"];

const REDIRECTS: &[&str] = &[
    "< a",
    "<a",
    "< .env",
    "< $PWD/.env",
    "< secrets/key.txt",
    "< zero",
    "< /dev/tcp/127.0.0.1/9",
    "</dev/null",
    "> /dev/null",
    "2>/dev/null",
    "2>&1",
    ">&2",
    ">&0",
    ">&-",
    "> f",
    ">> f",
    ">| f",
    "&> f",
    ">& f",
    "<> f",
    "2> f",
    "3> f",
    "<<< x",
    "<<< $X",
    "<<< \"$(cat .env)\"",
    "<<< \"$(touch pwned)\"",
    "> $X",
    "> '/dev/tcp/127.0.0.1/9'",
];

const SEPARATORS: &[&str] = &[
    " | ", " | ", "; ", " && ", " || ", " & ", "\n", " |& ", ";", "|", "&&", " # x\n", " \\\n ",
    "\\\n", ";; ", " ; # y\n", "\t",
];

const TAILS: &[&str] = &[
    "",
    "",
    "",
    "",
    "",
    "",
    " # touch pwned",
    "; echo rc=$?",
    " <<'E'\n$(touch pwned)\nE",
    " <<E\n$(touch pwned)\nE",
    " <<E\nx\nE\ntouch pwned",
    " <<-E\n\tx\n\tE",
    " <<\\E\n`touch pwned`\nE\n",
    " &",
    ";",
    " \\",
    " '",
    " \"",
    " <<'E'\nx",
    " \r",
    " \u{a0}x",
];

fn pick(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(words).prop_map(str::to_owned)
}

fn part() -> impl Strategy<Value = String> {
    let program = prop_oneof![12 => pick(PROGRAMS), 1 => pick(OTHERS)];
    let word = prop_oneof![12 => pick(SIMPLE), 3 => pick(OPTIONS), 5 => pick(OPERANDS), 1 => pick(REDIRECTS), 1 => spelled()];
    (program, proptest::collection::vec(word, 0..4)).prop_map(|(program, words)| {
        std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
    })
}

/// One of the words with a character put in, taken out or quoted.
fn spelled() -> impl Strategy<Value = String> {
    let mark =
        proptest::sample::select("'\"\\$`*?[]{}()<>|&;#~!=,:-/ \n\t".chars().collect::<Vec<_>>());
    (
        prop_oneof![pick(OPERANDS), pick(OPTIONS)],
        any::<proptest::sample::Index>(),
        mark,
        any::<bool>(),
    )
        .prop_map(|(word, at, mark, takes)| {
            let mut characters: Vec<char> = word.chars().collect();
            let at = at.index(characters.len() + 1);
            if takes && at < characters.len() {
                characters.remove(at);
            }
            characters.insert(at.min(characters.len()), mark);
            characters.into_iter().collect()
        })
}

fn command() -> impl Strategy<Value = String> {
    (part(), proptest::collection::vec((pick(SEPARATORS), part()), 0..3), pick(TAILS)).prop_map(
        |(first, more, tail)| {
            let more: String =
                more.into_iter().flat_map(|(separator, part)| [separator, part]).collect();
            format!("{first}{more}{tail}")
        },
    )
}

/// A tree in which everything that must not happen would leave a trace.
fn tree() -> World {
    let world = world();
    let at = |path: &str| world.root.join(path);
    for folder in [
        "ws/secrets",
        "ws/src",
        "ws/deep",
        "ws/bare/objects",
        "ws/bare/refs",
        ".local/state/coordd",
        "state",
    ] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    let evil = "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch ../pwned; false\n[diff]\n\texternal = touch ../pwned\n";
    for (path, text) in [
        ("ws/a", "a\nx\n"),
        ("ws/b", "b\n"),
        ("ws/a b", "ab\n"),
        ("ws/src/a.rs", "fn main() {}\n"),
        ("ws/secrets/key.txt", "key\n"),
        ("ws/.env", "KEY=1\n"),
        ("ws/-delete", ""),
        ("ws/--output=pwned", ""),
        ("ws/x", "#!/bin/sh\ntouch pwned\n"),
        ("ws/bare/HEAD", "ref: refs/heads/main\n"),
        ("ws/bare/config", evil),
        ("ws/.git/config", evil),
        (".local/state/coordd/env.json", "{}"),
    ] {
        std::fs::write(at(path), text).unwrap();
    }
    for (target, link) in [
        ("secrets", "ws/s"),
        (".env", "ws/e"),
        ("../.env", "ws/deep/link"),
        ("/dev/zero", "ws/zero"),
        ("../.local/state/coordd", "ws/state"),
        ("../.local/state/coordd", "state/coordd"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    nix::unistd::mkfifo(&at("ws/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(at("ws/x"), mode).unwrap();
    world
}

/// Names, kinds and contents of a folder.
fn contents(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let text = if kind.is_file() {
                std::fs::read_to_string(&path).unwrap()
            } else {
                String::new()
            };
            if kind.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, format!("{kind:?} {text}"));
        }
    }
    found
}

/// System calls that change something, or speak with someone.
const TRACED: &str = "openat,open,creat,openat2,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,symlink,symlinkat,\
link,linkat,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,ftruncate,mknod,mknodat,utimensat,setxattr,socket,\
connect,execve,execveat";

/// Runs commands under strace and returns what one of them did that plain reading does not do.
fn wrongs(world: &World, commands: &[&String], denies: bool) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    for (number, command) in commands.iter().enumerate() {
        std::fs::write(dir.path().join(format!("{number:05}")), command).unwrap();
    }
    let log = dir.path().join("log");
    let each = "cd \"$1\"; for file in \"$2\"/[0-9]*; do IFS= read -r -d '' text <\"$file\"; \
                timeout -s KILL 20 /bin/bash -c -- \"$text\" </dev/null; done";
    let status = Command::new("strace")
        .args(["-f", "-qq", "--seccomp-bpf", "-y", "-s", "300", "-e", "signal=none", "-e"])
        .arg(format!("trace={TRACED}"))
        .arg("-o")
        .arg(&log)
        .args(["/bin/bash", "-c", each, "bash"])
        .args([&world.root.join("ws"), dir.path()])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("X", "--output=pwned"), ("Y", ".env"), ("Z", "at")])
        .env("HOME", &world.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace is needed, as tests/README.md says");
    assert!(status.code().is_some(), "{status}");
    let log = std::fs::read_to_string(&log).unwrap();
    let script = dir.path().to_string_lossy().into_owned();
    log.lines().filter(|line| is_wrong(line, world, denies, &script)).map(str::to_owned).collect()
}

fn is_wrong(line: &str, world: &World, denies: bool, script: &str) -> bool {
    let Some((_, call)) = line.split_once(' ') else { return false };
    let (call, root) = (call.trim_start(), world.root.display());
    if call.starts_with("<...") || call.starts_with('+') || call.contains(script) {
        return false;
    }
    if call.starts_with("execve") {
        let program = call.split('"').nth(1).unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        let is_known =
            PROGRAMS.contains(&name) || matches!(name, "bash" | "timeout" | "git" | "sh");
        return !is_known || program.contains(&root.to_string()) || program.starts_with('.');
    }
    if call.starts_with("socket") || call.starts_with("connect") {
        // Names of users may be asked of a service of this machine.
        return !call.contains("AF_UNIX") && !call.contains("UNIX");
    }
    if call.starts_with("open") || call.starts_with("creat") {
        let is_scratch =
            ["\"/dev/null\"", "\"/dev/tty\"", "/sh-thd"].iter().any(|name| call.contains(name));
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"]
            .iter()
            .any(|flag| call.contains(flag));
        if writes && !is_scratch {
            return true;
        }
        let Some((_, result)) = call.rsplit_once(" = ") else { return false };
        if call.contains("O_DIRECTORY") || call.contains("O_PATH") {
            return false;
        }
        let sealed = [format!("<{root}/.local/state/coordd/"), "/environ>".to_owned()];
        let hidden = [format!("<{root}/ws/secrets/"), format!("<{root}/ws/.env>")];
        let read = |names: &[String]| names.iter().any(|name| result.contains(name.as_str()));
        return read(&sealed) || (denies && read(&hidden)) || result.contains("</dev/zero>");
    }
    // What is left changes something; a here-document may be a file for a moment.
    !call.contains("/sh-thd")
}

#[test]
fn fp1_fp2_fp3_fp4_fp5_fp6_what_is_called_plain_reading_only_reads() {
    let count = std::env::var("COORDD_TEST_SPELLINGS").ok().and_then(|count| count.parse().ok());
    let count: usize = count.unwrap_or(COUNT);
    let world = tree();
    let before = contents(&world.root);
    // Each run makes other commands; a failure names the one that it is about.
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).unwrap();
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let free = world.permissions(DontAsk);
    let limited = tree_rules(&world);
    let (mut made, mut ran) = (0, 0);
    let mut waiting: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    while made < count {
        let command = command().new_tree(&mut runner).unwrap().current();
        made += 1;
        let input = json!({ "command": command });
        for (denies, permissions) in [(false, &free), (true, &limited)] {
            if permissions.decide("Bash", &input) == Decision::Allow {
                waiting[usize::from(denies)].push(command.clone());
            }
        }
        for denies in [false, true] {
            let commands = &mut waiting[usize::from(denies)];
            if commands.len() >= BATCH || made == count {
                ran += commands.len();
                check(&world, &std::mem::take(commands), denies, &before);
            }
        }
    }
    println!("{made} commands, {ran} runs as plain reading");
    assert!(ran * 20 > count, "only {ran} of {made} ran: too few to tell");
}

fn tree_rules(world: &World) -> Permissions {
    let deny = vec!["Read(.env)".to_owned(), "Read(secrets/**)".to_owned()];
    let rules = RuleTexts { deny, ..RuleTexts::default() };
    let workspace = Workspace {
        cwd: world.root.join("ws"),
        scratchpad: None,
        additional_dirs: vec![],
        home: Some(world.root.clone()),
        places: world.places(),
        shell: ShellSettings::default(),
    };
    Permissions::new(DontAsk, &rules, &workspace).unwrap()
}

fn check(world: &World, commands: &[String], denies: bool, before: &BTreeMap<PathBuf, String>) {
    if commands.is_empty() {
        return;
    }
    let all: Vec<&String> = commands.iter().collect();
    let found = wrongs(world, &all, denies);
    if found.is_empty() && contents(&world.root) == *before {
        return;
    }
    for command in commands {
        let alone = wrongs(world, &[command], denies);
        let changed = contents(&world.root) != *before;
        assert!(alone.is_empty() && !changed, "{command:?} (denied paths: {denies}): {alone:#?}");
    }
    panic!("{found:#?} by one of {commands:#?}");
}

/// The observer sees what it is there for.
#[test]
fn what_is_not_plain_reading_is_seen() {
    let world = tree();
    for (command, denies) in [
        ("touch f; rm f", false),
        ("echo x > f; rm f", false),
        ("cat < /dev/tcp/127.0.0.1/9", false),
        ("cat .env", true),
        ("cat e", true),
        ("cd secrets && cat key.txt", true),
        ("cat state/env.json", false),
        ("cat /proc/self/environ", false),
        ("head -c1 zero", false),
        ("./x; rm pwned", false),
        ("mkdir d; rmdir d", false),
        ("tac a", false),
    ] {
        assert!(!wrongs(&world, &[&command.to_owned()], denies).is_empty(), "{command}");
    }
    for command in ["ls -la", "cat a", "id", "cat <<'E'\nx\nE", "ls secrets", "cat .env", "df"] {
        let found = wrongs(&world, &[&command.to_owned()], false);
        assert!(found.is_empty(), "{command}: {found:?}");
    }
}
