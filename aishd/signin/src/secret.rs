//! Texts that nobody is shown, and how new ones are made.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

/// Deliberately without Display; Debug says only that it is there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// 32 random bytes as text for an address.
    pub(crate) fn random() -> Result<Self, NoChance> {
        let mut bytes = [0; 32];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_none| NoChance)?;
        Ok(Self(base64url(&bytes)))
    }

    /// Compared in the same time, whatever differs.
    pub(crate) fn is(&self, other: &str) -> bool {
        let (ours, theirs) = (sha256(self.0.as_bytes()), sha256(other.as_bytes()));
        let differing = ours
            .iter()
            .zip(&theirs)
            .fold(0, |all, (a, b)| all | (a ^ b));
        differing == 0
    }
}

/// The kernel gives no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no source of chance on this machine")]
pub struct NoChance;

pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().to_vec()
}

/// What is sent ahead of a verifier (RFC 7636, S256).
pub(crate) fn challenge_of(verifier: &Secret) -> String {
    base64url(&sha256(verifier.reveal().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_standard() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        let challenge = challenge_of(&verifier);
        assert_eq!("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", challenge);
    }

    #[test]
    fn secrets_are_new_each_time_and_never_shown() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_eq!(43, one.reveal().len());
        assert!(one != two && one.is(one.reveal()) && !one.is(two.reveal()) && !one.is(""));
        assert_eq!("Secret", format!("{one:?}"));
    }
}
