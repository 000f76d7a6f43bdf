//! Agent processes as the kernel sees them: started, known again, waited for, ended.
//!
//! ```text
//! spawn --bootstrap on stdin--> running --> ended --> outcome read
//!                                  \--end_tree: TERM, grace, KILL--> none left
//! ```
//!
//! A process is known by its pid, the time of its start and the boot, never by its pid alone, and
//! every signal goes through a pidfd that was checked against them. Nothing here decides whether a
//! process should run.

pub(crate) mod alone;
pub(crate) mod identity;
pub(crate) mod kill;
pub(crate) mod lineage;
pub(crate) mod outcome;
pub(crate) mod spawn;
pub(crate) mod terminals;
pub(crate) mod watch;

/// Marks the processes of an agent in their environment. The agent process hands it on to its
/// tools.
pub(crate) const AGENT_ID: &str = "COORDD_AGENT_ID";
