//! Reads a shell command as far as a rule has to: into parts, words and redirections.
//!
//! This is no shell. What it does not fully understand (substitutions, loops, groups, here-documents, comments) makes the
//! whole command *opaque*, and an opaque command is never allowed by a rule about its text. It must not guess.

/// A command line, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// The commands between `;`, `|`, `&` and line breaks.
    pub(super) parts: Vec<Part>,
    /// What in it was not understood.
    pub(super) opaque: Option<&'static str>,
    pub(super) has_line_break: bool,
}

/// One simple command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// As it is written.
    pub(super) raw: String,
    /// Without its quotes.
    pub(super) text: String,
    /// How much of `text` lies before the first unquoted wildcard or brace, if there is one.
    pub(super) wildcard_at: Option<usize>,
    /// Holds a variable.
    pub(super) variable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) writes: bool,
    pub(super) target: Word,
}

impl Part {
    /// The words as written, with single spaces.
    pub(super) fn raw(&self) -> String {
        join(self.words.iter().map(|it| it.raw.as_str()))
    }

    /// The words without their quotes.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        join(self.words.iter().map(|it| it.text.as_str()))
    }

    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", |it| it.text.as_str())
    }
}

impl Word {
    /// Exactly this text, whatever the folder and the environment hold.
    pub(super) fn is_literal(&self) -> bool {
        self.wildcard_at.is_none() && !self.variable && !self.raw.starts_with('~')
    }
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Words that begin or end a compound command.
const RESERVED: [&str; 22] = [
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "in", "function", "time", "coproc", "{", "}", "!", "[[", "]]",
];

pub(super) fn parse(command: &str) -> Script {
    let mut lexer = Lexer { rest: trim(command), ..Lexer::default() };
    while let Some(character) = lexer.next() {
        lexer.step(character);
    }
    lexer.end_part();
    lexer.script
}

/// Takes off what a shell takes off, which is not all that counts as white space.
pub(super) fn trim(command: &str) -> &str {
    command.trim_matches([' ', '\t', '\n'])
}

#[derive(Default)]
struct Lexer<'a> {
    rest: &'a str,
    script: Script,
    part: Part,
    word: Option<Word>,
    /// The next word is where a redirection goes.
    redirect: Option<bool>,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let character = characters.next()?;
        self.rest = characters.as_str();
        Some(character)
    }

    /// Takes the text if it comes next.
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn opaque(&mut self, what: &'static str) {
        self.script.opaque.get_or_insert(what);
    }

    fn step(&mut self, character: char) {
        match character {
            ' ' | '\t' => self.end_word(),
            '\n' => {
                self.script.has_line_break = true;
                self.end_part();
            }
            ';' if self.eat(";") => self.opaque("a case statement"),
            '&' if self.rest.starts_with('>') => self.end_word(),
            ';' | '|' | '&' => self.end_part(),
            '<' | '>' => self.redirection(character),
            '(' | ')' => self.opaque("a group or function"),
            '#' if self.word.is_none() => self.opaque("a comment"),
            '\'' => self.single_quoted(),
            '"' => self.double_quoted(),
            '\\' => self.escaped(),
            '$' => self.dollar(false),
            '`' => self.opaque("a command substitution"),
            '*' | '?' | '[' | '{' => {
                let word = self.word.get_or_insert_default();
                word.wildcard_at.get_or_insert(word.text.len());
                self.push(character);
            }
            it if it.is_control() || (it.is_whitespace() && !it.is_ascii()) => {
                self.opaque("a control character");
            }
            it => self.push(it),
        }
    }

    fn push(&mut self, character: char) {
        let word = self.word.get_or_insert_default();
        word.raw.push(character);
        word.text.push(character);
    }

    fn push_raw(&mut self, character: char) {
        self.word.get_or_insert_default().raw.push(character);
    }

    fn single_quoted(&mut self) {
        self.push_raw('\'');
        loop {
            match self.next() {
                Some('\'') => return self.push_raw('\''),
                Some(it) => self.push(it),
                None => return self.opaque("a quote without its end"),
            }
        }
    }

    fn double_quoted(&mut self) {
        self.push_raw('"');
        loop {
            match self.next() {
                Some('"') => return self.push_raw('"'),
                Some('$') => self.dollar(true),
                Some('`') => self.opaque("a command substitution"),
                Some('\\') => {
                    if self.rest.starts_with(['$', '`', '"', '\\']) {
                        self.escaped();
                    } else if self.rest.starts_with('\n') {
                        self.opaque("a continued line");
                    } else {
                        self.push('\\');
                    }
                }
                Some(it) => self.push(it),
                None => return self.opaque("a quote without its end"),
            }
        }
    }

    fn escaped(&mut self) {
        match self.next() {
            Some('\n') | None => self.opaque("a continued line"),
            Some(it) => {
                self.push_raw('\\');
                self.push(it);
            }
        }
    }

    fn dollar(&mut self, quoted: bool) {
        let plain_braces = || {
            let inside = self.rest.strip_prefix('{')?.split_once('}')?.0;
            let name = |it: char| it.is_ascii_alphanumeric() || it == '_';
            (!inside.is_empty() && inside.chars().all(name)).then_some(inside.len() + 2)
        };
        if self.rest.starts_with('(') {
            self.opaque("a command substitution");
        } else if self.rest.starts_with('[') || (!quoted && self.rest.starts_with(['\'', '"'])) {
            self.opaque("a special quotation");
        } else if self.rest.starts_with('{') {
            let Some(len) = plain_braces() else { return self.opaque("a special expansion") };
            self.push('$');
            for _ in 0..len {
                if let Some(it) = self.next() {
                    self.push(it);
                }
            }
        } else {
            self.push('$');
        }
        self.word.get_or_insert_default().variable = true;
    }

    fn redirection(&mut self, character: char) {
        if self.eat("(") {
            return self.opaque("a process substitution");
        }
        if character == '<' && self.rest.starts_with('<') {
            return self.opaque("a here-document");
        }
        // A number right before it says which stream, and is no word.
        if self.word.as_ref().is_some_and(|it| it.raw.bytes().all(|it| it.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let mut writes = character == '>';
        if self.eat(">") || (writes && self.eat("|")) {
            writes = true;
        } else if self.eat("&") {
            // A copy of another stream; with a name behind it, a file.
            let rest = self.rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == '-');
            if rest.len() < self.rest.len() && !rest.starts_with(|it: char| is_word(it)) {
                self.rest = rest;
                return;
            }
        }
        if self.redirect.is_some() {
            self.opaque("a redirection without a target");
        }
        self.redirect = Some(writes);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.redirect.take() {
            Some(writes) => self.part.redirects.push(Redirect { writes, target: word }),
            None => self.part.words.push(word),
        }
    }

    fn end_part(&mut self) {
        self.end_word();
        if self.redirect.take().is_some() {
            self.opaque("a redirection without a target");
        }
        let part = std::mem::take(&mut self.part);
        if part.words.first().is_some_and(|it| RESERVED.contains(&it.raw.as_str())) {
            self.opaque("a compound command");
        }
        if !part.words.is_empty() || !part.redirects.is_empty() {
            self.script.parts.push(part);
        }
    }
}

