//! Getting tokens without a person: renewing those that there are, and the grants that need nobody.

use std::sync::Arc;
use std::time::Duration;

use aishd_mcp_messages::oauth_settings::{IdentityProvider, OAuthGrant, OAuthSettings};
use aishd_platform::failpoint;
use tokio::time::Instant;
use url::Url;

use crate::account::{AccountCell, SignInInner};
use crate::challenge::{BearerChallenge, union};
use crate::client::{ClientMethod, ClientSource, OAuthClient, method};
use crate::discovery::{DiscoveredIssuer, discover};
use crate::exchange::{TokenExchange, configured, granted, now, proof_key};
use crate::failed_renewal::FailedRenewal;
use crate::fault::SignInFault;
use crate::metadata::{IssuerMetadata, usable};
use crate::record::{SignInRecord, VERSION};
use crate::secret::Secret;
use crate::signature::ProofKey;
use crate::token::{TokenRefusal, TokenSet};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Renews the tokens of which `spent` is one, unless somebody else just has. The caller sees to it that this runs to its
/// end.
pub(crate) async fn renew(
    inner: Arc<SignInInner>,
    cell: Arc<AccountCell>,
    settings: Arc<OAuthSettings>,
    spent: Secret,
) -> Result<(), SignInFault> {
    let _alone = cell.flight.lock().await;
    let Some(record) = cell.record() else {
        return Ok(());
    };
    let Some(before) = record.tokens.as_ref().filter(|it| it.access == spent) else {
        return Ok(());
    };
    rested(&cell)?;
    match asked_anew(&inner, &cell, &settings, &record, before).await {
        Ok(tokens) => {
            let tokens = Some(tokens.renewed(before));
            let renewed = SignInRecord {
                tokens,
                ..record.clone()
            };
            inner.keep_renewed(&cell, renewed).await;
            cell.state.lock().rest = Rest::default();
            tracing::debug!(issuer = record.issuer, "a sign-in was renewed");
            Ok(())
        }
        Err(SignInFault::Refused { issuer, refusal }) if is_final(&refusal) => {
            let dead = without_renewal(record.clone(), &refusal);
            inner.keep(&cell, dead).await?;
            let error = &refusal.error;
            tracing::info!(issuer, error, "a sign-in cannot be renewed any more");
            let is_said = error != IS_OVER;
            let fault = SignInFault::Refused { issuer, refusal };
            if is_said {
                tell_of_failure(&inner, &cell, &record.issuer, &fault);
            }
            Err(fault)
        }
        Err(fault) => {
            if is_first(&cell) {
                tell_of_failure(&inner, &cell, &record.issuer, &fault);
            }
            rest(&cell, &fault);
            Err(fault)
        }
    }
}

/// The authorization server is let alone for a while after it could not or would not help.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    until: Option<Instant>,
    failures: u32,
    /// What was said then, and whether it may be otherwise later.
    why: String,
    is_temporary: bool,
}

/// Whether it may be asked now.
fn rested(cell: &AccountCell) -> Result<(), SignInFault> {
    let state = cell.state.lock();
    let left = state.rest.until.map(|it| it.duration_since(Instant::now()));
    match left.filter(|it| !it.is_zero()) {
        None => Ok(()),
        Some(left) => Err(SignInFault::Resting {
            why: state.rest.why.clone(),
            seconds: left.as_secs() + 1,
            is_temporary: state.rest.is_temporary,
        }),
    }
}

/// Tells of it. A renewal that is tried again and fails again is the same failure, so that this is for the first.
fn tell_of_failure(inner: &SignInInner, cell: &AccountCell, issuer: &str, fault: &SignInFault) {
    let error = match fault {
        SignInFault::Refused { refusal, .. } => refusal.error.clone(),
        SignInFault::Broken { status, .. } => format!("HTTP {status}"),
        SignInFault::Unreachable { .. } => "not reached".to_owned(),
        SignInFault::Token { fault, .. } => fault.to_string(),
        _another if fault.is_of_a_server() => "no answer that can be used".to_owned(),
        // A matter of this machine, which a person corrects.
        _another => return,
    };
    (inner.parts.not_renewed)(FailedRenewal {
        server: cell.server.to_string(),
        account: cell.account.clone(),
        issuer: issuer.to_owned(),
        error,
    });
}

