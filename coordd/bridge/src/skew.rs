//! A bridge of a later build, for tests. It says all that this build says, in the form that a later
//! minor version may have: with fields that nobody here knows, and now and then something of a kind
//! that nobody here knows. Only with the feature `skew`, and there only where
//! `COORDD_TEST_LATER_BUILD=1` is set. It is in no build that is given to anybody.

pub(crate) use proto::skew::is_later;
use serde_json::{Value, json};

use crate::envelope::Kind;

/// Words with this in them are said in a way that this build does not know.
const IN_A_LATER_WAY: &str = "(in a later way)";
/// Where the kind stands in an envelope, and where the version.
const KIND_AT: usize = 4;
const VERSION_AT: usize = 3;

/// A body as a later build writes it.
pub(crate) fn body(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let Ok(mut body) = serde_json::from_slice::<Value>(bytes) else { return bytes.to_vec() };
    grow(&mut body);
    match kind {
        Kind::Row => {
            let says = body.get_mut("says");
            let is_late = says.as_ref().is_some_and(|it| it.to_string().contains(IN_A_LATER_WAY));
            if let Some(says) = says.filter(|_| is_late) {
                *says = json!({"sketch": {"strokes": [[0, 1]]}});
            }
        }
        Kind::Receipts => {
            if let Some(Value::Array(rows)) = body.get_mut("rows")
                && let Some(mut first) = rows.first().cloned()
                && let Some(verdict) = first.get_mut("verdict")
            {
                *verdict = json!({"postponed": {"until_ms": 1}});
                rows.insert(0, first);
            }
        }
        Kind::Presence => {}
    }
    serde_json::to_vec(&body).unwrap_or_default()
}

/// A file as a later build writes it.
pub(crate) fn file(bytes: &[u8]) -> Vec<u8> {
    let Ok(mut content) = serde_json::from_slice::<Value>(bytes) else { return bytes.to_vec() };
    grow(&mut content);
    serde_json::to_vec(&content).unwrap_or_default()
}

/// What else it sends where it sends this: an envelope of an unknown kind, and one of an unknown
/// version.
pub(crate) fn also(envelope: &[u8]) -> Vec<Vec<u8>> {
    let with = |at: usize, byte: u8| {
        let mut other = envelope.to_vec();
        if let Some(it) = other.get_mut(at) {
            *it = byte;
        }
        other
    };
    vec![with(KIND_AT, 9), with(VERSION_AT, b'2')]
}

/// Puts an unknown field into every object that has fields of fixed names.
fn grow(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // What has one field may be an enum, in which that field is the variant.
            if fields.len() > 1 {
                fields.insert("of_a_later_build".to_owned(), json!({"a": [1, {"b": null}]}));
            }
            for field in fields.values_mut() {
                if !field.is_null() && field.get("a").is_none() {
                    grow(field);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(grow),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
