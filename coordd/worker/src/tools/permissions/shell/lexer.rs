//! The reader of shell text. One pass; a substitution is read by the same rules, down to its closing parenthesis.

mod expansions;
mod redirections;

use super::{Flow, Part, Piece, Redirect, Script, Word, assigned_name, trim};

/// Words that begin or end a compound command.
const RESERVED: [&str; 20] = [
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "in", "function", "coproc", "{", "}", "[[", "]]",
];

/// How deep substitutions are followed. Each level is a level of this program's stack.
const DEPTH_MAX: usize = 16;

pub(in super::super) fn parse(command: &str) -> Script {
    read(command, 0)
}

fn read(command: &str, depth: usize) -> Script {
    let mut lexer = Lexer::new(trim(command), depth, false);
    lexer.run();
    lexer.script
}

#[derive(Default)]
struct Lexer<'a> {
    rest: &'a str,
    script: Script,
    part: Part,
    word: Option<Word>,
    /// The next word belongs to this redirection.
    redirect: Option<Pending>,
    /// Here-documents whose text begins with the next line.
    documents: Vec<Document>,
    depth: usize,
    /// Ends at the parenthesis that closes a substitution.
    is_inner: bool,
    /// Groups that are open.
    groups: usize,
    /// The part before ended with a pipe.
    after_pipe: bool,
}

struct Pending {
    stream: Option<String>,
    kind: Operator,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Read,
    Write,
    ReadWrite,
    /// `>&` and `<&`: a stream's number behind it, or for the first one a file.
    Copy {
        writes: bool,
    },
    HereString,
}

struct Document {
    delimiter: String,
    is_quoted: bool,
    strips_tabs: bool,
    stream: Option<String>,
}

impl<'a> Lexer<'a> {
    fn new(rest: &'a str, depth: usize, is_inner: bool) -> Self {
        Self { rest, depth, is_inner, ..Self::default() }
    }

    /// Reads to the end, or to the parenthesis that ends a substitution. Returns whether that was found.
    fn run(&mut self) -> bool {
        while let Some(character) = self.next() {
            if character == ')' && self.is_inner && self.groups == 0 {
                self.finish();
                return true;
            }
            self.step(character);
        }
        self.finish();
        false
    }

    fn finish(&mut self) {
        self.end_part();
        if !self.documents.is_empty() {
            self.unclear("a here-document without its end");
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let character = characters.next()?;
        self.rest = characters.as_str();
        Some(character)
    }

    /// Takes the text if it comes next.
    fn eat(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text) else { return false };
        self.rest = rest;
        true
    }

    /// Something that no rule about text can allow, though its parts are found.
    fn opaque(&mut self, what: &'static str) {
        self.script.opaque.get_or_insert(what);
    }

    /// Something that may mean other parts than those that are found.
    fn unclear(&mut self, what: &'static str) {
        self.opaque(what);
        self.script.is_unclear = true;
    }

    fn step(&mut self, character: char) {
        match character {
            ' ' | '\t' => self.end_word(),
            '\n' => self.line_break(),
            '&' if self.rest.starts_with('>') => self.end_word(),
            ';' | '|' | '&' => self.separator(character),
            '<' | '>' => self.redirection(character),
            '(' => {
                self.opaque("a group or function");
                self.groups += 1;
                self.end_part();
            }
            ')' => {
                self.opaque("a group or function");
                self.groups = self.groups.saturating_sub(1);
                self.end_part();
            }
            '#' if self.word.is_none() => self.comment(),
            '\'' => self.single_quoted(),
            '"' => self.double_quoted(),
            '\\' => self.escaped(),
            '$' => self.dollar(false),
            '`' => self.backticks(),
            '~' => self.tilde(),
            // An empty pair stands for itself.
            '{' if self.rest.starts_with('}') => {
                self.push('{');
                self.eat("}");
                self.push('}');
            }
            '*' | '?' | '[' | '{' => {
                self.push_raw(character);
                self.push_piece(Piece::Pattern(character));
            }
            other if other.is_control() || (other.is_whitespace() && !other.is_ascii()) => {
                self.unclear("a control character");
                self.end_word();
            }
            other => self.push(other),
        }
    }

    fn push(&mut self, character: char) {
        self.push_raw(character);
        self.push_text(character);
    }

    fn push_raw(&mut self, character: char) {
        self.word.get_or_insert_default().raw.push(character);
    }

    fn push_text(&mut self, character: char) {
        let word = self.word.get_or_insert_default();
        if let Some(Piece::Text(text)) = word.pieces.last_mut() {
            text.push(character);
        } else {
            word.pieces.push(Piece::Text(character.to_string()));
        }
    }

    fn push_piece(&mut self, piece: Piece) {
        self.word.get_or_insert_default().pieces.push(piece);
    }