/// Whether none has failed since one went well.
fn is_first(cell: &AccountCell) -> bool {
    cell.state.lock().rest.failures == 0
}

/// What did not come as far as a server is tried again at once, when a person has corrected it.
fn rest(cell: &AccountCell, fault: &SignInFault) {
    if !fault.is_of_a_server() {
        return;
    }
    let rest = &mut cell.state.lock().rest;
    let pause = FIRST_PAUSE.saturating_mul(1 << rest.failures.min(9));
    *rest = Rest {
        until: Some(Instant::now() + pause.min(LONGEST_PAUSE)),
        failures: rest.failures.saturating_add(1),
        why: fault.to_string(),
        is_temporary: fault.is_temporary(),
    };
}

/// Our own word for a token that there is nothing to renew with.
const IS_OVER: &str = "its token is over";

/// The one request of a renewal.
async fn asked_anew(
    inner: &SignInInner,
    cell: &AccountCell,
    settings: &OAuthSettings,
    record: &SignInRecord,
    before: &TokenSet,
) -> Result<TokenSet, SignInFault> {
    let issuer = &record.issuer;
    let refresh = before.refresh.clone();
    let refresh = refresh.ok_or_else(|| SignInFault::Refused {
        issuer: issuer.clone(),
        refusal: TokenRefusal {
            error: IS_OVER.to_owned(),
            description: "and it gave none to renew it with".to_owned(),
        },
    })?;
    let endpoint = usable(&record.token_endpoint, &cell.server);
    let endpoint = endpoint.map_err(|fault| SignInFault::Address {
        what: "the token endpoint",
        fault,
    })?;
    let key = proof_key(record)?;
    let exchange = TokenExchange {
        server: &cell.server,
        endpoint: &endpoint,
        issuer,
        client: &record.client,
        key: key.as_ref(),
    };
    // No scope: what was granted is asked for.
    let fields = [
        ("grant_type", Secret::new("refresh_token")),
        ("refresh_token", refresh),
        ("resource", Secret::new(record.resource.clone())),
    ];
    let reply = exchange.ask(inner, settings, &fields).await?;
    failpoint::pass("signin.renewed");
    let says_why = reply
        .document
        .as_ref()
        .is_some_and(|it| it.get("error").is_some());
    if !reply.is_success() && !says_why {
        // A page of something in between says nothing about the token.
        return Err(SignInFault::Broken {
            place: issuer.clone(),
            status: reply.status,
        });
    }
    granted(inner, &reply, issuer, &before.scopes)
}

/// Whether a refusal is about the token or the client. What a gateway on the way says is not (RFC 6749, 5.2).
fn is_final(refusal: &TokenRefusal) -> bool {
    matches!(
        refusal.error.as_str(),
        "invalid_grant"
            | "invalid_client"
            | "unauthorized_client"
            | "unsupported_grant_type"
            | IS_OVER
    )
}

/// What is left when it will never be renewed: a token that lives is used up.
fn without_renewal(mut record: SignInRecord, refusal: &TokenRefusal) -> SignInRecord {
    record.tokens = record
        .tokens
        .filter(|it| it.expires_at.is_some() && !it.is_over(now()));
    if let Some(tokens) = &mut record.tokens {
        tokens.refresh = None;
    }
    if matches!(
        refusal.error.as_str(),
        "invalid_client" | "unauthorized_client"
    ) {
        // It is registered anew, by itself, at the next sign-in.
        record.client.expires_at = Some(0);
    }
    record
}

/// Signs in without a person, as it is configured. `more` is asked for besides.
pub(crate) async fn obtain(
    inner: Arc<SignInInner>,
    cell: Arc<AccountCell>,
    settings: Arc<OAuthSettings>,
    spent: Option<Secret>,
    more: Vec<String>,
) -> Result<(), SignInFault> {
    let _alone = cell.flight.lock().await;
    let before = cell.record();
    let access = before
        .as_ref()
        .and_then(|it| it.tokens.as_ref())
        .map(|it| &it.access);
    if access.is_some() && access != spent.as_ref() {
        return Ok(());
    }
    rested(&cell)?;
    // Where there was no token nothing is renewed.
    let renewed = before.as_ref().filter(|it| it.tokens.is_some());
    let issuer = renewed.map(|it| it.issuer.clone());
    let obtained = obtained(&inner, &cell, &settings, before, more).await;
    match &obtained {
        Ok(()) => cell.state.lock().rest = Rest::default(),
        Err(fault) => {
            if let Some(issuer) = issuer.filter(|_| is_first(&cell)) {
                tell_of_failure(&inner, &cell, &issuer, fault);
            }
            rest(&cell, fault);
        }
    }
    obtained
}

