//! What requests to one MCP server carry, and what a refusal of it means: the token is renewed, or a person is needed.

use std::sync::Arc;

use aishd_mcp_messages::oauth_settings::OAuthSettings;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use url::Url;

use crate::account::{AccountCell, SignInInner};
use crate::challenge::{self, BearerChallenge, union};
use crate::exchange::{now, proof_key};
use crate::failed_renewal::FailedRenewal;
use crate::fault::SignInFault;
use crate::record::SignInRecord;
use crate::renewal;
use crate::secret::Secret;
use crate::signature::ProvenRequest;
use crate::token::{TokenKind, TokenSet};

/// What stands where a token was.
const MARK: &str = "[key]";
/// Cutting out what is shorter would only make texts unreadable.
const MIN_SECRET_BYTES: usize = 8;

/// The sign-in for one server; cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerBearer {
    pub(crate) inner: Arc<SignInInner>,
    pub(crate) cell: Arc<AccountCell>,
    pub(crate) settings: Arc<OAuthSettings>,
}

/// What one request proves with.
#[derive(Debug, Default)]
pub struct RequestProof {
    pub headers: Vec<(HeaderName, HeaderValue)>,
    access: Option<Secret>,
}

/// Nothing goes on without a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInNeed {
    pub why: SignInReason,
    /// What the server wants, as far as it says so.
    pub scopes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInReason {
    First,
    /// With what was said about it.
    Expired(String),
    /// What was asked for needs more than was granted.
    Scope,
    /// A grant that needs no person was refused.
    Unattended {
        why: String,
        hint: String,
    },
}

/// What becomes of a request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedRequest {
    /// It is sent once more, with another token.
    Again,
    /// It is sent once more, with the number that the server gave for the proof.
    WithNonce,
    Needed(SignInNeed),
    /// It may go well a little later.
    Later(String),
    /// It was about something else.
    NotOurs,
}

/// How it stands with a sign-in, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInStanding {
    pub issuer: String,
    pub account: String,
    pub client: String,
    pub scopes: Vec<String>,
    pub is_signed_in: bool,
    pub expires_at: Option<i64>,
    pub renews: bool,
    /// Where the browser was sent back to.
    pub redirect: Option<String>,
}

impl std::fmt::Display for SignInNeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.why {
            SignInReason::First => f.write_str("needs a person to sign in"),
            SignInReason::Expired(said) => write!(f, "needs a person to sign in again: {said}"),
            SignInReason::Scope => write!(
                f,
                "wants more than this sign-in was granted ({}); nothing ran",
                self.scopes.join(" ")
            ),
            SignInReason::Unattended { why, .. } => write!(f, "could not be signed in to: {why}"),
        }
    }
}

impl SignInNeed {
    /// The next command.
    pub fn hint(&self, alias: &str) -> String {
        match &self.why {
            SignInReason::Unattended { hint, .. } => hint.replace(ALIAS, alias),
            SignInReason::First | SignInReason::Expired(_) | SignInReason::Scope => {
                format!("aishctl mcp login {alias}")
            }
        }
    }
}

/// Stands for the server's name, which is not known here.
const ALIAS: &str = "{alias}";

impl ServerBearer {
    /// What a request carries now. A token that is nearly over is renewed first.
    pub async fn proof(&self, method: &str, url: &Url) -> Result<RequestProof, RefusedRequest> {
        if url.origin() != self.cell.server.origin() {
            return Ok(RequestProof::default());
        }
        let stale = self.tokens().filter(|it| it.is_stale(now()));
        if let Some(stale) = stale {
            let renewed = self.renew(&stale.access).await;
            // What still lives is used up.
            if let Err(refused) = renewed
                && stale.is_over(now())
            {
                return Err(refused);
            }
        }
        let Some(record) = self.cell.record() else {
            return Ok(RequestProof::default());
        };
        let Some(tokens) = &record.tokens else {
            return Ok(RequestProof::default());
        };
        self.signed(&record, tokens, method, url)
            .map_err(|fault| RefusedRequest::Later(fault.to_string()))
    }

