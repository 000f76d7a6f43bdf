//! How a run ends, and errors that end one.

use proto::notification::FailureClass;

use crate::outcome::Shortfall;
use crate::transcript::TranscriptError;

/// How a run ended.
#[derive(Debug)]
pub(super) struct End {
    /// None: it completed.
    pub(super) shortfall: Option<Shortfall>,
    /// The model could still write a report.
    pub(super) reported: bool,
    pub(super) lasted_ms: u64,
}

/// What keeps a run from going on.
#[derive(Debug)]
pub(super) enum Halt {
    /// It cannot go on.
    Short(Shortfall),
    /// The process ends and the run does not.
    Left,
    /// It may not; the limit in words.
    Limit { limit: String, reason: &'static str },
}

impl From<TranscriptError> for Halt {
    fn from(error: TranscriptError) -> Self {
        Self::Short(shortfall_of(&error))
    }
}

impl End {
    /// The end of a run that could not begin.
    pub(super) fn at_once(error: &TranscriptError) -> Self {
        Self { shortfall: Some(shortfall_of(error)), reported: false, lasted_ms: 0 }
    }
}

fn shortfall_of(error: &TranscriptError) -> Shortfall {
    Shortfall::failed(FailureClass::Fatal, coordd_common::chain(error))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn all_causes_of_an_end_are_said() {
        let deep = TranscriptError::Read {
            path: "/t".into(),
            source: io::Error::other("the disk is gone"),
        };
        let error = TranscriptError::Write { path: "/t".into(), source: io::Error::other(deep) };
        let reason = End::at_once(&error).shortfall.unwrap().reason;
        assert!(reason.ends_with("cannot read the transcript /t: the disk is gone"), "{reason}");
    }
}
