//! What crosses the server: a header that all can read, a body that its receiver alone can, and a
//! signature over both.
//!
//! ```text
//!   magic 4 | kind 1 | sender 32 | receiver 32 | epoch 8 | id 8 | after 8 | made 8 | expires 8 | sealed length 4
//!   sealed body
//!   signature 64, over a fixed word, the header and the hash of the sealed body
//! ```
//!
//! Numbers are big-endian. The header is also bound into the seal, so that nobody can put their own
//! signature under a body that they cannot read. What is wrong in any way is refused as a whole and
//! with a reason that can be counted.

use sha2::{Digest as _, Sha256};

use crate::keys::{HALF_LEN, Identity, KeyError, PublicKey, SEAL_LEN};
use crate::limits::SEALED_LEN_MAX;

/// The first bytes. Another version of the format has another last digit.
const MAGIC: &[u8; 4] = b"cdb1";
const HEADER_LEN: usize = 4 + 1 + HALF_LEN * 2 + 8 * 5 + 4;
const SIGNATURE_LEN: usize = 64;

/// The longest envelope: what is longer is not looked at.
pub(crate) const ENVELOPE_LEN_MAX: usize = HEADER_LEN + SEALED_LEN_MAX + SIGNATURE_LEN;

/// Domain separation: a signature made here is valid nowhere else.
const SIGNED_AS: &[u8] = b"coordd bridge envelope v1";

/// What is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A row of the sender's outbox.
    Row,
    /// What became of rows of the receiver's.
    Receipts,
    /// That the sender is there, and which sessions may be written to.
    Presence,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Row => 1,
            Self::Receipts => 2,
            Self::Presence => 3,
        }
    }

    fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Row),
            2 => Some(Self::Receipts),
            3 => Some(Self::Presence),
            _ => None,
        }
    }
}

/// The position of a row among those between two daemons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    /// The epoch of the sender's numbers; it rises when they begin again.
    pub(crate) epoch: u64,
    /// Its number there.
    pub(crate) id: u64,
    /// The nearest earlier row that must be decided before this one, or 0.
    pub(crate) after: u64,
}

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// When it was made, on the sender's clock.
    pub(crate) made_ms: u64,
    /// When the row expires, on the sender's clock.
    pub(crate) expires_ms: u64,
}

/// Why an envelope is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("longer than {ENVELOPE_LEN_MAX} bytes")]
    Oversized,
    #[error("not an envelope of this version")]
    Malformed,
    #[error("meant for another daemon")]
    NotOurs,
    #[error("from a key that is not trusted here")]
    NotEnrolled,
    #[error("the signature is not the sender's")]
    Forged,
    #[error("the body does not open")]
    Altered,
    #[error("from before the sender's numbers began again")]
    OldEpoch,
    #[error("made at a time that is far from now")]
    Stale,
    #[error("the body is not understood")]
    Unreadable,
    #[error("on a subject of another daemon")]
    WrongSubject,
}

/// Seals and signs.
pub(crate) fn write(
    from: &Identity,
    to: &PublicKey,
    header: &Header,
    body: &[u8],
) -> Result<Vec<u8>, KeyError> {
    let sealed_len = u32::try_from(body.len() + SEAL_LEN).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER_LEN + body.len() + SEAL_LEN + SIGNATURE_LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.push(header.kind.number());
    bytes.extend_from_slice(from.public().sign_half());
    bytes.extend_from_slice(to.sign_half());
    let Place { epoch, id, after } = header.place;
    for number in [epoch, id, after, header.made_ms, header.expires_ms] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&sealed_len.to_be_bytes());
    let sealed = to.seal(body, &bytes)?;
    let signature = from.sign(&to_sign(&bytes, &sealed));
    bytes.extend_from_slice(&sealed);
    bytes.extend_from_slice(&signature);
    Ok(bytes)
}

fn to_sign(header: &[u8], sealed: &[u8]) -> Vec<u8> {
    [SIGNED_AS, header, Sha256::digest(sealed).as_slice()].concat()
}

/// An envelope that a trusted sender made for this daemon.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub(crate) from: &'a PublicKey,
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
}

