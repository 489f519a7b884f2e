//! HTTP clients: made when the first request needs them, so that an idle daemon holds no TLS roots.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use aishd_http::tls;
use aishd_log::api_dialect::ApiDialect;
use aishd_mcp_messages::server_reach::ServerReach;
use aishd_model::preset::{KeyHeader, ModelEndpoint};
use aishd_model::reply::RequestFailure;
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};

use super::api_key::ApiKey;

/// How long a connection to a server elsewhere waits for the next request.
const FAR_POOL_IDLE: Duration = Duration::from_secs(60);

/// Of Anthropic's API, which has had no other since.
const MESSAGES_VERSION: &str = "2023-06-01";
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// One client for each reach, and one more for every other connect timeout, which is set per client.
#[derive(Debug, Default)]
pub(super) struct HttpClients(Mutex<BTreeMap<(ServerReach, Duration), Client>>);

impl HttpClients {
    pub(super) fn get(
        &self,
        reach: ServerReach,
        connect: Duration,
    ) -> Result<Client, RequestFailure> {
        let mut clients = self.0.lock();
        if let Some(client) = clients.get(&(reach, connect)) {
            return Ok(client.clone());
        }
        tls::provide();
        let builder = Client::builder()
            .user_agent(concat!("aish/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(connect);
        // Near ones are quickly connected to, and some close a connection that they said stays open, as llama.cpp's does
        // after every stream: what is asked on one that is just closing fails.
        let builder = match reach {
            ServerReach::NearPlain => builder
                .no_proxy()
                .pool_max_idle_per_host(0)
                .tls_certs_only([]),
            ServerReach::NearTls => builder.no_proxy().pool_max_idle_per_host(0),
            ServerReach::Far => builder.pool_idle_timeout(FAR_POOL_IDLE),
        };
        let client = builder.build().map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            RequestFailure::Transport(format!("TLS: {}", cause.unwrap_or_default()))
        })?;
        clients.insert((reach, connect), client.clone());
        Ok(client)
    }
}

pub(super) fn address(endpoint: &ModelEndpoint, below: &str) -> Result<Url, RequestFailure> {
    if endpoint.url.trim().is_empty() {
        return Err(RequestFailure::Config(
            "the preset has no endpoint".to_owned(),
        ));
    }
    // The text of the endpoint is not repeated: it may hold a password.
    let url = Url::parse(&endpoint.address(below))
        .map_err(|error| RequestFailure::Config(format!("the endpoint is no URL: {error}")))?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(RequestFailure::Config(
            "the endpoint is no http:// or https:// URL".to_owned(),
        ))
    }
}

pub(super) fn headers(
    endpoint: &ModelEndpoint,
    key: Option<&ApiKey>,
) -> Result<HeaderMap, RequestFailure> {
    let mut headers = HeaderMap::new();
    if endpoint.api == ApiDialect::Messages {
        headers.insert(VERSION, HeaderValue::from_static(MESSAGES_VERSION));
    }
    for (name, value) in &endpoint.headers {
        let unusable = || RequestFailure::Config(format!("the header {name:?} cannot be sent"));
        headers.insert(
            HeaderName::try_from(name.as_str()).map_err(|_invalid| unusable())?,
            HeaderValue::try_from(value.as_str()).map_err(|_invalid| unusable())?,
        );
    }
    let Some(key) = key else {
        return Ok(headers);
    };
    let (name, value) = match endpoint.auth {
        KeyHeader::None => return Ok(headers),
        KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
        KeyHeader::XApiKey => (X_API_KEY, key.expose().to_owned()),
        KeyHeader::ApiKey => (API_KEY, key.expose().to_owned()),
    };
    let mut value = HeaderValue::try_from(value).map_err(|_invalid| {
        RequestFailure::Config("the key holds characters that cannot be sent".to_owned())
    })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

pub(super) fn reach(url: &Url) -> ServerReach {
    ServerReach::of(url.scheme(), url.host_str().unwrap_or_default())
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_loopback())
}
