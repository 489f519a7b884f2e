//! What is signed with a private key: assertions that say who a client is (RFC 7523), and proofs that a token is ours
//! (RFC 9449). No IO.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};
use url::Url;

use crate::secret::{NoChance, Secret, base64url, sha256};

/// An assertion lives so long, in seconds.
const ASSERTION_LIFE: i64 = 60;

/// A private key of a person's file, or one that was made here.
pub(crate) enum SigningKey {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.algorithm())
    }
}

/// A key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    #[error("it is no private key in PKCS#8 (`-----BEGIN PRIVATE KEY-----`)")]
    NoKey,
    #[error(
        "it is a private key of an older form; openssl pkcs8 -topk8 -nocrypt -in KEY makes it one of PKCS#8"
    )]
    OldForm,
    #[error("it is locked with a password")]
    Locked,
    #[error("it is no key for ES256, RS256 or EdDSA")]
    OtherKind,
    #[error("nothing could be signed with it")]
    Unsigned,
    #[error(transparent)]
    NoChance(#[from] NoChance),
}

impl SigningKey {
    /// A key as text; which kind it is, it says itself.
    pub(crate) fn read(pem: &str) -> Result<Self, KeyFault> {
        for (mark, fault) in [
            ("BEGIN EC PRIVATE KEY", KeyFault::OldForm),
            ("BEGIN RSA PRIVATE KEY", KeyFault::OldForm),
            ("BEGIN ENCRYPTED PRIVATE KEY", KeyFault::Locked),
        ] {
            if pem.contains(mark) {
                return Err(fault);
            }
        }
        let body = pem
            .split_once("-----BEGIN PRIVATE KEY-----")
            .and_then(|(_, rest)| rest.split_once("-----END PRIVATE KEY-----"));
        let (body, _) = body.ok_or(KeyFault::NoKey)?;
        let body: String = body.split_whitespace().collect();
        let der = STANDARD.decode(body).map_err(|_broken| KeyFault::NoKey)?;
        Self::of_der(&der)
    }

    fn of_der(der: &[u8]) -> Result<Self, KeyFault> {
        let chance = SystemRandom::new();
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &chance) {
            return Ok(Self::Es256(key));
        }
        if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self::EdDsa(key));
        }
        let rsa = RsaKeyPair::from_pkcs8(der);
        rsa.map(Self::Rs256).map_err(|_none| KeyFault::OtherKind)
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
            Self::EdDsa(_) => "EdDSA",
        }
    }

    fn sign(&self, text: &str) -> Result<Vec<u8>, KeyFault> {
        let chance = SystemRandom::new();
        match self {
            Self::Es256(key) => {
                let signed = key.sign(&chance, text.as_bytes());
                let signed = signed.map_err(|_failed| KeyFault::Unsigned)?;
                Ok(signed.as_ref().to_vec())
            }
            Self::EdDsa(key) => Ok(key.sign(text.as_bytes()).as_ref().to_vec()),
            Self::Rs256(key) => {
                let mut signed = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &chance, text.as_bytes(), &mut signed)
                    .map_err(|_failed| KeyFault::Unsigned)?;
                Ok(signed)
            }
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> Result<Secret, KeyFault> {
        let part = |it: &Value| base64url(it.to_string().as_bytes());
        let text = format!("{}.{}", part(header), part(claims));
        let signed = self.sign(&text)?;
        Ok(Secret::new(format!("{text}.{}", base64url(&signed))))
    }

    /// Says that this client asks, to this authorization server and for a minute.
    pub(crate) fn assertion(
        &self,
        client: &str,
        issuer: &str,
        now: i64,
    ) -> Result<Secret, KeyFault> {
        let claims = json!({
            "iss": client,
            "sub": client,
            "aud": issuer,
            "jti": Secret::random()?.reveal(),
            "iat": now,
            "exp": now + ASSERTION_LIFE,
        });
        self.token(&json!({"alg": self.algorithm(), "typ": "JWT"}), &claims)
    }
}

/// A key that tokens are bound to. It is made here and known nowhere else.
pub(crate) struct ProofKey(SigningKey);

impl std::fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProofKey")
    }
}

/// What one proof is about.
#[derive(Debug)]
pub(crate) struct ProvenRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a Url,
    pub(crate) token: Option<&'a Secret>,
    pub(crate) nonce: Option<&'a str>,
    pub(crate) now: i64,
}

