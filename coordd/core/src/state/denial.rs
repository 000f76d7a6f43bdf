//! Why something that was asked for is not done. Expected, never logged as an error, and told to who asked.

use alloc::string::String;
use alloc::vec::Vec;

/// A refusal with its reason. Nothing changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denial {
    /// The asker's role may not ask for this.
    Forbidden {
        /// Who asks.
        asker: &'static str,
        /// For what.
        request: &'static str,
    },
    /// Only the user may ask for this, and an agent's program asks.
    NotTheUser {
        /// The agent's name.
        agent: String,
        /// For what.
        request: &'static str,
    },
    /// The credentials are no agent's, or of an earlier incarnation.
    BadCredentials,
    /// Something that is planned.
    NotThereYet {
        /// The feature that is not there yet.
        what: &'static str,
    },
    /// `--mode` with a word that is none.
    NoSuchMode,
    /// Coordinator mode in a build without it (G-3).
    CoordinatorNotCompiledIn,
    /// No session fits the reference.
    NoSuchSession {
        /// The reference.
        given: String,
        /// Names of sessions that there are.
        known: Vec<String>,
    },
    /// No agent fits the reference.
    NoSuchAgent {
        /// The reference.
        given: String,
        /// Names of agents that could have been meant.
        known: Vec<String>,
    },
    /// Several fit.
    Ambiguous {
        /// The reference.
        given: String,
        /// What fits.
        candidates: Vec<String>,
    },
    /// No message, question, team or task has that id.
    NoSuch {
        /// What kind of thing.
        what: &'static str,
        /// The id.
        given: String,
    },
    /// A field is not as it must be.
    Invalid {
        /// The field of the request.
        field: &'static str,
        /// The end of a sentence that begins with the field's name.
        why: String,
    },
    /// A field is too long.
    TooLarge {
        /// The field of the request.
        field: &'static str,
        /// How long it is, in bytes.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// A name is taken.
    NameTaken {
        /// Of what.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A bound on a number of things is reached.
    Full {
        /// Of which things.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// The receiver's mailbox is full (M-4).
    MailboxFull {
        /// The receiver.
        name: String,
        /// Messages in it.
        len: usize,
    },
    /// A member in a terminal of the user's is not ours to end.
    InTerminal {
        /// Its name.
        name: String,
    },
    /// The agent has no terminal that coordd runs.
    NoScreen {
        /// The agent, as `session/name`.
        path: String,
    },
    /// The terminal that coordd runs for the agent is not up.
    ScreenDark {
        /// The agent, as `session/name`.
        path: String,
        /// Why not, as the end of a sentence.
        why: String,
    },
    /// A member's program runs in a terminal of the user's already.
    TerminalOpen {
        /// Its name.
        name: String,
        /// The number of its process.
        pid: u32,
    },
    /// The session has no team yet, and it is for members of one.
    NeedsTeam {
        /// The session.
        session: String,
    },
    /// Its inbox would be another's.
    InboxShared {
        /// The name that was given.
        name: String,
        /// Whose inbox it is.
        other: String,
    },
    /// Sending to oneself.
    ToSelf,
    /// There is nobody to send to.
    Nobody,
    /// A structured kind to `*`, `uds:` or `bridge:` (M-2).
    StructuredToMany,
    /// A `bridge:` address of no session here, and nothing leads to others.
    NoBridge {
        /// The id.
        given: String,
        /// Names of sessions that there are.
        known: Vec<String>,
    },
    /// An address on another machine, and no bridge.
    BridgeOff,
    /// An address on a daemon that is not trusted here.
    NotTrusted {
        /// Its fingerprint.
        peer: String,
    },
    /// The user did not allow the session to write there.
    NotBridged {
        /// The session.
        session: String,
        /// The daemon's fingerprint.
        peer: String,
    },
    /// No machine of that name takes workers.
    NoSuchHost {
        /// What was given.
        given: String,
        /// What could be, as far as machines have told.
        known: Vec<String>,
    },
    /// The session is for workers of another machine, and nobody reads there.
    IsHost {
        /// Its name.
        session: String,
    },
    /// Another session does not take the message.
    NotTaken {
        /// The reason, as a sentence.
        why: String,
    },
    /// A response to no open request (M-2).
    NoOpenRequest {
        /// The id that was given.
        given: String,
    },
    /// The session is stopped.
    SessionStopped {
        /// Its name.
        name: String,
    },
    /// The session is live, and the request is for a stopped one.
    SessionLive {
        /// Its name.
        name: String,
    },
    /// Another program is this agent already.
    Joined {
        /// The agent, as `session/name`.
        path: String,
        /// The number of its process, where it is known.
        pid: Option<u32>,
    },
    /// The agent is started by coordd, and nobody can join as it.
    NotExternal {
        /// The agent, as `session/name`.
        path: String,
    },
    /// The agent is a program of the user's, and coordd has no hold of what it does.
    External {
        /// The agent, as `session/name`.
        path: String,
    },
    /// The process that wants to join cannot be seen.
    OutOfSight,
    /// The definition does not exist.
    NoSuchDefinition {
        /// What was asked for.
        given: String,
        /// What there is, sorted.
        known: Vec<String>,
    },
    /// The phase does not exist.
    NoSuchPhase {
        /// What was asked for.
        given: String,
    },
    /// Workers still run, and the request is for when none does.
    WorkersRun {
        /// Their names.
        names: Vec<String>,
    },
    /// The session has a team already (T-1).
    HasTeam {
        /// The team.
        name: String,
    },
    /// The session has no team.
    NoTeam,
    /// A task has another owner.
    TaskTaken {
        /// Which task.
        task: u32,
        /// The owner.
        owner: String,
    },
    /// A task waits for others.
    TaskBlocked {
        /// Which task.
        task: u32,
        /// Unfinished ones before it.
        by: Vec<u32>,
    },
    /// A task would wait for itself.
    TaskCycle {
        /// Which task.
        task: u32,
    },
    /// A task is to be in progress without an owner.
    TaskWithoutOwner {
        /// Which task.
        task: u32,
    },
    /// A question was answered before.
    Answered {
        /// The question.
        id: String,
    },
    /// The agent was stopped while its question was open.
    AskerStopped,
    /// The disk is full, and the request would put more on it.
    DiskFull,
    /// The daemon is ending.
    ShuttingDown,
    /// The shell could not do its part.
    Failed {
        /// What it said.
        why: String,
    },
}