    fn signed(
        &self,
        record: &SignInRecord,
        tokens: &TokenSet,
        method: &str,
        url: &Url,
    ) -> Result<RequestProof, SignInFault> {
        let mut headers = vec![];
        let mut add = |name: HeaderName, value: String| {
            if let Ok(mut value) = HeaderValue::try_from(value) {
                value.set_sensitive(true);
                headers.push((name, value));
            }
        };
        add(
            AUTHORIZATION,
            format!("{} {}", tokens.kind.scheme(), tokens.access.reveal()),
        );
        if let (TokenKind::Bound, Some(key)) = (tokens.kind, proof_key(record)?) {
            let nonce = self.cell.state.lock().nonce.clone();
            let proof = key.proof(&ProvenRequest {
                method,
                url,
                token: Some(&tokens.access),
                nonce: nonce.as_deref(),
                now: now(),
            })?;
            add(HeaderName::from_static("dpop"), proof.reveal().to_owned());
        }
        Ok(RequestProof {
            headers,
            access: Some(tokens.access.clone()),
        })
    }

    /// A number for the next proof, which any answer may bring.
    pub fn heard(&self, headers: &HeaderMap) {
        let nonce = headers.get("dpop-nonce").and_then(|it| it.to_str().ok());
        if let Some(nonce) = nonce.filter(|it| it.len() <= 1024) {
            self.cell.state.lock().nonce = Some(nonce.to_owned());
        }
    }

    /// What a 401 or a 403 means.
    pub async fn refused(
        &self,
        sent: &RequestProof,
        status: u16,
        headers: &HeaderMap,
    ) -> RefusedRequest {
        let lines = headers.get_all(WWW_AUTHENTICATE).iter();
        let said = challenge::bearer(lines.filter_map(|it| it.to_str().ok()));
        let error = said.as_ref().and_then(|it| it.error.as_deref());
        match (status, error) {
            (_, Some("use_dpop_nonce")) => RefusedRequest::WithNonce,
            (403, Some("insufficient_scope")) => {
                self.more_wanted(sent, said.unwrap_or_default()).await
            }
            (401, _) => self.unknown(sent, said).await,
            _ => RefusedRequest::NotOurs,
        }
    }

    async fn more_wanted(&self, sent: &RequestProof, said: BearerChallenge) -> RefusedRequest {
        let scopes = said.scopes.clone();
        {
            let mut state = self.cell.state.lock();
            state.wanted = union(&state.wanted, &scopes);
            state.challenge = Some(said);
        }
        let has_all = self
            .tokens()
            .is_some_and(|it| scopes.iter().all(|wanted| it.scopes.contains(wanted)));
        if self.settings.grant.is_unattended() && !has_all {
            return self.obtained(sent.access.clone(), scopes).await;
        }
        RefusedRequest::Needed(SignInNeed {
            why: SignInReason::Scope,
            scopes,
        })
    }

    async fn unknown(&self, sent: &RequestProof, said: Option<BearerChallenge>) -> RefusedRequest {
        let is_challenge = said.is_some();
        let scopes = said
            .as_ref()
            .map(|it| it.scopes.clone())
            .unwrap_or_default();
        if let Some(said) = said {
            self.cell.state.lock().challenge = Some(said);
        }
        if self.settings.grant.is_unattended() {
            return self.obtained(sent.access.clone(), vec![]).await;
        }
        if let Some(access) = &sent.access {
            return match self.renew(access).await {
                Ok(()) => RefusedRequest::Again,
                Err(refused) => refused,
            };
        }
        let mut why = SignInReason::First;
        {
            let state = self.cell.state.lock();
            if let Some(unread) = &state.unread {
                why = SignInReason::Expired(unread.clone());
            } else if state.record.is_some() {
                why = SignInReason::Expired("nobody is signed in any more".to_owned());
            } else if !is_challenge {
                return RefusedRequest::NotOurs;
            }
        }
        RefusedRequest::Needed(SignInNeed { why, scopes })
    }

