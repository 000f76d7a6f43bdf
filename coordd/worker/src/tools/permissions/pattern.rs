//! What the text of a `Bash` rule covers.
//!
//! ```text
//! forbids, asks   found in any spelling: order and form of options, global options, wrappers
//! allows          the words as they are written; `*` never stands for an option that runs a program or writes a file,
//!                 nor for the rest of a word: `git diff*` is `git diff` with any arguments, and not `git difftool`
//! ```

mod risks;

use self::risks::risks;
use super::reach::base_name;
use super::shell::{Part, Piece, Word, assigned_name, join};

/// A command in the forms with which rules are compared.
#[derive(Debug)]
pub(super) struct Forms {
    texts: Vec<String>,
    words: Vec<String>,
}

impl Forms {
    pub(super) fn of(part: &Part) -> Self {
        let mut words: Vec<String> = part.words.iter().map(Word::text).collect();
        let plain = join(words.iter().map(String::as_str));
        if let Some(program) = words.first_mut() {
            *program = base_name(program).to_owned();
        }
        let bare = join(words.iter().map(String::as_str));
        let mut texts = vec![part.raw(), plain, bare];
        texts.dedup();
        texts.retain(|text| !text.is_empty());
        Self { texts, words }
    }

    /// A text that is compared as it is.
    pub(super) fn text(text: &str) -> Self {
        Self { texts: vec![text.to_owned()], words: Vec::new() }
    }
}

/// `git:*` is the older spelling of `git *`.
pub(super) fn today(pattern: &str) -> String {
    pattern.strip_suffix(":*").map_or_else(|| pattern.to_owned(), |start| format!("{start} *"))
}

/// Whether a rule that forbids or asks is about a command.
pub(super) fn forbids(pattern: &str, forms: &Forms) -> bool {
    let pattern = today(pattern);
    let bare = pattern.strip_suffix(" *").filter(|start| !start.ends_with('\\'));
    let is_text = |text: &String| {
        wildcard_match(&pattern, text) || bare.is_some_and(|bare| wildcard_match(bare, text))
    };
    forms.texts.iter().any(is_text) || forbids_words(&pattern, &forms.words)
}

/// The program that a pattern names; none if it may be any.
pub(super) fn program(pattern: &str) -> Option<String> {
    let pattern = today(pattern);
    let first = pattern.split_whitespace().next()?;
    let first = first.strip_suffix('*').unwrap_or(first);
    (!first.is_empty() && !first.contains('*')).then(|| base_name(first).to_owned())
}

/// The same options in any order and form, and the same operands in the same order.
fn forbids_words(pattern: &str, command: &[String]) -> bool {
    let mut wanted: Vec<&str> = pattern.split_whitespace().collect();
    let is_open = pattern.ends_with('*') && !pattern.ends_with("\\*");
    if wanted.last() == Some(&"*") {
        wanted.pop();
    }
    let ([first, wanted @ ..], [program, arguments @ ..]) = (wanted.as_slice(), command) else {
        return false;
    };
    if first.contains('*') || base_name(first) != program {
        return false;
    }
    let (wanted_options, wanted_operands): (Vec<&str>, Vec<&str>) =
        wanted.iter().partition(|word| word.starts_with('-') && word.len() > 1);
    let options = options_of(program, arguments);
    let has = |wanted: &&str| {
        split_cluster(wanted)
            .iter()
            .all(|wanted| options.iter().any(|option| is_same(wanted, option)))
    };
    if !wanted_options.iter().all(has) {
        return false;
    }
    if !is_open {
        let wanted: Vec<String> =
            wanted_options.iter().flat_map(|option| split_cluster(option)).collect();
        let is_wanted = |option: &String| wanted.iter().any(|wanted| is_same(wanted, option));
        if !options.iter().all(is_wanted) {
            return false;
        }
    }
    has_operands(&wanted_operands, arguments, is_open)
}

/// Options one by one: `-rf` is `-r` and `-f`.
fn options_of(program: &str, arguments: &[String]) -> Vec<String> {
    let mut options = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        if word == "--" {
            break;
        }
        if word.starts_with('-') && word.len() > 1 {
            options.extend(split_cluster(word));
        } else if program == "git" && at > 0 && word.starts_with('+') {
            // `git push origin +main`
            options.push("--force".to_owned());
        }
    }
    options
}

fn split_cluster(word: &str) -> Vec<String> {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    match letters {
        Some(letters) if !letters.contains('*') => {
            letters.chars().map(|letter| format!("-{letter}")).collect()
        }
        _ => vec![word.to_owned()],
    }
}

/// Options that mean the same in most programs.
const SAME: [(&str, &str); 5] = [
    ("-r", "--recursive"),
    ("-R", "--recursive"),
    ("-f", "--force"),
    ("-d", "--delete"),
    ("-D", "--delete"),
];

