//! What Claude Code would make of a text besides reading it, and for whose words that is left on (fR1).
//!
//! | in a text | Claude Code makes of it | the user's own typing | all others |
//! | --- | --- | --- | --- |
//! | `@path`, `@"path"`, `@folder/` | the content goes into the next request, whatever rules say about reading | on | off |
//! | `@server:resource`, `@agent-name` | a resource of a server, an order to use an agent | on | off |
//! | `/command` at the beginning | a command instead of a text | off: `--disable-slash-commands`, and a newline before it | off |
//! | `!command`, `#note` at the beginning | only in its own screen, not by lines of JSON | - | - |
//!
//! In messages that reach a member in a terminal through its inbox Claude Code expands nothing, whoever wrote them.
//!
//! The user's words are those that reach coordd as the user's. A lead's are not: what a file told it to say would open another file.

use std::borrow::Cow;

use proto::entry::Origin;

/// What stands in place of `@` where that would be expanded. Claude Code itself writes it in texts of others.
const PLAIN_AT: char = '\u{ff20}';

/// A text as it is handed over.
pub(super) fn as_handed_over<'a>(origin: &Origin, text: &'a str) -> Cow<'a, str> {
    match origin {
        Origin::User {} => Cow::Borrowed(text),
        Origin::Agent { .. }
        | Origin::Outside { .. }
        | Origin::Notification { .. }
        | Origin::System {} => plain(text),
    }
}

/// A text in which nothing is expanded. An address such as `name@host` stays: what is to be expanded begins a word.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let mut before = None;
    let begins = |before: Option<char>| before.is_none_or(|it| !it.is_alphanumeric() && it != '_');
    let is_plain = text.chars().all(|it| {
        let expands = it == '@' && begins(before);
        before = Some(it);
        !expands
    });
    if is_plain {
        return Cow::Borrowed(text);
    }
    let mut before = None;
    let changed = text.chars().map(|it| {
        let shown = if it == '@' && begins(before) { PLAIN_AT } else { it };
        before = Some(it);
        shown
    });
    Cow::Owned(changed.collect())
}

#[cfg(test)]
mod tests {
    use proto::notification::{Notification, RunStatus, Usage};

    use super::*;

    #[test]
    fn a7_fr1_what_begins_a_word_is_not_expanded() {
        for (text, handed) in [
            ("see @/etc/passwd", "see \u{ff20}/etc/passwd"),
            ("@a\n@\"b c\"", "\u{ff20}a\n\u{ff20}\"b c\""),
            ("\u{3002}@a,(@b)<x>@c</x>", "\u{3002}\u{ff20}a,(\u{ff20}b)<x>\u{ff20}c</x>"),
            ("@@a", "\u{ff20}\u{ff20}a"),
            ("name@host.org, a_@b", "name@host.org, a_@b"),
            ("", ""),
        ] {
            assert_eq!(plain(text), handed);
        }
    }

    #[test]
    fn a7_fr1_only_the_users_own_words_are_expanded() {
        let agent = || Origin::Agent { name: "lead".into() };
        let outside =
            Origin::Outside { name: "n".into(), address: "uds:/x".into(), verified: true };
        // What a worker reports is a worker's words, though coordd wrote the frame.
        let notification = Notification {
            task_id: "a1".into(),
            status: RunStatus::Completed,
            summary: String::new(),
            result: "@a".into(),
            usage: Usage::default(),
        };
        let reported = Origin::Notification { notification };
        assert_eq!(as_handed_over(&Origin::User {}, "@a"), "@a");
        for origin in [agent(), outside, reported, Origin::System {}] {
            assert_eq!(as_handed_over(&origin, "@a"), "\u{ff20}a", "{origin:?}");
        }
    }
}
