//! HTTP clients: made when the first request needs them, so that an idle daemon holds no TLS roots.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};

use super::key::Secret;
use aishd_http::tls;
use aishd_mcp_messages::reach::Reach;
use aishd_model::preset::Endpoint;
use aishd_model::reply::Failure;

/// Local servers close idle connections after about five seconds; asking on one that is just closing would fail.
const LOCAL_POOL_IDLE: Duration = Duration::from_secs(3);
const REMOTE_POOL_IDLE: Duration = Duration::from_secs(60);

/// One client for each reach, and one more for every other connect timeout, which is set per client.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<BTreeMap<(Reach, Duration), Client>>);

impl Clients {
    pub(super) fn get(&self, reach: Reach, connect: Duration) -> Result<Client, Failure> {
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
        let builder = match reach {
            Reach::NearPlain => builder
                .no_proxy()
                .pool_idle_timeout(LOCAL_POOL_IDLE)
                .tls_certs_only([]),
            Reach::NearTls => builder.no_proxy().pool_idle_timeout(LOCAL_POOL_IDLE),
            Reach::Far => builder.pool_idle_timeout(REMOTE_POOL_IDLE),
        };
        let client = builder.build().map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            Failure::Transport(format!("TLS: {}", cause.unwrap_or_default()))
        })?;
        clients.insert((reach, connect), client.clone());
        Ok(client)
    }
}

pub(super) fn address(endpoint: &Endpoint, below: &str) -> Result<Url, Failure> {
    if endpoint.url.trim().is_empty() {
        return Err(Failure::Config("the preset has no endpoint".to_owned()));
    }
    // The text of the endpoint is not repeated: it may hold a password.
    let url = Url::parse(&endpoint.address(below))
        .map_err(|error| Failure::Config(format!("the endpoint is no URL: {error}")))?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(Failure::Config(
            "the endpoint is no http:// or https:// URL".to_owned(),
        ))
    }
}

pub(super) fn headers(endpoint: &Endpoint, key: Option<&Secret>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in &endpoint.headers {
        let unusable = || Failure::Config(format!("the header {name:?} cannot be sent"));
        headers.insert(
            HeaderName::try_from(name.as_str()).map_err(|_invalid| unusable())?,
            HeaderValue::try_from(value.as_str()).map_err(|_invalid| unusable())?,
        );
    }
    if let Some(key) = key {
        let mut value =
            HeaderValue::try_from(format!("Bearer {}", key.expose())).map_err(|_invalid| {
                Failure::Config("the key holds characters that cannot be sent".to_owned())
            })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

pub(super) fn reach(url: &Url) -> Reach {
    Reach::of(url.scheme(), url.host_str().unwrap_or_default())
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_loopback())
}
