//! The input of a tool call, from what the model wrote to a type.
//!
//! Models spell numbers and booleans as text now and then; that is understood. A field that a tool
//! does not have is refused by name, because what it was meant to do would silently not happen.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Deserializer, Unexpected, Visitor};
use serde_json::Value;

/// Why an input was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("The input of {tool} must be an object with these fields: {fields}. Call it again so.")]
    NoObject { tool: String, fields: String },
    #[error(
        "{tool} has no field {unknown}. Its fields are: {fields}. Call it again with these only."
    )]
    UnknownFields { tool: String, unknown: String, fields: String },
    #[error("{tool} needs the field {missing}. Call it again with it.")]
    MissingFields { tool: String, missing: String },
    #[error("The input of {tool} does not fit its schema: {what}. Correct it and call again.")]
    WrongType { tool: String, what: String },
}

/// Checks an input against a schema's field names.
pub(crate) fn check_fields(tool: &str, schema: &Value, input: &Value) -> Result<(), InputError> {
    let known = schema.get("properties").and_then(Value::as_object);
    let fields = || {
        let names = known.into_iter().flat_map(|it| it.keys()).map(String::as_str);
        names.collect::<Vec<_>>().join(", ")
    };
    let Some(given) = input.as_object() else {
        return Err(InputError::NoObject { tool: tool.to_owned(), fields: fields() });
    };
    let unknown: Vec<String> = given
        .keys()
        .filter(|name| !known.is_some_and(|it| it.contains_key(*name)))
        .map(|name| format!("`{}`", super::bounded::cut(name, 80)))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        return Err(InputError::UnknownFields { tool: tool.to_owned(), unknown, fields: fields() });
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing: Vec<String> = required
        .filter_map(Value::as_str)
        .filter(|name| !given.contains_key(*name))
        .map(|name| format!("`{name}`"))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        let missing = missing.join(", ");
        Err(InputError::MissingFields { tool: tool.to_owned(), missing })
    }
}

/// Reads a checked input into its type.
pub(crate) fn parse<T: DeserializeOwned>(
    tool: &str,
    schema: &Value,
    input: &Value,
) -> Result<T, InputError> {
    check_fields(tool, schema, input)?;
    T::deserialize(input)
        .map_err(|error| InputError::WrongType { tool: tool.to_owned(), what: error.to_string() })
}

/// Reads a number or its text; `null` is none.
pub(crate) fn number<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    input.deserialize_any(Lenient::<u64>(PhantomData))
}

/// Reads a boolean or its text; `null` is false.
pub(crate) fn flag<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    Ok(input.deserialize_any(Lenient::<bool>(PhantomData))?.unwrap_or(false))
}

struct Lenient<T>(PhantomData<T>);

trait Scalar: FromStr {
    const EXPECTED: &'static str;
    fn from_number(value: u64) -> Option<Self>;
    fn from_flag(value: bool) -> Option<Self>;
}

impl Scalar for u64 {
    const EXPECTED: &'static str = "a whole number that is not negative";
    fn from_number(value: u64) -> Option<Self> {
        Some(value)
    }
    fn from_flag(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for bool {
    const EXPECTED: &'static str = "true or false";
    fn from_number(_: u64) -> Option<Self> {
        None
    }
    fn from_flag(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl<T: Scalar> Visitor<'_> for Lenient<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Option<T>, E> {
        match T::from_flag(value) {
            Some(it) => Ok(Some(it)),
            None => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Option<T>, E> {
        match T::from_number(value) {
            Some(it) => Ok(Some(it)),
            None => Err(E::invalid_type(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Option<T>, E> {
        match u64::try_from(value).ok().and_then(T::from_number) {
            Some(it) => Ok(Some(it)),
            None => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Option<T>, E> {
        // Some models write 5.0 for 5. The text of a whole float has no fraction.
        match format!("{value}").parse() {
            Ok(it) => Ok(Some(it)),
            Err(_) => Err(E::invalid_value(Unexpected::Float(value), &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Option<T>, E> {
        match value.trim().parse() {
            Ok(it) => Ok(Some(it)),
            Err(_) => Err(E::invalid_value(Unexpected::Str(value), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Example {
        path: String,
        #[serde(default, deserialize_with = "number")]
        limit: Option<u64>,
        #[serde(default, deserialize_with = "flag")]
        all: bool,
    }

    fn read(input: &Value) -> Result<Example, String> {
        let schema = json!({
            "properties": { "path": {}, "limit": {}, "all": {} },
            "required": ["path"],
        });
        parse("Example", &schema, input).map_err(|error| error.to_string())
    }

    /// C-7: every field that is unknown is named, and the known ones too.
    #[test]
    fn unknown_fields_are_named() {
        let error = read(&json!({ "path": "a", "foo": 1, "bar": 2 })).unwrap_err();
        assert_eq!(
            error,
            "Example has no field `foo`, `bar`. Its fields are: path, limit, all. \
             Call it again with these only."
        );
    }

    #[test]
    fn missing_fields_and_wrong_types_are_named() {
        assert!(read(&json!({})).unwrap_err().contains("needs the field `path`"));
        assert!(read(&json!([])).unwrap_err().contains("must be an object"));
        assert!(read(&json!({ "path": 5 })).unwrap_err().contains("expected a string"));
        let error = read(&json!({ "path": "a", "limit": -1 })).unwrap_err();
        assert!(error.contains("a whole number that is not negative"), "{error}");
    }

    #[test]
    fn numbers_and_booleans_may_be_spelt_as_text() {
        let expected = Example { path: "a".to_owned(), limit: Some(5), all: true };
        for input in [
            json!({ "path": "a", "limit": 5, "all": true }),
            json!({ "path": "a", "limit": "5", "all": "true" }),
            json!({ "path": "a", "limit": 5.0, "all": true }),
        ] {
            assert_eq!(read(&input).as_ref(), Ok(&expected), "{input}");
        }
        assert!(read(&json!({ "path": "a", "limit": 5.5 })).is_err());
        assert!(read(&json!({ "path": "a", "all": 1 })).is_err());
        let input = json!({ "path": "a", "limit": null, "all": null });
        assert_eq!(read(&input).unwrap().limit, None);
    }
}