async fn obtained(
    inner: &Arc<SignInInner>,
    cell: &AccountCell,
    settings: &OAuthSettings,
    before: Option<SignInRecord>,
    more: Vec<String>,
) -> Result<(), SignInFault> {
    let said = cell.state.lock().challenge.clone();
    // Who was not asked since the daemon began takes what it took.
    let challenge = said.unwrap_or_else(|| BearerChallenge {
        takes_bound: before.as_ref().is_some_and(|it| it.proof_key.is_some()),
        ..BearerChallenge::default()
    });
    let found = discover(&inner.wire, &cell.server, &challenge, settings).await?;
    let asked = match &settings.scopes {
        Some(scopes) => scopes.clone(),
        None if challenge.scopes.is_empty() => found.resource_scopes.clone(),
        None => challenge.scopes,
    };
    same_issuer(before.as_ref(), &found.metadata)?;
    let had = before.map(|it| it.scopes).unwrap_or_default();
    let scopes = if more.is_empty() {
        asked
    } else {
        union(&union(&asked, &had), &more)
    };
    let client = own_client(inner, &found.metadata, settings)?;
    let (key, kept_key) = bound_key(found.binds_tokens)?;
    let fields = fields(inner, &found, settings, &scopes).await?;
    let exchange = TokenExchange {
        server: &cell.server,
        endpoint: &found.metadata.token,
        issuer: &found.metadata.issuer,
        client: &client,
        key: key.as_ref(),
    };
    let reply = exchange.ask(inner, settings, &fields).await?;
    let tokens = granted(inner, &reply, &found.metadata.issuer, &scopes)?;
    let record = SignInRecord {
        version: VERSION,
        server: cell.server.to_string(),
        account: cell.account.clone(),
        resource: found.resource,
        issuer: found.metadata.issuer,
        token_endpoint: found.metadata.token.to_string(),
        revocation_endpoint: found.metadata.revocation.map(String::from),
        client,
        tokens: Some(tokens),
        scopes,
        proof_key: kept_key,
        unknown: serde_json::Map::new(),
    };
    inner.keep(cell, record).await
}

/// What is configured for one authorization server is sent to no other one, whatever the MCP server says by now.
pub(crate) fn same_issuer(
    before: Option<&SignInRecord>,
    metadata: &IssuerMetadata,
) -> Result<(), SignInFault> {
    match before {
        Some(before)
            if before.issuer != metadata.issuer
                || before.token_endpoint != metadata.token.as_str() =>
        {
            Err(SignInFault::OtherIssuer {
                before: before.issuer.clone(),
                named: metadata.token.to_string(),
            })
        }
        Some(_) | None => Ok(()),
    }
}

/// A new key, where tokens are bound to one.
pub(crate) fn bound_key(
    binds_tokens: bool,
) -> Result<(Option<ProofKey>, Option<Secret>), SignInFault> {
    if !binds_tokens {
        return Ok((None, None));
    }
    let (key, kept) = ProofKey::generate()?;
    Ok((Some(key), Some(kept)))
}

