//! Every bound of the core, with its reason.

/// Rounds of settling after one input. An agent goes through at most a few states in one, so this is never reached.
pub const SETTLE_ROUNDS_MAX: usize = 16;

/// Sessions known at once. A person has tens; a script that leaks them is stopped here.
pub const SESSIONS_MAX: usize = 1_000;
/// Agents in one session, stopped ones included: each costs a row in `status` and a name for ever.
pub const AGENTS_PER_SESSION_MAX: usize = 1_000;
/// Workers of one session that have a process at once, unless the session says otherwise (W-7).
pub const WORKERS_RUNNING_DEFAULT: u32 = 20;
/// The most that a session may ask for.
pub const WORKERS_RUNNING_MAX: u32 = 1_000;
/// The time over which starts of workers are counted (W-7): a minute.
pub const STARTS_WINDOW_MS: u64 = 60 * 1_000;
/// Model calls in one run of a worker, unless the session says otherwise (W-7).
pub const WORKER_TURNS_DEFAULT: u32 = 200;
/// Wall time of one run of a worker, unless the session says otherwise (W-7): one hour.
pub const WORKER_RUN_MS_DEFAULT: u64 = 60 * 60 * 1_000;

/// Unconsumed messages of one agent (M-4).
pub const MAILBOX_LEN_MAX: usize = 1_000;
/// Bytes in the unconsumed messages of one agent (M-4).
pub const MAILBOX_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes in the text of one message (M-4).
pub const BODY_LEN_MAX: usize = 256 * 1024;
/// Characters of a summary; more is cut off, since it is for lists only.
pub const SUMMARY_LEN_MAX: usize = 200;
/// Bytes of a description; more is refused.
pub const DESCRIPTION_LEN_MAX: usize = 500;
/// Bytes of a worker's result inside its notification; the rest stays in its transcript.
pub const RESULT_LEN_MAX: usize = 128 * 1024;
/// Bytes of the structured output: it travels in views.
pub const OUTPUT_LEN_MAX: usize = 64 * 1024;
/// Bytes of a tool input that the user is asked about: it travels in views.
pub const QUESTION_LEN_MAX: usize = 128 * 1024;
/// Bytes of an idempotency key.
pub const KEY_LEN_MAX: usize = 128;
/// Bytes of a reason or feedback text.
pub const REASON_LEN_MAX: usize = 4 * 1024;
/// Bytes of a working directory's path: `PATH_MAX` of Linux.
pub const PATH_LEN_MAX: usize = 4_096;
/// Bytes of the opaque settings of a session: model and permission rules.
pub const SETTINGS_LEN_MAX: usize = 64 * 1024;

/// Workers of a session that wait for a person and hold no place. Each is a process, whose memory is not free: those beyond hold one.
pub const ASKING_BESIDE_MAX: u32 = 64;
/// Open questions of all agents: nobody can answer more.
pub const QUESTIONS_OPEN_MAX: usize = 1_000;
/// Bytes of a rule that a question offers to learn: it is kept with the session.
pub const RULE_LEN_MAX: usize = 8 * 1024;
/// Rules that a session learned from "always".
pub const RULES_LEARNED_MAX: usize = 200;
/// Bytes of the tasks of one team: all of them are in every copy of its files that waits to be written.
pub const TASKS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Tasks of one team.
pub const TASKS_PER_TEAM_MAX: usize = 1_000;
/// How far beyond the last number of a team that of a task made by others may be: with all its tasks, numbers never run out.
pub const TASK_GAP_MAX: u32 = 1_000;
/// Bytes of the name of an owner who is no agent of coordd's.
pub const OWNER_LEN_MAX: usize = 128;
/// Calls that wait for something, over all connections.
pub const WAITERS_MAX: usize = 4_096;

