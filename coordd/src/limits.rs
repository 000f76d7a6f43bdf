//! Every bound of the shell, with its reason. The core's are in `coordd-core`, the codecs' in
//! `proto`.

use std::time::Duration;

/// Inputs that wait for the reactor. A peer that finds it full waits, and costs only itself.
pub(crate) const INPUTS_WAITING_MAX: usize = 1_024;
/// Inputs in one batch, and so in one transaction: more would delay the first reply for little
/// gain.
pub(crate) const BATCH_LEN_MAX: usize = 256;
/// Bytes of records in one transaction: half of what is kept for a full disk, since the log and the
/// pages cost more.
pub(crate) const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Messages that wait to be written to one peer. A peer that lets this fill up is closed, or, for
/// events, told of a gap. An agent that comes back gets a full mailbox at once, as many messages
/// again when it has acknowledged those, and its answers.
pub(crate) const OUTBOX_LEN_MAX: usize = 2 * coordd_core::limits::MAILBOX_LEN_MAX + 512;
/// Messages that wait to be written to a peer above which no more parts of pictures of a screen are
/// queued for it: one largest picture and some more, 8 MiB. It asks for a whole one when it has
/// read those.
pub(crate) const SCREENS_WAITING_MAX: usize = 160;
/// Calls of one peer that are not answered yet; some wait for people. More are not read until one
/// is answered.
pub(crate) const CALLS_OPEN_MAX: usize = 256;
/// Connections at once: 1,000 agents and everything else, below the usual limit of descriptors once
/// raised.
pub(crate) const PEERS_MAX: usize = 2_048;
/// Connections that have not said hello (rel-81).
pub(crate) const STRANGERS_MAX: usize = 32;
/// Bytes that are read from a peer at once. Each connection has such a buffer, and most messages
/// are smaller.
pub(crate) const READ_LEN: usize = 4 * 1024;
/// From connecting to a whole hello (rel-81).
pub(crate) const HELLO_TIME_MAX: Duration = Duration::from_secs(5);
/// From the first to the last byte of a message (rel-81).
pub(crate) const MESSAGE_TIME_MAX: Duration = Duration::from_secs(30);
/// For writing one message to a peer that does not read.
pub(crate) const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// For answering a peer that has closed its sending side and still reads: scripts that pipe their
/// requests do.
pub(crate) const ANSWERS_TIME_MAX: Duration = Duration::from_secs(10);
/// For writing what is queued for a peer whose connection ends.
pub(crate) const LAST_WORDS_TIME_MAX: Duration = Duration::from_secs(2);
/// How long accepting rests when there are no descriptors left (rel-45).
pub(crate) const ACCEPT_REST: Duration = Duration::from_millis(100);
/// Jobs that wait for the shell. The core makes at most a few for each input; full means that
/// something is stuck.
pub(crate) const JOBS_WAITING_MAX: usize = 16_384;
/// Processes being started at once: a mass restore must not drown the machine (rel-55).
pub(crate) const SPAWNS_AT_ONCE_MAX: usize = 4;
/// Inputs that wait for the hub. Streamed text beyond that is dropped, and reported as a gap.
pub(crate) const HUB_WAITING_MAX: usize = 4_096;
/// Events kept for those who reconnect.
pub(crate) const EVENTS_KEPT_MAX: usize = 4_096;
/// Bytes of them, about.
pub(crate) const EVENTS_KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Live entries held for a viewer while it is sent the past.
pub(crate) const CATCH_UP_LEN_MAX: usize = 4_096;
/// Transcripts that are read at once: each is up to 64 MiB of reading.
pub(crate) const READS_AT_ONCE_MAX: usize = 4;
/// Bytes of entries from before that an attached viewer gets at most.
pub(crate) const HISTORY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of text in one entry that is shown; the transcript has it all.
pub(crate) const SHOWN_BYTES_MAX: usize = 128 * 1024;
/// Bytes of records since the last clean-up of the store that make the next one worth its time.
pub(crate) const STALE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Entries from before that an attached viewer gets at most.
pub(crate) const HISTORY_LEN_MAX: u32 = 2_000;
/// Entries in one page of a transcript.
pub(crate) const PAGE_LEN_MAX: u32 = 500;
/// Bytes of entries in one page, so that the page fits into a frame.
pub(crate) const PAGE_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a transcript that are searched for a page, from its end.
pub(crate) const TRANSCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of one environment.
pub(crate) const ENV_BYTES_MAX: usize = 256 * 1024;
/// The user's own agent definitions that are looked at.
pub(crate) const DEFINITIONS_MAX: usize = 200;
/// Records in the store, beyond those of a snapshot, that make a clean-up at start worth its time.
pub(crate) const RECORDS_STALE_MAX: usize = 2_000;
/// How long ending waits for replies to be written and jobs to be done.
pub(crate) const ENDING_TIME_MAX: Duration = Duration::from_secs(2);
/// Between two looks at what was put into the file system, where the kernel tells nothing: a logout is seen while a person logs
/// in again, and a look costs some microseconds for each session.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long nothing must have happened before it is looked at what is gone: whoever removes a folder removes many files.
pub(crate) const SETTLE_QUIET: Duration = Duration::from_millis(50);
/// How long that is waited for.
pub(crate) const SETTLE_TIME_MAX: Duration = Duration::from_millis(500);
/// How long a daemon whose state folder another one serves waits for that one to make its socket at this path anew: some looks.
pub(crate) const OTHERS_TIME_MAX: Duration = Duration::from_millis(1_200);
/// Between two looks whether it has.
pub(crate) const OTHERS_LOOK_EVERY: Duration = Duration::from_millis(20);
