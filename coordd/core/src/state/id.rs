//! Ids as types of their own, so that none is taken for another.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl $name {
            /// Reads what `Display` writes.
            pub fn parse(text: &str) -> Option<Self> {
                let digits = text.strip_prefix($prefix)?;
                let number = digits.parse().ok().map(Self)?;
                (number.to_string() == text).then_some(number)
            }
        }
    };
}

text_id!(
    /// A session: a random UUID.
    SessionId
);
text_id!(
    /// An agent: `a` and 16 hexadecimal digits.
    AgentId
);
number_id!(
    /// A message: counted from 1 over all sessions, never used again.
    MessageId, "m"
);
number_id!(
    /// A question to the user: counted from 1 over all sessions, never used again.
    PermissionId, "p"
);
number_id!(
    /// A connection: counted by the shell within one boot.
    PeerId, "c"
);

impl SessionId {
    /// A version 4 UUID made of these bytes.
    pub fn from_random(random: &[u8; 64]) -> Self {
        let mut hex = hex(random.get(..16).unwrap_or_default());
        // Version and variant, at their fixed places.
        hex.replace_range(12..13, "4");
        let variant = match random.get(8).map_or(0, |byte| byte % 4) {
            0 => "8",
            1 => "9",
            2 => "a",
            _ => "b",
        };
        hex.replace_range(16..17, variant);
        for at in [8, 13, 18, 23] {
            hex.insert(at, '-');
        }
        Self(hex)
    }
}

impl AgentId {
    /// An id made of these bytes; other ones than a session's or a token's.
    pub fn from_random(random: &[u8; 64]) -> Self {
        Self(format!("a{}", hex(random.get(16..24).unwrap_or_default())))
    }
}

/// The bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_forms() {
        let random: [u8; 64] = core::array::from_fn(|i| u8::try_from(i * 3).unwrap());
        assert_eq!(SessionId::from_random(&random).0, "00030609-0c0f-4215-881b-1e2124272a2d");
        assert_eq!(AgentId::from_random(&random).0, "a303336393c3f4245");
        assert_eq!(MessageId::parse("m12"), Some(MessageId(12)));
        assert_eq!(MessageId::parse("m012"), None);
        assert_eq!(MessageId::parse("p12"), None);
        assert_eq!(MessageId(12).to_string(), "m12");
    }
}