/// The client that is configured, with whatever it proves itself with.
pub(crate) fn own_client(
    inner: &SignInInner,
    metadata: &IssuerMetadata,
    settings: &OAuthSettings,
) -> Result<OAuthClient, SignInFault> {
    let id = match (&settings.client_id, settings.grant) {
        (Some(id), _) => id.clone(),
        // The assertion says who it is.
        (None, OAuthGrant::JwtBearer) => String::new(),
        (None, OAuthGrant::Person | OAuthGrant::ClientCredentials | OAuthGrant::Enterprise) => {
            return Err(SignInFault::Unconfigured { key: "client_id" });
        }
    };
    let secret = settings.client_secret.as_ref();
    let secret = secret.map(|it| configured(inner, it)).transpose()?;
    if secret.is_none()
        && settings.private_key.is_none()
        && settings.grant == OAuthGrant::ClientCredentials
    {
        return Err(SignInFault::Unconfigured {
            key: "client_secret_file",
        });
    }
    Ok(OAuthClient {
        method: match settings.private_key {
            Some(_) => ClientMethod::PrivateKeyJwt,
            None => method(metadata, secret.is_some()),
        },
        id,
        secret,
        source: ClientSource::Configured,
        redirect: None,
        expires_at: None,
    })
}

async fn fields(
    inner: &SignInInner,
    found: &DiscoveredIssuer,
    settings: &OAuthSettings,
    scopes: &[String],
) -> Result<Vec<(&'static str, Secret)>, SignInFault> {
    let mut fields = match settings.grant {
        OAuthGrant::Person => return Err(SignInFault::Unattended),
        OAuthGrant::ClientCredentials => {
            vec![("grant_type", Secret::new("client_credentials"))]
        }
        OAuthGrant::JwtBearer => vec![
            ("grant_type", Secret::new(JWT_BEARER)),
            ("assertion", assertion(inner, settings)?),
        ],
        OAuthGrant::Enterprise => vec![
            ("grant_type", Secret::new(JWT_BEARER)),
            (
                "assertion",
                from_identity_provider(inner, found, settings, scopes).await?,
            ),
        ],
    };
    fields.push(("resource", Secret::new(found.resource.clone())));
    if !scopes.is_empty() {
        fields.push(("scope", Secret::new(scopes.join(" "))));
    }
    Ok(fields)
}

fn assertion(inner: &SignInInner, settings: &OAuthSettings) -> Result<Secret, SignInFault> {
    let source = settings.assertion.as_ref();
    let source = source.ok_or(SignInFault::Unconfigured {
        key: "assertion_file",
    })?;
    configured(inner, source)
}

/// Changes the identity token for one that the authorization server takes (RFC 8693).
async fn from_identity_provider(
    inner: &SignInInner,
    found: &DiscoveredIssuer,
    settings: &OAuthSettings,
    scopes: &[String],
) -> Result<Secret, SignInFault> {
    let provider = settings.identity_provider.as_ref();
    let IdentityProvider {
        token_endpoint,
        client_id,
    } = provider.ok_or(SignInFault::Unconfigured {
        key: "idp_token_endpoint",
    })?;
    // A person named it, wherever it is.
    let endpoint = Url::parse(token_endpoint).ok();
    let endpoint = endpoint.filter(|it| usable(token_endpoint, it).is_ok());
    let endpoint = endpoint.ok_or(SignInFault::Unconfigured {
        key: "idp_token_endpoint",
    })?;
    let client = OAuthClient {
        id: client_id.clone(),
        secret: None,
        method: ClientMethod::None,
        source: ClientSource::Configured,
        redirect: None,
        expires_at: None,
    };
    let mut fields = vec![
        (
            "grant_type",
            Secret::new("urn:ietf:params:oauth:grant-type:token-exchange"),
        ),
        (
            "requested_token_type",
            Secret::new("urn:ietf:params:oauth:token-type:id-jag"),
        ),
        ("audience", Secret::new(found.metadata.issuer.clone())),
        ("resource", Secret::new(found.resource.clone())),
        ("subject_token", assertion(inner, settings)?),
        (
            "subject_token_type",
            Secret::new("urn:ietf:params:oauth:token-type:id_token"),
        ),
    ];
    if !scopes.is_empty() {
        fields.push(("scope", Secret::new(scopes.join(" "))));
    }
    let exchange = TokenExchange {
        server: &endpoint,
        endpoint: &endpoint,
        issuer: token_endpoint,
        client: &client,
        key: None,
    };
    let mut reply = exchange.ask(inner, settings, &fields).await?;
    // It is no token for requests, and says so.
    if let Some(document) = reply
        .document
        .as_mut()
        .and_then(serde_json::Value::as_object_mut)
    {
        document.remove("token_type");
    }
    granted(inner, &reply, token_endpoint, scopes).map(|it| it.access)
}
