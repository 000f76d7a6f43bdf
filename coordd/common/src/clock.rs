use std::time::{SystemTime, UNIX_EPOCH};

/// Time on the wall clock, in milliseconds since 1970-01-01 UTC. It may jump; for people and file names only.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_after_this_was_written() {
        assert!(wall_ms() > 1_700_000_000_000);
    }
}
