//! A question as it is drawn: who asks, what would run, where, why, and what each answer means.
//!
//! All of what is answered for is shown, or counted with the way to see it. It draws and decides nothing; the line view, `permit
//! show` and whatever comes later use the same card.

use proto::agent::{Change, Place, Question};
use proto::view::{DeniedView, PermissionView};
use serde_json::Value;

use super::visible::Marks;
use crate::terminal::{Paint, Style, line};
use crate::{format, push};

/// Rows of one text that are drawn unless all of it is wanted: a screen with its question and its answers still fits.
const ROWS_MAX: usize = 30;
/// Of a text that has more: its first and its last ones. An end tells as much as a beginning.
const HEAD_ROWS: usize = 18;
const TAIL_ROWS: usize = 10;
/// Empty lines that are drawn one by one; more of them only push the rest out of sight.
const EMPTY_ROWS_MAX: usize = 2;
/// Below so many columns a line is not broken: nothing would be readable.
const COLUMNS_MIN: usize = 20;

/// How it is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) style: Style,
    pub(crate) now_ms: u64,
    /// Nothing is folded.
    pub(crate) whole: bool,
    pub(crate) answered: Answered,
}

/// Where it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// At the input below; so many others wait.
    Here { others: usize },
    /// By another command.
    Elsewhere,
}

/// The whole card.
pub(crate) fn draw(question: &PermissionView, look: Look) -> String {
    let mut card =
        Card { look, marks: Marks::default(), id: line(&question.id), out: String::new() };
    card.head(question);
    card.body(&question.question);
    card.facts(question);
    card.answers(question);
    card.out
}

/// Agent and call on one line, for lists and for the echo of an answer.
pub(crate) fn short(question: &Question) -> String {
    let mut marks = Marks::default();
    let tool = marks.one_line(&question.tool);
    match main_field(question) {
        Some((_, text)) => format!("{tool} {}", marks.one_line(text)),
        None => format!("{tool} {}", marks.one_line(&question.input.0.to_string())),
    }
}

/// Any text of an agent's on one line, with nothing of it hidden.
pub(crate) fn one_line(text: &str) -> String {
    Marks::default().one_line(text)
}

/// The field that says most of what would happen.
fn main_field(question: &Question) -> Option<(&'static str, &str)> {
    let known = ["command", "file_path", "notebook_path", "path", "url"];
    known.iter().find_map(|name| Some((*name, question.input.0.get(name)?.as_str()?)))
}

struct Card {
    look: Look,
    marks: Marks,
    id: String,
    out: String,
}

impl Card {
    fn line(&mut self, text: &str) {
        push!(self.out, "{text}\n");
    }

    fn aside(&mut self, paint: Paint, text: &str) {
        let text = self.look.style.paint(paint, text);
        self.line(&format!("  {text}"));
    }

    fn head(&mut self, it: &PermissionView) {
        let mut what = self.marks.one_line(&it.question.tool);
        if let Some((name, path)) = main_field(&it.question)
            && name != "command"
        {
            push!(what, " {}", self.marks.one_line(path));
        }
        if let Some(change) = &it.question.shown.change {
            let new = if change.is_new { ", a new file" } else { "" };
            push!(what, "  (+{} −{}{new})", change.added, change.removed);
        }
        let head = format!("? {}  {} asks: {what}", self.id, line(&it.agent));
        let head = self.look.style.paint(Paint::Warn, &head);
        self.line(&head);
    }

    /// Every field of the call, the telling ones first.
    fn body(&mut self, question: &Question) {
        let Value::Object(fields) = &question.input.0 else {
            self.text(&question.input.0.to_string());
            return;
        };
        let main = main_field(question).map(|(name, _)| name);
        if let Some(Value::String(command)) = fields.get("command") {
            self.text(command);
        }
        let told_by_change: &[&str] = match &question.shown.change {
            Some(change) => {
                self.change(change);
                // A call that will fail has no diff; then its own texts are all that there is.
                if change.diff.is_empty() { &[] } else { &["old_string", "new_string", "content"] }
            }
            None => &[],
        };
        for (name, value) in fields {
            if main == Some(name.as_str()) || told_by_change.contains(&name.as_str()) {
                continue;
            }
            self.field(name, value);
        }
    }

