//! JSON as servers send it: a field of an unexpected type costs that field, and small breaks of the
//! grammar that have one meaning only are mended.

use std::fmt::Write as _;

use serde_json::Value;

/// Stands for the first half of a letter that was cut in two: the half's own bits, in the last
/// rows of the private plane, which nobody writes in.
const FIRST_HALVES: u32 = 0x10_F800;
/// The same for second halves.
const SECOND_HALVES: u32 = 0x10_FC00;
const HALVES: u32 = 0x400;

/// Reads JSON. Raw line breaks in strings, commas before a closing bracket and halves of letters
/// are understood; `halves` becomes true where there is a half, for [`joined`].
pub(super) fn parse(text: &str, halves: &mut bool) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        let (mended, has_halves) = mended(text);
        if mended == text {
            return Err(error);
        }
        let value = serde_json::from_str(&mended)?;
        *halves |= has_halves;
        Ok(value)
    })
}

/// The text with halves put together; one that stays alone becomes the sign for a lost letter.
pub(super) fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open: Option<u32> = None;
    for c in text.chars() {
        let first = half(c, FIRST_HALVES);
        let second = half(c, SECOND_HALVES);
        match (open.take(), second) {
            (Some(high), Some(low)) => {
                let letter = char::from_u32(0x1_0000 + (high << 10) + low);
                out.push(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
                continue;
            }
            (Some(_), None) => out.push(char::REPLACEMENT_CHARACTER),
            (None, _) => {}
        }
        match (first, second) {
            (Some(high), _) => open = Some(high),
            (None, Some(_)) => out.push(char::REPLACEMENT_CHARACTER),
            (None, None) => out.push(c),
        }
    }
    if open.is_some() {
        out.push(char::REPLACEMENT_CHARACTER);
    }
    out
}

/// Whether the text ends with the first half of a letter.
pub(super) fn ends_in_half(text: &str) -> bool {
    text.chars().next_back().is_some_and(|c| half(c, FIRST_HALVES).is_some())
}

fn half(c: char, first: u32) -> Option<u32> {
    u32::from(c).checked_sub(first).filter(|bits| *bits < HALVES)
}

fn mended(text: &str) -> (String, bool) {
    let mut out = String::with_capacity(text.len());
    let (mut halves, mut in_string) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (this, behind) = rest.split_at(c.len_utf8());
        rest = behind;
        match c {
            '"' => {
                in_string = !in_string;
                out.push(c);
            }
            '\\' if in_string => rest = escape(behind, &mut out, &mut halves),
            '\n' if in_string => out.push_str("\\n"),
            '\r' if in_string => out.push_str("\\r"),
            '\t' if in_string => out.push_str("\\t"),
            c if in_string && c.is_ascii_control() => {
                let _fits = write!(out, "\\u{:04x}", u32::from(c));
            }
            ',' if !in_string && behind.trim_start().starts_with(['}', ']']) => {}
            _ => out.push_str(this),
        }
    }
    (out, halves)
}

/// Copies what stands after a backslash, and gives the rest.
fn escape<'a>(text: &'a str, out: &mut String, halves: &mut bool) -> &'a str {
    let unit = |text: &str| u32::from_str_radix(text.strip_prefix('u')?.get(..4)?, 16).ok();
    match unit(text) {
        Some(high @ 0xD800..0xDC00) => {
            let behind = text.get(5..).unwrap_or_default();
            let low = behind.strip_prefix('\\').and_then(unit);
            if matches!(low, Some(0xDC00..0xE000)) {
                out.push('\\');
                out.push_str(text.get(..11).unwrap_or_default());
                return text.get(11..).unwrap_or_default();
            }
            *halves = true;
            out.extend(char::from_u32(FIRST_HALVES + high - 0xD800));
            behind
        }
        Some(low @ 0xDC00..0xE000) => {
            *halves = true;
            out.extend(char::from_u32(SECOND_HALVES + low - 0xDC00));
            text.get(5..).unwrap_or_default()
        }
        Some(_) | None => {
            let escaped = text.chars().next();
            out.push('\\');
            out.extend(escaped);
            text.get(escaped.map_or(0, char::len_utf8)..).unwrap_or_default()
        }
    }
}

