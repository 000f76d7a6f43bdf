//! Named points at which a test ends the process, as kill -9 would. They are there with the feature
//! `failpoints` alone: without it nothing is read, and reaching one does nothing.
//!
//! `COORDD_FAILPOINT=after-decide=abort@3` ends it the third time that it gets there,
//! `spawned-report=skip@1` leaves out what comes there the first time; several are separated by
//! commas.

/// Where a test can end the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The core has taken a whole batch.
    AfterDecide,
    /// The batch has records, and they are about to be written.
    BeforeCommit,
    /// They are durable, and nobody has been told.
    AfterCommit,
    /// Some of the effects are out.
    BetweenEffects,
    /// An agent process runs that no record names.
    AfterSpawn,
    /// The process is about to be recorded. Skipping this leaves a process that no record names.
    SpawnedReport,
    /// An agent process has ended, and the core does not know.
    AfterExit,
    /// A message is about to be said to a session of another program.
    BeforeSaying,
    /// It was said, and the core does not know.
    AfterSaying,
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn reach(_point: Point) {}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn skips(_point: Point) -> bool {
    false
}

#[cfg(feature = "failpoints")]
pub(crate) use armed::{reach, skips};

#[cfg(feature = "failpoints")]
mod armed {
    use super::Point;
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// How often each point was reached.
    static REACHED: [AtomicU64; 9] = [const { AtomicU64::new(0) }; 9];
    static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();

    struct Armed {
        point: String,
        action: String,
        time: u64,
    }

    fn name(point: Point) -> &'static str {
        match point {
            Point::AfterDecide => "after-decide",
            Point::BeforeCommit => "before-commit",
            Point::AfterCommit => "after-commit",
            Point::BetweenEffects => "between-effects",
            Point::AfterSpawn => "after-spawn",
            Point::SpawnedReport => "spawned-report",
            Point::AfterExit => "after-exit",
            Point::BeforeSaying => "before-saying",
            Point::AfterSaying => "after-saying",
        }
    }

    /// Ends the process when this is the time that was asked for.
    pub(crate) fn reach(point: Point) {
        if is_due(point, "abort") {
            let _sent = kill_process(getpid(), Signal::KILL);
        }
    }

    /// Whether what comes here is to be left out this time.
    pub(crate) fn skips(point: Point) -> bool {
        is_due(point, "skip")
    }

    fn is_due(point: Point, action: &str) -> bool {
        let Some(count) = REACHED.get(point as usize) else { return false };
        let time = count.fetch_add(1, Ordering::SeqCst) + 1;
        let armed =
            ARMED.get_or_init(|| parse(&std::env::var("COORDD_FAILPOINT").unwrap_or_default()));
        armed.iter().any(|it| it.point == name(point) && it.action == action && it.time == time)
    }

    fn parse(text: &str) -> Vec<Armed> {
        let armed = text.split(',').filter_map(|part| {
            let (point, rest) = part.split_once('=')?;
            let (action, time) = rest.split_once('@')?;
            let (point, action) = (point.to_owned(), action.to_owned());
            Some(Armed { point, action, time: time.parse().ok()? })
        });
        armed.collect()
    }
}
