//! The identity of a daemon: a signing key and a decryption key, made at the first use and kept in
//! one file.
//!
//! The two public halves together are the daemon's *key*, one line that people give to each other
//! out of band. Its *fingerprint* is short enough for subjects, addresses and to be read aloud.
//! Secrets leave this module only as signatures and decrypted texts.

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem as _, OpModeR, OpModeS, Serializable as _};
use proto::address::{FINGERPRINT_LEN, is_fingerprint};
use rand_core::{OsRng, TryRngCore as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::files::{FileError, Folder};

type Kem = X25519HkdfSha256;

/// The file with the secrets.
pub(crate) const IDENTITY_FILE: &str = "identity.json";

/// What every key begins with. Another kind of key will begin otherwise.
const KEY_PREFIX: &str = "coordd1-";

/// Bytes of a public half, and of a secret.
pub(crate) const HALF_LEN: usize = 32;

/// Bytes that sealing adds: an ephemeral public key and a tag.
pub(crate) const SEAL_LEN: usize = 32 + 16;

/// Domain separation for sealed texts.
const SEAL_INFO: &[u8] = b"coordd bridge seal v1";

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{IDENTITY_FILE} is damaged; restore it from a copy, or remove it and have every peer trust the new key"
    )]
    Damaged,
    #[error("the system gives no random bytes")]
    Random,
    #[error(
        "this is not a key; copy the whole line that `coordctl bridge key` prints on the other machine"
    )]
    NotAKey,
}

/// Another daemon's public halves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PublicKey {
    sign: [u8; HALF_LEN],
    seal: [u8; HALF_LEN],
}

impl PublicKey {
    /// The public signing key, which names a daemon in an envelope.
    pub(crate) fn sign_half(&self) -> &[u8; HALF_LEN] {
        &self.sign
    }

    /// Sixteen characters that name the daemon.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(self.sign);
        hash.update(self.seal);
        let mut text = BASE32_NOPAD.encode(&hash.finalize()).to_lowercase();
        text.truncate(FINGERPRINT_LEN);
        Fingerprint(text)
    }

    /// Whether this daemon signed that.
    pub(crate) fn signed(&self, text: &[u8], signature: &[u8; 64]) -> bool {
        // Strict verification: only the canonical encoding is accepted, and keys of small order are
        // not.
        VerifyingKey::from_bytes(&self.sign)
            .is_ok_and(|key| key.verify_strict(text, &Signature::from_bytes(signature)).is_ok())
    }

    /// Encrypts a text for this daemon alone, bound to the associated data `beside`.
    pub(crate) fn seal(&self, text: &[u8], beside: &[u8]) -> Result<Vec<u8>, KeyError> {
        let key = <Kem as hpke::Kem>::PublicKey::from_bytes(&self.seal);
        let key = key.map_err(|_| KeyError::NotAKey)?;
        let mut random = OsRng.unwrap_err();
        let (once, sealed) = hpke::single_shot_seal::<ChaCha20Poly1305, HkdfSha256, Kem, _>(
            &OpModeS::Base,
            &key,
            SEAL_INFO,
            text,
            beside,
            &mut random,
        )
        .map_err(|_| KeyError::NotAKey)?;
        let mut whole = once.to_bytes().to_vec();
        whole.extend_from_slice(&sealed);
        Ok(whole)
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let halves = [self.sign, self.seal].concat();
        write!(f, "{KEY_PREFIX}{}", BASE32_NOPAD.encode(&halves).to_lowercase())
    }
}

impl std::str::FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let text = text.trim().strip_prefix(KEY_PREFIX).ok_or(KeyError::NotAKey)?;
        let halves = BASE32_NOPAD.decode(text.to_uppercase().as_bytes());
        let halves = halves.map_err(|_| KeyError::NotAKey)?;
        let (sign, seal) = halves.split_at_checked(HALF_LEN).ok_or(KeyError::NotAKey)?;
        let sign: [u8; HALF_LEN] = sign.try_into().map_err(|_| KeyError::NotAKey)?;
        let seal: [u8; HALF_LEN] = seal.try_into().map_err(|_| KeyError::NotAKey)?;
        let is_key = VerifyingKey::from_bytes(&sign).is_ok_and(|key| !key.is_weak());
        let opens = <Kem as hpke::Kem>::PublicKey::from_bytes(&seal).is_ok();
        if is_key && opens { Ok(Self { sign, seal }) } else { Err(KeyError::NotAKey) }
    }
}

/// The short fingerprint of a daemon. Text from outside must pass [`Fingerprint::parse`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Fingerprint(String);

impl Fingerprint {
    /// Lower-case base32 of the right length: safe as a part of a subject and of an address.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        is_fingerprint(text).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    sign: String,
    seal: String,
}

/// This daemon's secrets.
pub(crate) struct Identity {
    sign: SigningKey,
    open: <Kem as hpke::Kem>::PrivateKey,
    public: PublicKey,
}

