//! A change to one entry of a JSON file, made in its text: everything else keeps its bytes, its
//! order, its spaces and its comments.
//!
//! jsonc-parser says where things are; and what comes out is read again and compared with what it
//! is to say.

use std::ops::Range;

use jsonc_parser::ast::{self, ObjectProp};
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast, parse_to_serde_value,
};
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value};

/// What a program takes for JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Strict,
    /// With comments, and with commas behind the last of something.
    Jsonc,
}

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonError {
    #[error("it is no JSON ({0})")]
    NoJson(String),
    #[error("`{0}` in it is not an object")]
    NoObject(String),
    #[error("the change cannot be made without changing something else")]
    Unsure,
}

impl Dialect {
    fn options(self) -> ParseOptions {
        let is_loose = self == Self::Jsonc;
        ParseOptions {
            allow_comments: is_loose,
            allow_trailing_commas: is_loose,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        }
    }

    /// What a text says.
    fn read(self, text: &str) -> Result<Value, JsonError> {
        let no_json = |error: &dyn std::fmt::Display| JsonError::NoJson(error.to_string());
        match self {
            Self::Strict => serde_json::from_str(text).map_err(|error| no_json(&error)),
            Self::Jsonc => {
                parse_to_serde_value(text, &self.options()).map_err(|error| no_json(&error))
            }
        }
    }
}

/// The file's text with `container.name` set to `value`, or taken out for none.
pub(super) fn with_entry(
    text: &str,
    dialect: Dialect,
    (container, name): (&str, &str),
    value: Option<&Value>,
) -> Result<String, JsonError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let wanted = changed(dialect.read(text)?, container, name, value)?;
    let file = File::read(text, dialect)?;
    let after = match value {
        Some(value) => file.set(container, name, value),
        None => file.remove(container, name),
    };
    let after = after.ok_or(JsonError::Unsure)?;
    let is_right = dialect.read(&after).is_ok_and(|says| says == wanted);
    if is_right { Ok(after) } else { Err(JsonError::Unsure) }
}

/// The entry as it is.
pub(super) fn entry(
    text: &str,
    dialect: Dialect,
    (container, name): (&str, &str),
) -> Result<Option<Value>, JsonError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value = dialect.read(text)?;
    Ok(value.get(container).and_then(|of| of.get(name)).cloned())
}

/// What the file is to say.
fn changed(
    mut all: Value,
    container: &str,
    name: &str,
    value: Option<&Value>,
) -> Result<Value, JsonError> {
    let root = all.as_object_mut().ok_or_else(|| JsonError::NoObject("the whole".to_owned()))?;
    if value.is_none() && !root.contains_key(container) {
        return Ok(all);
    }
    let of = root.entry(container).or_insert_with(|| Value::Object(Map::new()));
    let of = of.as_object_mut().ok_or_else(|| JsonError::NoObject(container.to_owned()))?;
    match value {
        Some(value) => drop(of.insert(name.to_owned(), value.clone())),
        None => drop(of.shift_remove(name)),
    }
    Ok(all)
}

/// A text with what stands where in it.
struct File<'a> {
    text: &'a str,
    root: ast::Object<'a>,
    /// With the comments.
    tokens: Vec<TokenAndRange<'a>>,
}

/// The last one counts where a name is there twice.
fn find<'o, 'a>(of: &'o ast::Object<'a>, name: &str) -> Option<(usize, &'o ObjectProp<'a>)> {
    of.properties.iter().enumerate().rev().find(|(_, member)| member.name.as_str() == name)
}

fn end_of(member: &ObjectProp<'_>) -> usize {
    member.range.end
}

fn is_comment(token: &Token<'_>) -> bool {
    matches!(token, Token::CommentLine(_) | Token::CommentBlock(_))
}

/// How the file is laid out.
struct Layout<'a> {
    newline: &'a str,
    /// One step of indentation; none where all is in one line.
    step: Option<&'a str>,
}

impl<'a> Layout<'a> {
    fn of(file: &File<'a>) -> Self {
        let (text, root) = (file.text, &file.root);
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let Some(first) = root.properties.first() else {
            return Self { newline, step: Some("  ") };
        };
        let gap = text.get(root.range.start + 1..first.range.start).unwrap_or_default();
        let step = gap.rsplit_once('\n').map(|(_, step)| if step.is_empty() { "  " } else { step });
        Self { newline, step }
    }

    /// A line break and the indentation of that depth.
    fn begin(&self, depth: usize) -> String {
        self.step.map(|step| format!("{}{}", self.newline, step.repeat(depth))).unwrap_or_default()
    }

