//! Time and random numbers, which the core is given with each input.

use std::time::{Duration, Instant};

pub(crate) use coordd_common::wall_ms;

/// Time that never goes back, counted from when this was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Milliseconds since the start. The same clock tells deadlines and reads the time.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        millis(self.start.elapsed())
    }

    /// The instant at which [`Self::monotonic_ms`] will read `at_ms`.
    pub(crate) fn instant_of(&self, at_ms: u64) -> Instant {
        // So far away that it never comes, for a deadline that cannot be represented.
        const NEVER: Duration = Duration::from_hours(365 * 24);
        let start = self.start;
        start.checked_add(Duration::from_millis(at_ms)).unwrap_or_else(|| start + NEVER)
    }
}

/// The kernel gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the kernel gives no random bytes; check that getrandom is not blocked by a sandbox")]
pub(crate) struct NoRandomness {
    source: getrandom::Error,
}

/// Random bytes from the kernel, good enough for tokens.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|source| NoRandomness { source })?;
    Ok(bytes)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel65_monotonic_time_and_deadlines_share_one_scale() {
        let clock = Clock::start();
        let at_ms = clock.monotonic_ms() + 60_000;
        let left = clock.instant_of(at_ms).duration_since(Instant::now());
        assert!(left > Duration::from_secs(58) && left <= Duration::from_mins(1), "{left:?}");
        assert!(clock.instant_of(u64::MAX) > Instant::now());
    }

    #[test]
    fn two_draws_differ() {
        let first: [u8; 64] = random().unwrap();
        let second: [u8; 64] = random().unwrap();
        assert_ne!(first, second);
    }
}