    /// Adds to `raw` what was taken since the text was `before`.
    fn push_taken(&mut self, before: &str) {
        let taken = before.len() - self.rest.len();
        let taken = before.get(..taken).unwrap_or_default();
        self.word.get_or_insert_default().raw.push_str(taken);
    }

    fn line_break(&mut self) {
        self.end_part();
        for document in std::mem::take(&mut self.documents) {
            self.document_text(&document);
        }
    }

    fn separator(&mut self, character: char) {
        if character == ';' && self.rest.starts_with([';', '&']) {
            self.unclear("a case statement");
        }
        self.end_part();
        if character == '|' && !self.eat("|") {
            self.after_pipe = true;
            self.eat("&");
        }
    }

    fn comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = self.rest.get(end..).unwrap_or_default();
    }

    fn single_quoted(&mut self) {
        self.quoted_begins('\'');
        loop {
            match self.next() {
                Some('\'') => return self.push_raw('\''),
                Some(character) => self.push(character),
                None => return self.unclear("a quote without its end"),
            }
        }
    }

    /// An empty quotation is a word too.
    fn quoted_begins(&mut self, quote: char) {
        self.push_raw(quote);
        let word = self.word.get_or_insert_default();
        if word.pieces.is_empty() {
            word.pieces.push(Piece::Text(String::new()));
        }
    }

    fn double_quoted(&mut self) {
        self.quoted_begins('"');
        loop {
            match self.next() {
                Some('"') => return self.push_raw('"'),
                Some('$') => self.dollar(true),
                Some('`') => self.backticks(),
                Some('\\') if self.rest.starts_with(['$', '`', '"', '\\']) => {
                    self.push_raw('\\');
                    if let Some(character) = self.next() {
                        self.push(character);
                    }
                }
                Some('\\') if self.rest.starts_with('\n') => {
                    self.unclear("a continued line");
                    self.eat("\n");
                }
                Some(character) => self.push(character),
                None => return self.unclear("a quote without its end"),
            }
        }
    }

    fn escaped(&mut self) {
        match self.next() {
            // Between two words it is white space. In the middle of one it would join what looks apart.
            Some('\n') if self.word.is_none() && self.redirect.is_none() => {}
            Some('\n') | None => self.unclear("a continued line"),
            Some(character) => {
                self.push_raw('\\');
                self.push(character);
            }
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let Some(Pending { stream, kind }) = self.redirect.take() else {
            let is_first = self.part.words.is_empty();
            let is_assignment = is_first && assigned_name(&word.raw).is_some();
            let words =
                if is_assignment { &mut self.part.assignments } else { &mut self.part.words };
            return words.push(word);
        };
        let text = word.text();
        let number = text.strip_suffix('-').unwrap_or(&text);
        let is_stream = word.is_literal() && number.bytes().all(|byte| byte.is_ascii_digit());
        let flow = match kind {
            Operator::Read => Flow::Read,
            Operator::Write => Flow::Write,
            Operator::ReadWrite => Flow::ReadWrite,
            Operator::HereString => Flow::Text,
            Operator::Copy { .. } if is_stream => Flow::Copy,
            Operator::Copy { writes } => {
                if !writes {
                    self.unclear("a redirection of an odd form");
                }
                Flow::Write
            }
        };
        self.part.redirects.push(Redirect { stream, flow, target: word });
    }

    fn end_part(&mut self) {
        self.end_word();
        if self.redirect.take().is_some() {
            self.unclear("a redirection without a target");
        }
        let mut part = std::mem::take(&mut self.part);
        let is_piped = std::mem::take(&mut self.after_pipe);
        part.is_piped = is_piped;
        if part.assignments.is_empty() {
            take_off_prefixes(&mut part);
        }
        if part.words.first().is_some_and(|word| RESERVED.contains(&word.raw.as_str())) {
            self.opaque("a compound command");
        }
        let is_empty =
            part.words.is_empty() && part.redirects.is_empty() && part.assignments.is_empty();
        if is_empty {
            // A line may end with a pipe.
            self.after_pipe = is_piped;
        } else {
            self.script.parts.push(part);
        }
    }
}

/// `!` and `time` in front of a command change nothing about what it does.
fn take_off_prefixes(part: &mut Part) {
    while let Some(word) = part.words.first() {
        match word.raw.as_str() {
            "!" => drop(part.words.remove(0)),
            "time" => {
                part.words.remove(0);
                if part.words.first().is_some_and(|word| word.raw == "-p") {
                    part.words.remove(0);
                }
            }
            _ => break,
        }
    }
    // Assignments may stand behind them.
    while part.words.first().is_some_and(|word| assigned_name(&word.raw).is_some()) {
        part.assignments.push(part.words.remove(0));
    }
}
