//! The first words on a connection.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// The major version of the JSON Lines protocol. Raised only when an old client would
/// misunderstand.
pub const PROTOCOL: u32 = 1;
/// The oldest major version that this build still speaks.
pub const PROTOCOL_MIN: u32 = 1;
/// The revision of the message types. bincode names no fields, so any change of a type that crosses
/// the socket raises it, unless no build of this revision was released yet; programs of different
/// revisions speak JSON Lines. `tests/frames` has the bytes of each revision and fails on a
/// difference: what fails says whether to raise this number or to renew the file.
///
/// In lines an older program and a newer one understand each other as long as a new field has
/// `#[serde(default)]`, and whatever was written is still written. The same test reads the lines of
/// all earlier revisions.
pub const REVISION: u32 = 2;

/// The revision that this program speaks in the binary codec: [`REVISION`], unless a test has it
/// play a later build.
pub fn revision() -> u32 {
    #[cfg(feature = "skew")]
    if crate::skew::is_later() {
        return REVISION + 1;
    }
    REVISION
}

/// How old the program at the other end is, by the revision of its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// As old as this one, or nobody knows.
    Same,
    /// Older than this one.
    Older,
    /// Newer than this one.
    Newer,
}

impl Age {
    /// The age of a program that speaks this revision.
    pub fn of(theirs: u32) -> Self {
        match theirs.cmp(&revision()) {
            Ordering::Less => Self::Older,
            Ordering::Equal => Self::Same,
            Ordering::Greater => Self::Newer,
        }
    }
}

/// Who is calling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The JSON protocol's major version that the peer speaks. Missing means the current one.
    #[serde(default = "current_protocol")]
    pub protocol: u32,
    /// The program's name and version, for logs and lists; at most 64 bytes are kept.
    #[serde(default)]
    pub program: String,
    /// Present when an agent process speaks; absent for the user's own programs.
    #[serde(default)]
    pub agent: Option<Credentials>,
}

fn current_protocol() -> u32 {
    PROTOCOL
}

/// How an agent process proves which agent it is.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    /// The agent's id.
    pub agent: String,
    /// Which run of its process.
    pub incarnation: u32,
    /// The secret of that incarnation, 64 hexadecimal digits.
    pub token: String,
    /// The process id, for lists; the kernel's word counts where they differ.
    #[serde(default)]
    pub pid: u32,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("agent", &self.agent)
            .field("incarnation", &self.incarnation)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The JSON protocol's major version in use on this connection.
    pub protocol: u32,
    /// The daemon's version, as in `coordd --version`.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// Changes whenever the daemon starts; event numbers count within one.
    pub boot: String,
}

/// Whether a peer of this protocol version can be talked to; if not, which side to update.
pub fn check_protocol(theirs: u32) -> Result<(), String> {
    if theirs > PROTOCOL {
        Err(format!(
            "the client speaks protocol {theirs} and this coordd {PROTOCOL_MIN} to {PROTOCOL}: coordd is too old; \
             update coordd, then run `coordctl daemon restart`"
        ))
    } else if theirs < PROTOCOL_MIN {
        Err(format!(
            "the client speaks protocol {theirs} and this coordd {PROTOCOL_MIN} to {PROTOCOL}: the client is too old; \
             update the client"
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d3_skew_names_the_side_to_update() {
        assert!(check_protocol(PROTOCOL + 1).unwrap_err().contains("update coordd"));
        assert!(check_protocol(0).unwrap_err().contains("update the client"));
        assert_eq!(check_protocol(PROTOCOL), Ok(()));
    }

    #[test]
    fn rel90_a_token_is_not_printed() {
        let it = Credentials { agent: "a1".into(), incarnation: 1, token: "s3cret".into(), pid: 7 };
        assert!(!format!("{it:?}").contains("s3cret"));
    }
}
