//! Secrets of agents' processes. A record has what a secret comes to, and never the secret: who reads the store speaks for nobody.

use alloc::format;
use alloc::string::String;

use sha2::Digest as _;

use super::id::hex;

/// How a digest begins. Without it a record of an earlier build has the secret itself.
const DIGEST: &str = "sha256:";

/// What is kept of a secret. Of what is kept already, and of nothing, the same.
pub(crate) fn kept(secret: &str) -> String {
    if secret.is_empty() || secret.starts_with(DIGEST) {
        return String::from(secret);
    }
    digest(secret)
}

/// Whether this secret is the one that is kept.
pub(crate) fn proves(kept: &str, secret: &str) -> bool {
    kept.starts_with(DIGEST) && same(kept, &digest(secret))
}

/// Compares without telling by its duration how much is right.
pub(crate) fn same(a: &str, b: &str) -> bool {
    !a.is_empty()
        && a.len() == b.len()
        && a.bytes().zip(b.bytes()).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

fn digest(secret: &str) -> String {
    let mut hash = sha2::Sha256::new();
    hash.update(secret.as_bytes());
    format!("{DIGEST}{}", hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rel-91: the secret proves itself, what is kept of it proves nothing, and what an earlier build kept is read.
    #[test]
    fn rel91_what_is_kept_of_a_secret_is_not_the_secret() {
        let of = kept("00ff");
        assert!(proves(&of, "00ff") && !of.contains("00ff"));
        assert_eq!(kept(&of), of);
        for wrong in ["", "00fe", "00ff0", of.as_str()] {
            assert!(!proves(&of, wrong), "{wrong}");
        }
        assert!(!proves("", "") && !proves("00ff", "00ff"));
        assert_eq!(kept(""), "");
    }
}
