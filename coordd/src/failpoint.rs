//! Where a test can end the daemon: `COORDD_FAILPOINT=after-decide=abort@3`. See `failpoint` in `coordd-common`.

pub(crate) use coordd_common::failpoint::{Point, arm, reach, skips};

/// What a test sets.
pub(crate) const VARIABLE: &str = "COORDD_FAILPOINT";

/// The core has taken a whole batch.
pub(crate) const AFTER_DECIDE: Point = Point("after-decide");
/// The batch has records, and they are about to be written.
pub(crate) const BEFORE_COMMIT: Point = Point("before-commit");
/// They are durable, and nobody has been told.
pub(crate) const AFTER_COMMIT: Point = Point("after-commit");
/// Some of the effects are out.
pub(crate) const BETWEEN_EFFECTS: Point = Point("between-effects");
/// An agent process runs that no record names.
pub(crate) const AFTER_SPAWN: Point = Point("after-spawn");
/// The same is about to be told. To skip it is to have a process that no record names, for good.
pub(crate) const SPAWNED_REPORT: Point = Point("spawned-report");
/// An agent process has ended, and the core does not know.
pub(crate) const AFTER_EXIT: Point = Point("after-exit");
/// A message is about to be said to a session of another program.
pub(crate) const BEFORE_SAYING: Point = Point("before-saying");
/// It was said, and the core does not know.
pub(crate) const AFTER_SAYING: Point = Point("after-saying");