    /// It was refused again and again, with what was new each time.
    pub fn hopeless(&self) -> SignInNeed {
        SignInNeed {
            why: SignInReason::Expired("it refuses a token that is new".to_owned()),
            scopes: vec![],
        }
    }

    async fn renew(&self, spent: &Secret) -> Result<(), RefusedRequest> {
        let (inner, cell, settings) =
            (self.inner.clone(), self.cell.clone(), self.settings.clone());
        if self.settings.grant.is_unattended() {
            return match self.obtained(Some(spent.clone()), vec![]).await {
                RefusedRequest::Again => Ok(()),
                refused @ (RefusedRequest::WithNonce
                | RefusedRequest::Needed(_)
                | RefusedRequest::Later(_)
                | RefusedRequest::NotOurs) => Err(refused),
            };
        }
        let work = renewal::renew(inner, cell, settings, spent.clone());
        match self.inner.to_its_end(Box::pin(work)).await {
            Ok(()) => Ok(()),
            Err(fault) if fault.is_temporary() => Err(RefusedRequest::Later(fault.to_string())),
            Err(fault) => Err(RefusedRequest::Needed(SignInNeed {
                why: SignInReason::Expired(fault.to_string()),
                scopes: vec![],
            })),
        }
    }

    async fn obtained(&self, spent: Option<Secret>, more: Vec<String>) -> RefusedRequest {
        let (inner, cell, settings) =
            (self.inner.clone(), self.cell.clone(), self.settings.clone());
        let work = renewal::obtain(inner, cell, settings, spent, more);
        match self.inner.to_its_end(Box::pin(work)).await {
            Ok(()) => RefusedRequest::Again,
            Err(fault) if fault.is_temporary() => RefusedRequest::Later(fault.to_string()),
            Err(fault) => RefusedRequest::Needed(SignInNeed {
                why: SignInReason::Unattended {
                    why: fault.to_string(),
                    hint: match &fault {
                        SignInFault::Refused { .. } => format!("aishctl mcp restart {ALIAS}"),
                        other => other.hint(ALIAS),
                    },
                },
                scopes: vec![],
            }),
        }
    }

    fn tokens(&self) -> Option<TokenSet> {
        self.cell.record()?.tokens
    }

    /// Without the tokens, should the server repeat them.
    pub fn redact(&self, text: &str) -> String {
        let record = self.cell.record();
        let secrets = record.iter().flat_map(SignInRecord::secrets);
        let secrets = secrets.filter(|it| it.reveal().len() >= MIN_SECRET_BYTES);
        secrets.fold(text.to_owned(), |text, it| text.replace(it.reveal(), MARK))
    }

    /// What of it nobody else may learn, as it is now.
    pub fn each_secret(&self, each: &mut dyn FnMut(&str)) {
        let record = self.cell.record();
        let secrets = record.iter().flat_map(SignInRecord::secrets);
        secrets.for_each(|it| each(it.reveal()));
    }

    /// How it stands, where somebody has signed in or did once.
    pub fn standing(&self) -> Option<SignInStanding> {
        let record = self.cell.record()?;
        let tokens = record.tokens.as_ref();
        Some(SignInStanding {
            issuer: record.issuer.clone(),
            account: record.account.clone(),
            client: record.client.id.clone(),
            scopes: tokens.map(|it| it.scopes.clone()).unwrap_or_default(),
            is_signed_in: tokens.is_some(),
            expires_at: tokens.and_then(|it| it.expires_at),
            renews: tokens.is_some_and(|it| it.refresh.is_some()),
            redirect: record.client.redirect.clone(),
        })
    }

    /// How often somebody has signed in: another number is another sign-in, or a renewal.
    pub fn sign_ins(&self) -> u64 {
        self.cell.state.lock().sign_ins
    }

    /// What was wanted beyond what was granted.
    pub fn wanted(&self) -> Vec<String> {
        self.cell.state.lock().wanted.clone()
    }

    /// Whether it is the sign-in that was not renewed.
    pub fn is_of(&self, failed: &FailedRenewal) -> bool {
        self.cell.server.as_str() == failed.server && self.cell.account == failed.account
    }

    /// Whether both speak of the same sign-in.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}
