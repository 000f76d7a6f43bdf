//! How long to wait before coordd is looked for again.

use std::time::Duration;

/// The first wait: about as long as a restart of the daemon.
const FIRST_MS: u64 = 50;
/// The longest wait, so that a returning daemon soon has its agents.
const LONGEST_MS: u64 = 2_000;

/// Doubling waits with jitter, so that a thousand agents do not come back at the same moment.
#[derive(Debug)]
pub(super) struct Backoff {
    next_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next_ms: FIRST_MS }
    }
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let full_ms = self.next_ms;
        self.next_ms = (full_ms * 2).min(LONGEST_MS);
        // Without randomness all wait the same: slower, not wrong.
        let random = getrandom::u64().unwrap_or(0);
        Duration::from_millis(full_ms - random % (full_ms / 4 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D27: an agent without a daemon sleeps between two attempts, longer and longer.
    #[test]
    fn d6_waits_double_from_50_ms_to_two_seconds_with_jitter() {
        let mut backoff = Backoff::default();
        for full_ms in [50, 100, 200, 400, 800, 1_600, 2_000, 2_000] {
            let wait_ms = backoff.next().as_millis();
            assert!((full_ms * 3 / 4..=full_ms).contains(&wait_ms), "{wait_ms} of {full_ms}");
        }
    }
}
