//! A person signs in: an address to open, and what the browser brings back. And out again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use crate::account::PendingLogin;
use crate::authorization::{AnswerFault, AuthorizationRequest, ExpectedAnswer, code};
use crate::bearer::ServerBearer;
use crate::challenge::union;
use crate::client::{ClientMethod, ClientSource, OAuthClient, registered, registration};
use crate::discovery::{DiscoveredIssuer, discover};
use crate::exchange::{TokenExchange, granted, now, proof_key, refusal};
use crate::fault::SignInFault;
use crate::metadata::{IssuerMetadata, usable};
use crate::record::{SignInRecord, VERSION};
use crate::renewal::{Rest, bound_key, own_client, same_issuer};
use crate::secret::Secret;
use crate::sign_in::SignIn;
use crate::signature::ProofKey;
use crate::token::TokenRefusal;

/// A sign-in that is begun is over after this.
const LIFE: Duration = Duration::from_secs(600);
const MOST: usize = 16;
const REVOKE: Duration = Duration::from_secs(5);
const OFFLINE: &str = "offline_access";

/// What a person wants.
#[derive(Clone, Debug)]
pub struct LoginWish {
    /// Who is meant, in the caller's words.
    pub name: String,
    /// Where the browser is to come back to, on this machine.
    pub redirect: String,
    /// In place of what the server asks for.
    pub scopes: Option<Vec<String>>,
}

/// A sign-in that is under way.
#[derive(Clone, Debug)]
pub struct LoginBegun {
    pub login: String,
    /// What the person opens.
    pub url: String,
    pub redirect: String,
    pub resource: String,
    pub issuer: String,
    pub scopes: Vec<String>,
    pub expires_in: Duration,
}

impl SignIn {
    /// Finds out where to sign in, and makes the address. Another one under way for the same account ends.
    pub async fn begin(
        &self,
        bearer: &ServerBearer,
        wish: LoginWish,
    ) -> Result<LoginBegun, SignInFault> {
        if bearer.settings.grant.is_unattended() {
            return Err(SignInFault::Unattended);
        }
        let server = &bearer.cell.server;
        // What the server said last may be of yesterday.
        let asked = self.inner.wire.challenge(server).await?;
        let challenge = {
            let mut state = bearer.cell.state.lock();
            if asked.is_some() {
                state.challenge = asked;
            }
            state.challenge.clone().unwrap_or_default()
        };
        let found = discover(&self.inner.wire, server, &challenge, &bearer.settings).await?;
        let issuer = found.metadata.issuer.clone();
        let endpoint = found.metadata.authorization.clone();
        let endpoint = endpoint.ok_or_else(|| SignInFault::NoPage {
            issuer: issuer.clone(),
        })?;
        let scopes = bearer.scopes(&wish, &challenge.scopes, &found);
        let redirect = bearer.settings.redirect.clone().unwrap_or(wish.redirect);
        let (client, redirect) = self
            .client(bearer, &found.metadata, redirect, &scopes)
            .await?;
        let (state, verifier) = (Secret::random()?, Secret::random()?);
        self.inner.learn(&verifier);
        self.inner.learn(&state);
        let url = AuthorizationRequest {
            endpoint: &endpoint,
            client: &client.id,
            redirect: &redirect,
            state: &state,
            verifier: &verifier,
            resource: &found.resource,
            scopes: &scopes,
        }
        .url();
        let login = Secret::random()?.reveal().to_owned();
        let begun = LoginBegun {
            login: login.clone(),
            url: url.into(),
            redirect: redirect.clone(),
            resource: found.resource.clone(),
            issuer,
            scopes: scopes.clone(),
            expires_in: LIFE,
        };
        let pending = PendingLogin {
            name: wish.name,
            cell: bearer.cell.clone(),
            settings: bearer.settings.clone(),
            found,
            client,
            redirect,
            scopes,
            state,
            verifier,
            until: Instant::now() + LIFE,
        };
        let mut logins = self.inner.logins.lock();
        logins.retain(|_, it| it.until > Instant::now() && !Arc::ptr_eq(&it.cell, &bearer.cell));
        while logins.len() >= MOST {
            logins.pop_first();
        }
        logins.insert(login, pending);
        Ok(begun)
    }

