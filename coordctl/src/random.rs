//! Keys that nobody else makes.

use std::fmt::Write as _;

/// An idempotency key, 32 hexadecimal digits.
pub(crate) fn key() -> String {
    let mut bytes = [0_u8; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // Without randomness, time and process still tell callers of this user apart.
        return format!("{:x}-{:x}", coordd_common::wall_ms(), std::process::id());
    }
    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        let _fits = write!(text, "{byte:02x}");
        text
    })
}