fn is_word(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, ';' | '|' | '&' | '<' | '>' | '(' | ')')
}

/// Whether a word sets a variable for the command behind it.
pub(super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|it: char| it.is_ascii_digit())
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Every command that a text might run, found generously: for rules that forbid. Quotes are ignored, wrappers such as
/// `sudo` and the folder of a program are taken off.
pub(super) fn candidates(command: &str) -> Vec<String> {
    let script = parse(command);
    let mut found = Vec::new();
    for part in &script.parts {
        found.push(part.raw());
        let words: Vec<&str> = part.words.iter().map(|it| it.text.as_str()).collect();
        found.push(bare(&words));
    }
    let nested = |part: &Part| part.words.iter().any(|it| SHELLS.contains(&base_name(&it.text)));
    if script.opaque.is_some() || script.parts.iter().any(nested) {
        let unquoted = command.replace(['\'', '"', '\\'], " ");
        for piece in unquoted.split([';', '|', '&', '\n', '(', ')', '{', '}', '`']) {
            let words: Vec<&str> = piece.split_whitespace().collect();
            found.push(bare(&words));
            // Behind `sh -c` and the like, a command may begin at any word.
            for (at, word) in words.iter().enumerate() {
                if SHELLS.contains(&base_name(word)) {
                    let behind = words.iter().skip(at + 1).skip_while(|it| it.starts_with('-'));
                    found.push(bare(&behind.copied().collect::<Vec<_>>()));
                }
            }
        }
    }
    found.retain(|it| !it.is_empty());
    found
}

/// Programs that run a text or their arguments as a command.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "eval", "exec", "xargs", "ssh"];

/// Programs that run the rest of their words.
const WRAPPERS: [&str; 13] = [
    "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "ionice", "setsid",
    "time", "timeout", "stdbuf",
];

/// The command that words come down to.
fn bare(words: &[&str]) -> String {
    let mut words = words;
    while let [first, rest @ ..] = words {
        let wrapper = WRAPPERS.contains(&base_name(first));
        if !wrapper && !is_assignment(first) && !RESERVED.contains(first) {
            break;
        }
        words = rest;
        while wrapper
            && let [option, rest @ ..] = words
            && (option.starts_with('-') || option.starts_with(|it: char| it.is_ascii_digit()))
        {
            words = rest;
        }
    }
    let [first, rest @ ..] = words else { return String::new() };
    join(std::iter::once(base_name(first)).chain(rest.iter().copied()))
}

