//! HTTP clients: made when the first request needs them, so that an idle daemon holds no TLS roots.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};

use super::key::Secret;
use crate::core::preset::Endpoint;
use crate::core::reply::Failure;

/// Local servers close idle connections after about five seconds; asking on one that is just closing would fail.
const LOCAL_POOL_IDLE: Duration = Duration::from_secs(3);
const REMOTE_POOL_IDLE: Duration = Duration::from_secs(60);

/// Whether the proxies of the environment apply, and whether certificates are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// This machine or its network: a proxy would be handed the prompt and the key for nothing. Without TLS no roots
    /// are loaded, which takes memory and fails where a container has none.
    NearPlain,
    NearTls,
    Far,
}

/// One client for each reach, and one more for every other connect timeout, which is set per client.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<BTreeMap<(Reach, Duration), Client>>);

impl Clients {
    pub(super) fn get(&self, reach: Reach, connect: Duration) -> Result<Client, Failure> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(reach, connect)) {
            return Ok(client.clone());
        }
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
    let host = url.host_str().unwrap_or_default();
    let near = match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(ip)) => {
            let carrier_grade = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || carrier_grade
        }
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                || mapped_near(ip)
        }
        // A name without a dot is a neighbour's.
        Err(_name) => {
            !host.contains('.')
                || [".localhost", ".local", ".lan", ".internal", ".home.arpa"]
                    .iter()
                    .any(|ending| host.ends_with(ending))
        }
    };
    match (near, url.scheme()) {
        (true, "http") => Reach::NearPlain,
        (true, _) => Reach::NearTls,
        (false, _) => Reach::Far,
    }
}

fn mapped_near(ip: Ipv6Addr) -> bool {
    ip.to_ipv4_mapped()
        .is_some_and(|ip| ip.is_loopback() || ip.is_private())
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Reach) {
        assert_eq!(expected, reach(&Url::parse(url).unwrap()), "{url}");
    }

    #[test]
    fn no_proxy_sees_what_stays_near() {
        for near in [
            "http://127.0.0.1:1",
            "http://localhost",
            "http://[::1]:1",
            "http://192.168.1.2",
            "http://10.0.0.1",
            "http://100.64.0.1",
            "http://boltzmann:8000",
            "http://nas.local",
            "http://[fd00::1]",
            "http://[::ffff:127.0.0.1]",
        ] {
            check(near, Reach::NearPlain);
        }
        check("https://nas.local:8443", Reach::NearTls);
        for far in [
            "https://api.openai.com/v1",
            "http://8.8.8.8",
            "http://100.128.0.1",
            "http://[2001:db8::1]",
            "https://localhost.evil.example",
        ] {
            check(far, Reach::Far);
        }
    }
}
