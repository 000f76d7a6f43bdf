//! What a shell puts into words: `~`, variables, substitutions, `$'…'`.

use super::super::{Flow, Part, Piece, Redirect, Script};
use super::{DEPTH_MAX, Lexer, read};

/// Special parameters whose value is always a number; `$!` may be nothing.
const NUMBERS: [char; 3] = ['?', '#', '$'];

impl<'a> Lexer<'a> {
    pub(super) fn tilde(&mut self) {
        let Some(word) = &self.word else {
            let len = self.rest.find(|character: char| !is_user(character));
            let (user, rest) = self.rest.split_at(len.unwrap_or(self.rest.len()));
            self.rest = rest;
            // Quotes in it switch it off, variables too.
            let is_clear =
                rest.is_empty() || rest.starts_with(|next: char| "/ \t\n;|&<>()".contains(next));
            let piece = if is_clear { Piece::Home(user.to_owned()) } else { Piece::Unknown };
            self.push_raw('~');
            self.word.get_or_insert_default().raw.push_str(user);
            return self.push_piece(piece);
        };
        if word.raw.ends_with(['=', ':']) {
            self.push_raw('~');
            return self.push_piece(Piece::Unknown);
        }
        self.push('~');
    }

    pub(super) fn dollar(&mut self, quoted: bool) {
        let before = self.rest;
        self.push_raw('$');
        if self.eat("(") {
            self.substitution(before, quoted);
        } else if self.rest.starts_with('\'') && !quoted {
            self.ansi_quoted(before);
        } else if self.rest.starts_with('[') || (self.rest.starts_with('"') && !quoted) {
            self.unclear("a special quotation");
            self.push_piece(Piece::Unknown);
        } else if self.eat("{") {
            self.parameter(before);
        } else if self.rest.starts_with("\\\n") {
            self.unclear("a continued line");
        } else if self.rest.starts_with(NUMBERS) {
            self.next();
            self.push_taken(before);
            self.push_piece(Piece::Number);
        } else {
            let len = self.rest.find(|character: char| !is_name(character));
            let mut len = len.unwrap_or(self.rest.len());
            if self.rest.starts_with(|first: char| first.is_ascii_digit() || "@*-!".contains(first))
            {
                len = 1;
            }
            let (name, rest) = self.rest.split_at(len);
            self.rest = rest;
            self.push_taken(before);
            let piece = Piece::Variable(name.to_owned());
            self.push_piece(if name.is_empty() { Piece::Text("$".to_owned()) } else { piece });
        }
    }

    /// Behind `${`.
    pub(super) fn parameter(&mut self, before: &'a str) {
        let inside = self.rest.split_once('}').map_or("", |(inside, _)| inside);
        let piece = if inside == "PIPESTATUS[0]" {
            Piece::Variable("PIPESTATUS".to_owned())
        } else if !inside.is_empty() && inside.chars().all(is_name) {
            Piece::Variable(inside.to_owned())
        } else {
            Piece::Unknown
        };
        if piece == Piece::Unknown {
            self.unclear("a special expansion");
            // Commands may hide in it; the rest is read on as if it were words.
            return self.push_piece(piece);
        }
        self.rest = self.rest.get(inside.len() + 1..).unwrap_or_default();
        self.push_taken(before);
        self.push_piece(piece);
    }

    /// Behind `$(`. The message idiom `"$(cat <<'EOF' … EOF)"` is as good as its text.
    pub(super) fn substitution(&mut self, before: &'a str, quoted: bool) {
        let inner = self.inner();
        self.push_taken(before);
        let message = inner.as_ref().filter(|_| quoted).and_then(document_alone);
        if let Some(text) = message {
            self.push_piece(Piece::Text(text.trim_end_matches('\n').to_owned()));
        } else {
            self.opaque("a command substitution");
            self.push_piece(Piece::Unknown);
        }
        self.script.nested.extend(inner);
    }

    /// A script that ends with the next `)` of its own.
    pub(super) fn inner(&mut self) -> Option<Script> {
        if self.depth >= DEPTH_MAX {
            self.unclear("too deep a substitution");
            self.rest = "";
            return None;
        }
        let mut lexer = Lexer::new(self.rest, self.depth + 1, true);
        let is_closed = lexer.run();
        self.rest = lexer.rest;
        let script = lexer.script;
        if !is_closed {
            self.unclear("a substitution without its end");
        }
        Some(script)
    }

    pub(super) fn backticks(&mut self) {
        self.opaque("a command substitution");
        let mut text = String::new();
        loop {
            match self.next() {
                Some('`') | None => break,
                Some('\\') if self.rest.starts_with(['`', '\\', '$']) => text.extend(self.next()),
                Some(character) => text.push(character),
            }
        }
        if self.depth < DEPTH_MAX {
            self.script.nested.push(read(&text, self.depth + 1));
        }
        self.push_raw('`');
        self.push_piece(Piece::Unknown);
    }

    /// `$'…'`, at its quote.
    pub(super) fn ansi_quoted(&mut self, before: &'a str) {
        self.eat("'");
        let mut text = String::new();
        loop {
            match self.next() {
                Some('\'') => break,
                Some('\\') => match self.ansi_escape() {
                    Some(character) => text.push(character),
                    None => self.unclear("a special quotation"),
                },
                Some(character) => text.push(character),
                None => {
                    self.unclear("a quote without its end");
                    break;
                }
            }
        }
        self.push_taken(before);
        self.push_piece(Piece::Text(text));
    }

    /// What an escape stands for, when that is one ASCII character.
    pub(super) fn ansi_escape(&mut self) -> Option<char> {
        let digits = |text: &str, radix: u32, max: usize| {
            text.chars().take(max).take_while(|digit| digit.is_digit(radix)).count()
        };
        let (radix, skipped, max) = match self.rest.chars().next()? {
            'x' => (16, 1, 2),
            'u' => (16, 1, 4),
            'U' => (16, 1, 8),
            '0'..='7' => (8, 0, 3),
            letter => {
                self.next();
                return match letter {
                    'n' => Some('\n'),
                    't' => Some('\t'),
                    '\\' | '\'' | '"' | '?' => Some(letter),
                    _ => None,
                };
            }
        };
        let behind = self.rest.get(skipped..)?;
        let len = digits(behind, radix, max);
        let (number, rest) = behind.split_at(len);
        self.rest = rest;
        let code = u32::from_str_radix(number, radix).ok()?;
        char::from_u32(code).filter(|character| character.is_ascii() && !character.is_control())
    }
}

/// The text of `cat <<'EOF'`, when that is all that a script does.
fn document_alone(script: &Script) -> Option<String> {
    let [Part { assignments, words, redirects, .. }] = script.parts.as_slice() else { return None };
    let ([program], [Redirect { stream: None, flow: Flow::Text, target }]) =
        (words.as_slice(), redirects.as_slice())
    else {
        return None;
    };
    let is_plain = script.opaque.is_none() && script.nested.is_empty() && assignments.is_empty();
    (is_plain && program.raw == "cat" && target.is_literal()).then(|| target.text())
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn is_user(character: char) -> bool {
    is_name(character) || matches!(character, '.' | '+' | '-')
}
