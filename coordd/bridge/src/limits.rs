//! Every bound of this process that is not about one module alone, each with its reason.

/// A message of 256 KiB, its summary and names, as JSON that escapes every byte of a control character sixfold: what is
/// longer is refused before it is opened. Below the 1 MiB that a NATS server takes by default.
pub(crate) const SEALED_LEN_MAX: usize = 900 * 1024;

/// Daemons that one daemon trusts. Each costs a presence every few seconds.
pub(crate) const PEERS_MAX: usize = 1_024;

/// Rows on their way to one daemon: enough to hide a round trip over a slow link, few enough that the receiver can
/// remember what it decided about each.
pub(crate) const WINDOW_MAX: usize = 64;

/// Rows on their way to all daemons together: all that coordd hands over, a window for each. It keeps the rest. A row that is
/// turned away while a later one is taken would be lost, since its receiver then takes it for one that it knows.
pub(crate) const ROWS_MAX: usize = WINDOW_MAX * PEERS_MAX;

/// Sessions that one daemon tells another of. More is cut, and said.
pub(crate) const SESSIONS_TOLD_MAX: usize = 256;

/// Receipts in one envelope: one for each row that can be on its way.
pub(crate) const RECEIPTS_MAX: usize = WINDOW_MAX;

/// Names, addresses, folders and reasons that come from another daemon; cut, since they are for people.
pub(crate) const FIELD_LEN_MAX: usize = 512;

/// A file of this process's own folder: 1,024 peers, or as many cursors with 64 verdicts each.
pub(crate) const FILE_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Messages that were taken from the server and are not decided: each may be as long as the longest.
pub(crate) const UNDECIDED_MAX: usize = WINDOW_MAX;