impl Identity {
    /// The identity in the folder, or a new one, which is on the disk before it is used.
    pub(crate) fn open(folder: &Folder) -> Result<Self, KeyError> {
        let _lock = folder.lock("identity.lock")?;
        if let Some(bytes) = folder.read(IDENTITY_FILE)? {
            let kept: Kept = serde_json::from_slice(&bytes).map_err(|_| KeyError::Damaged)?;
            let half = |text: &str| -> Option<[u8; HALF_LEN]> {
                HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
            };
            let halves = half(&kept.sign).zip(half(&kept.seal)).ok_or(KeyError::Damaged)?;
            return Ok(Self::from_seeds(&halves.0, &halves.1));
        }
        let (mut sign, mut seal) = ([0; HALF_LEN], [0; HALF_LEN]);
        OsRng.try_fill_bytes(&mut sign).map_err(|_| KeyError::Random)?;
        OsRng.try_fill_bytes(&mut seal).map_err(|_| KeyError::Random)?;
        let kept = Kept { sign: HEXLOWER.encode(&sign), seal: HEXLOWER.encode(&seal) };
        let bytes = serde_json::to_vec(&kept).map_err(|_| KeyError::Damaged)?;
        folder.write(IDENTITY_FILE, &bytes)?;
        Ok(Self::from_seeds(&sign, &seal))
    }

    fn from_seeds(sign: &[u8; HALF_LEN], seal: &[u8; HALF_LEN]) -> Self {
        let sign = SigningKey::from_bytes(sign);
        let (open, public_seal) = Kem::derive_keypair(seal);
        let mut public = PublicKey { sign: sign.verifying_key().to_bytes(), seal: [0; HALF_LEN] };
        for (to, from) in public.seal.iter_mut().zip(public_seal.to_bytes()) {
            *to = from;
        }
        Self { sign, open, public }
    }

    pub(crate) fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.sign.sign(text).to_bytes()
    }

    /// What was sealed for this daemon, beside the same `beside`.
    pub(crate) fn open_sealed(&self, sealed: &[u8], beside: &[u8]) -> Option<Vec<u8>> {
        let (once, sealed) = sealed.split_at_checked(HALF_LEN)?;
        let once = <Kem as hpke::Kem>::EncappedKey::from_bytes(once).ok()?;
        hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeR::Base,
            &self.open,
            &once,
            SEAL_INFO,
            sealed,
            beside,
        )
        .ok()
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.public.fingerprint())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A daemon of a test, the same for the same number.
    pub(crate) fn identity(number: u8) -> Identity {
        Identity::from_seeds(&[number; HALF_LEN], &[number ^ 0xff; HALF_LEN])
    }

    #[test]
    fn m7_a_daemon_keeps_its_key_and_prints_it_as_one_line() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(&base.path().join("bridge")).unwrap();
        let first = Identity::open(&folder).unwrap();
        let again = Identity::open(&folder).unwrap();
        assert_eq!(first.public(), again.public());
        let line = first.public().to_string();
        assert_eq!(line.parse::<PublicKey>().unwrap(), *first.public());
        assert_eq!(line.lines().count(), 1);
        assert!(Fingerprint::parse(first.public().fingerprint().as_str()).is_some());
        assert_ne!(Identity::open(&other(&base)).unwrap().public(), first.public());
    }

    fn other(base: &tempfile::TempDir) -> Folder {
        Folder::open(&base.path().join("other")).unwrap()
    }

    #[test]
    fn rel90_a_secret_is_not_printed() {
        let it = identity(7);
        assert!(!format!("{it:?}").contains("0707"));
    }

    #[test]
    fn m7_what_is_no_key_is_refused() {
        let line = identity(1).public().to_string();
        for wrong in ["", "coordd1-", &line[1..], &line[..line.len() - 1], &format!("{line}a")] {
            assert!(wrong.parse::<PublicKey>().is_err(), "{wrong:?}");
        }
        // The neutral element signs anything.
        let mut weak = [0; 64];
        weak[0] = 1;
        let weak = format!("{KEY_PREFIX}{}", BASE32_NOPAD.encode(&weak).to_lowercase());
        assert!(weak.parse::<PublicKey>().is_err());
    }

    #[test]
    fn m7_a_sealed_text_opens_for_its_receiver_and_beside_its_header_alone() {
        let (a, b) = (identity(1), identity(2));
        let sealed = b.public().seal(b"words", b"header").unwrap();
        assert_eq!(sealed.len(), 5 + SEAL_LEN);
        assert!(!sealed.windows(5).any(|window| window == b"words"));
        assert_eq!(b.open_sealed(&sealed, b"header").unwrap(), b"words");
        assert!(b.open_sealed(&sealed, b"headex").is_none());
        assert!(a.open_sealed(&sealed, b"header").is_none());
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(b.open_sealed(&altered, b"header").is_none(), "byte {at}");
        }
    }
}
