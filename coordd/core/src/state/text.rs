//! Texts that are too long, cut at a character's border.

use alloc::borrow::ToOwned as _;
use alloc::string::String;

pub(crate) use proto_words::text::head;

use crate::state::limits;

/// Cuts a text to so many bytes, and says so.
pub(crate) fn cut(text: &mut String, max: usize, mark: &str) {
    if text.len() > max {
        let kept = head(text, max.saturating_sub(mark.len())).len();
        text.truncate(kept);
        text.push_str(mark);
    }
}

/// As much of a text as is kept of what others say about themselves.
pub(crate) fn shortened(text: &str) -> String {
    head(text, limits::OUTSIDE_FIELD_LEN_MAX).to_owned()
}
