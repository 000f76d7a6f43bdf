//! The time of one run, over several processes and without the time that a person took to answer.

use std::time::Duration;

use tokio::time::Instant;

/// Measures a run.
#[derive(Debug)]
pub(crate) struct RunClock {
    began: Instant,
    /// What earlier processes of the same run took.
    before: Duration,
    paused: Duration,
    limit: Option<Duration>,
}

impl RunClock {
    /// `limit_ms` of 0 means without bound.
    pub(crate) fn new(before_ms: u64, limit_ms: u64) -> Self {
        Self {
            began: Instant::now(),
            before: Duration::from_millis(before_ms),
            paused: Duration::ZERO,
            limit: (limit_ms > 0).then(|| Duration::from_millis(limit_ms)),
        }
    }

    /// From the prompt until now.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms_at(Instant::now())
    }

    fn elapsed_ms_at(&self, now: Instant) -> u64 {
        let elapsed = self.before.saturating_add(now.duration_since(self.began));
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Time that does not count against the limit.
    pub(crate) fn pause(&mut self, time: Duration) {
        self.paused = self.paused.saturating_add(time);
    }

    /// When the time is up, if it is limited.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let left = self.limit?.saturating_add(self.paused).saturating_sub(self.before);
        self.began.checked_add(left)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.deadline().is_some_and(|it| it <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w7_the_time_of_a_run_counts_over_processes_and_not_while_a_person_decides() {
        let mut clock = RunClock::new(400, 1_000);
        let after = |ms| clock.began + Duration::from_millis(ms);
        assert_eq!(clock.deadline(), Some(after(600)));
        assert_eq!(clock.elapsed_ms_at(after(500)), 900);
        let later = after(800);
        clock.pause(Duration::from_millis(200));
        assert_eq!(clock.deadline(), Some(later));
        assert!(!clock.is_up());
        assert!(RunClock::new(1_000, 1_000).is_up());
        assert_eq!(RunClock::new(0, 0).deadline(), None);
    }
}
