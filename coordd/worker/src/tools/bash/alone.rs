//! A command has nobody at its keyboard: what would wait for a person says so and ends (fT17).
//!
//! Editors that another program opens and pagers are named by variables. A command that itself names an editor is not run, unless
//! its options say that the editor needs no person.

use crate::tools::permissions::programs_of;

/// Variables by which programs find an editor for their user.
const EDITORS: [&str; 5] = ["EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "SUDO_EDITOR"];

/// What is run in an editor's place, by a shell.
const NO_EDITOR: &str = "sh -c 'echo \"There is no terminal, so no editor can be opened. Give the text with an option, as in \
git commit -m, or GIT_SEQUENCE_EDITOR with a program that edits.\" >&2; exit 1'";

/// Variables by which programs find a pager.
const PAGERS: [&str; 8] = [
    "PAGER",
    "GIT_PAGER",
    "GH_PAGER",
    "MANPAGER",
    "SYSTEMD_PAGER",
    "BAT_PAGER",
    "DELTA_PAGER",
    "AWS_PAGER",
];

/// What keeps programs from asking at a terminal.
const NO_QUESTIONS: [(&str, &str); 4] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("PIP_NO_INPUT", "1"),
];

/// Editors, with the beginnings of options that let them work without a person.
const PROGRAMS: [(&str, &[&str]); 10] = [
    ("vi", &["-e", "-E", "-s", "-c", "+", "--cmd", "--help", "-h", "--version"]),
    ("vim", &["-e", "-E", "-s", "-c", "+", "--cmd", "--help", "-h", "--version"]),
    ("vimdiff", &["-e", "-E", "--help", "--version"]),
    ("view", &["-e", "-E", "-s", "-c", "+", "--help", "--version"]),
    (
        "nvim",
        &[
            "-e",
            "-E",
            "-s",
            "-l",
            "-c",
            "+",
            "--cmd",
            "--headless",
            "--help",
            "-h",
            "--version",
            "-v",
        ],
    ),
    ("nano", &["--help", "-h", "--version", "-V"]),
    ("pico", &["--help", "-h", "--version", "-V"]),
    ("emacs", &["--batch", "-batch", "--script", "-script", "--help", "--version"]),
    ("emacsclient", &["--eval", "-e", "--no-wait", "-n", "--help", "--version"]),
    ("micro", &["-help", "-version", "-plugin"]),
];

/// What a command's environment has besides the agent's own.
pub(super) fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    let editors = EDITORS.into_iter().map(|name| (name, NO_EDITOR));
    let pagers = PAGERS.into_iter().map(|name| (name, "cat"));
    editors.chain(pagers).chain(NO_QUESTIONS)
}

/// The editor that a command would open, as far as its words tell.
pub(super) fn editor_of(command: &str) -> Option<&'static str> {
    programs_of(command).into_iter().find_map(|(program, arguments)| {
        let name = program.rsplit('/').next().unwrap_or_default();
        let (name, alone) = PROGRAMS.into_iter().find(|(known, _)| *known == name)?;
        let is_alone = |word: &String| alone.iter().any(|option| word.starts_with(option));
        (!arguments.iter().any(is_alone)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ft17_an_editor_that_needs_a_person_is_known() {
        for (command, editor) in [
            ("vim f", Some("vim")),
            ("cd x && /usr/bin/nano f", Some("nano")),
            ("true; (emacs f)", Some("emacs")),
            ("vim -es -c '%s/a/b/' -c wq f", None),
            ("nvim --headless +q", None),
            ("emacs --batch -l x.el", None),
            ("grep vim f", None),
            ("apt install vim", None),
            ("echo 'vim f'", None),
        ] {
            assert_eq!(editor_of(command), editor, "{command}");
        }
    }
}