fn is_same(wanted: &str, option: &str) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let long = |option: &str| {
        SAME.iter().find(|(short, _)| *short == option).map(|(_, long)| (*long).to_owned())
    };
    let is = |wanted: &str, option: &str| {
        // A long option may be cut short.
        wildcard_match(wanted, option)
            || (option.len() > 2 && option.starts_with("--") && wanted.starts_with(option))
    };
    let (wanted_long, option_long) = (long(wanted), long(name));
    is(wanted, option)
        || is(wanted, name)
        || wanted_long
            .as_deref()
            .is_some_and(|wanted| is(wanted, option_long.as_deref().unwrap_or(name)))
        || option_long.is_some_and(|option| is(wanted, &option))
}

/// Whether the operands begin with the wanted ones. A word behind an option may be its value, and is left out or not.
fn has_operands(wanted: &[&str], arguments: &[String], is_open: bool) -> bool {
    let mut states = vec![0];
    let (mut after_option, mut only_operands) = (false, false);
    for word in arguments {
        if !only_operands && word == "--" {
            only_operands = true;
            after_option = false;
            continue;
        }
        if !only_operands && word.starts_with('-') && word.len() > 1 {
            after_option = !word.contains('=');
            continue;
        }
        if is_open && states.contains(&wanted.len()) {
            return true;
        }
        let mut next = Vec::new();
        for state in states {
            if wanted.get(state).is_some_and(|wanted| wildcard_match(wanted, word)) {
                next.push(state + 1);
            }
            if after_option {
                next.push(state);
            }
        }
        next.dedup();
        states = next;
        after_option = false;
    }
    states.contains(&wanted.len())
}

/// Whether a rule allows a command as it is written, whatever variables are set for it.
pub(super) fn allows(pattern: &str, part: &Part) -> bool {
    let pattern = today(pattern);
    covers_text(&pattern, &part.raw())
        && (!has_wildcard(&pattern) || wildcards_are_harmless(&pattern, part))
}

/// The same for a rule that names the variables too.
pub(super) fn allows_with_assignments(pattern: &str, part: &Part) -> bool {
    let pattern = today(pattern);
    let names: Vec<&str> = pattern.split_whitespace().map_while(assigned_name).collect();
    let is_named = |word: &Word| assigned_name(&word.raw).is_some_and(|name| names.contains(&name));
    !part.assignments.is_empty()
        && part.assignments.iter().all(is_named)
        && part.assignments.iter().all(Word::is_literal)
        && covers_text(&pattern, &part.raw_with_assignments())
        && (!has_wildcard(&pattern) || wildcards_are_harmless(&pattern, part))
}

/// `*` at the end of a word stands for further words, behind anything else for anything.
fn covers_text(pattern: &str, text: &str) -> bool {
    let Some(start) = pattern.strip_suffix('*').filter(|start| !start.ends_with('\\')) else {
        return wildcard_match(pattern, text);
    };
    let ends_word = |last: char| last.is_alphanumeric() || matches!(last, '_' | '-');
    if start.ends_with(ends_word) {
        return wildcard_match(start, text) || wildcard_match(&format!("{start} *"), text);
    }
    let bare = start.strip_suffix(' ');
    wildcard_match(pattern, text) || bare.is_some_and(|bare| wildcard_match(bare, text))
}

fn has_wildcard(pattern: &str) -> bool {
    pieces_of(pattern).len() > 1
}

/// Whether what a wildcard stands for is only arguments: no option that runs or writes, and no word that may become one.
fn wildcards_are_harmless(pattern: &str, part: &Part) -> bool {
    let [program, arguments @ ..] = part.words.as_slice() else { return false };
    let spelled: Vec<&str> = pattern.split_whitespace().collect();
    let is_spelled = |word: &Word| !word.raw.contains('*') && spelled.contains(&word.raw.as_str());
    let leaves = |word: &Word| word.text().split('/').any(|folder| folder == "..");
    if !is_spelled(program) && (!program.is_bare() || leaves(program)) {
        return false;
    }
    let operands = arguments.iter().position(|word| word.raw == "--");
    let (options, _) = arguments.split_at(operands.unwrap_or(arguments.len()));
    if options.iter().any(|word| !is_spelled(word) && may_become_option(word)) {
        return false;
    }
    let name = program.text();
    let names_it = |risk: &String| {
        let starts = |word: &&str| {
            let name = risk.split_once('=').map_or(risk.as_str(), |(name, _)| name);
            word.starts_with(name)
        };
        spelled.iter().any(starts)
    };
    risks(base_name(&name), arguments).iter().all(names_it)
}

