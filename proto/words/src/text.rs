//! Texts that are too long, cut at a character's border.

/// So much of the beginning as fits into `bytes_max` bytes.
pub fn head(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

/// So much of the end as fits into `bytes_max` bytes.
pub fn tail(text: &str, bytes_max: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut_in_half() {
        for (len, beginning, end) in
            [(0, "", ""), (1, "a", "b"), (2, "a", "b"), (3, "aä", "äb"), (4, "aäb", "aäb")]
        {
            assert_eq!((head("aäb", len), tail("aäb", len)), (beginning, end), "{len}");
        }
        assert_eq!(head("ä", usize::MAX), "ä");
    }
}
