//! A program of a later build, for tests: it has another [`crate::hello::REVISION`], puts fields
//! into its lines that nobody here knows, and says things of kinds that nobody here knows. Only
//! with the feature `skew`, and there only where `COORDD_TEST_LATER_BUILD=1` is set. It is in no
//! build that is given to anybody.

use serde_json::{Value, json};

/// Fields whose content is somebody's own and not ours: names of variables, the input of a tool,
/// the result of a job.
const FREE: [&str; 3] = ["env", "input", "output"];

/// Whether this process plays one.
pub fn is_later() -> bool {
    std::env::var_os("COORDD_TEST_LATER_BUILD").is_some_and(|it| it == "1")
}

/// A message as a later build writes it: one line or two, without the last newline.
pub(crate) fn lines(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(mut message) = serde_json::from_slice::<Value>(&bytes) else { return bytes };
    let before = unknown(&message);
    grow(&mut message);
    let mut lines = String::new();
    if let Some(before) = before {
        lines = before.to_string() + "\n";
    }
    lines += &message.to_string();
    lines.into_bytes()
}

/// Something of the same kind that nobody here knows.
fn unknown(message: &Value) -> Option<Value> {
    if let Some(event) = message.get("event") {
        let mut event = event.clone();
        *event.get_mut("event")? = json!({"weather_changed": {"sky": "blue"}});
        return Some(json!({"event": event}));
    }
    if message.get("order").is_some() {
        return Some(json!({"order": {"dance": {"steps": 3}}}));
    }
    message.get("report").map(|_| json!({"report": {"mood": {"good": true}}}))
}

/// Puts an unknown field into every object that has fields of fixed names. What has one field may
/// be an enum, in which that field is the variant.
fn grow(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if !FREE.contains(&name.as_str()) {
                    grow(field);
                }
            }
            if fields.len() > 1 {
                fields.insert("of_a_later_build".to_owned(), json!({"a": [1, {"b": null}]}));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(grow),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
