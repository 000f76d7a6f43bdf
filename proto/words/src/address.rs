//! Where a message goes, and where one from outside comes from (M-1). Text is taken apart here and nowhere else.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A parsed `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A member of the sender's session: its name or agent id. `user` and ids are told apart later.
    Name(String),
    /// Everyone in the sender's session but the sender.
    Everyone,
    /// Another process of the same user, by its socket's absolute path.
    Uds(String),
    /// Another session: of this daemon by its id, of another daemon by `FINGERPRINT/ID`.
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

impl core::str::FromStr for Address {
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
                Some((UDS, path)) if path.starts_with('/') => Ok(Self::Uds(path.to_owned())),
                Some((UDS, _)) => Err(AddressError::RelativePath),
                Some((BRIDGE, "")) => Err(AddressError::NoBridgeId),
                Some((BRIDGE, id)) => Ok(Self::Bridge(id.to_owned())),
                Some((scheme, _)) => Err(AddressError::UnknownScheme { scheme: scheme.to_owned() }),
            },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Everyone => f.write_str("*"),
            Self::Uds(path) => write!(f, "{UDS}:{path}"),
            Self::Bridge(id) => write!(f, "{BRIDGE}:{id}"),
        }
    }
}

const UDS: &str = "uds";
const BRIDGE: &str = "bridge";

/// Where somebody outside of the daemon is, as far as can be answered to it. Crosses every border as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A process of the same user, by its socket's absolute path.
    Socket(String),
    /// A session of another daemon.
    Remote {
        /// That daemon's fingerprint.
        peer: String,
        /// The session's id there.
        session: String,
    },
    /// A session of this daemon, by its id. It reads its answers in its own mailbox.
    Local(String),
    /// What somebody gave as its address and is none; empty when nothing was given. No answer is sent there.
    Other(String),
}

impl Place {
    /// A session of another daemon, by its `FINGERPRINT/ID`.
    pub fn remote(id: &str) -> Option<Self> {
        let (peer, session) = id.split_once('/').filter(|(peer, _)| is_fingerprint(peer))?;
        Some(Self::Remote { peer: peer.to_owned(), session: session.to_owned() })
    }

    /// The fingerprint of the daemon that it is at, where that is another one.
    pub fn peer(&self) -> Option<&str> {
        match self {
            Self::Remote { peer, .. } => Some(peer),
            Self::Socket(_) | Self::Local(_) | Self::Other(_) => None,
        }
    }
}

impl From<&str> for Place {
    /// Takes a text for what it is. None is refused: it was given by somebody else.
    fn from(text: &str) -> Self {
        match text.split_once(':') {
            Some((UDS, path)) if path.starts_with('/') => Self::Socket(path.to_owned()),
            Some((BRIDGE, id)) if !id.is_empty() && !id.contains('/') => Self::Local(id.to_owned()),
            Some((BRIDGE, id)) => Self::remote(id).unwrap_or_else(|| Self::Other(text.to_owned())),
            Some(_) | None => Self::Other(text.to_owned()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{UDS}:{path}"),
            Self::Remote { peer, session } => write!(f, "{BRIDGE}:{peer}/{session}"),
            Self::Local(id) => write!(f, "{BRIDGE}:{id}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self::from(&*text))
    }
}

/// Characters of a daemon's fingerprint: 80 bits in base32. Two of one's own peers do not share it by chance, and it is never
/// what decides: signatures are checked against the whole key.
pub const FINGERPRINT_LEN: usize = 16;

/// Whether a text is a daemon's fingerprint.
pub fn is_fingerprint(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
    text.len() == FINGERPRINT_LEN && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;

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
        for text in ["researcher", "*", "uds:/run/x.sock", "bridge:s1"] {
            assert_eq!(parse(text).map(|address| address.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn m8_where_somebody_is_crosses_as_text_and_comes_back() {
        let peer = "a".repeat(FINGERPRINT_LEN);
        let far = format!("bridge:{peer}/s1");
        assert_eq!(Place::from("uds:/run/x.sock"), Place::Socket("/run/x.sock".into()));
        assert_eq!(Place::from(&*far), Place::Remote { peer: peer.clone(), session: "s1".into() });
        assert_eq!(Place::from(&*far).peer(), Some(&*peer));
        assert_eq!(Place::from("bridge:s1"), Place::Local("s1".into()));
        for other in ["", "uds:x.sock", "bridge:", "bridge:short/s1", "mailto:x", "*"] {
            assert_eq!(Place::from(other), Place::Other(other.to_owned()));
            assert_eq!(Place::from(other).peer(), None);
        }
        for text in ["uds:/run/x.sock", &far, "", "bridge:s1", "uds:/a\nb"] {
            assert_eq!(Place::from(text).to_string(), text);
        }
    }
}
