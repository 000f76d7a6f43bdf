//! Where a message goes (M-1).

use std::path::PathBuf;

/// A parsed `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A member of the sender's session: its name or agent id. `user` and ids are told apart later.
    Name(String),
    /// Everyone in the sender's session but the sender.
    Everyone,
    /// Another process of the same user, by its socket's absolute path.
    Uds(PathBuf),
    /// Another session, here or on another machine.
    Bridge(String),
}

/// The longest address in bytes; socket paths end at 103, names at 64.
pub const ADDRESS_LEN_MAX: usize = 300;

/// Why a `to` is no address. Each says what is valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing is there.
    #[error("`to` is empty; give a name, `*`, `uds:/path` or `bridge:id`")]
    Empty,
    /// Over [`ADDRESS_LEN_MAX`], or with a control character.
    #[error("`to` is longer than {ADDRESS_LEN_MAX} bytes or holds a control character")]
    Unprintable,
    /// A `uds:` address whose path is not absolute.
    #[error("`uds:` takes an absolute path, as in uds:/run/user/1000/coordd/s/x.sock")]
    RelativePath,
    /// A `bridge:` address without an id.
    #[error("`bridge:` takes a session's id, as `coordctl peers` prints it")]
    NoBridgeId,
    /// A scheme that does not exist.
    #[error(
        "`{scheme}:` is no kind of address; valid are a name, `*`, `uds:/path` and `bridge:id`"
    )]
    UnknownScheme {
        /// What stands before the colon.
        scheme: String,
    },
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_LEN_MAX || text.chars().any(char::is_control) {
            return Err(AddressError::Unprintable);
        }
        match text.trim() {
            "" => Err(AddressError::Empty),
            "*" => Ok(Self::Everyone),
            text => match text.split_once(':') {
                None => Ok(Self::Name(text.to_owned())),
                Some(("uds", path)) if path.starts_with('/') => Ok(Self::Uds(PathBuf::from(path))),
                Some(("uds", _)) => Err(AddressError::RelativePath),
                Some(("bridge", "")) => Err(AddressError::NoBridgeId),
                Some(("bridge", id)) => Ok(Self::Bridge(id.to_owned())),
                Some((scheme, _)) => Err(AddressError::UnknownScheme { scheme: scheme.to_owned() }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_addresses() {
        let parse = |text: &str| text.parse::<Address>();
        assert_eq!(parse("researcher"), Ok(Address::Name("researcher".into())));
        assert_eq!(parse(" * "), Ok(Address::Everyone));
        assert_eq!(parse("uds:/run/x.sock"), Ok(Address::Uds("/run/x.sock".into())));
        assert_eq!(parse("uds:x.sock"), Err(AddressError::RelativePath));
        assert_eq!(parse("bridge:s1"), Ok(Address::Bridge("s1".into())));
        assert_eq!(parse("bridge:"), Err(AddressError::NoBridgeId));
        assert_eq!(parse("tcp:x"), Err(AddressError::UnknownScheme { scheme: "tcp".into() }));
        assert_eq!(parse(""), Err(AddressError::Empty));
        assert_eq!(parse("a\nb"), Err(AddressError::Unprintable));
    }
}
