//! A key or token. It can be used but not printed.

use std::fmt;

/// Text that must not reach an error, a log or a `Debug` line.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

/// Shorter texts are not searched for: replacing every "a" would destroy a message, and no key is
/// that short.
const REDACT_LEN_MIN: usize = 6;

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the one place that puts it into a header.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Replaces the secret where a server has echoed it.
    pub(super) fn redact(&self, text: &str) -> String {
        if self.0.len() < REDACT_LEN_MIN {
            return text.to_owned();
        }
        text.replace(&self.0, "[key]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-1, D-9: no secrets in logs.
    #[test]
    fn debug_shows_no_content() {
        let secret = Secret::new("sk-very-secret".to_owned());
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(secret.redact("bad key sk-very-secret!"), "bad key [key]!");
    }
}
