//! Reports about the agent's work, on their way out. They may be dropped, and must not grow without
//! bound.

use std::collections::VecDeque;
use std::time::Duration;

use proto::agent::Report;
use tokio::time::Instant;

/// Most reports that wait: some turns of a busy agent.
const REPORTS_MAX: usize = 256;
/// Longest piece of an answer that waits for its turn.
const DELTA_LEN_MAX: usize = 64 * 1024;
/// The shortest time between two pieces of an answer; pieces in between are joined. Faster than
/// people read.
const DELTA_EVERY: Duration = Duration::from_millis(30);

/// Reports that wait.
#[derive(Debug, Default)]
pub(super) struct Reports {
    open: bool,
    queue: VecDeque<Report>,
    delta: String,
    delta_due: Option<Instant>,
    delta_last: Option<Instant>,
}

impl Reports {
    /// From now on, reports are sent.
    pub(super) fn open(&mut self) {
        *self = Self { open: true, ..Self::default() };
    }

    /// From now on, reports are dropped.
    pub(super) fn close(&mut self) {
        *self = Self::default();
    }

    /// Takes a report. True when there is something new to send.
    pub(super) fn push(&mut self, report: Report, now: Instant) -> bool {
        if !self.open {
            return false;
        }
        self.flush_delta(now);
        // Only the newest activity counts.
        if matches!(report, Report::Activity { .. })
            && let Some(last @ Report::Activity { .. }) = self.queue.back_mut()
        {
            *last = report;
            return true;
        }
        if self.queue.len() >= REPORTS_MAX {
            return false;
        }
        self.queue.push_back(report);
        true
    }

    /// Takes a piece of an answer. True when a send has to be scheduled.
    pub(super) fn push_delta(&mut self, text: &str, now: Instant) -> bool {
        if !self.open || self.delta.len() + text.len() > DELTA_LEN_MAX {
            return false;
        }
        self.delta.push_str(text);
        if self.delta_due.is_some() {
            return false;
        }
        self.delta_due = Some(self.delta_last.map_or(now, |last| (last + DELTA_EVERY).max(now)));
        true
    }

    /// When the next piece of an answer is to be sent.
    pub(super) fn delta_due(&self) -> Option<Instant> {
        self.delta_due
    }

    /// The next report to send now.
    pub(super) fn next(&mut self, now: Instant) -> Option<Report> {
        if self.queue.is_empty() && self.delta_due.is_some_and(|due| due <= now) {
            self.flush_delta(now);
        }
        self.queue.pop_front()
    }

    fn flush_delta(&mut self, now: Instant) {
        if self.delta_due.take().is_none() {
            return;
        }
        let text = std::mem::take(&mut self.delta);
        self.delta_last = Some(now);
        if self.queue.len() < REPORTS_MAX {
            self.queue.push_back(Report::Delta { text });
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::agent::Activity;

    use super::*;

    fn activity(doing: &str) -> Report {
        let usage = proto::notification::Usage::default();
        Report::Activity {
            activity: Activity { doing: doing.to_owned(), turns: 1, usage, sandbox: String::new() },
        }
    }

    fn delta(text: &str) -> Report {
        Report::Delta { text: text.to_owned() }
    }

    #[test]
    fn d8_pieces_are_put_together_and_stay_before_what_follows() {
        let now = Instant::now();
        let mut reports = Reports::default();
        assert!(!reports.push_delta("lost: nobody is connected", now));
        reports.open();
        assert!(reports.push_delta("a", now));
        assert_eq!(reports.next(now), Some(delta("a")));
        assert!(reports.push_delta("b", now));
        assert!(!reports.push_delta("c", now));
        assert_eq!(reports.next(now), None);
        assert_eq!(reports.delta_due(), Some(now + DELTA_EVERY));
        let now = now + DELTA_EVERY;
        assert_eq!(reports.next(now), Some(delta("bc")));
        reports.push_delta("d", now);
        reports.push(activity("x"), now);
        assert_eq!(reports.next(now), Some(delta("d")));
        assert_eq!(reports.next(now), Some(activity("x")));
        assert_eq!(reports.next(now), None);
    }

    #[test]
    fn d8_what_nobody_takes_is_bounded() {
        let now = Instant::now();
        let mut reports = Reports::default();
        reports.open();
        for _ in 0..REPORTS_MAX * 2 {
            reports.push(activity("x"), now);
            reports.push(delta("y"), now);
            reports.push_delta(&"z".repeat(1000), now);
        }
        assert_eq!(reports.queue.len(), REPORTS_MAX);
        assert!(reports.delta.len() <= DELTA_LEN_MAX);
    }
}