fn base_name(program: &str) -> &str {
    program.rsplit_once('/').map_or(program, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raws(command: &str) -> Vec<String> {
        let script = parse(command);
        assert_eq!(script.opaque, None, "{command}");
        script.parts.iter().map(Part::raw).collect()
    }

    #[test]
    fn parts_and_words() {
        assert_eq!(raws("a && b|c ; d & e |& f || g"), ["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(raws("git   log\t-1\nls"), ["git log -1", "ls"]);
        assert_eq!(raws("echo 'a; b' \"c | d\" e\\;f"), ["echo 'a; b' \"c | d\" e\\;f"]);
        assert_eq!(parse("echo 'a; b'\"c\"\\ d").parts[0].text(), "echo a; bc d");
        assert_eq!(raws("echo $HOME ${HOME} $1 $?"), ["echo $HOME ${HOME} $1 $?"]);
    }

    #[test]
    fn redirections_are_no_words() {
        for (command, words, writes) in [
            ("a > f", "a", vec![(true, "f")]),
            ("a 2>>f b", "a b", vec![(true, "f")]),
            ("a &>f", "a", vec![(true, "f")]),
            ("a >&f", "a", vec![(true, "f")]),
            ("a >&2f", "a", vec![(true, "2f")]),
            ("a >|f", "a", vec![(true, "f")]),
            ("a <f", "a", vec![(false, "f")]),
            ("a <>f", "a", vec![(true, "f")]),
            ("a 2>&1 b", "a b", vec![]),
            ("a >&- b", "a b", vec![]),
            ("a 2>/dev/null", "a", vec![(true, "/dev/null")]),
            ("a1>f", "a1", vec![(true, "f")]),
        ] {
            let script = parse(command);
            assert_eq!(script.opaque, None, "{command}");
            assert_eq!(script.parts[0].raw(), words, "{command}");
            let found: Vec<_> = script.parts[0]
                .redirects
                .iter()
                .map(|it| (it.writes, it.target.text.as_str()))
                .collect();
            assert_eq!(found, writes, "{command}");
        }
    }

    #[test]
    fn what_is_not_understood_is_opaque() {
        for command in [
            "echo $(id)",
            "echo \"$(id)\"",
            "echo `id`",
            "echo \"`id`\"",
            "cat <(id)",
            "cat >(id)",
            "cat <<EOF\nx\nEOF",
            "cat <<<x",
            "(id)",
            "f() { id; }",
            "{ id; }",
            "if id; then id; fi",
            "for i in 1; do id; done",
            "! id",
            "ls # 'x\nrm y #'",
            "ls; #x",
            "echo 'x",
            "echo \"x",
            "echo x\\",
            "echo x\\\ny",
            "echo \"x\\\ny\"",
            "echo $'x'",
            "echo $\"x\"",
            "echo ${x@P}",
            "echo ${x:-$(id)}",
            "echo ${!x}",
            "echo $[1]",
            "echo \u{1}x",
            "ls\r",
            "ls\u{a0}x",
            "[[ -v x ]]",
            "a >",
            "a > > b",
            "case x in x) id;; esac",
        ] {
            assert!(parse(command).opaque.is_some(), "{command:?}");
        }
    }

    #[test]
    fn wildcards_and_variables_are_noticed() {
        let words = |command: &str| parse(command).parts.remove(0).words;
        let wild = |word: &Word| word.wildcard_at;
        assert_eq!(
            words("a* -[d]x 'a*' \"b?\" c\\* {a,b} x{1,2}").iter().map(wild).collect::<Vec<_>>(),
            [Some(1), Some(1), None, None, None, Some(0), Some(1)]
        );
        let literal: Vec<_> =
            words("a $a '$a' \"$a\" ~/a 'a'b").iter().map(Word::is_literal).collect();
        assert_eq!(literal, [true, false, true, false, false, true]);
    }

    #[test]
    fn assignments() {
        for (word, expected) in [
            ("A=b", true),
            ("_a1+=", true),
            ("a[1]=x", true),
            ("=x", false),
            ("1a=x", false),
            ("a-b=c", false),
        ] {
            assert_eq!(is_assignment(word), expected, "{word}");
        }
    }

    #[test]
    fn a_forbidden_command_is_found_where_it_hides() {
        for command in [
            "rm -r x",
            "ls && rm -r x",
            "A=1 rm -r x",
            "/bin/rm -r x",
            "sudo -n rm -r x",
            "timeout 5 nice -n 3 rm -r x",
            "env A=1 rm -r x",
            "'rm' -r x",
            "r\\m -r x",
            "echo $(rm -r x)",
            "echo `rm -r x`",
            "(rm -r x)",
            "if true; then rm -r x; fi",
            "bash -c 'rm -r x'",
            "sh -ec \"rm -r x\"",
            "eval 'rm -r x'",
            "find | xargs -0 rm -r x",
            "ls # 'x\nrm -r x\n#'",
        ] {
            assert!(candidates(command).iter().any(|it| it == "rm -r x"), "{command:?}");
        }
        assert!(!candidates("echo 'a; rm -r x'").iter().any(|it| it.starts_with("rm")));
    }
}
