//! A shell command, taken apart as far as rules need it: into parts, words and redirections.
//!
//! ```text
//! text --lexer--> Script { parts, nested, opaque }
//!                   parts    simple commands between ; | & and line breaks
//!                   nested   what runs inside of words: $(…), `…`, <(…)
//!                   opaque   what was not understood, if anything
//! ```
//!
//! This is no shell. An opaque command is never allowed by a rule about its text, and nothing in it is plain reading; its parts
//! are found as well as they can be, for rules that forbid. It must not guess in favour of a command.

mod lexer;

pub(super) use self::lexer::parse;

/// A command line, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) parts: Vec<Part>,
    /// Scripts inside of words and here-documents, which run before or beside the part that holds them.
    pub(super) nested: Vec<Script>,
    /// What in it was not understood well enough for a rule to allow it.
    pub(super) opaque: Option<&'static str>,
    /// Whether even the parts may be wrong.
    pub(super) is_unclear: bool,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// `NAME=value` in front of the program.
    pub(super) assignments: Vec<Word>,
    /// The program and its arguments.
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    /// Whether it reads what the part before it writes.
    pub(super) is_piped: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// As it is written.
    pub(super) raw: String,
    pub(super) pieces: Vec<Piece>,
}

/// A stretch of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Stands for itself; quotes are taken off.
    Text(String),
    /// `$?` and its like, which are always digits.
    Number,
    /// `~` or `~user` at the beginning of a word.
    Home(String),
    /// `$NAME` or `${NAME}`, quoted or not.
    Variable(String),
    /// A character that makes the word a pattern: `*`, `?`, `[`, `{`.
    Pattern(char),
    /// Something else that a shell expands.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    /// The number in front of it.
    pub(super) stream: Option<String>,
    pub(super) flow: Flow,
    /// A file, a stream's number, or for [`Flow::Text`] the text.
    pub(super) target: Word,
}

/// What a redirection does with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Read,
    Write,
    /// `<>`
    ReadWrite,
    /// A copy of another stream: `2>&1`.
    Copy,
    /// A here-document or here-string.
    Text,
}

impl Script {
    /// Every part, also those of nested scripts.
    pub(super) fn all_parts(&self) -> Vec<&Part> {
        let mut found: Vec<&Part> = self.parts.iter().collect();
        for script in &self.nested {
            found.extend(script.all_parts());
        }
        found
    }

    /// Whether the parts may be wrong, here or in a nested script.
    pub(super) fn is_unclear(&self) -> bool {
        self.is_unclear || self.nested.iter().any(Self::is_unclear)
    }
}

impl Part {
    /// Program and arguments as written, with single spaces.
    pub(super) fn raw(&self) -> String {
        join(self.words.iter().map(|word| word.raw.as_str()))
    }

    /// The same with the assignments in front.
    pub(super) fn raw_with_assignments(&self) -> String {
        join(self.assignments.iter().chain(&self.words).map(|word| word.raw.as_str()))
    }

    /// The program's name as a shell sees it, if its word needs no expansion.
    pub(super) fn program(&self) -> Option<String> {
        self.words.first().filter(|word| word.is_literal()).map(Word::text)
    }

    pub(super) fn is_program(&self, name: &str) -> bool {
        self.program().as_deref() == Some(name)
    }
}

impl Word {
    /// Without its quotes; what a shell expands stays as it is written, as well as it can.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Number => text.push('0'),
                Piece::Home(user) => {
                    text.push('~');
                    text.push_str(user);
                }
                Piece::Variable(name) => {
                    text.push('$');
                    text.push_str(name);
                }
                Piece::Pattern(character) => text.push(*character),
                Piece::Unknown => text.push('$'),
            }
        }
        text
    }

    /// Exactly its text, whatever the folder and the environment hold.
    pub(super) fn is_literal(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text(_) | Piece::Number))
    }

    /// Written without quotes or anything that a shell takes away.
    pub(super) fn is_bare(&self) -> bool {
        self.is_literal() && self.raw == self.text()
    }

    /// A word that is nothing but this text, as if quoted.
    pub(super) fn literal(text: &str) -> Self {
        Self { raw: text.to_owned(), pieces: vec![Piece::Text(text.to_owned())] }
    }

    /// What stands behind the first so many bytes of the text, when these are literal.
    pub(super) fn behind(&self, len: usize) -> Option<Self> {
        let [Piece::Text(first), rest @ ..] = self.pieces.as_slice() else { return None };
        let first = first.get(len..)?.to_owned();
        let pieces = std::iter::once(Piece::Text(first)).chain(rest.iter().cloned()).collect();
        Some(Self { raw: self.raw.clone(), pieces })
    }
}

impl Redirect {
    /// `2>&1`, `>&-`, or something into `/dev/null`.
    pub(super) fn is_harmless(&self) -> bool {
        let target = self.target.text();
        self.target.is_literal()
            && match self.flow {
                Flow::Copy => matches!(target.as_str(), "1" | "2" | "-"),
                Flow::Write | Flow::Read | Flow::ReadWrite => target == "/dev/null",
                Flow::Text => true,
            }
    }

    /// Bash opens a connection for these names.
    pub(super) fn is_network(&self) -> bool {
        let target = self.target.text();
        !matches!(self.flow, Flow::Text | Flow::Copy)
            && ["/dev/tcp/", "/dev/udp/"].iter().any(|folder| target.starts_with(folder))
    }
}

/// The programs that a command names, each with its arguments as far as they are plain text.
pub(crate) fn programs_of(command: &str) -> Vec<(String, Vec<String>)> {
    let script = parse(command);
    let named = |part: &Part| {
        let arguments = part.words.iter().skip(1).map(Word::text).collect();
        Some((part.program()?, arguments))
    };
    script.all_parts().into_iter().filter_map(named).collect()
}

pub(super) fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Takes off what a shell takes off, which is not all that counts as white space.
pub(super) fn trim(command: &str) -> &str {
    command.trim_matches([' ', '\t', '\n'])
}

/// The name that a word sets for the command behind it, if it does.
pub(super) fn assigned_name(raw: &str) -> Option<&str> {
    let (name, _) = raw.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let fits = !name.is_empty()
        && !name.starts_with(|character: char| character.is_ascii_digit())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    fits.then_some(name)
}

#[cfg(test)]
mod tests;
