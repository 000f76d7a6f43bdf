//! Programs that run other ones, and how these stand in their arguments.

/// Programs that run a text, or what they read.
pub(super) const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "elvish"];

/// Programs that run the rest of their words, and how many operands stand before it.
pub(super) const WRAPPERS: [(&str, usize); 58] = [
    ("sudo", 0),
    ("doas", 0),
    ("su", 0),
    ("runuser", 0),
    ("pkexec", 0),
    ("env", 0),
    ("command", 0),
    ("builtin", 0),
    ("exec", 0),
    ("nohup", 0),
    ("nice", 0),
    ("ionice", 0),
    ("chrt", 1),
    ("taskset", 1),
    ("setsid", 0),
    ("setpriv", 0),
    ("setarch", 0),
    ("stdbuf", 0),
    ("time", 0),
    ("timeout", 0),
    ("gtimeout", 0),
    ("xargs", 0),
    ("parallel", 0),
    ("busybox", 0),
    ("toybox", 0),
    ("coproc", 0),
    ("unshare", 0),
    ("nsenter", 0),
    ("chroot", 1),
    ("prlimit", 0),
    ("flock", 1),
    ("script", 0),
    ("strace", 0),
    ("ltrace", 0),
    ("gdb", 0),
    ("valgrind", 0),
    ("perf", 1),
    ("watch", 0),
    ("entr", 0),
    ("ssh", 1),
    ("systemd-run", 0),
    ("systemd-inhibit", 0),
    ("dbus-run-session", 0),
    ("xvfb-run", 0),
    ("faketime", 1),
    ("proot", 0),
    ("fakeroot", 0),
    ("firejail", 0),
    ("bwrap", 0),
    ("npx", 0),
    ("bunx", 0),
    ("uvx", 0),
    ("dotenv", 0),
    ("chpst", 0),
    ("softlimit", 0),
    ("unbuffer", 0),
    ("caffeinate", 0),
    ("ld.so", 0),
];

/// Second words that make many programs run the rest: `poetry run`, `docker exec`, `bundle exec`.
pub(super) const RUN_WORDS: [&str; 3] = ["run", "exec", "dlx"];

/// Programs that take code as an argument in a language that is not read here, and the options before it.
pub(super) const INTERPRETERS: [(&str, &[&str]); 15] = [
    ("python", &["-c"]),
    ("pypy", &["-c"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("node", &["-e", "-p", "--eval", "--print"]),
    ("bun", &["-e", "--eval"]),
    ("deno", &["eval"]),
    ("php", &["-r"]),
    ("lua", &["-e"]),
    ("vim", &["-c", "+"]),
    ("vi", &["-c", "+"]),
    ("ed", &[""]),
    ("expect", &["-c"]),
    ("make", &["--eval", "SHELL="]),
    ("awk", &["BEGIN", "{", "'", ""]),
];

/// Builtins after which names mean other programs.
pub(super) const REBINDS: [&str; 8] =
    ["hash", "enable", "complete", "compgen", "mapfile", "readarray", "bind", "shopt"];

/// Options of git before its subcommand that have a value in the next word.
pub(super) const GIT_VALUED: [&str; 9] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--super-prefix",
    "--config-env",
    "--attr-source",
];

/// Words in front of a command inside of a compound one.
pub(super) const KEYWORDS: [&str; 19] = [
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "in", "function",
    "coproc", "{", "}", "!", "time", "[[", "]]",
];