/// Messages from outside that are remembered, so that what comes again is known: at the rate below, those of a day.
pub const HEARD_KEPT_MAX: usize = 10_000;
/// Messages from outside that wait for the user, in one session: nobody reads more.
pub const HELD_MAX: usize = 50;
/// How long they wait: a day, so that somebody may look.
pub const HELD_KEPT_MS: u64 = 24 * 60 * 60 * 1_000;
/// Who is told when one lead has nothing to do: other sessions of the same user.
pub const WATCHERS_MAX: usize = 16;
/// Messages that are being handed to the outside: each costs a connection for some seconds.
pub const OUTGOING_OPEN_MAX: usize = 256;
/// Messages that one sender outside may send at once.
pub const OUTSIDE_BURST: u32 = 30;
/// How long one more takes to be allowed: a conversation needs no more than one in two seconds.
pub const OUTSIDE_EVERY_MS: u64 = 2_000;
/// The same for all senders together, over all sessions.
pub const OUTSIDE_ALL_BURST: u32 = 240;
/// See [`OUTSIDE_ALL_BURST`].
pub const OUTSIDE_ALL_EVERY_MS: u64 = 250;
/// Senders outside whose rate is kept; with more the one that was heard longest ago is forgotten.
pub const OUTSIDE_SENDERS_MAX: usize = 256;
/// Bytes of what somebody outside says about itself or its reasons: names, addresses, last words.
pub const OUTSIDE_FIELD_LEN_MAX: usize = 1_000;
/// A message that was being handed out when the daemon died is handed out again within this time, since receivers know
/// what comes again within 30 s. Later it might be read twice.
pub const HAND_AGAIN_MS: u64 = 25_000;

/// Messages on their way to other machines: some days' worth for those that are away, and all that the bridge holds at once.
pub const BRIDGE_OPEN_MAX: usize = 2_000;
/// What is said of one daemon's messages and waits for it. With so many no more of its messages are taken, so that it can be said
/// what became of each; ten windows and more.
pub const BRIDGE_STATUSES_OF_ONE_MAX: usize = 1_000;
/// The same of all daemons. What is beyond is left out: with a few daemons it is never reached.
pub const BRIDGE_STATUSES_MAX: usize = 8_000;
/// Bytes of one text once it is escaped: with its envelope it is to fit into what servers take, 1 MiB.
pub const BRIDGE_TEXT_LEN_MAX: usize = 768 * 1024;
/// Bytes of their texts: they are in memory.
pub const BRIDGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Messages that the bridge is given for one other daemon: its window.
pub const BRIDGE_WINDOW_MAX: usize = 64;
/// How long a message waits for a machine that is away: as long as receipts are kept.
pub const BRIDGE_KEPT_MS: u64 = RECEIPT_KEPT_MS;
/// How long the end of a run waits for the machine of its lead: a season, since it is what the work was done for.
pub const HOST_END_KEPT_MS: u64 = 90 * 24 * 60 * 60 * 1_000;
/// Other daemons that one session may exchange messages with: they are in the session's record.
pub const BRIDGED_MAX: usize = 64;

/// Connections that look at one screen: each is told every change. A person has a few.
pub const VIEWERS_MAX: usize = 32;
/// Bytes that are typed at once; what is pasted comes in pieces.
pub const SCREEN_INPUT_LEN_MAX: usize = 64 * 1024;
/// Arguments that a terminal's program is started with, and bytes in all of them: they are kept with the agent.
pub const TERMINAL_ARGUMENTS_MAX: usize = 64;
/// See [`TERMINAL_ARGUMENTS_MAX`].
pub const TERMINAL_ARGUMENTS_BYTES_MAX: usize = 8 * 1024;

/// How long receipts and idempotency keys are kept (M-11): 7 days.
pub const RECEIPT_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// How often old receipts are looked for.
pub const FORGET_EVERY_MS: u64 = 10 * 60 * 1_000;

/// A wall clock that runs ahead of the steady one by so much between two inputs has jumped, and says nothing about age for a while.
pub const CLOCK_JUMP_MS: u64 = 60 * 60 * 1_000;

/// From the start of a process to its first hello (case C7). It only has to connect, even on a machine that is busy.
pub const HELLO_MS: u64 = 60_000;
/// From the start of the daemon, or the loss of a connection, to the return of a process that lives. Generous, since killing
/// one that works costs more than waiting for one that hangs (case C12).
pub const RETURN_MS: u64 = 5 * 60_000;
/// From the end of a worker's work to the kill of a process that does not leave: its place is wanted.
pub const LEAVE_MS: u64 = 10_000;
/// From the order to stop to the kill of what is left (W-6 allows 2 s in all).
pub const STOP_GRACE_MS: u64 = 1_500;
/// How long a process that was being started when the daemon died has to make itself known.
pub const ADOPT_MS: u64 = 10_000;
/// Times in a row that an agent's process may end in the middle of a run before the run is given up.
pub const CRASHES_MAX: u32 = 3;

/// A research run below both figures is marked `thin` (N-6).
pub const THIN_TOOL_USES: u64 = 2;
/// See [`THIN_TOOL_USES`].
pub const THIN_TOKENS: u64 = 1_000;
