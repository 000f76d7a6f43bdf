//! A change to one entry of a JSON file, made in its text: everything else keeps its bytes, its
//! order and its spaces.
//!
//! The text is strict JSON, which `serde_json` has said before anything is looked for here; and
//! what comes out is read again and compared with what it is to say.

use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value};
use std::ops::Range;

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonError {
    #[error("it is no JSON ({0}); comments are not understood here")]
    NoJson(String),
    #[error("`{0}` in it is not an object")]
    NoObject(String),
    #[error("the change cannot be made without changing something else")]
    Unsure,
}

/// The file's text with `container.name` set to `value`, or taken out for none.
pub(super) fn with_entry(
    text: &str,
    container: &str,
    name: &str,
    value: Option<&Value>,
) -> Result<String, JsonError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let before: Value =
        serde_json::from_str(text).map_err(|error| JsonError::NoJson(error.to_string()))?;
    let wanted = changed(before, container, name, value)?;
    let after = match value {
        Some(value) => set(text, container, name, value),
        None => remove(text, container, name),
    };
    let after = after.ok_or(JsonError::Unsure)?;
    let is_right = serde_json::from_str::<Value>(&after).is_ok_and(|it| it == wanted);
    if is_right { Ok(after) } else { Err(JsonError::Unsure) }
}

/// The entry as it is.
pub(super) fn entry(text: &str, container: &str, name: &str) -> Result<Option<Value>, JsonError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| JsonError::NoJson(error.to_string()))?;
    Ok(value.get(container).and_then(|it| it.get(name)).cloned())
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

/// An object in the text.
struct Object {
    /// From its first brace to behind its last.
    span: Range<usize>,
    members: Vec<Member>,
}

struct Member {
    name: String,
    /// Where its name begins.
    start: usize,
    value: Range<usize>,
}

impl Object {
    /// The object that begins at or after this place.
    fn at(text: &str, from: usize) -> Option<Self> {
        let start = skip_space(text, from);
        let mut at = start;
        expect(text, &mut at, b'{')?;
        let mut members = Vec::new();
        loop {
            at = skip_space(text, at);
            match text.as_bytes().get(at)? {
                b'}' => return Some(Self { span: start..at + 1, members }),
                b',' => at += 1,
                _ => {
                    let name = at..skip_value(text, at)?;
                    at = skip_space(text, name.end);
                    expect(text, &mut at, b':')?;
                    let value = skip_space(text, at);
                    let end = skip_value(text, value)?;
                    members.push(Member {
                        name: serde_json::from_str(text.get(name.clone())?).ok()?,
                        start: name.start,
                        value: value..end,
                    });
                    at = end;
                }
            }
        }
    }

    /// The last one counts where a name is there twice.
    fn find(&self, name: &str) -> Option<(usize, &Member)> {
        self.members.iter().enumerate().rev().find(|(_, it)| it.name == name)
    }
}

fn expect(text: &str, at: &mut usize, byte: u8) -> Option<()> {
    (text.as_bytes().get(*at) == Some(&byte)).then(|| *at += 1)
}

fn skip_space(text: &str, from: usize) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    from + rest.iter().take_while(|it| it.is_ascii_whitespace()).count()
}

/// The end of the value that begins here.
fn skip_value(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    in_string = false;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 && byte.is_ascii_whitespace() => return Some(at),
            _ => {}
        }
    }
    (depth == 0 && !in_string).then_some(bytes.len())
}

/// How the file is laid out.
struct Layout<'a> {
    newline: &'a str,
    /// One step of indentation; none where all is in one line.
    step: Option<&'a str>,
}

impl<'a> Layout<'a> {
    fn of(text: &'a str, root: &Object) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let Some(first) = root.members.first() else {
            return Self { newline, step: Some("  ") };
        };
        let gap = text.get(root.span.start + 1..first.start).unwrap_or_default();
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

fn set(text: &str, container: &str, name: &str, value: &Value) -> Option<String> {
    let root = Object::at(text, 0)?;
    let layout = Layout::of(text, &root);
    let Some((_, found)) = root.find(container) else {
        let inner = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
        return insert(text, &root, &layout, 1, &layout.member(container, &inner, 1)?);
    };
    let of = Object::at(text, found.value.start)?;
    match of.find(name) {
        Some((_, member)) => replace(text, member.value.clone(), &layout.value(value, 2)?),
        None => insert(text, &of, &layout, 2, &layout.member(name, value, 2)?),
    }
}

/// Puts a member behind the last one.
fn insert(
    text: &str,
    of: &Object,
    layout: &Layout<'_>,
    depth: usize,
    member: &str,
) -> Option<String> {
    if let Some(last) = of.members.last() {
        let end = last.value.end;
        return replace(text, end..end, &format!(",{}{member}", layout.begin(depth)));
    }
    let inside = of.span.start + 1..of.span.end - 1;
    let (begin, end) = (layout.begin(depth), layout.begin(depth - 1));
    replace(text, inside, &format!("{begin}{member}{end}"))
}

fn remove(text: &str, container: &str, name: &str) -> Option<String> {
    let root = Object::at(text, 0)?;
    let Some((_, found)) = root.find(container) else { return Some(text.to_owned()) };
    let of = Object::at(text, found.value.start)?;
    let Some((at, member)) = of.find(name) else { return Some(text.to_owned()) };
    let before = at.checked_sub(1).and_then(|it| of.members.get(it));
    let range = match (before, of.members.get(at + 1)) {
        (Some(before), _) => before.value.end..member.value.end,
        (None, Some(next)) => member.start..next.start,
        (None, None) => of.span.start + 1..of.span.end - 1,
    };
    replace(text, range, "")
}

fn replace(text: &str, range: Range<usize>, with: &str) -> Option<String> {
    Some(format!("{}{with}{}", text.get(..range.start)?, text.get(range.end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn put(text: &str) -> Result<String, JsonError> {
        with_entry(text, "mcpServers", "coordd", Some(&json!({ "command": "c", "args": ["mcp"] })))
    }

    fn take(text: &str) -> Result<String, JsonError> {
        with_entry(text, "mcpServers", "coordd", None)
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