    /// Who we are there: as it is configured, as we are known, by a document, or newly registered.
    async fn client(
        &self,
        bearer: &ServerBearer,
        metadata: &IssuerMetadata,
        redirect: String,
        scopes: &[String],
    ) -> Result<(OAuthClient, String), SignInFault> {
        if bearer.settings.redirect.is_none() && !is_here(&redirect) {
            return Err(SignInFault::Redirect(redirect));
        }
        let before = bearer.cell.record();
        if bearer.settings.client_id.is_some() {
            if bearer.settings.client_secret.is_some() || bearer.settings.private_key.is_some() {
                same_issuer(before.as_ref(), metadata)?;
            }
            return Ok((
                own_client(&self.inner, metadata, &bearer.settings)?,
                redirect,
            ));
        }
        // Credentials are for the issuer that gave them, and for nobody else.
        let known = before.filter(|it| same_issuer(Some(it), metadata).is_ok());
        let known = known.map(|it| it.client).filter(|it| {
            it.source == ClientSource::Registered
                && !it.is_over(now())
                && it
                    .redirect
                    .as_deref()
                    .is_some_and(|it| it == redirect || it == by_name(&redirect))
        });
        if let Some(client) = known {
            let redirect = client.redirect.clone().unwrap_or(redirect);
            return Ok((client, redirect));
        }
        let listed = metadata.client_authentication.as_ref();
        let takes_public = listed.is_none_or(|it| it.iter().any(|it| it == "none"));
        if let Some(document) = &bearer.settings.client_document
            && metadata.takes_client_documents
            && takes_public
        {
            let client = OAuthClient {
                id: document.clone(),
                secret: None,
                method: ClientMethod::None,
                source: ClientSource::Document,
                redirect: Some(redirect.clone()),
                expires_at: None,
            };
            return Ok((client, redirect));
        }
        self.register(bearer, metadata, redirect, scopes).await
    }

    async fn register(
        &self,
        bearer: &ServerBearer,
        metadata: &IssuerMetadata,
        redirect: String,
        scopes: &[String],
    ) -> Result<(OAuthClient, String), SignInFault> {
        let Some(endpoint) = &metadata.registration else {
            return Err(SignInFault::NeedsClient {
                issuer: metadata.issuer.clone(),
                redirect,
            });
        };
        // Some know this machine only by its name.
        let mut ways = vec![redirect.clone(), by_name(&redirect)];
        ways.dedup();
        let mut refused = None;
        for redirect in &ways {
            let wish = registration(metadata, redirect, scopes);
            let reply = self
                .inner
                .wire
                .post(endpoint, &bearer.cell.server, &wish)
                .await?;
            let document = reply.document.clone().unwrap_or_default();
            let client = registered(&document, &wish, redirect).filter(|_| reply.is_success());
            if let Some(client) = client {
                if let Some(secret) = &client.secret {
                    self.inner.learn(secret);
                }
                return Ok((client, redirect.clone()));
            }
            if reply.is_broken() {
                return Err(SignInFault::Broken {
                    place: endpoint.to_string(),
                    status: reply.status,
                });
            }
            refused = refused.or(Some(refusal(&self.inner, &reply)));
        }
        Err(SignInFault::NotRegistered {
            issuer: metadata.issuer.clone(),
            refusal: refused.unwrap_or_else(|| TokenRefusal::of_status(0)),
        })
    }

