//! Commands that plainly only read.
//!
//! A short list, read strictly: a program that is not on it, an option that could write or run something, or a word that could
//! become such an option, and the command is not plain. It must not be extended by a program that can run another one.

use super::shell::{Part, Script, Word};

/// Programs whose arguments can neither write nor run anything.
const HARMLESS: [&str; 35] = [
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
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
    "tac",
    "rev",
    "cmp",
    "comm",
    "diff",
    "du",
    "df",
    "id",
    "whoami",
    "uname",
    "sha256sum",
    "md5sum",
];

/// Programs of the list above that go through whole folders, or whose target is a file's content.
const RECURSIVE: [&str; 4] = ["grep", "egrep", "fgrep", "diff"];

/// `git` commands that only show something, with any option but those that [`git`] refuses.
const GIT_SHOWS: [&str; 13] = [
    "status",
    "log",
    "diff",
    "show",
    "rev-parse",
    "ls-files",
    "ls-tree",
    "blame",
    "describe",
    "merge-base",
    "rev-list",
    "shortlog",
    "name-rev",
];

/// Whether all of the command only reads.
pub(super) fn is_plain(script: &Script) -> bool {
    script.opaque.is_none()
        && !script.has_line_break
        && !script.parts.is_empty()
        && script.parts.iter().all(is_plain_part)
        && !is_git_elsewhere(script)
}

/// Another folder's repository may be set up to run programs at a mere `git status`.
pub(super) fn is_git_elsewhere(script: &Script) -> bool {
    let has = |program| script.parts.iter().any(|it| it.program() == program);
    has("cd") && has("git")
}

/// Whether one part of a command only reads.
pub(super) fn is_plain_part(part: &Part) -> bool {
    let [program, arguments @ ..] = part.words.as_slice() else { return false };
    // The name as it stands: no quotes, no wildcard, no variable, no folder.
    if program.raw != program.text || !program.is_literal() {
        return false;
    }
    // Variables are words that nobody has seen yet.
    if arguments.iter().any(|it| it.variable) {
        return false;
    }
    let strict = arguments.iter().all(is_surely_no_option_or_literal);
    let options = || arguments.iter().map(|it| it.text.as_str()).filter(|it| it.starts_with('-'));
    let none_of =
        |refused: &[&str]| !options().any(|it| refused.iter().any(|no| it.starts_with(no)));
    let no_short =
        |letters: &[char]| !options().any(|it| !it.starts_with("--") && it.contains(letters));
    let arguments_are_plain = match program.text.as_str() {
        "git" => strict && git(arguments),
        "find" => strict && none_of(&["-exec", "-ok", "-delete", "-fprint", "-fls"]),
        "rg" => strict && none_of(&["--pre", "--hostname-bin", "--search-zip"]) && no_short(&['z']),
        // A list of names may hold names that nobody has seen.
        "sort" => strict && none_of(&["--o", "--co", "--t", "--fil"]) && no_short(&['o', 'T']),
        "jq" => none_of(&["--from-file", "--f"]) && no_short(&['f', 'L']) && jq(arguments),
        "sed" => strict && sed(arguments),
        "date" => strict && none_of(&["--s"]) && no_short(&['s']),
        // With a second name it writes.
        "uniq" => strict && arguments.iter().filter(|it| !it.text.starts_with('-')).count() <= 1,
        "hostname" => arguments.is_empty(),
        program => HARMLESS.contains(&program),
    };
    arguments_are_plain && part.redirects.iter().all(|it| !it.writes || is_null(&it.target))
}

/// A wildcard at the front, or behind a dash, can become an option: a file may be named `-delete`.
fn is_surely_no_option_or_literal(word: &Word) -> bool {
    match word.wildcard_at {
        None => true,
        Some(0) => false,
        Some(_) => !word.text.starts_with('-') && !word.text.contains('{'),
    }
}

pub(super) fn is_null(target: &Word) -> bool {
    target.is_literal() && target.text == "/dev/null"
}

