//! Arguments that a wildcard of an allow rule does not stand for: they run a program, write a file, or lead elsewhere.

use super::super::reach::git_split;
use super::super::shell::Word;

/// Long options that run a program or write a file, whatever program has them.
const RISKY_ANYWHERE: [&str; 24] = [
    "--exec",
    "--exec-path",
    "--ext-diff",
    "--extcmd",
    "--textconv",
    "--upload-pack",
    "--receive-pack",
    "--pre",
    "--pager",
    "--editor",
    "--to-command",
    "--use-compress-program",
    "--compress-program",
    "--checkpoint-action",
    "--rsh",
    "--rsync-path",
    "--output",
    "--output-file",
    "--outfile",
    "--out-file",
    "--log-file",
    "--script-shell",
    "--init-file",
    "--rcfile",
];

/// For one program: words, long options with their beginnings, and letters that run a program, write a file, or lead
/// elsewhere.
const RISKY: [(&str, &[&str], &str); 20] = [
    (
        "find",
        &[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
            "-fls",
        ],
        "",
    ),
    ("fd", &["--exec", "--exec-batch"], "xX"),
    ("sort", &["--output", "--compress-program", "--temporary-directory"], "oT"),
    ("rg", &["--pre", "--hostname-bin"], ""),
    ("sed", &["--in-place", "--file"], "if"),
    (
        "tar",
        &[
            "--to-command",
            "--use-compress-program",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
        ],
        "IF",
    ),
    ("rsync", &["--rsh", "--rsync-path", "--log-file"], "e"),
    (
        "curl",
        &[
            "--output",
            "--remote-name",
            "--config",
            "--upload-file",
            "--dump-header",
            "--cookie-jar",
            "--trace",
            "--output-dir",
            "--stderr",
        ],
        "oOKTDc",
    ),
    (
        "wget",
        &[
            "--output-document",
            "--output-file",
            "--use-askpass",
            "--config",
            "--execute",
            "--directory-prefix",
        ],
        "Ooe",
    ),
    ("ssh", &[], "oFE"),
    ("scp", &[], "oFS"),
    ("man", &["--pager", "--html"], "PH"),
    (
        "go",
        &[
            "-exec",
            "-toolexec",
            "-o",
            "-vettool",
            "-C",
            "-coverprofile",
            "-cpuprofile",
            "-memprofile",
            "-trace",
            "-overlay",
        ],
        "",
    ),
    (
        "cargo",
        &[
            "--config",
            "--manifest-path",
            "--target-dir",
            "--artifact-dir",
            "--out-dir",
            "--lockfile-path",
        ],
        "CZ",
    ),
    (
        "npm",
        &["--prefix", "--script-shell", "--node-options", "--userconfig", "--globalconfig"],
        "C",
    ),
    ("pnpm", &["--dir", "--script-shell"], "C"),
    ("yarn", &["--cwd", "--use-yarnrc"], ""),
    (
        "pytest",
        &[
            "--basetemp",
            "--rootdir",
            "--confcutdir",
            "--junit-xml",
            "--config-file",
            "--log-file",
            "--override-ini",
        ],
        "pco",
    ),
    ("make", &["--file", "--makefile", "--directory", "--eval", "--include-dir"], "fCI"),
    ("xxd", &["-r"], ""),
];

/// Options of git that run a program, write a file, or lead to another repository.
const RISKY_GIT: [&str; 17] = [
    "--output",
    "--output-directory",
    "--ext-diff",
    "--textconv",
    "--exec",
    "--exec-path",
    "--extcmd",
    "--upload-pack",
    "--receive-pack",
    "--open-files-in-pager",
    "--config",
    "--config-env",
    "--template",
    "--separate-git-dir",
    "--git-dir",
    "--work-tree",
    "--tool",
];

/// Subcommands of git whose business is to run something or to say what will run.
const RISKY_GIT_COMMANDS: [&str; 17] = [
    "config",
    "difftool",
    "mergetool",
    "filter-branch",
    "hook",
    "daemon",
    "instaweb",
    "send-email",
    "for-each-repo",
    "maintenance",
    "credential",
    "web--browse",
    "fast-import",
    "remote-ext",
    "submodule",
    "bisect",
    "shell",
];

/// What in the arguments a rule has to spell out before it covers it.
pub(super) fn risks(program: &str, arguments: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut words, mut letters): (&[&str], &str) = (&[], "");
    if let Some((_, risky, risky_letters)) = RISKY.iter().find(|(name, _, _)| *name == program) {
        (words, letters) = (risky, risky_letters);
    }
    if program == "git" {
        let (global, rest) = git_split(arguments);
        let options = global.iter().map(Word::text).filter(|text| text.starts_with('-'));
        found.extend(options.filter(|option| is_risky_global(option)));
        let command = rest.first().map(Word::text).unwrap_or_default();
        if RISKY_GIT_COMMANDS.contains(&command.as_str()) {
            found.push(command.clone());
        }
        words = &RISKY_GIT;
        letters = git_letters(&command);
    }
    let Some(first) = arguments.first() else { return found };
    for word in arguments {
        let text = word.text();
        let name = text.split_once('=').map_or(text.as_str(), |(name, _)| name);
        let is_long = name.starts_with("--") && name.len() > 2;
        // Long options may be cut short.
        let named =
            words.iter().any(|risky| *risky == name || (is_long && risky.starts_with(name)));
        if named || (is_long && RISKY_ANYWHERE.contains(&name)) {
            found.push(name.to_owned());
        } else if !is_long && name.starts_with('-') {
            let risky = text.chars().skip(1).find(|letter| letters.contains(*letter));
            found.extend(risky.map(|letter| format!("-{letter}")));
        } else if program == "make" && text.contains('=') {
            found.push(name.to_owned());
        } else if program == "tar" && std::ptr::eq(word, first) {
            // The first word has options without a dash.
            let risky = text.chars().find(|letter| letters.contains(*letter));
            found.extend(risky.map(|letter| format!("-{letter}")));
        }
    }
    found
}

fn is_risky_global(option: &str) -> bool {
    !matches!(
        option,
        "--no-pager"
            | "-P"
            | "--literal-pathspecs"
            | "--no-optional-locks"
            | "--no-replace-objects"
    )
}

/// Letters that run or write in one subcommand and do no harm in another.
fn git_letters(command: &str) -> &'static str {
    match command {
        "difftool" | "mergetool" => "xtg",
        "rebase" => "x",
        "grep" => "O",
        "archive" | "format-patch" => "o",
        "clone" => "uc",
        _ => "",
    }
}