/// A number, however it is written. What is below zero counts as zero.
pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => {
            let text = text.trim();
            text.parse::<u64>().ok().or_else(|| whole(text.parse::<f64>().ok()?))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn whole(number: f64) -> Option<u64> {
    if !number.is_finite() {
        return None;
    }
    // The text of a float without its fraction is a whole number.
    format!("{:.0}", number.max(0.0).floor()).parse().ok()
}

/// A text that says something.
pub(super) fn word(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

/// The members of a list; what stands alone is a list of one.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    match value {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items,
        Some(one) => std::slice::from_ref(one),
    }
}

/// Text that a server sent as content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Reasoning(String),
}

/// The text in a content, whatever its shape: a text, a part, or a list of parts.
pub(super) fn pieces(value: Option<&Value>) -> Vec<Piece> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => vec![Piece::Text(text.clone())],
        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => vec![Piece::Text(scalar.to_string())],
        Some(Value::Array(parts)) => parts.iter().flat_map(|part| pieces(Some(part))).collect(),
        Some(part @ Value::Object(_)) => {
            let names = ["text", "content", "value", "thinking", "reasoning", "summary", "refusal"];
            let inner = names.iter().find_map(|name| part.get(*name).filter(|it| !it.is_null()));
            let found = pieces(inner);
            let kind = word(part.get("type")).unwrap_or_default();
            let thinks = kind.contains("thinking") || kind.contains("reasoning");
            let as_reasoning = |piece| match piece {
                Piece::Text(text) | Piece::Reasoning(text) => Piece::Reasoning(text),
            };
            if thinks { found.into_iter().map(as_reasoning).collect() } else { found }
        }
    }
}

/// The same as one text, without what was thought.
pub(super) fn text(value: Option<&Value>) -> String {
    let plain = |piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::Reasoning(_) => None,
    };
    pieces(value).into_iter().filter_map(plain).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_breaks_of_the_grammar_are_mended_and_large_ones_are_not() {
        for (text, expected) in [
            (r#"{"a":1}"#, Some(json!({"a": 1}))),
            ("{\"a\":\"x\ny\"}", Some(json!({"a": "x\ny"}))),
            ("{\"a\":\"\u{1}\"}", Some(json!({"a": "\u{1}"}))),
            (r#"{"a":[1,2,],}"#, Some(json!({"a": [1, 2]}))),
            (r#"{"a":"b,}"}"#, Some(json!({"a": "b,}"}))),
            (r#"{"command": "echo hi" "x"}"#, None),
            (r#"{"a":"#, None),
            ("{'a':1}", None),
        ] {
            assert_eq!(parse(text, &mut false).ok(), expected, "{text}");
        }
    }

    #[test]
    fn halves_of_letters_find_each_other() {
        let mut halves = false;
        let first = parse(r#""a\ud83d""#, &mut halves).unwrap();
        let second = parse(r#""\ude00b""#, &mut halves).unwrap();
        assert!(halves && ends_in_half(first.as_str().unwrap()));
        let both = format!("{}{}", first.as_str().unwrap(), second.as_str().unwrap());
        assert_eq!(joined(&both), "a\u{1F600}b");
        let alone = parse(r#""x\ud83dy \\u \ude00 \u00e4""#, &mut halves).unwrap();
        assert_eq!(joined(alone.as_str().unwrap()), "x\u{FFFD}y \\u \u{FFFD} ä");
        let mut none = false;
        assert_eq!(parse(r#""\ud83d\ude00""#, &mut none).unwrap(), json!("\u{1F600}"));
        assert!(!none);
    }

    #[test]
    fn a_value_of_another_type_is_read_as_what_it_says() {
        for (value, expected) in [
            (json!(7), Some(7)),
            (json!("7"), Some(7)),
            (json!(7.0), Some(7)),
            (json!("7.9"), Some(7)),
            (json!(-3), Some(0)),
            (json!(1e300), None),
            (json!("many"), None),
            (json!([7]), None),
            (json!(null), None),
        ] {
            assert_eq!(number(Some(&value)), expected, "{value}");
        }
        let parts = json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "Hel"}, "lo", {"type": "output_text", "text": {"value": "!"}}, null,
        ]);
        assert_eq!(pieces(Some(&parts)).first(), Some(&Piece::Reasoning("hm".to_owned())));
        assert_eq!(text(Some(&parts)), "Hello!");
        assert_eq!((list(None).len(), list(Some(&json!({}))).len()), (0, 1));
    }
}