    /// What the browser brought: the query of the address, or all of it. An answer that belongs to another sign-in leaves
    /// this one as it is; anything else ends it.
    pub async fn finish(
        &self,
        login: &str,
        said: &str,
    ) -> Result<(ServerBearer, String), SignInFault> {
        let (pending, code) = {
            let mut logins = self.inner.logins.lock();
            logins.retain(|_, it| it.until > Instant::now());
            let pending = logins.get(login).ok_or(SignInFault::NoLogin)?;
            let code = code(
                said,
                &ExpectedAnswer {
                    state: &pending.state,
                    issuer: &pending.found.metadata.issuer,
                    names_itself: pending.found.metadata.names_itself,
                },
            );
            match code {
                Err(
                    fault @ (AnswerFault::OtherState
                    | AnswerFault::Missing("state")
                    | AnswerFault::Twice(_)),
                ) => {
                    return Err(fault.into());
                }
                code => (logins.remove(login).ok_or(SignInFault::NoLogin)?, code?),
            }
        };
        self.inner.learn(&code);
        let (bearer, name) = (
            ServerBearer {
                inner: self.inner.clone(),
                cell: pending.cell.clone(),
                settings: pending.settings.clone(),
            },
            pending.name.clone(),
        );
        let sign_in = self.clone();
        // A code is good once, so what came of it is never thrown away.
        self.inner
            .to_its_end(Box::pin(
                async move { sign_in.exchanged(pending, code).await },
            ))
            .await?;
        Ok((bearer, name))
    }

    async fn exchanged(&self, pending: PendingLogin, code: Secret) -> Result<(), SignInFault> {
        let PendingLogin {
            cell,
            settings,
            found,
            client,
            redirect,
            scopes,
            verifier,
            ..
        } = pending;
        let (key, proof_key) = bound_key(found.binds_tokens)?;
        let fields = [
            ("grant_type", Secret::new("authorization_code")),
            ("code", code),
            ("redirect_uri", Secret::new(redirect)),
            ("code_verifier", verifier),
            ("resource", Secret::new(found.resource.clone())),
        ];
        let exchange = TokenExchange {
            server: &cell.server,
            endpoint: &found.metadata.token,
            issuer: &found.metadata.issuer,
            client: &client,
            key: key.as_ref(),
        };
        let _alone = cell.flight.lock().await;
        let reply = exchange.ask(&self.inner, &settings, &fields).await?;
        let tokens = granted(&self.inner, &reply, &found.metadata.issuer, &scopes)?;
        let record = SignInRecord {
            version: VERSION,
            server: cell.server.to_string(),
            account: cell.account.clone(),
            resource: found.resource,
            issuer: found.metadata.issuer,
            token_endpoint: found.metadata.token.into(),
            revocation_endpoint: found.metadata.revocation.map(String::from),
            client,
            tokens: Some(tokens),
            scopes,
            proof_key,
            unknown: serde_json::Map::new(),
        };
        self.inner.keep(&cell, record).await?;
        let mut state = cell.state.lock();
        state.wanted.clear();
        state.rest = Rest::default();
        Ok(())
    }

    /// Who a sign-in that is under way is for.
    pub fn name(&self, login: &str) -> Option<String> {
        let logins = self.inner.logins.lock();
        logins.get(login).map(|it| it.name.clone())
    }

    /// Gives up what is under way; whether there was something.
    pub fn cancel(&self, login: &str) -> bool {
        self.inner.logins.lock().remove(login).is_some()
    }

    /// Takes the tokens back where the server can, and forgets them in any case. What could not be done is said.
    pub async fn logout(
        &self,
        bearer: &ServerBearer,
        forget: bool,
    ) -> Result<Vec<String>, SignInFault> {
        let _alone = bearer.cell.flight.lock().await;
        self.inner
            .logins
            .lock()
            .retain(|_, it| !Arc::ptr_eq(&it.cell, &bearer.cell));
        let Some(record) = bearer.cell.record() else {
            return self.logout_unread(bearer, forget);
        };
        // They are of no use to us any more, whatever the server says.
        let mut kept = record.clone();
        kept.tokens = None;
        kept.proof_key = None;
        if forget {
            self.inner.store.remove(&record)?;
            bearer.cell.state.lock().record = None;
        } else {
            self.inner.keep(&bearer.cell, kept).await?;
        }
        bearer.cell.state.lock().unread = None;
        let revoking = self.revoke(bearer, &record);
        match tokio::time::timeout(REVOKE, revoking).await {
            Ok(Ok(remarks)) => Ok(remarks),
            Ok(Err(fault)) => Ok(vec![format!("not revoked: {fault}")]),
            Err(_elapsed) => Ok(vec![format!(
                "not revoked: {} does not answer",
                record.issuer
            )]),
        }
    }

