//! The journal has three fields for a call that waits.

use super::Wait;
use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

#[derive(serde::Serialize, Deserialize, Default)]
struct Written {
    #[serde(default, rename = "waited_for")]
    is_waited_for: bool,
    #[serde(default, rename = "waited_run")]
    run: u32,
    #[serde(default, rename = "waited_incarnation", skip_serializing_if = "is_none")]
    incarnation: u32,
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
pub(super) fn serialize<S: Serializer>(
    waits: &Option<Wait>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let written = waits.map_or_else(Written::default, |Wait { run, incarnation }| Written {
        is_waited_for: true,
        run,
        incarnation,
    });
    written.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Wait>, D::Error> {
    let written = Written::deserialize(deserializer)?;
    let wait = Wait { run: written.run, incarnation: written.incarnation };
    Ok(written.is_waited_for.then_some(wait))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(it: &u32) -> bool {
    *it == 0
}
