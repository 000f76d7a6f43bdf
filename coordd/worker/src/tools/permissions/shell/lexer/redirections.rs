//! Redirections and here-documents.

use super::super::{Flow, Piece, Redirect, Word};
use super::{DEPTH_MAX, Document, Lexer, Operator, Pending, read};

impl Lexer<'_> {
    pub(super) fn redirection(&mut self, character: char) {
        if self.rest.starts_with('(') {
            self.eat("(");
            self.opaque("a process substitution");
            let inner = self.inner();
            self.script.nested.extend(inner);
            return self.push_piece(Piece::Unknown);
        }
        // A number right before it says which stream, and is no word.
        let is_stream = |word: &mut Word| {
            !word.raw.is_empty() && word.raw.bytes().all(|byte| byte.is_ascii_digit())
        };
        let stream = self.word.take_if(is_stream).map(|word| word.raw);
        self.end_word();
        if self.redirect.is_some() {
            self.unclear("a redirection without a target");
        }
        let kind = match character {
            '<' if self.eat("<<") => Operator::HereString,
            '<' if self.eat("<") => return self.document(stream),
            '<' if self.eat("&") => Operator::Copy { writes: false },
            '<' if self.eat(">") => Operator::ReadWrite,
            '<' => Operator::Read,
            _ if self.eat("&") => Operator::Copy { writes: true },
            _ => {
                let _ = self.eat(">") || self.eat("|");
                Operator::Write
            }
        };
        self.redirect = Some(Pending { stream, kind });
    }

    /// Behind `<<`: the word that will end the text.
    pub(super) fn document(&mut self, stream: Option<String>) {
        let strips_tabs = self.eat("-");
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let (mut delimiter, mut quote, mut is_quoted) = (String::new(), None, false);
        while let Some(character) = self.rest.chars().next() {
            if quote.is_none() && " \t\n;|&<>()".contains(character) {
                break;
            }
            self.next();
            match (character, quote) {
                ('\'' | '"', None) => (quote, is_quoted) = (Some(character), true),
                (_, Some(open)) if open == character => quote = None,
                ('\\', None) => {
                    is_quoted = true;
                    delimiter.extend(self.next());
                }
                ('$' | '`' | '\\' | '\n', _) => self.unclear("a here-document of an odd form"),
                _ => delimiter.push(character),
            }
        }
        if delimiter.is_empty() || quote.is_some() || delimiter.contains('\n') {
            self.unclear("a here-document of an odd form");
        }
        self.documents.push(Document { delimiter, is_quoted, strips_tabs, stream });
        // It belongs to the part that is being read; its text comes later.
        let flow = Flow::Text;
        let target = Word::default();
        self.part.redirects.push(Redirect { stream: None, flow, target });
    }

    pub(super) fn document_text(&mut self, document: &Document) {
        let mut text = String::new();
        loop {
            if self.rest.is_empty() {
                self.unclear("a here-document without its end");
                break;
            }
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            let shown = if document.strips_tabs { line.trim_start_matches('\t') } else { line };
            // Bash also ends it at the parenthesis that closes a substitution.
            if self.is_inner
                && shown
                    .strip_prefix(&document.delimiter)
                    .is_some_and(|behind| behind.starts_with(')'))
            {
                self.unclear("a here-document of an odd form");
            }
            self.rest = rest;
            if shown == document.delimiter {
                break;
            }
            text.push_str(shown);
            text.push('\n');
        }
        let is_expanded = !document.is_quoted && text.contains(['$', '`', '\\']);
        if is_expanded {
            self.opaque("a here-document with expansions");
            if self.depth < DEPTH_MAX {
                // Its substitutions run; the words around them do not, and do no harm here.
                self.script.nested.push(read(&text, self.depth + 1));
            }
        }
        self.fill_document(document, &text);
    }

    /// Gives the text to the first here-document that still has none.
    pub(super) fn fill_document(&mut self, document: &Document, text: &str) {
        let parts = self.script.parts.iter_mut();
        let mut open = parts.flat_map(|part| part.redirects.iter_mut());
        let found =
            open.find(|redirect| redirect.flow == Flow::Text && redirect.target.pieces.is_empty());
        match found {
            Some(redirect) => {
                redirect.target = Word::literal(text);
                redirect.stream.clone_from(&document.stream);
            }
            None => self.unclear("a here-document of an odd form"),
        }
    }
}