    /// Where there is nothing that can be read, nothing can be taken back at its server either.
    fn logout_unread(
        &self,
        bearer: &ServerBearer,
        forget: bool,
    ) -> Result<Vec<String>, SignInFault> {
        let Some(why) = bearer.cell.state.lock().unread.clone() else {
            return Ok(vec![]);
        };
        if !forget {
            return Err(SignInFault::Unread(why));
        }
        let (server, account) = (bearer.cell.server.as_str(), &bearer.cell.account);
        self.inner.store.remove_of(server, account)?;
        bearer.cell.state.lock().unread = None;
        Ok(vec![format!(
            "not revoked: {why}; what lay there is taken away, and its server may still take the tokens"
        )])
    }

    async fn revoke(
        &self,
        bearer: &ServerBearer,
        record: &SignInRecord,
    ) -> Result<Vec<String>, SignInFault> {
        let Some(tokens) = &record.tokens else {
            return Ok(vec![]);
        };
        let Some(endpoint) = &record.revocation_endpoint else {
            return Ok(vec![format!(
                "{} has no way to take tokens back; they are forgotten here",
                record.issuer
            )]);
        };
        let server = &bearer.cell.server;
        let endpoint = usable(endpoint, server).map_err(|fault| SignInFault::Address {
            what: "the revocation endpoint",
            fault,
        })?;
        let key: Option<ProofKey> = proof_key(record)?;
        let exchange = TokenExchange {
            server,
            endpoint: &endpoint,
            issuer: &record.issuer,
            client: &record.client,
            key: key.as_ref(),
        };
        let mut remarks = vec![];
        let both = tokens.refresh.iter().map(|it| (it, "refresh_token"));
        for (token, kind) in both.chain([(&tokens.access, "access_token")]) {
            let fields = [
                ("token", token.clone()),
                ("token_type_hint", Secret::new(kind)),
            ];
            let reply = exchange.ask(&self.inner, &bearer.settings, &fields).await?;
            if !reply.is_success() {
                let said = refusal(&self.inner, &reply);
                remarks.push(format!("{kind} not revoked: {said}"));
            }
        }
        Ok(remarks)
    }
}

impl ServerBearer {
    fn scopes(
        &self,
        wish: &LoginWish,
        challenged: &[String],
        found: &DiscoveredIssuer,
    ) -> Vec<String> {
        let chosen = wish.scopes.clone().or_else(|| self.settings.scopes.clone());
        if let Some(chosen) = chosen {
            return chosen;
        }
        let mut scopes = if challenged.is_empty() {
            found.resource_scopes.clone()
        } else {
            challenged.to_vec()
        };
        let wanted = self.cell.state.lock().wanted.clone();
        if !wanted.is_empty() {
            let before = self
                .cell
                .record()
                .filter(|it| it.issuer == found.metadata.issuer);
            let before = before.map(|it| it.scopes).unwrap_or_default();
            scopes = union(&union(&before, &scopes), &wanted);
        }
        // What lasts has to be asked for, where the authorization server knows the word.
        if found.metadata.scopes.iter().any(|it| it == OFFLINE) {
            scopes = union(&scopes, &[OFFLINE.to_owned()]);
        }
        scopes
    }
}

/// Whether an address is one of this machine over plain HTTP.
fn is_here(redirect: &str) -> bool {
    let url = Url::parse(redirect).ok();
    let host = url
        .as_ref()
        .filter(|it| it.scheme() == "http")
        .and_then(Url::host_str);
    matches!(host, Some("127.0.0.1" | "localhost" | "[::1]"))
}

fn by_name(redirect: &str) -> String {
    redirect.replacen("127.0.0.1", "localhost", 1)
}