    fn value(&self, value: &Value, depth: usize) -> Option<String> {
        let Some(step) = self.step else { return serde_json::to_string(value).ok() };
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(step.as_bytes());
        let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
        serde::Serialize::serialize(value, &mut serializer).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        Some(text.replace('\n', &self.begin(depth)))
    }

    fn member(&self, name: &str, value: &Value, depth: usize) -> Option<String> {
        let name = serde_json::to_string(name).ok()?;
        let gap = if self.step.is_some() { " " } else { "" };
        Some(format!("{name}:{gap}{}", self.value(value, depth)?))
    }
}

impl<'a> File<'a> {
    fn read(text: &'a str, dialect: Dialect) -> Result<Self, JsonError> {
        let collect =
            CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed = parse_to_ast(text, &collect, &dialect.options())
            .map_err(|error| JsonError::NoJson(error.to_string()))?;
        let Some(ast::Value::Object(root)) = parsed.value else {
            return Err(JsonError::NoObject("the whole".to_owned()));
        };
        Ok(Self { text, root, tokens: parsed.tokens.unwrap_or_default() })
    }

    fn set(&self, container: &str, name: &str, value: &Value) -> Option<String> {
        let layout = Layout::of(self);
        let Some((_, found)) = find(&self.root, container) else {
            let inner = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
            return self.insert(&self.root, &layout, 1, &layout.member(container, &inner, 1)?);
        };
        let of = found.value.as_object()?;
        match find(of, name) {
            Some((_, member)) => {
                let value_start = ast_range(&member.value).start;
                self.replace(&[(value_start..end_of(member), &layout.value(value, 2)?)])
            }
            None => self.insert(of, &layout, 2, &layout.member(name, value, 2)?),
        }
    }

    /// Puts a member behind the last one, and behind what is said of that one in its line.
    fn insert(
        &self,
        of: &ast::Object<'_>,
        layout: &Layout<'_>,
        depth: usize,
        member: &str,
    ) -> Option<String> {
        let (begin, end) = (layout.begin(depth), layout.begin(depth - 1));
        let inside_end = of.range.end - 1;
        let Some(last) = of.properties.last() else {
            let after = self.comments_end(of.range.start + 1..inside_end);
            return self.replace(&[(after..inside_end, &format!("{begin}{member}{end}"))]);
        };
        let gap = end_of(last)..inside_end;
        let own_line = self.text.get(gap.clone())?.find('\n').map_or(gap.end, |at| gap.start + at);
        if let Some(comma) = self.comma(&gap) {
            let at = self.comments_end(comma.end..own_line.max(comma.end));
            return self.replace(&[(at..at, &format!("{begin}{member},"))]);
        }
        let at = self.comments_end(gap.start..own_line);
        self.replace(&[(gap.start..gap.start, ","), (at..at, &format!("{begin}{member}"))])
    }

    fn remove(&self, container: &str, name: &str) -> Option<String> {
        let unchanged = || Some(self.text.to_owned());
        let Some((_, found)) = find(&self.root, container) else { return unchanged() };
        let of = found.value.as_object()?;
        let Some((at, member)) = find(of, name) else { return unchanged() };
        let before = at.checked_sub(1).and_then(|at| of.properties.get(at));
        let next = of.properties.get(at + 1);
        let gap_before = before.map_or(of.range.start + 1, end_of)..member.range.start;
        let gap_after = end_of(member)..next.map_or(of.range.end - 1, |next| next.range.start);
        if self.has_comment(&gap_before) || self.has_comment(&gap_after) {
            let comma = match self.comma(&gap_after) {
                Some(comma) => Some(comma),
                None => self.comma(&gap_before),
            };
            // Its line goes, where it has one of its own.
            let begins = self.text.get(gap_before.clone())?.trim_end_matches([' ', '\t']);
            let begins = begins.strip_suffix('\n').map(|it| it.strip_suffix('\r').unwrap_or(it));
            let start = begins.map_or(gap_before.end, |begins| gap_before.start + begins.len());
            let mut cuts = vec![(start..end_of(member), "")];
            cuts.extend(comma.map(|comma| (comma, "")));
            cuts.sort_by_key(|(range, _)| range.start);
            return self.replace(&cuts);
        }
        let range = match (before, next) {
            (Some(before), _) => end_of(before)..end_of(member),
            (None, Some(next)) => member.range.start..next.range.start,
            (None, None) => of.range.start + 1..of.range.end - 1,
        };
        self.replace(&[(range, "")])
    }

