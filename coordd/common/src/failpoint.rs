//! Named points at which a test ends the process, as kill -9 would. They are there with the feature `failpoints` alone:
//! without it nothing is read, and reaching one does nothing.
//!
//! `after-decide=abort@3` ends the process the third time that it gets there, `spawned-report=skip@1` leaves out what comes
//! there the first time; several are separated by commas.

/// Where a test can end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(
    /// As the test says it.
    pub &'static str,
);

#[cfg(feature = "failpoints")]
pub use armed::{arm, reach, skips};

/// Takes what a test asks for, of all that begins with `own`.
#[cfg(not(feature = "failpoints"))]
pub fn arm(_text: &str, _own: &str) {}

/// Ends the process when this is the time that was asked for.
#[cfg(not(feature = "failpoints"))]
pub fn reach(_point: Point) {}

/// Whether what comes here is to be left out this time.
#[cfg(not(feature = "failpoints"))]
pub fn skips(_point: Point) -> bool {
    false
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::Mutex;

    use rustix::process::{Signal, getpid, kill_process};

    use super::Point;

    /// How often each point is still to be reached, by point and what is done there.
    static LEFT: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

    /// Takes what a test asks for, of all that begins with `own`.
    pub fn arm(text: &str, own: &str) {
        let points = text.split(',').filter_map(|asked| {
            let (point, time) = asked.strip_prefix(own)?.split_once('@')?;
            Some((point.to_owned(), time.parse().ok()?))
        });
        if let Ok(mut left) = LEFT.lock() {
            left.extend(points);
        }
    }

    /// Ends the process when this is the time that was asked for.
    pub fn reach(point: Point) {
        if is_due(point, "abort") {
            let _sent = kill_process(getpid(), Signal::KILL);
        }
    }

    /// Whether what comes here is to be left out this time.
    pub fn skips(point: Point) -> bool {
        is_due(point, "skip")
    }

    fn is_due(point: Point, action: &str) -> bool {
        let Ok(mut left) = LEFT.lock() else { return false };
        let reached = format!("{}={action}", point.0);
        let mut is_due = false;
        for (_, times) in left.iter_mut().filter(|(asked, _)| *asked == reached) {
            is_due |= *times == 1;
            *times = times.saturating_sub(1);
        }
        is_due
    }
}

#[cfg(all(test, feature = "failpoints"))]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_due_at_each_time_that_was_asked_for() {
        const POINT: Point = Point("here");
        arm("w/1:here=skip@2,w/1:here=skip@4,w/2:here=skip@1,w/1:there=skip@1,nonsense", "w/1:");
        assert_eq!([(); 5].map(|()| skips(POINT)), [false, true, false, true, false]);
        // Asked for by another name, or to do something else there.
        reach(Point("there"));
        assert!(!skips(Point("w/2:here")));
    }
}
