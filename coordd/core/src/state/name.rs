//! Names of sessions, agents and teams: checked here once, everywhere else a [`Name`] is good (rel-27).

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// The longest name in bytes.
pub const NAME_LEN_MAX: usize = 64;
/// Names with a meaning of their own; agents cannot have them.
const RESERVED: [&str; 9] =
    ["all", "coordd", "daemon", "everyone", "lead", "main", "system", "team-lead", "user"];

/// `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`: safe as a file's name, in a terminal and in XML.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// The lead of every session has this one.
    pub fn lead() -> Self {
        Self("lead".to_owned())
    }

    /// Checks a name. The error is a sentence's end: "the name …".
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let mut bytes = text.bytes();
        if !bytes.next().is_some_and(|first| first.is_ascii_alphanumeric()) {
            return Err("must begin with a letter or digit, in ASCII");
        }
        if !bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err("may hold only ASCII letters, digits and . _ -");
        }
        if text.len() > NAME_LEN_MAX {
            return Err("is longer than 64 characters");
        }
        if text.ends_with('.') {
            return Err("must not end with a dot");
        }
        Ok(Self(text.to_owned()))
    }

    /// Checks a name that an agent is to have.
    pub fn for_agent(text: &str) -> Result<Self, &'static str> {
        if RESERVED.iter().any(|it| it.eq_ignore_ascii_case(text)) {
            return Err("is reserved");
        }
        Self::new(text)
    }

    /// A name made of free text: its letters and digits in lower case, other runs as one `-`, cut at 40.
    pub fn from_words(words: &str, fallback: &str) -> Self {
        let mut slug = String::new();
        for c in words.chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c.to_ascii_lowercase());
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
            if slug.len() >= 40 {
                break;
            }
        }
        let slug = slug.trim_end_matches('-');
        Self::for_agent(slug)
            .or_else(|_| Self::new(fallback))
            .unwrap_or_else(|_| Self("x".to_owned()))
    }

    /// The same name with a number behind it.
    #[must_use]
    pub fn numbered(&self, number: usize) -> Self {
        let stem: String = self.0.chars().take(NAME_LEN_MAX - 8).collect();
        Self(format!("{stem}-{number}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the two are one name: names differ in more than case.
    pub fn is(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn rel27_bad_names_are_refused_never_rewritten() {
        let long = "x".repeat(65);
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\0b",
            "-rf",
            "\u{202e}x",
            "Ａlice",
            "a b",
            "*",
            "a\n",
            "é",
            "trailing.",
            &long,
        ] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "Research-1", "m1.x_y", &"x".repeat(64)] {
            assert_eq!(Name::new(good).unwrap().to_string(), *good);
        }
        for reserved in ["user", "USER", "team-lead", "lead", "system"] {
            assert!(Name::for_agent(reserved).is_err(), "{reserved}");
        }
    }

    #[test]
    fn names_from_words() {
        assert_eq!(
            Name::from_words("Find the flaky test!", "worker").as_str(),
            "find-the-flaky-test"
        );
        assert_eq!(Name::from_words("…", "worker").as_str(), "worker");
        assert_eq!(Name::from_words("User", "worker").as_str(), "worker");
        assert_eq!(Name::new("a").unwrap().numbered(2).as_str(), "a-2");
    }
}