impl ProofKey {
    /// A new one, and the text that it is kept as.
    pub(crate) fn generate() -> Result<(Self, Secret), KeyFault> {
        let chance = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &chance);
        let made = made.map_err(|_none| NoChance)?;
        let kept = Secret::new(STANDARD.encode(made.as_ref()));
        Ok((Self(SigningKey::of_der(made.as_ref())?), kept))
    }

    pub(crate) fn read(kept: &Secret) -> Result<Self, KeyFault> {
        let der = STANDARD
            .decode(kept.reveal())
            .map_err(|_broken| KeyFault::NoKey)?;
        SigningKey::of_der(&der).map(Self)
    }

    pub(crate) fn proof(&self, request: &ProvenRequest<'_>) -> Result<Secret, KeyFault> {
        let SigningKey::Es256(pair) = &self.0 else {
            return Err(KeyFault::OtherKind);
        };
        // 4, then both coordinates.
        let point = pair.public_key().as_ref();
        let (x, y) = match (point.get(1..33), point.get(33..65)) {
            (Some(x), Some(y)) => (base64url(x), base64url(y)),
            (_, _) => return Err(KeyFault::OtherKind),
        };
        let mut place = request.url.clone();
        place.set_query(None);
        place.set_fragment(None);
        let mut claims = json!({
            "jti": Secret::random()?.reveal(),
            "htm": request.method,
            "htu": place.as_str(),
            "iat": request.now,
        });
        if let Some(token) = request.token {
            claims["ath"] = base64url(&sha256(token.reveal().as_bytes())).into();
        }
        if let Some(nonce) = request.nonce {
            claims["nonce"] = nonce.into();
        }
        let header = json!({
            "typ": "dpop+jwt",
            "alg": "ES256",
            "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y},
        });
        self.0.token(&header, &claims)
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};

    use super::*;

    /// Header and claims of a token, and whether `key` signed it.
    fn read(token: &Secret, verified: impl Fn(&[u8], &[u8]) -> bool) -> (Value, Value) {
        let parts: Vec<&str> = token.reveal().split('.').collect();
        let bytes = |at: usize| URL_SAFE_NO_PAD.decode(parts[at]).unwrap();
        let text = format!("{}.{}", parts[0], parts[1]);
        assert!(verified(text.as_bytes(), &bytes(2)));
        let json = |at| serde_json::from_slice(&bytes(at)).unwrap();
        (json(0), json(1))
    }

    #[test]
    fn a_proof_names_its_request_and_carries_its_key() {
        let (key, kept) = ProofKey::generate().unwrap();
        let again = ProofKey::read(&kept).unwrap();
        let url = Url::parse("https://a.example/mcp?x=1#y").unwrap();
        let token = Secret::new("token");
        let proof = again
            .proof(&ProvenRequest {
                method: "POST",
                url: &url,
                token: Some(&token),
                nonce: Some("n"),
                now: 7,
            })
            .unwrap();
        let SigningKey::Es256(pair) = &key.0 else {
            panic!("another kind")
        };
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        let (header, claims) = read(&proof, |text, signed| public.verify(text, signed).is_ok());
        assert_eq!(
            ("dpop+jwt", "EC"),
            (
                header["typ"].as_str().unwrap(),
                header["jwk"]["kty"].as_str().unwrap()
            )
        );
        assert_eq!("https://a.example/mcp", claims["htu"]);
        assert_eq!(
            ("POST", "n", 7),
            (
                claims["htm"].as_str().unwrap(),
                claims["nonce"].as_str().unwrap(),
                claims["iat"].as_i64().unwrap()
            )
        );
        assert_eq!(
            base64url(&sha256(b"token")),
            claims["ath"].as_str().unwrap()
        );
    }

    #[test]
    fn an_assertion_is_for_the_issuer_and_short() {
        let chance = SystemRandom::new();
        let made = Ed25519KeyPair::generate_pkcs8(&chance).unwrap();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(made.as_ref())
        );
        let key = SigningKey::read(&pem).unwrap();
        let SigningKey::EdDsa(pair) = &key else {
            panic!("another kind")
        };
        let public = UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref());
        let assertion = key.assertion("me", "https://as.example", 100).unwrap();
        let (header, claims) = read(&assertion, |text, signed| {
            public.verify(text, signed).is_ok()
        });
        assert_eq!("EdDSA", header["alg"]);
        assert_eq!(
            json!(["me", "me", "https://as.example", 160]),
            json!([claims["iss"], claims["sub"], claims["aud"], claims["exp"]])
        );
    }

    #[test]
    fn what_is_no_key_says_what_to_do() {
        let check = |text: &str, fault: KeyFault| {
            assert_eq!(fault, SigningKey::read(text).unwrap_err());
        };
        check("", KeyFault::NoKey);
        check(
            "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----",
            KeyFault::NoKey,
        );
        check(
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            KeyFault::OtherKind,
        );
        check("-----BEGIN EC PRIVATE KEY-----", KeyFault::OldForm);
        check("-----BEGIN ENCRYPTED PRIVATE KEY-----", KeyFault::Locked);
    }
}
