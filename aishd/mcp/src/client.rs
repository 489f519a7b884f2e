//! HTTP clients, one for each way to reach a server, made when the first server needs it.

use std::collections::BTreeMap;
use std::time::Duration;

use aishd_http::tls;
use aishd_mcp_messages::server_reach::ServerReach;
use aishd_mcp_messages::settings::{BearerSource, HttpServerSettings};
use aishd_signin::{ServerBearer, SignIn};
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};

use super::error::{SentToken, WireFailure};
use super::secrets::{LearnSecret, ServerSecrets};

/// Local servers close idle connections after about five seconds; asking on one that is just closing would fail.
const POOL_IDLE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(super) struct McpHttpClients(Mutex<BTreeMap<(ServerReach, Duration), Client>>);

impl McpHttpClients {
    pub(super) fn get(&self, url: &Url, connect: Duration) -> Result<Client, WireFailure> {
        let reach = ServerReach::of(url.scheme(), url.host_str().unwrap_or_default());
        let mut clients = self.0.lock();
        if let Some(client) = clients.get(&(reach, connect)) {
            return Ok(client.clone());
        }
        tls::provide();
        // A redirect could carry the token to another server.
        let builder = Client::builder()
            .user_agent(concat!("aish/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(connect)
            .pool_idle_timeout(POOL_IDLE);
        let builder = match reach {
            ServerReach::NearPlain => builder.no_proxy().tls_certs_only([]),
            ServerReach::NearTls => builder.no_proxy(),
            ServerReach::Far => builder,
        };
        let client = builder.build().map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            WireFailure::NotConnected(format!("TLS: {}", cause.unwrap_or_default()))
        })?;
        clients.insert((reach, connect), client.clone());
        Ok(client)
    }
}

/// Where a server is, and what every message to it carries.
#[derive(Clone, Debug)]
pub(super) struct ServerAddress {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) token: SentToken,
    /// Signs each request, where no token is configured.
    pub(super) bearer: Option<ServerBearer>,
    /// What must not appear in a text for people, should the server repeat it.
    pub(super) secrets: ServerSecrets,
}

/// `environment` gives the daemon's own variables; `learn` is told what no log may have.
pub(super) fn address(
    http: &HttpServerSettings,
    environment: &(dyn Fn(&str) -> Option<String> + Send + Sync),
    learn: &LearnSecret,
    sign_in: &SignIn,
) -> Result<ServerAddress, WireFailure> {
    // The text of the URL is not repeated: it may hold a password.
    let url = Url::parse(&http.url)
        .map_err(|error| WireFailure::NotConnected(format!("the url is none: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        let why = "the url does not begin with http:// or https://";
        return Err(WireFailure::NotConnected(why.to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why =
            "a name or a password has no place in a url; auth_env names a token, or set headers";
        return Err(WireFailure::NotConnected(why.to_owned()));
    }
    let mut headers = HeaderMap::new();
    let mut secrets = ServerSecrets::of_named(&http.headers, learn);
    for (name, value) in &http.headers {
        let unusable = || WireFailure::NotConnected(format!("the header {name:?} cannot be sent"));
        let known = HeaderName::try_from(name.as_str()).map_err(|_invalid| unusable())?;
        let mut sent = HeaderValue::try_from(value.as_str()).map_err(|_invalid| unusable())?;
        sent.set_sensitive(true);
        headers.insert(known, sent);
        secrets.hide(value);
    }
    let (token, value) = match &http.auth {
        BearerSource::None => (SentToken::None, None),
        BearerSource::Token(token) => (SentToken::Literal, Some(token.clone())),
        BearerSource::Env(name) => match environment(name).filter(|it| !it.trim().is_empty()) {
            Some(value) => (SentToken::Env(name.clone()), Some(value)),
            None => (SentToken::EnvUnset(name.clone()), None),
        },
    };
    if let Some(value) = value {
        let value = value.trim();
        secrets.add_key(value, learn);
        let mut sent = HeaderValue::try_from(format!("Bearer {value}")).map_err(|_invalid| {
            WireFailure::NotConnected("the token holds characters that cannot be sent".to_owned())
        })?;
        sent.set_sensitive(true);
        headers.insert(AUTHORIZATION, sent);
    }
    let bearer = (token == SentToken::None && !headers.contains_key(AUTHORIZATION))
        .then(|| sign_in.of_server(&url, &http.oauth));
    if let Some(bearer) = &bearer {
        secrets.follow(bearer.clone());
    }
    Ok(ServerAddress {
        url,
        headers,
        token,
        bearer,
        secrets,
    })
}