/// Checks everything that needs no knowledge of earlier rows.
pub(crate) fn open<'a>(
    own: &Identity,
    trusted: impl FnOnce(&[u8; HALF_LEN]) -> Option<&'a PublicKey>,
    bytes: &[u8],
) -> Result<Opened<'a>, Refusal> {
    if bytes.len() > ENVELOPE_LEN_MAX {
        return Err(Refusal::Oversized);
    }
    let (head, rest) = bytes.split_at_checked(HEADER_LEN).ok_or(Refusal::Malformed)?;
    let mut left = head;
    if take::<4>(&mut left)? != *MAGIC {
        return Err(Refusal::Malformed);
    }
    let [kind] = take::<1>(&mut left)?;
    let kind = Kind::of(kind).ok_or(Refusal::Malformed)?;
    let (sender, receiver) = (take::<HALF_LEN>(&mut left)?, take::<HALF_LEN>(&mut left)?);
    let mut number = || take::<8>(&mut left).map(u64::from_be_bytes);
    let place = Place { epoch: number()?, id: number()?, after: number()? };
    let header = Header { kind, place, made_ms: number()?, expires_ms: number()? };
    let sealed_len = u32::from_be_bytes(take::<4>(&mut left)?) as usize;
    if rest.len() != sealed_len + SIGNATURE_LEN {
        return Err(Refusal::Malformed);
    }
    let (sealed, signature) = rest.split_at_checked(sealed_len).ok_or(Refusal::Malformed)?;
    if receiver != *own.public().sign_half() {
        return Err(Refusal::NotOurs);
    }
    let from = trusted(&sender).ok_or(Refusal::NotEnrolled)?;
    let signature = signature.try_into().map_err(|_| Refusal::Malformed)?;
    if !from.signed(&to_sign(head, sealed), signature) {
        return Err(Refusal::Forged);
    }
    let body = own.open_sealed(sealed, head).ok_or(Refusal::Altered)?;
    Ok(Opened { from, header, body })
}

fn take<const LEN: usize>(left: &mut &[u8]) -> Result<[u8; LEN], Refusal> {
    let (taken, rest) = left.split_first_chunk::<LEN>().ok_or(Refusal::Malformed)?;
    *left = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::keys::tests::identity;

    fn header() -> Header {
        let place = Place { epoch: 3, id: 9, after: 7 };
        Header { kind: Kind::Row, place, made_ms: 1_000, expires_ms: 2_000 }
    }

    fn read<'a>(
        own: &Identity,
        peers: &'a [PublicKey],
        bytes: &[u8],
    ) -> Result<Opened<'a>, Refusal> {
        open(own, |half| peers.iter().find(|peer| peer.sign_half() == half), bytes)
    }

    #[test]
    fn m7_what_one_daemon_writes_the_other_reads() {
        let (a, b) = (identity(1), identity(2));
        let peers = [a.public().clone()];
        let bytes = write(&a, b.public(), &header(), b"words").unwrap();
        let opened = read(&b, &peers, &bytes).unwrap();
        assert_eq!((opened.from, opened.header), (a.public(), header()));
        assert_eq!(opened.body, b"words");
    }

    #[test]
    fn m7_every_byte_of_an_envelope_is_under_the_signature() {
        let (a, b) = (identity(1), identity(2));
        let peers = [a.public().clone()];
        let bytes = write(&a, b.public(), &header(), b"words").unwrap();
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut altered = bytes.clone();
                altered[at] ^= bit;
                assert!(read(&b, &peers, &altered).is_err(), "byte {at} may be altered");
            }
        }
        assert_eq!(read(&b, &peers, &bytes[..bytes.len() - 1]).unwrap_err(), Refusal::Malformed);
        let longer = [bytes.as_slice(), b"x"].concat();
        assert_eq!(read(&b, &peers, &longer).unwrap_err(), Refusal::Malformed);
    }

    #[test]
    fn m7_forged_unenrolled_misdirected_and_oversized_are_told_apart() {
        let (a, b, c) = (identity(1), identity(2), identity(3));
        let peers = [a.public().clone()];
        let from_c = write(&c, b.public(), &header(), b"x").unwrap();
        assert_eq!(read(&b, &peers, &from_c).unwrap_err(), Refusal::NotEnrolled);
        let to_c = write(&a, c.public(), &header(), b"x").unwrap();
        assert_eq!(read(&b, &peers, &to_c).unwrap_err(), Refusal::NotOurs);
        // C puts A's name in the place of its own.
        let mut forged = from_c.clone();
        forged[5..5 + HALF_LEN].copy_from_slice(a.public().sign_half());
        assert_eq!(read(&b, &peers, &forged).unwrap_err(), Refusal::Forged);
        let oversized = vec![0; ENVELOPE_LEN_MAX + 1];
        assert_eq!(read(&b, &peers, &oversized).unwrap_err(), Refusal::Oversized);
    }

    #[test]
    fn m7_nobody_can_sign_a_body_of_another_as_their_own() {
        let (a, b, c) = (identity(1), identity(2), identity(3));
        let peers = [a.public().clone(), c.public().clone()];
        let bytes = write(&a, b.public(), &header(), b"words").unwrap();
        let (signed, _) = bytes.split_at(bytes.len() - SIGNATURE_LEN);
        let mut stolen = signed.to_vec();
        stolen[5..5 + HALF_LEN].copy_from_slice(c.public().sign_half());
        let (head, sealed) = stolen.split_at(HEADER_LEN);
        let signature = c.sign(&to_sign(head, sealed));
        stolen.extend_from_slice(&signature);
        assert_eq!(read(&b, &peers, &stolen).unwrap_err(), Refusal::Altered);
    }

    proptest! {
        #[test]
        fn rel26_no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let (a, b) = (identity(1), identity(2));
            let peers = [a.public().clone()];
            let mut framed = MAGIC.to_vec();
            framed.extend_from_slice(&bytes);
            prop_assert!(read(&b, &peers, &bytes).is_err());
            prop_assert!(read(&b, &peers, &framed).is_err());
        }
    }
}
