//! Whom this daemon trusts: keys that its user was given out of band. One file, edited by `coordctl
//! bridge trust` alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::files::{FileError, Folder};
use crate::keys::{Fingerprint, HALF_LEN, PublicKey};
use crate::limits::PEERS_MAX;

const PEERS_FILE: &str = "peers.json";

/// The longest name of a peer; it stands in lists.
const NAME_LEN_MAX: usize = 64;

/// Why a peer cannot be added or taken away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{PEERS_FILE} is damaged; restore it from a copy, or remove it and trust the peers again"
    )]
    Damaged,
    #[error("a name is 1 to {NAME_LEN_MAX} letters, digits, `-`, `_` or `.`")]
    Name,
    #[error("another peer already has the name {name}; choose another one with --name")]
    Taken { name: String },
    #[error("at most {PEERS_MAX} peers can be trusted; remove one with `coordctl bridge distrust`")]
    Full,
    #[error("that is this daemon's own key; run `coordctl bridge key` on the other machine")]
    Own,
    #[error("no peer named {given}; `coordctl bridge ls` lists them")]
    Unknown { given: String },
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    key: String,
    name: String,
}

/// A peer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Peer {
    pub(crate) key: PublicKey,
    pub(crate) name: String,
}

/// All of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Trusted {
    peers: BTreeMap<Fingerprint, Peer>,
}

impl Trusted {
    pub(crate) fn read(folder: &Folder) -> Result<Self, TrustError> {
        let Some(bytes) = folder.read(PEERS_FILE)? else { return Ok(Self::default()) };
        let kept: Vec<Kept> = serde_json::from_slice(&bytes).map_err(|_| TrustError::Damaged)?;
        let mut peers = BTreeMap::new();
        for Kept { key, name } in kept {
            let key: PublicKey = key.parse().map_err(|_| TrustError::Damaged)?;
            peers.insert(key.fingerprint(), Peer { key, name });
        }
        Ok(Self { peers })
    }

    fn write(&self, folder: &Folder) -> Result<(), TrustError> {
        let kept = self.peers.values();
        let kept = kept.map(|it| Kept { key: it.key.to_string(), name: it.name.clone() });
        let kept: Vec<_> = kept.collect();
        let bytes = serde_json::to_vec_pretty(&kept).map_err(|_| TrustError::Damaged)?;
        Ok(folder.write(PEERS_FILE, &bytes)?)
    }

    /// Trusts a key from now on.
    pub(crate) fn add(
        folder: &Folder,
        own: &PublicKey,
        key: &PublicKey,
        name: &str,
    ) -> Result<(), TrustError> {
        let fits = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(fits) {
            return Err(TrustError::Name);
        }
        if key == own {
            return Err(TrustError::Own);
        }
        let _lock = folder.lock("peers.lock")?;
        let mut all = Self::read(folder)?;
        let fingerprint = key.fingerprint();
        if all.peers.iter().any(|(other, it)| it.name == name && *other != fingerprint) {
            return Err(TrustError::Taken { name: name.to_owned() });
        }
        if all.peers.len() >= PEERS_MAX && !all.peers.contains_key(&fingerprint) {
            return Err(TrustError::Full);
        }
        all.peers.insert(fingerprint, Peer { key: key.clone(), name: name.to_owned() });
        all.write(folder)
    }

    /// Trusts it no longer. By name or fingerprint.
    pub(crate) fn remove(folder: &Folder, given: &str) -> Result<Fingerprint, TrustError> {
        let _lock = folder.lock("peers.lock")?;
        let mut all = Self::read(folder)?;
        let found = all.peers.iter().find(|(key, it)| it.name == given || key.as_str() == given);
        let found = found.map(|(key, _)| key.clone());
        let found = found.ok_or_else(|| TrustError::Unknown { given: given.to_owned() })?;
        all.peers.remove(&found);
        all.write(folder)?;
        Ok(found)
    }

    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<&Peer> {
        self.peers.get(fingerprint)
    }

    /// By the half of the key that an envelope names.
    pub(crate) fn by_half(&self, half: &[u8; HALF_LEN]) -> Option<&PublicKey> {
        self.peers.values().map(|peer| &peer.key).find(|key| key.sign_half() == half)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Fingerprint, &Peer)> {
        self.peers.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::identity;

    #[test]
    fn m7_a_peer_is_trusted_by_its_whole_key_and_until_it_is_taken_away() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(&base.path().join("bridge")).unwrap();
        let (own, a, b) = (identity(1), identity(2), identity(3));
        let (own, a, b) = (own.public(), a.public(), b.public());
        Trusted::add(&folder, own, a, "desk").unwrap();
        assert!(matches!(Trusted::add(&folder, own, own, "me"), Err(TrustError::Own)));
        assert!(matches!(Trusted::add(&folder, own, b, "desk"), Err(TrustError::Taken { .. })));
        assert!(matches!(Trusted::add(&folder, own, b, "a b"), Err(TrustError::Name)));
        Trusted::add(&folder, own, a, "tower").unwrap();
        let all = Trusted::read(&folder).unwrap();
        assert_eq!(all.iter().count(), 1);
        assert_eq!(all.by_half(a.sign_half()), Some(a));
        assert_eq!(all.by_half(b.sign_half()), None);
        assert!(Trusted::remove(&folder, "desk").is_err());
        assert_eq!(Trusted::remove(&folder, "tower").unwrap(), a.fingerprint());
        assert_eq!(Trusted::read(&folder).unwrap(), Trusted::default());
    }
}