    fn tokens_in(&self, range: &Range<usize>) -> impl Iterator<Item = &TokenAndRange<'a>> {
        let (start, end) = (range.start, range.end);
        self.tokens.iter().filter(move |token| start <= token.range.start && token.range.end <= end)
    }

    fn has_comment(&self, range: &Range<usize>) -> bool {
        self.tokens_in(range).any(|token| is_comment(&token.token))
    }

    fn comma(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let comma = self.tokens_in(range).find(|token| token.token == Token::Comma)?;
        Some(comma.range.start..comma.range.end)
    }

    /// Behind the last comment that begins in this range; its start where there is none.
    fn comments_end(&self, range: Range<usize>) -> usize {
        let begins = |token: &&TokenAndRange<'_>| {
            is_comment(&token.token) && range.contains(&token.range.start)
        };
        self.tokens.iter().filter(begins).map(|token| token.range.end).max().unwrap_or(range.start)
    }

    /// The text with these ranges replaced; they are in order.
    fn replace(&self, changes: &[(Range<usize>, &str)]) -> Option<String> {
        let (mut out, mut from) = (String::with_capacity(self.text.len()), 0);
        for (range, with) in changes {
            out.push_str(self.text.get(from..range.start)?);
            out.push_str(with);
            from = range.end;
        }
        out.push_str(self.text.get(from..)?);
        Some(out)
    }
}

