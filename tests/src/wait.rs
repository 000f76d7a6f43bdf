//! Waiting for a condition. Level-triggered: it looks at how things are, not at what happened.

use std::time::{Duration, Instant};

/// For one condition. Most come about in milliseconds; the rest is for a machine that builds at the
/// same time.
pub const CONDITION_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks until there is something.
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(CONDITION_LIMIT, what, look)
}

/// The same with another limit.
pub fn until_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Looks until it is so.
pub fn until_true(what: &str, mut look: impl FnMut() -> bool) {
    until(what, || look().then_some(()));
}
