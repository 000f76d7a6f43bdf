//! The input of a tool call, from the text that came over the wire to the object that a tool takes.

use serde_json::{Map, Value, json};

use super::lenient;

/// Carries an input that is no JSON object: the text as it came. No tool has such a field, and a
/// call with it is answered before anybody is asked about it.
const UNPARSED: &str = "unparsed_arguments";
/// What is wrong with it.
const PROBLEM: &str = "problem";
/// Texts in texts: a server that encodes twice was seen, three times is its limit.
const ENCODED_MAX: u32 = 3;

/// Reads an input. A text that holds the object is decoded; what means "nothing" is an empty object.
pub(super) fn input(json: &str) -> Result<Value, String> {
    let mut halves = false;
    let mut value = read(json, &mut halves).map_err(|error| error.to_string())?;
    for _ in 0..ENCODED_MAX {
        let Value::String(inner) = &value else { break };
        if inner.trim().is_empty() {
            return Ok(empty());
        }
        value = read(inner, &mut halves).map_err(|error| error.to_string())?;
    }
    match value {
        Value::Object(_) => Ok(if halves { whole_letters(value) } else { value }),
        Value::Null => Ok(empty()),
        Value::Array(_) => Err("a list where an object is needed".to_owned()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err("a single value where an object is needed".to_owned())
        }
    }
}

/// The same where it came as JSON.
pub(super) fn input_given(given: Option<Value>) -> Value {
    match given {
        None | Some(Value::Null) => empty(),
        Some(object @ Value::Object(_)) => object,
        Some(other) => {
            let json = other.to_string();
            input(&json).unwrap_or_else(|problem| unreadable(&json, &problem))
        }
    }
}

/// The object that stands for an input that cannot be read.
pub(super) fn unreadable(json: &str, problem: &str) -> Value {
    json!({ UNPARSED: lenient::joined(json), PROBLEM: problem })
}

/// What is wrong with an input that could not be read; none for any other.
pub(crate) fn problem_of(input: &Value) -> Option<&str> {
    let object = input.as_object().filter(|it| it.len() == 2 && it.contains_key(UNPARSED))?;
    object.get(PROBLEM)?.as_str()
}

/// Some servers put two inputs behind each other, of which the first is empty.
fn read(json: &str, halves: &mut bool) -> Result<Value, serde_json::Error> {
    let rest = json.trim().strip_prefix("{}").filter(|rest| rest.trim_start().starts_with('{'));
    lenient::parse(rest.unwrap_or(json), halves)
}

/// Whether a text is a whole input, so that what follows belongs to another call.
pub(super) fn is_whole(json: &str) -> bool {
    json.trim_end().ends_with(['}', '"']) && input(json).is_ok()
}

fn empty() -> Value {
    Value::Object(Map::new())
}

fn whole_letters(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(lenient::joined(&text)),
        Value::Array(items) => items.into_iter().map(whole_letters).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, field)| (lenient::joined(&name), whole_letters(field)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fM6: a double-encoded object is decoded.
    #[test]
    fn fm6_inputs_are_read_in_each_form_that_servers_send() {
        let object = json!({"a": "b"});
        for (text, expected) in [
            (r#"{"a":"b"}"#, object.clone()),
            (r#" {"a":"b",} "#, object.clone()),
            (r#""{\"a\":\"b\"}""#, object.clone()),
            (r#""\"{\\\"a\\\":\\\"b\\\"}\"""#, object.clone()),
            (r#"{}{"a":"b"}"#, object),
            ("null", json!({})),
            ("\"\"", json!({})),
            ("{}", json!({})),
            (r#"{"a":"\ud83d"}"#, json!({"a": "\u{FFFD}"})),
            ("{\"a\":\"x\ny\"}", json!({"a": "x\ny"})),
        ] {
            assert_eq!(input(text), Ok(expected), "{text}");
        }
        for text in ["{", "[1]", "7", r#"{"a":"b"}{"a":"c"}"#, r#"{"command": "echo hi" "x"}"#] {
            let problem = input(text).unwrap_err();
            let stands_for = unreadable(text, &problem);
            assert_eq!(problem_of(&stands_for), Some(problem.as_str()));
        }
        assert_eq!(problem_of(&json!({"unparsed_arguments": "x"})), None);
        assert_eq!(input_given(Some(json!("{\"a\":\"b\"}"))), json!({"a": "b"}));
        assert_eq!(input_given(Some(json!({"a": 1}))), json!({"a": 1}));
        assert!(problem_of(&input_given(Some(json!([1])))).is_some());
    }
}
