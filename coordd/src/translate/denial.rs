//! Denials, as peers are told of them: a stable code, a sentence, and what to do.

use coordd_core::denial::Denial;
use proto::error::{ErrorBody, ErrorCode};

/// How a list of names is said.
fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn say(code: ErrorCode, message: impl Into<String>) -> ErrorBody {
    ErrorBody::new(code, message)
}

/// The denial as an error.
#[expect(
    clippy::too_many_lines,
    reason = "one short arm for each denial, and none may be forgotten"
)]
pub(crate) fn error_body(denial: &Denial) -> ErrorBody {
    use ErrorCode as Code;
    match denial {
        Denial::Forbidden { asker, request } => {
            say(Code::Forbidden, format!("{asker} may not ask for `{request}`"))
                .hint("use only the tools of your role")
        }
        Denial::NotTheUser { agent, request } => {
            let program = format!("this program was started by agent `{agent}`");
            say(Code::Forbidden, format!("only the user may ask for `{request}`, and {program}"))
                .hint("ask the user to do it in a terminal of their own")
        }
        Denial::BadCredentials => {
            say(Code::BadCredentials, "the credentials are not those of a running agent")
        }
        Denial::NotThereYet { what } => {
            say(Code::Unsupported, format!("{what}: not available in this version yet"))
        }
        Denial::NoSuchMode => say(Code::Invalid, "there is no such mode")
            .hint("the modes are coordinator, normal and fork"),
        Denial::CoordinatorNotCompiledIn => {
            say(Code::Unsupported, "this coordd was built without the Cargo feature `coordinator`")
                .hint("use --mode normal, or a build with the feature")
        }
        Denial::NoSuchSession { given, known } => {
            let next = if known.is_empty() { "; `coordctl new` creates one" } else { "" };
            say(Code::NotFound, format!("no session named `{given}`"))
                .hint(format!("sessions: {}{next}", list(known)))
        }
        Denial::NoSuchAgent { given, known } => {
            say(Code::NotFound, format!("no agent named `{given}`"))
                .hint(format!("known names: {}", list(known)))
        }
        Denial::Ambiguous { given, candidates } => {
            say(Code::Ambiguous, format!("`{given}` matches more than one"))
                .hint(format!("give one of: {}", list(candidates)))
        }
        Denial::NoSuch { what, given } => {
            say(Code::NotFound, format!("there is no {what} {given}"))
        }
        Denial::Invalid { field, why } => say(Code::Invalid, format!("`{field}` {why}")),
        Denial::TooLarge { field, len, max } => {
            say(Code::TooLarge, format!("`{field}` has {len} bytes, and at most {max} are allowed"))
                .hint("put long text into a file in the scratchpad and send its path")
        }
        Denial::NameTaken { what, name } => {
            say(Code::Exists, format!("there is, or was, a {what} named `{name}`"))
                .hint("choose another name")
        }
        Denial::Full { what, max } => {
            say(Code::Limit, format!("there are already {max} {what}, and no more are allowed"))
        }
        Denial::MailboxFull { name, len } => {
            say(Code::MailboxFull, format!("the mailbox of `{name}` is full: {len} messages wait"))
                .hint("nothing was sent; try again when it has read some of them")
        }
        Denial::InTerminal { name } => {
            say(Code::State, format!("`{name}` runs in the user's own terminal, which coordd does not end"))
                .hint(format!("ask it to end with `coordctl team shutdown SESSION/{name}` or a shutdown_request, or end it in its terminal"))
        }
        Denial::NoScreen { path } => {
            say(Code::State, format!("coordd runs no terminal for {path}"))
                .hint(format!("`coordctl attach` without `--screen` shows a conversation, `coordctl logs {path}` what was said"))
        }
        Denial::ScreenDark { path, why } => {
            let (session, name) = path.split_once('/').unwrap_or((path, ""));
            say(Code::State, format!("the terminal of {path} is not running: {why}"))
                .hint(format!("a message to it starts it, and so does `coordctl team invite {session} {name} --start`"))
        }
        Denial::TerminalOpen { name, pid } => {
            say(Code::State, format!("`{name}` already runs in a terminal of yours (process {pid})"))
                .hint("end it there first")
        }
        Denial::NeedsTeam { session } => {
            say(Code::State, format!("session `{session}` has no team to join"))
                .hint(format!("coordctl team create {session}"))
        }
        Denial::InboxShared { name, other } => {
            say(Code::Exists, format!("`{name}` would have the same inbox file as `{other}`"))
                .hint("choose a name that differs in more than `.` and `-`")
        }
        Denial::ToSelf => say(Code::Invalid, "that is yourself"),
        Denial::Nobody => {
            say(Code::NotFound, "there is nobody to send to: no other agent is active")
        }
        Denial::StructuredToMany => {
            say(Code::Invalid, "requests and their answers go to one named teammate only")
                .hint("send one to each, or send text")
        }
        Denial::NoBridge { given, known } => {
            say(Code::NotFound, format!("no session here has the address `{given}`")).hint(format!(
                "sessions: {}; one on another machine has an address as `coordctl peers` prints it",
                list(known)
            ))
        }
        Denial::BridgeOff => say(
            Code::State,
            "that session is on another machine, and there is no bridge".to_owned(),
        )
        .hint("coordctl bridge add nats://HOST:4222"),
        Denial::NotTrusted { peer } => {
            say(Code::NotFound, format!("no daemon with the fingerprint {peer} is trusted here"))
                .hint("coordctl bridge ls lists them; coordctl bridge trust adds one")
        }
        Denial::NotBridged { session, peer } => {
            say(Code::Forbidden, format!("session `{session}` may not write to {peer}"))
                .hint(format!("only its user can allow it: coordctl bridge allow {session} {peer}"))
        }
        Denial::NoSuchHost { given, known } => {
            let known = if known.is_empty() {
                "no connected machine takes workers from this one; on the other machine: coordctl \
                 new --host-for PEER --cwd CHECKOUT"
                    .to_owned()
            } else {
                format!("give one of: {}", list(known))
            };
            say(Code::NotFound, format!("`{given}` is not a host for workers of this session"))
                .hint(known)
        }
        Denial::IsHost { session } => say(
            Code::State,
            format!("session `{session}` runs workers for another machine; it has no lead that reads messages"),
        )
        .hint(format!("coordctl status {session} shows its workers")),
        Denial::NotTaken { why } => say(Code::State, format!("the message was not taken: {why}"))
            .hint("its user can change that with `coordctl inbound`"),
        Denial::NoOpenRequest { given } => {
            say(Code::State, format!("no open request `{given}` that you could answer"))
        }
        Denial::SessionStopped { name } => say(Code::State, format!("session `{name}` is stopped"))
            .hint(format!("coordctl resume {name}")),
        Denial::SessionLive { name } => {
            say(Code::State, format!("session `{name}` has running agents"))
                .hint(format!("coordctl stop {name}, or coordctl rm --force {name}"))
        }
        Denial::Joined { path, pid } => {
            let who = pid.map(|it| format!(" (process {it})")).unwrap_or_default();
            say(Code::Exists, format!("another program{who} is already {path}"))
                .hint(format!("end that program, or `coordctl stop {path}`, or join as a peer"))
        }
        Denial::NotExternal { path } => {
            say(Code::State, format!("{path} is started by coordd; no other program can join as it"))
                .hint("join as a peer, or lead a session of your own: coordctl mcp --session NAME")
        }
        Denial::External { path } => say(
            Code::State,
            format!("{path} is a program of yours; coordd cannot interrupt it"),
        )
        .hint("interrupt it where it runs"),
        Denial::OutOfSight => say(Code::Failed, "coordd cannot see the process that wants to join")
            .hint("run it on the same machine and in the same container as coordd"),
        Denial::NoSuchDefinition { given, known } => {
            say(Code::NotFound, format!("there is no agent type `{given}`"))
                .hint(format!("agent types: {}", list(known)))
        }
        Denial::NoSuchPhase { given } => say(Code::Invalid, format!("there is no phase `{given}`"))
            .hint("phases: research, synthesis, implementation, verification"),
        Denial::WorkersRun { names } => {
            say(Code::State, format!("workers are still active: {}", list(names)))
                .hint("wait for their notifications, or stop them first")
        }
        Denial::HasTeam { name } => {
            say(Code::Exists, format!("this session already leads the team `{name}`"))
                .hint("a session leads one team at a time; delete that one first")
        }
        Denial::NoTeam => say(Code::NotFound, "this session has no team"),
        Denial::TaskTaken { task, owner } => {
            say(Code::State, format!("task {task} belongs to `{owner}`"))
                .hint("choose another task, or have its owner give it back first")
        }
        Denial::TaskBlocked { task, by } => {
            let by: Vec<_> = by.iter().map(ToString::to_string).collect();
            say(Code::State, format!("task {task} waits for {}", list(&by)))
        }
        Denial::TaskCycle { task } => {
            say(Code::Invalid, format!("task {task} would wait for itself"))
                .hint("`coordctl task ls` shows what waits for what")
        }
        Denial::TaskWithoutOwner { task } => {
            say(Code::Invalid, format!("task {task} has no owner"))
                .hint("a task in progress needs one")
        }
        Denial::Answered { id } => say(Code::State, format!("question {id} is already answered")),
        Denial::AskerStopped => say(Code::State, "the agent is gone"),
        Denial::DiskFull => {
            say(Code::DiskFull, "the disk that holds coordd's state is full; nothing was accepted")
                .hint("free some space; coordd continues by itself")
        }
        Denial::ShuttingDown => say(Code::ShuttingDown, "coordd is stopping; it starts nothing new")
            .hint("try again in a moment"),
        Denial::Failed { why } => say(Code::Failed, why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_session_the_hint_says_how_one_is_made() {
        let hint = |known: &[&str]| {
            let known = known.iter().map(|&name| name.to_owned()).collect();
            error_body(&Denial::NoSuchSession { given: "x".into(), known }).hint
        };
        assert_eq!(hint(&[]), "sessions: none; `coordctl new` creates one");
        assert_eq!(hint(&["a", "b"]), "sessions: a, b");
    }
}