fn git(arguments: &[Word]) -> bool {
    let mut words = arguments.iter().map(|it| it.text.as_str());
    let Some(command) = words.find(|it| *it != "--no-pager") else { return false };
    let rest: Vec<&str> = words.collect();
    // Abbreviated options count as well: `--outp` is `--output`.
    let refused = ["--ou", "--ext", "--textc", "--op", "--upload-pack", "--exec"];
    if rest.iter().any(|it| refused.iter().any(|no| it.starts_with(no))) {
        return false;
    }
    let only = |allowed: &[&str]| rest.iter().all(|it| allowed.contains(it));
    match command {
        "branch" => {
            only(&["--list", "-l", "-a", "-r", "-v", "-vv", "--all", "--remotes", "--show-current"])
        }
        "remote" => only(&["-v"]),
        "tag" => rest.is_empty() || rest.first().is_some_and(|it| matches!(*it, "-l" | "--list")),
        "stash" | "worktree" => rest.first() == Some(&"list"),
        "config" => rest.first().is_some_and(|it| matches!(*it, "--get" | "--list" | "-l")),
        command => GIT_SHOWS.contains(&command),
    }
}

/// Only `sed -n '3,5p' FILE…`.
fn sed(arguments: &[Word]) -> bool {
    let [option, script, files @ ..] = arguments else { return false };
    let is_range = script.is_literal_text()
        && script.text.strip_suffix('p').is_some_and(|it| {
            !it.is_empty() && it.chars().all(|it| it.is_ascii_digit() || matches!(it, ',' | '$'))
        });
    option.text == "-n" && is_range && files.iter().all(|it| !it.text.starts_with('-'))
}

/// Whether a filter shows no variable of the environment and takes in no other file. `.env` is a field.
fn jq(arguments: &[Word]) -> bool {
    arguments.iter().all(|word| {
        let text = word.text.as_str();
        let is_name = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
        let names = |name: &str| {
            text.match_indices(name).any(|(at, _)| {
                let before = text.get(..at).and_then(|it| it.chars().next_back());
                let after = text.get(at + name.len()..).and_then(|it| it.chars().next());
                !is_name(before) && before != Some('.') && !is_name(after)
            })
        };
        !text.contains("ENV") && !["env", "import", "include"].into_iter().any(names)
    })
}

impl Word {
    fn is_literal_text(&self) -> bool {
        self.wildcard_at.is_none() && !self.variable
    }
}

/// Whether a part may read files that its words do not name one by one.
pub(super) fn reads_unnamed_files(part: &Part) -> bool {
    let wild = part.words.iter().any(|it| it.wildcard_at.is_some());
    goes_through_folders(part) || (wild && !shows_names_only(part))
}

/// Whether a part reads what lies in the folders that it names.
pub(super) fn goes_through_folders(part: &Part) -> bool {
    let options = || part.words.iter().map(|it| it.text.as_str()).filter(|it| it.starts_with('-'));
    let recursive = options().any(|it| {
        it.starts_with("--r")
            || it.starts_with("--d")
            || (!it.starts_with("--") && it.contains(['r', 'R', 'd']))
    });
    part.program() == "rg" || (RECURSIVE.contains(&part.program()) && recursive)
}

/// Whether a part shows names, and nothing of what is in files.
pub(super) fn shows_names_only(part: &Part) -> bool {
    matches!(part.program(), "ls" | "find" | "stat" | "du" | "echo" | "cd" | "basename")
}

#[cfg(test)]
mod tests {
    use super::super::shell::parse;
    use super::*;

    fn plain(command: &str) -> bool {
        is_plain(&parse(command))
    }

    #[test]
    fn commands_that_only_read_are_plain() {
        for command in [
            "ls",
            "ls -la src/*.rs",
            "cat a b | head -n 5 | wc -l",
            "grep -rn 'foo|bar; baz' src",
            "rg -n \"fn .*\" src -g '*.rs'",
            "find . -name '*.rs' -type f",
            "find src/* -name x",
            "git status",
            "git --no-pager log --oneline -5",
            "git diff HEAD~1 -- src",
            "git show HEAD:a.rs",
            "git branch --list",
            "git branch -vv",
            "git tag -l 'v*'",
            "git stash list",
            "git config --get user.name",
            "pwd && ls",
            "cd src && ls",
            "echo 'hello > world'",
            "ls 2>/dev/null || true",
            "ls 2>&1 | tail",
            "ls > /dev/null",
            "wc -l < a",
            "sort -k2 -n a | uniq -c",
            "sed -n '3,5p' a",
            "sed -n '$p' a",
            "ls ~/x",
            "date +%s",
            "jq .env package.json",
            "jq -r '.scripts[] | .environment' a",
        ] {
            assert!(plain(command), "{command}");
        }
    }

