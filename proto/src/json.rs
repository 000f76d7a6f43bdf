//! Free-form JSON inside typed messages.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// A JSON value that survives both codecs: as itself in JSON, as its text in bincode, which could
/// not read a self-describing value back.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Json(pub serde_json::Value);

impl Json {
    /// The value of a field of an object, if this is one and has it.
    pub fn get(&self, key: &str) -> Option<&serde_json::Value> {
        self.0.get(key)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serde_json::to_string(&self.0).map_err(ser::Error::custom)?.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            serde_json::Value::deserialize(deserializer).map(Self)
        } else {
            let text = String::deserialize(deserializer)?;
            serde_json::from_str(&text).map(Self).map_err(de::Error::custom)
        }
    }
}