fn ast_range(value: &ast::Value<'_>) -> jsonc_parser::common::Range {
    use jsonc_parser::common::Ranged as _;
    value.range()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ENTRY: (&str, &str) = ("mcpServers", "coordd");

    fn put(text: &str) -> Result<String, JsonError> {
        put_as(text, Dialect::Strict)
    }

    fn take(text: &str) -> Result<String, JsonError> {
        with_entry(text, Dialect::Strict, ENTRY, None)
    }

    fn put_as(text: &str, dialect: Dialect) -> Result<String, JsonError> {
        with_entry(text, dialect, ENTRY, Some(&json!({ "command": "c", "args": ["mcp"] })))
    }

    #[test]
    fn l4_comments_and_commas_survive_in_both_directions() {
        let compact = |text: &str| {
            text.replace("\n      ", "").replace("\n    }", "}").replace("  \"mcp\"]", "\"mcp\"]")
        };
        for (before, says) in [
            (
                "{\n  // servers\n  \"mcpServers\": {\n    \"a\": 1 // about a\n    // the end\n  }\n}\n",
                "\"a\": 1, // about a\n    \"coordd\"",
            ),
            (
                "{\n  \"mcpServers\": {\n    \"a\": 1, /* about a */\n    // the end\n  },\n}\n",
                "\"a\": 1, /* about a */\n    \"coordd\"",
            ),
            ("{\n  \"mcpServers\": {\n    // none yet\n  }\n}\n", "// none yet\n    \"coordd\""),
            (
                "{\n  \"theme\": \"//no comment\", // dark, or so\n}\n",
                "// dark, or so\n  \"mcpServers\"",
            ),
            ("// mine\n{}\n// the end\n", "// mine\n{\n  \"mcpServers\""),
        ] {
            let after = put_as(before, Dialect::Jsonc).unwrap();
            assert!(after.contains(says), "{before}gave\n{after}");
            for comment in ["servers", "about a", "the end", "none yet", "dark, or so", "mine"] {
                assert_eq!(before.contains(comment), after.contains(comment), "{after}");
            }
            let value = entry(&after, Dialect::Jsonc, ENTRY).unwrap().unwrap();
            assert_eq!(value["command"], "c", "{}", compact(&after));
            let without = with_entry(&after, Dialect::Jsonc, ENTRY, None).unwrap();
            assert_eq!(entry(&without, Dialect::Jsonc, ENTRY).unwrap(), None);
            let lines = |text: &str| {
                text.lines().filter(|line| line.contains("//") || line.contains("/*")).count()
            };
            assert_eq!(lines(&without), lines(before), "{before}gave\n{after}and then\n{without}");
            assert_eq!(put_as(&without, Dialect::Jsonc).map(|_| ()), Ok(()), "{without}");
        }
    }

    #[test]
    fn l4_an_entry_between_comments_is_replaced_and_taken_out() {
        let text = "{\n  \"mcpServers\": {\n    // one\n    \"a\": 1, // of a\n    \"coordd\": {\"old\": true}, // of ours\n    // two\n    \"b\": 2\n  }\n}\n";
        let after = put_as(text, Dialect::Jsonc).unwrap();
        let is_kept = |text: &str| {
            ["// one", "// of a", "// two", "\"a\": 1", "\"b\": 2"]
                .iter()
                .all(|it| text.contains(it))
        };
        assert!(is_kept(&after) && !after.contains("old"), "{after}");
        let without = with_entry(&after, Dialect::Jsonc, ENTRY, None).unwrap();
        assert!(is_kept(&without) && !without.contains("coordd"), "{without}");
        assert_eq!(with_entry(text, Dialect::Jsonc, ENTRY, None).unwrap(), without);
        // Looseness of other kinds is nobody's.
        for bad in ["{a: 1}", "{'a': 1}", "{\"a\": 1 \"b\": 2}", "{\"a\": 0x1}", "{} {}"] {
            assert!(matches!(put_as(bad, Dialect::Jsonc), Err(JsonError::NoJson(_))), "{bad}");
        }
    }

    #[test]
    fn l4_an_entry_is_put_where_it_belongs_and_all_else_keeps_its_bytes() {
        let new = "{\n  \"mcpServers\": {\n    \"coordd\": {\n      \"command\": \"c\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }\n  }\n}\n";
        assert_eq!(put("").unwrap(), new);
        assert_eq!(put("{}\n").unwrap(), new);
        let odd =
            "{ \"z\" : 1.50 ,\n\t\"mcpServers\": { \"a\": {\"x\":\"}\\\"{\"} },\n\t\"k\":[1 , 2]}";
        let put_odd = put(odd).unwrap();
        assert!(
            put_odd.starts_with("{ \"z\" : 1.50 ,\n\t\"mcpServers\": { \"a\": {\"x\":\"}\\\"{\"},"),
            "{put_odd}"
        );
        assert!(put_odd.ends_with(" },\n\t\"k\":[1 , 2]}"), "{put_odd}");
        assert_eq!(take(&put_odd).unwrap(), odd);
        let compact = r#"{"b":2,"mcpServers":{},"a":1}"#;
        let put_compact = put(compact).unwrap();
        assert_eq!(
            put_compact,
            r#"{"b":2,"mcpServers":{"coordd":{"command":"c","args":["mcp"]}},"a":1}"#
        );
        assert_eq!(take(&put_compact).unwrap(), compact);
        let tabs = "{\n\t\"a\": 1\n}\n";
        let put_tabs = put(tabs).unwrap();
        assert!(put_tabs.contains("\n\t\t\"coordd\": {\n\t\t\t\"command\""), "{put_tabs}");
        let crlf = put("{\r\n  \"a\": 1\r\n}\r\n").unwrap();
        assert!(!crlf.replace("\r\n", "").contains('\n'), "{crlf:?}");
    }

    #[test]
    fn l4_an_entry_is_replaced_and_taken_out_wherever_it_stands() {
        for (before, without) in [
            (
                "{\"mcpServers\": {\"coordd\": {\"old\": true}, \"b\": 1}}",
                "{\"mcpServers\": {\"b\": 1}}",
            ),
            (
                "{\"mcpServers\": {\"a\": 1, \"coordd\": {\"old\": true}, \"b\": 1}}",
                "{\"mcpServers\": {\"a\": 1, \"b\": 1}}",
            ),
            ("{\"mcpServers\": {\"coordd\": 5}}", "{\"mcpServers\": {}}"),
            ("{\"mcpServers\": {\"coord\\u0064\": 5}}", "{\"mcpServers\": {}}"),
        ] {
            assert_eq!(take(before).unwrap(), without);
            let after: Value = serde_json::from_str(&put(before).unwrap()).unwrap();
            assert_eq!(after["mcpServers"]["coordd"]["command"], "c");
        }
        for nothing in ["{}", "{\"mcpServers\": {\"a\": 1}}"] {
            assert_eq!(take(nothing).unwrap(), nothing);
        }
    }

    #[test]
    fn l4_what_is_not_understood_is_left_alone() {
        for bad in ["{", "// a comment\n{}", "{\"a\": 1,}", "[1", "\u{feff}{}"] {
            assert!(matches!(put(bad), Err(JsonError::NoJson(_))), "{bad}");
        }
        assert_eq!(put("[]"), Err(JsonError::NoObject("the whole".to_owned())));
        assert_eq!(put("{\"mcpServers\": []}"), Err(JsonError::NoObject("mcpServers".to_owned())));
        // The same name twice: which one counts is for others to say.
        assert_eq!(
            put("{\"mcpServers\": {\"a\": 1}, \"mcpServers\": {\"a\": 1}, \"mcpServers\": 3}").ok(),
            None
        );
    }
}
