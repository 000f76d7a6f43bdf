//! How words are written into the journal, where that is not as they cross a socket.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::state::agent::{Class, Outcome, Status, Usage};

/// Whether a field is as it is when nothing is said. The journal leaves it out then.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Without a cost that is zero: there were no costs at first.
pub(crate) fn usage<S: Serializer>(usage: &Usage, to: S) -> Result<S::Ok, S::Error> {
    let costs = usage.cost_micro_usd != 0;
    let mut fields = to.serialize_struct("Usage", 6 + usize::from(costs))?;
    fields.serialize_field("input_tokens", &usage.input_tokens)?;
    fields.serialize_field("output_tokens", &usage.output_tokens)?;
    fields.serialize_field("cache_read_tokens", &usage.cache_read_tokens)?;
    fields.serialize_field("cache_write_tokens", &usage.cache_write_tokens)?;
    fields.serialize_field("tool_uses", &usage.tool_uses)?;
    fields.serialize_field("duration_ms", &usage.duration_ms)?;
    if costs {
        fields.serialize_field("cost_micro_usd", &usage.cost_micro_usd)?;
    }
    fields.end()
}

/// Whom a message goes to: a socket by its path alone, as it was before other machines could be written to.
pub(crate) mod recipient {
    use alloc::string::String;

    use proto_words::address::Place;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(place: &Place, to: S) -> Result<S::Ok, S::Error> {
        match place {
            Place::Socket(path) => to.serialize_str(path),
            Place::Remote { .. } | Place::Local(_) | Place::Other(_) => place.serialize(to),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Place, D::Error> {
        let text = String::deserialize(from)?;
        Ok(if text.starts_with('/') { Place::Socket(text) } else { Place::from(&*text) })
    }
}

/// With its usage written so.
pub(crate) fn outcome<S: Serializer>(outcome: &Outcome, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Written<'a> {
        status: Status,
        class: Option<Class>,
        reason: &'a str,
        result: &'a str,
        #[serde(serialize_with = "usage")]
        usage: Usage,
    }
    let Outcome { status, class, reason, result, usage } = outcome;
    Written { status: *status, class: *class, reason, result, usage: *usage }.serialize(to)
}
