//! How a failed command reports its error, and with which exit code.
//!
//! Commands pass errors on as `anyhow::Error`. What a person can mend is a [`Failure`], which
//! carries the exit code and a hint; everything else ends with exit code 1.

use proto::error::{ErrorBody, ErrorCode};

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    Denied,
    NoDaemon,
    /// Agents wait for an answer of the user's, and nobody is here to give it.
    NeedsInput,
    /// What was waited for did not happen in the time given.
    TimedOut,
    /// Of `attach` to a terminal: coordd was gone and did not come back in time (K9).
    Lost,
    /// Of `attach` to a terminal: the member is there, and its terminal is not.
    CannotAttach,
    /// Of `attach` to a terminal: how its program ended.
    Program(u8),
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Denied => 3,
            Exit::NoDaemon => 4,
            Exit::NeedsInput => 5,
            Exit::TimedOut => 6,
            Exit::Lost => 125,
            Exit::CannotAttach => 126,
            Exit::Program(status) => status,
        })
    }
}

/// An error with its exit code and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: String::new() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        Self { exit: exit_of(body.code), message: body.message, hint: body.hint }
    }
}

/// Whether coordd refused for a reason of its own (3), or something went wrong (1).
fn exit_of(code: ErrorCode) -> Exit {
    match code {
        ErrorCode::ShuttingDown => Exit::NoDaemon,
        ErrorCode::BadCredentials
        | ErrorCode::Forbidden
        | ErrorCode::Invalid
        | ErrorCode::NotFound
        | ErrorCode::Ambiguous
        | ErrorCode::Exists
        | ErrorCode::State
        | ErrorCode::MailboxFull
        | ErrorCode::Limit
        | ErrorCode::Unsupported => Exit::Denied,
        // The rest is for a newer coordd's codes.
        ErrorCode::Malformed
        | ErrorCode::TooLarge
        | ErrorCode::Version
        | ErrorCode::NoHello
        | ErrorCode::Failed
        | ErrorCode::DiskFull
        | ErrorCode::Unknown
        | _ => Exit::Failed,
    }
}

/// An error's exit code and all that a person is told: `error: …`, then the hint after a blank
/// line.
pub(crate) fn report(error: &anyhow::Error) -> (Exit, String) {
    if is_broken_pipe(error) {
        return (Exit::Done, String::new());
    }
    let mut message = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !message.is_empty() {
            message.push_str(": ");
        }
        message.push_str(&text);
    }
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let exit = failure.map_or(Exit::Failed, |failure| failure.exit);
    let mut text = format!("error: {}\n", crate::terminal::clean(&message));
    if let Some(it) = failure.filter(|it| !it.hint.is_empty()) {
        text.push_str("\nhint: ");
        text.push_str(&crate::terminal::clean(&it.hint));
        text.push('\n');
    }
    (exit, text)
}

/// The reader of our output has closed it, as in `coordctl logs … | head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_is_one_line_then_a_blank_one_then_the_hint() {
        let failure = Failure::usage("no model is configured").hint("set ANTHROPIC_API_KEY");
        let (exit, text) = report(&failure.into());
        assert_eq!(exit, Exit::Usage);
        assert_eq!(text, "error: no model is configured\n\nhint: set ANTHROPIC_API_KEY\n");
    }

    #[test]
    fn causes_are_chained_and_the_exit_code_is_found_below_a_context() {
        let denied =
            Failure::from(ErrorBody::new(ErrorCode::NotFound, "no session \"x\u{1b}[2J\""));
        let error = Err::<(), _>(denied).context("while stopping").unwrap_err();
        assert_eq!(
            report(&error),
            (Exit::Denied, "error: while stopping: no session \"x\"\n".into())
        );
    }
    #[test]
    fn a_closed_pipe_is_no_failure() {
        let error = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(report(&error), (Exit::Done, String::new()));
    }
}