    /// The ways in which a command that looks harmless is not.
    #[test]
    fn commands_that_could_do_more_are_not_plain() {
        for command in [
            "",
            "rm x",
            "ls; rm x",
            "ls && cargo build",
            "ls | xargs rm",
            "ls & rm x",
            "ls\nrm x",
            "ls\nls",
            "ls $(rm x)",
            "ls `rm x`",
            "ls \"$(rm x)\"",
            "cat <(rm x)",
            "echo x > f",
            "echo x >> f",
            "ls 2> f",
            "ls &> f",
            "cat a >&f",
            "A=1 ls",
            "LD_PRELOAD=./x.so ls",
            "PATH=. ls",
            "./ls",
            "/tmp/ls",
            "l\\s",
            "'ls'",
            "$x",
            "l?",
            "ls $x",
            "ls ${x@P}",
        ] {
            assert!(!plain(command), "{command}");
        }
    }

    /// Options that write or run, words that could become one, and programs that can do more than read.
    #[test]
    fn options_that_could_do_more_are_not_plain() {
        for command in [
            "find . -exec rm {} +",
            "find . -execdir rm {} +",
            "find . -ok rm {} +",
            "find . -delete",
            "find . '-delete'",
            "find . -del\\ete",
            "find . -[d]elete",
            "find . {-delete,}",
            "find . x{,-delete}",
            "find *",
            "find . -fprintf f x",
            "sort -o f a",
            "sort -ro f a",
            "sort --output=f a",
            "sort --outp f a",
            "sort --compress-program=./x a",
            "sort *",
            "uniq a b",
            "rg --pre ./x y",
            "rg --pre=./x y",
            "rg -z y",
            "rg x *",
            "sed -n 'w f' a",
            "sed -n '1e rm x' a",
            "sed -i s/a/b/ a",
            "sed -n 1p -i a",
            "sed -n 1p -- -i",
            "date -s 0",
            "hostname x",
            "git commit",
            "git branch x",
            "git branch -D x",
            "git -c core.pager=./x log",
            "git -C ../other status",
            "cd ../other && git status",
            "git diff --output=f",
            "git diff --outp=f",
            "git diff --ext-diff",
            "git log --ext-diff -p",
            "git grep -O./x y",
            "git stash",
            "git stash drop",
            "git tag v1",
            "git config user.name x",
            "git remote add x y",
            "git diff *",
            "test -v 'a[$(rm x)]'",
            "printf -v 'a[$(rm x)]' y",
            "env",
            "awk 'BEGIN{system(\"rm x\")}'",
            "ls # comment",
            "(ls)",
            "! ls",
            "time ls",
            "tee f",
            "xxd a b",
            "file -C -m x",
        ] {
            assert!(!plain(command), "{command}");
        }
    }

    /// What `env` is asked for is asked for in other words too, and so is what a repository set up to be run.
    #[test]
    fn the_environment_and_programs_of_a_repository_are_not_plain() {
        for command in [
            "printenv",
            "jq -n env",
            "jq -n 'env.HOME'",
            "jq -n '[env]'",
            "jq -n '$ENV.HOME'",
            "jq -n -f program",
            "jq -nf program",
            "jq --from-file program",
            "jq -n 'import \"a\" as $a; $a'",
            "git show --textconv",
            "git diff --textconv",
            "git show --textc",
            "sort --files0-from=f",
        ] {
            assert!(!plain(command), "{command}");
        }
    }

    #[test]
    fn files_that_are_not_named_are_noticed() {
        let unnamed = |command: &str| reads_unnamed_files(&parse(command).parts[0]);
        for command in
            ["cat *", "grep -r x .", "grep -Rn x", "rg x", "grep --recursive x .", "diff -r a b"]
        {
            assert!(unnamed(command), "{command}");
        }
        for command in ["cat a", "grep x a", "ls *", "find .", "git diff"] {
            assert!(!unnamed(command), "{command}");
        }
    }
}