    fn field(&mut self, name: &str, value: &Value) {
        let name = self.marks.one_line(name);
        match value {
            Value::String(text) if text.contains('\n') => {
                self.aside(Paint::Faint, &format!("{name}:"));
                self.text(text);
            }
            Value::String(text) => {
                let text = self.marks.one_line(text);
                self.folded(&format!("{name}: "), &text);
            }
            Value::Object(_)
            | Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_) => {
                let text = self.marks.one_line(&value.to_string());
                self.folded(&format!("{name}: "), &text);
            }
        }
    }

    /// A field on one line, broken where the terminal ends.
    fn folded(&mut self, label: &str, text: &str) {
        let rows =
            Marks::default().rows(&format!("{label}{text}"), self.columns(2), Style::default());
        let rows: Vec<String> = rows.into_iter().map(|row| format!("  {row}")).collect();
        self.fold(&rows, "row");
    }

    fn columns(&self, taken: usize) -> usize {
        self.look.style.columns.checked_sub(taken).filter(|left| *left >= COLUMNS_MIN).unwrap_or(0)
    }

    /// A text with its lines. Where there are several each has its number, so that a break of ours is not taken for one of its own.
    fn text(&mut self, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let lines: Vec<&str> = text.split('\n').collect();
        let digits = if lines.len() > 1 { lines.len().to_string().len() } else { 0 };
        let columns = self.columns(digits + 5);
        let style = self.look.style;
        let mut rows = Vec::new();
        let mut at = 0;
        while let Some(text) = lines.get(at) {
            let empty = lines.iter().skip(at).take_while(|it| it.trim().is_empty()).count();
            if empty > EMPTY_ROWS_MAX {
                let note = style.paint(Paint::Warn, &format!("⋯ {empty} empty lines"));
                rows.push(format!("  {:digits$} {note}", ""));
                at += empty;
                continue;
            }
            at += 1;
            let number = if digits > 0 { at.to_string() } else { String::new() };
            for (place, row) in self.marks.rows(text, columns, style).into_iter().enumerate() {
                let (number, bar) = if place == 0 { (number.as_str(), '│') } else { ("", '┊') };
                rows.push(format!("  {number:>digits$} {bar} {row}"));
            }
        }
        let unit = if lines.len() > 1 { "line" } else { "row" };
        self.fold(&rows, unit);
    }

    fn lines(&mut self, rows: &[String]) {
        for row in rows {
            self.line(row);
        }
    }

    fn fold(&mut self, rows: &[String], unit: &str) {
        let hidden = rows.len().saturating_sub(HEAD_ROWS + TAIL_ROWS);
        if self.look.whole || rows.len() <= ROWS_MAX {
            return self.lines(rows);
        }
        self.lines(rows.get(..HEAD_ROWS).unwrap_or_default());
        let all = match self.look.answered {
            Answered::Here { .. } => format!("/show {}", self.id),
            Answered::Elsewhere => format!("coordctl permit show {}", self.id),
        };
        let count = format::count(hidden as u64, unit);
        let note = format!("⋯ {count} not shown here; `{all}` shows all");
        self.aside(Paint::Warn, &note);
        self.lines(rows.get(HEAD_ROWS + hidden..).unwrap_or_default());
    }

    fn change(&mut self, change: &Change) {
        let style = self.look.style;
        let columns = self.columns(4);
        let mut rows = Vec::new();
        for text in change.diff.lines() {
            let paint = match text.chars().next() {
                Some('+') => Paint::Good,
                Some('-') => Paint::Bad,
                Some('@') => Paint::Faint,
                Some(_) | None => Paint::Strong,
            };
            for (place, row) in
                self.marks.rows(text, columns, Style::default()).into_iter().enumerate()
            {
                let bar = if place == 0 { '│' } else { '┊' };
                let is_context = text.starts_with(' ');
                let row = if is_context { row } else { style.paint(paint, &row) };
                rows.push(format!("  {bar} {row}"));
            }
        }
        self.fold(&rows, "line");
        if change.left_out > 0 {
            let count = format::count(u64::from(change.left_out), "line");
            let note = format!("⋯ {count} of the change are cut: the question does not hold them");
            self.aside(Paint::Warn, &note);
        }
        if !change.note.is_empty() {
            let note = self.marks.one_line(&change.note);
            self.aside(Paint::Warn, &note);
        }
    }

    fn facts(&mut self, it: &PermissionView) {
        let place = place(it.question.shown.place);
        let cwd = self.marks.one_line(&it.cwd);
        let place = if place.is_empty() { String::new() } else { format!(", {place}") };
        self.aside(Paint::Faint, &format!("in {cwd}{place}"));
        let reason = self.marks.one_line(&it.question.reason);
        if !reason.is_empty() {
            self.aside(Paint::Faint, &format!("why: {reason}"));
        }
        for denied in &it.denied {
            let text = self.denied(denied);
            self.aside(Paint::Bad, &text);
        }
        let said = self.marks.say();
        if !said.is_empty() {
            self.aside(Paint::Bad, &said);
        }
    }

    /// fR11: what was said about the same before.
    fn denied(&mut self, it: &DeniedView) -> String {
        let what = if it.same { "denied" } else { "one like it was denied" };
        let ago = format::ago(self.look.now_ms, it.at_ms);
        let reason = if it.reason.is_empty() {
            String::new()
        } else {
            format!(": “{}”", self.marks.one_line(&it.reason))
        };
        format!("{what} {ago}, for {}{reason}", line(&it.agent))
    }

    fn answers(&mut self, it: &PermissionView) {
        let rule = Marks::default().one_line(&it.question.rule);
        let also = it.covers.iter().map(|id| line(id)).collect::<Vec<_>>().join(", ");
        let also = if also.is_empty() { also } else { format!("; that answers {also} too") };
        match self.look.answered {
            Answered::Here { others } => {
                self.aside(Paint::Strong, "y  yes, this once");
                if rule.is_empty() {
                    self.aside(Paint::Faint, "   (no rule can allow this, so there is no always)");
                } else {
                    let text = format!("a  yes, and {rule} for the whole session{also}");
                    self.aside(Paint::Strong, &text);
                }
                self.aside(
                    Paint::Strong,
                    "n  no                (a note goes with it: n use make check)",
                );
                if others > 0 {
                    let count = format::count(others as u64, "other question");
                    let verb = if others == 1 { "waits" } else { "wait" };
                    self.aside(
                        Paint::Faint,
                        &format!("{count} {verb}: this one is answered first"),
                    );
                }
            }
            Answered::Elsewhere => {
                let id = self.id.clone();
                let always = if rule.is_empty() { "" } else { " [--always]" };
                let text = format!(
                    "coordctl permit allow {id}{always}, or coordctl permit deny {id} [--note TEXT]"
                );
                self.aside(Paint::Faint, &text);
                if !rule.is_empty() {
                    let text = format!("--always: {rule} for the whole session{also}");
                    self.aside(Paint::Faint, &text);
                }
            }
        }
    }
}

/// What holds the call, in a few words; nothing where that is not known.
fn place(place: Place) -> &'static str {
    match place {
        Place::Unsaid => "",
        Place::Boxed => "in the sandbox",
        Place::Unboxed => "not in a sandbox",
        Place::Leaves => "OUTSIDE the sandbox: it may do all that you may",
    }
}

#[cfg(test)]
pub(crate) mod tests;