/// Whether a shell may turn a word into an option, or into several words.
fn may_become_option(word: &Word) -> bool {
    let is_unknown = |piece: &Piece| match piece {
        Piece::Variable(name) => !FOLDERS.contains(&name.as_str()),
        Piece::Unknown => true,
        Piece::Text(_) | Piece::Number | Piece::Home(_) | Piece::Pattern(_) => false,
    };
    let is_empty = |piece: &&Piece| matches!(piece, Piece::Text(text) if text.is_empty());
    let begins_open = match word.pieces.iter().find(|piece| !is_empty(piece)) {
        // As in `-{exec,x}`.
        Some(Piece::Text(text)) => text.starts_with('-'),
        Some(Piece::Pattern(_)) => true,
        Some(Piece::Number | Piece::Home(_) | Piece::Variable(_) | Piece::Unknown) | None => false,
    };
    word.pieces.iter().any(is_unknown) || (begins_open && !word.is_literal())
}

/// Variables that hold absolute paths.
const FOLDERS: [&str; 4] = ["HOME", "PWD", "COORDD_SCRATCHPAD", "TMPDIR"];

/// A text as a pattern that means only this text.
pub(super) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('*', "\\*")
}

/// The texts between the wildcards of a pattern.
fn pieces_of(pattern: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = character == '\\' && matches!(characters.peek(), Some('*' | '\\'));
        let character = if escaped { characters.next().unwrap_or(character) } else { character };
        if character == '*' && !escaped {
            pieces.push(String::new());
        } else if let Some(last) = pieces.last_mut() {
            last.push(character);
        }
    }
    pieces
}

/// Whether a text fits a pattern in which `*` stands for anything.
pub(super) fn wildcard_match(pattern: &str, text: &str) -> bool {
    let pieces = pieces_of(pattern);
    let [first, middle @ .., last] = pieces.as_slice() else {
        return pieces.first().is_some_and(|only| only == text);
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for piece in middle {
        let Some((_, behind)) = rest.split_once(piece.as_str()) else { return false };
        rest = behind;
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::shell::parse;
    use super::*;

    fn is_allowed(pattern: &str, command: &str) -> bool {
        let script = parse(command);
        script.opaque.is_none() && script.parts.iter().all(|part| allows(pattern, part))
    }

    fn is_forbidden(pattern: &str, command: &str) -> bool {
        parse(command).parts.iter().any(|part| forbids(pattern, &Forms::of(part)))
    }

    #[test]
    fn texts() {
        for (pattern, command, allowed, forbidden) in [
            ("git *", "git status", true, true),
            ("git *", "git", true, true),
            ("git *", "gitk", false, false),
            ("git:*", "git log", true, true),
            ("git:*", "gitk", false, false),
            ("cargo test*", "cargo test --all", true, true),
            ("cargo test*", "cargo test", true, true),
            // What allows ends with the word; what forbids does not.
            ("cargo test*", "cargo tester", false, true),
            ("cargo test", "cargo test --all", false, false),
            ("git * main", "git push main", true, true),
            ("git * main", "git push other", false, false),
            ("* --version", "rustc --version", true, true),
            ("./scripts/*", "./scripts/x y", true, true),
            ("./scripts/*", "./scripts/../x", false, true),
            ("echo \\*", "echo \\*", false, true),
            ("a*b*a", "aba", true, true),
            ("a*ba", "aba", true, true),
            ("ab*ba", "aba", false, false),
            ("rm -rf *", "rm -r -f x", false, true),
            ("rm -rf *", "rm x -fr", false, true),
            ("rm -rf *", "rm -r x", false, false),
            ("rm -rf /", "rm -fr /", false, true),
            ("rm -rf /", "rm -fr /x", false, false),
            ("rm -rf /", "rm -rfv /", false, false),
            ("git push --force*", "git push -f", false, true),
            ("git push --force*", "git push origin +main", false, true),
            ("git push --force*", "git push origin main", false, false),
            ("git push origin *", "git push -u origin main", false, true),
            ("git push origin *", "git push other origin", false, false),
        ] {
            assert_eq!(is_allowed(pattern, command), allowed, "{pattern} allows {command}");
            assert_eq!(is_forbidden(pattern, command), forbidden, "{pattern} forbids {command}");
        }
    }

    #[test]
    fn a_command_can_be_escaped_into_a_pattern_for_itself_alone() {
        for command in ["echo *", "echo \\*", "a\\", "x *", "find . -name '*.rs' | xargs rm"] {
            let pattern = escape(command);
            assert!(wildcard_match(&pattern, command), "{command}");
            assert!(!wildcard_match(&pattern, &format!("{command} x")), "{command}");
            assert!(!has_wildcard(&pattern), "{command}");
        }
    }
}
