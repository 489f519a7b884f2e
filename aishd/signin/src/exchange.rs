//! Requests to a token endpoint: who we are, what is asked, and a proof of the key where the token is to be bound to one.

use std::fs;
use std::path::Path;

use aishd_mcp_messages::oauth_settings::{OAuthSettings, SecretSource};
use aishd_platform::clock;
use url::Url;

use crate::account::SignInInner;
use crate::client::{ClientMethod, OAuthClient};
use crate::fault::SignInFault;
use crate::record::SignInRecord;
use crate::secret::Secret;
use crate::signature::{ProofKey, ProvenRequest, SigningKey};
use crate::token::{TokenRefusal, TokenSet};
use crate::wire::{TokenQuestion, WireReply};

/// What tokens can be asked for with.
#[derive(Debug)]
pub(crate) struct TokenExchange<'a> {
    pub(crate) server: &'a Url,
    pub(crate) endpoint: &'a Url,
    pub(crate) issuer: &'a str,
    pub(crate) client: &'a OAuthClient,
    pub(crate) key: Option<&'a ProofKey>,
}

pub(crate) fn now() -> i64 {
    clock::now().0 / 1000
}

impl TokenExchange<'_> {
    /// Asks; once more where the server gives a number for the proof.
    pub(crate) async fn ask(
        &self,
        inner: &SignInInner,
        settings: &OAuthSettings,
        fields: &[(&'static str, Secret)],
    ) -> Result<WireReply, SignInFault> {
        let mut nonce: Option<String> = None;
        loop {
            let assertion = self.assertion(inner, settings)?;
            let bound = match self.key {
                Some(key) => Some(key.proof(&ProvenRequest {
                    method: "POST",
                    url: self.endpoint,
                    token: None,
                    nonce: nonce.as_deref(),
                    now: now(),
                })?),
                None => None,
            };
            let question = TokenQuestion {
                fields: fields.to_vec(),
                client: self.client.proof(assertion),
                bound: bound.as_ref(),
            };
            let reply = inner.wire.ask(self.endpoint, self.server, question).await?;
            let error = reply.document.as_ref().and_then(|it| it.get("error"));
            let wants_nonce = error.is_some_and(|it| it == "use_dpop_nonce");
            match &reply.nonce {
                Some(given) if wants_nonce && !reply.is_success() && nonce.is_none() => {
                    nonce = Some(given.clone());
                }
                Some(_) | None => return Ok(reply),
            }
        }
    }

    fn assertion(
        &self,
        inner: &SignInInner,
        settings: &OAuthSettings,
    ) -> Result<Option<Secret>, SignInFault> {
        if self.client.method != ClientMethod::PrivateKeyJwt {
            return Ok(None);
        }
        let path = settings.private_key.as_deref();
        let path = path.ok_or(SignInFault::Unconfigured {
            key: "private_key_file",
        })?;
        let text = read_private(path)?;
        let key = |fault| SignInFault::Key {
            path: path.to_owned(),
            fault,
        };
        let signing = SigningKey::read(&text).map_err(key)?;
        let made = signing
            .assertion(&self.client.id, self.issuer, now())
            .map_err(key)?;
        inner.learn(&made);
        Ok(Some(made))
    }
}

/// What a server says why it refuses, without secrets of ours that it repeats.
pub(crate) fn refusal(inner: &SignInInner, reply: &WireReply) -> TokenRefusal {
    let redact = |it: &str| inner.redact(it);
    TokenRefusal::read(reply.document.as_ref(), reply.status, redact)
}

/// The tokens of an answer, which the log knows before anybody uses them.
pub(crate) fn granted(
    inner: &SignInInner,
    reply: &WireReply,
    issuer: &str,
    asked: &[String],
) -> Result<TokenSet, SignInFault> {
    if reply.is_broken() {
        return Err(SignInFault::Broken {
            place: issuer.to_owned(),
            status: reply.status,
        });
    }
    if !reply.is_success() {
        return Err(SignInFault::Refused {
            issuer: issuer.to_owned(),
            refusal: refusal(inner, reply),
        });
    }
    let document = reply.document.clone().unwrap_or_default();
    for name in ["id_token", "device_secret"] {
        if let Some(text) = document.get(name).and_then(serde_json::Value::as_str) {
            inner.learn(&Secret::new(text));
        }
    }
    let tokens = TokenSet::read(&document, asked, now()).map_err(|fault| SignInFault::Token {
        issuer: issuer.to_owned(),
        fault,
    })?;
    for secret in std::iter::once(&tokens.access).chain(tokens.refresh.as_ref()) {
        inner.learn(secret);
    }
    Ok(tokens)
}

pub(crate) fn proof_key(record: &SignInRecord) -> Result<Option<ProofKey>, SignInFault> {
    let kept = record.proof_key.as_ref().map(ProofKey::read);
    Ok(kept.transpose()?)
}

/// A secret of the configuration, from where it lies now.
pub(crate) fn configured(
    inner: &SignInInner,
    source: &SecretSource,
) -> Result<Secret, SignInFault> {
    let text = match source {
        SecretSource::Env(name) => (inner.parts.environment)(name).unwrap_or_default(),
        SecretSource::File(path) => read_private(path)?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(SignInFault::NoSecret {
            place: source.name(),
        });
    }
    let secret = Secret::new(text);
    inner.learn(&secret);
    Ok(secret)
}

fn read_private(path: &Path) -> Result<String, SignInFault> {
    use std::os::unix::fs::MetadataExt as _;
    let fault = |why: String| SignInFault::File {
        path: path.to_owned(),
        why,
    };
    let about = fs::metadata(path).map_err(|error| fault(error.to_string()))?;
    if about.mode() & 0o077 != 0 {
        return Err(fault("it can be read by others; chmod 600 it".to_owned()));
    }
    fs::read_to_string(path).map_err(|error| fault(error.to_string()))
}
