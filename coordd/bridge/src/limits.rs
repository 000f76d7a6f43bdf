//! The bounds of this process that concern several modules, each with its reason.

/// A message of 256 KiB, its summary and names, as JSON that escapes every byte of a control
/// character sixfold: what is longer is refused before it is opened. Below the 1 MiB that a NATS
/// server takes by default.
pub(crate) const SEALED_LEN_MAX: usize = 900 * 1024;

/// Daemons that one daemon trusts. Each costs a presence every few seconds.
pub(crate) const PEERS_MAX: usize = 1_024;

/// Rows in transit to one daemon: enough to hide a round trip over a slow link, few enough that the
/// receiver can remember each decision.
pub(crate) const WINDOW_MAX: usize = 64;

/// Rows on their way to all daemons together: all that coordd hands over, a window for each. coordd
/// keeps the rest. A row that is rejected while a later one is taken would be lost, since its
/// receiver would then take it for a duplicate.
pub(crate) const ROWS_MAX: usize = WINDOW_MAX * PEERS_MAX;

/// The most sessions in one daemon's presence. The rest is cut, and that is reported.
pub(crate) const SESSIONS_TOLD_MAX: usize = 256;

/// Receipts in one envelope: one for each row that can be in transit.
pub(crate) const RECEIPTS_MAX: usize = WINDOW_MAX;

/// Names, addresses, folders and reasons that come from another daemon; cut, since they are for
/// people.
pub(crate) const FIELD_LEN_MAX: usize = 512;

/// A file of this process's own folder: 1,024 peers, or as many cursors with 64 verdicts each.
pub(crate) const FILE_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Undecided messages from the server: each may have the greatest length.
pub(crate) const UNDECIDED_MAX: usize = WINDOW_MAX;
