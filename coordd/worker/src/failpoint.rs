//! Named points at which a test ends the process, as kill -9 would. They are there with the feature
//! `failpoints` alone: without it nothing is read, and reaching one does nothing.
//!
//! `COORDD_AGENT_FAILPOINT=w/1:after-outcome-file=abort@1`, in the session's environment, ends the
//! first process of agent `w` the first time that it gets there; several are separated by commas.

use proto::agent::Bootstrap;

/// Where a test can end an agent process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Messages are in the transcript, and coordd does not know.
    InTranscript,
    /// The outcome of a run is on disk, and not in the transcript.
    OutcomeWritten,
    /// It is in the transcript too, and coordd does not know.
    RunClosed,
    /// coordd has recorded the end of a run.
    RunRecorded,
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn arm(_boot: &Bootstrap) {}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn reach(_point: Point) {}

#[cfg(feature = "failpoints")]
pub(crate) use armed::{arm, reach};

#[cfg(feature = "failpoints")]
mod armed {
    use super::{Bootstrap, Point};
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    thread_local! {
        /// How often each point is still to be passed. The agent lives on one thread.
        static LEFT: RefCell<BTreeMap<String, u64>> = const { RefCell::new(BTreeMap::new()) };
    }

    fn name(point: Point) -> &'static str {
        match point {
            Point::InTranscript => "after-transcript",
            Point::OutcomeWritten => "after-outcome-file",
            Point::RunClosed => "after-run-closed",
            Point::RunRecorded => "after-run-ended",
        }
    }

    /// Takes what concerns this process.
    pub(crate) fn arm(boot: &Bootstrap) {
        let own = format!("{}/{}:", boot.name, boot.incarnation);
        let text = boot.env.get("COORDD_AGENT_FAILPOINT").map_or("", String::as_str);
        let points = text.split(',').filter_map(|part| {
            let (name, at) = part.strip_prefix(&own)?.split_once("=abort@")?;
            Some((name.to_owned(), at.parse().ok()?))
        });
        LEFT.with_borrow_mut(|left| left.extend(points));
    }

    /// Ends the process when this is the time that was asked for.
    pub(crate) fn reach(point: Point) {
        let is_now = LEFT.with_borrow_mut(|left| {
            left.get_mut(name(point)).is_some_and(|left| {
                *left = left.saturating_sub(1);
                *left == 0
            })
        });
        if is_now {
            let _sent = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }
}
