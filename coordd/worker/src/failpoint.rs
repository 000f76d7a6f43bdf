//! Where a test can end an agent process: `COORDD_AGENT_FAILPOINT=w/1:after-outcome-file=abort@1`, in the session's
//! environment, ends the first process of agent `w` the first time that it gets there. See `failpoint` in `coordd-common`.

use coordd_common::failpoint::Point;
pub(crate) use coordd_common::failpoint::reach;
use proto::agent::Bootstrap;

/// Messages are in the transcript, and coordd does not know.
pub(crate) const IN_TRANSCRIPT: Point = Point("after-transcript");
/// The outcome of a run is on disk, and not in the transcript.
pub(crate) const OUTCOME_WRITTEN: Point = Point("after-outcome-file");
/// It is in the transcript too, and coordd does not know.
pub(crate) const RUN_CLOSED: Point = Point("after-run-closed");
/// coordd has recorded the end of a run.
pub(crate) const RUN_RECORDED: Point = Point("after-run-ended");

/// Takes what concerns this process.
pub(crate) fn arm(boot: &Bootstrap) {
    let text = boot.env.get("COORDD_AGENT_FAILPOINT").map_or("", String::as_str);
    coordd_common::failpoint::arm(text, &format!("{}/{}:", boot.name, boot.incarnation));
}
