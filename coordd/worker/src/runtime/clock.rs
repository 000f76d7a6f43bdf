//! The time of one run, over several processes and without waits for the user.

use std::time::Duration;

use tokio::time::Instant;

/// Measures a run.
#[derive(Debug)]
pub(crate) struct RunClock {
    began: Instant,
    before: Before,
    paused: Duration,
    limit: Option<Duration>,
}

/// The time of a run before this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// Since its prompt, whether anybody worked or not.
    pub(crate) passed_ms: u64,
    /// The part of it that earlier processes worked. Only this counts against the limit.
    pub(crate) worked_ms: u64,
}

impl RunClock {
    /// `limit_ms` of 0 means without bound.
    pub(crate) fn new(before: Before, limit_ms: u64) -> Self {
        Self {
            began: Instant::now(),
            before,
            paused: Duration::ZERO,
            limit: (limit_ms > 0).then(|| Duration::from_millis(limit_ms)),
        }
    }

    /// From the prompt until now.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms_at(Instant::now())
    }

    fn elapsed_ms_at(&self, now: Instant) -> u64 {
        let elapsed = u64::try_from(now.duration_since(self.began).as_millis()).unwrap_or(u64::MAX);
        self.before.passed_ms.max(self.before.worked_ms).saturating_add(elapsed)
    }

    /// Time that does not count against the limit.
    pub(crate) fn pause(&mut self, time: Duration) {
        self.paused = self.paused.saturating_add(time);
    }

    /// When the time is up, if it is limited.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let worked = Duration::from_millis(self.before.worked_ms);
        let left = self.limit?.saturating_add(self.paused).saturating_sub(worked);
        self.began.checked_add(left)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w7_the_time_of_a_run_counts_over_processes_and_not_while_a_person_decides() {
        let mut clock = RunClock::new(Before { passed_ms: 700, worked_ms: 400 }, 1_000);
        let after = |ms| clock.began + Duration::from_millis(ms);
        assert_eq!(clock.deadline(), Some(after(600)));
        assert_eq!(clock.elapsed_ms_at(after(500)), 1_200);
        let later = after(800);
        clock.pause(Duration::from_millis(200));
        assert_eq!(clock.deadline(), Some(later));
        assert!(!clock.is_up());
        // A machine that was off has not worked.
        assert!(RunClock::new(Before { passed_ms: 1_000, worked_ms: 1_000 }, 1_000).is_up());
        assert!(!RunClock::new(Before { passed_ms: 1_000, worked_ms: 0 }, 1_000).is_up());
        assert_eq!(RunClock::new(Before::default(), 0).deadline(), None);
    }
}
